/* What the logs hold is what reading them gives back; a resumed run's are cut to where its checkpoint was made; and
   what is no log of this program is refused, or changes nothing. The numbers a run writes are tested in
   test_run_files.c. */
#include "training.h"

#include "train/logs.h"

/* An independent reader's numbers (read_table), to the last digit. */
static void assert_same_table(const LogTable *table, const Table *expected) {
    assert_int_equal(table->rows, expected->rows);
    for (size_t row = 0; row < table->rows; row++)
        for (size_t c = 0; c < expected->columns; c++) {
            const double number = table->column[c][row], other = expected->at[row][c];
            assert_that(number == other || (isnan(number) && isnan(other)), "column %zu of row %zu", c, row);
        }
}

static void a_runs_logs(void **state) {
    (void)state;
    LogTable table;
    Error err = {0};
    CONFIGURE("model.layers=2");
    train("run", 1);
    bool there;
    assert_true(logs_find(in("run"), LOG_METRICS, &there, &err) && there);
    assert_true(logs_find(temporary, LOG_METRICS, &there, &err) && !there);
    assert_that(logs_read(in("run"), LOG_METRICS, 0, SIZE_MAX, &table, &err), "%s", err.message);
    assert_same_table(&table, read_metrics("run"));
    assert_true(log_last(&table, METRICS_VAL_LOSS) == last_of(read_metrics("run"), VAL_LOSS));
    log_table_free(&table);
    char *header = contents(in("run/attention.csv"), NULL);
    header[strcspn(header, "\n")] = 0;
    assert_that(logs_read(in("run"), LOG_ATTENTION, 0, SIZE_MAX, &table, &err), "%s", err.message);
    assert_same_table(&table, read_table(in("run/attention.csv"), header));
    const double *heads = table.column[ATTENTION_HEAD];
    for (size_t row = 0; row < table.rows; row++) assert_true(heads[row] == (double)(row % 2));
    log_table_free(&table);
}

static void append(const Logs *logs, double step, double val_loss) {
    const double row[METRICS_COLUMNS] = {step, 64 * step, 0.12345, 1e-3, 2.123456789, val_loss, 3};
    Error err;
    logs_append(logs, LOG_METRICS, row);
    assert_true(logs_flush(logs, LOG_METRICS, &err));
}

/* Rows in the digits of docs/formats.md; cut back, and appended to again. */
static void cut_back(void **state) {
    (void)state;
    static const char *const lines = "step,tokens,seconds,lr,train_loss,val_loss,grad_norm\n"
                                     "0,0,0.123,0.001,2.123457,3.5,3\n10,640,0.123,0.001,2.123457,,3\n";
    Logs logs;
    Error err = {0};
    size_t size[LOG_COUNT], ended[LOG_COUNT];
    assert_true(logs_start(&logs, temporary, &err));
    append(&logs, 0, 3.5);
    append(&logs, 10, NAN);
    fputs("text\n", logs.file[LOG_SAMPLES]);
    assert_true(logs_sync(&logs, &err));
    logs_sizes(&logs, size);
    assert_int_equal(size[LOG_METRICS], strlen(lines));
    assert_string_equal(contents(in("metrics.csv"), NULL), lines);
    append(&logs, 20, 3);
    logs_close(&logs);
    FILE *torn = fopen(in("metrics.csv"), "ab"); /* killed on the way through a row */
    fputs("30,1920,0.1", torn);
    fclose(torn);
    assert_that(logs_resume(&logs, temporary, size, &err), "%s", err.message);
    assert_string_equal(contents(in("metrics.csv"), NULL), lines);
    logs_sizes(&logs, ended);
    assert_memory_equal(size, ended, sizeof size);
    append(&logs, 20, NAN);
    logs_close(&logs);
    LogTable table;
    assert_true(logs_read(temporary, LOG_METRICS, 0, SIZE_MAX, &table, &err));
    assert_int_equal(table.rows, 3);
    assert_true(table.column[METRICS_STEP][2] == 20 && log_last(&table, METRICS_VAL_LOSS) == 3.5);
    log_table_free(&table);
}

/* As many rows as there are: nothing was sized for fewer. */
static void many_rows(void **state) {
    (void)state;
    enum { ROWS = 20000 };
    Logs logs;
    LogTable table;
    Error err = {0};
    assert_true(logs_start(&logs, temporary, &err));
    for (int i = 0; i < ROWS; i++) append(&logs, i, i % 2 ? (double)NAN : (double)i);
    logs_close(&logs);
    assert_true(logs_read(temporary, LOG_METRICS, 0, SIZE_MAX, &table, &err));
    assert_int_equal(table.rows, ROWS);
    for (int i = 0; i < ROWS; i++) assert_true(table.column[METRICS_STEP][i] == i);
    log_table_free(&table);
}

