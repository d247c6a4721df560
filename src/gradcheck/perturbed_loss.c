#include "gradcheck/perturbed_loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_of(const HookView *v, const Activation *a) {
    return a && v->activation->name == a->name && v->activation->layer == a->layer;
}
static size_t numbers_of(const HookView *v) { return v->rows * v->activation->width; }

static unsigned char *active_units(const PerturbedLoss *l, const HookView *v) {
    const Activation *a = v->activation;
    return l->active + ((l->micro * l->of.model->shape.L + a->layer) * l->rows + v->batch_row) * a->width;
}

/* The first pass: which activations there are, and which units of a ReLU are active. */
static void survey(void *context, const HookView *v) {
    PerturbedLoss *l = context;
    if (v->direction == BACKWARD) return;
    if (l->micro == 0 && v->batch_row == 0 && v->rows > 0) /* true in one thread */
        l->activations[l->activation_count++] = *v->activation;
    if (!l->active || v->activation->name != AT_FC) return;
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

static void keep(void *context, const HookView *v) {
    PerturbedLoss *l = context;
    if (v->direction == BACKWARD && is_of(v, l->activation))
        memcpy(l->gradient + (l->micro * l->rows + v->batch_row) * v->activation->width, v->values,
               numbers_of(v) * sizeof(real));
}

/* Holds the units of a ReLU on their sides, and perturbs one entry. */
static void perturb(void *context, const HookView *v) {
    PerturbedLoss *l = context;
    const size_t width = v->activation->width, first = (l->micro * l->rows + v->batch_row) * width;
    if (l->active && v->activation->name == AT_ACT) {
        const unsigned char *active = active_units(l, v);
        const real *fc = l->of.model->blocks[v->activation->layer].fc.values + v->slice_row * width;
        for (size_t i = 0; i < numbers_of(v); i++) v->values[i] = active[i] ? fc[i] : 0;
    }
    if (l->parameter || !is_of(v, l->activation)) return;
    if (l->entry >= first && l->entry < first + numbers_of(v)) v->values[l->entry - first] += (real)l->delta;
}

/* Every gradient, as a training step computes it. */
static void backward(PerturbedLoss *l, void (*function)(void *context, const HookView *view)) {
    l->hook.function = function;
    for (l->micro = 0; l->micro < l->of.count; l->micro++) {
        model_forward_backward(l->of.model, &l->of.batches[l->micro], l->of.seed, l->of.micro_step + l->micro,
                               1 / (double)l->of.count, l->micro == 0);
        for (size_t r = 0; r < l->rows; r++) l->losses[l->micro * l->rows + r] = (double)l->of.model->losses[r];
    }
    l->hook.function = perturb;
}

/* Of micro-batches begin .. end - 1. Summed position by position, so that the rounding of a sum of thousands of losses
   does not cover what one entry does to them. */
static double change(PerturbedLoss *l, size_t begin, size_t end) {
    double mean = 0;
    for (l->micro = begin; l->micro < end; l->micro++) {
        double sum = 0;
        model_training_forward(l->of.model, &l->of.batches[l->micro], l->of.seed, l->of.micro_step + l->micro);
        for (size_t r = 0; r < l->rows; r++) sum += (double)l->of.model->losses[r] - l->losses[l->micro * l->rows + r];
        mean += sum / ((double)batch_targets(&l->of.batches[l->micro]) * (double)l->of.count);
    }
    return mean;
}

double perturbed_loss_change(void *loss, double delta) {
    PerturbedLoss *l = loss;
    if (l->parameter) {
        const real kept = *l->parameter;
        *l->parameter = kept + (real)delta;
        double difference = change(l, 0, l->of.count);
        *l->parameter = kept;
        return difference;
    }
    size_t micro = l->entry / (l->rows * l->activation->width); /* the other micro-batches do not see it */
    l->delta = delta;
    return change(l, micro, micro + 1);
}

void perturbed_loss_choose(PerturbedLoss *l, const Activation *activation) {
    l->activation = activation;
    for (size_t i = 0; i < l->of.count * l->rows * activation->width; i++) l->gradient[i] = (real)NAN;
    backward(l, keep);
}

static bool allocate(PerturbedLoss *l, Error *err) {
    const ModelShape *s = &l->of.model->shape;
    size_t widest = attention_width_in(&s->attention);
    if (s->C > widest) widest = s->C;
    if (s->F > widest) widest = s->F;
    if (s->V > widest) widest = s->V;
    l->losses = calloc(l->of.count * l->rows, sizeof *l->losses);
    l->gradient = calloc(l->of.count * l->rows, widest * sizeof *l->gradient);
    l->activations = calloc(AT_COUNT * (s->L + 1), sizeof *l->activations);
    if (s->relu) l->active = calloc(l->of.count * s->L * l->rows, s->F);
    if (l->losses && l->gradient && l->activations && (!s->relu || l->active)) return true;
    return failed(err, "no memory for the check of gradients");
}

bool perturbed_loss_make(PerturbedLoss *l, const TrainingLoss *of, Error *err) {
    Model *model = of->model;
    *l = (PerturbedLoss){.of = *of, .rows = of->batches->B * of->batches->T, .hook = {.context = l}};
    if (!allocate(l, err)) return false;
    l->hook_before = model->hook;
    model->hook = &l->hook;
    for (size_t i = 0; i < model->tensors.flat; i++)
        model->gradients[i] = (real)NAN; /* a pass that zeroes gradients must not read them */
    backward(l, survey);
    for (size_t i = 0; i < of->count; i++) {
        const double counted = (double)batch_targets(&of->batches[i]);
        for (size_t r = 0; r < l->rows; r++) l->loss += l->losses[i * l->rows + r] / (counted * (double)of->count);
    }
    if (l->on_kink) return failed(err, "the input of a ReLU is exactly 0, without a derivative: use another seed");
    if (change(l, 0, of->count) == 0) return true;
    return failed(err, "the forward pass alone gives another loss than the forward and backward pass");
}

void perturbed_loss_free(PerturbedLoss *l) {
    if (l->of.model->hook == &l->hook) l->of.model->hook = l->hook_before;
    free(l->losses);
    free(l->gradient);
    free(l->activations);
    free(l->active);
}
