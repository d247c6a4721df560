/* The state in a checkpoint's metadata. An input that is a JSON object has entries that take the place of the state's;
   any other input is the state itself. */
#include "base/json.h"
#include "base/safetensors.h"
#include "checkpoint.h"

static uint8_t *file;
static size_t file_size;
static Json *header;

/* The header's metadata, with a state that is the input or has its entries. */
static void change_state(Json *metadata, const char *state, const char *text, size_t size) {
    Json *entries = NULL, *changed = NULL;
    Error err;
    char *input = strndup(text, size), *dumped = NULL;
    REQUIRE(input && js_parse(state, strlen(state), "the state", &changed, &err));
    if (js_parse(text, size, "the input", &entries, &err)) {
        for (size_t i = 0; i < js_object_size(entries); i++) {
            const char *key = js_object_key(entries, i);
            js_set(changed, key, js_copy((Json *)js_get(entries, key)));
        }
        REQUIRE(js_dump(changed, JS_LINE, &dumped, &err));
    }
    js_set(metadata, "state", js_text(dumped ? dumped : input));
    js_free(entries);
    js_free(changed);
    free(dumped);
    free(input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error err;
    uint64_t length;
    char *text = NULL;
    if (!file) file = fuzz_make_checkpoint(&file_size);
    memcpy(&length, file, sizeof length);
    REQUIRE(js_parse((const char *)file + 8, (size_t)length, "the header", &header, &err));
    Json *metadata = (Json *)js_get(header, "__metadata__");
    char *state = strdup(js_as_text(js_get(metadata, "state")));
    REQUIRE(state);
    change_state(metadata, state, (const char *)data, size);
    free(state);
    REQUIRE(js_dump(header, JS_LINE, &text, &err));
    js_free(header);
    const size_t numbers = file_size - 8 - (size_t)length;
    const uint64_t new_length = strlen(text);
    uint8_t *changed = malloc(8 + new_length + numbers);
    REQUIRE(changed);
    memcpy(changed, &new_length, 8);
    memcpy(changed + 8, text, new_length);
    memcpy(changed + 8 + new_length, file + 8 + length, numbers);
    fuzz_load_checkpoint(changed, 8 + new_length + numbers);
    free(changed);
    free(text);
    return 0;
}
