/* report.html: one self-contained file that shows a run, a sweep, or several runs side by side. The page is page.html
   with page.css and the scripts, which become part of the program, and the results as JSON (data.c, parameters.c). */
#pragma once

#include "base/json.h"
#include "lab/lab.h"
#include "lab/sweep/sweep.h"
#include "show/palette.h"

/* report_write, which also writes what the page notes about itself, such as runs that it leaves out, to `notes`: a line
   for each; NULL: nowhere. */
void report_write_noting(const Directory *directory, FILE *notes);
/* Writes one page for several runs to `path`. */
void report_compare(const char *const *directories, size_t count, const char *path);

/* data.c. These return what the page shows. report_shown_run returns the run of a setting whose attention is shown: its
   first that finished, else the first. */
size_t report_shown_run(const Sweep *sweep, const SweepSetting *setting);
Json *report_run_data(const char *const *directories, size_t count);
Json *report_sweep_data(const Sweep *sweep);

/* run_files.c. report_add_file adds the text of a file, and nothing if there is no such file. A log's rows come in
   groups of `group`, of which about `limit` are kept. report_samples returns the samples of a run, {step, text} each:
   the last ones that `limit` bytes of samples.txt hold; NULL if it has no such file. A text has log.sample_tokens
   characters, or fewer if a signal cut the last one short. So nothing that a model writes is read as the line that
   begins the next sample. */
void report_add_file(Json *run, const char *directory, const char *name, const char *key, size_t group, size_t limit);
Json *report_samples(const SweepRun *run, size_t limit);

/* parameters.c. Returns the model of a run, or the reason why it is left out ("left_out"), as where its checkpoint
   cannot be read. *room is the number of bytes by which the page may still grow; the model's bytes are subtracted.
   report_numbers returns the `size` bytes of an array in base64. */
Json *report_model(const char *directory, double *room);
Json *report_numbers(const void *numbers, size_t size);

/* pictures.c. Writes losses.png and, if the runs have logged attention, triangles.png of a sweep whose page has this
   data. */
void report_pictures(const Sweep *sweep, const Json *data, const Directory *into);

/* styles.c. report_sort lists all settings of a sweep in the order in which they are shown: by divisor, then by the
   other swept keys. report_style returns the colour of a setting, which its divisor decides; settings of one divisor
   differ in `dash` (pixels; 0: a whole line). If all settings have the same divisor, each has another colour. */
void report_sort(const Sweep *sweep, size_t order[RUNS_MAX]);
Color report_style(const Sweep *sweep, size_t setting, double *dash);
