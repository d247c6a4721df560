/* Logs are read as they were written, those of a resumed run are cut to where its checkpoint was made, and a file that
   is no log of this program is refused. The numbers that a run writes are tested in test_run_files.c. */
#include "training.h"

#include <unistd.h>

#include "run/logs.h"

/* Compares a log with the numbers of an independent reader (read_table), to the last digit. */
static void assert_same_table(const LogTable *table, const Table *expected) {
    assert_int_equal(table->rows, expected->rows);
    for (size_t row = 0; row < table->rows; row++)
        for (size_t c = 0; c < expected->columns; c++) {
            const double number = table->column[c][row], other = expected->at[row][c];
            assert_that(number == other || (isnan(number) && isnan(other)), "column %zu of row %zu", c, row);
        }
}

static void a_runs_logs(void) {
    LogTable table;
    CONFIGURE("model.layers=2");
    train("run", 1);
    assert_int_equal(logs_read_any(temporary, LOG_METRICS).rows, 0);
    table = logs_read_any(in("run"), LOG_METRICS);
    assert_same_table(&table, read_metrics("run"));
    assert_true(log_last(&table, METRICS_VAL_LOSS) == last_of(read_metrics("run"), METRICS_VAL_LOSS));
    char *header = contents(in("run/attention.csv"), NULL);
    header[strcspn(header, "\n")] = 0;
    table = logs_read(in("run"), LOG_ATTENTION);
    assert_same_table(&table, read_table(in("run/attention.csv"), header));
    const double *heads = table.column[ATTENTION_HEAD];
    for (size_t row = 0; row < table.rows; row++) assert_true(heads[row] == (double)(row % 2));
}

/* Appends a row, whose accuracy is a quarter where there is no loss, and whose further columns are empty. */
static void append(const Logs *logs, double step, double val_loss) {
    const double accuracy = isnan(val_loss) ? 0.25 : (double)NAN;
    double row[METRICS_COLUMNS] = {step, 64 * step, 0.12345, 1e-3, 2.123456789, val_loss, 3, accuracy};
    for (size_t c = METRICS_VAL_ACCURACY + 1; c < METRICS_COLUMNS; c++) row[c] = NAN;
    logs_append(logs, LOG_METRICS, row);
    logs_flush(logs, LOG_METRICS);
}

/* Rows have the digits of docs/formats.md. A log is cut back, and appended to again. */
static void cut_back(void) {
    char lines[512], empty[METRICS_COLUMNS - METRICS_VAL_ACCURACY] = "";
    memset(empty, ',', sizeof empty - 1);
    snprintf(lines, sizeof lines, "%s\n0,0,0.123,0.001,2.123457,3.5,3,%s\n10,640,0.123,0.001,2.123457,,3,0.25%s\n",
             log_header(LOG_METRICS), empty, empty);
    size_t size[LOG_COUNT], ended[LOG_COUNT];
    Logs *logs = logs_start(directory_open(temporary));
    append(logs, 0, 3.5);
    append(logs, 10, NAN);
    fputs("text\n", logs->file[LOG_SAMPLES]);
    logs_flush(logs, LOG_SAMPLES);
    logs_sync(logs);
    logs_sizes(logs, size);
    assert_int_equal(size[LOG_METRICS], strlen(lines));
    assert_string_equal(contents(in("metrics.csv"), NULL), lines);
    append(logs, 20, 3);
    memory_free(logs);
    FILE *torn = fopen(in("metrics.csv"), "ab"); /* killed while it wrote a row */
    fputs("30,1920,0.1", torn);
    fclose(torn);
    logs = logs_resume(directory_open(temporary), 20, size);
    assert_non_null(strstr(contents(in("metrics.csv"), NULL), "30,1920,0.1")); /* nothing is cut yet */
    logs_cut(logs, size);
    assert_string_equal(contents(in("metrics.csv"), NULL), lines);
    logs_sizes(logs, ended);
    assert_memory_equal(size, ended, sizeof size);
    append(logs, 20, NAN);
    memory_free(logs);
    const LogTable table = logs_read(temporary, LOG_METRICS);
    assert_int_equal(table.rows, 3);
    assert_true(table.column[METRICS_STEP][2] == 20 && log_last(&table, METRICS_VAL_LOSS) == 3.5);
}

