/* Locks on directories. Only one process has a directory. What a process has left that was killed, or that runs on
   another host, and a file system without locks. Nothing is written after the directory has been moved or its lock
   replaced. A process of another host is a child of this one with another gethostname. */
#include "temporary.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* These stand in for the library's. Not static: the C library's headers make of gethostname an inline function of
   external linkage. */
char host[64] = "a";
int gethostname(char *name, size_t size) {
    snprintf(name, size, "%s", host);
    return 0;
}
static int flock_fails; /* with this reason; 0: it does not fail */
int flock(int file, int operation) {
    errno = flock_fails;
    return flock_fails ? -1 : (int)syscall(SYS_flock, file, operation);
}

static Directory *run_directory; /* while "run" is locked by this process */
static size_t before_it;         /* the mark of its blocks */

static bool locks(void) {
    before_it = memory_mark();
    return works(run_directory = directory_lock(in("run")));
}
static void unlock(void) {
    memory_release(before_it);
    run_directory = NULL;
}
static bool is_free(void) { return works(directory_check_free(in("run"))); }

/* Starts a process of a host, which does this and ends with its result. */
static pid_t start(const char *on, int does(void)) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    strcpy(host, on);
    if (run_directory) close(run_directory->fd), close(run_directory->owner);
    run_directory = NULL;
    _exit(does());
}

static void make_run(void) {
    run_directory = NULL;
    assert_true(directory_make_new(in("run")));
}
static void assert_unlocked(void) {
    assert_true(is_free());
    assert_that(locks(), "%s", err.message);
    unlock();
    assert_string_equal(contents(in("run/owner"), NULL), "");
}

/* A process that locks "run" and dies; one that says with which words it is refused. */
static int lock_and_die(void) { return locks() ? 0 : (int)err.status; }
static int tries_to_lock(void) {
    const bool none_there = is_free();
    if (locks()) return 0;
    put_text("said", err.message);
    return none_there ? 9 : (int)err.status;
}
static void assert_refuses(const char *on, const char *words) {
    assert_int_equal(status_of(start(on, tries_to_lock)), STATUS_USAGE);
    const char *said = contents(in("said"), NULL);
    assert_that(strstr(said, words) != NULL, "no '%s' in: %s", words, said);
}

/* Another process is kept out, here and on another host, and the file says whom to wait for. A process that ends leaves
   it empty. */
static void excludes(void) {
    char words[96];
    make_run();
    assert_true(locks());
    snprintf(words, sizeof words, "run is in use: process %d is writing there; wait for it", (int)getpid());
    assert_refuses("a", words);
    assert_refused(words, directory_check_free(in("run")));
    assert_true(directory_held(in("run")));
    snprintf(words, sizeof words, "run is in use: process %d of a is writing there; wait for it", (int)getpid());
    assert_refuses("b", words);
    directory_check(run_directory);
    unlock();
    assert_false(directory_held(in("run")));
    assert_unlocked();
}

/* A killed process leaves its text. On this host the directory is taken over; on another it is refused, since locks may
   not reach it, unless the user says that the process has ended. */
static void after_a_kill(void) {
    make_run();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(status_of(start("b", lock_and_die)), 0);
        assert_refuses("a", " of b, which has not said that it ended: if it has, add --unlocked");
        assert_non_null(strstr(contents(in("run/owner"), NULL), "host b\n"));
        if (i == 0) assert_int_equal(status_of(start("b", tries_to_lock)), 0); /* and dies again */
        directory_unlocked = i > 0;
        if (i > 0) assert_unlocked();
        directory_unlocked = false;
        if (i == 0) assert_refuses("a", "--unlocked");
    }
    assert_int_equal(status_of(start("a", lock_and_die)), 0);
    assert_unlocked();
}

/* A file system that has no locks is refused in one line, unless the user says that no other process writes there. */
static void without_locks(void) {
    static const int reasons[] = {ENOLCK, ENOTSUP, ENOSYS};
    make_run();
    for (size_t i = 0; i < COUNT_OF(reasons); i++) {
        flock_fails = reasons[i];
        assert_refused("run cannot be locked (", directory_lock(in("run")));
        assert_refused("if no other process writes there, add --unlocked", directory_check_free(in("run")));
        assert_false(directory_held(in("run")));
        directory_unlocked = true;
        assert_unlocked();
        directory_unlocked = false;
    }
    flock_fails = ESTALE;
    assert_fails(STATUS_FAILED, "cannot lock ", directory_lock(in("run")));
    flock_fails = 0;
}

/* Anything else in the place of the file is named and stays. */
static void other_files(void) {
    make_run();
    put_text("run/owner", "me\n");
    assert_refused("run/owner does not name a process", directory_lock(in("run")));
    assert_refused("remove the file", directory_check_free(in("run")));
    assert_string_equal(contents(in("run/owner"), NULL), "me\n");
    assert_true(shell("mv run/owner mine && ln -s ../mine run/owner"));
    assert_refused("cannot write ", directory_lock(in("run")));
    assert_true(shell("rm run/owner && mkfifo run/owner"));
    assert_refused("it is not a regular file", directory_lock(in("run")));
    assert_false(directory_held(in("run")));
    assert_true(shell("rm run/owner"));
    assert_unlocked();
}

/* A copy made of hard links gets a file of its own, also while the original is locked. */
static void hard_links(void) {
    make_run();
    assert_true(locks());
    assert_true(shell("cp -al run copy"));
    char *before = contents(in("run/owner"), NULL);
    const size_t mark = memory_mark();
    directory_lock(in("copy"));
    memory_release(mark);
    assert_string_equal(contents(in("run/owner"), NULL), before);
    directory_check(run_directory);
    assert_true(shell("[ $(stat -c %h run/owner) = 1 ] && [ ! -s copy/owner ] && [ ! -e copy/owner.new ]"));
    unlock();
}

