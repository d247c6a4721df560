/* The verb attend: what it computes is what the run logged, which test_snapshot.c compares with queries and keys, and
   what it prints, in CSV and in a terminal, is that. */
#include "training.h"

#include "lab/attend.h"
#include "lab/terminal.h"
#include "run/pictures.h"

enum { LONGEST = 48 };
static Run run;
static Snapshot snapshot;
static Model model;

#define ATTEND_TEST(function) TEST_WITH(function, temporary_enter, temporary_leave)

static void attend_to(const char *text, size_t size) {
    snapshot = attend_to_text(&run, text, size, 1, progress_make(stderr, true));
}

static void make_run(void) {
    train("run", 1);
    run_open(&run, in("run"), NULL, 0, false);
    run_load_vocabulary(&run);
}

/* On the text that the run logged, the checkpoint's model attends as the log says, to the bit. */
static void as_it_was_logged(void) {
    CONFIGURE("train.steps=10", "log.attention_text=the naïve keys", "attention.sink=learned",
              "attention.switch_step=5", "attention.switch_divisor=dk");
    make_run();
    const Snapshot logged = attend_to_log(&run);
    assert_true(logged.step == 10 && logged.T == 14);
    attend_to("the naïve keys", strlen("the naïve keys"));
    assert_memory_equal(logged.attention.weights, snapshot.attention.weights, 2 * sizeof(float) * 14 * 14);
    assert_memory_equal(logged.attention.scores, snapshot.attention.scores, 2 * sizeof(float) * 14 * 14);
    assert_memory_equal(logged.attention.multiplier, snapshot.attention.multiplier, 2 * sizeof(float));
    assert_memory_equal(logged.attention.sink, snapshot.attention.sink, 2 * sizeof(float));
    put_text("run/attention.csv", strtok(contents(in("run/attention.csv"), NULL), "\n"));
    assert_refused("line", attend_to_log(&run));
}

/* A text is cut to the context, in characters; what comes after that does not matter. */
static void texts(void) {
    CONFIGURE("train.steps=1");
    make_run();
    attend_to("the naïve the naïve", strlen("the naïve the naïve"));
    assert_true(snapshot.T == 16 && snapshot.text[15] == 'a');
    attend_to("the keys and the~", 17);
    assert_int_equal(snapshot.T, 16);
    attend_to("\n", 1);
    assert_int_equal(snapshot.T, 1);
    assert_refused("--text is empty", attend_to("", 0));
    assert_refused("the character '~' (U+007E)", attend_to("the~keys", 8)); /* the corpus lacks it */
    assert_refused("(U+0000)", attend_to("t\0h", 3));
    assert_refused("not UTF-8: byte 4 is 0xff", attend_to("the\xff keys", 9));
    assert_refused("not UTF-8: byte 3", attend_to("na\xc3", 3)); /* a character cut off */
    assert_int_equal(remove(in("run/checkpoint/last.safetensors")), 0);
    assert_refused("checkpoint/last.safetensors: No such file", attend_to("the", 3));
}

static void make_snapshot(size_t H, const char *text) {
    uint32_t characters[LONGEST] = {0};
    const size_t T = strlen(text);
    for (size_t i = 0; i < T; i++) characters[i] = (unsigned char)text[i];
    snapshot = snapshot_make(1, H, characters, T);
    for (size_t h = 0; h < H; h++) snapshot.attention.sink[h] = -INFINITY;
    for (size_t i = 0; i < H * T * T; i++)
        if (i % T <= i / T % T) snapshot.attention.weights[i] = 1 / (float)(i / T % T + 1); /* uniform */
}

