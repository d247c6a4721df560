/* The vocabulary is made from a text, searched by bisection, and saved as vocab.json. Reading checks the order in the
   file, since an id is an index into it. */
#include "data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"

static const char THE_VOCABULARY[] = "the vocabulary";

Vocabulary vocabulary_make(const uint32_t *characters, size_t count) {
    unsigned char *seen = memory_make(UTF8_CODES, 1, THE_VOCABULARY);
    Vocabulary vocabulary = {0};
    size_t distinct = 0;
    for (size_t i = 0; i < count; i++) {
        distinct += !seen[characters[i]];
        seen[characters[i]] = 1;
    }
    vocabulary.characters = memory_make(distinct, sizeof *vocabulary.characters, THE_VOCABULARY);
    for (uint32_t c = 0; vocabulary.count < distinct; c++)
        if (seen[c]) vocabulary.characters[vocabulary.count++] = c;
    memory_free(seen);
    return vocabulary;
}

static int compare_characters(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int32_t vocabulary_id(const Vocabulary *v, uint32_t character) {
    const uint32_t *found = bsearch(&character, v->characters, v->count, sizeof character, compare_characters);
    return found ? (int32_t)(found - v->characters) : -1;
}

size_t vocabulary_encode(const Vocabulary *vocabulary, const char *what, const char *text, size_t size, int32_t *ids,
                         size_t capacity) {
    size_t count = 0;
    for (size_t at = 0; at < size;) {
        uint32_t c;
        size_t length = utf8_decode(text + at, size - at, &c);
        if (length == 0) usage_error("%s is not UTF-8: byte %zu is 0x%02x", what, at + 1, (unsigned char)text[at]);
        int32_t id = vocabulary_id(vocabulary, c);
        if (id < 0)
            usage_error("%s has the character '%.*s' (U+%04X), which the corpus does not have: leave it out", what,
                        (int)length, text + at, (unsigned)c);
        if (count == capacity) usage_error("%s is longer than the %zu characters that fit", what, capacity);
        ids[count++] = id;
        at += length;
    }
    return count;
}

Json *vocabulary_json(const Vocabulary *vocabulary) {
    Json *array = js_array();
    for (size_t i = 0; i < vocabulary->count; i++) {
        char text[5];
        utf8_encode(vocabulary->characters[i], text);
        js_append(array, js_text(text));
    }
    return array;
}

void vocabulary_save(const Vocabulary *vocabulary, const Directory *directory, const char *name) {
    js_save(vocabulary_json(vocabulary), JS_LINE, directory, name);
}

Vocabulary vocabulary_load(const char *path) {
    Json *array = js_load(path, THE_VOCABULARY);
    const size_t count = js_array_size(array);
    if (count == 0) usage_error("%s holds no list of characters", path);
    uint32_t *characters = memory_make(count, sizeof *characters, THE_VOCABULARY);
    for (size_t i = 0; i < count; i++) {
        const char *text = js_as_text(js_at(array, i));
        const size_t size = text ? strlen(text) : 0;
        if (size == 0 || utf8_decode(text, size, &characters[i]) != size)
            usage_error("%s: entry %zu is not a string of one character", path, i);
        if (i > 0 && characters[i] <= characters[i - 1]) usage_error("%s: entry %zu is out of order", path, i);
    }
    return (Vocabulary){characters, count};
}
