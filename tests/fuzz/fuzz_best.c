/* checkpoint/best.safetensors: what the program wrote, with the changes that the input makes (fuzz_edit). */
#include "checkpoint.h"

static void load_best(void *run) { fuzz_state = checkpoint_load(run, CHECKPOINT_BEST, &fuzz_model, (Moments){0}); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t *file;
    static size_t file_size;
    if (!file) {
        free(fuzz_make_checkpoint(&file_size));
        checkpoint_save(&fuzz_run, CHECKPOINT_BEST, &fuzz_model, (Moments){0}, &(RunState){.step = 2});
        file = fuzz_get_written("checkpoint/best.safetensors", &file_size);
    }
    size_t edited_size = file_size;
    uint8_t *edited = fuzz_edit_safetensors(file, &edited_size, data, size);
    fuzz_put("checkpoint/best.safetensors", edited, edited_size);
    free(edited);
    if (!fuzz_answer(load_best, &fuzz_run)) return 0;
    for (size_t i = 0; i < fuzz_model.tensors.flat; i++)
        REQUIRE(fuzz_model.parameters[i] - fuzz_model.parameters[i] == 0);
    return 0;
}
