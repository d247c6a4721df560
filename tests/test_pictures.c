/* The colours that distinguish curves: their contrast against white, and their distances as people with deuteranopia
   and protanopia see them. Charts and attention figures, read back from their files: sizes, and colours where the data
   put them. Odd data still make a picture. The canvas is tested in test_canvas.c. */
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

static void colors_stand_out_from_white(void) {
    for (size_t i = 0; i < COLORS_COUNT; i++) {
        const Color c = palette_color(i);
        print_message("style %2zu: %3d %3d %3d, contrast %.2f, lightness %.0f\n", i, c.r, c.g, c.b, contrast(c),
                      seen(c, 0).l);
        assert_true(contrast(c) >= 3);
    }
}

static void colors_stay_apart(void) {
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

static void colors_are_of_one_divisor(void) {
    static const char *const names[COLORS_NAMED] = {"none", "sqrt_dk", "dk", "2sqrt_dk", "sqrt_dmodel"};
    for (size_t i = 0; i < COLORS_NAMED; i++) assert_true(same(palette_divisor(names[i], 3), palette_color(i)));
    for (size_t i = 0; i < 3 * (COLORS_COUNT - COLORS_NAMED); i++)
        assert_true(same(palette_divisor("20", i), palette_color(COLORS_NAMED + i % (COLORS_COUNT - COLORS_NAMED))));
}

/* --- heatmaps and charts */

static double lightness(Color color) { return seen(color, 0).l; }

static void colors_rise_in_lightness(void) {
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

/* Returns the number of pixels of the colour on the left or the right of a column. */
static size_t count_beside(const Image *image, Color color, int column, bool right) {
    size_t count = 0;
    for (int y = 0; y < image->height; y++)
        for (int x = right ? column : 0; x < (right ? image->width : column); x++)
            count += same(pixel(image, x, y), color);
    return count;
}

/* Curves are on the left and their labels' samples on the right; a curve without points has neither. */
static void chart_shows_its_series(void) {
    double x[101], y[3][101];
    Series series[3];
    for (int i = 0; i <= 100; i++) {
        x[i] = 10 * i;
        for (int k = 0; k < 3; k++) y[k][i] = i % 50 == 49 ? NAN : (double)(k + 1) * exp(-i / 20.0);
    }
    for (size_t k = 0; k < 3; k++)
        series[k] = (Series){.label = "a label",
                             .x = x,
                             .y = y[k],
                             .points = 101,
                             .color = palette_color(k),
                             .thickness = 4,
                             .markers = k == 2};
    for (size_t points = 101; points <= 101; points -= 101) { /* 101, then 0 */
        series[0].points = points;
        const Chart chart = {"√d_k", "a subtitle", "loss", series, 3, false, false};
        chart_save(&chart, &no_directory, picture);
        Image image = image_read();
        assert_int_equal(image.width, 1000);
        assert_int_equal(image.height, 620);
        assert_white_border(&image, 8);
        for (size_t k = 0; k < 3; k++) {
            assert_true((count_beside(&image, palette_color(k), 850, false) > 80) == (series[k].points > 0));
            assert_true((count_beside(&image, palette_color(k), 870, true) > 20) == (series[k].points > 0));
        }
        assert_int_equal(count_color(&image, palette_color(3)), 0);
        stbi_image_free(image.rgb);
    }
}

/* Finds the first and the last row in which a curve's label has its sample. */
static void find_sample(const Image *image, Color color, int *first, int *last) {
    *first = *last = -1;
    for (int row = 0; row < image->height; row++)
        for (int column = 908; column < 920; column++)
            if (same(pixel(image, column, row), color)) {
                *first = *first < 0 ? row : *first;
                *last = row;
            }
}

/* Curves of which many end at one point: labels stand beside their ends where they can, no label covers another, they
   are in the order of the ends, and all are inside. */
static void labels_are_apart(void) {
    enum { CURVES = 12 };
    const double x[] = {0, 1};
    for (int alone = 0; alone < 2; alone++) { /* 1: the first curve ends far above the others */
        double y[CURVES][2];
        Series series[CURVES];
        int last = 0, first, end;
        for (size_t k = 0; k < CURVES; k++) {
            y[k][0] = y[k][1] = k == 0 && alone ? 2 : k == CURVES - 1 ? 0 : .5;
            series[k] =
                (Series){.label = "label", .x = x, .y = y[k], .points = 2, .color = palette_color(k), .thickness = 9};
        }
        const Chart chart = {"labels", "", "loss", series, CURVES, false, false};
        chart_save(&chart, &no_directory, picture);
        Image image = image_read();
        assert_white_border(&image, 8);
        for (size_t k = 0; k < CURVES; k++) {
            find_sample(&image, palette_color(k), &first, &end);
            assert_true(first > last && end > first + 5);
            if (alone && k == 0) assert_close((first + end) / 2.0, 82 + 470 * .1 / 2.2, 2, "a label beside its end");
            last = end;
        }
        stbi_image_free(image.rgb);
    }
}

/* Many labels are smaller, and all are there. */
static void many_labels_fit(void) {
    enum { CURVES = 60 };
    const double x[] = {0, 1}, y[] = {1, 1};
    Series series[CURVES];
    for (size_t k = 0; k < CURVES; k++)
        series[k] =
            (Series){.label = "label", .x = x, .y = y, .points = 2, .color = palette_color(k % 2), .thickness = 2};
    const Chart chart = {"labels", "", "loss", series, CURVES, false, false};
    chart_save(&chart, &no_directory, picture);
    Image image = image_read();
    size_t samples = 0;
    assert_white_border(&image, 8);
    for (int row = 1; row < image.height; row++) {
        const Color above = pixel(&image, 915, row - 1), now = pixel(&image, 915, row);
        const bool begins = same(now, palette_color(0)) || same(now, palette_color(1));
        samples += begins && !same(above, now);
    }
    assert_int_equal(samples, CURVES);
    stbi_image_free(image.rgb);
}

/* Returns whether the plot has a horizontal line of the grid and a tick in a row. */
static bool has_tick(const Image *image, int row) { return same(pixel(image, 500, row), (Color){230, 230, 230}); }

/* A chart of whole numbers has the same axis for values that lie between the same ones. */
static void whole_axes_are_shared(void) {
    const double x[] = {0, 1}, y[2][2] = {{3.9, 1.1}, {3.2, 1.8}};
    for (size_t i = 0; i < 2; i++) {
        const Series series = {"a label", x, y[i], 2, palette_color(0), .thickness = 1};
        const Chart chart = {"axes", "", "loss", &series, 1, .whole = true};
        chart_save(&chart, &no_directory, picture);
        Image image = image_read();
        for (int tick = 0; tick <= 6; tick++) assert_true(has_tick(&image, 82 + tick * 470 / 6) || tick == 6);
        stbi_image_free(image.rgb);
    }
}

/* Whatever the points, the picture has the right size and an empty border. */
static void odd_data_still_make_a_chart(void) {
    static const double steps[] = {0, 1000}, same_steps[] = {5, 5}, nothing[] = {NAN, INFINITY}, flat[] = {2, 2};
    static const double huge[] = {-1e99, 1e99}, beyond[] = {-1e308, 1e308}, tiny[] = {0, 1e-320},
                        close[] = {1e15, 1e15 + 1};
    static const double zero[] = {0, 0}, large[] = {3e38, 1}, small[] = {1e-12, 3e-12};
    const double *const values[] = {nothing, flat, huge, beyond, tiny, close, zero, large, small, steps};
    char long_text[2000];
    memset(long_text, 'W', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t points = 0; points <= 2; points++)
            for (int swap = 0; swap < 3; swap++) {
                Series series[3];
                for (size_t k = 0; k < 3; k++)
                    series[k] = (Series){.label = k ? "label" : NULL,
                                         .x = swap == 0   ? steps
                                              : swap == 1 ? values[i]
                                                          : same_steps,
                                         .y = swap == 1 ? steps : values[i],
                                         .points = points,
                                         .color = palette_color(k),
                                         .thickness = k % 3 ? 2 : 0,
                                         .dash = (double)k,
                                         .markers = k == 2};
                const Chart chart = {i % 2 ? long_text : "",
                                     i % 3 ? "\xff\n" : "",
                                     "loss",
                                     series,
                                     points == 2 ? 3 : 2,
                                     i % 2 == 0,
                                     i == 3};
                chart_save(&chart, &no_directory, picture);
                if (swap) continue; /* one in three is enough to decode */
                Image image = image_read();
                assert_int_equal(image.width, 1000 * (1 + chart.print));
                assert_int_equal(image.height, 620 * (1 + chart.print));
                assert_white_border(&image, 3);
                stbi_image_free(image.rgb);
            }
}

enum { T = 48 };

/* Rows of softmax-like weights; the numbers above the diagonal must never be seen. */
static void fill_weights(float *weights, size_t length, unsigned salt) {
    for (size_t query = 0; query < length; query++)
        for (size_t key = 0; key < length; key++) {
            unsigned mixed = (unsigned)(query * 31 + key * 17 + salt) * 2654435761u;
            weights[query * length + key] = key > query ? 1 : (float)(mixed >> 16 & 1023) / 1023;
        }
}

/* Returns the length of a line of the colour of edges, from (x, y) to the right or down. */
static int edge_length(const Image *image, int scale, int x, int y, bool down) {
    int length = 0;
    while (x < image->width / scale && y < image->height / scale &&
           same(pixel(image, scale * x, scale * y), (Color){150, 150, 150})) {
        *(down ? &y : &x) += 1;
        length++;
    }
    return length;
}

/* The upper left corner of a panel's first cell and the side of a cell, in units of `scale` pixels. */
typedef struct {
    int x, y, cell;
} Place;

/* Finds the panels of a figure in its picture: squares with an edge, in the order of reading. The bar of colours is no
   square. */
static void find_panels(const AttentionFigure *figure, int scale, const Image *image, Place *places) {
    const size_t panels = figure->layers * figure->heads;
    size_t count = 0;
    for (int y = 0; y < image->height / scale; y++)
        for (int x = 0; x < image->width / scale; x++) {
            const int side = edge_length(image, scale, x, y, false);
            if (side < 6 || edge_length(image, scale, x, y, true) != side ||
                edge_length(image, scale, x, y + side - 1, false) < side ||
                edge_length(image, scale, x + side - 1, y, true) < side)
                continue;
            assert_true(count < panels && (side - 2) % (int)figure->length == 0);
            places[count++] = (Place){x + 1, y + 1, (side - 2) / (int)figure->length};
        }
    assert_int_equal(count, panels);
}

/* Saves a figure that is no strip, and finds its first panel. */
static Place save_and_find(const AttentionFigure *figure, Image *image) {
    Place places[64];
    attention_figure_save(figure, &no_directory, picture);
    *image = image_read();
    find_panels(figure, 1, image, places);
    return places[0];
}

/* `rows` has the names of a strip's rows; NULL: no strip. */
static void check_figure(size_t length, size_t layers, size_t heads, const char *const *rows) {
    static float weights[4][T * T];
    Panel panels[64];
    Place places[64];
    uint32_t text[T];
    for (size_t i = 0; i < length; i++)
        text[i] = i % 7 == 0 ? ' ' : i % 11 == 0 ? '\n' : i % 13 == 0 ? 0 : (uint32_t)('a' + i % 26);
    for (unsigned i = 0; i < 4; i++) fill_weights(weights[i], length, i);
    for (size_t i = 0; i < layers * heads; i++)
        panels[i] = (Panel){weights[i % 4], "√d_k: a label that is far wider than its panel would like it to be", {0}};
    const AttentionFigure figure = {.title = "Attention",
                                    .subtitle = "a subtitle",
                                    .text = text,
                                    .length = length,
                                    .layers = layers,
                                    .heads = heads,
                                    .panels = panels,
                                    .corner = heads % 2 ? "a corner" : NULL,
                                    .rows = rows};
    const int scale = rows ? 2 : 1;
    attention_figure_save(&figure, &no_directory, picture);
    Image image = image_read();
    assert_white_border(&image, 10);
    find_panels(&figure, scale, &image, places);
    for (size_t p = 0; p < layers * heads; p++)
        for (size_t query = 0; query < length; query++)
            for (size_t key = 0; key < length; key++) {
                const int cell = places[p].cell, x = places[p].x + (int)key * cell + cell / 2,
                          y = places[p].y + (int)query * cell + cell / 2;
                double weight = (double)panels[p].weights[query * length + key];
                assert_color(&image, scale * x, scale * y, key > query ? heatmap_masked : heatmap_color(weight));
            }
    stbi_image_free(image.rgb);
}

static void figure_shows_each_weight(void) {
    check_figure(T, 1, 1, NULL);
    check_figure(T, 1, 3, NULL);
    check_figure(T, 2, 6, NULL); /* two lines a layer */
    check_figure(T, 4, 14, NULL);
    check_figure(33, 1, 2, NULL);
    check_figure(5, 13, 3, NULL); /* each layer has a line, though eight panels could stand side by side */
    check_figure(1, 1, 1, NULL);
    static const char *const rows[] = {"step 0", "step 1000"};
    check_figure(T, 2, 4, rows);
    check_figure(T, 2, 16, rows);
    check_figure(3, 1, 1, rows);
}

/* One row of three panels of 48 characters, or of four. */
static void figure_has_readable_cells(void) {
    static const float weights[T * T];
    Panel panels[4] = {{weights, "", {0}}, {weights, "", {0}}, {weights, "", {0}}, {weights, "", {0}}};
    uint32_t text[T] = {0};
    AttentionFigure figure = {
        .title = "x", .subtitle = "", .text = text, .length = T, .layers = 1, .heads = 3, .panels = panels};
    Image image;
    assert_int_equal(save_and_find(&figure, &image).cell, 12);
    stbi_image_free(image.rgb);
    figure.heads = 4;
    assert_true(save_and_find(&figure, &image).cell >= 9);
    stbi_image_free(image.rgb);
}

/* Beside a panel and below it: characters that the font lacks are spelled, each in its own row or column. */
static void figure_spells_what_the_font_lacks(void) {
    const float weights[4] = {1, 0, 1, 1};
    Panel panels[1] = {{weights, "", {0}}};
    const uint32_t texts[2][2] = {{'a', 'b'}, {0x4e2d, 'b'}};
    int x[2], y[2];
    Image images[2];
    for (int i = 0; i < 2; i++) {
        const AttentionFigure figure = {
            .title = "x", .subtitle = "", .text = texts[i], .length = 2, .layers = 1, .heads = 1, .panels = panels};
        const Place place = save_and_find(&figure, &images[i]);
        x[i] = place.x + place.cell / 2;
        y[i] = place.y + place.cell / 2;
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

/* A long label over a small panel is drawn as high as one over a large panel. */
static void figure_has_readable_labels(void) {
    const float weights[1] = {1};
    const Color red = {200, 0, 0};
    Panel panel = {weights, "layer 0, head 0: entropy 0.52, largest weight 0.43", red};
    const uint32_t text[1] = {'a'};
    const AttentionFigure figure = {
        .title = "x", .subtitle = "", .text = text, .length = 1, .layers = 1, .heads = 1, .panels = &panel};
    Image image;
    save_and_find(&figure, &image);
    int first = image.height, last = 0;
    for (int y = 0; y < image.height; y++)
        for (int x = 0; x < image.width; x++) {
            const Color c = pixel(&image, x, y);
            if (c.r < c.g + 60 || c.r < c.b + 60) continue;
            if (y < first) first = y;
            last = y;
        }
    assert_in_range(last - first, 9, 16);
    stbi_image_free(image.rgb);
}

static void figure_takes_odd_data(void) {
    const float weights[4] = {NAN, 0, INFINITY, -1};
    static Panel panels[64 * 64];
    const uint32_t text[48] = {0xd800, 0xffffffff};
    char title[1500];
    memset(title, 'W', sizeof title - 1);
    title[sizeof title - 1] = 0;
    AttentionFigure figure = {
        .title = title, .subtitle = title, .text = text, .length = 2, .layers = 1, .heads = 1, .panels = panels};
    panels[0].weights = weights;
    Image image;
    const Place place = save_and_find(&figure, &image);
    assert_white_border(&image, 10);
    assert_color(&image, place.x, place.y, heatmap_not_a_number);
    assert_color(&image, place.x + place.cell, place.y + place.cell, heatmap_color(0));
    stbi_image_free(image.rgb);
    figure.layers = figure.heads = 64;
    figure.length = 48;
    assert_fails(STATUS_USAGE, "", attention_figure_save(&figure, &no_directory, picture)); /* too large */
}

int main(void) {
    return RUN_GROUP(set_up, temporary_leave, TEST(colors_stand_out_from_white), TEST(colors_stay_apart),
                     TEST(colors_are_of_one_divisor), TEST(colors_rise_in_lightness), TEST(chart_shows_its_series),
                     TEST(labels_are_apart), TEST(many_labels_fit), TEST(whole_axes_are_shared),
                     TEST(odd_data_still_make_a_chart), TEST(figure_shows_each_weight), TEST(figure_has_readable_cells),
                     TEST(figure_spells_what_the_font_lacks), TEST(figure_has_readable_labels),
                     TEST(figure_takes_odd_data));
}
