/* The runs of a sweep as processes: as many at a time as the cores have room for, each started anew or resumed where it
   stopped. There is no parallel region in this process before the last of them has been started. */
#include <omp.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "base/results_entries.h"
#include "sweep/parts.h"

static void fail(SweepRun *run, const char *why) {
    run->state = RUN_FAILED;
    snprintf(run->message, sizeof run->message, "%s", why);
}

/* Removes what a run that was killed before its first checkpoint left; an error where there is something else. */
static bool clear(const char *directory, Error *err) {
    return !path_exists(directory) || rmdir(directory) == 0 ||
           (results_hold_only_ours(directory, err) && directory_remove(directory, err));
}

static bool write_config(const Sweep *s, const SweepRun *run, char path[4096], Error *err) {
    char name[RUN_NAME + 16];
    FileWriter writer;
    snprintf(name, sizeof name, "configs/%s.ini", run->name);
    if (!path_join(path, 4096, s->directory, name, err) || !file_writer_open(&writer, path, err)) return false;
    config_write(&run->config, writer.stream);
    return file_writer_commit(&writer, err);
}

static bool start(const Sweep *s, SweepRun *run, Error *err) {
    char config[4096], threads[32];
    if (!run->has_checkpoint && !(clear(run->directory, err) && write_config(s, run, config, err))) return false;
    snprintf(threads, sizeof threads, "%zu", s->threads);
    const char *const anew[] = {"./train", config, "--out", run->directory, "--threads", threads, "--quiet", NULL};
    const char *const resume[] = {"./train", "resume", run->directory, "--threads", threads, "--quiet", NULL};
    run->read = 0; /* a resumed run cuts its logs back */
    run->began = omp_get_wtime();
    return child_start(&run->child, s->options->program, run->has_checkpoint ? resume : anew, err);
}

/* What the process said by its exit status and last line, and the run in its run.json. A run that was stopped by the
   signal that the sweep passed on has not finished, and is no failure. */
static void conclude(SweepRun *run, int status, const char *message) {
    const int caught = interrupt_signal();
    char ended[64];
    Error err;
    if (!sweep_read_run(run, &err)) {
        fail(run, err.message);
    } else if (!(status == 0 && run->state == RUN_FINISHED) &&
               !(status == STATUS_DIVERGED && run->state == RUN_DIVERGED)) {
        snprintf(ended, sizeof ended, "ended with status %d before it had finished", status);
        fail(run, *message ? message : ended);
        if (caught && status == 128 + caught) run->state = RUN_NOT_FINISHED, *run->message = 0;
    }
}

static bool is_waiting(const SweepRun *run) { return run->state == RUN_NOT_FINISHED && !run->child.pid; }

static void count(const Sweep *s, size_t *waiting, size_t *running) {
    *waiting = *running = 0;
    for (size_t i = 0; i < s->run_count; i++) {
        *waiting += is_waiting(&s->runs[i]);
        *running += s->runs[i].child.pid != 0;
    }
}

static void start_some(Sweep *s, size_t free_slots) {
    for (size_t i = 0; i < s->run_count && free_slots; i++) {
        SweepRun *run = &s->runs[i];
        Error err;
        if (!is_waiting(run)) continue;
        if (start(s, run, &err)) {
            free_slots--;
        } else {
            fail(run, err.message);
            sweep_report_end(s, run, omp_get_wtime());
        }
    }
}

/* Returns whether any has ended. */
static bool collect(Sweep *s) {
    bool any = false;
    for (size_t i = 0; i < s->run_count; i++) {
        SweepRun *run = &s->runs[i];
        char message[sizeof run->message];
        int status;
        if (!child_ended(&run->child, &status, message, sizeof message)) continue;
        conclude(run, status, message);
        sweep_read_progress(run);
        sweep_report_end(s, run, omp_get_wtime());
        any = true;
    }
    return any;
}

int sweep_train(Sweep *s) {
    const struct timespec pause = {.tv_nsec = 20000000};
    Error ignored;
    for (int passed_on = 0;;) {
        size_t waiting, running;
        if (collect(s)) sweep_save(s, "running", &ignored); /* the last time says whether it works */
        const int caught = interrupt_signal(); /* read after collect: what a signal stopped is not started again */
        count(s, &waiting, &running);
        if (running == 0 && (caught || waiting == 0)) {
            progress_clear(s->options->progress);
            return caught;
        }
        if (!caught) start_some(s, s->slots - running);
        for (size_t i = 0; i < s->run_count && caught && !passed_on; i++) child_signal(&s->runs[i].child, caught);
        passed_on = caught;
        sweep_view(s, omp_get_wtime());
        nanosleep(&pause, NULL);
    }
}
