/* metrics.csv and attention.csv. The input is rows, which follow the header that the program writes; one that begins
   with "step," is a whole file. */
#include "fuzz.h"
#include "run/logs.h"

static Log log_read;
static LogTable table;

static void read_log(void *directory) { table = logs_read(directory, log_read); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *headers[LOG_SAMPLES];
    static size_t header_sizes[LOG_SAMPLES];
    const size_t mark = memory_mark();
    bool accepted = false;
    if (!headers[0]) {
        char path[256];
        memory_free(logs_start(fuzz_opened_directory()));
        for (Log log = 0; log < LOG_SAMPLES; log++) {
            snprintf(path, sizeof path, "%s/%s", fuzz_directory(), LOG_NAMES[log]);
            headers[log] = (char *)fuzz_get(path, &header_sizes[log]);
        }
    }
    const bool whole = size > 5 && memcmp(data, "step,", 5) == 0;
    for (log_read = 0; log_read < LOG_SAMPLES; log_read++) {
        const size_t before = whole ? 0 : header_sizes[log_read];
        char *text = memory_make(before + size, 1, "a log");
        memcpy(text, headers[log_read], before);
        memcpy(text + before, data, size);
        fuzz_put(LOG_NAMES[log_read], text, before + size);
        if (!fuzz_answer(read_log, (char *)fuzz_directory())) continue;
        double sum = 0;
        for (int c = 0; c < (log_read == LOG_METRICS ? METRICS_COLUMNS : ATTENTION_COLUMNS); c++)
            for (size_t i = 0; i < table.rows; i++) sum += table.column[c][i];
        REQUIRE(sum == sum || sum != sum); /* every number was read */
        accepted = accepted || table.rows > 0;
    }
    fuzz_accepted = accepted;
    memory_release(mark);
    return 0;
}
