/* A model's training loss as a function of any one number in it: an entry of a parameter tensor, or of an activation.
   An entry of a tensor is changed where it is stored; one of an activation by the model's hook, as soon as the forward
   pass has computed it.

   ReLU has kinks, and a difference across one is not a derivative. Each unit is therefore kept on the side it is on
   where nothing is perturbed: act = fc or 0 by a mask. This is no approximation: it is the smooth function whose
   gradient the backward pass computes, with the same value, for models of any size. */
#pragma once

#include "model/transformer.h"

/* The mean of the mean losses of some micro-batches, with dropout's masks drawn by seed and micro-step, the same ones
   every time. */
typedef struct {
    Model *model;         /* with gradients, its parameters set */
    const Batch *batches; /* (count), with targets, all of the same B and T */
    size_t count;
    uint64_t seed, micro_step; /* of the first micro-batch; the others follow */
} TrainingLoss;

typedef struct {
    TrainingLoss of;
    size_t rows;             /* B * T, of each micro-batch */
    double loss;             /* where nothing is perturbed */
    Activation *activations; /* (activation_count), in the order of the forward pass: all that the hook is shown, so
                                that whatever the model computes is checked */
    size_t activation_count;
    real *gradient; /* (count, rows, width) of `activation` */

    /* What is perturbed: */
    real *parameter;              /* this one, or where it is NULL */
    const Activation *activation; /* of this activation */
    size_t entry;                 /* this entry of (count, rows, width) */

    /* For the passes. */
    Hook hook;
    const Hook *hook_before; /* the model's, which it gets back */
    size_t micro;            /* number of the micro-batch in progress */
    double delta;            /* by how much `entry` is perturbed */
    double *losses;          /* (count, rows) where nothing is perturbed */
    unsigned char *active;   /* (count, L, rows, F): units of a ReLU above their kink; NULL without ReLU */
    bool on_kink;
} PerturbedLoss;

/* Computes the loss, with the gradients of all parameters in model->gradients. The model's hook is taken until
   perturbed_loss_free, which must also be called after a failure. Fails without memory, and where the loss is not
   smooth (a unit of a ReLU exactly on its kink). */
bool perturbed_loss_make(PerturbedLoss *loss, const TrainingLoss *of, Error *err);
void perturbed_loss_free(PerturbedLoss *loss);

/* Chooses an activation to perturb, and puts its gradient into loss->gradient; NaN where the model shows none. */
void perturbed_loss_choose(PerturbedLoss *loss, const Activation *activation);

/* loss(perturbed by delta) - loss, for difference_extrapolated. */
double perturbed_loss_change(void *loss, double delta);
