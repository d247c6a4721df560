/* Files and directories. A file is read as it was written; after a failure, which is reported, it has the old content.
   Results are made where nothing is lost: --force moves an existing directory. Each test works in a new directory.
   Failures are made so that they fail for root as well, as by a parent that is a regular file. Full disks are in
   test_report.c and test_cli.sh, directories that another process has or moves in test_lock.c. */
#include "temporary.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/results.h"

/* Puts a file in place as the program does. */
static void write_text(const char *name, const char *text) { file_write(&no_directory, in(name), text, strlen(text)); }

static void assert_holds(const char *name, const char *text, size_t size) {
    size_t got = 0;
    const char *data = contents(in(name), &got);
    assert_int_equal(got, size);
    assert_memory_equal(data, text, size);
    assert_int_equal(data[size], 0);
}

static size_t entries_of(const char *directory) {
    size_t count = 0;
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(dir);
    return count;
}
static size_t entries(void) { return entries_of(temporary); }
static size_t open_files(void) { return entries_of("/dev/fd"); }

static void round_trip(void) {
    static char large[300000];
    for (size_t i = 0; i < sizeof large; i++) large[i] = (char)(i * 2654435761u >> 13);
    file_write(&no_directory, in("large"), large, sizeof large);
    assert_holds("large", large, sizeof large);
    file_write(&no_directory, in("zeros"), "a\0b\n\0", 5);
    assert_holds("zeros", "a\0b\n\0", 5);
    write_text("empty", "");
    assert_holds("empty", "", 0);
    write_text("large", "now short");
    assert_holds("large", "now short", 9);
    assert_int_equal(entries(), 3);
    struct stat status;
    assert_int_equal(stat(in("empty"), &status), 0);
    const mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(status.st_mode & 0777, 0666 & ~mask); /* as any program's file */
}

static void reading_fails(void) {
    write_text("ten", "0123456789");
    assert_int_equal(mkfifo(in("fifo"), 0600), 0);
    assert_int_equal(mkdir(in("folder"), 0700), 0);
    const struct {
        const char *path;
        size_t limit;
    } cases[] = {
        {"missing", 100}, {"folder", 100}, {"ten", 9}, {"ten", 0}, {"fifo", 100}, {"ten/below", 100}, {"", 100},
    };
    const size_t before = open_files();
    alarm(20); /* a FIFO must not be waited for */
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        size_t size = 0;
        assert_refused("the thing", file_read(in(cases[n].path), "the thing", cases[n].limit, &size));
        assert_non_null(strstr(err.message, in(cases[n].path)));
    }
    alarm(0);
    size_t size;
    file_read(in("ten"), "ten", 10, &size);
    assert_int_equal(open_files(), before);
}

/* --- errors between the first byte and the last */

/* Begins a file, of which some has reached the disk and some has not, and ends with an error. */
static void begin_and_fail(const Directory *d, const char *name) {
    FileWriter *writer = file_writer_open(d, name);
    fputs("half of it", writer->stream);
    fflush(writer->stream);
    fputs(", and more", writer->stream);
    runtime_error("no more");
}

/* An error that comes while a file is written removes what was written and closes what was open; the old file stays. */
static void error_while_writing(void) {
    assert_int_equal(mkdir(in("folder"), 0700), 0);
    write_text("folder/file", "old");
    const Directory *folder = directory_open(in("folder"));
    const size_t before = open_files();
    assert_fails(STATUS_FAILED, "no more", begin_and_fail(folder, "file"));
    assert_fails(STATUS_FAILED, "no more", begin_and_fail(folder, "new"));
    assert_fails(STATUS_FAILED, "no more", begin_and_fail(&no_directory, in("folder/file")));
    assert_int_equal(open_files(), before);
    assert_int_equal(entries_of(in("folder")), 1);
    assert_holds("folder/file", "old", 3);
}

/* The call of fsync that fails, with this reason; 0: none. It stands in for the library's. */
static int fails_in;
static int reason;
int fsync(int file) {
    (void)file;
    if (fails_in == 0 || --fails_in > 0) return 0;
    errno = reason;
    return -1;
}

/* A disk that is full when the bytes are flushed: the old file stays. Where the directory alone cannot be flushed, the
   new one is in place. A file system that has no flush of directories is no error. */
static void flushing_fails(void) {
    write_text("file", "old");
    const size_t before = open_files();
    fails_in = 1, reason = ENOSPC;
    assert_fails(STATUS_FAILED, "file: No space left on device", write_text("file", "new"));
    assert_holds("file", "old", 3);
    fails_in = 2, reason = EIO;
    assert_fails(STATUS_FAILED, "cannot write the directory", write_text("file", "new"));
    assert_holds("file", "new", 3);
    fails_in = 2, reason = EINVAL;
    write_text("file", "newer");
    assert_holds("file", "newer", 5);
    assert_int_equal(open_files(), before);
    assert_int_equal(entries(), 1);
}

