/* Locks on directories. Only one process has a directory, also where flock does not lock. Some owners are replaced.
   Nothing is written after the directory has been moved or locked by another process. A process of another host is a
   child of this one with another gethostname. */
#include "temporary.h"

#include <sys/stat.h>

#include "base/machine.h"

#include "locks.h"

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

/* Starts a process of a host and a job, which does this and ends with its result. */
static pid_t start(const char *on, const char *job, int does(void)) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    strcpy(host, on);
    unsetenv("SLURM_ARRAY_JOB_ID");
    unsetenv("SLURM_ARRAY_TASK_ID");
    if (job) setenv("SLURM_ARRAY_JOB_ID", "812", 1);
    if (job) setenv("SLURM_ARRAY_TASK_ID", job, 1);
    if (run_directory) close(run_directory->fd);
    run_directory = NULL;
    _exit(does());
}

/* A process that locks "run" and dies. */
static int lock_and_die(void) { return locks() ? 0 : (int)err.status; }
static void left_by(const char *on, const char *job) { assert_int_equal(status_of(start(on, job, lock_and_die)), 0); }

static void make_run(void) {
    run_directory = NULL;
    assert_true(directory_make_new(in("run")));
}
static void assert_unlocked(void) {
    assert_that(locks(), "%s", err.message);
    unlock();
    assert_true(is_free());
    assert_true(shell("[ -z \"$(ls -A run)\" ]"));
}

static int tries_to_lock(void) {
    const bool none_there = is_free();
    if (locks()) return 0;
    put_text("said", err.message);
    return none_there ? 9 : (int)err.status;
}
static void assert_refuses(const char *on, const char *job, const char *words) {
    assert_int_equal(status_of(start(on, job, tries_to_lock)), STATUS_USAGE);
    const char *said = contents(in("said"), NULL);
    assert_that(strstr(said, words) != NULL, "no '%s' in: %s", words, said);
}

/* Another process is kept out, here and on another host. If flock is granted, an owner on this host has ended. */
static void excludes(void) {
    char words[64];
    snprintf(words, sizeof words, "run is in use: process %d is writing there; wait", (int)getpid());
    make_run();
    for (flocks = FLOCK; flocks <= FLOCK_FOR_ALL; flocks++) {
        assert_true(locks());
        if (flocks != FLOCK_FOR_ALL) assert_refuses("a", NULL, words);
        assert_refuses("b", NULL, " of a is writing there; if that process is known to have ended, remove ");
        if (flocks != FLOCK_FOR_ALL) assert_refused(words, directory_check_free(in("run")));
        directory_check(run_directory);
        unlock();
        assert_unlocked();
    }
    flocks = FLOCK;
}

/* Four processes of two hosts without flock: one on this host that has ended is replaced, one of this very job on
   another host is replaced, any other is named, with its job and with what to remove. */
static void who_is_replaced(void) {
    make_run();
    for (flocks = FLOCK; flocks <= FLOCK_FOR_ALL; flocks++) {
        left_by("a", "3");
        assert_refuses("b", NULL, " of a (job 812_3) is writing there");
        assert_refuses("b", "4", "/run/owner");
        assert_int_equal(status_of(start("a", "4", lock_and_die)), 0);
        assert_int_equal(status_of(start("b", "4", lock_and_die)), 0);
        assert_refuses("a", NULL, " of b (job 812_4) is writing there");
        assert_int_equal(remove(in("run/owner")), 0);
        assert_unlocked();
    }
    flocks = FLOCK;
}

/* A zombie counts as ended, and where flock works a copy of a directory has no owner. */
static void zombies_and_copies(void) {
    siginfo_t info;
    make_run();
    for (flocks = FLOCK; flocks <= NO_FLOCK; flocks++) {
        const pid_t child = start("a", NULL, lock_and_die);
        assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
        assert_unlocked();
        assert_int_equal(status_of(child), 0);
    }
    flocks = FLOCK;
    assert_true(locks());
    assert_true(shell("cp -a run copied && mv run elsewhere && mv copied run"));
    assert_true(is_free());
    unlock();
    assert_true(shell("[ -z \"$(ls -A elsewhere)\" ] && rm run/owner"));
}

/* Anything else in the place of the file is named and stays. An empty file is that of a process that was killed before
   it had written it; it is replaced where flock is granted. */
static void other_files(void) {
    make_run();
    put_text("run/owner", "me\n");
    assert_refused("run/owner does not name a process", directory_lock(in("run")));
    assert_refused("remove the file", directory_check_free(in("run")));
    assert_string_equal(contents(in("run/owner"), NULL), "me\n");
    assert_true(shell("mv run/owner mine && ln -s ../mine run/owner"));
    assert_refused("cannot read ", directory_lock(in("run")));
    assert_true(shell("rm run/owner && : >run/owner"));
    flocks = NO_FLOCK;
    assert_refused("run/owner does not name a process", directory_lock(in("run")));
    flocks = FLOCK;
    assert_unlocked();
}

/* The file of an earlier version, one with lines in another order, and one that only names a process. */
static void owners_read_by_name(void) {
    static const char *const texts[] = {
        "host node7\nsystem cbd439fb/pid:[40]\nprocess 23853\nstart 467873\nfile 24\njob 812\ntoken 8ea7814820a6dbf3\n",
        "job 812\nwhat is this\nstart 467873\n\nprocess 23853\nhost node7", "process 23853\nhost node7\n"};
    Owner o;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        assert_true(owner_parse(texts[i], &o));
        assert_string_equal(o.host, "node7");
        assert_string_equal(o.job, i < 2 ? "812" : "-");
        assert_true(o.process == 23853 && o.start == (i < 2 ? 467873 : 0));
    }
    make_run();
    put_text("run/owner", texts[0]);
    assert_refused("process 23853 of node7 (job 812) is writing there", directory_lock(in("run")));
    setenv("SLURM_JOB_ID", "812", 1);
    assert_unlocked();
    unsetenv("SLURM_JOB_ID");
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

/* One of many processes locks a directory that is free, or whose owner has ended. Without flock several may replace
   the owner; all but the last find that out. */
static void one_of_many(void) {
    enum { RACERS = 12, ROUNDS = 16 };
    for (int round = 0; round < ROUNDS; round++) {
        int won = 0;
        char result;
        make_run();
        flocks = round % 2 ? NO_FLOCK : FLOCK;
        if (round % 4 > 1) left_by("a", NULL);
        assert_true(pipe(gate) == 0 && pipe(results) == 0 && pipe(counted) == 0);
        for (int i = 0; i < RACERS; i++) start("a", NULL, races);
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
    flocks = FLOCK;
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
    return RUN_TESTS(TEMPORARY_TEST(excludes), TEMPORARY_TEST(who_is_replaced), TEMPORARY_TEST(zombies_and_copies),
                     TEMPORARY_TEST(other_files), TEMPORARY_TEST(one_of_many), TEMPORARY_TEST(moved),
                     TEMPORARY_TEST(owners_read_by_name));
}
