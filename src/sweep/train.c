/* The runs of a sweep as processes: up to `slots` at a time, each started anew or resumed where it stopped. This
   process opens no parallel region before the last of them has been started, since fork copies a single thread. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/files.h"
#include "base/interrupt.h"
#include "sweep/parts.h"

/* --- one process */

enum { CANNOT_START = 127 };

/* Between fork and exec: system calls only. */
static _Noreturn void become(const char *program, const char *const *arguments, int messages, pid_t parent,
                             const sigset_t *mask) {
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (getppid() != parent) _exit(CANNOT_START); /* the parent died before prctl */
    for (int i = 0; i < INTERRUPT_COUNT; i++) signal(INTERRUPTS[i], SIG_DFL);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
        dup2(messages, STDERR_FILENO) >= 0) {
        if (null > STDERR_FILENO) close(null);
        sigprocmask(SIG_SETMASK, mask, NULL);
        execv(program, (char *const *)arguments);
    }
    _exit(CANNOT_START);
}

/* Starts `program` with the words of `arguments`, ended by NULL. Its stdin and stdout are /dev/null. It has a process
   group of its own, so that a terminal's Ctrl-C reaches only the parent, which passes it on. On Linux it gets a SIGTERM
   when the parent is killed. */
static bool process_start(SweepRun *run, const char *program, const char *const *arguments, Error *err) {
    sigset_t all, before;
    run->messages = tmpfile();
    if (!run->messages) return failed(err, "cannot make a temporary file: %s", strerror(errno));
    fcntl(fileno(run->messages), F_SETFD, FD_CLOEXEC);
    /* A signal that reached the child while the parent's handler is still in place would be noted there and lost. */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const pid_t parent = getpid();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) become(program, arguments, fileno(run->messages), parent, &before);
    const int reason = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    run->pid = pid > 0 ? pid : 0;
    if (pid > 0) return true;
    fclose(run->messages);
    return failed(err, "cannot start another process: %s", strerror(reason));
}

/* Whether the run's process has ended. Then *status is its exit status, 128 + N where signal N killed it, and `message`
   its last line on stderr without the program's name, or what killed it. */
static bool process_ended(SweepRun *run, int *status, char message[1024]) {
    char line[1280], prefix[sizeof program_name + 2];
    int how;
    if (run->pid == 0 || waitpid(run->pid, &how, WNOHANG) != run->pid) return false;
    *status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    *message = 0;
    snprintf(prefix, sizeof prefix, "%s: ", program_name);
    rewind(run->messages);
    while (fgets(line, sizeof line, run->messages)) {
        line[strcspn(line, "\n")] = 0;
        if (*line)
            snprintf(message, 1024, "%.1023s", strncmp(line, prefix, strlen(prefix)) ? line : line + strlen(prefix));
    }
    if (WIFSIGNALED(how)) snprintf(message, 1024, "killed by signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
    else if (*status == CANNOT_START && !*message) snprintf(message, 1024, "the program could not be started");
    fclose(run->messages);
    run->pid = 0;
    return true;
}

/* --- all runs */

static void fail(SweepRun *run, const char *why) {
    run->state = RUN_FAILED;
    snprintf(run->message, sizeof run->message, "%s", why);
}

static bool write_config(const Sweep *s, const SweepRun *run, char path[4096], Error *err) {
    char name[RUN_NAME + 16];
    FileWriter writer;
    snprintf(name, sizeof name, "configs/%s.ini", run->name);
    if (!path_join(path, 4096, s->directory, name, err) || !file_writer_open(&writer, path, err)) return false;
    config_write(&run->config, writer.stream);
    return file_writer_commit(&writer, err);
}

/* Reads how far the run is from its log. */
static void read_progress(SweepRun *run) {
    Error ignored;
    if (run->state == RUN_NOT_FINISHED) sweep_clear_run(run);
    sweep_read_metrics(run, &ignored);
}

/* Steps made. */
static double steps_of(const SweepRun *run) { return fmax(0, run->measured[MEASURE_STEPS]); }

/* Starts the run's process. Another process may have trained in its directory since the sweep was loaded; where that
   brought the run to its end, none is started. */
static bool start(const Sweep *s, SweepRun *run, Error *err) {
    char config[4096], threads[32];
    if (!sweep_load_run(s, run, err)) return false;
    run->began = omp_get_wtime();
    if (run->state != RUN_NOT_FINISHED) {
        read_progress(run);
        return true;
    }
    if (!run->has_checkpoint) { /* what a run left that was killed before it had a run.json; else --force moves it */
        if (path_join(config, sizeof config, run->directory, "run.json" FILE_NEW, err)) unlink(config);
        rmdir(run->directory);
        if (!write_config(s, run, config, err)) return false;
    }
    snprintf(threads, sizeof threads, "%zu", s->threads);
    const char *const anew[] = {program_name, config,    "--out", run->directory, "--force", "--threads",
                                threads,      "--quiet", NULL};
    const char *const resume[] = {program_name, "resume", run->directory, "--threads", threads, "--quiet", NULL};
    return process_start(run, s->options->program, run->has_checkpoint ? resume : anew, err);
}

/* Sets the run's state from its run.json and the exit status of its process, whose last line is `message`. The two must
   agree, except that a run may have been stopped by the signal that the sweep passed on. */
static void conclude(SweepRun *run, int status, const char *message) {
    const int caught = interrupt_signal();
    char ended[64];
    Error err;
    snprintf(ended, sizeof ended, "ended with status %d before it had finished", status);
    if (!sweep_read_run(run, &err)) fail(run, err.message);
    else if (!(status == 0 && run->state == RUN_FINISHED) &&
             !(status == STATUS_DIVERGED && run->state == RUN_DIVERGED) && !(caught && status == 128 + caught))
        fail(run, *message ? message : ended);
}

static bool is_waiting(const SweepRun *run) { return run->state == RUN_NOT_FINISHED && !run->pid; }

typedef struct {
    size_t waiting, running, ended;
    double steps, all_steps;
} Totals;

/* A run that ended early makes no more steps: it counts as if it had made them all. */
static Totals add_up(const Sweep *s) {
    Totals t = {0};
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        const bool ended = run->state != RUN_NOT_FINISHED;
        t.waiting += is_waiting(run);
        t.running += run->pid != 0;
        t.ended += ended;
        t.all_steps += (double)run->config.train.steps;
        t.steps += ended ? (double)run->config.train.steps : steps_of(run);
    }
    return t;
}

