/* checkpoint/last.safetensors: what the program wrote, with the changes that the input makes (fuzz_edit). */
#include "checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t *file;
    static size_t file_size;
    if (!file) file = fuzz_make_checkpoint(&file_size);
    size_t edited_size = file_size;
    uint8_t *edited = fuzz_edit_safetensors(file, &edited_size, data, size);
    fuzz_load_checkpoint(edited, edited_size);
    free(edited);
    return 0;
}
