/* The verb eval. train/evaluate.c, which training calls as well, computes the loss. */
#include <math.h>

#include "base/interrupt.h"
#include "run/run.h"
#include "train/evaluate.h"
#include "verbs/verbs.h"

static int run_evaluation(const Command *command) {
    static Run run;
    Model model;
    run_open(&run, command->target, NULL, 0, false);
    run_load_model(&run, &model, 0, command_threads(command));
    run_load_corpus(&run);
    const Evaluation e = evaluate_run(&run, &model);
    if (!e.complete) return interrupt_signal();
    const char *target = config_target(&run.config);
    printf("validation loss %.4f nats per %s", e.loss, target);
    if (!isnan(e.accuracy)) printf(", accuracy %.4f", e.accuracy);
    printf(", over %zu %ss\n", e.targets, target);
    return 0;
}

const Verb eval_verb = {
    .name = "eval",
    .target = "RUN_DIR",
    .what = "Prints the loss of a trained model over the whole validation split.",
    .run = run_evaluation,
};
