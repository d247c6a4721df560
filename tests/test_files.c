/* base/files: what is read is what was written; a failure is reported and leaves the old content. Each test works in a
   new directory of its own. Failures are made so that they fail for root as well: a parent that is a regular file, a
   limit on the size of files. */
#include "support.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

static char directory[512];

static int enter(void **state) {
    (void)state;
    return !make_temporary(directory);
}
static int leave(void **state) {
    (void)state;
    Error err;
    return !directory_remove(directory, &err) || path_exists(directory);
}

/* A path in the test's directory; valid for four calls. */
static const char *in(const char *name) {
    static char paths[4][1024];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void put(const char *name, const char *text) {
    Error err = {0};
    assert_that(file_write(&no_directory, in(name), text, strlen(text), &err), "%s", err.message);
}

static void assert_holds(const char *name, const char *text, size_t size) {
    char *data = NULL;
    size_t got = 0;
    Error err = {0};
    assert_that(file_read(in(name), "test file", 1 << 24, STATUS_USAGE, &data, &got, &err), "%s", err.message);
    assert_int_equal(got, size);
    assert_memory_equal(data, text, size);
    assert_int_equal(data[size], 0);
    free(data);
}

static size_t entries(void) {
    size_t count = 0;
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(dir);
    return count;
}

static void round_trip(void **state) {
    (void)state;
    Error err = {0};
    static char large[300000];
    for (size_t i = 0; i < sizeof large; i++) large[i] = (char)(i * 2654435761u >> 13);
    assert_true(file_write(&no_directory, in("large"), large, sizeof large, &err));
    assert_holds("large", large, sizeof large);
    assert_true(file_write(&no_directory, in("zeros"), "a\0b\n\0", 5, &err));
    assert_holds("zeros", "a\0b\n\0", 5);
    put("empty", "");
    assert_holds("empty", "", 0);
    put("large", "now short");
    assert_holds("large", "now short", 9);
    assert_int_equal(entries(), 3);
    struct stat status;
    assert_int_equal(stat(in("empty"), &status), 0);
    const mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(status.st_mode & 0777, 0666 & ~mask); /* as any program's file */
}

static void reading_fails(void **state) {
    (void)state;
    put("ten", "0123456789");
    assert_int_equal(mkfifo(in("fifo"), 0600), 0);
    assert_int_equal(mkdir(in("folder"), 0700), 0);
    const struct {
        const char *path;
        size_t limit;
    } cases[] = {
        {"missing", 100}, {"folder", 100}, {"ten", 9}, {"ten", 0}, {"fifo", 100}, {"ten/below", 100}, {"", 100},
    };
    alarm(20); /* a FIFO must not be waited for */
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        char *data = NULL;
        size_t size = 0;
        Error err = {0};
        assert_that(!file_read(in(cases[n].path), "the thing", cases[n].limit, STATUS_USAGE, &data, &size, &err),
                    "'%s' of at most %zu bytes", cases[n].path, cases[n].limit);
        assert_int_equal(err.status, STATUS_USAGE);
        assert_non_null(strstr(err.message, "the thing"));
        assert_non_null(strstr(err.message, in(cases[n].path)));
    }
    alarm(0);
    char *data;
    size_t size;
    Error err;
    assert_true(file_read(in("ten"), "ten", 10, STATUS_FAILED, &data, &size, &err));
    free(data);
    assert_false(file_read(in("missing"), "it", 10, STATUS_FAILED, &data, &size, &err));
    assert_int_equal(err.status, STATUS_FAILED);
}

static void writing_fails(void **state) {
    (void)state;
    put("file", "old");
    assert_int_equal(mkdir(in("folder"), 0700), 0);
    char *lengthy = malloc(6000);
    assert_non_null(lengthy);
    memset(lengthy, 'x', 5999);
    memcpy(lengthy, directory, strlen(directory));
    lengthy[strlen(directory)] = '/';
    lengthy[5999] = 0;
    const char *const paths[] = {in("file/below"), in("missing/below"), in("folder"), lengthy};
    for (size_t n = 0; n < COUNT_OF(paths); n++) {
        Error err = {0};
        assert_that(!file_write(&no_directory, paths[n], "new", 3, &err), "path %zu", n);
        assert_int_equal(err.status, STATUS_FAILED);
        assert_true(strlen(err.message) > 10);
        assert_int_equal(entries(), 2); /* nothing left behind */
    }
    free(lengthy);
    assert_holds("file", "old", 3);
}

