/* What the pictures must show, read back from the files by stb_image: sizes, colours where the data put them, text
   that is there; and that a failure leaves the old file, and odd data a picture. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#include <stb_image.h>

#include "base/files.h"
#include "show/chart.h"
#include "show/heatmap.h"

static char directory[64], picture[96];
static Error err;

typedef struct {
    int width, height;
    unsigned char *rgb;
} Image;

static int set_up(void **state) {
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/sqrtdk-pictures-XXXXXX");
    if (!mkdtemp(directory)) return -1;
    snprintf(picture, sizeof picture, "%s/picture.png", directory);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return directory_remove(directory, &err) ? 0 : -1;
}

static Image image_read(void) {
    Image image;
    int channels;
    image.rgb = stbi_load(picture, &image.width, &image.height, &channels, 0);
    assert_non_null(image.rgb);
    assert_int_equal(channels, 3);
    return image;
}

static bool same(Color a, Color b) { return a.r == b.r && a.g == b.g && a.b == b.b; }

static Color pixel(const Image *image, int x, int y) {
    assert_in_range(x, 0, image->width - 1);
    assert_in_range(y, 0, image->height - 1);
    const unsigned char *p = image->rgb + 3 * ((size_t)y * (size_t)image->width + (size_t)x);
    return (Color){p[0], p[1], p[2]};
}

static void assert_color(const Image *image, int x, int y, Color wanted) {
    Color got = pixel(image, x, y);
    if (!same(got, wanted))
        fail_msg("(%d, %d) is %d %d %d, not %d %d %d", x, y, got.r, got.g, got.b, wanted.r, wanted.g, wanted.b);
}

static size_t count_color(const Image *image, Color color) {
    size_t count = 0;
    for (int y = 0; y < image->height; y++)
        for (int x = 0; x < image->width; x++) count += same(pixel(image, x, y), color);
    return count;
}

/* Columns and rows at the edge: nothing may be cut off there. */
static void assert_white_border(const Image *image, int thickness) {
    for (int y = 0; y < image->height; y++)
        for (int x = 0; x < image->width; x++)
            if (x < thickness || y < thickness || x >= image->width - thickness || y >= image->height - thickness)
                assert_color(image, x, y, (Color){255, 255, 255});
}

static const Color black = {0, 0, 0};

/* Sum of darkness, so that no ink is 0. */
static long ink(const Canvas *canvas) {
    long sum = 0;
    for (int i = 0; i < canvas->width * canvas->height * 3; i++) sum += 255 - canvas->rgb[i];
    return sum;
}

static Canvas canvas_with_text(const char *text) {
    Canvas canvas;
    assert_true(canvas_make(&canvas, 60, 60, &err));
    canvas_text(&canvas, 30, 40, 30, ALIGN_CENTER, black, text);
    return canvas;
}

static bool looks_like(const char *a, const char *b) {
    Canvas one = canvas_with_text(a), two = canvas_with_text(b);
    bool equal = memcmp(one.rgb, two.rgb, (size_t)one.width * (size_t)one.height * 3) == 0;
    canvas_free(&one);
    canvas_free(&two);
    return equal;
}

static void text_draws_ink(void **state) {
    (void)state;
    static const char *const shown[] = {"A", "√", "␣", "↵", "⇥", "\xef\xbf\xbd", "é", "ᵀ"};
    const char *missing = "\xe4\xb8\xad"; /* DejaVu has no Chinese */
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        Canvas canvas = canvas_with_text(shown[i]);
        assert_true(ink(&canvas) > 1000);
        assert_false(looks_like(shown[i], missing));
        canvas_free(&canvas);
    }
    Canvas box = canvas_with_text(missing), blank = canvas_with_text(" ");
    assert_true(ink(&box) > 1000);
    assert_int_equal(ink(&blank), 0);
    canvas_free(&box);
    canvas_free(&blank);
    assert_true(looks_like(missing, "\xe6\x96\x87"));
}

static void broken_utf8_is_replaced(void **state) {
    (void)state;
    const char *replacement = "\xef\xbf\xbd";
    assert_true(looks_like("\xff", replacement));
    assert_true(looks_like("\xe2", replacement));            /* cut off by the end */
    assert_true(looks_like("\xc0", replacement));            /* starts nothing */
    assert_true(looks_like("\xe2 ", "\xef\xbf\xbd "));       /* the next character survives */
    assert_true(looks_like("\xc1\x81", "\xff\xff"));         /* "A", too long a form */
    assert_true(looks_like("\xed\xa0\x80", "\xff\xff\xff")); /* a surrogate */
}

