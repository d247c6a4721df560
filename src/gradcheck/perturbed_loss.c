#include "gradcheck/perturbed_loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_at(const TapView *v, const Station *s) { return s && v->place == s->place && v->layer == s->layer; }

static unsigned char *active_units(const MovedLoss *l, const TapView *v) {
    return l->active + ((l->micro * l->model->shape.L + v->layer) * l->rows + v->first) * v->width;
}

/* The first pass: which places there are, and which units of a ReLU are active. */
static void survey(void *context, const TapView *v) {
    MovedLoss *l = context;
    if (v->backward) return;
    if (l->micro == 0 && v->first == 0 && v->rows > 0) /* true in one thread */
        l->stations[l->station_count++] = (Station){v->place, v->layer, v->width};
    if (!l->active || v->place != PLACE_FC) return;
    unsigned char *active = active_units(l, v);
    bool on_kink = false;
    for (size_t i = 0; i < v->rows * v->width; i++) {
        active[i] = v->values[i] > 0;
        on_kink = on_kink || v->values[i] == 0;
    }
    if (on_kink) {
#pragma omp atomic write
        l->on_kink = true;
    }
}

/* Keeps the gradient at one place. */
static void keep(void *context, const TapView *v) {
    MovedLoss *l = context;
    if (v->backward && is_at(v, l->station))
        memcpy(l->gradient + (l->micro * l->rows + v->first) * v->width, v->values, v->rows * v->width * sizeof(real));
}

/* Holds the units of a ReLU where they were, and moves one entry. */
static void move(void *context, const TapView *v) {
    MovedLoss *l = context;
    if (l->active && v->place == PLACE_ACT) {
        const unsigned char *active = active_units(l, v);
        const real *fc = l->model->blocks[v->layer].fc + v->first * v->width;
        for (size_t i = 0; i < v->rows * v->width; i++) v->values[i] = active[i] ? fc[i] : 0;
    }
    if (l->parameter || !is_at(v, l->station)) return;
    size_t first = (l->micro * l->rows + v->first) * v->width;
    if (l->entry >= first && l->entry < first + v->rows * v->width) v->values[l->entry - first] += (real)l->delta;
}

/* Every gradient, as a training step computes it. */
static void backward(MovedLoss *l, void (*look)(void *context, const TapView *view)) {
    l->tap.look = look;
    for (l->micro = 0; l->micro < l->count; l->micro++) {
        model_forward_backward(l->model, &l->batches[l->micro], l->seed, l->micro_step + l->micro, 1 / (double)l->count,
                               l->micro == 0);
        for (size_t r = 0; r < l->rows; r++) l->losses[l->micro * l->rows + r] = (double)l->model->losses[r];
    }
    l->tap.look = move;
}

/* Of micro-batches begin .. end - 1. Summed position by position, so that the rounding of a sum of thousands of losses
   does not cover what one entry does to them. */
static double change(MovedLoss *l, size_t begin, size_t end) {
    double sum = 0;
    for (l->micro = begin; l->micro < end; l->micro++) {
        model_training_forward(l->model, &l->batches[l->micro], l->seed, l->micro_step + l->micro);
        for (size_t r = 0; r < l->rows; r++) sum += (double)l->model->losses[r] - l->losses[l->micro * l->rows + r];
    }
    return sum / ((double)l->rows * (double)l->count);
}

double moved_loss_change(void *moved, double delta) {
    MovedLoss *l = moved;
    if (l->parameter) {
        const real kept = *l->parameter;
        *l->parameter = kept + (real)delta;
        double difference = change(l, 0, l->count);
        *l->parameter = kept;
        return difference;
    }
    size_t micro = l->entry / (l->rows * l->station->width); /* the other micro-batches do not see it */
    l->delta = delta;
    return change(l, micro, micro + 1);
}

void moved_loss_station(MovedLoss *l, const Station *station) {
    l->station = station;
    for (size_t i = 0; i < l->count * l->rows * station->width; i++) l->gradient[i] = (real)NAN;
    backward(l, keep);
}

static bool allocate(MovedLoss *l, Error *err) {
    const ModelShape *s = &l->model->shape;
    size_t widest = 3 * s->H * s->D;
    if (s->C > widest) widest = s->C;
    if (s->F > widest) widest = s->F;
    if (s->V > widest) widest = s->V;
    l->losses = calloc(l->count * l->rows, sizeof *l->losses);
    l->gradient = calloc(l->count * l->rows, widest * sizeof *l->gradient);
    l->stations = calloc((PLACE_LOGITS + 1) * (s->L + 1), sizeof *l->stations);
    if (s->relu) l->active = calloc(l->count * s->L * l->rows, s->F);
    if (l->losses && l->gradient && l->stations && (!s->relu || l->active)) return true;
    return error_set(err, STATUS_FAILED, "no memory for the check of gradients");
}

bool moved_loss_make(MovedLoss *l, Model *model, const Batch *batches, size_t count, uint64_t seed, uint64_t micro_step,
                     Error *err) {
    *l = (MovedLoss){.model = model,
                     .batches = batches,
                     .count = count,
                     .seed = seed,
                     .micro_step = micro_step,
                     .rows = batches->B * batches->T,
                     .tap = {.context = l}};
    if (!allocate(l, err)) return false;
    model->tap = &l->tap;
    for (size_t i = 0; i < model->tensors.flat; i++)
        model->gradients[i] = (real)NAN; /* a fresh pass must not read them */
    backward(l, survey);
    for (size_t i = 0; i < count * l->rows; i++) l->loss += l->losses[i];
    l->loss /= (double)(count * l->rows);
    if (l->on_kink) return error_set(err, STATUS_FAILED, "a unit of a ReLU is exactly on its kink: take another seed");
    if (change(l, 0, count) == 0) return true;
    return error_set(err, STATUS_FAILED, "the forward pass alone has another loss than forward and backward together");
}

void moved_loss_free(MovedLoss *l) {
    l->model->tap = NULL;
    free(l->losses);
    free(l->gradient);
    free(l->stations);
    free(l->active);
}