/* A row that was not flushed, as where an error came before, reaches no file when the logs are released. */
static void lost_row(void) {
    const double row[METRICS_COLUMNS] = {10};
    Logs *logs = logs_start(directory_open(temporary));
    append(logs, 0, 3);
    const char *before = contents(in("metrics.csv"), NULL);
    logs_append(logs, LOG_METRICS, row);
    memory_free(logs);
    assert_string_equal(contents(in("metrics.csv"), NULL), before);
}

/* A log is cut back only to where the checkpoint of a step was made: after the rows of all steps before it. Until then
   nothing is written. */
static void cut_elsewhere(void) {
    size_t size[LOG_COUNT], length;
    Logs *logs = logs_start(directory_open(temporary));
    for (int step = 0; step < 40; step += 10) append(logs, step, 3);
    fputs("==== step 10, x\n\n==== step 20, y\n\n", logs->file[LOG_SAMPLES]);
    logs_flush(logs, LOG_SAMPLES);
    logs_sizes(logs, size);
    memory_free(logs);
    const char *before = contents(in("metrics.csv"), &length), *third = strstr(before, "\n20,") + 1;
    const size_t row = strlen(third) / 2, at = (size_t)(third - before); /* rows of 20 and 30 are as long */
    const struct {
        size_t step, metrics, samples;
        const char *word; /* NULL: accepted */
    } cases[] = {
        {40, at, size[LOG_SAMPLES], "metrics.csv"},           /* rows of earlier steps would be lost */
        {30, at, size[LOG_SAMPLES], "metrics.csv"},           /* also one */
        {20, at + row, size[LOG_SAMPLES] / 2, "metrics.csv"}, /* a row of the step would be twice there */
        {20, at - 1, size[LOG_SAMPLES] / 2, "metrics.csv"},   /* no whole line */
        {20, length + 1, size[LOG_SAMPLES] / 2, "metrics.csv"},
        {30, at + row, size[LOG_SAMPLES] / 2, "samples.txt"},
        {30, at + row, 0, "samples.txt"},
        {20, at, size[LOG_SAMPLES] / 2, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size[LOG_METRICS] = cases[i].metrics, size[LOG_SAMPLES] = cases[i].samples;
        if (cases[i].word) {
            assert_refused(cases[i].word, logs_resume(directory_open(temporary), cases[i].step, size));
            assert_string_equal(contents(in("metrics.csv"), NULL), before);
        } else {
            logs = logs_resume(directory_open(temporary), cases[i].step, size);
            logs_cut(logs, size);
        }
    }
    assert_int_equal(strlen(contents(in("metrics.csv"), NULL)), at);
    assert_string_equal(contents(in("samples.txt"), NULL), "==== step 10, x\n\n");
}

/* A row that was cut inside its first number: the 3 of a 30 is no step, and the rows before the checkpoint of step 20
   are whole. Nor is anything written through a link, or into what is no file. */
static void cut_number(void) {
    size_t size[LOG_COUNT];
    Logs *logs = logs_start(directory_open(temporary));
    append(logs, 0, 3);
    append(logs, 10, 3);
    logs_sizes(logs, size);
    memory_free(logs);
    FILE *torn = fopen(in("metrics.csv"), "ab");
    fputs("3", torn); /* killed while it wrote the row of step 30 */
    fclose(torn);
    logs = logs_resume(directory_open(temporary), 20, size);
    logs_cut(logs, size);
    memory_free(logs);
    assert_int_equal(strlen(contents(in("metrics.csv"), NULL)), size[LOG_METRICS]);

    assert_int_equal(rename(in("metrics.csv"), in("victim")), 0);
    assert_int_equal(symlink("victim", in("metrics.csv")), 0);
    const char *before = contents(in("victim"), NULL);
    static const char *const reason = "metrics.csv: it is a symbolic link";
    assert_fails(STATUS_FAILED, reason, logs_resume(directory_open(temporary), 20, size));
    assert_fails(STATUS_FAILED, reason, logs_start(directory_open(temporary)));
    assert_string_equal(contents(in("victim"), NULL), before);
}

#define TEN "a,a,a,a,a,a,a,a,a,a,"
static void refused(void) {
    static const char *const bad[][2] = {
        {"", "the line of the names of its columns is missing"},
        {"step,tokens,seconds,lr,val_loss,grad_norm,val_accuracy\n", "has no column train_loss"},
        {"step,tokens,seconds,lr,train_losses,val_loss,grad_norm\n", "has no column train_loss"},
        {"\n@", "has no column step"},
        {TEN TEN TEN TEN TEN "a,a,a,a,a,a,a,@", "has 65 columns; at most 64 are read"},
        {"new,@0,0,0,1,2,3,4,\n", "metrics.csv:2 is not a row of 9 numbers"},
        {"new,@,0,0,0,1,2,3,4,,\n", "metrics.csv:2 is not a row of 9 numbers"},
        {"@0,0,0,1,2,3,4\n", "metrics.csv:2 is not a row of 8 numbers"},
        {"@0,0,0,1,2,3,4,.5,6\n", "metrics.csv:2 is not a row of 8 numbers"},
        {"@0,0,0,1,two,3,4,\n", "metrics.csv:2"},
        {"@0,0,0,1,2,3,4,\n-1,0,0,1,2,3,4,\n", "metrics.csv:3: step is not a whole"},
        {"@0.5,0,0,1,2,3,4,\n", "step is not a whole"},
        {"@,0,0,1,2,3,4,\n", "step is not a whole"},
        {"@nan,0,0,1,2,3,4,\n", "step is not a whole"},
        {"@1e300,0,0,1,2,3,4,\n", "step is not a whole"},
        {"@0,inf,0,1,2,3,4,\n", "tokens is not a whole"},
        {"@0,0,0,1,,3,4,\n", "metrics.csv:2: train_loss is empty"},
        {"@0,0,0,1,2,3,4,\n\n", "metrics.csv:3 is not a row of 8 numbers"},
        {"@0,0,0,1,2,3,4, \n5\n", "metrics.csv:2"},
        {"@@", "metrics.csv:2"},
        {"@0,0,0,1,2,3,4,\r\n", "it has a carriage return"},
        {"@0,0,0,1,2,3,4,\r10,0,0,1,2,3,4,\n", "it has a carriage return"},
        {"step,tokens,seconds,lr,train_loss,val_loss,grad_norm\r\n", "it has a carriage return"},
        {"step", "the line of the names of its columns is missing"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        put_log("metrics.csv", LOG_METRICS, bad[i][0]);
        assert_refused(bad[i][1], logs_read(temporary, LOG_METRICS));
    }
    assert_refused("nowhere/metrics.csv", logs_read(in("nowhere"), LOG_METRICS));
}

/* Logs of another version: in another order, with columns that this one does not have, without optional ones. */
static void other_columns(void) {
    static const char *const same[] = {
        "val_loss,train_loss,grad_norm,val_accuracy,lr,seconds,tokens,step\n6,5,7,.5,4,3,2,1\n,9,7,,4,3,2,2\n",
        "new,step,tokens,seconds,lr,train_loss,val_loss,newer,grad_norm,val_accuracy,newest\n"
        "nan,1,2,3,4,5,6,a word,7,.5,\n,2,2,3,4,9,,,7,,\n",
        "step,tokens,seconds,lr,train_loss,val_loss,val_losses,val,grad_norm,val_accuracy\n"
        "1,2,3,4,5,6,8,8,7,.5\n2,2,3,4,9,,8,8,7,\n",
    };
    LogTable table;
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        put_text("metrics.csv", same[i]);
        table = logs_read(temporary, LOG_METRICS);
        assert_int_equal(table.rows, 2);
        for (int c = 0; c <= METRICS_VAL_ACCURACY; c++)
            assert_true(table.column[c][0] == (c == METRICS_VAL_ACCURACY ? .5 : (double)c + 1));
        assert_true(table.column[METRICS_STEP][1] == 2 && table.column[METRICS_TRAIN_LOSS][1] == 9);
        assert_true(isnan(table.column[METRICS_VAL_LOSS][1]) && isnan(table.column[METRICS_VAL_ACCURACY][1]));
    }
    put_text("metrics.csv", "step,tokens,seconds,lr,train_loss,grad_norm\n1,2,3,4,5,7\n");
    table = logs_read(temporary, LOG_METRICS);
    assert_true(table.rows == 1 && table.column[METRICS_GRAD_NORM][0] == 7);
    assert_true(isnan(table.column[METRICS_VAL_LOSS][0]) && isnan(table.column[METRICS_VAL_ACCURACY][0]));
}

/* Such a log is continued with the columns that it has. */
static void append_by_header(void) {
    static const char *const before = "new,val_loss,lr,tokens,seconds,train_loss,grad_norm,step\n8,3,1,0,0,2,1,0\n";
    static const char *const expected = ",3.5,0.001,640,0.123,2.123457,3,10\n,,0.001,1280,0.123,2.123457,3,20\n";
    size_t size[LOG_COUNT];
    Logs *logs = logs_start(directory_open(temporary));
    logs_sizes(logs, size);
    memory_free(logs);
    char whole[256];
    size[LOG_METRICS] = strlen(before);
    sprintf(whole, "%s%s", before, "8,3,1,0,0,2,1,10\n,3");
    put_text("metrics.csv", whole);
    assert_refused("metrics.csv", logs_resume(directory_open(temporary), 20, size));
    logs = logs_resume(directory_open(temporary), 10, size);
    logs_cut(logs, size);
    append(logs, 10, 3.5);
    append(logs, 20, NAN);
    memory_free(logs);
    sprintf(whole, "%s%s", before, expected);
    assert_string_equal(contents(in("metrics.csv"), NULL), whole);
    const LogTable table = logs_read(temporary, LOG_METRICS);
    assert_true(table.rows == 3 && table.column[METRICS_STEP][2] == 20 && log_last(&table, METRICS_VAL_LOSS) == 3.5);
}

/* Omits a line that is not whole yet. */
static void torn_line(void) {
    put_log("metrics.csv", LOG_METRICS, "@100,2,3,4,5,6,7,\n200,2,3,4,5,,7,\n300,2,3,4,5,6,7,");
    const LogTable table = logs_read(temporary, LOG_METRICS);
    assert_int_equal(table.rows, 2);
    assert_true(table.column[METRICS_STEP][1] == 200 && isnan(table.column[METRICS_VAL_LOSS][1]));
    assert_true(log_last(&table, METRICS_VAL_LOSS) == 6);
}

/* The best validation loss is the lowest of those rounded in the rows. */
static void rounding(void) {
    assert_true(logs_rounded(2.12345678) == 2.123457 && logs_rounded(1e-9) == 1e-9 && logs_rounded(3) == 3);
}

int main(void) {
    return RUN_TESTS(TRAINING_TEST(a_runs_logs), TRAINING_TEST(cut_back), TRAINING_TEST(cut_elsewhere),
                     TRAINING_TEST(cut_number), TRAINING_TEST(refused), TRAINING_TEST(torn_line),
                     TRAINING_TEST(rounding), TRAINING_TEST(other_columns), TRAINING_TEST(append_by_header),
                     TRAINING_TEST(lost_row));
}
