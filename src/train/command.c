/* The verb that trains a run, and resume of a run. They open the config or the directory, call trainer.c, and print the
   outcome. */
#include "train/trainer.h"

#include <math.h>

#include "base/interrupt.h"
#include "ranks/ranks.h"

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

TrainOptions train_options(const Command *command, Progress *progress) {
    const size_t processors = command->processors / ranks_here();
    const size_t threads = command->threads ? command_threads(command) : processors ? processors : 1;
    return (TrainOptions){.threads = threads,
                          .out = command->out,
                          .force = command->force,
                          .command_line = command->line,
                          .progress = progress,
                          .report = command->report,
                          .why = command->why};
}

static bool run_training(const Command *command, int *signal, Error *err) {
    Config config;
    TrainOutcome outcome;
    interrupt_survive_closed_pipes();
    if (!ranks_start(err)) return false;
    Progress progress = progress_make(stderr, command->quiet || ranks_index() > 0);
    const TrainOptions options = train_options(command, &progress);
    const bool ok =
        config_load(&config, NULL, command->target, command->overrides.items, command->overrides.count, err);
    if (!ranks_agree(ok, NULL, err)) return false;
    if (command->dry_run) {
        size_t bytes;
        if (!ranks_agree(train_check(&config, &options, NULL, &bytes, err), NULL, err)) return false;
        if (ranks_index() > 0) return true;
        config_write(&config, stdout);
        return train_check(&config, &options, stdout, &bytes, err);
    }
    if (!train_run(&config, &options, &outcome, err)) return false;
    *signal = outcome.signal;
    if (ranks_index() == 0) print_results(&outcome);
    return true;
}

bool resume_run(const Command *command, int *signal, Error *err) {
    TrainOutcome outcome;
    if (!ranks_start(err)) return false;
    Progress progress = progress_make(stderr, command->quiet || ranks_index() > 0);
    TrainOptions options = train_options(command, &progress);
    options.threads = (size_t)command->threads;
    if (!train_resume(command->target, command->overrides.items, command->overrides.count, &options, &outcome, err))
        return false;
    *signal = outcome.signal;
    if (ranks_index() > 0) return true;
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