#define HEADER "step,tokens,seconds,lr,train_loss,val_loss,grad_norm\n"
static void refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"", "no line of column names"},
        {"step,tokens,seconds,lr,train_loss,grad_norm\n", "val_loss"},
        {HEADER "0,0,0,1,2,3\n", "metrics.csv:2"},
        {HEADER "0,0,0,1,2,3,4,5\n", "metrics.csv:2"},
        {HEADER "0,0,0,1,two,3,4\n", "metrics.csv:2"},
        {HEADER "0,0,0,1,2,3,4\n-1,0,0,1,2,3,4\n", "metrics.csv:3: its step"},
        {HEADER "0.5,0,0,1,2,3,4\n", "its step"},
        {HEADER ",0,0,1,2,3,4\n", "its step"},
        {HEADER "nan,0,0,1,2,3,4\n", "its step"},
        {HEADER "1e300,0,0,1,2,3,4\n", "its step"},
        {HEADER "0,inf,0,1,2,3,4\n", "its tokens"},
        {HEADER "0,0,0,1,,3,4\n", "metrics.csv:2: its train_loss is empty"},
        {HEADER "0,0,0,1,2,3,4\n\n", "metrics.csv:3 is not a row of 7 numbers"},
        {HEADER "0,0,0,1,2,3, \n4\n", "metrics.csv:2"},
        {HEADER HEADER, "metrics.csv:2"},
        {"step", "no line of column names"},
    };
    LogTable table;
    Error err = {0};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        put_text("metrics.csv", bad[i][0]);
        assert_refused(logs_read(temporary, LOG_METRICS, 0, SIZE_MAX, &table, &err), &err, bad[i][1], bad[i][0]);
        log_table_free(&table);
    }
    assert_refused(logs_read(in("nowhere"), LOG_METRICS, 0, SIZE_MAX, &table, &err), &err, "nowhere/metrics.csv",
                   "no file");
    log_table_free(&table);
}

/* Columns that a later version adds, in whatever place, change nothing; nor does a line that is not whole yet. */
static void other_columns(void **state) {
    (void)state;
    Error err = {0};
    LogTable table;
    char names[4096] = "";
    put_text("metrics.csv", "new,val_loss,grad_norm,train_loss,lr,seconds,tokens,step,newer\n"
                            "7,,1,2.5,3,4,5,6,\n8,9,1,2,3,4,5,16,7\n9,9,9,9,9,9,9,9,9");
    assert_that(logs_read(temporary, LOG_METRICS, 0, SIZE_MAX, &table, &err), "%s", err.message);
    assert_int_equal(table.rows, 2);
    assert_true(table.column[METRICS_STEP][1] == 16 && table.column[METRICS_TRAIN_LOSS][0] == 2.5);
    assert_true(isnan(table.column[METRICS_VAL_LOSS][0]) && log_last(&table, METRICS_VAL_LOSS) == 9);
    log_table_free(&table);
    for (int i = 0; i < 260; i++) snprintf(names + strlen(names), 8, "c%d,", i);
    put_text("metrics.csv", strcat(names, HEADER));
    assert_refused(logs_read(temporary, LOG_METRICS, 0, SIZE_MAX, &table, &err), &err, "more than 256", "columns");
    log_table_free(&table);
}

static void assert_steps(size_t from, size_t limit, size_t rows, double first, size_t end) {
    Error err = {0};
    LogTable table;
    assert_that(logs_read(temporary, LOG_METRICS, from, limit, &table, &err), "%s", err.message);
    assert_int_equal(table.rows, rows);
    assert_int_equal(table.end, end);
    if (rows) assert_true(table.column[METRICS_STEP][0] == first);
    log_table_free(&table);
}

/* A part of the rows: those since the last reading, and those of a checkpoint. */
static void parts(void **state) {
    (void)state;
#define FIRST "100,2,3,4,5,6,7\n"
#define SECOND "200,2,3,4,5,,7\n"
    const size_t header = strlen(HEADER), first = header + strlen(FIRST), second = first + strlen(SECOND);
    Error err = {0};
    LogTable table;
    put_text("metrics.csv", HEADER FIRST SECOND "300,2,3");
    assert_steps(0, SIZE_MAX, 2, 100, second);
    assert_steps(header, SIZE_MAX, 2, 100, second);
    assert_steps(first, SIZE_MAX, 1, 200, second);
    assert_steps(second, SIZE_MAX, 0, 0, second);
    assert_steps(0, second - 1, 1, 100, first);
    assert_steps(first, first, 0, 0, first);
    assert_steps(first + 1, SIZE_MAX, 2, 100, second);    /* no row begins there */
    assert_steps(second + 100, SIZE_MAX, 2, 100, second); /* the log was cut back */
    put_text("metrics.csv", HEADER "torn\n" SECOND "x,2,3,4,5,,7\n");
    assert_steps(header + 5, header + 5 + strlen(SECOND), 1, 200, header + 5 + strlen(SECOND));
    assert_refused(logs_read(temporary, LOG_METRICS, header + 5, SIZE_MAX, &table, &err), &err,
                   "metrics.csv:2, counted from byte", "a bad row behind the offset");
    log_table_free(&table);
    put("metrics.csv", HEADER "1,2,3,4,5\0,6,7\n", header + strlen("1,2,3,4,5") + 6);
    assert_refused(logs_read(temporary, LOG_METRICS, 0, SIZE_MAX, &table, &err), &err, "metrics.csv:2", "a zero byte");
    log_table_free(&table);
}

/* What is compared for the best is what the row says. */
static void rounding(void **state) {
    (void)state;
    assert_true(logs_rounded(2.12345678) == 2.123457 && logs_rounded(1e-9) == 1e-9 && logs_rounded(3) == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TRAINING_TEST(a_runs_logs),   TRAINING_TEST(cut_back), TRAINING_TEST(many_rows), TRAINING_TEST(refused),
        TRAINING_TEST(other_columns), TRAINING_TEST(parts),    TRAINING_TEST(rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