/* The statistics are those of attention.csv: over rows with two keys or more, a sink being one. */
static void statistics(void) {
    make_snapshot(3, "abc");
    SnapshotStatistics s = snapshot_statistics(&snapshot, 0, 0);
    assert_close(s.entropy, 1, 1e-6, "uniform");
    assert_close(s.max_weight, (1 / 2. + 1 / 3.) / 2, 1e-6, "uniform");
    memcpy(snapshot_weights(&snapshot, 0, 1), (const float[]){1, 0, 0, 1, 0, 0, 0, 0, 1}, 9 * sizeof(float));
    s = snapshot_statistics(&snapshot, 0, 1);
    assert_true(s.entropy == 0 && s.max_weight == 1);
    snapshot.attention.sink[2] = 0;
    memcpy(snapshot_weights(&snapshot, 0, 2), (const float[]){.5f, 0, 0, 0, .25f, 0, .25f, .25f, .25f},
           9 * sizeof(float));
    s = snapshot_statistics(&snapshot, 0, 2);
    const double quarter = -.25 * log(.25) - .75 * log(.75);
    assert_close(s.entropy, (1 + quarter / log(3) + 1) / 3, 1e-6, "with a sink");
    assert_close(s.max_weight, (.5 + .75 + .25) / 3, 1e-6, "with a sink");
    make_snapshot(1, "a");
    assert_true(isnan(snapshot_statistics(&snapshot, 0, 0).entropy));
    CONFIGURE("train.steps=3", "train.batch=1", "attention.sink=one"); /* the same from a model's own rows */
    make_run();
    attend_to("the keys and one", 16);
    run_load_model(&run, &model, 1, 1);
    int32_t ids[16];
    HeadStatistics measured[2];
    for (size_t i = 0; i < 16; i++) ids[i] = vocabulary_id(&run.vocabulary, snapshot.text[i]);
    model_forward(&model, &(Batch){.tokens = ids, .B = 1, .T = 16});
    measure_heads(&model, 1, 16, measured);
    for (size_t head = 0; head < 2; head++) {
        s = snapshot_statistics(&snapshot, 0, head);
        assert_close(s.entropy, measured[head].entropy, 1e-5, "entropy of head %zu", head);
        assert_close(s.max_weight, measured[head].max_weight, 1e-5, "largest weight of head %zu", head);
    }
}

/* A reader that knows no quotes sees as many commas as it should; each query's weights add up to 1. */
static void csv(void) {
    double sum = 0;
    size_t rows = 0;
    CONFIGURE("model.layers=2", "train.steps=5");
    make_run();
    attend_to("the keys and", 12);
    attend_write_csv(&snapshot, (Range){1, 2}, (Range){0, 2}, print_into());
    char *rest = what_was_printed(), *line = strsep(&rest, "\n");
    assert_string_equal(line, "layer,head,query,key,query_char,key_char,score,weight");
    for (; (line = strsep(&rest, "\n")) && *line; rows++) {
        const size_t head = rows / 78;
        size_t layer, h, query, key;
        char a, b;
        double score, weight;
        assert_int_equal(
            sscanf(line, "%zu,%zu,%zu,%zu,%c,%c,%lf,%lf", &layer, &h, &query, &key, &a, &b, &score, &weight), 8);
        assert_true(layer == 1 && h == head && key <= query && query < 12);
        assert_true(a == (char)snapshot.text[query] && b == (char)snapshot.text[key]);
        const size_t at = ((2 + head) * 12 + query) * 12 + key;
        assert_true((float)score == snapshot.attention.scores[at] && (float)weight == snapshot.attention.weights[at]);
        sum = key == 0 ? weight : sum + weight;
        if (key == query) assert_close(sum, 1, 1e-5, "row %zu", query);
    }
    assert_int_equal(rows, 2 * 12 * 13 / 2);
    make_snapshot(1, ",\"\n");
    attend_write_csv(&snapshot, (Range){0, 1}, (Range){0, 1}, print_into());
    assert_string_equal(strchr(what_was_printed(), '\n') + 1,
                        "0,0,0,0,\",\",\",\",0,1\n"
                        "0,0,1,0,\"\"\"\",\",\",0,0.5\n0,0,1,1,\"\"\"\",\"\"\"\",0,0.5\n"
                        "0,0,2,0,\"\n\",\",\",0,0.333333343\n0,0,2,1,\"\n\",\"\"\"\",0,0.333333343\n"
                        "0,0,2,2,\"\n\",\"\n\",0,0.333333343\n");
}

/* --- in a terminal */

enum { T = 5 };
static const uint32_t five[T] = {'a', ' ', '\n', 0x1b, 0x4e2d};
static const float matrix[T * T] = {1, 9, 9,   9,   9,   .07f, .93f, 9, 9,    9,    .004f, .996f, 0,
                                    9, 9, NAN, .3f, .3f, .4f,  9,    0, .25f, .25f, .25f,  .25f};

static const char *show(TerminalColors colors, size_t columns) {
    static Panel panels[] = {{matrix, "first", {0}}, {matrix, "second", {0}}};
    const AttentionFigure figure = {
        .title = "title", .text = five, .length = T, .layers = 1, .heads = 2, .panels = panels};
    const Terminal terminal = {print_into(), colors, columns};
    attention_figure_show(&figure, &terminal, columns);
    return what_was_printed();
}

