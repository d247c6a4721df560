/* Directories of results are made where nothing is lost: a name that is free, or with --force one whose old directory
   is moved. What a run says of itself in run.json is read back. */
#include "temporary.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/results.h"

static const char OURS[] = "{\"program\": \"sqrtdk\", \"version\": \"0.1.0\"}";
static const char SWEEP[] = "{\"program\": \"sqrtdk\", \"runs\": [{\"name\": \"lr=1\"}, {\"name\": \"lr=2\"}]}";

static void begin(ResultsDirectory *results) { results_begin(results, js_parse(OURS, strlen(OURS), "run.json")); }

/* Makes a directory in which results begin, and releases it. */
static char made_at[RESULTS_PATH];
static void make(const char *out, const char *log_out, bool force) {
    const size_t mark = memory_mark();
    const bool allowed = works(results_check(out, log_out, force));
    ResultsDirectory *results = results_make(out, log_out, force);
    assert_true(allowed);
    begin(results);
    memcpy(made_at, results->directory->path, sizeof made_at);
    memory_release(mark);
}
static void assert_made(const char *out, const char *log_out, bool force, const char *expected) {
    char description[RESULTS_PATH + 16];
    make(out, log_out, force);
    assert_string_equal(made_at, expected);
    snprintf(description, sizeof description, "%s/run.json", made_at);
    assert_int_equal(remove(description), 0);
    snprintf(description, sizeof description, "%s/owner", made_at);
    assert_int_equal(remove(description), 0);
    assert_int_equal(rmdir(made_at), 0); /* it held nothing else */
    assert_int_equal(mkdir(made_at, 0777), 0);
}

/* Makes a directory, in which nothing begins because of an error. */
static void fail_to_begin(const char *out, bool force) {
    results_make(out, NULL, force);
    runtime_error("the disk is full");
}
static void assert_not_begun(const char *out, bool force) {
    assert_fails(STATUS_FAILED, "the disk is full", fail_to_begin(out, force));
}

/* Names, types, links and contents of everything in the test's directory. */
static const char *listing(void) {
    return output_of(
        "find . ! -name owner -printf '%y %p %l\n' | sort && find . -type f ! -name owner -exec cksum {} + | sort");
}

static void next_free_name(void) {
    assert_made(NULL, in("runs/a"), false, in("runs/a"));
    assert_made(NULL, in("runs/a"), false, in("runs/a-2"));
    assert_made(NULL, in("runs/a"), true, in("runs/a-3")); /* force is about --out */
    put_text("runs/a-4", "a file");
    assert_int_equal(symlink("/nowhere", in("runs/a-5")), 0);
    assert_made(NULL, in("runs/a"), false, in("runs/a-6"));
    assert_int_equal(rmdir(in("runs/a-2")), 0);
    assert_made(NULL, in("runs/a"), false, in("runs/a-2"));
    assert_made(NULL, in("runs/a-2"), false, in("runs/a-2-2"));
}

/* After "runs/a/" comes "runs/a-2", not a directory inside of it. */
static void slash_at_the_end(void) {
    assert_made(NULL, in("runs/a/"), false, in("runs/a"));
    assert_made(NULL, in("runs/a/"), false, in("runs/a-2"));
    assert_made(NULL, in("runs/a//"), false, in("runs/a-3"));
    assert_made(in("named/"), NULL, false, in("named"));
    put_text("named/run.json", OURS);
    put_text("named/metrics.csv", "");
    assert_made(in("named/"), NULL, true, in("named"));
    put_text("named/metrics.csv", "");
    assert_refused("--force", make(in("named/"), NULL, false));
}

