/* The verb attend makes a Snapshot, of a text or from the log of the run. The model of the last checkpoint reads the
   text, without dropout. All outputs (picture, numbers, CSV, terminal) are made from the snapshot, and have the layers
   and heads that the options choose. */
#include "lab/attend.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "lab/lab.h"
#include "lab/terminal.h"
#include "lab/text.h"
#include "run/pictures.h"

Snapshot attend_to_text(Run *run, const char *text, size_t size, size_t threads, Progress *progress) {
    const size_t T = run->config.model.context, limit = T < SNAPSHOT_TEXT_MAX ? T : SNAPSHOT_TEXT_MAX;
    int32_t ids[SNAPSHOT_TEXT_MAX];
    uint32_t characters[SNAPSHOT_TEXT_MAX];
    size_t end = 0;
    Model model;
    if (size == 0) usage_error("--text is empty");
    for (size_t i = 0; i < limit && end < size; i++) {
        const size_t length = utf8_decode(text + end, size - end, &characters[i]);
        end += length ? length : 1; /* vocabulary_encode names a byte that is not UTF-8 */
    }
    const size_t count = vocabulary_encode(&run->vocabulary, "--text", text, end, ids, SNAPSHOT_TEXT_MAX);
    run_load_model(run, &model, 1, threads);
    Snapshot s = snapshot_make(model.shape.L, model.shape.attention.H, characters, count);
    if (end < size) progress_message(progress, "note: --text is cut to its first %zu characters", limit);
    s.step = run->step;
    model_forward(&model, &(Batch){ids, NULL, 1, count});
    measure_snapshot(&model, count, &s.attention);
    return s;
}

Snapshot attend_to_log(const Run *run) {
    const LogTable attention = logs_read(run->directory, LOG_ATTENTION);
    const double step = log_last(&attention, ATTENTION_STEP);
    if (isnan(step)) usage_error("%s has no attention measured yet", run->directory);
    return snapshot_load(run->directory, &run->config, (size_t)step);
}

/* The softmax of the logarithms of weights is these weights. A sink counts as one more key. Its weight is 1 minus the
   sum of the others. */
SnapshotStatistics snapshot_statistics(const Snapshot *s, size_t layer, size_t head) {
    const float *weights = snapshot_weights(s, layer, head);
    const bool sink = s->attention.sink[layer * s->H + head] != -INFINITY;
    double row[SNAPSHOT_TEXT_MAX + 1], entropy = 0, max_weight = 0, rows = 0;
    for (size_t query = sink ? 0 : 1; query < s->T; query++) {
        double rest = 1;
        for (size_t key = 0; key <= query; key++) {
            rest -= (double)weights[query * s->T + key];
            row[key] = log((double)weights[query * s->T + key]);
        }
        row[query + 1] = log(fmax(rest, 0));
        const SoftmaxRow softmax = softmax_row(row, query + 1 + sink);
        entropy += softmax.entropy / log((double)softmax.keys);
        max_weight += softmax.max_weight;
        rows++;
    }
    return rows > 0 ? (SnapshotStatistics){entropy / rows, max_weight / rows} : (SnapshotStatistics){NAN, NAN};
}

void attend_write_csv(const Snapshot *s, Range layers, Range heads, FILE *out) {
    fputs("layer,head,query,key,query_char,key_char,score,weight\n", out);
    for (size_t layer = layers.begin; layer < layers.end; layer++)
        for (size_t head = heads.begin; head < heads.end; head++)
            for (size_t i = 0; i < s->T * s->T; i++) {
                const size_t query = i / s->T, key = i % s->T, at = (layer * s->H + head) * s->T * s->T + i;
                char text[5];
                if (key > query) continue;
                fprintf(out, "%zu,%zu,%zu,%zu,", layer, head, query, key);
                utf8_encode(s->text[query], text);
                text_write_field(text, out);
                fputc(',', out);
                utf8_encode(s->text[key], text);
                text_write_field(text, out);
                fprintf(out, ",%.9g,%.9g\n", (double)s->attention.scores[at], (double)s->attention.weights[at]);
            }
}

/* --- the verb */

enum { TITLE = 512 }; /* capacity of a title */
#define PICTURE ".png"
#define NUMBERS ".safetensors"

static const char *text, *out;
static long long layer = -1, head = -1; /* -1: all */
static bool show, csv;