static void text_is_measured(void **state) {
    (void)state;
    double one = canvas_text_width(20, "step"), two = canvas_text_width(40, "step");
    assert_true(one > 20 && one < 80 && fabs(two - 2 * one) < 1e-3);
    assert_true(canvas_text_width(20, "") == 0);
    double size = canvas_text_fit(20, one / 2, "step");
    assert_true(fabs(canvas_text_width(size, "step") - one / 2) < 1e-3);
    assert_true(canvas_text_fit(20, 1000, "step") == 20);
}

/* Upwards is the same ink, turned: rows become columns from the bottom. */
static void upwards_text_is_turned(void **state) {
    (void)state;
    Canvas flat, up;
    assert_true(canvas_make(&flat, 80, 80, &err) && canvas_make(&up, 80, 80, &err));
    canvas_text(&flat, 10, 40, 24, ALIGN_LEFT, black, "Loss√");
    canvas_text_upwards(&up, 40, 70, 24, ALIGN_LEFT, black, "Loss√");
    for (int y = 0; y < 80; y++)
        for (int x = 0; x < 80; x++) assert_int_equal(flat.rgb[3 * (y * 80 + x)], up.rgb[3 * ((79 - x) * 80 + y)]);
    assert_true(ink(&flat) > 1000);
    canvas_free(&flat);
    canvas_free(&up);
}

static void drawing_is_clipped(void **state) {
    (void)state;
    Canvas canvas;
    assert_true(canvas_make(&canvas, 20, 10, &err));
    canvas_rectangle(&canvas, 30, 30, 5, 5, black);
    canvas_rectangle(&canvas, -30, 0, 10, 10, black);
    canvas_line(&canvas, NAN, 0, 5, 5, 2, black);
    canvas_line(&canvas, -1e300, 0, 1e300, 5, 2, black);
    canvas_text(&canvas, INFINITY, 0, 12, ALIGN_LEFT, black, "x");
    canvas_text(&canvas, 500, 500, 12, ALIGN_LEFT, black, "x");
    canvas_text(&canvas, 5, 5, 0, ALIGN_LEFT, black, "x");
    assert_int_equal(ink(&canvas), 0);
    canvas_line(&canvas, -5, -5, 40, 40, 3, black);
    canvas_text(&canvas, -4, 3, 12, ALIGN_LEFT, black, "clipped on three sides");
    canvas_rectangle(&canvas, -2147483647, -2147483647, 2147483647, 2147483647, black); /* ends at 0 at the most */
    assert_true(ink(&canvas) > 0);
    canvas_rectangle(&canvas, -5, -5, 2147483647, 2147483647, black);
    assert_int_equal(ink(&canvas), 20 * 10 * 3 * 255);
    canvas_free(&canvas);
}

