/* Where results may be made, what they may replace, and that what they replace is not lost. */
#include "temporary.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/results.h"

static const char OURS[] = "{\"program\": \"sqrtdk\", \"version\": \"0.1.0\"}";
static const char SWEEP[] = "{\"program\": \"sqrtdk\", \"runs\": [{\"name\": \"lr=1\"}, {\"name\": \"lr=2\"}]}";

/* Made and kept at once: what is replaced is gone. */
static bool make(const char *wanted, bool named, bool force, char out[RESULTS_PATH], Error *err) {
    ResultsDirectory d;
    bool allowed = results_check(wanted, named, force, err);
    bool made = results_make(&d, wanted, named, force, err);
    if (made) assert_true(allowed && results_keep(&d, err));
    if (made && out) memcpy(out, d.path, sizeof d.path);
    if (!made) assert_true(!*d.path && !*d.replaced);
    results_release(&d);
    return made;
}
static void assert_made(const char *wanted, bool named, bool force, const char *expected) {
    Error err = {0};
    char out[RESULTS_PATH];
    assert_that(make(wanted, named, force, out, &err), "%s", err.message);
    assert_string_equal(out, expected);
    struct stat info;
    assert_true(stat(out, &info) == 0 && S_ISDIR(info.st_mode));
    assert_int_equal(rmdir(out), 0); /* it is empty */
    assert_int_equal(mkdir(out, 0777), 0);
}

static void shell(const char *command) {
    char whole[4096];
    snprintf(whole, sizeof whole, "cd %s && %s", temporary, command);
    assert_that(system(whole) == 0, "%s", command);
}
/* Names, types, links and contents of everything in the test's directory. */
static const char *listing(void) {
    char *text = kept(calloc(1, 1 << 16)), command[1024];
    snprintf(command, sizeof command,
             "cd %s && find . -printf '%%y %%p %%l\n' | sort && find . -type f -exec cksum {} + | sort", temporary);
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    assert_in_range(fread(text, 1, (1 << 16) - 1, stream), 1, (1 << 16) - 2);
    assert_int_equal(pclose(stream), 0);
    return text;
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
    assert_refused(make(in("named/"), true, false, NULL, &err), &err, "--force", "an existing --out");
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
        put_text("deep/er/run/metrics.csv", "stays");
        if (others[n].run_json) put_text("deep/er/run/run.json", others[n].run_json);
        for (int force = 0; force < 2; force++) {
            assert_refused(results_check(in("deep/er/run"), true, force, &err), &err, in("deep/er/run"), "check");
            assert_refused(make(in("deep/er/run"), true, force, NULL, &err), &err, force ? "run.json" : "--force",
                           "make");
            assert_string_equal(contents(in("deep/er/run/metrics.csv"), NULL), "stays");
        }
    }
    put_text("deep/er/run/run.json", OURS);
    assert_refused(make(in("deep/er/run"), true, false, NULL, &err), &err, "--force", "a run, without --force");
    assert_true(results_check(in("deep/er/run"), true, true, &err));
    assert_true(path_exists(in("deep/er/run/metrics.csv"))); /* the check writes nothing */
    assert_made(in("deep/er/run"), true, true, in("deep/er/run"));
    assert_made(in("new"), true, true, in("new"));
    assert_true(path_exists(in("deep/er")));

    put_text("file", "stays");
    for (int force = 0; force < 2; force++)
        assert_refused(make(in("file"), true, force, NULL, &err), &err, in("file"), "a file");
    assert_string_equal(contents(in("file"), NULL), "stays");
}

/* Everything that a run, a sweep and theory write, and what is left where one of them was killed. */
static void make_all_kinds(void) {
    shell("rm -rf run sweep theory && mkdir -p run/attention run/checkpoint/a run/checkpoint/b sweep/configs theory"
          " && cd run && for f in config.ini vocab.json metrics.csv attention.csv loss.png samples.txt report.html"
          " attention/step000000_layer0.png attention/step1000000_layer12.png attention/step000000.safetensors"
          " checkpoint/best.safetensors checkpoint/a/model.safetensors checkpoint/a/optimizer.safetensors"
          " checkpoint/a/state.json checkpoint/b/model.safetensors; do echo $f >$f && echo $f >$f.new || exit 1; done"
          " && cd checkpoint && ln -s a current && ln -s b current.new"
          " && for f in model.safetensors optimizer.safetensors state.json; do ln -s current/$f $f || exit 1; done"
          " && cd ../.. && for f in config.ini summary.csv summary.md loss.png entropy.png score_std.png qk_norm.png"
          " attention_compare.png final.png report.html configs/lr=1.ini configs/lr=1.ini.new; do"
          " echo $f >sweep/$f || exit 1; done && echo >theory/theory.csv && echo >theory/report.html &&"
          " echo >theory/theory.png");
    put_text("run/run.json", OURS);
    put_text("sweep/run.json", SWEEP);
    put_text("theory/run.json", OURS);
    shell("cp -a run sweep/lr=1 && mkdir sweep/lr=2"); /* one run was killed early */
}

