/* Training, and the command line. First the loop of a run; then the table of verbs, each a call into src/ or lab/; then
   main. Every error that no other protect catches ends in main, which prints it and exits with its status. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "base/machine.h"
#include "base/memory.h"
#include "gemm/matmul.h"
#include "ranks/ranks.h"
#include "train/trainer.h"

#if __has_include(<lab/lab.h>)
#include <lab/lab.h>
#else /* The trainer alone: runs have no page, no directory is a sweep's, and a verb of the lab is not built in. */
static const Verb sweep_verb = {.name = "sweep"}, attend_verb = {.name = "attend"}, why_verb = {.name = "why"},
                  report_verb = {.name = "report"}, bench_verb = {.name = "bench"}, theory_verb = {.name = "theory"},
                  gradcheck_verb = {.name = "gradcheck"};
static void (*const report_write)(const Directory *directory) = NULL;
static const Option sweep_resume_options[] = {{0}};
static bool sweep_resume_if(const Command *command, int *signal) {
    (void)command;
    (void)signal;
    return false;
}
#endif

/* Trains from t->state.step to the last step, train.steps, or until a signal, which is stored in t->signal. A step is
   evaluated and measured before its update; the last one has no update. The loop ends with a checkpoint. */
static void loop(void *trainer) {
    Trainer *t = trainer;
    const Config *c = &t->run.config;
    const size_t last = c->train.steps;
    trainer_begin(t);
    while (!t->signal) {
        const size_t step = t->state.step, mark = memory_mark();
        attention_set_divisor(&t->model.shape.attention, c, step);
        t->val_loss = NAN;
        if (step_is_due(step, c->eval.every) || step == last) trainer_evaluate(t);
        if (t->signal) break; /* the evaluation was cut short: resume repeats this step */
        if (step_is_due(step, c->log.attention_every) || step == 0 || step == last) trainer_measure(t);

        t->loss = step_gradients(&t->engine, &t->run.corpus, c, step);
        t->norm = gradient_norm(&t->optimizer, t->model.gradients);
        trainer_log(t);
        if (step == last) break; /* even if a signal has arrived: the run is complete */
        if (!isnan(t->val_loss)) trainer_show(t);

        step_update(&t->model, &t->optimizer, c, t->norm, step);
        t->state.step = step + 1;
        t->signal = interrupt_signal();
        logs_sizes(t->logs, t->state.log_size);
        if (step + 1 < last && step_is_due(step + 1, c->log.checkpoint_every) && !t->signal) trainer_save(t);
        memory_release(mark);
    }
    progress_clear(t->options->progress);
    trainer_save(t);
}

/* Trains a run that was started or resumed, unless it had finished. After an error in the loop, its pictures, its page
   and run.json are written all the same. */
static const Trainer *run_loop(Trainer *t) {
    if (!t->had_finished) {
        protect(loop, t, &t->failure);
        trainer_end(t);
    }
    return t;
}

static bool may_resume; /* --resume */

static const Option TRAIN_OPTIONS[] = {
    {"resume", NULL, "with --out: continue the run there, if one has begun", OPTION_SWITCH, &may_resume, 0, 0},
    {0},
};

static int run_train(const Command *command) {
    const TrainOptions options = train_options(command, report_write);
    Config config;
    char run[PATH_CAPACITY];
    interrupt_survive_closed_pipes();
    path_join(run, command->target, "run.json");
    if (access(run, F_OK) == 0)
        usage_error("%s is a directory of results, not a config; to resume it: %s", command->target,
                    command_to_copy("resume", command->target));
    config_load(&config, NULL, command->target, command->overrides.items, command->overrides.count);
    if (command->dry_run) {
        trainer_check(&config, &options, NULL);
        config_write(&config, stdout);
        trainer_check(&config, &options, stdout);
        return 0;
    }
    if (may_resume && !command->out) usage_error("--resume continues the run that --out names: add --out DIR");
    const Trainer *t = run_loop(may_resume ? trainer_start_or_resume(&config, command->target, &options)
                                           : trainer_start(&config, &options));
    print_outcome(t);
    return t->signal;
}

static int run_resume(const Command *command) {
    const OptionList *overrides = &command->overrides;
    TrainOptions options = train_options(command, report_write);
    int signal;
    interrupt_survive_closed_pipes();
    if (sweep_resume_if(command, &signal)) return signal;
    options.threads = (size_t)command->threads; /* 0: as many as the run had */
    const Trainer *t = run_loop(trainer_resume(command->target, overrides->items, overrides->count, &options));
    print_outcome(t);
    return t->signal;
}