static void joining(void) {
    char out[PATH_CAPACITY], name[PATH_CAPACITY] = "";
    path_join(out, "abc", "def");
    assert_string_equal(out, "abc/def");
    memset(name, 'x', sizeof name - 5);
    path_join(out, "abc", name); /* the zero byte just fits */
    assert_int_equal(strlen(out), sizeof out - 1);
    name[strlen(name)] = 'x';
    assert_fails(STATUS_FAILED, "the path is too long", path_join(out, "abc", name));
}

static void directories(void) {
    assert_true(directory_make_new(in("a/b/c")));
    assert_false(directory_make_new(in("a/b/c")));
    assert_true(directory_make_new(in("a/b/d/"))); /* a slash at the end */
    assert_true(path_exists(in("a/b/d")));
    assert_true(directory_make_new(in("a//b///e")));
    assert_true(path_exists(in("a/b/e")) && !path_exists(in("a/b/f")));
    write_text("a/file", "x");
    assert_false(directory_make_new(in("a/file"))); /* no directory, and there */
    assert_fails(STATUS_FAILED, "a/file/below: Not a directory", directory_make_new(in("a/file/below")));
    assert_holds("a/file", "x", 1);

    assert_int_equal(mkdir(in("kept"), 0700), 0);
    assert_int_equal(symlink(in("kept"), in("a/elsewhere")), 0);
    assert_refused("a/elsewhere is a symbolic link", directory_check_no_link(in("a/elsewhere")));
    assert_true(directory_make_new(in("a/elsewhere/below"))); /* a link on the way is the user's */
}

/* A path is absent when the system says so, and never because of another error. */
static void there_or_not(void) {
    char lengthy[2000];
    write_text("file", "x");
    assert_int_equal(symlink("/nowhere/at/all", in("dangling")), 0);
    assert_int_equal(symlink("loop", in("loop")), 0);
    assert_true(path_find(in("file")) && path_exists(in("file")));
    assert_true(path_find(in("dangling")) && path_exists(in("dangling")));
    assert_true(!path_find(in("missing")) && !path_exists(in("missing")));
    assert_true(!path_find(in("file/below")) && !path_exists(in("file/below")));
    assert_false(path_find(in("no/such/place")));
    assert_fails(STATUS_FAILED, in("loop/below"), path_find(in("loop/below"))); /* ELOOP */
    assert_true(path_exists(in("loop/below")));
    snprintf(lengthy, sizeof lengthy, "%s/%01000d", temporary, 0); /* ENAMETOOLONG */
    assert_false(works(path_find(lengthy)));
    assert_true(path_exists(lengthy));
}

/* Links, pipes and devices at the path, or at the name of the new file: nothing is written through a link, nothing
   waits for the reader of a pipe, and no device, pipe or directory is replaced. */
static void links_and_pipes(void) {
    char before[512];
    write_text("victim", "stays");
    assert_int_equal(symlink("victim", in("new.new")), 0);
    write_text("new", "written");
    assert_holds("victim", "stays", 5);
    assert_holds("new", "written", 7);
    assert_int_equal(mkfifo(in("next.new"), 0600), 0);
    write_text("next", "written");
    assert_holds("next", "written", 7);

    static const struct {
        const char *name, *words;
    } others[] = {{"link", "it is a symbolic link"},
                  {"dangling", "it is a symbolic link"},
                  {"pipe", "it is not a regular file"},
                  {"directory", "it is a directory"},
                  {"/dev/null", "it is not a regular file"}};
    assert_int_equal(symlink("victim", in("link")), 0);
    assert_int_equal(symlink("nowhere", in("dangling")), 0);
    assert_int_equal(mkfifo(in("pipe"), 0600), 0);
    assert_int_equal(mkdir(in("directory"), 0777), 0);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        const char *path = *others[i].name == '/' ? others[i].name : in(others[i].name);
        struct stat was, is;
        assert_int_equal(lstat(path, &was), 0);
        assert_fails(STATUS_FAILED, others[i].words, file_write(&no_directory, path, "x", 1));
        assert_fails(STATUS_FAILED, others[i].words, file_update(&no_directory, path));
        assert_int_equal(lstat(path, &is), 0);
        assert_true(was.st_ino == is.st_ino && was.st_mode == is.st_mode);
        snprintf(before, sizeof before, "%s.new", path);
        assert_false(path_exists(before));
    }
    assert_holds("victim", "stays", 5);
    assert_false(path_exists(in("nowhere")));
}

/* When two processes write the same file at the same time, the later one wins, and the other gets an error. */
static void two_writers(void) {
    FileWriter *first = file_writer_open(&no_directory, in("file"));
    FileWriter *second = file_writer_open(&no_directory, in("file"));
    fputs("half", first->stream);
    fputs("whole", second->stream);
    assert_fails(STATUS_FAILED, in("file"), file_writer_commit(first));
    file_writer_commit(second);
    assert_holds("file", "whole", 5);
}

/* In an open directory, names lead to its files and to those of directories in it, wherever its path leads by now. No
   link is followed on the way. */
