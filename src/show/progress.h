/* The output of a verb on stderr: messages, and on a terminal a progress line that each update overwrites. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct {
    FILE *stream;
    bool quiet, terminal; /* quiet: nothing is written */
    size_t shown;         /* columns of the progress line that is shown now */
    double last;          /* time of its last update, in seconds */
} Progress;

/* Makes the progress of a verb, which wipes its line when it is released, as by an error. `stream` is stderr, which has
   no buffer. */
Progress *progress_make(FILE *stream, bool quiet);

/* Prints a line, made plain (base/text.h), in place of the progress line. */
void progress_message(Progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line of results to `out`, made plain in the same way. */
#define print_plain(out, ...) progress_message(&(Progress){.stream = (out)}, __VA_ARGS__)

/* Shows "step 120/1000 train 2.31 val 2.40 35.1k tokens/s 0:42 left", at most twice a second and only on a terminal.
   An accuracy replaces val. A number that is NaN is not shown. `now` is a time in seconds. */
void progress_update(Progress *progress, double now, size_t step, size_t steps, double train_loss, double val_loss,
                     double accuracy, double tokens_per_second, double seconds_left);
/* Shows work that is counted in parts, as "12/58 combinations". */
void progress_count(Progress *progress, double now, const char *what, size_t done, size_t all);
/* Show any other progress line. progress_is_due returns whether it is time for one (at most twice a second and only on
   a terminal). progress_line shows it, cut to the terminal's width, over the one that is shown. progress_clear wipes
   it. */
bool progress_is_due(Progress *progress, double now);
void progress_line(Progress *progress, const char *line);
void progress_clear(Progress *progress);

/* Writes a duration: 75 as "1:15", 3675 as "1:01:15". */
void progress_duration(double seconds, char *out, size_t capacity);
