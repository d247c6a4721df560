/* The state in a checkpoint's metadata. An input that is a JSON object has entries that take the place of the state's;
   any other input is the state itself. */
#include "base/json.h"
#include "base/safetensors.h"
#include "checkpoint.h"

static uint8_t *file;
static size_t file_size;
static uint64_t header_length;
static Json *header, *state;

/* Makes the checkpoint, whose header and state are parsed once for all inputs. */
static void make_file(void) {
    Error err;
    file = fuzz_make_checkpoint(&file_size);
    memcpy(&header_length, file, sizeof header_length);
    REQUIRE(js_parse((const char *)file + 8, (size_t)header_length, "the header", &header, &err));
    const char *text = js_as_text(js_get(js_get(header, "__metadata__"), "state"));
    REQUIRE(text && js_parse(text, strlen(text), "the state", &state, &err));
}

/* The state with the entries of an object in place of its own; the caller frees the text. Afterwards the state is what
   it was. */
static char *replace_entries(const Json *entries) {
    const size_t count = js_object_size(entries);
    Json **before = malloc((count + 1) * sizeof *before);
    Error err;
    char *text = NULL;
    REQUIRE(before);
    for (size_t i = 0; i < count; i++) {
        const char *key = js_object_key(entries, i);
        before[i] = js_copy((Json *)js_get(state, key));
        js_set(state, key, js_copy((Json *)js_get(entries, key)));
    }
    REQUIRE(js_dump(state, JS_LINE, &text, &err));
    for (size_t i = 0; i < count; i++) {
        const char *key = js_object_key(entries, i);
        if (before[i]) js_set(state, key, before[i]);
        else js_remove(state, key);
    }
    free(before);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error err;
    Json *entries = NULL;
    if (!file) make_file();
    const bool object = js_parse((const char *)data, size, "the input", &entries, &err);
    char *new_state = object ? replace_entries(entries) : strndup((const char *)data, size), *text = NULL;
    REQUIRE(new_state);
    js_free(entries);
    js_set((Json *)js_get(header, "__metadata__"), "state", js_text(new_state));
    free(new_state);
    REQUIRE(js_dump(header, JS_LINE, &text, &err));
    const size_t numbers = file_size - 8 - (size_t)header_length;
    const uint64_t new_length = strlen(text);
    uint8_t *changed = malloc(8 + new_length + numbers);
    REQUIRE(changed);
    memcpy(changed, &new_length, 8);
    memcpy(changed + 8, text, new_length);
    memcpy(changed + 8 + new_length, file + 8 + header_length, numbers);
    fuzz_load_checkpoint(changed, 8 + new_length + numbers);
    free(changed);
    free(text);
    return 0;
}
