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
    double since, from;   /* the time and the count of work from which on its rate is measured */
    int counts;           /* the different counts so far, up to 2 */
} Progress;

/* Makes the progress of a verb, which wipes its line when it is released, as by an error. `stream` is stderr, which has
   no buffer. */
Progress *progress_make(FILE *stream, bool quiet);

/* Prints a line, made plain (base/text.h), in place of the progress line. */
void progress_message(Progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line of results to `out`, made plain in the same way. */
#define print_plain(out, ...) progress_message(&(Progress){.stream = (out)}, __VA_ARGS__)

/* Shows "step 120/1000 train 2.31 val 2.40 35.1k tokens/s 0:42 left", at most twice a second and only on a terminal.
   An accuracy replaces val. A number that is NaN is not shown, nor a rate that is not known yet. `now` is a time in
   seconds. Call it at each step, since the first ones begin the rate. */
void progress_update(Progress *progress, double now, size_t step, size_t steps, double train_loss, double val_loss,
                     double accuracy, size_t tokens_per_step);
/* Returns the units of work per second since the second different count that it was given: the first unit takes longer,
   with an evaluation before it. Not finite until there is a third. */
double progress_rate(Progress *progress, double now, double done);
/* Appends "  0:42 left" to a line, unless the rate is not known yet. */
void progress_append_left(char *line, size_t capacity, double left, double rate);
/* Show any other progress line. progress_is_due returns whether it is time for one (at most twice a second and only on
   a terminal). progress_line shows it, cut to the terminal's width, over the one that is shown. progress_clear wipes
   it. */
bool progress_is_due(Progress *progress, double now);
void progress_line(Progress *progress, const char *line);
void progress_clear(Progress *progress);

/* Writes a duration: 75 as "1:15", 3675 as "1:01:15". */
void progress_duration(double seconds, char *out, size_t capacity);