/* The file of an earlier version, one with lines in another order, and one that only names a process. */
static void owners_read_by_name(void) {
    static const char *const texts[] = {
        "host node7\nsystem cbd439fb/pid:[40]\nprocess 23853\nstart 467873\nfile 24\njob 812\ntoken 8ea7814820a6dbf3\n",
        "job 812\nwhat is this\nstart 2026-11-28T23:00:00Z\n\nprocess 23853\nhost node7",
        "process 23853\nhost node7\n"};
    Owner o;
    make_run();
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        assert_true(owner_parse(texts[i], &o));
        assert_string_equal(o.host, "node7");
        assert_true(o.process == 23853);
        put_text("run/owner", texts[i]);
        assert_refused("was in use by process 23853 of node7, which has not said", directory_lock(in("run")));
    }
    strcpy(host, "node7");
    assert_unlocked();
    strcpy(host, "a");
}

/* --- racing */

static int gate[2], results[2], counted[2];

/* Waits until all are there and tries, and waits until all have tried. 'w': it has the directory then. */
static int races(void) {
    char byte;
    close(gate[1]);
    close(counted[1]);
    if (read(gate[0], &byte, 1) != 0) return 1;
    const bool locked = locks();
    byte = locked || err.status == STATUS_USAGE ? '.' : '?';
    if (write(results[1], &byte, 1) != 1 || read(counted[0], &byte, 1) != 0) return 1;
    byte = locked && works(directory_check(run_directory)) ? 'w' : '.';
    return write(results[1], &byte, 1) != 1;
}

/* One of many processes locks a directory that is free, or whose owner was killed. */
static void one_of_many(void) {
    enum { RACERS = 12, ROUNDS = 16 };
    for (int round = 0; round < ROUNDS; round++) {
        int won = 0;
        char result;
        make_run();
        if (round % 2) assert_int_equal(status_of(start("a", lock_and_die)), 0);
        assert_true(pipe(gate) == 0 && pipe(results) == 0 && pipe(counted) == 0);
        for (int i = 0; i < RACERS; i++) start("a", races);
        close(gate[1]);
        for (int i = 0; i < 2 * RACERS; i++) {
            assert_int_equal(read(results[0], &result, 1), 1);
            assert_true(result != '?');
            won += result == 'w';
            if (i + 1 == RACERS) close(counted[1]);
        }
        assert_that(won == 1, "%d processes have the directory, round %d", won, round);
        for (int i = 0, how; i < RACERS; i++) assert_true(wait(&how) > 0 && how == 0);
        close(gate[0]), close(counted[0]), close(results[0]), close(results[1]);
        assert_true(shell("[ $(ls run) = owner ] && rm -r run"));
    }
}

/* --- a directory that was moved, or that another process has */

/* Nothing is written where the path leads by now, not even what is in the buffers of logs; what was moved is whole. */
static void moved(void) {
    static const double row[METRICS_COLUMNS] = {1, 2, 3};
    static const struct {
        const char *command, *words;
    } cases[] = {
        {"mv run away && cp -r other run", "run was moved or removed while it trained"},
        {"mv run away && ln -s other run", "run was moved or removed while it trained"},
        {"mv run away", "run was moved or removed while it trained"},
        {"cp -r run away && rm -r run", "run was moved or removed while it trained"},
        {"mv run/owner away.owner && mkdir away && mv run/* away && cp other/* away.owner run && echo >>run/owner",
         "run/owner was removed, or replaced by another process"},
    };
    assert_true(shell("mkdir other && echo >other/metrics.csv && echo >other/samples.txt && echo >other/file"));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        make_run();
        assert_true(locks());
        file_write(run_directory, "file", "before", 6);
        const Logs *logs = logs_start(run_directory);
        logs_append(logs, LOG_METRICS, row);
        logs_flush(logs, LOG_METRICS);
        FileWriter *writer = file_writer_open(run_directory, "file");
        assert_true(shell("cp run/metrics.csv before.csv"));
        assert_true(shell(cases[i].command));
        fputs("later", writer->stream);
        assert_fails(STATUS_FAILED, cases[i].words, file_writer_commit(writer));
        assert_fails(STATUS_FAILED, cases[i].words, file_write(run_directory, "file", "later", 5));
        logs_append(logs, LOG_METRICS, row);
        fputs("more text", logs->file[LOG_SAMPLES]);
        assert_fails(STATUS_FAILED, cases[i].words, logs_flush(logs, LOG_METRICS));
        assert_fails(STATUS_FAILED, cases[i].words, logs_flush(logs, LOG_SAMPLES));
        unlock();
        assert_true(i > 2 || !path_exists(in("away/file.new"))); /* later cases have put a copy there */
        assert_true(shell("cmp away/metrics.csv before.csv && [ \"$(cat away/file)\" = before ] && "
                          "[ ! -e run ] || for file in metrics.csv samples.txt file; do cmp run/$file other/$file || "
                          "exit 1; done"));
        assert_true(shell("rm -rf run away away.owner"));
    }
}

int main(void) {
    return RUN_TESTS(TEMPORARY_TEST(excludes), TEMPORARY_TEST(after_a_kill), TEMPORARY_TEST(without_locks),
                     TEMPORARY_TEST(other_files), TEMPORARY_TEST(hard_links), TEMPORARY_TEST(owners_read_by_name),
                     TEMPORARY_TEST(one_of_many), TEMPORARY_TEST(moved));
}
