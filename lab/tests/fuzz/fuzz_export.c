/* A run that was changed, and its export for transformers. The first line of the input names the file that the rest
   replaces (fuzz_put_changed). An export is whole, or nothing of it is there. */
#include <math.h>

#include "base/files.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "lab/lab.h"
#include "run.h"

static char directory[256], out[256];
static Vocabulary vocabulary;

static void read_vocabulary(void *unused) {
    char path[PATH_CAPACITY];
    (void)unused;
    path_join(path, directory, "vocab.json");
    vocabulary = vocabulary_load(path);
}

/* Exports the run. What the verb prints goes nowhere. */
static void export(void *unused) {
    char *argv[] = {"export", directory, "--hf", out, "--quiet", NULL};
    Command command = {.processors = 1, .argv = argv};
    (void)unused;
    command_parse(&export_verb, 5, argv, &command);
    export_verb.run(&command);
}

/* Checks what was written: each character has its id, and each number is finite. */
static void check_export(void *unused) {
    char path[PATH_CAPACITY];
    (void)unused;
    path_join(path, out, "tokenizer.json");
    const Json *ids = js_get(js_get(js_load(path, "the tokenizer"), "model"), "vocab");
    for (size_t id = 0; id < vocabulary.count; id++) {
        char character[5];
        double written = -1;
        utf8_encode(vocabulary.characters[id], character);
        REQUIRE(js_as_number(js_get(ids, character), &written) && written == (double)id);
    }
    path_join(path, out, "config.json");
    js_load(path, "the config");
    path_join(path, out, "model.safetensors");
    size_t size;
    uint64_t header;
    uint8_t *file = fuzz_get(path, &size);
    memcpy(&header, file, sizeof header);
    REQUIRE(header < size);
    for (size_t at = sizeof header + header; at + sizeof(float) <= size; at += sizeof(float)) {
        float number;
        memcpy(&number, file + at, sizeof number);
        REQUIRE(isfinite(number));
    }
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!*directory) {
        fuzz_make_run("run");
        fuzz_path("run", directory);
        fuzz_path("hf", out);
    }
    const size_t mark = memory_mark();
    const int standard = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);
    REQUIRE(standard >= 0 && nowhere >= 0 && fflush(stdout) == 0 && dup2(nowhere, STDOUT_FILENO) >= 0);
    fuzz_put_changed("run", FUZZ_RUN_FILES, FUZZ_RUN_COUNT, data, size);
    const bool readable = fuzz_answer(read_vocabulary, NULL);
    const bool done = fuzz_answer(export, NULL);
    REQUIRE(fflush(stdout) == 0 && dup2(standard, STDOUT_FILENO) >= 0 && close(standard) == 0 && close(nowhere) == 0);
    if (done) {
        REQUIRE(readable);
        check_export(NULL);
        const int fd = open(out, O_RDONLY | O_DIRECTORY);
        REQUIRE(fd >= 0);
        directory_empty(fd);
        close(fd);
        REQUIRE(rmdir(out) == 0);
    } else REQUIRE(access(out, F_OK) != 0);
    memory_release(mark);
    return 0;
}
