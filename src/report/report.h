/* report.html: one self-contained file that shows a run, a sweep, several runs side by side, or theory. The page is
   page.html with page.css and the scripts, which become part of the program, and the results as JSON (data.c,
   parameters.c). */
#pragma once

#include "base/command.h"
#include "base/json.h"

/* Writes DIRECTORY/report.html, for a run, a sweep, or theory, which has a theory.csv. An error in its files has
   status STATUS_USAGE. */
bool report_write(const Directory *directory, Error *err);
/* report_write, which also writes what the page notes about itself, such as runs that it leaves out, to `notes`: a line
   for each; NULL: nowhere. */
bool report_write_noting(const Directory *directory, FILE *notes, Error *err);
/* Writes one page for several runs to `path`. */
bool report_compare(const char *const *directories, size_t count, const char *path, Error *err);

extern const Verb report_verb;

/* data.c. These make what the page shows. The caller frees *data, also after a failure. */
bool report_run_data(const char *const *directories, size_t count, Json **data, Error *err);
bool report_sweep_data(const char *directory, Json **data, Error *err);
bool report_theory_data(const char *directory, Json **data, Error *err);

/* parameters.c. Adds the model of a run, or the reason why it is left out ("left_out"). *room is the number of bytes by
   which the page may still grow; the model's bytes are subtracted. A checkpoint that cannot be read is an error, unless
   the run `diverged`. */
bool report_model(Json *json, const char *directory, bool diverged, double *room, Error *err);