static const Option OPTIONS[] = {
    {"text", "TEXT", "the text; - reads standard input (default: the run's own)", OPTION_TEXT, &text, 0, 0},
    {"layer", "L", "one layer, from 0 (default: all)", OPTION_INTEGER, &layer, 0, INT_MAX},
    {"head", "H", "one head of each layer, from 0 (default: all)", OPTION_INTEGER, &head, 0, INT_MAX},
    {"show", NULL, "print to the terminal; alone it shows all heads, small", OPTION_SWITCH, &show, 0, 0},
    {"csv", NULL, "print every score and weight as CSV", OPTION_SWITCH, &csv, 0, 0},
    {"out", "FILE", "write a picture (.png) or all numbers (.safetensors)", OPTION_PATH, &out, 0, 0},
    {0},
};

/* The run, its attention, and the layers and heads that are shown. */
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

/* Returns the range of one out of `count`, or of all if `one` is negative. */
static Range choose(long long one, size_t count, const char *what) {
    const Range range = one < 0 ? (Range){0, count} : (Range){(size_t)one, (size_t)one + 1};
    if (range.end > count) usage_error("there is no %s %lld: the model has %ss 0 to %zu", what, one, what, count - 1);
    return range;
}

/* Makes the snapshot, from --text or from the run's log. */
static Snapshot make_snapshot(const Command *command) {
    static char input[4 * SNAPSHOT_TEXT_MAX + 8]; /* more than is used, so that a longer text is found */
    Progress *progress = progress_make(stderr, command->quiet);
    if (!text) return attend_to_log(&run);
    run_load_vocabulary(&run);
    const size_t size = input_read(&text, input, sizeof input, vocabulary_id(&run.vocabulary, '\r') >= 0);
    return attend_to_text(&run, text, size, command_threads(command), progress);
}

/* Makes the figure of the heads that were asked for. Small heads have short labels: layer, head, entropy. */
static AttentionFigure make_figure(bool small, char title[TITLE], char model[TITLE]) {
    const Config *config = &run.config;
    const size_t H = range_size(heads), count = range_size(layers) * H;
    AttentionFigure f = heads_figure(&snapshot, layers, heads);
    double entropy = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t l = layers.begin + i / H, h = heads.begin + i % H;
        const SnapshotStatistics one = snapshot_statistics(&snapshot, l, h);
        char *label = f.panels[i].label;
        const size_t capacity = sizeof f.panels->label;
        if (small) snprintf(label, capacity, "L%zu H%zu: %.2f", l, h, one.entropy);
        else
            snprintf(label, capacity, "layer %zu, head %zu: entropy %.2f, largest weight %.2f", l, h, one.entropy,
                     one.max_weight);
        entropy += one.entropy / (double)count;
    }
    config_scores_title(config, snapshot.step, title, TITLE);
    text_append(title, TITLE, ": entropy %.2f at step %zu", entropy, snapshot.step);
    picture_model(&config, 1, model, TITLE);
    f.title = title;
    f.corner = model;
    f.subtitle = "entropy: 1 is uniform, 0 one-hot; largest weight: mean over the queries that see two keys or more";
    return f;
}

/* Writes the file that --out names; without --out attend.png, or the first of attend-2.png, ... that is free. */
static void write_file(const AttentionFigure *figure) {
    char path[RESULTS_PATH];
    const bool numbers = out_ends_with(NUMBERS);
    for (unsigned number = 1; !out && (number == 1 || path_exists(path)); number++) {
        results_name(path, "attend", number);
        text_append(path, sizeof path, PICTURE);
    }
    const char *name = out ? out : path;
    if (numbers) snapshot_write(&snapshot, &no_directory, name);
    else attention_figure_save(figure, &no_directory, name);
    if (!csv) print_plain(stdout, "%s  %s", numbers ? "numbers" : "picture", name);
}

/* Shows the figure in the terminal, or small heads, so that those of a small model fit into 80 columns and 24 lines. */
static void show_figure(const AttentionFigure *figure, bool small) {
    const Terminal t = terminal_make(stdout);
    const size_t across = t.colors == COLORS_NONE ? 2 : 4, gap = 2;
    attention_figure_show(figure, &t, !small ? t.columns : t.columns / across > gap ? t.columns / across - gap : 1);
    if (figure->layers * figure->heads > 1) puts("--layer L --head H shows one head alone.");
}

static void write_all(void) {
    const bool small = show && !text && !out && layer < 0 && head < 0;
    char title[TITLE], model[TITLE];
    const AttentionFigure figure = make_figure(small, title, model);
    if (out || (!show && !csv)) write_file(&figure);
    if (csv) attend_write_csv(&snapshot, layers, heads, stdout);
    if (show) show_figure(&figure, small);
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