/* A limit on the size of files stands for a full disk. */
static void disk_is_full(void **state) {
    (void)state;
    put("file", "old");
    struct rlimit kept, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &kept), 0);
    small = kept;
    small.rlim_cur = 10000;
    signal(SIGXFSZ, SIG_IGN);
    static char text[100000];
    for (size_t size = 10001; size <= sizeof text; size += 89999) { /* fails when flushed, fails on the way */
        Error err = {0};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        bool done = file_write(&no_directory, in("file"), text, size, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &kept), 0);
        assert_false(done);
        assert_int_equal(err.status, STATUS_FAILED);
        assert_non_null(strstr(err.message, in("file")));
        assert_int_equal(entries(), 1);
        assert_holds("file", "old", 3);
    }
    signal(SIGXFSZ, SIG_DFL);
}

static void writer_in_steps(void **state) {
    (void)state;
    put("file", "old");
    FileWriter writer;
    Error err = {0};
    assert_true(file_writer_open(&writer, &no_directory, in("file"), &err));
    fputs("new", writer.stream);
    fflush(writer.stream);
    assert_holds("file", "old", 3); /* until the commit */
    assert_true(file_writer_commit(&writer, &err));
    assert_holds("file", "new", 3);
    assert_int_equal(entries(), 1);

    char kept[256], relative[64];
    assert_non_null(getcwd(kept, sizeof kept));
    assert_int_equal(chdir(directory), 0);
    strcpy(relative, "here"); /* no directory in the name */
    bool done = file_write(&no_directory, relative, "x", 1, &err);
    assert_int_equal(chdir(kept), 0);
    assert_that(done, "%s", err.message);
    assert_holds("here", "x", 1);
}

static void joining(void **state) {
    (void)state;
    char out[8];
    Error err = {0};
    assert_true(path_join(out, sizeof out, "abc", "def", &err));
    assert_string_equal(out, "abc/def"); /* 7 and the zero byte just fit */
    assert_false(path_join(out, sizeof out, "abc", "defg", &err));
    assert_true(err.status != STATUS_OK && err.message[0]);
}

static void directories(void **state) {
    (void)state;
    Error err = {0};
    assert_true(directory_make(in("a/b/c"), true, &err));
    assert_false(directory_make(in("a/b/c"), true, &err));
    assert_int_not_equal(err.status, STATUS_OK);
    assert_true(directory_make(in("a/b/c"), false, &err));
    assert_true(directory_make(in("a/b/d/"), true, &err)); /* a slash at the end */
    assert_true(path_exists(in("a/b/d")));
    assert_true(directory_make(in("a//b///e"), true, &err));
    assert_true(path_exists(in("a/b/e")) && !path_exists(in("a/b/f")));
    put("a/file", "x");
    assert_false(directory_make(in("a/file"), false, &err)); /* no directory */
    assert_false(directory_make(in("a/file"), true, &err));
    assert_false(directory_make(in("a/file/below"), false, &err));
    assert_holds("a/file", "x", 1);

    put("outside", "stays");
    assert_int_equal(mkdir(in("kept"), 0700), 0);
    assert_int_equal(symlink(in("kept"), in("a/elsewhere")), 0);
    assert_false(directory_make(in("a/elsewhere"), false, &err));
    assert_non_null(strstr(err.message, "a/elsewhere is a symbolic link"));
    assert_true(directory_make(in("a/elsewhere/below"), true, &err)); /* a link on the way is the user's */
    assert_int_equal(rmdir(in("kept/below")), 0);
    put("kept/inside", "stays");
    assert_int_equal(symlink(in("outside"), in("a/link")), 0);
    assert_int_equal(symlink(in("kept"), in("a/b/folder")), 0);
    assert_int_equal(symlink("/nowhere/at/all", in("a/b/dangling")), 0);
    assert_that(directory_remove(in("a"), &err), "%s", err.message);
    assert_false(path_exists(in("a")));
    assert_holds("outside", "stays", 5);
    assert_holds("kept/inside", "stays", 5);
    assert_int_equal(entries(), 2);
}

/* A path is absent when the system says so, and never because of another error. */
static void there_or_not(void **state) {
    (void)state;
    Error err = {0};
    bool exists = true;
    char *lengthy = calloc(1, 2000);
    assert_non_null(lengthy);
    put("file", "x");
    assert_int_equal(symlink("/nowhere/at/all", in("dangling")), 0);
    assert_int_equal(symlink("loop", in("loop")), 0);
    assert_true(path_find(in("file"), &exists, &err) && exists && path_exists(in("file")));
    assert_true(path_find(in("dangling"), &exists, &err) && exists && path_exists(in("dangling")));
    assert_true(path_find(in("missing"), &exists, &err) && !exists && !path_exists(in("missing")));
    assert_true(path_find(in("file/below"), &exists, &err) && !exists && !path_exists(in("file/below")));
    assert_true(path_find(in("no/such/place"), &exists, &err) && !exists);
    assert_false(path_find(in("loop/below"), &exists, &err)); /* ELOOP */
    assert_int_equal(err.status, STATUS_FAILED);
    assert_non_null(strstr(err.message, in("loop/below")));
    assert_true(path_exists(in("loop/below")));
    snprintf(lengthy, 2000, "%s/%01000d", directory, 0); /* ENAMETOOLONG */
    assert_false(path_find(lengthy, &exists, &err));
    assert_true(path_exists(lengthy));
    free(lengthy);
}