static void in_numbers(void) {
#define HEAD                                                                                                           \
    "a  1.\n"                                                                                                          \
    "␣  07 93\n"                                                                                                     \
    "↵  00 1. 00\n"                                                                                                  \
    "\ufffd  na 30 30 40\n"                                                                                            \
    "\ufffd  00 25 25 25 25\n"                                                                                         \
    "    a  ␣  ↵  \ufffd  \ufffd\n\n"
    assert_string_equal(show(COLORS_NONE, 17),
                        "title\nweights in hundredths: 07 is .07\n\nfirst\n" HEAD "second\n" HEAD);
    assert_non_null(strstr(show(COLORS_NONE, 80), "\nfirst              second\na  1.              a  1.\n"));
    assert_non_null(strstr(show(COLORS_NONE, 12), "\n\na␣↵\ufffd\ufffd\n\nfirst\n 1.\n na 40\n 25 25 25\n\nsecond\n"));
}

/* Returns the number of columns of the line at `text`. Its escape sequences may only select colours, and none is
   selected at its end. */
static size_t columns_of(const char *text, TerminalColors colors) {
    size_t columns = 0;
    bool colored = false;
    while (*text && *text != '\n') {
        if (*text == '\x1b') {
            int n = 0, r, g, b;
            assert_true(strncmp(text, "\x1b[0", 3) == 0);
            text += 3;
            colored = *text == ';';
            while (*text == ';') {
                const char *form = colors == COLORS_256 ? ";%*[34]8;5;%d%n" : ";%*[34]8;2;%d;%d;%d%n";
                assert_true(colors == COLORS_256
                                ? sscanf(text, form, &r, &n) == 1 && r >= 16 && r < 256
                                : sscanf(text, form, &r, &g, &b, &n) == 3 && r < 256 && g < 256 && b < 256);
                text += n;
            }
            assert_int_equal(*text++, 'm');
            continue;
        }
        assert_true((unsigned char)*text >= 0x20);
        columns += ((unsigned char)*text++ & 0xc0) != 0x80;
    }
    assert_false(colored);
    return columns;
}

static void in_colors(void) {
    char expected[400];
    for (TerminalColors colors = COLORS_256; colors <= COLORS_24_BIT; colors++) {
        const char *text = show(colors, 80), *line = text;
        for (; *line; line = strchr(line, '\n') + 1) assert_true(columns_of(line, colors) <= 80);
        assert_non_null(strstr(text, "\nfirst     second\na␣ ")); /* 3 + 5 columns, and a gap of 2 */
    }
    const Color c[] = {heatmap_color(1), heatmap_color((double).07f), heatmap_color((double).93f)};
    snprintf(expected, sizeof expected,
             "\na␣ \x1b[0;38;2;%d;%d;%d;48;2;%d;%d;%dm▀\x1b[0;38;2;%d;%d;%dm▄\x1b[0m     a␣ ", c[0].r, c[0].g, c[0].b,
             c[1].r, c[1].g, c[1].b, c[2].r, c[2].g, c[2].b);
    assert_non_null(strstr(show(COLORS_24_BIT, 80), expected));
    snprintf(expected, sizeof expected, "\na␣ \x1b[0;38;5;%d;48;5;%dm▀\x1b[0;38;5;%dm▄\x1b[0m",
             terminal_color_256(c[0]), terminal_color_256(c[1]), terminal_color_256(c[2]));
    assert_non_null(strstr(show(COLORS_256, 80), expected));
    assert_non_null(strstr(show(COLORS_24_BIT, 80), "\n\ufffd  \x1b[0;38;2;68;1;84m▀")); /* the last query, alone */
    assert_int_equal(terminal_color_256((Color){0, 0, 0}), 16);
    assert_int_equal(terminal_color_256((Color){255, 255, 255}), 231);
    assert_int_equal(terminal_color_256((Color){96, 134, 176}), 67);
    assert_int_equal(terminal_color_256((Color){9, 8, 7}), 232);
}

/* The longest text in terminals of any width: nothing wraps, every weight is in a cell, and a label that does not
   fit is cut. */
