/* The verb that trains a run, and resume of a run. They open the config or the directory, call trainer.c, and print the
   outcome. */
#include "train/trainer.h"

#include <math.h>

#include "base/interrupt.h"

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
    if (outcome->signal) print_plain(stdout, "to resume: %s resume %s", program_name, directory);
    puts("results");
    print_plain(stdout, "  page to look at  %s/report.html", directory);
    print_plain(stdout, "  loss curves      %s/loss.png", directory);
    print_plain(stdout, "  heatmaps         %s/attention/", directory);
    print_plain(stdout, "  samples          %s/samples.txt", directory);
    print_plain(stdout, "  numbers          %s/metrics.csv, attention.csv", directory);
}

TrainOptions train_options(const Command *command) {
    return (TrainOptions){.threads = command_threads(command),
                          .out = command->out,
                          .force = command->force,
                          .command_line = command->line,
                          .progress = progress_make(stderr, command->quiet),
                          .report = command->report,
                          .why = command->why};
}

static int run_training(const Command *command) {
    const TrainOptions options = train_options(command);
    Config config;
    interrupt_survive_closed_pipes();
    config_load(&config, NULL, command->target, command->overrides.items, command->overrides.count);
    if (command->dry_run) {
        train_check(&config, &options, NULL);
        config_write(&config, stdout);
        train_check(&config, &options, stdout);
        return 0;
    }
    const TrainOutcome outcome = train_run(&config, &options);
    print_results(&outcome);
    return outcome.signal;
}

int resume_run(const Command *command) {
    TrainOptions options = train_options(command);
    options.threads = (size_t)command->threads;
    const OptionList *overrides = &command->overrides;
    const TrainOutcome outcome = train_resume(command->target, overrides->items, overrides->count, &options);
    if (outcome.had_finished)
        print_plain(stdout,
                    "%s has already finished; its pictures and its page were made again; to train it longer: %s resume "
                    "%s --set train.steps=N",
                    command->target, program_name, command->target);
    else print_results(&outcome);
    return outcome.signal;
}

const Verb train_verb = {
    .target = "CONFIG.ini",
    .what = "Trains a model and draws what it learned.",
    .takes_set = true,
    .makes_runs = true,
    .by_ranks = true,
    .run = run_training,
};
