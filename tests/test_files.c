/* Files and directories. A file is read as it was written; after a failure, which is reported, it has the old content.
   Each test works in a new directory. Failures are made so that they fail for root as well, as by a parent that is a
   regular file. Full disks are in test_report.c and test_cli.sh, directories that another process has or moves in
   test_lock.c. */
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
    assert_true(path_exists(in("file")) && path_exists(in("dangling")));
    assert_false(path_exists(in("missing")) || path_exists(in("file/below")) || path_exists(in("no/such/place")));
    assert_fails(STATUS_USAGE, in("loop/below"), path_exists(in("loop/below"))); /* ELOOP */
    snprintf(lengthy, sizeof lengthy, "%s/%01000d", temporary, 0);               /* ENAMETOOLONG */
    assert_false(works(path_exists(lengthy)));
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

int main(void) {
    return RUN_TESTS(TEMPORARY_TEST(links_and_pipes), TEMPORARY_TEST(two_writers), TEMPORARY_TEST(round_trip),
                     TEMPORARY_TEST(reading_fails), TEMPORARY_TEST(error_while_writing), TEMPORARY_TEST(flushing_fails),
                     TEMPORARY_TEST(joining), TEMPORARY_TEST(directories), TEMPORARY_TEST(there_or_not),
                     TEMPORARY_TEST(below_a_directory));
}
