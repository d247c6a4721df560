/* Where a run may be made, and what may be replaced. */
#include "temporary.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/results_directory.h"

static char out[1024];
static const char OURS[] = "{\"program\": \"sqrtdk\", \"version\": \"0.1.0\"}";

static bool make(const char *wanted, bool named, bool force, Error *err) {
    bool allowed = run_directory_check(wanted, named, force, err);
    bool made = run_directory_make(out, sizeof out, wanted, named, force, err);
    if (made) assert_true(allowed);
    return made;
}
static void assert_made(const char *wanted, bool named, bool force, const char *expected) {
    Error err = {0};
    assert_that(make(wanted, named, force, &err), "%s", err.message);
    assert_string_equal(out, expected);
    struct stat info;
    assert_true(stat(out, &info) == 0 && S_ISDIR(info.st_mode));
    assert_int_equal(rmdir(out), 0); /* it is empty */
    assert_int_equal(mkdir(out, 0777), 0);
}

static void next_free_name(void **state) {
    (void)state;
    assert_made(in("runs/a"), false, false, in("runs/a"));
    assert_made(in("runs/a"), false, false, in("runs/a-2"));
    assert_made(in("runs/a"), false, true, in("runs/a-3")); /* force is about --out */
    put_text("runs/a-4", "a file");
    assert_int_equal(symlink("/nowhere", in("runs/a-5")), 0);
    assert_made(in("runs/a"), false, false, in("runs/a-6"));
    assert_int_equal(rmdir(in("runs/a-2")), 0);
    assert_made(in("runs/a"), false, false, in("runs/a-2"));
    assert_made(in("runs/a-2"), false, false, in("runs/a-2-2"));
}

/* The next to "runs/a/" is "runs/a-2", not a directory inside of it. */
static void slash_at_the_end(void **state) {
    (void)state;
    assert_made(in("runs/a/"), false, false, in("runs/a"));
    assert_made(in("runs/a/"), false, false, in("runs/a-2"));
    assert_made(in("runs/a//"), false, false, in("runs/a-3"));
    assert_made(in("named/"), true, false, in("named"));
    put_text("named/run.json", OURS);
    assert_made(in("named/"), true, true, in("named"));
    Error err = {0};
    assert_refused(make(in("named/"), true, false, &err), &err, "--force", "an existing --out");
}

static void named_and_there(void **state) {
    (void)state;
    Error err = {0};
    const struct {
        const char *run_json;
    } others[] = {
        {NULL},
        {""},
        {"{}"},
        {"{\"program\": \"another\"}"},
        {"[\"sqrtdk\"]"},
        {"{\"program\": \"sqrtdk\""},
        {"{\"program\": 1}"},
    };
    assert_made(in("deep/er/run"), true, false, in("deep/er/run"));
    for (size_t n = 0; n < COUNT_OF(others); n++) {
        put_text("deep/er/run/precious", "stays");
        if (others[n].run_json) put_text("deep/er/run/run.json", others[n].run_json);
        for (int force = 0; force < 2; force++) {
            assert_refused(run_directory_check(in("deep/er/run"), true, force, &err), &err, in("deep/er/run"), "check");
            assert_refused(make(in("deep/er/run"), true, force, &err), &err, force ? "run.json" : "--force", "make");
            assert_string_equal(contents(in("deep/er/run/precious"), NULL), "stays");
        }
    }
    put_text("deep/er/run/run.json", OURS);
    assert_refused(make(in("deep/er/run"), true, false, &err), &err, "--force", "a run, without --force");
    assert_true(run_directory_check(in("deep/er/run"), true, true, &err));
    assert_true(path_exists(in("deep/er/run/precious"))); /* the check writes nothing */
    assert_made(in("deep/er/run"), true, true, in("deep/er/run"));
    assert_made(in("new"), true, true, in("new"));
    assert_true(path_exists(in("deep/er")));

    put_text("file", "stays");
    for (int force = 0; force < 2; force++)
        assert_refused(make(in("file"), true, force, &err), &err, in("file"), "a file");
    assert_string_equal(contents(in("file"), NULL), "stays");
}

/* What a link points at is not ours to remove. */
static void link_to_a_run(void **state) {
    (void)state;
    Error err = {0};
    assert_made(in("run"), true, false, in("run"));
    put_text("run/run.json", OURS);
    assert_int_equal(symlink("run", in("link")), 0);
    (void)make(in("link"), true, true, &err);
    assert_true(path_exists(in("run/run.json")));
    unlink(in("link"));
    rmdir(in("link"));
    assert_int_equal(symlink("run", in("link")), 0);
    (void)make(in("link/"), true, true, &err);
    assert_true(path_exists(in("run/run.json")));
}

static void impossible(void **state) {
    (void)state;
    Error err = {0};
    char small[8], lengthy[5000];
    put_text("file", "x");
    assert_false(make(in("file/run"), false, false, &err));
    assert_int_not_equal(err.status, STATUS_OK);
    assert_false(make(in("file/run"), true, true, &err));
    assert_refused(run_directory_make(small, sizeof small, in("run"), true, false, &err), &err, "long",
                   "no place for the path");
    assert_false(path_exists(in("run")));
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = 0;
    assert_false(make(lengthy, true, false, &err));
    assert_false(make("", true, false, &err));
}

static void description(void **state) {
    (void)state;
    Error err = {0};
    Json *run = run_description("./train \"a b\" --set x=\\ é", 3), *read;
    assert_that(run_description_save(run, temporary, &err), "%s", err.message);
    js_free(run);
    size_t size;
    const char *text = contents(in("run.json"), &size);
    assert_true(js_parse(text, size, "run.json", &read, &err));
    int64_t threads = 0;
    assert_string_equal(js_as_text(js_get(read, "program")), "sqrtdk");
    assert_string_equal(js_as_text(js_get(read, "command")), "./train \"a b\" --set x=\\ é");
    assert_true(js_as_integer(js_get(read, "threads"), &threads) && threads == 3);
    const char *const texts[] = {"version", "start"};
    for (size_t n = 0; n < COUNT_OF(texts); n++) assert_true(strlen(js_as_text(js_get(read, texts[n]))) > 0);
    assert_true(js_is_object(js_get(read, "machine")));
    int year, month, day, hour, minute, second, end = 0;
    sscanf(js_as_text(js_get(read, "start")), "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute,
           &second, &end);
    assert_int_equal(end, 20);
    js_free(read);
}

/* A command line is bytes: one that is not UTF-8 must not end a run. */
static void description_of_any_bytes(void **state) {
    (void)state;
    Error err = {0};
    Json *run = run_description("./train caf\xE9.ini \xC3", 1), *read;
    assert_that(run_description_save(run, temporary, &err), "%s", err.message);
    js_free(run);
    size_t size;
    const char *text = contents(in("run.json"), &size);
    assert_true(js_parse(text, size, "run.json", &read, &err));
    assert_non_null(strstr(js_as_text(js_get(read, "command")), "./train caf"));
    js_free(read);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEMPORARY_TEST(next_free_name),
        TEMPORARY_TEST(slash_at_the_end),
        TEMPORARY_TEST(named_and_there),
        TEMPORARY_TEST(link_to_a_run),
        TEMPORARY_TEST(impossible),
        TEMPORARY_TEST(description),
        TEMPORARY_TEST(description_of_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
