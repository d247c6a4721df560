/* metrics.csv and attention.csv. The input is rows, which follow the header that the program writes; one that begins
   with "step," is a whole file. */
#include "fuzz.h"
#include "run/logs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *headers[LOG_SAMPLES];
    static size_t header_sizes[LOG_SAMPLES];
    Error err = {0};
    bool accepted = false;
    if (!headers[0]) {
        Logs logs;
        char path[256];
        REQUIRE(logs_start(&logs, fuzz_opened_directory(), &err));
        logs_close(&logs);
        for (Log log = 0; log < LOG_SAMPLES; log++) {
            snprintf(path, sizeof path, "%s/%s", fuzz_directory(), LOG_NAMES[log]);
            headers[log] = (char *)fuzz_get(path, &header_sizes[log]);
        }
    }
    const bool whole = size > 5 && memcmp(data, "step,", 5) == 0;
    for (Log log = 0; log < LOG_SAMPLES; log++) {
        const size_t before = whole ? 0 : header_sizes[log];
        char *text = malloc(before + size + 1);
        LogTable table;
        REQUIRE(text);
        memcpy(text, headers[log], before);
        memcpy(text + before, data, size);
        fuzz_put(LOG_NAMES[log], text, before + size);
        free(text);
        if (fuzz_answer(logs_read(fuzz_directory(), log, &table, &err), &err)) {
            double sum = 0;
            for (int c = 0; c < (log == LOG_METRICS ? METRICS_COLUMNS : ATTENTION_COLUMNS); c++)
                for (size_t i = 0; i < table.rows; i++) sum += table.column[c][i];
            REQUIRE(sum == sum || sum != sum); /* every number was read */
            accepted = accepted || table.rows > 0;
        }
        log_table_free(&table);
    }
    fuzz_accepted = accepted;
    return 0;
}
