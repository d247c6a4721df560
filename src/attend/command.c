#include <errno.h>
#include <limits.h>
#include <string.h>

#include "attend/attend.h"
#include "base/files.h"
#include "base/text.h"
#include "train/pictures.h"

/* Cells of a small panel's side; columns of a whole label; bytes of a title. */
enum { SMALL = 24, SMALL_NUMBERS = 12, WHOLE_LABEL = 54, TITLE = 512 };
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

/* Heads of a run's attention. */
typedef struct {
    Run *run;
    Snapshot snapshot;
    Range layers, heads;
} Chosen;

static bool ends_with(const char *path, const char *suffix) {
    const size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

static bool check_options(Error *err) {
    const bool numbers = out && ends_with(out, NUMBERS);
    if (show && csv) return rejected(err, "--show and --csv both print: choose one of them");
    if (out && !numbers && !ends_with(out, PICTURE))
        return rejected(err, "--out takes the name of a .png or .safetensors file, not \"%.100s\"", out);
    return !numbers || (layer < 0 && head < 0) ||
           rejected(err, "a .safetensors file has all layers and heads: leave out --layer and --head");
}

/* One of `count`, or all. */
static bool choose(long long one, size_t count, const char *what, Range *range, Error *err) {
    *range = one < 0 ? (Range){0, count} : (Range){(size_t)one, (size_t)one + 1};
    return range->end <= count ||
           rejected(err, "there is no %s %lld: the model has %ss 0 to %zu", what, one, what, count - 1);
}

/* A text from standard input goes without its last line end. */
static bool attend(Chosen *c, const Command *command, Error *err) {
    static char input[4 * SNAPSHOT_TEXT_MAX + 8]; /* some more than is used, so that a longer text is known to be */
    Progress progress = progress_make(stderr, command->quiet);
    const bool piped = text && strcmp(text, "-") == 0;
    if (!text) return attend_to_log(&c->snapshot, c->run, err);
    size_t size = piped ? fread(input, 1, sizeof input, stdin) : strlen(text);
    if (piped && ferror(stdin)) return failed(err, "cannot read standard input: %s", strerror(errno));
    if (piped && size > 0 && input[size - 1] == '\n') size--;
    return attend_to_text(&c->snapshot, c->run, piped ? input : text, size, command_threads(command), &progress, err);
}

/* What the title and the labels say. */
typedef enum { WHOLE, NARROW, GLANCE } Words;

static bool make_figure(HeadsFigure *f, char title[TITLE], const Chosen *c, Words words, Error *err) {
    const Snapshot *s = &c->snapshot;
    const size_t H = range_size(c->heads), count = range_size(c->layers) * H;
    double entropy = 0;
    if (!heads_figure(f, s, c->layers, c->heads, err)) return false;
    for (size_t i = 0; i < count; i++) {
        const size_t l = c->layers.begin + i / H, h = c->heads.begin + i % H;
        const SnapshotStatistics one = snapshot_statistics(s, l, h);
        snprintf(f->labels[i], FIGURE_LABEL, "layer %zu, head %zu: %s%.2f", l, h, words == GLANCE ? "" : "entropy ",
                 one.entropy);
        if (words == WHOLE) text_append(f->labels[i], FIGURE_LABEL, ", largest weight %.2f", one.max_weight);
        entropy += one.entropy / (double)count;
    }
    config_scores_title(&c->run->config, s->step, title, TITLE);
    text_append(title, TITLE, ": entropy %.2f at step %zu%s", entropy, s->step,
                words == GLANCE ? ", of each head:" : "");
    f->figure.title = title;
    f->figure.subtitle =
        "entropy: 1 is uniform, 0 one-hot; largest weight: mean over the queries that see two keys or more";
    return true;
}

static bool write_picture(const Chosen *c, const char *path, Error *err) {
    HeadsFigure f;
    char title[TITLE];
    return make_figure(&f, title, c, WHOLE, err) && attention_figure_save(&f.figure, path, err);
}

/* Without --out attend.png, or the first of attend-2.png, ... that is free. */
static bool write_file(const Chosen *c, Error *err) {
    char path[4096];
    const bool numbers = out && ends_with(out, NUMBERS);
    for (unsigned number = 1; !out && (number == 1 || path_exists(path)); number++) {
        if (!results_name(path, sizeof path, "attend", number, err)) return false;
        text_append(path, sizeof path, PICTURE);
    }
    const char *name = out ? out : path;
    if (!(numbers ? snapshot_write(&c->snapshot, name, &c->run->config, err) : write_picture(c, name, err)))
        return false;
    if (!csv) print_plain(stdout, "%s  %s", numbers ? "numbers" : "picture", name);
    return true;
}

static bool print_heads(const Chosen *c, Error *err) {
    const Terminal terminal = terminal_make(stdout);
    const bool glance = !text && layer < 0 && head < 0;
    const size_t small = terminal.colors == COLORS_NONE ? SMALL_NUMBERS : SMALL;
    HeadsFigure f;
    char title[TITLE];
    if (!make_figure(&f, title, c,
                     glance                           ? GLANCE
                     : terminal.columns < WHOLE_LABEL ? NARROW
                                                      : WHOLE,
                     err) ||
        (glance && !attend_show_run(&terminal, c->run, err)))
        return false;
    attention_figure_show(&f.figure, &terminal, glance ? small : c->snapshot.T);
    return true;
}

static bool write_all(const Chosen *c, Error *err) {
    if ((out || (!show && !csv)) && !write_file(c, err)) return false;
    if (csv) attend_write_csv(&c->snapshot, c->layers, c->heads, stdout);
    return !show || print_heads(c, err);
}

static bool run_attend(const Command *command, int *signal, Error *err) {
    static Run run;
    Chosen c = {.run = &run};
    (void)signal;
    const bool ok = check_options(err) && run_open(&run, command->target, NULL, 0, false, err) &&
                    choose(layer, (size_t)run.config.model.layers, "layer", &c.layers, err) &&
                    choose(head, (size_t)run.config.model.heads, "head", &c.heads, err) && attend(&c, command, err) &&
                    write_all(&c, err);
    snapshot_free(&c.snapshot);
    run_close(&run);
    return ok;
}

const Verb attend_verb = {
    .name = "attend",
    .target = "RUN_DIR",
    .what = "Shows the attention of a trained model on any text: as a picture (attend.png,\n"
            "unless --out, --show or --csv is given), in the terminal, or as numbers.",
    .options = OPTIONS,
    .run = run_attend,
};
