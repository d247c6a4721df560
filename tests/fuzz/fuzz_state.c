/* The state in a checkpoint's metadata. An input that is a JSON object has entries that take the place of the state's;
   any other input is the state itself. */
#include "base/json.h"
#include "base/safetensors.h"
#include "checkpoint.h"

static uint8_t *file;
static size_t file_size;
static uint64_t header_length;
static char *state_text; /* the state that the program wrote */

static Json *parse_header(void) { return js_parse((const char *)file + 8, (size_t)header_length, "the header"); }

/* Makes the checkpoint, once for all inputs. */
static void make_file(void) {
    file = fuzz_make_checkpoint(&file_size);
    memcpy(&header_length, file, sizeof header_length);
    const char *text = js_as_text(js_get(js_get(parse_header(), "__metadata__"), "state"));
    REQUIRE(text);
    state_text = memory_copy_text(text, strlen(text));
}

/* The input, if it is JSON. */
typedef struct {
    const char *text;
    size_t size;
    Json *value;
} Input;

static void parse(void *input) {
    Input *i = input;
    i->value = js_parse(i->text, i->size, "the input");
}

/* Returns the state with its entries replaced by those of an object. */
static char *replace_entries(const Json *entries) {
    Json *state = js_parse(state_text, strlen(state_text), "the state");
    for (size_t i = 0; i < js_object_size(entries); i++) {
        const char *key = js_object_key(entries, i);
        js_set(state, key, (Json *)js_get(entries, key));
    }
    return js_dump(state, JS_LINE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!file) make_file();
    const size_t mark = memory_mark();
    Input input = {.text = (const char *)data, .size = size};
    Error none;
    const bool is_json = protect(parse, &input, &none);
    const char *new_state =
        is_json ? replace_entries(input.value) : memory_copy_text(input.text, strnlen(input.text, size));
    Json *header = parse_header();
    js_set((Json *)js_get(header, "__metadata__"), "state", js_text(new_state));
    const char *text = js_dump(header, JS_LINE);
    const size_t numbers = file_size - 8 - (size_t)header_length;
    const uint64_t new_length = strlen(text);
    uint8_t *changed = memory_make(8 + new_length + numbers, 1, "a file");
    memcpy(changed, &new_length, 8);
    memcpy(changed + 8, text, new_length);
    memcpy(changed + 8 + new_length, file + 8 + header_length, numbers);
    fuzz_load_checkpoint(changed, 8 + new_length + numbers);
    memory_release(mark);
    return 0;
}