static void impossible_sizes_are_errors(void **state) {
    (void)state;
    static const int sizes[][2] = {{0, 5}, {5, 0}, {-1, 5}, {5, 2147483647}, {8193, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Canvas canvas;
        assert_false(canvas_make(&canvas, sizes[i][0], sizes[i][1], &err));
        assert_int_equal(err.status, STATUS_FAILED);
        canvas_free(&canvas); /* harmless */
    }
}

static void saved_pixels_come_back(void **state) {
    (void)state;
    Canvas canvas;
    assert_true(canvas_make(&canvas, 37, 23, &err));
    for (int i = 0; i < 37 * 23 * 3; i++) canvas.rgb[i] = (unsigned char)(i * 7919 >> 3);
    assert_true(canvas_save(&canvas, picture, &err));
    Image image = image_read();
    assert_int_equal(image.width, 37);
    assert_int_equal(image.height, 23);
    assert_memory_equal(image.rgb, canvas.rgb, 37 * 23 * 3);
    stbi_image_free(image.rgb);
    canvas_free(&canvas);
}

static void assert_old_file_stands(void) {
    char *data, beside[128];
    size_t size;
    assert_true(file_read(picture, "picture", 100, STATUS_FAILED, &data, &size, &err));
    assert_string_equal(data, "old");
    free(data);
    snprintf(beside, sizeof beside, "%s.new", picture);
    assert_false(path_exists(beside));
}

/* A file size limit stands for the full disk: write(2) fails in the middle of the picture. */
static void failed_writes_leave_the_old_file(void **state) {
    (void)state;
    Canvas canvas;
    struct rlimit old, small = {100, 0};
    assert_true(canvas_make(&canvas, 300, 300, &err));
    canvas_text(&canvas, 10, 100, 60, ALIGN_LEFT, black, "full disk");
    assert_true(file_write(picture, "old", 3, &err));

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    err = (Error){0};
    bool saved = canvas_save(&canvas, picture, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_false(saved);
    assert_int_equal(err.status, STATUS_FAILED);
    assert_non_null(strstr(err.message, picture));
    assert_old_file_stands();

    if (geteuid() != 0) { /* root writes anywhere */
        assert_int_equal(chmod(directory, 0500), 0);
        saved = canvas_save(&canvas, picture, &err);
        assert_int_equal(chmod(directory, 0700), 0);
        assert_false(saved);
        assert_old_file_stands();
    }
    assert_false(canvas_save(&canvas, "/nonexistent/picture.png", &err));
    assert_int_equal(err.status, STATUS_FAILED);
    assert_false(canvas_save(&canvas, directory, &err)); /* a directory is in the way */

    canvas.failed = true; /* what a drawing call without memory leaves */
    assert_false(canvas_save(&canvas, picture, &err));
    assert_old_file_stands();
    canvas_free(&canvas);
    assert_true(remove(picture) == 0);
}

static double linear(unsigned char value) {
    double v = value / 255.0;
    return v <= .04045 ? v / 12.92 : pow((v + .055) / 1.055, 2.4);
}

/* CIE L*: 0 black, 100 white. */
static double lightness(Color color) {
    double y = .2126 * linear(color.r) + .7152 * linear(color.g) + .0722 * linear(color.b);
    return y > .008856 ? 116 * cbrt(y) - 16 : 903.3 * y;
}

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

static void chart_shows_its_series(void **state) {
    (void)state;
    double x[101], y[3][101];
    Series series[3];
    for (int i = 0; i <= 100; i++) {
        x[i] = 10 * i;
        for (int k = 0; k < 3; k++) y[k][i] = i % 50 == 49 ? NAN : (double)(k + 1) * exp(-i / 20.0);
    }
    for (size_t k = 0; k < 3; k++) series[k] = (Series){"a label", x, y[k], 101, chart_color(k), 2, k == 1, k == 2};
    Chart chart = {"√d_k", "a subtitle", "step", "loss", series, 3};
    assert_true(chart_save(&chart, picture, &err));
    Image image = image_read();
    assert_int_equal(image.width, 1000);
    assert_int_equal(image.height, 620);
    assert_white_border(&image, 8);
    for (size_t k = 0; k < 3; k++) assert_true(count_color(&image, chart_color(k)) > 100);
    assert_int_equal(count_color(&image, chart_color(3)), 0);
    stbi_image_free(image.rgb);

    size_t with = 0, without = 0; /* the legend alone: series without a point */
    for (size_t k = 0; k < 3; k++) series[k].count = 0;
    for (int labels = 1; labels >= 0; labels--) {
        for (size_t k = 0; k < 3 && !labels; k++) series[k].label = NULL;
        assert_true(chart_save(&chart, picture, &err));
        image = image_read();
        for (size_t k = 0; k < 3; k++) *(labels ? &with : &without) += count_color(&image, chart_color(k));
        stbi_image_free(image.rgb);
    }
    assert_true(with > 60);
    assert_int_equal(without, 0);
}

/* Whatever the points, a picture of the right size that keeps its border. */
static void odd_data_still_make_a_chart(void **state) {
    (void)state;
    static const double steps[] = {0, 1000}, same_steps[] = {5, 5}, nothing[] = {NAN, INFINITY}, flat[] = {2, 2};
    static const double huge[] = {-1e99, 1e99}, beyond[] = {-1e308, 1e308}, tiny[] = {0, 1e-320},
                        close[] = {1e15, 1e15 + 1};
    static const double zero[] = {0, 0}, large[] = {3e38, 1}, small[] = {1e-12, 3e-12};
    const double *const values[] = {nothing, flat, huge, beyond, tiny, close, zero, large, small, steps};
    char long_text[2000];
    memset(long_text, 'W', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t count = 1; count <= 2; count++)
            for (int swap = 0; swap < 3; swap++) {
                const double *x = swap == 0 ? steps : swap == 1 ? values[i] : same_steps;
                Series series[30];
                for (size_t k = 0; k < 30; k++)
                    series[k] = (Series){k == 2 ? long_text : "label",
                                         x,
                                         swap == 1 ? steps : values[i],
                                         count,
                                         chart_color(k),
                                         2,
                                         k == 1,
                                         k == 2};
                Chart chart = {
                    i % 2 ? long_text : NULL, i % 3 ? "\xff\n" : NULL, NULL, i % 2 ? long_text : NULL, series,
                    count == 2 ? 30 : 3};
                assert_true(chart_save(&chart, picture, &err));
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

static void check_figure(size_t length, size_t rows, size_t columns, bool labelled) {
    static float weights[4][T * T];
    const float *panels[64];
    const char *labels[64];
    uint32_t text[T];
    for (size_t i = 0; i < length; i++)
        text[i] = i % 7 == 0 ? ' ' : i % 11 == 0 ? '\n' : i % 13 == 0 ? 0 : (uint32_t)('a' + i % 26);
    for (unsigned i = 0; i < 4; i++) fill_weights(weights[i], length, i);
    for (size_t i = 0; i < rows * columns; i++) {
        panels[i] = weights[i % 4];
        labels[i] = "√d_k: a label that is far wider than its panel would like it to be";
    }
    const char *const *shown = labelled ? labels : NULL;
    AttentionFigure figure = {
        "Attention", labelled ? "a subtitle" : NULL, text, length, rows, columns, panels, shown, shown, shown};
    assert_true(attention_figure_save(&figure, picture, &err));
    Image image = image_read();
    assert_white_border(&image, 10);
    for (size_t p = 0; p < rows * columns; p++)
        for (size_t query = 0; query < length; query++)
            for (size_t key = 0; key < length; key++) {
                int x, y;
                attention_figure_cell(&figure, p / columns, p % columns, query, key, &x, &y);
                double weight = (double)panels[p][query * length + key];
                assert_color(&image, x, y, key > query ? heatmap_masked : heatmap_color(weight));
            }
    stbi_image_free(image.rgb);
}

static void figure_shows_each_weight(void **state) {
    (void)state;
    check_figure(T, 1, 1, false);
    check_figure(T, 1, 3, true);
    check_figure(T, 2, 4, true);
    check_figure(T, 4, 8, false);
    check_figure(33, 1, 2, false);
    check_figure(5, 3, 2, true);
    check_figure(1, 1, 1, true);
    check_figure(1, 1, 1, false);
}

/* One row of three panels of 48: the case of the lectures. */
static void figure_has_readable_cells(void **state) {
    (void)state;
    uint32_t text[T] = {0};
    AttentionFigure figure = {.title = "x", .text = text, .length = T, .rows = 1, .columns = 3};
    int x0, y0, x1, y1;
    attention_figure_cell(&figure, 0, 0, 0, 0, &x0, &y0);
    attention_figure_cell(&figure, 0, 0, 1, 1, &x1, &y1);
    assert_int_equal(x1 - x0, 12);
    assert_int_equal(y1 - y0, 12);
    figure.columns = 4;
    attention_figure_cell(&figure, 0, 0, 1, 1, &x1, &y1);
    attention_figure_cell(&figure, 0, 0, 0, 0, &x0, &y0);
    assert_true(x1 - x0 >= 9);
}

static void figure_takes_odd_data(void **state) {
    (void)state;
    const float weights[4] = {NAN, 0, INFINITY, -1};
    const float *panels[4] = {NULL, weights, NULL, NULL};
    const uint32_t text[2] = {0xd800, 0xffffffff};
    char title[1500];
    memset(title, 'W', sizeof title - 1);
    title[sizeof title - 1] = 0;
    AttentionFigure figure = {title, title, text, 2, 2, 2, panels, NULL, NULL, NULL};
    assert_true(attention_figure_save(&figure, picture, &err));
    Image image = image_read();
    int x, y;
    assert_white_border(&image, 10);
    attention_figure_cell(&figure, 0, 1, 0, 0, &x, &y);
    assert_color(&image, x, y, heatmap_not_a_number);
    attention_figure_cell(&figure, 0, 1, 1, 1, &x, &y);
    assert_color(&image, x, y, heatmap_color(0));
    attention_figure_cell(&figure, 0, 0, 0, 0, &x, &y);
    assert_color(&image, x, y, (Color){255, 255, 255});
    stbi_image_free(image.rgb);
    static const size_t wrong[][3] = {{0, 1, 1},   {49, 1, 1}, {2, 0, 1}, {2, 1, 0}, {2, SIZE_MAX, SIZE_MAX},
                                      {48, 64, 64}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        AttentionFigure bad = {"x", NULL, text, wrong[i][0], wrong[i][1], wrong[i][2], panels, NULL, NULL, NULL};
        assert_false(attention_figure_save(&bad, picture, &err));
        assert_int_equal(err.status, STATUS_FAILED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_draws_ink),
        cmocka_unit_test(broken_utf8_is_replaced),
        cmocka_unit_test(text_is_measured),
        cmocka_unit_test(upwards_text_is_turned),
        cmocka_unit_test(drawing_is_clipped),
        cmocka_unit_test(impossible_sizes_are_errors),
        cmocka_unit_test(saved_pixels_come_back),
        cmocka_unit_test(failed_writes_leave_the_old_file),
        cmocka_unit_test(colors_rise_in_lightness),
        cmocka_unit_test(chart_shows_its_series),
        cmocka_unit_test(odd_data_still_make_a_chart),
        cmocka_unit_test(figure_shows_each_weight),
        cmocka_unit_test(figure_has_readable_cells),
        cmocka_unit_test(figure_takes_odd_data),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
