/* A checkpoint of the smallest model, as the program writes it, for the targets of checkpoints. */
#pragma once

#include "fuzz.h"
#include "run/checkpoint.h"
#include "train/optimizer.h"

static Run fuzz_run;
static Model fuzz_model;
static Optimizer fuzz_optimizer;
static RunState fuzz_state; /* of the checkpoint that was loaded last */

/* Writes the checkpoint and returns its bytes, without its checksum. What is in memory stays for all inputs. */
static inline uint8_t *fuzz_make_checkpoint(size_t *size) {
    const RunState state = {
        .step = 4, .seconds = 1, .train_loss = 1, .val_loss = 1, .best_val_loss = 1, .best_step = 2};
    fuzz_run.config = *fuzz_config();
    snprintf(fuzz_run.directory, sizeof fuzz_run.directory, "%s", fuzz_directory());
    fuzz_run.locked = fuzz_opened_directory();
    fuzz_make_directory("checkpoint");
    const ModelShape shape = model_shape(&fuzz_run.config, 3);
    model_make(&fuzz_model, &shape, 1, 1, false);
    optimizer_make(&fuzz_optimizer, &fuzz_run.config, &fuzz_model.tensors, 1);
    checkpoint_save(&fuzz_run, CHECKPOINT_LAST, &fuzz_model, (Moments){fuzz_optimizer.m, fuzz_optimizer.v}, &state);
    return fuzz_get_written("checkpoint/last.safetensors", size);
}

static inline void fuzz_load_last(void *run) {
    fuzz_state = checkpoint_load(run, CHECKPOINT_LAST, &fuzz_model, (Moments){fuzz_optimizer.m, fuzz_optimizer.v});
}

/* Loads a file in the place of the checkpoint. What is accepted has finite numbers. */
static inline void fuzz_load_checkpoint(const uint8_t *data, size_t size) {
    fuzz_put("checkpoint/last.safetensors", data, size);
    if (!fuzz_answer(fuzz_load_last, &fuzz_run)) return;
    REQUIRE(fuzz_state.seconds >= 0);
    for (size_t i = 0; i < fuzz_model.tensors.flat; i++) {
        REQUIRE(fuzz_model.parameters[i] - fuzz_model.parameters[i] == 0);
        REQUIRE(fuzz_optimizer.m[i] - fuzz_optimizer.m[i] == 0);
        REQUIRE(fuzz_optimizer.v[i] - fuzz_optimizer.v[i] == 0);
    }
}
