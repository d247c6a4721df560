/* samples.txt as a resumed run reads it. The input is the size that the checkpoint names (2 bytes), its step (1 byte)
   and the file. Where the file is accepted, the size ends a line, no sample before that step follows it, and the file
   is cut to it, so that the next sample comes where the first one was that is drawn again. */
#include "fuzz.h"
#include "run/logs.h"

static size_t size_of[LOG_COUNT], step;
static Logs *logs;

static void resume_logs(void *directory) { logs = logs_resume(directory, step, size_of); }

/* Checks that a text does not begin with a sample of an earlier step. */
static void check_rest(const char *text) {
    static const char BEGINNING[] = "==== step ";
    const char *number = text + strlen(BEGINNING);
    if (strncmp(text, BEGINNING, strlen(BEGINNING)) != 0) return;
    const size_t digits = strspn(number, "0123456789");
    if (digits > 0 && digits < 18 && (number[digits] == ',' || number[digits] == '\n'))
        REQUIRE(strtoull(number, NULL, 10) >= step);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t now;
    if (size < 3) return 0;
    const size_t mark = memory_mark();
    const Directory *directory = fuzz_opened_directory();
    Logs *begun = logs_start(directory);
    logs_sizes(begun, size_of);
    memory_free(begun);
    size_of[LOG_SAMPLES] = (size_t)data[0] << 8 | data[1];
    step = data[2];
    const char *path = fuzz_put("samples.txt", data + 3, size - 3);
    char *text = memory_make(size - 2, 1, "a text");
    memcpy(text, data + 3, size - 3);
    if (fuzz_answer(resume_logs, (void *)directory)) {
        const size_t cut = size_of[LOG_SAMPLES];
        REQUIRE(cut <= size - 3 && (cut == 0 || text[cut - 1] == '\n'));
        check_rest(text + cut);
        logs_cut(logs, size_of);
        fputs("==== step 9, a sample\n", logs->file[LOG_SAMPLES]);
        logs_flush(logs, LOG_SAMPLES);
        uint8_t *written = fuzz_get(path, &now);
        REQUIRE(now == cut + strlen("==== step 9, a sample\n") && memcmp(written, text, cut) == 0);
        free(written);
    }
    memory_release(mark);
    return 0;
}
