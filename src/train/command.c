/* The verbs that train a run or evaluate one: training itself and resume, and eval. They open what was named, call
   trainer.c or evaluate.c, and print what came of it. */
#include "train/trainer.h"

#include <math.h>

#include "base/interrupt.h"

/* --- ./train CONFIG.ini, and resume */

static void print_results(const TrainOutcome *outcome) {
    const RunState *s = &outcome->state;
    const char *directory = outcome->directory;
    char time[32];
    progress_duration(s->seconds, time, sizeof time);
    printf("%s after %zu step%s and %s", outcome->signal ? "stopped" : "done", s->step, s->step == 1 ? "" : "s", time);
    if (isfinite(s->train_loss)) printf(": train loss %.4f", s->train_loss);
    if (isfinite(s->val_loss)) printf(", validation loss %.4f", s->val_loss);
    putchar('\n');
    if (isfinite(s->val_loss))
        printf("the best validation loss was %.4f, at step %zu\n", s->best_val_loss, s->best_step);
    puts("results");
    print_plain(stdout, "  page to look at  %s/report.html", directory);
    print_plain(stdout, "  loss curves      %s/loss.png", directory);
    print_plain(stdout, "  heatmaps         %s/attention/", directory);
    print_plain(stdout, "  samples          %s/samples.txt", directory);
    print_plain(stdout, "  numbers          %s/metrics.csv, attention.csv", directory);
}

TrainOptions train_options(const Command *command, Progress *progress) {
    return (TrainOptions){command_threads(command), command->out, command->force, command->line, progress, 0,
                          command->report,          command->why};
}

static bool run_training(const Command *command, int *signal, Error *err) {
    static Config config; /* large */
    TrainOutcome outcome;
    Progress progress = progress_make(stderr, command->quiet);
    const TrainOptions options = train_options(command, &progress);
    interrupt_survive_closed_pipes();
    if (!config_load(&config, command->target, command->overrides.items, command->overrides.count, err)) return false;
    if (config.sweep_count)
        return usage_error(err, "%s has a [sweep] section: run it with %s sweep %s", command->target, program_name,
                           command->target);
    if (command->dry_run) {
        size_t bytes;
        if (!train_check(&config, &options, NULL, &bytes, err)) return false;
        config_write(&config, stdout);
        return train_check(&config, &options, stdout, &bytes, err);
    }
    if (!train_run(&config, &options, &outcome, err)) return false;
    *signal = outcome.signal;
    print_results(&outcome);
    return true;
}

bool resume_run(const Command *command, int *signal, Error *err) {
    TrainOutcome outcome;
    Progress progress = progress_make(stderr, command->quiet);
    TrainOptions options = train_options(command, &progress);
    options.threads = (size_t)command->threads;
    if (!train_resume(command->target, command->overrides.items, command->overrides.count, &options, &outcome, err))
        return false;
    *signal = outcome.signal;
    if (outcome.had_finished)
        print_plain(stdout,
                    "%s has already finished; its pictures and its page were made again; to train it longer: %s resume "
                    "%s --set train.steps=N",
                    command->target, program_name, command->target);
    else print_results(&outcome);
    return true;
}

const Verb train_verb = {
    .target = "CONFIG.ini",
    .what = "Trains a model and draws what it learned.",
    .takes_set = true,
    .makes_runs = true,
    .run = run_training,
};

/* --- eval */

static bool run_evaluation(const Command *command, int *signal, Error *err) {
    static Run run;
    Model model = {0};
    Evaluation e = {.complete = true};
    const bool ok = run_open(&run, command->target, NULL, 0, false, err) &&
                    run_load_model(&run, &model, 0, command_threads(command), err) && run_load_corpus(&run, err) &&
                    run_evaluate(&run, &model, &e, err);
    if (ok && e.complete) {
        const char *target = config_target(&run.config);
        printf("validation loss %.4f nats per %s", e.loss, target);
        if (!isnan(e.accuracy)) printf(", accuracy %.4f", e.accuracy);
        printf(", over %zu %ss\n", e.targets, target);
    }
    *signal = e.complete ? 0 : interrupt_signal();
    model_free(&model);
    run_close(&run);
    return ok;
}

const Verb eval_verb = {
    .name = "eval",
    .target = "RUN_DIR",
    .what = "Prints the loss of a trained model over the whole validation split.",
    .run = run_evaluation,
};
