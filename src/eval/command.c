/* ./train eval RUN_DIR. The loss itself is train/evaluate.c, which training calls as well. */
#include <math.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "eval/eval.h"

bool run_evaluate(Run *run, Model *model, Evaluation *evaluation, Error *err) {
    const size_t T = model->shape.T, B = model->max_batch;
    Engine engine;
    int32_t *tokens = calloc(2 * B * T, sizeof *tokens);
    if (!tokens) return runtime_error(err, "no memory for the batches");
    bool ok = engine_make(&engine, (EngineKind)run->config.train.engine, 1, model, err);
    if (ok) *evaluation = evaluate(&engine, &run->corpus, B, 0, tokens, tokens + B * T);
    engine_free(&engine);
    free(tokens);
    return ok;
}

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
