/* The verb attend. All its outputs (picture, numbers, CSV, terminal) are made from one Snapshot, restricted to the
   layers and heads that were asked for. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "attend/attend.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "run/pictures.h"

enum { GLANCE = 36, TITLE = 512 }; /* columns of a head at a glance; bytes of a title */
#define PICTURE ".png"
#define NUMBERS ".safetensors"

static const char *text, *out;
static long long layer = -1, head = -1; /* -1: all */
static bool show, csv;

static const Option OPTIONS[] = {
    {"text", "TEXT", "the text; - reads standard input (default: the run's own)", OPTION_TEXT, &text, 0, 0},
    {"layer", "L", "one layer, from 0 (default: all)", OPTION_INTEGER, &layer, 0, INT_MAX},
    {"head", "H", "one head of each layer, from 0 (default: all)", OPTION_INTEGER, &head, 0, INT_MAX},
    {"show", NULL, "print to the terminal; without --text, the run at a glance", OPTION_SWITCH, &show, 0, 0},
    {"csv", NULL, "print every score and weight as CSV", OPTION_SWITCH, &csv, 0, 0},
    {"out", "FILE", "write a picture (.png) or all numbers (.safetensors)", OPTION_TEXT, &out, 0, 0},
    {0},
};

/* What is shown: heads of a run's attention. */
static Run run;
static Snapshot snapshot;
static Range layers, heads;

static bool out_ends_with(const char *suffix) {
    const size_t length = out ? strlen(out) : 0, end = strlen(suffix);
    return length > end && strcmp(out + length - end, suffix) == 0;
}

static bool check_options(Error *err) {
    if (show && csv) return usage_error(err, "--show and --csv both print: choose one of them");
    if (out && !out_ends_with(NUMBERS) && !out_ends_with(PICTURE))
        return usage_error(err, "--out takes the name of a .png or .safetensors file, not \"%.100s\"", out);
    return !out_ends_with(NUMBERS) || (layer < 0 && head < 0) ||
           usage_error(err, "a .safetensors file has all layers and heads: leave out --layer and --head");
}

/* The range of one out of `count`; of all where `one` is negative. */
static bool choose(long long one, size_t count, const char *what, Range *range, Error *err) {
    *range = one < 0 ? (Range){0, count} : (Range){(size_t)one, (size_t)one + 1};
    return range->end <= count ||
           usage_error(err, "there is no %s %lld: the model has %ss 0 to %zu", what, one, what, count - 1);
}

/* Fills the snapshot, from --text or from the run's log. */
static bool attend(const Command *command, Error *err) {
    static char input[4 * SNAPSHOT_TEXT_MAX + 8]; /* more than is used, so that a longer text is noticed */
    Progress progress = progress_make(stderr, command->quiet);
    const bool piped = text && strcmp(text, "-") == 0;
    if (!text) return attend_to_log(&snapshot, &run, err);
    size_t size = strlen(text);
    if (piped && !input_read(input, sizeof input, &size, err)) return false;
    return attend_to_text(&snapshot, &run, piped ? input : text, size, command_threads(command), &progress, err);
}

static bool make_figure(HeadsFigure *f, char title[TITLE], Error *err) {
    const size_t H = range_size(heads), count = range_size(layers) * H;
    double entropy = 0;
    if (!heads_figure(f, &snapshot, layers, heads, err)) return false;
    for (size_t i = 0; i < count; i++) {
        const size_t l = layers.begin + i / H, h = heads.begin + i % H;
        const SnapshotStatistics one = snapshot_statistics(&snapshot, l, h);
        snprintf(f->labels[i], FIGURE_LABEL, "layer %zu, head %zu: entropy %.2f, largest weight %.2f", l, h,
                 one.entropy, one.max_weight);
        entropy += one.entropy / (double)count;
    }
    config_scores_title(&run.config, snapshot.step, title, TITLE);
    text_append(title, TITLE, ": entropy %.2f at step %zu", entropy, snapshot.step);
    f->figure.title = title;
    f->figure.subtitle =
        "entropy: 1 is uniform, 0 one-hot; largest weight: mean over the queries that see two keys or more";
    return true;
}

/* Writes the file that --out names; without --out attend.png, or the first of attend-2.png, ... that is free. */
static bool write_file(const HeadsFigure *f, Error *err) {
    char path[4096];
    const bool numbers = out_ends_with(NUMBERS);
    for (unsigned number = 1; !out && (number == 1 || path_exists(path)); number++) {
        if (!results_name(path, sizeof path, "attend", number, err)) return false;
        text_append(path, sizeof path, PICTURE);
    }
    const char *name = out ? out : path;
    if (!(numbers ? snapshot_write(&snapshot, &no_directory, name, err)
                  : attention_figure_save(&f->figure, &no_directory, name, err)))
        return false;
    if (!csv) print_plain(stdout, "%s  %s", numbers ? "numbers" : "picture", name);
    return true;
}

static bool write_all(Error *err) {
    const Terminal terminal = terminal_make(stdout);
    const bool glance = show && !text && layer < 0 && head < 0;
    HeadsFigure f;
    char title[TITLE];
    const bool figure = show || (!csv && !out) || out_ends_with(PICTURE);
    if (figure && !make_figure(&f, title, err)) return false;
    if ((out || (!show && !csv)) && !write_file(&f, err)) return false;
    if (csv) attend_write_csv(&snapshot, layers, heads, stdout);
    if (glance && !attend_show_run(&terminal, &run, err)) return false;
    if (show) attention_figure_show(&f.figure, &terminal, glance ? GLANCE : terminal.columns);
    return true;
}

static bool run_attend(const Command *command, int *signal, Error *err) {
    const bool ok = check_options(err) && run_open(&run, command->target, NULL, 0, false, err) &&
                    choose(layer, (size_t)run.config.model.layers, "layer", &layers, err) &&
                    choose(head, (size_t)run.config.model.heads, "head", &heads, err) && attend(command, err) &&
                    write_all(err);
    snapshot_free(&snapshot);
    run_close(&run);
    if (!ok) *signal = interrupt_signal(); /* which ended the wait for standard input */
    return ok || *signal;
}

const Verb attend_verb = {
    .name = "attend",
    .target = "RUN_DIR",
    .what = "Shows the attention of a trained model on any text: as a picture (attend.png,\n"
            "unless --out, --show or --csv is given), in the terminal, or as numbers.",
    .options = OPTIONS,
    .run = run_attend,
};
