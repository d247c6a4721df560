/* Locks on directories: that one process alone has a directory, also where flock is no help; that one alone takes it
   over from an owner who is gone; that an owner who was suspended finds out. A process of another host is a child of
   this one, in which gethostname says so. */
#include "sweeping.h"

#include "locks.h"

static int locks(void) {
    int lock;
    return directory_lock(in("run"), &lock, &err) ? lock : -1;
}

/* Starts a process of a host, which does this and ends with its result. */
static pid_t start(const char *on, int does(void)) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    strcpy(host, on);
    directory_locks_forget();
    _exit(does());
}

/* A process that locks "run" and dies. */
static int lock_and_die(void) { return locks() < 0; }
static void left_by(const char *on) { assert_int_equal(status_of(start(on, lock_and_die)), 0); }

static void run_directory(void) { assert_true(directory_make(in("run"), false, &err)); }
static void assert_unlocked(void) {
    int lock = locks();
    assert_that(lock >= 0, "%s", err.message);
    directory_unlock(lock);
    assert_true(directory_free(in("run"), &err));
    assert_true(shell("[ -z \"$(ls -A run)\" ]"));
}

static int tries_to_lock(void) {
    const bool free = directory_free(in("run"), &err);
    if (locks() >= 0) return 0;
    fprintf(stderr, "%s\n", err.message);
    return free ? 9 : (int)err.status;
}

/* Another process is kept out, here and on another host, whatever flock does. */
static void excludes(void **state) {
    (void)state;
    char words[64];
    snprintf(words, sizeof words, "process %d", (int)getpid());
    run_directory();
    for (flocks = FLOCK; flocks <= FLOCK_FOR_ALL; flocks++) {
        const int lock = locks();
        assert_true(lock >= 0);
        assert_int_equal(status_of(start("a", tries_to_lock)), STATUS_USAGE);
        assert_int_equal(status_of(start("b", tries_to_lock)), STATUS_USAGE);
        assert_refused(directory_free(in("run"), &err), &err, words, "a directory that this process has");
        assert_true(directory_locks_hold(&err));
        directory_unlock(lock);
        assert_unlocked();
    }
    flocks = FLOCK;
}

/* Who is gone: at once on the same host, on another one when it has been silent for long. It is said from whom the
   directory was taken. */
static void who_is_gone(void **state) {
    (void)state;
    run_directory();
    for (flocks = FLOCK; flocks <= FLOCK_FOR_ALL; flocks++) {
        left_by("a");
        int lock = locks();
        assert_that(lock >= 0, "%s", err.message);
        assert_non_null(strstr(directory_lock_note(lock), "run is taken over from process "));
        assert_non_null(strstr(directory_lock_note(lock), ", which has ended"));
        directory_unlock(lock);
        left_by("b");
        age(in("run/owner"), 200);
        assert_refused(directory_free(in("run"), &err), &err, " of b is training there", "a living owner");
        assert_refused(locks() >= 0, &err, "if it was killed, this works in 10", "a living owner");
        age(in("run/owner"), 400);
        assert_true(directory_free(in("run"), &err));
        lock = locks();
        assert_that(lock >= 0, "%s", err.message);
        assert_non_null(strstr(directory_lock_note(lock), " of b, which was last heard of over five minutes ago"));
        directory_unlock(lock);
        assert_unlocked();
    }
    flocks = FLOCK;
}

/* The handler of SIGALRM touches the file. */
static void heartbeat(void **state) {
    (void)state;
    struct stat info;
    run_directory();
    const int lock = locks();
    age(in("run/owner"), 400);
    assert_int_equal(raise(SIGALRM), 0);
    assert_int_equal(stat(in("run/owner"), &info), 0);
    assert_true(time(NULL) - info.st_mtime < 60);
    directory_unlock(lock);
}

/* A process that nobody has waited for runs no more, and a copy of a directory is nobody's. */
static void zombies_and_copies(void **state) {
    (void)state;
    run_directory();
    const pid_t child = start("a", lock_and_die);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_unlocked();
    assert_int_equal(status_of(child), 0);
    const int lock = locks();
    assert_true(shell("cp -a run copied && mv run elsewhere && mv copied run"));
    assert_unlocked();
    assert_true(directory_locks_hold(&err)); /* of the one that was moved */
    directory_unlock(lock);
    assert_true(shell("[ -z \"$(ls -A elsewhere)\" ]"));
}

/* What is in the place of the file is not replaced, unless a process was killed before it had written it. */
static void other_files(void **state) {
    (void)state;
    run_directory();
    put_text("run/owner", "me\n");
    assert_refused(locks() >= 0, &err, "run/owner is not what this program writes there", "another file");
    assert_refused(directory_free(in("run"), &err), &err, "is not what this program writes", "another file");
    assert_string_equal(contents(in("run/owner"), NULL), "me\n");
    assert_true(shell("mv run/owner mine && ln -s ../mine run/owner"));
    assert_refused(locks() >= 0, &err, "cannot read ", "a link");
    assert_true(shell("rm run/owner && : >run/owner"));
    assert_unlocked();
}