static void below_a_directory(void) {
    assert_true(directory_make_new(in("run")));
    assert_true(directory_make_new(in("victim")));
    const Directory *d = directory_open(in("run"));
    directory_make_in(d, "inner");
    directory_make_in(d, "inner");
    file_write(d, "inner/file", "one", 3);
    file_write(d, "file", "two", 3);
    assert_holds("run/inner/file", "one", 3);
    assert_holds("run/file", "two", 3);
    assert_fails(STATUS_FAILED, "run/file/below: Not a directory", file_write(d, "file/below", "x", 1));
    assert_int_equal(symlink("../victim", in("run/link")), 0);
    assert_fails(STATUS_FAILED, "run/link/file", file_write(d, "link/file", "x", 1));
    assert_refused("run/link is a symbolic link", directory_make_in(d, "link"));
    assert_fails(STATUS_FAILED, "run/file", directory_make_in(d, "file"));
    assert_int_equal(rename(in("run"), in("away")), 0);
    assert_int_equal(symlink("victim", in("run")), 0);
    directory_make_in(d, "inner");
    FILE *file = file_update(d, "log");
    assert_int_equal(fclose(file), 0);
    assert_true(path_exists(in("away/log")));
    assert_int_equal(rmdir(in("victim")), 0); /* nothing was written there */
}

/* --- where results may be made */

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

/* --- the quota of a container, which stands in files */

/* Lays out a cgroup's file below the test's directory. */
static void put_group(const char *folder, const char *name, const char *text) {
    char path[512];
    assert_true(directory_make_new(in(folder)) || path_exists(in(folder)));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_text(path, text);
}

/* The quota of a container, by both versions of cgroups: the smallest of a group and those above, rounded up. */
static void quotas(void) {
    static const struct {
        const char *groups;
        size_t processors;
    } cases[] = {
        {"0::/pod/two\n", 2},                                           /* 150000 of 100000 */
        {"0::/pod/free\n", 3},                                          /* the pod's */
        {"0::/pod/small\n", 1},                                         /* a tenth */
        {"0::/\n", SIZE_MAX},                                           /* no file at the root */
        {"0::/free\n", SIZE_MAX},                                       /* max */
        {"0::/elsewhere/on/the/host\n", SIZE_MAX},                      /* no such folder */
        {"12:cpuset:/one\n3:cpu,cpuacct:/one\n0::/\n", 4},              /* version 1, beside 2 */
        {"3:cpuacct,cpu:/none\n", 8},                                   /* -1, below the root's */
        {"5:cpuset:/one\n6:cpuacct:/one\n7:name=cpu:/one\n", SIZE_MAX}, /* other controllers */
        {"3:cpu:/docker/0123456789\n", 8},                              /* a path of the host */
        {"no line\n1:x\n", SIZE_MAX},
    };
    put_group("root/pod", "cpu.max", "300000 100000\n");
    put_group("root/pod/two", "cpu.max", "150000 100000\n");
    put_group("root/pod/small", "cpu.max", "10000 100000\n");
    put_group("root/pod/free", "cpu.max", "max 100000\n");
    put_group("root/free", "cpu.max", "max 100000\n");
    put_group("root/cpu", "cpu.cfs_quota_us", "800000\n");
    put_group("root/cpu", "cpu.cfs_period_us", "100000\n");
    put_group("root/cpu/one", "cpu.cfs_quota_us", "175000\n");
    put_group("root/cpu/one", "cpu.cfs_period_us", "50000\n");
    put_group("root/cpu/none", "cpu.cfs_quota_us", "-1\n");
    put_group("root/cpu/none", "cpu.cfs_period_us", "100000\n");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        write_text("groups", cases[i].groups);
        const size_t processors = processors_by_quota(in("groups"), in("root"));
        assert_that(processors == cases[i].processors, "%zu processors by %s", processors, cases[i].groups);
    }
    assert_true(processors_by_quota(in("missing"), in("root")) == SIZE_MAX);
}

int main(void) {
    return RUN_TESTS(TEMPORARY_TEST(links_and_pipes), TEMPORARY_TEST(two_writers), TEMPORARY_TEST(round_trip),
                     TEMPORARY_TEST(reading_fails), TEMPORARY_TEST(error_while_writing), TEMPORARY_TEST(flushing_fails),
                     TEMPORARY_TEST(joining), TEMPORARY_TEST(directories), TEMPORARY_TEST(there_or_not),
                     TEMPORARY_TEST(below_a_directory), TEMPORARY_TEST(next_free_name),
                     TEMPORARY_TEST(slash_at_the_end), TEMPORARY_TEST(named_and_there),
                     TEMPORARY_TEST(old_results_are_moved), TEMPORARY_TEST(through_itself),
                     TEMPORARY_TEST(unused_directories), TEMPORARY_TEST(abandoned), TEMPORARY_TEST(not_moved),
                     TEMPORARY_TEST(description), TEMPORARY_TEST(quotas));
}