static void named_and_there(void) {
    static const char *const others[] = {
        NULL, "", "{}", "{\"program\": \"another\"}", "[\"sqrtdk\"]", "{\"program\": \"sqrtdk\"", "{\"program\": 1}"};
    assert_made(in("deep/er/run"), NULL, false, in("deep/er/run"));
    for (size_t n = 0; n < COUNT_OF(others); n++) {
        put_text("deep/er/run/metrics.csv", "stays");
        if (others[n]) put_text("deep/er/run/run.json", others[n]);
        for (int force = 0; force < 2; force++) {
            assert_refused(in("deep/er/run"), results_check(in("deep/er/run"), NULL, force));
            assert_refused(force ? "run.json" : "--force", make(in("deep/er/run"), NULL, force));
            assert_string_equal(contents(in("deep/er/run/metrics.csv"), NULL), "stays");
        }
    }
    put_text("deep/er/run/run.json", OURS);
    assert_refused("--force", make(in("deep/er/run"), NULL, false));
    results_check(in("deep/er/run"), NULL, true);
    assert_true(path_exists(in("deep/er/run/metrics.csv"))); /* the check writes nothing */
    assert_made(in("deep/er/run"), NULL, true, in("deep/er/run"));
    assert_made(in("new"), NULL, true, in("new"));
    assert_true(path_exists(in("deep/er")));

    put_text("file", "stays");
    for (int force = 0; force < 2; force++) assert_refused(in("file"), make(in("file"), NULL, force));
    assert_string_equal(contents(in("file"), NULL), "stays");
}

/* A run, and a sweep of two, one of which was never started. */
static void make_run_and_sweep(void) {
    assert_true(shell(
        "mkdir -p run/checkpoint sweep/lr=1 && ln -s ../notes.txt run/checkpoint/link && echo mine >run/notes.txt"
        " && head -c 5000 /dev/urandom >run/checkpoint/last.safetensors && touch run/run.json.new sweep/config.ini"));
    put_text("run/run.json", OURS);
    put_text("sweep/lr=1/run.json", OURS);
    put_text("sweep/run.json", SWEEP);
}

/* The old directory is whole under the first free name, which the note says. */
static void old_results_are_moved(void) {
    const size_t mark = memory_mark();
    make_run_and_sweep();
    assert_true(shell("cp -a run first && cp -a sweep kept && echo mine >sweep.old"));
    ResultsDirectory *results = results_make(in("run//"), NULL, true);
    assert_string_equal(results->directory->path, in("run"));
    assert_string_equal(results->old, in("run.old"));
    begin(results);
    memory_release(mark);
    put_text("run/run.json", SWEEP);
    assert_made(in("run"), NULL, true, in("run"));
    assert_true(
        shell("diff -r -x owner first run.old && test -L run.old/checkpoint/link && test -e run.old-2/run.json"));
    put_text("run/run.json", OURS);
    put_text("run/metrics.csv", "");
    assert_int_equal(symlink("/nowhere", in("run.old-3")), 0);
    assert_made(in("run"), NULL, true, in("run"));
    assert_true(shell(
        "diff -r -x owner first run.old && test -e run.old-2/run.json && test -e run.old-4/run.json && test -L run.old-3"));
    assert_made(in("sweep"), NULL, true, in("sweep"));
    assert_true(shell("diff -r -x owner kept sweep.old-2 && test \"$(cat sweep.old)\" = mine"));
    assert_int_equal(*results_make(in("fresh"), NULL, true)->old, 0);
    memory_release(mark);
    assert_true(shell("test ! -e fresh.old"));
}

/* A path through the directory that is moved leads to the new one; one that ends in .. is not moved. */
static void through_itself(void) {
    make_run_and_sweep();
    assert_true(shell("cp -a run first"));
    make(in("run/../run"), NULL, true);
    assert_true(shell("diff -r -x owner first run.old && test -d run && test ! -e run/notes.txt"));
    const char *before = listing();
    assert_fails(STATUS_FAILED, "cannot move ", make(in("run.old/checkpoint/.."), NULL, true));
    assert_string_equal(listing(), before);
}

/* A directory that is empty, or that a killed program left before it had results, is used, with --force and without;
   nothing in it is removed. One that has a run.json, or lacks run.json.new, is not used. */
static void unused_directories(void) {
    static const char *const left[] = {
        "true", "touch new/run.json.new", "touch new/run.json.new new/config.ini new/mine.txt",
        "mkdir new/checkpoint && touch new/run.json.new new/metrics.csv new/checkpoint/last.safetensors"};
    static const char *const used[] = {"touch new/config.ini", "cp ours new/run.json", "touch new/mine.txt",
                                       "cp ours new/run.json && touch new/run.json.new"};
    put_text("ours", OURS);
    for (size_t i = 0; i < COUNT_OF(left) + COUNT_OF(used); i++) {
        char command[256];
        const bool taken = i < COUNT_OF(left);
        snprintf(command, sizeof command, "mkdir new && %s", taken ? left[i] : used[i - COUNT_OF(left)]);
        assert_true(shell(command));
        assert_true(shell("cp -r new before"));
        for (int force = 0; taken && force < 2; force++) assert_not_begun(in("new"), force);
        assert_int_equal(results_unused(in("new")), taken);
        if (taken) make(in("new"), NULL, false);
        if (taken) assert_true(shell("diff -r -x owner -x run.json -x run.json.new before new"));
        else assert_refused("exists", make(in("new"), NULL, false));
        assert_true(shell("rm -r new before"));
    }
}

