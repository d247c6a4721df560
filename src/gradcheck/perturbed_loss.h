/* A model's loss as a function of any one number in it: an entry of a parameter tensor, or of the input of a layer. An
   entry of a tensor is moved where it lies; an entry of an input by the model's tap, as soon as the forward pass has
   computed it.

   ReLU has kinks, and a difference across one is not a derivative. Each unit is therefore kept on the side it is on
   where nothing is moved: act = fc or 0 by a mask. This is no approximation: it is the smooth function whose gradient
   the backward pass computes, with the same value, for models of any size. */
#ifndef SQRTDK_GRADCHECK_PERTURBED_LOSS_H
#define SQRTDK_GRADCHECK_PERTURBED_LOSS_H

#include "model/transformer.h"

/* A place the tap shows. They are found by looking, so that whatever the model shows is checked. */
typedef struct {
    Place place;
    size_t layer, width;
} Station;

typedef struct {
    Model *model;
    const Batch *batches; /* (count) */
    size_t count;
    uint64_t seed, micro_step;
    size_t rows;       /* B * T, of each micro-batch */
    double loss;       /* where nothing is moved */
    Station *stations; /* (station_count), in the order of the forward pass */
    size_t station_count;
    real *gradient; /* (count, rows, width) of `station` */

    /* What is moved: */
    real *parameter;        /* this one, or where it is NULL */
    const Station *station; /* at this place */
    size_t entry;           /* this one of (count, rows, width) */

    /* For the passes. */
    Tap tap;
    size_t micro;          /* number of the one in progress */
    double delta;          /* by how much `entry` is moved */
    double *losses;        /* (count, rows) where nothing is moved */
    unsigned char *active; /* (count, L, rows, F): units of a ReLU above their kink; NULL without ReLU */
    bool on_kink;
} MovedLoss;

/* The mean of the mean losses of `count` micro-batches, with the gradients of all parameters in model->gradients. The
   model's tap is taken until moved_loss_free, which is to be called also after a failure. Fails without memory, and
   where the loss is not smooth (a unit of a ReLU exactly on its kink). */
bool moved_loss_make(MovedLoss *moved, Model *model, const Batch *batches, size_t count, uint64_t seed,
                     uint64_t micro_step, Error *err);
void moved_loss_free(MovedLoss *moved);

/* Makes `station` the place, and puts the gradient there into moved->gradient; NaN where the model shows none. */
void moved_loss_station(MovedLoss *moved, const Station *station);

/* loss(what is moved + delta) - loss, for difference_extrapolated. */
double moved_loss_change(void *moved, double delta);

#endif
