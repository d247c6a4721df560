/* Shared by the files of this folder. */
#pragma once

#include "lab/live/live.h"
#include "lab/sweep/sweep.h"
#include "lab/text.h"
#include "train/trainer.h"

/* Where the divisor or the learning rate was moved. */
typedef struct {
    size_t step;
    double divisor,
        rate; /* the new divisor, and what the schedule is multiplied by; 0: it was not this that was moved */
} Move;

/* A model. What it keeps from one call to the next is memory of its own (malloc) and no block, which an error in a
   later call would release. */
struct Live {
    size_t mark;           /* of memory, before the model was made */
    Trainer t;             /* without a directory, and with logs in memory */
    Text *logs[LOG_COUNT]; /* as they were flushed last */
    bool measured;         /* attention, for the log, at this step */
    bool ended;            /* the last step has its row in the log */
    bool diverged;
    bool measuring;   /* something of this step is being measured, or an error has ended that */
    RunState before;  /* the state before it */
    size_t sample_at; /* where the last text in samples.txt begins */
    Move *moves;      /* (move_count) */
    size_t move_count;
    double rate;                 /* what the schedule of the learning rate is multiplied by */
    AttentionSnapshot attention; /* of T x T */
    LiveAttention shown;         /* these matrices */
    LiveWindows windows;         /* those that were returned last */
    char *written;               /* the last text that was returned; NULL before the first */
    LiveFile best;               /* a checkpoint, once there is one */
    SweepRun *joined;            /* (joined_count) runs to compare */
    size_t joined_count;
    LiveFile *files; /* first the snapshots, `kept` of them, then those of the last live_files */
    size_t kept, file_count;
};

/* Does what ./train does at a step before its update. Returns whether loss and gradients are finite. */
bool live_begin_step(Live *live);
/* Takes back what an error has left of measuring this step, so that it is measured again. */
void live_take_back(Live *live);
/* Returns whether switch_step and switch_divisor say all that was moved. */
bool live_is_one_switch(const Live *live);
/* Returns a divisor as a config has it, or raises an error. */
DivisorChoice live_checked_divisor(const Live *live, double divisor);

/* files.c. Returns a list of `count` elements with room for one more, where it is now. */
void *live_longer(void *list, size_t count, size_t size);
/* live_text_return ends a text and returns it, for the caller to read until the next call; live_file_end returns it as
   a file, whose name is behind its bytes in the same memory. */
const char *live_text_return(Live *live, Text *text);
LiveFile live_file_end(const char *name, Text *text);
/* The run's files: ends a text and adds it as one, frees the memory of one, and frees those of the last live_files. */
void live_add_file(Live *live, const char *name, Text *text);
void live_free_file(const LiveFile *file);
void live_drop_parts(Live *live);