static void known_files_are_replaced(void **state) {
    (void)state;
    make_all_kinds();
    assert_made(in("run"), true, true, in("run"));
    assert_made(in("sweep"), true, true, in("sweep"));
    assert_made(in("theory"), true, true, in("theory"));
    shell("test -z \"$(find run sweep theory -type f)\" && test ! -e run.old -a ! -e sweep.old");
}

/* A single foreign entry, wherever it is, is named, and nothing is moved or removed. */
static void foreign_files_stay(void **state) {
    (void)state;
    Error err = {0};
    static const struct {
        const char *command, *named;
    } cases[] = {
        {"touch run/notes.txt", "run/notes.txt"},
        {"touch run/.hidden", "run/.hidden"},
        {"touch run/metrics.csv~", "run/metrics.csv~"},
        {"touch run/metrics.csv.new.new", "run/metrics.csv.new.new"},
        {"touch run/attention/step000000_layer0_notes.png", "run/attention/step000000_layer0_notes.png"},
        {"touch run/attention/step_layer0.png", "run/attention/step_layer0.png"},
        {"touch run/attention/metrics.csv", "run/attention/metrics.csv"},
        {"touch run/checkpoint/mine.safetensors", "run/checkpoint/mine.safetensors"},
        {"touch run/checkpoint/a/best.safetensors", "run/checkpoint/a/best.safetensors"},
        {"mkdir run/summary.csv", "run/summary.csv"},
        {"mkdir run/nested && cp run/run.json run/nested", "run/nested"}, /* a run, but not one of a sweep */
        {"mkdir run/lr=1", "run/lr=1"},
        {"rm run/samples.txt && mkdir run/samples.txt", "run/samples.txt"},
        {"rm -r run/attention && ln -s ../theory run/attention", "run/attention"},
        {"rm run/samples.txt && ln -s ../theory/theory.csv run/samples.txt", "run/samples.txt"},
        {"ln -sfn ../../theory run/checkpoint/current", "run/checkpoint/current"},
        {"ln -sfn ../../theory/theory.csv run/checkpoint/state.json", "run/checkpoint/state.json"},
        {"ln -sfn ../theory run/checkpoint/current.new", "run/checkpoint/current.new"},
        {"mkfifo run/pipe", "run/pipe"},
        {"rm run/samples.txt && mkfifo run/samples.txt", "run/samples.txt"},
        {"touch sweep/lr=1/notes.txt", "sweep/lr=1/notes.txt"},
        {"mkdir sweep/lr=2/lr=1", "sweep/lr=2/lr=1"},
        {"mkdir sweep/lr=3 && cp run/run.json sweep/lr=3", "sweep/lr=3"},
        {"mkdir sweep/configs/old && touch sweep/configs/old/x.ini", "sweep/configs/old"},
        {"touch sweep/configs/notes.txt", "sweep/configs/notes.txt"},
        {"touch sweep/configs/mine.ini", "sweep/configs/mine.ini"}, /* of no run */
        {"mkdir sweep/lr=2/configs && touch sweep/lr=2/configs/lr=1.ini", "sweep/lr=2/configs/lr=1.ini"},
        {"rm -r sweep/lr=2 && ln -s ../run sweep/lr=2", "sweep/lr=2"},
        {"ln -s run link", "link"},
        {"mkdir run.old", "run.old"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        make_all_kinds();
        shell("rm -rf link run.old");
        shell(cases[i].command);
        const char *before = listing(), *named = cases[i].named;
        char wanted[16];
        snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(named, "/."), named);
        for (int n = 0; n < 2; n++) {
            bool done = n ? make(in(wanted), true, true, NULL, &err) : results_check(in(wanted), true, true, &err);
            assert_refused(done, &err, in(named), cases[i].command);
        }
        assert_string_equal(listing(), before);
        support_release(NULL);
    }
}

/* A directory that could not be emptied is found before anything is moved, not after half of it is gone. */
static void directories_that_cannot_be_written(void **state) {
    (void)state;
    Error err = {0};
    static const char *const places[][2] = {
        {"run/checkpoint/a", "run"}, {"run", "run"}, {"sweep/configs", "sweep"}, {"sweep/lr=1/attention", "sweep"}};
    make_all_kinds();
    const char *before = listing();
    const bool root = geteuid() == 0; /* to whom everything is writable */
    if (root) shell("chown -R 65534 .");
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        assert_int_equal(chmod(in(places[i][0]), 0555), 0);
        if (root) assert_int_equal(seteuid(65534), 0);
        bool done = make(in(places[i][1]), true, true, NULL, &err);
        if (root) assert_int_equal(seteuid(0), 0);
        assert_int_equal(chmod(in(places[i][0]), 0755), 0);
        assert_refused(done, &err, in(places[i][0]), "a directory that cannot be written");
        assert_string_equal(listing(), before);
    }
}