/* The progress line of all runs. The speed is measured since `began`, when `steps_before` steps had been made. */
static void show_progress(const Sweep *s, double began, double steps_before) {
    char line[160], left[32];
    const double now = omp_get_wtime();
    if (!progress_is_due(s->options->progress, now)) return;
    for (size_t i = 0; i < s->run_count; i++)
        if (s->runs[i].pid) read_progress(&s->runs[i]);
    const Totals t = add_up(s);
    const double made = t.steps - steps_before; /* not above 0 at first */
    progress_duration(made > 0 ? (now - began) / made * (t.all_steps - t.steps) : NAN, left, sizeof left);
    snprintf(line, sizeof line, "%zu of %zu runs ended, %zu running   step %.0f/%.0f   %s left", t.ended, s->run_count,
             t.running, t.steps, t.all_steps, left);
    progress_line(s->options->progress, line);
}

static void report_end(const Sweep *s, const SweepRun *run) {
    char duration[32], how[64] = "";
    progress_duration(omp_get_wtime() - run->began, duration, sizeof duration);
    if (run->state == RUN_FINISHED)
        snprintf(how, sizeof how, "val %.4f at step %.0f, %s", run->measured[MEASURE_VAL_LOSS], steps_of(run),
                 duration);
    else if (run->state == RUN_NOT_FINISHED) snprintf(how, sizeof how, "stopped at step %.0f", steps_of(run));
    progress_message(s->options->progress, "[%zu/%zu] %s: %s%s", add_up(s).ended, s->run_count, run->name,
                     run->state == RUN_FAILED ? "failed: " : how, run->message);
}

static void start_some(Sweep *s, size_t free_slots) {
    for (size_t i = 0; i < s->run_count && free_slots; i++) {
        SweepRun *run = &s->runs[i];
        Error err;
        if (!is_waiting(run)) continue;
        if (!start(s, run, &err)) fail(run, err.message);
        if (run->pid) free_slots--;
        else report_end(s, run);
    }
}

/* Concludes the runs whose process has ended; returns whether there was any. */
static bool collect(Sweep *s) {
    bool any = false;
    for (size_t i = 0; i < s->run_count; i++) {
        SweepRun *run = &s->runs[i];
        char message[1024];
        int status;
        if (!process_ended(run, &status, message)) continue;
        conclude(run, status, message);
        read_progress(run);
        report_end(s, run);
        any = true;
    }
    return any;
}

int sweep_train(Sweep *s) {
    const struct timespec pause = {.tv_nsec = 20000000};
    const double began = omp_get_wtime();
    Error ignored;
    signal(SIGCHLD, SIG_DFL); /* who started this may have ignored it: then there would be nobody to wait for */
    for (size_t i = 0; i < s->run_count; i++) read_progress(&s->runs[i]);
    const double steps_before = add_up(s).steps;
    for (int passed_on = 0;;) {
        if (collect(s)) sweep_save(s, "running", NULL, &ignored); /* finish() reports what fails */
        const int caught = interrupt_signal(); /* read after collect: what a signal stopped is not started again */
        const Totals t = add_up(s);
        if (t.running == 0 && (caught || t.waiting == 0)) {
            progress_clear(s->options->progress);
            return caught;
        }
        if (!caught) start_some(s, s->slots - t.running);
        for (size_t i = 0; i < s->run_count && caught && !passed_on; i++)
            if (s->runs[i].pid) kill(s->runs[i].pid, caught);
        passed_on = caught;
        show_progress(s, began, steps_before);
        nanosleep(&pause, NULL);
    }
}
