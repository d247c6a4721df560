/* attention/stepNNNNNN.safetensors: what the program wrote, with the changes that the input makes (fuzz_edit). */
#include "fuzz.h"
#include "lab/attend.h"
#include "run/snapshot.h"

static Snapshot snapshot;

static void load(void *directory) { snapshot = snapshot_load(directory, fuzz_config(), 2); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint32_t text[] = {'a', 'b', 0xe9};
    static uint8_t *file;
    static size_t file_size;
    const size_t mark = memory_mark();
    if (!file) {
        fuzz_config();
        fuzz_make_directory("attention");
        snapshot = snapshot_make(1, 1, text, 3);
        snapshot.step = 2;
        snapshot_save(&snapshot, fuzz_opened_directory());
        file = fuzz_get_written("attention/step000002.safetensors", &file_size);
    }
    size_t edited_size = file_size;
    uint8_t *edited = fuzz_edit_safetensors(file, &edited_size, data, size);
    fuzz_put("attention/step000002.safetensors", edited, edited_size);
    free(edited);
    if (fuzz_answer(load, (char *)fuzz_directory())) {
        REQUIRE(snapshot.T > 0 && snapshot.T <= SNAPSHOT_TEXT_MAX);
        snapshot_statistics(&snapshot, 0, 0);
    }
    memory_release(mark);
    return 0;
}