/* What stands at the path, or at the name that a new file has first: nothing is written through a link, nothing
       waits for the reader of a pipe, and no device, pipe or directory is replaced. */
static void links_and_pipes(void **state) {
    (void)state;
    Error err = {0};
    char before[512];
    put("victim", "stays");
    assert_int_equal(symlink("victim", in("new.new")), 0);
    put("new", "written");
    assert_holds("victim", "stays", 5);
    assert_holds("new", "written", 7);
    assert_int_equal(mkfifo(in("next.new"), 0600), 0);
    put("next", "written");
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
        FILE *file;
        assert_int_equal(lstat(path, &was), 0);
        assert_false(file_write(&no_directory, path, "x", 1, &err));
        assert_non_null(strstr(err.message, others[i].words));
        assert_false(file_update(&no_directory, path, &file, &err) || file);
        assert_non_null(strstr(err.message, others[i].words));
        assert_int_equal(lstat(path, &is), 0);
        assert_true(was.st_ino == is.st_ino && was.st_mode == is.st_mode);
        snprintf(before, sizeof before, "%s.new", path);
        assert_false(path_exists(before));
    }
    assert_holds("victim", "stays", 5);
    assert_false(path_exists(in("nowhere")));
}

/* When two write the same file at once, the later one wins, and the other says that it did not. */
static void two_writers(void **state) {
    (void)state;
    Error err = {0};
    FileWriter first, second;
    assert_true(file_writer_open(&first, &no_directory, in("file"), &err) &&
                file_writer_open(&second, &no_directory, in("file"), &err));
    fputs("half", first.stream);
    fputs("whole", second.stream);
    assert_false(file_writer_commit(&first, &err));
    assert_true(file_writer_commit(&second, &err));
    assert_holds("file", "whole", 5);
}

/* In an open directory, names lead to its files and to those of directories in it, wherever its path leads by now. No
   link is followed on the way. */
static void below_a_directory(void **state) {
    (void)state;
    Error err = {0};
    Directory d;
    FILE *file;
    assert_true(directory_make(in("run"), true, &err) && directory_make(in("victim"), true, &err));
    assert_true(directory_open(&d, in("run"), &err));
    assert_true(directory_make_in(&d, "inner", &err) && directory_make_in(&d, "inner", &err));
    assert_true(file_write(&d, "inner/file", "one", 3, &err) && file_write(&d, "file", "two", 3, &err));
    assert_holds("run/inner/file", "one", 3);
    assert_holds("run/file", "two", 3);
    assert_false(file_write(&d, "file/below", "x", 1, &err));
    assert_non_null(strstr(err.message, "run/file/below: Not a directory"));
    assert_int_equal(symlink("../victim", in("run/link")), 0);
    assert_false(file_write(&d, "link/file", "x", 1, &err));
    assert_false(directory_make_in(&d, "link", &err));
    assert_non_null(strstr(err.message, "run/link is a symbolic link"));
    assert_false(directory_make_in(&d, "file", &err));
    assert_int_equal(rename(in("run"), in("away")), 0);
    assert_int_equal(symlink("victim", in("run")), 0);
    assert_true(directory_make_in(&d, "inner", &err) && file_update(&d, "log", &file, &err));
    assert_int_equal(fclose(file), 0);
    assert_true(path_exists(in("away/log")));
    assert_int_equal(rmdir(in("victim")), 0); /* nothing was written there */
    close(d.fd);
}

/* Everything in a directory is removed, and nothing that a link in it leads to. */
static void emptied(void **state) {
    (void)state;
    Error err = {0};
    Directory d;
    assert_true(directory_make(in("a/b/c"), true, &err) && directory_make(in("victim"), true, &err));
    put("a/file", "x");
    put("a/b/c/file", "x");
    put("victim/file", "stays");
    assert_int_equal(symlink("../victim", in("a/link")), 0);
    assert_true(directory_open(&d, in("a"), &err));
    directory_empty(d.fd);
    close(d.fd);
    assert_int_equal(rmdir(in("a")), 0);
    assert_holds("victim/file", "stays", 5);
}

int main(void) {
#define FILES_TEST(function) cmocka_unit_test_setup_teardown(function, enter, leave)
    const struct CMUnitTest tests[] = {
        FILES_TEST(links_and_pipes), FILES_TEST(two_writers),  FILES_TEST(round_trip),        FILES_TEST(reading_fails),
        FILES_TEST(writing_fails),   FILES_TEST(disk_is_full), FILES_TEST(writer_in_steps),   FILES_TEST(joining),
        FILES_TEST(directories),     FILES_TEST(there_or_not), FILES_TEST(below_a_directory), FILES_TEST(emptied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