static const Verb train_verb = {
    .target = "CONFIG.ini",
    .what = "Trains a model and draws what it learned.",
    .options = TRAIN_OPTIONS,
    .settings_meant = config_settings_meant,
    .makes_runs = true,
    .by_ranks = true,
    .run = run_train,
};

static const Verb resume_verb = {
    .name = "resume",
    .target = "RUN_DIR",
    .what = "Continues a run or a sweep that stopped; the result is bit-identical to one that\n"
            "never stopped. Of a finished run it draws the pictures again, of a finished\n"
            "sweep it writes the table again. --set can change train.steps of a run, and\n"
            "nothing else. A run keeps its number of threads unless --threads is given.",
    .options = sweep_resume_options,
    .settings_meant = config_settings_meant,
    .by_ranks = true,
    .run = run_resume,
};

/* Names the script that writes a model as GPT-2. */
static const Verb export_verb = {.name = "export", .target = "RUN_DIR DIR [--best]", .script = "lab/export_gpt2.py"};

/* The verbs in the order of the help, ended by NULL. Training, which needs no word, is the first. */
static const Verb *const VERBS[] = {&train_verb,  &resume_verb,    &sweep_verb,  &eval_verb,   &sample_verb,
                                    &attend_verb, &why_verb,       &report_verb, &export_verb, &bench_verb,
                                    &theory_verb, &gradcheck_verb, NULL};

static void print_help(void) {
    printf("sqrtdk %s: trains a small transformer and shows what the divisor of its\n"
           "attention scores does. Start with: %s configs/dk64_scaled.ini\n\n",
           SQRTDK_VERSION, program_name);
    for (const Verb *const *verb = VERBS; *verb; verb++)
        if ((*verb)->run) printf("%s %s\n", verb == VERBS ? "usage:" : "      ", verb_usage(*verb));
    printf("       %s --help | --version | -V | help VERB | help config\n\n"
           "help VERB describes a verb and its options, help train those of training, help\n"
           "config the keys of a config, as in --set attention.scale_divisor=none.\n\n"
           "exit status: 0 done; 1 failed while running; 2 wrong usage or config;\n"
           "3 diverged (NaN or infinity); 128 + N stopped by signal N, with everything saved\n",
           program_name);
}

/* The arguments of main, and the result of the verb. */
typedef struct {
    int argc;
    char **argv;
    Command command;
    bool parsed; /* the command line has no error */
    int signal;  /* the signal that stopped the verb, or 0 */
} Program;

/* Runs the verb on the processors that OpenMP and a container's quota allow the ranks of this machine. If
   OMP_NUM_THREADS is set, the quota does not count. */
static void run_verb(Program *p, const Verb *verb) {
    Command *command = &p->command;
    const size_t threads = (size_t)matmul_threads_offered();
    const size_t quota = processors_by_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    const size_t offered = threads < quota || getenv("OMP_NUM_THREADS") ? threads : quota;
    interrupt_catch();
    if (verb->by_ranks) ranks_start(command->dry_run ? "a dry run" : verb->name ? verb->name : "train");
    const size_t processors = offered / ranks_here();
    command->processors = processors > THREADS_MAX ? THREADS_MAX : processors > 1 ? processors : 1;
    command->quiet = command->quiet || ranks_index() > 0;
    p->signal = verb->run(command);
}

static void read_and_run(void *program) {
    Program *p = program;
    memory_check_stack(stack_left());
    const bool version = p->argc == 2 && (strcmp(p->argv[1], "--version") == 0 || strcmp(p->argv[1], "-V") == 0);
    const bool keys = p->argc == 3 && strcmp(p->argv[1], "help") == 0 && strcmp(p->argv[2], "config") == 0;
    const Verb *verb = version || keys ? NULL : command_read(VERBS, p->argc, p->argv, &p->command);
    p->parsed = true;
    if (version) printf("sqrtdk %s\n", SQRTDK_VERSION);
    else if (keys) config_write_help(stdout);
    else if (!p->command.help) run_verb(p, verb);
    else if (p->command.named || p->command.target) verb_print_help(verb, stdout);
    else print_help();
    /* After a signal all is saved, and standard output may be gone with a terminal that was closed. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && !p->signal)
        runtime_error("cannot write to standard output: %s", strerror(errno));
    memory_release(0);
}

int main(int argc, char **argv) {
    Program program = {.argc = argc, .argv = argv, .command = {.argv = argv}};
    Error error;
    files_hold_standard_streams();
    if (argc > 0 && *argv[0]) program_set_name(argv[0]);
    const bool done = protect(read_and_run, &program, &error);
    fflush(stdout);
    if (!done) ranks_fail(error, !program.parsed);
    ranks_end();
    return program.signal ? 128 + program.signal : 0;
}