/* A lock that was left to the next one who asks in this process, and to nobody else. */
static void passed_on(void **state) {
    (void)state;
    run_directory();
    const int lock = locks();
    directory_lock_pass(lock);
    assert_int_equal(status_of(start("a", tries_to_lock)), STATUS_USAGE);
    directory_unlock(lock);
    const int again = locks();
    directory_lock_pass(again);
    assert_true(directory_free(in("run"), &err));
    assert_int_equal(locks(), again);
    assert_true(locks() < 0);
    directory_unlock(again);
    assert_unlocked();
}

/* --- racing */

static int gate[2], results[2], end[2];

/* Waits until all are there, tries, and says what came of it. Whoever has the lock keeps it until the test has counted.
 */
static int races(void) {
    char byte;
    close(gate[1]);
    close(end[1]);
    if (read(gate[0], &byte, 1) != 0) return 1;
    byte = locks() >= 0 ? 'w' : err.status == STATUS_USAGE ? 'u' : '?';
    return write(results[1], &byte, 1) != 1 || read(end[0], &byte, 1) != 0;
}

/* Leaves what a process of host b leaves that died as it took over from the owner: its file, or one that it has not
   written yet. */
static void add_dead_taker(bool written) {
    char token[64], command[128];
    const char *at = strstr(contents(in("run/owner"), NULL), "token ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "token %63s", token), 1);
    assert_true(shell("mv run/owner first"));
    left_by("b");
    snprintf(command, sizeof command, "mv run/owner run/owner.%s && mv first run/owner", token);
    assert_true(shell(command));
    snprintf(command, sizeof command, "run/owner.%s", token);
    if (!written) put_text(command, "");
    age(in(command), 400);
}

/* One of many takes over from an owner who is gone, here or elsewhere, from one who took over and died on the way, and
   from one who died before it had written its file. */
static void one_of_many(void **state) {
    (void)state;
    enum { RACERS = 12, ROUNDS = 16 };
    for (int round = 0; round < ROUNDS; round++) {
        const int kind = round % 8;
        int won = 0;
        char result;
        run_directory();
        flocks = round / 8 % 2 ? NO_FLOCK : FLOCK_FOR_ALL;
        left_by(kind % 2 ? "a" : "b");
        age(in("run/owner"), 400);
        if (kind == 7) put_text("run/owner", "");
        else if (kind > 3) add_dead_taker(kind < 6);
        assert_true(pipe(gate) == 0 && pipe(results) == 0 && pipe(end) == 0);
        for (int i = 0; i < RACERS; i++) start(i % 2 ? "a" : "c", races);
        close(gate[1]);
        for (int i = 0; i < RACERS; i++) {
            assert_int_equal(read(results[0], &result, 1), 1);
            assert_true(result == 'w' || result == 'u');
            won += result == 'w';
        }
        assert_that(won == 1, "%d processes have the directory, round %d", won, round);
        close(end[1]);
        for (int i = 0, how; i < RACERS; i++) assert_true(wait(&how) > 0 && how == 0);
        close(gate[0]), close(end[0]), close(results[0]), close(results[1]);
        assert_true(shell("[ $(ls run | wc -l) = 1 ] && rm -r run"));
    }
    flocks = FLOCK;
}

/* What happens in the middle of taking over, before the file is made that only one can make. */
static void (*meanwhile)(void);
int openat(int directory, const char *name, int flags, ...) {
    void (*happens)(void) = strncmp(name, OWNER_FILE ".", strlen(OWNER_FILE ".")) == 0 ? meanwhile : NULL;
    if (happens) meanwhile = NULL;
    if (happens) happens();
    return (int)syscall(SYS_openat, directory, name, flags, 0666);
}
static void another_takes_over(void) {
    char result;
    start("c", races);
    close(gate[1]);
    assert_true(read(results[0], &result, 1) == 1 && result == 'w');
}
static void it_is_given_back(void) { assert_int_equal(remove(in("run/owner")), 0); }

/* Another process takes over, or the owner gives the directory back after all, while this one does so: it is refused
   and leaves nothing. */
static void overtaken(void **state) {
    (void)state;
    int how;
    run_directory();
    flocks = NO_FLOCK;
    left_by("b");
    age(in("run/owner"), 400);
    assert_true(pipe(gate) == 0 && pipe(results) == 0 && pipe(end) == 0);
    meanwhile = another_takes_over;
    assert_refused(locks() >= 0, &err, " of c is training there", "a directory that was just taken");
    assert_true(shell("[ $(ls run) = owner ]"));
    close(end[1]);
    assert_true(wait(&how) > 0 && how == 0);
    close(gate[0]), close(end[0]), close(results[0]), close(results[1]);
    assert_true(shell("rm run/owner"));
    left_by("b");
    age(in("run/owner"), 400);
    meanwhile = it_is_given_back;
    assert_refused(locks() >= 0, &err, "is in use", "a directory that was just given back");
    assert_unlocked();
    flocks = FLOCK;
}

/* --- an owner who was suspended */

static long stops_at = -1; /* flushes to disk until this process stops itself; -1: never */
int fsync(int file) {
    if (stops_at >= 0 && stops_at-- == 0) raise(SIGSTOP);
    return fdatasync(file);
}

static int trains(void) {
    if (try_training("run", 1, &err)) return 0;
    put_text("first", err.message);
    return (int)err.status;
}
static int resumes(void) {
    FILE *said = fopen(in("said"), "w");
    Progress progress = progress_make(said, false);
    const TrainOptions options = {.threads = 1, .command_line = "./train resume", .progress = &progress};
    const bool ok = train_resume(in("run"), NULL, 0, &options, &outcome, &err);
    if (!ok) fprintf(stderr, "%s\n", err.message);
    fclose(said);
    return ok ? 0 : (int)err.status;
}

static void stopped(pid_t child) {
    int how;
    assert_int_equal(waitpid(child, &how, WUNTRACED), child);
    assert_true(WIFSTOPPED(how));
}

/* A process is stopped as it saves a checkpoint, at each of its flushes. Another one takes the run over and is stopped
   in turn. The first then ends with one line and writes nothing, and the second ends with the bits of a run that was
   never stopped. */
static void suspended(void **state) {
    (void)state;
    CONFIGURE("train.steps=30", "eval.every=10", "log.every=1", "log.checkpoint_every=2", "log.attention_every=10");
    train("alone", 1);
    flocks = FLOCK_FOR_ALL;
    for (int flush = 0; flush < 8; flush++) {
        fflush(NULL);
        stops_at = 60 + flush;
        const pid_t first = start("a", trains);
        stopped(first);
        age(in("run/owner"), 400);
        stops_at = 12;
        const pid_t second = start("b", resumes);
        stops_at = -1;
        stopped(second);
        assert_true(shell("cd run && find . -type f -exec cksum {} + | sort >../before"));
        assert_int_equal(kill(first, SIGCONT), 0);
        assert_int_equal(status_of(first), STATUS_FAILED);
        assert_true(shell("grep -q 'run was taken over by process .* of b while this process was suspended' first"));
        assert_true(shell("cd run && find . -type f -exec cksum {} + | sort | cmp - ../before"));
        assert_int_equal(kill(second, SIGCONT), 0);
        assert_int_equal(status_of(second), 0);
        assert_true(same_parameters("alone", "run"));
        assert_true(
            shell("for log in metrics.csv attention.csv; do cut -d, -f1,2,4- alone/$log >x; "
                  "cut -d, -f1,2,4- run/$log | cmp - x || exit 1; done; cmp alone/samples.txt run/samples.txt"));
        assert_true(shell("grep -q 'note: .*run is taken over from process .* of a, which was last heard' said"));
        assert_true(shell("[ ! -e run/owner ] && rm -r run"));
    }
    flocks = FLOCK;
}

/* What is still in the buffers of logs does not get to the files that another process writes by now. */
static void logs_of_another(void **state) {
    (void)state;
    static const double row[METRICS_COLUMNS] = {1, 2, 3};
    static const char *const names[] = {"run/metrics.csv", "run/samples.txt"};
    const char *before[2];
    Logs logs;
    run_directory();
    const int lock = locks();
    flocks = NO_FLOCK;
    assert_true(logs_start(&logs, in("run"), &err));
    logs_append(&logs, LOG_METRICS, row);
    fputs("some text", logs.file[LOG_SAMPLES]);
    assert_true(logs_flush(&logs, LOG_METRICS, &err) && logs_flush(&logs, LOG_SAMPLES, &err));
    for (size_t i = 0; i < 2; i++) before[i] = contents(in(names[i]), NULL);
    age(in("run/owner"), 400);
    left_by("b");
    for (int rows = 0; rows < 2000; rows++) logs_append(&logs, LOG_METRICS, row);
    fputs("more text", logs.file[LOG_SAMPLES]);
    assert_false(logs_flush(&logs, LOG_METRICS, &err));
    assert_false(logs_flush(&logs, LOG_SAMPLES, &err));
    assert_non_null(strstr(err.message, "run was taken over by process "));
    logs_close(&logs);
    for (size_t i = 0; i < 2; i++) assert_string_equal(contents(in(names[i]), NULL), before[i]);
    directory_unlock(lock);
    assert_true(path_exists(in("run/owner")));
    flocks = FLOCK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(excludes),        SWEEP_TEST(who_is_gone), SWEEP_TEST(heartbeat),   SWEEP_TEST(zombies_and_copies),
        SWEEP_TEST(other_files),     SWEEP_TEST(passed_on),   SWEEP_TEST(one_of_many), SWEEP_TEST(overtaken),
        SWEEP_TEST(logs_of_another), SWEEP_TEST(suspended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
