/* The colours that distinguish curves: their contrast against white, and their distances as people with deuteranopia
   and protanopia see them. What charts and attention figures must show, read back from their files: sizes, colours
   where the data put them; and that odd data still make a picture. What they are drawn with is tested in test_canvas.c.
 */
#include "images.h"

#include "show/chart.h"
#include "show/heatmap.h"
#include "show/palette.h"

static double linear(unsigned char value) {
    double v = value / 255.0;
    return v <= .04045 ? v / 12.92 : pow((v + .055) / 1.055, 2.4);
}

/* --- colours of curves */

/* WCAG 2: contrast against white, from the relative luminance. */
static double contrast(Color c) {
    return 1.05 / (.2126 * linear(c.r) + .7152 * linear(c.g) + .0722 * linear(c.b) + .05);
}

typedef struct {
    double l, a, b;
} Lab;

/* Colour blindness as a matrix in linear RGB, severity 1: Machado, Oliveira and Fernandes 2009, table 1. */
static const struct {
    const char *name;
    double matrix[3][3];
} visions[] = {
    {"full colour", {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {"deuteranopia", {{.367322, .860646, -.227968}, {.280085, .672501, .047413}, {-.011820, .042940, .968881}}},
    {"protanopia", {{.152286, 1.052583, -.204868}, {.114503, .786281, .099216}, {-.003882, -.048116, 1.051998}}},
};

static double lab_curve(double t) { return t > .008856 ? cbrt(t) : 7.787 * t + 16. / 116; }

/* CIE Lab under D65. */
static Lab seen(Color c, size_t vision) {
    const double rgb[3] = {linear(c.r), linear(c.g), linear(c.b)};
    double v[3];
    for (int i = 0; i < 3; i++) {
        const double *m = visions[vision].matrix[i];
        v[i] = fmax(0, fmin(1, m[0] * rgb[0] + m[1] * rgb[1] + m[2] * rgb[2]));
    }
    const double x = lab_curve((.4124564 * v[0] + .3575761 * v[1] + .1804375 * v[2]) / .95047),
                 y = lab_curve(.2126729 * v[0] + .7151522 * v[1] + .0721750 * v[2]),
                 z = lab_curve((.0193339 * v[0] + .1191920 * v[1] + .9503041 * v[2]) / 1.08883);
    return (Lab){116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

/* The distance of the two nearest of the first `count` colours, in Lab: 2.3 is just noticeable side by side. */
static double nearest(size_t count, size_t vision) {
    double least = INFINITY;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++) {
            const Lab a = seen(palette_color(i), vision), b = seen(palette_color(k), vision);
            least = fmin(least, hypot(hypot(a.l - b.l, a.a - b.a), a.b - b.b));
        }
    return least;
}

static void colors_stand_out_from_white(void **state) {
    (void)state;
    for (size_t i = 0; i < COLORS_COUNT; i++) {
        const Color c = palette_color(i);
        print_message("style %2zu: %3d %3d %3d, contrast %.2f, lightness %.0f\n", i, c.r, c.g, c.b, contrast(c),
                      seen(c, 0).l);
        assert_true(contrast(c) >= 3);
    }
}

static void colors_stay_apart(void **state) {
    (void)state;
    for (size_t vision = 0; vision < COUNT_OF(visions); vision++) {
        print_message("%s: nearest of the named divisors %.1f, of all %.1f\n", visions[vision].name,
                      nearest(COLORS_NAMED, vision), nearest(COLORS_COUNT, vision));
        assert_true(nearest(COLORS_NAMED, vision) >= 20 && nearest(COLORS_COUNT, vision) >= 12);
    }
    double least = INFINITY; /* in grey there is the lightness alone */
    for (size_t i = 0; i < COLORS_NAMED; i++)
        for (size_t k = 0; k < i; k++)
            least = fmin(least, fabs(seen(palette_color(i), 0).l - seen(palette_color(k), 0).l));
    print_message("grey: nearest of the named divisors %.1f\n", least);
    assert_true(least >= 8);
}

static void colors_are_of_one_divisor(void **state) {
    (void)state;
    static const char *const names[COLORS_NAMED] = {"none", "sqrt_dk", "dk", "2sqrt_dk", "sqrt_dmodel"};
    for (size_t i = 0; i < COLORS_NAMED; i++) assert_true(same(palette_divisor(names[i], 3), palette_color(i)));
    for (size_t i = 0; i < 3 * (COLORS_COUNT - COLORS_NAMED); i++)
        assert_true(same(palette_divisor("20", i), palette_color(COLORS_NAMED + i % (COLORS_COUNT - COLORS_NAMED))));
}

/* --- heatmaps and charts */

static double lightness(Color color) { return seen(color, 0).l; }

static void colors_rise_in_lightness(void **state) {
    (void)state;
    double last = -1;
    for (int i = 0; i <= 255; i++) {
        double now = lightness(heatmap_color(heatmap_weight(i / 255.0)));
        assert_true(now > last - .3); /* bytes round */
        if (i % 8 == 0) assert_true(now > (i ? lightness(heatmap_color(heatmap_weight((i - 8) / 255.0))) + 1 : 0));
        last = now;
    }
    assert_true(same(heatmap_color(0), (Color){68, 1, 84}));
    assert_true(same(heatmap_color(1), (Color){253, 231, 37}));
    assert_true(same(heatmap_color(-3), heatmap_color(0)) && same(heatmap_color(INFINITY), heatmap_color(1)));
    assert_true(same(heatmap_color(NAN), heatmap_not_a_number));
    assert_true(lightness(heatmap_color(.02)) - lightness(heatmap_color(0)) > 5); /* uniform over 48 keys is not 0 */
    for (int i = 0; i <= 10; i++) assert_true(fabs(heatmap_position(heatmap_weight(i / 10.0)) - i / 10.0) < 1e-12);
}

/* How many pixels of the colour are left or right of a column. */
static size_t count_beside(const Image *image, Color color, int column, bool right) {
    size_t count = 0;
    for (int y = 0; y < image->height; y++)
        for (int x = right ? column : 0; x < (right ? image->width : column); x++)
            count += same(pixel(image, x, y), color);
    return count;
}

/* Curves are on the left and their labels' samples on the right, whether or not there is a point. */
static void chart_shows_its_series(void **state) {
    (void)state;
    double x[101], y[3][101];
    Series series[3];
    for (int i = 0; i <= 100; i++) {
        x[i] = 10 * i;
        for (int k = 0; k < 3; k++) y[k][i] = i % 50 == 49 ? NAN : (double)(k + 1) * exp(-i / 20.0);
    }
    for (size_t k = 0; k < 3; k++)
        series[k] =
            (Series){.label = "a label", .y = y[k], .color = palette_color(k), .thickness = 4, .markers = k == 2};
    Chart chart = {"√d_k", "a subtitle", "loss", x, 101, series, 3, NULL, 0};
    for (int round = 0; round < 2; round++) { /* with points; without */
        chart_save(&chart, &no_directory, picture);
        Image image = image_read();
        assert_int_equal(image.width, 1000);
        assert_int_equal(image.height, 620);
        assert_white_border(&image, 8);
        for (size_t k = 0; k < 3; k++) {
            assert_true((count_beside(&image, palette_color(k), 850, false) > 80) == (round == 0));
            assert_true(count_beside(&image, palette_color(k), 850, true) > 20);
        }
        assert_int_equal(count_color(&image, palette_color(3)), 0);
        stbi_image_free(image.rgb);
        chart.points = 0;
    }
}

/* Curves that end at one point: no label covers another, they are in the order of the series, and all are inside. */
static void labels_are_apart(void **state) {
    (void)state;
    const double x[] = {0, 1}, y[3][2] = {{0, 0}, {.5, .5}, {1, 1}};
    Series series[CHART_SERIES_MAX];
    int last = 0;
    for (size_t k = 0; k < CHART_SERIES_MAX; k++)
        series[k] = (Series){.label = "label",
                             .y = y[k == 0   ? 0
                                    : k == 1 ? 2
                                             : 1],
                             .color = palette_color(k),
                             .thickness = 9};
    const Chart chart = {"labels", "", "loss", x, 2, series, CHART_SERIES_MAX, NULL, 0};
    chart_save(&chart, &no_directory, picture);
    Image image = image_read();
    assert_white_border(&image, 8);
    for (size_t i = 0; i < CHART_SERIES_MAX; i++) {
        int first = image.height, end = 0;
        for (int row = 0; row < image.height; row++)
            for (int column = 900; column < 930; column++) /* the samples */
                if (same(pixel(&image, column, row), palette_color(i))) {
                    first = row < first ? row : first;
                    end = row;
                }
        assert_true(first > last && end > first + 5);
        last = end;
    }
    stbi_image_free(image.rgb);
}

/* The rows in which the middle of the plot has a pixel of a level's line; returns how many. */
static size_t rows_of_levels(const Image *image, int rows[CHART_LEVELS_MAX]) {
    size_t count = 0;
    for (int y = 0; y < image->height; y++) {
        const Color line = {150, 150, 150};
        if (!same(pixel(image, 450, y), line)) continue;
        assert_true(count < CHART_LEVELS_MAX);
        rows[count++] = y;
    }
    return count;
}

/* Whether there is ink of a label right of the plot in the row. */
static bool labelled_at(const Image *image, int row) {
    for (int y = row - 3; y <= row + 3; y++)
        for (int x = 900; x < image->width; x++)
            if (pixel(image, x, y).r < 100) return true;
    return false;
}

/* A level is drawn at its height, whatever the order of the levels, and left out beyond the range of the curves, which
   it does not change. Labels of levels that are close together stand below one another. */
static void levels_are_at_their_heights(void **state) {
    (void)state;
    const double x[] = {0, 1}, y[] = {4, 0};
    const Series series = {.label = "a label", .y = y, .color = palette_color(0), .thickness = 1};
    const Level apart[] = {{"a level", 1}, {"beyond", 4.5}, {"a level", 3}, {"below", -.5}};
    const Level close[] = {{"a level", 2}, {"a level", 2.02}, {"a level", 2.04}, {"a level", 2.06}};
    const Chart two = {"levels", "", "loss", x, 2, &series, 1, apart, 4},
                four = {"levels", "", "loss", x, 2, &series, 1, close, 4};
    int rows[CHART_LEVELS_MAX];
    chart_save(&two, &no_directory, picture);
    Image image = image_read();
    assert_int_equal(rows_of_levels(&image, rows), 2);
    assert_close(rows[1] - rows[0], 470 * 2 / 4.4, 2, "the distance of the levels"); /* 470 pixels, 4 and margins */
    assert_close((rows[0] + rows[1]) / 2.0, 82 + 235, 2, "the middle of the plot");
    for (size_t i = 0; i < 2; i++) assert_true(labelled_at(&image, rows[i]));
    assert_false(labelled_at(&image, (rows[0] + rows[1]) / 2));
    stbi_image_free(image.rgb);

    chart_save(&four, &no_directory, picture);
    image = image_read();
    assert_white_border(&image, 8);
    assert_int_equal(rows_of_levels(&image, rows), 4);
    for (int i = 0; i < 4; i++) assert_true(labelled_at(&image, rows[0] + 17 * i));
    assert_false(labelled_at(&image, rows[0] + 17 * 4 + 2));
    stbi_image_free(image.rgb);
}

/* Whatever the points, the picture has the right size and an empty border. */
static void odd_data_still_make_a_chart(void **state) {
    (void)state;
    static const double steps[] = {0, 1000}, same_steps[] = {5, 5}, nothing[] = {NAN, INFINITY}, flat[] = {2, 2};
    static const double huge[] = {-1e99, 1e99}, beyond[] = {-1e308, 1e308}, tiny[] = {0, 1e-320},
                        close[] = {1e15, 1e15 + 1};
    static const double zero[] = {0, 0}, large[] = {3e38, 1}, small[] = {1e-12, 3e-12};
    static const Level levels[CHART_LEVELS_MAX] = {{"1", 2}, {"2", NAN}, {"3", INFINITY}, {"4", 0}};
    const double *const values[] = {nothing, flat, huge, beyond, tiny, close, zero, large, small, steps};
    char long_text[2000];
    memset(long_text, 'W', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t count = 1; count <= 2; count++)
            for (int swap = 0; swap < 3; swap++) {
                const double *x = swap == 0 ? steps : swap == 1 ? values[i] : same_steps;
                Series series[CHART_SERIES_MAX];
                for (size_t k = 0; k < CHART_SERIES_MAX; k++)
                    series[k] = (Series){.label = "label",
                                         .y = swap == 1 ? steps : values[i],
                                         .color = palette_color(k),
                                         .thickness = k % 3 ? 2 : 0,
                                         .markers = k == 2};
                const Chart chart = {i % 2 ? long_text : "",
                                     i % 3 ? "\xff\n" : "",
                                     "loss",
                                     x,
                                     count,
                                     series,
                                     count == 2 ? CHART_SERIES_MAX : 2,
                                     levels,
                                     swap == 1 ? 0 : CHART_LEVELS_MAX};
                chart_save(&chart, &no_directory, picture);
                if (swap) continue; /* one in three is enough to decode */
                Image image = image_read();
                assert_int_equal(image.width, 1000);
                assert_int_equal(image.height, 620);
                assert_white_border(&image, 3);
                stbi_image_free(image.rgb);
            }
}

enum { T = 48 };

/* Rows of softmax-like weights; above the diagonal lies what must never be seen. */
static void fill_weights(float *weights, size_t length, unsigned salt) {
    for (size_t query = 0; query < length; query++)
        for (size_t key = 0; key < length; key++) {
            unsigned mixed = (unsigned)(query * 31 + key * 17 + salt) * 2654435761u;
            weights[query * length + key] = key > query ? 1 : (float)(mixed >> 16 & 1023) / 1023;
        }
}

static void check_figure(size_t length, size_t layers, size_t heads) {
    static float weights[4][T * T];
    Panel panels[64];
    uint32_t text[T];
    for (size_t i = 0; i < length; i++)
        text[i] = i % 7 == 0 ? ' ' : i % 11 == 0 ? '\n' : i % 13 == 0 ? 0 : (uint32_t)('a' + i % 26);
    for (unsigned i = 0; i < 4; i++) fill_weights(weights[i], length, i);
    for (size_t i = 0; i < layers * heads; i++)
        panels[i] = (Panel){weights[i % 4], "√d_k: a label that is far wider than its panel would like it to be"};
    const AttentionFigure figure = {.title = "Attention",
                                    .subtitle = "a subtitle",
                                    .text = text,
                                    .length = length,
                                    .layers = layers,
                                    .heads = heads,
                                    .panels = panels};
    attention_figure_save(&figure, &no_directory, picture);
    Image image = image_read();
    assert_white_border(&image, 10);
    for (size_t p = 0; p < layers * heads; p++)
        for (size_t query = 0; query < length; query++)
            for (size_t key = 0; key < length; key++) {
                int x, y;
                attention_figure_cell(&figure, p, query, key, &x, &y);
                double weight = (double)panels[p].weights[query * length + key];
                assert_color(&image, x, y, key > query ? heatmap_masked : heatmap_color(weight));
            }
    stbi_image_free(image.rgb);
}

static void figure_shows_each_weight(void **state) {
    (void)state;
    check_figure(T, 1, 1);
    check_figure(T, 1, 3);
    check_figure(T, 2, 6); /* two lines a layer */
    check_figure(T, 4, 14);
    check_figure(33, 1, 2);
    check_figure(5, 13, 3); /* each layer has a line, though eight panels could stand side by side */
    check_figure(1, 1, 1);
}

/* One row of three panels of 48 characters. */
static void figure_has_readable_cells(void **state) {
    (void)state;
    uint32_t text[T] = {0};
    AttentionFigure figure = {.title = "x", .subtitle = "", .text = text, .length = T, .layers = 1, .heads = 3};
    int x0, y0, x1, y1;
    attention_figure_cell(&figure, 0, 0, 0, &x0, &y0);
    attention_figure_cell(&figure, 0, 1, 1, &x1, &y1);
    assert_int_equal(x1 - x0, 12);
    assert_int_equal(y1 - y0, 12);
    figure.heads = 4;
    attention_figure_cell(&figure, 0, 1, 1, &x1, &y1);
    attention_figure_cell(&figure, 0, 0, 0, &x0, &y0);
    assert_true(x1 - x0 >= 9);
}

/* Beside a panel and below it: characters that the font lacks are spelled, each in its own row or column. */
static void figure_spells_what_the_font_lacks(void **state) {
    (void)state;
    const float weights[4] = {1, 0, 1, 1};
    Panel panels[1] = {{weights, ""}};
    const uint32_t texts[2][2] = {{'a', 'b'}, {0x4e2d, 'b'}};
    int x[2], y[2];
    Image images[2];
    for (int i = 0; i < 2; i++) {
        const AttentionFigure figure = {
            .title = "x", .subtitle = "", .text = texts[i], .length = 2, .layers = 1, .heads = 1, .panels = panels};
        attention_figure_save(&figure, &no_directory, picture);
        images[i] = image_read();
        attention_figure_cell(&figure, 0, 0, 0, &x[i], &y[i]);
    }
    assert_true(x[1] > x[0] + 15 && y[1] == y[0]); /* the characters beside the panel take more */
    size_t beside = 0, below = 0;
    for (int along = 25; along < 45; along++) /* where "a" has nothing */
        for (int across = -7; across <= 7; across++) {
            beside += pixel(&images[1], x[1] - 9 - along, y[1] + across).r < 128;
            below += pixel(&images[1], x[1] + across, y[1] + 25 + along).r < 128;
        }
    assert_true(beside > 20 && below > 20);
    stbi_image_free(images[0].rgb);
    stbi_image_free(images[1].rgb);
}

static void figure_takes_odd_data(void **state) {
    (void)state;
    const float weights[4] = {NAN, 0, INFINITY, -1};
    static Panel panels[64 * 64];
    const uint32_t text[48] = {0xd800, 0xffffffff};
    char title[1500];
    memset(title, 'W', sizeof title - 1);
    title[sizeof title - 1] = 0;
    AttentionFigure figure = {
        .title = title, .subtitle = title, .text = text, .length = 2, .layers = 1, .heads = 1, .panels = panels};
    panels[0].weights = weights;
    attention_figure_save(&figure, &no_directory, picture);
    Image image = image_read();
    int x, y;
    assert_white_border(&image, 10);
    attention_figure_cell(&figure, 0, 0, 0, &x, &y);
    assert_color(&image, x, y, heatmap_not_a_number);
    attention_figure_cell(&figure, 0, 1, 1, &x, &y);
    assert_color(&image, x, y, heatmap_color(0));
    stbi_image_free(image.rgb);
    figure.layers = figure.heads = 64;
    figure.length = 48;
    assert_fails(STATUS_USAGE, "", attention_figure_save(&figure, &no_directory, picture)); /* too large */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(colors_stand_out_from_white),
        TEST(colors_stay_apart),
        TEST(colors_are_of_one_divisor),
        TEST(colors_rise_in_lightness),
        TEST(chart_shows_its_series),
        TEST(labels_are_apart),
        TEST(levels_are_at_their_heights),
        TEST(odd_data_still_make_a_chart),
        TEST(figure_shows_each_weight),
        TEST(figure_has_readable_cells),
        TEST(figure_spells_what_the_font_lacks),
        TEST(figure_takes_odd_data),
    };
    return cmocka_run_group_tests(tests, set_up, temporary_leave);
}