/* Begins to replace "run", whose place another directory takes before an error. */
static void replace_and_fail(void) {
    results_make(in("run"), NULL, true);
    assert_true(shell("mv run away && mv first run"));
    runtime_error("the reason");
}

/* Results that could not begin leave nothing but the old ones, of which the error says where they are. */
static void abandoned(void) {
    const size_t mark = memory_mark();
    results_make(in("new"), NULL, false);
    assert_refused("is in use", make(in("new"), NULL, true));
    put_text("new/run.json", OURS);
    assert_true(
        shell("mkdir victim new/checkpoint && touch victim/stays new/config.ini.new new/checkpoint/last.safetensors"
              " && ln -s ../victim new/link"));
    memory_release(mark);
    assert_true(shell("test ! -e new && test -e victim/stays"));
    assert_not_begun(in("new"), false);
    assert_true(shell("test ! -e new"));
    assert_true(shell("mkdir new && touch new/run.json.new new/mine.txt"));
    assert_not_begun(in("new"), false);
    assert_true(shell("test -e new/mine.txt && test -e new/run.json.new"));
    make_run_and_sweep();
    assert_true(shell("cp -a run first && cp -a run kept"));
    assert_not_begun(in("run"), true);
    assert_non_null(strstr(err.message, "the disk is full; what stood in "));
    assert_non_null(strstr(err.message, "run is now in "));
    assert_true(shell("test ! -e run && diff -r -x owner first run.old && mv run.old run"));
    assert_fails(STATUS_FAILED, "the reason; what stood in ", replace_and_fail()); /* what took its place stays */
    assert_non_null(strstr(err.message, "run is now in "));
    assert_true(shell("diff -r -x owner kept run && diff -r -x owner kept run.old && test ! -e away/run.json"));
}

/* --force is refused, and nothing is moved, for a link, a parent that cannot be written, a process in the directory
   or in a run of the sweep that it holds. */
static void not_moved(void) {
    make_run_and_sweep();
    assert_int_equal(symlink("run", in("link")), 0);
    const char *before = listing();
    assert_refused("is a symbolic link", make(in("link/"), NULL, true));
    static const char *const places[][2] = {{"run", "run"}, {"sweep", "sweep"}, {"sweep/lr=1", "sweep"}};
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        const size_t mark = memory_mark();
        directory_lock(in(places[i][0]));
        assert_refused("is in use", results_check(in(places[i][1]), NULL, true));
        assert_refused("is in use", make(in(places[i][1]), NULL, true));
        memory_release(mark);
    }
    const bool root = geteuid() == 0; /* to whom everything is writable */
    if (root) assert_true(shell("chown -R 65534 ."));
    assert_int_equal(chmod(temporary, 0555), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    const bool done = works(make(in("run"), NULL, true));
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(temporary, 0755), 0);
    assert_false(done);
    assert_non_null(strstr(err.message, "cannot move "));
    assert_string_equal(listing(), before);
}

static void description(void) {
    Json *run = run_description("./train \"a b\" --set x=\\ é", 3);
    run_description_save(run, directory_open(temporary));
    size_t size;
    const char *text = contents(in("run.json"), &size);
    const Json *read = js_parse(text, size, "run.json");
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
}

int main(void) {
    return RUN_TESTS(TEMPORARY_TEST(next_free_name), TEMPORARY_TEST(slash_at_the_end), TEMPORARY_TEST(named_and_there),
                     TEMPORARY_TEST(old_results_are_moved), TEMPORARY_TEST(through_itself),
                     TEMPORARY_TEST(unused_directories), TEMPORARY_TEST(abandoned), TEMPORARY_TEST(not_moved),
                     TEMPORARY_TEST(description));
}