static void fits_in_a_line(void) {
    static const size_t widths[] = {200, 80, 51, 40, 20, 6};
    static const size_t sides[][2] = {{48, 48}, {24, 48}, {16, 48},
                                      {12, 24}, {6, 16},  {2, 6}}; /* in numbers, squares */
    static float uniform[LONGEST * LONGEST];
    static Panel panels[] = {{uniform, "head 0: .71, .50", {0}}, {uniform, "head 1: .64, .40", {0}}};
    uint32_t text[LONGEST];
    for (size_t i = 0; i < LONGEST; i++) text[i] = 'x';
    const AttentionFigure figure = {
        .title = "title", .text = text, .length = LONGEST, .layers = 2, .heads = 1, .panels = panels};
    for (size_t i = 0; i < COUNT_OF(widths); i++)
        for (TerminalColors colors = COLORS_NONE; colors <= COLORS_24_BIT; colors++)
            for (int narrow = 0; narrow < 2; narrow++) { /* the terminal, or what a panel may take of it */
                const Terminal terminal = {print_into(), colors, narrow ? 200 : widths[i]};
                const size_t side = sides[i][colors != COLORS_NONE], legend = colors == COLORS_NONE ? 32 : 35;
                size_t shown = 0, widest = 0;
                attention_figure_show(&figure, &terminal, widths[i]);
                const char *all = what_was_printed();
                for (const char *line = all; *line; line = strchr(line, '\n') + 1) {
                    const size_t columns = columns_of(line, colors);
                    if (columns > widest && columns != legend) widest = columns;
                    const char *end = strchr(line, '\n');
                    for (const char *p = line; p < end; p++)
                        shown += colors == COLORS_NONE ? strncmp(p, "00", 2) == 0
                                                       : 2 * (strncmp(p, "▀", 3) == 0) + (strncmp(p, "▄", 3) == 0);
                }
                assert_that(widest <= terminal.columns, "%zu columns of %zu", widest, terminal.columns);
                assert_non_null(strstr(all, widths[i] < 16 ? "\nhead 0" : "\nhead 0: .71, .50"));
                /* squares: pairs of queries, of which the last key's is alone; the legend has ten */
                assert_int_equal(shown, colors == COLORS_NONE ? side * (side + 1) : side * (side + 1) + 20);
            }
}

static void width_and_colors_of_a_stream(void) {
    FILE *file = print_into();
    assert_int_equal(setenv("COLORTERM", "truecolor", 1) | setenv("TERM", "xterm", 1), 0);
    assert_int_equal(terminal_make(file).colors, COLORS_NONE); /* a file is no terminal */
    static const char *const values[] = {"40", "1", "0", "-3", "x", "99999999999999999999"};
    static const size_t columns[] = {40, 1, 80, 80, 80, 80};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        assert_int_equal(setenv("COLUMNS", values[i], 1), 0);
        assert_int_equal(terminal_make(file).columns, columns[i]);
    }
    assert_int_equal(unsetenv("COLUMNS"), 0);
    assert_int_equal(terminal_columns(fileno(file)), 80);
}

/* With the longest text: eight layers of twelve heads are drawn with more panels side by side. Panels of too many
   layers for a picture are refused, with the options that choose fewer. */
static void many_heads(void) {
    static const uint32_t text[LONGEST] = {0};
    snapshot = snapshot_make(8, 12, text, LONGEST);
    AttentionFigure figure = heads_figure(&snapshot, (Range){0, 8}, (Range){0, 12});
    assert_ptr_equal(figure.panels[13].weights, snapshot_weights(&snapshot, 1, 1));
    figure.title = figure.subtitle = "eight layers of twelve heads";
    attention_figure_save(&figure, &no_directory, in("heads.png"));
    snapshot = snapshot_make(64, 1, text, LONGEST);
    figure = heads_figure(&snapshot, (Range){0, 64}, (Range){0, 1});
    figure.title = figure.subtitle = "too many layers";
    assert_refused("--layer", attention_figure_save(&figure, &no_directory, in("layers.png")));
}

int main(void) {
    return RUN_TESTS(ATTEND_TEST(as_it_was_logged), ATTEND_TEST(texts), ATTEND_TEST(statistics), ATTEND_TEST(csv),
                     ATTEND_TEST(in_numbers), ATTEND_TEST(in_colors), ATTEND_TEST(fits_in_a_line),
                     ATTEND_TEST(many_heads), ATTEND_TEST(width_and_colors_of_a_stream));
}
