/* The verb attend. All its outputs (picture, numbers, CSV, terminal) are made from one Snapshot, restricted to the
   layers and heads that were asked for. */
#include <limits.h>
#include <string.h>

#include "attend/attend.h"
#include "base/files.h"
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

static void check_options(void) {
    if (show && csv) usage_error("--show and --csv both print: choose one of them");
    if (out && !out_ends_with(NUMBERS) && !out_ends_with(PICTURE))
        usage_error("--out takes the name of a .png or .safetensors file, not \"%.100s\"", out);
    if (out_ends_with(NUMBERS) && (layer >= 0 || head >= 0))
        usage_error("a .safetensors file has all layers and heads: leave out --layer and --head");
}

/* Returns the range of one out of `count`; of all where `one` is negative. */
static Range choose(long long one, size_t count, const char *what) {
    const Range range = one < 0 ? (Range){0, count} : (Range){(size_t)one, (size_t)one + 1};
    if (range.end > count) usage_error("there is no %s %lld: the model has %ss 0 to %zu", what, one, what, count - 1);
    return range;
}

/* Makes the snapshot, from --text or from the run's log. */
static Snapshot make_snapshot(const Command *command) {
    static char input[4 * SNAPSHOT_TEXT_MAX + 8]; /* more than is used, so that a longer text is noticed */
    Progress *progress = progress_make(stderr, command->quiet);
    if (!text) return attend_to_log(&run);
    const bool piped = strcmp(text, "-") == 0;
    const size_t size = piped ? input_read(input, sizeof input) : strlen(text);
    return attend_to_text(&run, piped ? input : text, size, command_threads(command), progress);
}

static void make_figure(HeadsFigure *f, char title[TITLE]) {
    const size_t H = range_size(heads), count = range_size(layers) * H;
    double entropy = 0;
    heads_figure(f, &snapshot, layers, heads);
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
}

/* Writes the file that --out names; without --out attend.png, or the first of attend-2.png, ... that is free. */
static void write_file(const HeadsFigure *f) {
    char path[RESULTS_PATH];
    const bool numbers = out_ends_with(NUMBERS);
    for (unsigned number = 1; !out && (number == 1 || path_exists(path)); number++) {
        results_name(path, "attend", number);
        text_append(path, sizeof path, PICTURE);
    }
    const char *name = out ? out : path;
    if (numbers) snapshot_write(&snapshot, &no_directory, name);
    else attention_figure_save(&f->figure, &no_directory, name);
    if (!csv) print_plain(stdout, "%s  %s", numbers ? "numbers" : "picture", name);
}

static void write_all(void) {
    const Terminal terminal = terminal_make(stdout);
    const bool glance = show && !text && layer < 0 && head < 0;
    HeadsFigure f;
    char title[TITLE];
    const bool figure = show || (!csv && !out) || out_ends_with(PICTURE);
    if (figure) make_figure(&f, title);
    if (out || (!show && !csv)) write_file(&f);
    if (csv) attend_write_csv(&snapshot, layers, heads, stdout);
    if (glance) attend_show_run(&terminal, &run);
    if (show) attention_figure_show(&f.figure, &terminal, glance ? GLANCE : terminal.columns);
}

static int run_attend(const Command *command) {
    check_options();
    run_open(&run, command->target, NULL, 0, false);
    layers = choose(layer, run.config.model.layers, "layer");
    heads = choose(head, run.config.model.heads, "head");
    snapshot = make_snapshot(command);
    write_all();
    return 0;
}

const Verb attend_verb = {
    .name = "attend",
    .target = "RUN_DIR",
    .what = "Shows the attention of a trained model on any text: as a picture (attend.png,\n"
            "unless --out, --show or --csv is given), in the terminal, or as numbers.",
    .options = OPTIONS,
    .run = run_attend,
};
