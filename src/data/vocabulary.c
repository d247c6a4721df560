/* The vocabulary: it is made from a text, searched by bisection, and saved as vocab.json. The order in the file is
   checked when it is read, since an id is a place in that order. */
#include "data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static bool no_memory(Error *err) { return runtime_error(err, "no memory for the vocabulary"); }

bool vocabulary_make(Vocabulary *vocabulary, const uint32_t *characters, size_t count, Error *err) {
    unsigned char *seen = calloc(UTF8_CODES, 1);
    size_t distinct = 0;
    *vocabulary = (Vocabulary){0};
    if (!seen) return no_memory(err);
    for (size_t i = 0; i < count; i++) {
        distinct += !seen[characters[i]];
        seen[characters[i]] = 1;
    }
    vocabulary->characters = malloc((distinct + 1) * sizeof *vocabulary->characters);
    if (vocabulary->characters)
        for (uint32_t c = 0; vocabulary->count < distinct; c++)
            if (seen[c]) vocabulary->characters[vocabulary->count++] = c;
    free(seen);
    return vocabulary->characters || no_memory(err);
}

void vocabulary_free(Vocabulary *vocabulary) {
    free(vocabulary->characters);
    *vocabulary = (Vocabulary){0};
}

static int compare_characters(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}
int32_t vocabulary_id(const Vocabulary *v, uint32_t character) {
    const uint32_t *found = bsearch(&character, v->characters, v->count, sizeof character, compare_characters);
    return found ? (int32_t)(found - v->characters) : -1;
}

bool vocabulary_encode(const Vocabulary *vocabulary, const char *what, const char *text, size_t size, int32_t *ids,
                       size_t capacity, size_t *count, Error *err) {
    *count = 0;
    for (size_t at = 0; at < size;) {
        uint32_t c;
        size_t length = utf8_decode(text + at, size - at, &c);
        if (length == 0)
            return usage_error(err, "%s is not UTF-8: byte %zu is 0x%02x", what, at + 1, (unsigned char)text[at]);
        int32_t id = vocabulary_id(vocabulary, c);
        if (id < 0)
            return usage_error(err,
                               "%s has the character '%.*s' (U+%04X), which the corpus does not have: leave it out",
                               what, (int)length, text + at, (unsigned)c);
        if (*count == capacity)
            return usage_error(err, "%s is longer than the %zu characters that fit", what, capacity);
        ids[(*count)++] = id;
        at += length;
    }
    return true;
}

bool vocabulary_save(const Vocabulary *vocabulary, const Directory *directory, const char *name, Error *err) {
    Json *array = js_array();
    for (size_t i = 0; i < vocabulary->count; i++) {
        char text[5];
        utf8_encode(vocabulary->characters[i], text);
        js_append(array, js_text(text));
    }
    return js_save(array, JS_LINE, directory, name, err);
}

static bool read_characters(Vocabulary *vocabulary, const Json *array, const char *path, Error *err) {
    const size_t count = js_array_size(array);
    if (count == 0) return usage_error(err, "%s holds no list of characters", path);
    vocabulary->characters = malloc(count * sizeof *vocabulary->characters);
    if (!vocabulary->characters) return no_memory(err);
    for (; vocabulary->count < count; vocabulary->count++) {
        const size_t i = vocabulary->count;
        uint32_t *character = &vocabulary->characters[i];
        const char *text = js_as_text(js_at(array, i));
        const size_t size = text ? strlen(text) : 0;
        if (size == 0 || utf8_decode(text, size, character) != size)
            return usage_error(err, "%s: entry %zu is not a string of one character", path, i);
        if (i > 0 && character[0] <= character[-1]) return usage_error(err, "%s: entry %zu is out of order", path, i);
    }
    return true;
}

bool vocabulary_load(Vocabulary *vocabulary, const char *path, Error *err) {
    Json *array;
    *vocabulary = (Vocabulary){0};
    if (!js_load(&array, path, "the vocabulary", err)) return false;
    const bool ok = read_characters(vocabulary, array, path, err);
    js_free(array);
    if (!ok) vocabulary_free(vocabulary);
    return ok;
}
