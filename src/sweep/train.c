/* The arms of a sweep as processes: as many at a time as the cores have room for, each started anew or sent on where it
   stopped. There is no parallel region in this process before the last of them has been started. */
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "base/results.h"
#include "sweep/parts.h"
#include "train/checkpoint.h"

/* Seconds to wait for a process that is still in an arm's directory: what a killed sweep left behind is saving. */
static const double PATIENCE = 30;

static void fail(ArmRun *run, const Error *why) {
    run->state = ARM_FAILED;
    snprintf(run->message, sizeof run->message, "%s", why->message);
}

/* What is there was made by this arm's config, and not with more steps, say, since. */
static bool check_config(const Arm *arm, const char *directory, Error *err) {
    char *own = config_text(&arm->config);
    bool ok = own ? sweep_check_config(directory, own, "this arm", err)
                  : error_set(err, STATUS_FAILED, "no memory for a config");
    free(own);
    return ok;
}

static bool write_config(const Sweep *s, const Arm *arm, char path[4096], Error *err) {
    char name[ARM_NAME + 16];
    FileWriter writer;
    snprintf(name, sizeof name, "configs/%s.ini", arm->name);
    if (!path_join(path, 4096, s->directory, name, err) || !file_writer_open(&writer, path, err)) return false;
    config_write(&arm->config, writer.stream);
    return file_writer_commit(&writer, err);
}

/* What a killed arm left before its first checkpoint goes; what is not ours stays, and is named. */
static bool clear(const char *directory, Error *err) {
    return !path_exists(directory) || rmdir(directory) == 0 ||
           (results_hold_only_ours(directory, err) && directory_remove(directory, err));
}

/* An arm that has ended is left as it is; one with a checkpoint is resumed; one without starts again. */
static bool start(Sweep *s, size_t i, const char *directory, Error *err) {
    const Arm *arm = &s->arms.arms[i];
    ArmRun *run = &s->runs[i];
    char config[4096], threads[32];
    if (!arm_state_read(directory, &run->state, run->message, sizeof run->message, err)) return false;
    bool ended = run->state == ARM_FINISHED || run->state == ARM_DIVERGED, resumes = false;
    if (!ended && !checkpoint_exists(directory, &resumes, err)) return false;
    if ((ended || resumes) && !check_config(arm, directory, err)) return false;
    if (ended) return true;
    *run->message = 0;
    if (!resumes && !(clear(directory, err) && write_config(s, arm, config, err))) return false;
    snprintf(threads, sizeof threads, "%zu", s->threads);
    const char *const fresh[] = {"./train", config, "--out", directory, "--threads", threads, "--quiet", NULL};
    const char *const further[] = {"./train", "resume", directory, "--threads", threads, "--quiet", NULL};
    run->read = 0; /* a resumed run cuts its logs back */
    run->began = omp_get_wtime();
    if (!child_start(&run->child, s->options->program, resumes ? further : fresh, err)) return false;
    run->state = ARM_RUNNING;
    return true;
}

/* Whether the arm's directory cannot be had, mostly as another process is in it (STATUS_USAGE). */
static bool is_blocked(ArmRun *run, const char *directory, double now, Error *err) {
    int lock;
    if (!path_exists(directory)) return false;
    if (directory_lock(directory, &lock, err)) {
        if (lock >= 0) close(lock);
        return false;
    }
    if (run->blocked == 0) run->blocked = now;
    return true;
}

static void try_to_start(Sweep *s, size_t i) {
    ArmRun *run = &s->runs[i];
    char directory[4096];
    Error err;
    double now = omp_get_wtime();
    bool ok = sweep_arm_path(s, i, directory, &err);
    if (ok && is_blocked(run, directory, now, &err)) {
        if (err.status == STATUS_USAGE && now - run->blocked < PATIENCE) return; /* and is tried again */
        ok = false;
    }
    if (!ok || !start(s, i, directory, &err)) fail(run, &err);
    if (run->state != ARM_WAITING && run->state != ARM_RUNNING) {
        sweep_read_progress(s, i);
        sweep_report_end(s, i, now);
    }
}

static bool is_run(const Sweep *s, size_t i) { return s->arms.arms[i].same_as == i; }