/* A process in the directory, in that of one of a sweep's runs, or in the one that was just made. */
static void directories_in_use(void **state) {
    (void)state;
    Error err = {0};
    int lock;
    make_all_kinds();
    const char *before = listing();
    static const char *const places[][2] = {{"run", "run"}, {"sweep", "sweep"}, {"sweep/lr=1", "sweep"}};
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        assert_true(directory_lock(in(places[i][0]), &lock, &err));
        assert_refused(make(in(places[i][1]), true, true, NULL, &err), &err, "is in use", places[i][0]);
        close(lock);
    }
    assert_string_equal(listing(), before);
    ResultsDirectory d;
    assert_true(results_make(&d, in("run"), true, true, &err));
    assert_refused(directory_lock(in("run"), &lock, &err), &err, "is in use", "the new one");
    assert_refused(directory_lock(in("run.old"), &lock, &err), &err, "is in use", "the old one");
    results_withdraw(&d, &err);
    assert_refused(directory_lock(in("run"), &lock, &err), &err, "is in use", "the old one, back in its place");
    results_release(&d);
    assert_true(directory_lock(in("run"), &lock, &err));
    close(lock);
    assert_string_equal(listing(), before);
}

/* Until they are kept, new results stand beside what they replace, and can be taken back. */
static void kept_or_withdrawn(void **state) {
    (void)state;
    Error err = {0}, why = {0};
    ResultsDirectory d;
    char old[RESULTS_PATH];
    make_all_kinds();
    const char *before = listing();
    assert_false(results_set_aside(in("run"), old));
    assert_true(results_make(&d, in("run/"), true, true, &err));
    assert_string_equal(d.path, in("run"));
    assert_string_equal(d.replaced, in("run.old"));
    assert_true(results_set_aside(in("run"), old) && strcmp(old, in("run.old")) == 0);
    assert_true(results_set_aside(in("run/"), old) && strcmp(old, in("run.old")) == 0);
    assert_true(path_exists(in("run.old/metrics.csv")) && !path_exists(in("run/metrics.csv")));
    put_text("run/metrics.csv", "new");
    error_set(&why, STATUS_DIVERGED, "diverged");
    results_withdraw(&d, &why);
    assert_int_equal(why.status, STATUS_DIVERGED);
    assert_non_null(strstr(why.message, "diverged; "));
    assert_non_null(strstr(why.message, "run was restored"));
    assert_string_equal(listing(), before);
    results_withdraw(&d, &why); /* nothing more */
    results_release(&d);
    assert_string_equal(listing(), before);

    assert_true(results_make(&d, in("run"), true, true, &err)); /* killed: both stay, and the next start says so */
    put_text("run/run.json", OURS);
    results_release(&d);
    before = listing();
    assert_refused(make(in("run"), true, true, NULL, &err), &err, "run.old is there", "what a kill leaves");
    shell("rm -r run");
    assert_refused(make(in("run"), true, true, NULL, &err), &err, "run.old is there", "what an earlier kill leaves");
    shell("mv run.old run");

    assert_true(results_make(&d, in("run"), true, true, &err));
    put_text("run.old/notes.txt", "mine"); /* meanwhile */
    assert_false(results_keep(&d, &err));
    assert_non_null(strstr(err.message, "run.old/notes.txt"));
    assert_true(results_keep(&d, &err)); /* said once */
    results_withdraw(&d, &err);          /* it is the new results' place now */
    results_release(&d);
    assert_true(path_exists(in("run")) && !path_exists(in("run/metrics.csv")) &&
                path_exists(in("run.old/metrics.csv")));

    assert_true(results_make(&d, in("fresh"), true, true, &err)); /* replaces nothing: nothing to take back */
    results_withdraw(&d, &err);
    results_release(&d);
    assert_true(path_exists(in("fresh")));
}

static void working_directory(void **state) {
    (void)state;
    Error err = {0};
    char here[1024];
    make_all_kinds();
    assert_non_null(getcwd(here, sizeof here));
    static const char *const places[][2] = {{"run", "."}, {"run/attention", ".."}, {"run/attention", "../../run"}};
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        assert_int_equal(chdir(in(places[i][0])), 0);
        bool done = results_check(places[i][1], true, true, &err);
        assert_int_equal(chdir(here), 0);
        assert_refused(done, &err, "the directory you are in", places[i][1]);
    }
}

static void impossible(void **state) {
    (void)state;
    Error err = {0};
    char lengthy[5000];
    put_text("file", "x");
    assert_false(make(in("file/run"), false, false, NULL, &err));
    assert_int_not_equal(err.status, STATUS_OK);
    assert_false(make(in("file/run"), true, true, NULL, &err));
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = 0;
    assert_false(make(lengthy, true, false, NULL, &err));
    assert_false(make("", true, false, NULL, &err));
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
    assert_true(js_object_size(js_get(read, "machine")) > 0);
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
        TEMPORARY_TEST(next_free_name),     TEMPORARY_TEST(slash_at_the_end),
        TEMPORARY_TEST(named_and_there),    TEMPORARY_TEST(known_files_are_replaced),
        TEMPORARY_TEST(foreign_files_stay), TEMPORARY_TEST(directories_that_cannot_be_written),
        TEMPORARY_TEST(directories_in_use), TEMPORARY_TEST(kept_or_withdrawn),
        TEMPORARY_TEST(working_directory),  TEMPORARY_TEST(impossible),
        TEMPORARY_TEST(description),        TEMPORARY_TEST(description_of_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
