/* Small models in double precision, for the tests of the whole model. */
#pragma once

#include "support.h"
#include "training_pass.h"

#include <unistd.h>

#include "config/scale.h"
#include "lab/gradcheck/gradcheck.h"
#include "model/initialization.h"
#include "model/transformer.h"

#ifndef REAL_DOUBLE
#error "differences need the double build"
#endif

/* A model and a batch. Sizes that are 0 are those of the tiny shape, whose H*D is not C. */
typedef struct {
    const char *name;
    size_t L, C, H, D, F, V, T, B, threads;
    size_t batch_T, max_batch; /* 0: T and B */
    size_t accumulate;         /* micro-batches of a check of gradients; 0: 1 */
    size_t answers;            /* only every such target counts; 0: all */
    bool post, no_bias, untied, plain;
    ActivationFunction activation;
    double dropout;
    DivisorChoice divisor;
    Init init;
} Case;

typedef struct {
    Model model;
    Engine engine;
    Batch batch;
    int32_t *ids;
    uint64_t micro_step;
} Setup;

enum { SEED = 42 };

/* Each size at its edge, and beyond what one thread or tile holds. */
static const Case EDGES[] = {
    {.name = "none", .divisor = {.mode = SCALE_NONE}},
    {.name = "dk", .divisor = {.mode = SCALE_DK}},
    {.name = "2sqrt_dk", .divisor = {.mode = SCALE_2SQRT_DK}, .post = true},
    {.name = "3.7", .divisor = {SCALE_NUMBER, 3.7}},
    {.name = "B = 1", .B = 1},
    {.name = "B = 1, 3 threads", .B = 1, .threads = 3},
    {.name = "B = 1, 8 threads, more threads than positions", .B = 1, .threads = 8, .dropout = .2},
    {.name = "B = 3, 8 threads", .threads = 8},
    {.name = "B = 3, 8 threads, post", .threads = 8, .post = true, .activation = ACTIVATION_RELU, .dropout = .2},
    {.name = "B = 5, 2 threads", .B = 5, .threads = 2, .dropout = .2},
    {.name = "B = 9, 8 threads", .B = 9, .threads = 8},
    {.name = "T = 1", .T = 1},
    {.name = "T = 1, post", .T = 1, .post = true, .threads = 2, .untied = true},
    {.name = "B = T = 1", .T = 1, .B = 1, .threads = 8},
    {.name = "H = 1", .H = 1},
    {.name = "H = 3, D = 1", .H = 3, .D = 1, .post = true},
    {.name = "V = 1", .V = 1},
    {.name = "V = 1, post, untied, two micro-batches", .V = 1, .post = true, .untied = true, .accumulate = 2},
    {.name = "B = T = H = D = V = 1", .B = 1, .T = 1, .H = 1, .D = 1, .V = 1, .dropout = .2},
    {.name = "V = 2", .V = 2, .untied = true},
    {.name = "L = 1", .L = 1, .post = true},
    {.name = "L = 3", .L = 3},
    {.name = "L = 3, post", .L = 3, .post = true, .threads = 3},
    {.name = "L = 1, C = 3, F = 1, D = 1", .L = 1, .C = 3, .F = 1, .D = 1},
    {.name = "two blocks of queries", .T = 70, .B = 2, .threads = 3, .L = 1},
    {.name = "two blocks of queries, dropout", .T = 70, .B = 2, .threads = 3, .L = 1, .dropout = .2},
    {.name = "a short batch", .batch_T = 4, .max_batch = 6},
    {.name = "a short batch, post, 8 threads", .batch_T = 4, .max_batch = 6, .post = true, .threads = 8, .dropout = .2},
    {.name = "wide columns", .C = 40, .F = 70, .D = 11, .V = 37, .threads = 3},
    {.name = "gpt2", .init = INIT_GPT2},
    {.name = "gpt2, post, no bias", .init = INIT_GPT2, .post = true, .no_bias = true},
    {.name = "xavier", .init = INIT_XAVIER, .post = true},
    {.name = "two micro-batches", .accumulate = 2, .threads = 2, .activation = ACTIVATION_RELU},
    {.name = "every third target counts", .answers = 3, .dropout = .2},
    {.name = "every second, post, then all of another micro-batch", .answers = 2, .accumulate = 2, .post = true},
    {.name = "two micro-batches, dropout, T = 1", .accumulate = 2, .T = 1, .dropout = .2, .post = true},
};

static inline ModelShape shape_of(const Case *c) {
    ModelShape s = {.T = c->T ? c->T : 7,
                    .C = c->C ? c->C : 12,
                    .attention = {.H = c->H ? c->H : 2, .D = c->D ? c->D : 5, .qk_init_scale = 1, .qk_lr_scale = 1},
                    .F = c->F ? c->F : 20,
                    .V = c->V ? c->V : 11,
                    .L = c->L ? c->L : 2};
    s.pre_norm = !c->post, s.activation = c->activation, s.bias = !c->no_bias, s.tied = !c->untied,
    s.dropout = c->dropout;
    s.attention.divisor = divisor_value(c->divisor, s.attention.D);
    return s;
}

/* Makes the model of a case, of this shape, and a batch of random tokens. */
static inline void setup_shape(Setup *u, const Case *c, const ModelShape *shape) {
    const size_t B = c->B ? c->B : 3, T = c->batch_T ? c->batch_T : shape->T;
    model_make(&u->model, shape, c->max_batch ? c->max_batch : B, c->threads ? c->threads : 1, true);
    engine_make(&u->engine, c->plain ? ENGINE_PLAIN : ENGINE_FAST, 1, &u->model);
    gradcheck_parameters(&u->model, c->init, SEED);
    u->ids = memory_make(2 * B * T, sizeof *u->ids, "the tokens");
    support_stream = 0; /* the same tokens for the same sizes */
    random_tokens(u->ids, 2 * B * T, shape->V);
    u->batch = (Batch){.tokens = u->ids, .targets = u->ids + B * T, .B = B, .T = T};
    u->micro_step = 9;
}

static inline void setup(Setup *u, const Case *c) {
    const ModelShape shape = shape_of(c);
    setup_shape(u, c, &shape);
}

static inline void teardown(Setup *u) {
    *u = (Setup){0};
    support_release(NULL);
}

static inline double backward(Setup *u, double weight, bool zero_gradients) {
    const Pass pass = training_pass(SEED, u->micro_step, weight, zero_gradients);
    return engine_pass(&u->engine, &u->batch, &pass);
}

/* Executes the program again with threads that sleep while they wait. The tests run thousands of tiny passes; with
   threads that spin at each barrier these take minutes as soon as another program needs a core. */
static inline void with_sleeping_threads(char **argv) {
    if (getenv("OMP_WAIT_POLICY") != NULL) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) == 0) execv(argv[0], argv);
    perror(argv[0]); /* continue, slowly */
}