static size_t count_runs(const Sweep *s, ArmState state) {
    size_t count = 0;
    for (size_t i = 0; i < s->arms.count; i++) count += is_run(s, i) && s->runs[i].state == state;
    return count;
}

/* Whether an exit status says that the process saved what it had and ended by one of the signals it was sent. */
static bool was_interrupted(int status) {
    for (int i = 0; i < INTERRUPT_COUNT; i++)
        if (status == 128 + INTERRUPTS[i]) return true;
    return false;
}

/* What the process said by its exit status and last line, and the run in its run.json. */
static void conclude(const Sweep *s, size_t i, int status, const char *message) {
    ArmRun *run = &s->runs[i];
    char directory[4096];
    ArmState said;
    Error err;
    if (!sweep_arm_path(s, i, directory, &err) ||
        !arm_state_read(directory, &said, run->message, sizeof run->message, &err))
        fail(run, &err);
    else if ((status == 0 && said == ARM_FINISHED) || (status == STATUS_DIVERGED && said == ARM_DIVERGED)) {
        run->state = said;
    } else if (was_interrupted(status)) {
        run->state = ARM_INTERRUPTED;
        *run->message = 0;
    } else {
        run->state = ARM_FAILED;
        if (*message)
            snprintf(run->message, sizeof run->message, "%s", message);
        else
            snprintf(run->message, sizeof run->message, "ended with status %d and left a run that is %s", status,
                     ARM_STATE_NAMES[said]);
    }
}

/* Returns whether any has ended. */
static bool collect(Sweep *s) {
    bool any = false;
    for (size_t i = 0; i < s->arms.count; i++) {
        char message[1024];
        int status;
        if (!child_ended(&s->runs[i].child, &status, message, sizeof message)) continue;
        conclude(s, i, status, message);
        sweep_read_progress(s, i);
        sweep_report_end(s, i, omp_get_wtime());
        any = true;
    }
    return any;
}

/* What --force replaces goes once an arm has finished or has a checkpoint. */
static void drop_replaced(Sweep *s) {
    bool lasts = false;
    Error err;
    for (size_t i = 0; i < s->arms.count && *s->made.replaced && !lasts; i++) {
        char directory[4096];
        if (!is_run(s, i) || s->runs[i].state == ARM_WAITING || !sweep_arm_path(s, i, directory, &err)) continue;
        lasts = s->runs[i].state == ARM_FINISHED || (checkpoint_exists(directory, &lasts, &err) && lasts);
    }
    if (lasts && !results_keep(&s->made, &err)) progress_message(s->options->progress, "note: %s", err.message);
}

bool sweep_load_states(Sweep *s) {
    bool left = false;
    for (size_t i = 0; i < s->arms.count; i++) {
        ArmRun *run = &s->runs[i];
        char directory[4096];
        Error err;
        if (!is_run(s, i) || !sweep_arm_path(s, i, directory, &err)) continue;
        ArmState state;
        bool known = arm_state_read(directory, &state, run->message, sizeof run->message, &err);
        bool ended = known && (state == ARM_FINISHED || state == ARM_DIVERGED);
        sweep_read_progress(s, i);
        if (!known || (ended && !check_config(&s->arms.arms[i], directory, &err)))
            fail(run, &err);
        else if (ended)
            run->state = state;
        else {
            left = true;
            *run->message = 0;
        }
    }
    return left;
}

int sweep_train(Sweep *s) {
    const struct timespec pause = {.tv_nsec = 20000000};
    int passed_on = 0;
    Error ignored;
    for (;;) {
        int caught = interrupt_signal();
        for (size_t i = 0; i < s->arms.count && !caught; i++)
            if (is_run(s, i) && s->runs[i].state == ARM_WAITING && count_runs(s, ARM_RUNNING) < s->slots)
                try_to_start(s, i);
        for (size_t i = 0; i < s->arms.count && caught && !passed_on; i++) child_signal(&s->runs[i].child, caught);
        passed_on = caught;
        if (collect(s)) sweep_save(s, "running", &ignored); /* the last time says whether it works */
        drop_replaced(s);
        if (count_runs(s, ARM_RUNNING) == 0 && (caught || count_runs(s, ARM_WAITING) == 0)) break;
        sweep_view(s, omp_get_wtime());
        nanosleep(&pause, NULL);
    }
    progress_clear(s->options->progress);
    return passed_on;
}
