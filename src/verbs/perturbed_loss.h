/* A model's training loss as a function of any one number in it: an entry of a parameter tensor, or of an activation.
   An entry of a tensor is changed where it is stored; one of an activation by the model's hook, as soon as the forward
   pass has computed it.

   ReLU has kinks, and a difference across one is not a derivative. Each unit is therefore kept on the side where it
   is without the perturbation: act = fc or 0, by a mask. This is no approximation: it is the smooth function whose
   gradient the backward pass computes, with the same value, for models of any size. The plain engine has no hook: its
   activations are not perturbed, and its ReLU keeps its kinks, which small models have further away than a step. */
#pragma once

#include "train/engine.h"

/* The mean of the mean losses of some micro-batches, with dropout's masks drawn by seed and micro-step, the same ones
   every time. */
typedef struct {
    Engine *engine;       /* whose model has gradients, and its parameters set */
    const Batch *batches; /* (count), with targets, all of the same B and T */
    size_t count;
    uint64_t seed, micro_step; /* micro_step: the first micro-batch's; the others follow */
} TrainingLoss;

typedef struct {
    TrainingLoss original;          /* the loss that is perturbed */
    Model *model;                   /* its engine's */
    size_t rows;                    /* B * T, of each micro-batch */
    double loss;                    /* the loss where nothing is perturbed */
    const Activation **activations; /* (activation_count), in the order of the forward pass: all that the hook is shown,
                                       so that whatever the model computes is checked; none of the plain engine, which
                                       has no hook */
    size_t activation_count;
    real *gradient; /* (count, rows, width) of `activation` */

    /* What is perturbed: */
    real *parameter;              /* a parameter, where it is not NULL; else */
    const Activation *activation; /* in this activation */
    size_t entry;                 /* the entry with this index in (count, rows, width) */

    /* State of the passes: */
    Hook hook;
    size_t micro;          /* number of the micro-batch in progress */
    double delta;          /* by how much `entry` is perturbed */
    double *losses;        /* (count, rows) where nothing is perturbed */
    unsigned char *active; /* (count, L, rows, F): units of a ReLU above their kink; NULL without ReLU */
    bool on_kink;
} PerturbedLoss;

/* Computes the loss, with the gradients of all parameters in model->gradients. The model, which has no hook yet, has
   this loss's until perturbed_loss_end. A loss that is not smooth (a unit of a ReLU exactly on its kink) is an error of
   status STATUS_FAILED. Only this function makes memory and raises errors. */
void perturbed_loss_make(PerturbedLoss *loss, const TrainingLoss *original);
void perturbed_loss_end(PerturbedLoss *loss);

/* Chooses an activation to perturb, and puts its gradient into loss->gradient: NaN where the hook was not called. */
void perturbed_loss_choose(PerturbedLoss *loss, const Activation *activation);

/* The loss perturbed by delta, less the loss: the function that difference_extrapolated differentiates. */
double perturbed_loss_change(void *loss, double delta);
