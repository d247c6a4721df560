/* The loss, perturbed. All of it goes through the model's own passes: a hook sees every activation as it is
   computed. Its function is survey, keep or perturb, one for each purpose. */
#include "verbs/perturbed_loss.h"

#include "ops/activation.h"

#include <math.h>
#include <string.h>

enum { ACTIVATIONS_MAX = 10 /* of a block; those beside the blocks are fewer */ };

static size_t numbers_of(const HookView *v) { return v->rows * v->activation->width; }

static unsigned char *active_units(const PerturbedLoss *l, const HookView *v) {
    const Activation *a = v->activation;
    return l->active + ((l->micro * l->model->shape.L + a->layer) * l->rows + v->batch_row) * a->width;
}

/* The hook of the first pass: notes which activations there are, and which units of a ReLU are active. */
static void survey(void *context, const HookView *v) {
    PerturbedLoss *l = context;
    if (v->direction == BACKWARD) return;
    if (l->micro == 0 && v->batch_row == 0 && v->rows > 0) /* true in one thread */
        l->activations[l->activation_count++] = v->activation;
    if (!l->active || v->activation != &l->model->blocks[v->activation->layer].fc) return;
    unsigned char *active = active_units(l, v);
    bool on_kink = false;
    for (size_t i = 0; i < numbers_of(v); i++) {
        active[i] = v->values[i] > 0;
        on_kink = on_kink || v->values[i] == 0;
    }
    if (on_kink) {
#pragma omp atomic write
        l->on_kink = true;
    }
}

/* The hook that copies the gradient of the chosen activation out of the backward pass. */
static void keep(void *context, const HookView *v) {
    PerturbedLoss *l = context;
    if (v->direction == BACKWARD && v->activation == l->activation)
        memcpy(l->gradient + (l->micro * l->rows + v->batch_row) * v->activation->width, v->values,
               numbers_of(v) * sizeof(real));
}

/* The hook that keeps the units of a ReLU on their sides, and perturbs one entry of an activation. */
static void perturb(void *context, const HookView *v) {
    PerturbedLoss *l = context;
    const size_t width = v->activation->width, first = (l->micro * l->rows + v->batch_row) * width;
    const Block *block = &l->model->blocks[v->activation->layer];
    if (l->active && v->activation == &block->act) {
        const unsigned char *active = active_units(l, v);
        const real *fc = block->fc.values + v->slice_row * width;
        for (size_t i = 0; i < numbers_of(v); i++) v->values[i] = active[i] ? fc[i] : 0;
    }
    if (l->parameter || v->activation != l->activation) return;
    if (l->entry >= first && l->entry < first + numbers_of(v)) v->values[l->entry - first] += (real)l->delta;
}

/* Makes the pass of some shards of the current micro-batch, as in a training step, or only its forward half. */
static void pass(PerturbedLoss *l, size_t shard, bool with_backward) {
    engine_pass_shards(l->original.engine, shard, &l->original.batches[l->micro],
                       (Pass){.training = true,
                              .seed = l->original.seed,
                              .micro_step = l->original.micro_step + l->micro,
                              .with_backward = with_backward,
                              .zero_gradients = with_backward && l->micro == 0,
                              .batch_weight = 1 / (double)l->original.count});
}

/* Computes every gradient as a training step does, with `function` as the hook. */
static void backward(PerturbedLoss *l, void (*function)(void *context, const HookView *view)) {
    const Shards *shards = &l->original.engine->shards;
    const size_t T = l->original.batches->T;
    l->hook.function = function;
    for (size_t shard = 0; shard < shards->own; shard += shards->at_once) {
        const Range own = shards_sequences(shards, shard, l->original.batches->B);
        for (l->micro = 0; l->micro < l->original.count; l->micro++) {
            pass(l, shard, true);
            for (size_t r = own.begin * T; r < own.end * T; r++)
                l->losses[l->micro * l->rows + r] = (double)l->model->losses[r];
        }
        engine_end_shards(l->original.engine, shard);
    }
    l->hook.function = perturb;
}

/* The change of the loss through micro-batches begin .. end - 1. Differences are summed position by position, so
   that the rounding of a sum of thousands of losses does not hide what one entry does to them. */
static double change(PerturbedLoss *l, size_t begin, size_t end) {
    const Shards *shards = &l->original.engine->shards;
    double mean = 0;
    for (l->micro = begin; l->micro < end; l->micro++) {
        double sum = 0;
        for (size_t shard = 0; shard < shards->own; shard += shards->at_once) pass(l, shard, false);
        for (size_t r = 0; r < l->rows; r++) sum += (double)l->model->losses[r] - l->losses[l->micro * l->rows + r];
        mean += sum / ((double)batch_targets(&l->original.batches[l->micro]) * (double)l->original.count);
    }
    return mean;
}

double perturbed_loss_change(void *loss, double delta) {
    PerturbedLoss *l = loss;
    if (l->parameter) {
        const real kept = *l->parameter;
        *l->parameter = kept + (real)delta;
        double difference = change(l, 0, l->original.count);
        *l->parameter = kept;
        return difference;
    }
    size_t micro = l->entry / (l->rows * l->activation->width); /* the others do not depend on this entry */
    l->delta = delta;
    return change(l, micro, micro + 1);
}

void perturbed_loss_choose(PerturbedLoss *l, const Activation *activation) {
    l->activation = activation;
    for (size_t i = 0; i < l->original.count * l->rows * activation->width; i++) l->gradient[i] = (real)NAN;
    backward(l, keep);
}

static void allocate(PerturbedLoss *l) {
    static const char WHAT[] = "the check of gradients";
    const ModelShape *s = &l->model->shape;
    size_t widest = attention_width_in(&s->attention);
    if (s->C > widest) widest = s->C;
    if (s->F > widest) widest = s->F;
    if (s->V > widest) widest = s->V;
    l->losses = memory_make(l->original.count * l->rows, sizeof *l->losses, WHAT);
    l->gradient = memory_make(l->original.count * l->rows, widest * sizeof *l->gradient, WHAT);
    l->activations = memory_make(ACTIVATIONS_MAX * (s->L + 1), sizeof(const Activation *), WHAT);
    if (ACTIVATIONS[s->activation].has_kinks) l->active = memory_make(l->original.count * s->L * l->rows, s->F, WHAT);
}

void perturbed_loss_make(PerturbedLoss *l, const TrainingLoss *original) {
    Model *model = original->engine->model;
    *l = (PerturbedLoss){.original = *original,
                         .model = model,
                         .rows = original->batches->B * original->batches->T,
                         .hook = {.context = l}};
    allocate(l);
    model->hook = &l->hook;
    for (size_t i = 0; i < model->tensors.flat; i++)
        model->gradients[i] = (real)NAN; /* a pass that zeroes gradients must not read them */
    backward(l, survey);
    for (size_t i = 0; i < original->count; i++) {
        const double counted = (double)batch_targets(&original->batches[i]);
        for (size_t r = 0; r < l->rows; r++)
            l->loss += l->losses[i * l->rows + r] / (counted * (double)original->count);
    }
    const bool differs = change(l, 0, original->count) != 0;
    if (l->on_kink || differs) perturbed_loss_end(l);
    if (l->on_kink) runtime_error("the input of a ReLU is exactly 0, without a derivative: use another seed");
    if (differs) runtime_error("the forward pass alone gives another loss than the forward and backward pass");
}

void perturbed_loss_end(PerturbedLoss *l) { l->model->hook = NULL; }
