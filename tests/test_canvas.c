/* The canvas: text, ink at the right places, and pixels that are read back from the file. */
#include "images.h"

static const Color black = {0, 0, 0};

/* Sum of darkness, so that no ink is 0. */
static long ink(const Canvas *canvas) {
    long sum = 0;
    for (int i = 0; i < canvas->width * canvas->height * 3; i++) sum += 255 - canvas->rgb[i];
    return sum;
}

static Canvas canvas_with_text(const char *text) {
    Canvas canvas = canvas_make(60, 60, 1);
    canvas_text(&canvas, 30, 40, 30, ALIGN_CENTER, black, text);
    return canvas;
}

static bool looks_like(const char *a, const char *b) {
    Canvas one = canvas_with_text(a), two = canvas_with_text(b);
    bool equal = memcmp(one.rgb, two.rgb, (size_t)one.width * (size_t)one.height * 3) == 0;
    return equal;
}

static void text_draws_ink(void) {
    static const char *const shown[] = {"A", "√", "␣", "↵", "⇥", "\xef\xbf\xbd", "é", "ᵀ"};
    const char *missing = "\xe4\xb8\xad"; /* DejaVu has no Chinese */
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        Canvas canvas = canvas_with_text(shown[i]);
        assert_true(ink(&canvas) > 1000);
        assert_false(looks_like(shown[i], missing));
    }
    Canvas blank = canvas_with_text(" ");
    assert_int_equal(ink(&blank), 0);
    assert_true(looks_like(missing, "U+4E2D"));
    assert_true(looks_like("\xf0\x9f\x8e\x89"
                           "a\xe6\x96\x87",
                           "U+1F389aU+6587"));
    assert_true(canvas_text_width(30, missing) == canvas_text_width(30, "U+4E2D"));
    assert_true(!canvas_has(0x4e2d) && canvas_has('A') && canvas_has(0x221a));
}

static void broken_utf8_is_replaced(void) {
    const char *replacement = "\xef\xbf\xbd";
    assert_true(looks_like("\xff", replacement));
    assert_true(looks_like("\xe2", replacement));            /* cut off by the end */
    assert_true(looks_like("\xc0", replacement));            /* starts nothing */
    assert_true(looks_like("\xe2 ", "\xef\xbf\xbd "));       /* the next character survives */
    assert_true(looks_like("\xc1\x81", "\xff\xff"));         /* "A", too long a form */
    assert_true(looks_like("\xed\xa0\x80", "\xff\xff\xff")); /* a surrogate */
}

static void text_is_measured(void) {
    double one = canvas_text_width(20, "step"), two = canvas_text_width(40, "step");
    assert_true(one > 20 && one < 80 && fabs(two - 2 * one) < 1e-3);
    assert_true(canvas_text_width(20, "") == 0);
    Canvas plain = canvas_make(100, 60, 1), small = canvas_make(100, 60, 1);
    canvas_text(&plain, 5, 40, 20, ALIGN_LEFT, black, "step");
    canvas_text_within(&small, 5, 40, 20, one, black, "step");
    assert_memory_equal(plain.rgb, small.rgb, 100 * 60 * 3);
    small = canvas_make(100, 60, 1);
    canvas_text_within(&small, 5, 40, 40, one, black, "step");
    assert_memory_equal(plain.rgb, small.rgb, 100 * 60 * 3);
}

/* Text written upwards has the same ink, turned: rows become columns from the bottom. */
static void upwards_text_is_turned(void) {
    Canvas flat = canvas_make(80, 80, 1), up = canvas_make(80, 80, 1);
    canvas_text(&flat, 10, 40, 24, ALIGN_LEFT, black, "Loss√");
    canvas_text_upwards(&up, 40, 70, 24, ALIGN_LEFT, black, "Loss√");
    for (int y = 0; y < 80; y++)
        for (int x = 0; x < 80; x++) assert_int_equal(flat.rgb[3 * (y * 80 + x)], up.rgb[3 * ((79 - x) * 80 + y)]);
    assert_true(ink(&flat) > 1000);
}

static void drawing_is_clipped(void) {
    Canvas canvas = canvas_make(20, 10, 1);
    canvas_rectangle(&canvas, 30, 30, 5, 5, black);
    canvas_rectangle(&canvas, -30, 0, 10, 10, black);
    canvas_curve(&canvas, (CurvePoint[]){{NAN, 0}, {5, 5}}, 2, 2, 0, black);
    canvas_curve(&canvas, (CurvePoint[]){{-1e300, 0}, {1e300, 5}}, 2, 2, 0, black);
    canvas_text(&canvas, INFINITY, 0, 12, ALIGN_LEFT, black, "x");
    canvas_text(&canvas, 500, 500, 12, ALIGN_LEFT, black, "x");
    canvas_text(&canvas, 5, 5, 0, ALIGN_LEFT, black, "x");
    assert_int_equal(ink(&canvas), 0);
    canvas_curve(&canvas, (CurvePoint[]){{-5, -5}, {40, 40}}, 2, 3, 0, black);
    canvas_text(&canvas, -4, 3, 12, ALIGN_LEFT, black, "clipped on three sides");
    canvas_rectangle(&canvas, -2147483647, -2147483647, 2147483647, 2147483647, black); /* ends at 0 at the most */
    assert_true(ink(&canvas) > 0);
    canvas_rectangle(&canvas, -5, -5, 2147483647, 2147483647, black);
    assert_int_equal(ink(&canvas), 20 * 10 * 3 * 255);
}

static void a_marker_is_a_disc(void) {
    Canvas canvas = canvas_make(60, 60, 1);
    canvas_marker(&canvas, NAN, 30, 12, black);
    assert_int_equal(ink(&canvas), 0);
    canvas_rectangle(&canvas, 0, 0, 60, 60, (Color){0, 255, 0});
    canvas_marker(&canvas, 30, 30, 12, black);
    size_t discs = 0, edges = 0;
    for (int i = 0; i < 60 * 60; i++) discs += canvas.rgb[3 * i + 1]<128, edges += canvas.rgb[3 * i]> 200;
    assert_true(fabs((double)discs - M_PI * 12 * 12) < .02 * M_PI * 12 * 12);
    assert_in_range(edges, 30, 150); /* its white edge is about one pixel wide */
}

static void impossible_sizes_are_errors(void) {
    static const int sizes[][2] = {{0, 5}, {5, 0}, {-1, 5}, {5, 2147483647}, {8193, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_fails(STATUS_FAILED, "", canvas_make(sizes[i][0], sizes[i][1], 1));
    }
}

/* The checksum of a PNG's chunk, bit by bit: CRC-32 of ISO 3309 (PNG specification, annex D). */
static uint32_t checksum(const unsigned char *bytes, size_t size) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    return ~crc;
}

static uint32_t number_at(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Each chunk of a file has its checksum, and one before the pixels states the resolution. */
static void resolution_is_in_the_file(void) {
    for (int scale = 1; scale <= 2; scale++) {
        size_t size, at = 8;
        bool stated = false;
        const Canvas canvas = canvas_make(37, 23, scale);
        canvas_save(&canvas, &no_directory, picture);
        const unsigned char *bytes = (const unsigned char *)file_read(picture, "the picture", 1 << 20, &size);
        while (at < size) {
            const uint32_t length = number_at(bytes + at);
            const unsigned char *name = bytes + at + 4, *data = name + 4;
            assert_int_equal(number_at(data + length), checksum(name, length + 4));
            if (memcmp(name, "IDAT", 4) == 0) assert_true(stated);
            if (memcmp(name, "pHYs", 4) == 0) {
                const double inch = number_at(data) * .0254;
                assert_true(!stated && length == 9 && fabs(inch - 100 * scale) < .02);
                assert_int_equal(number_at(data + 4), number_at(data));
                assert_int_equal(data[8], 1); /* per metre */
                stated = true;
            }
            at += length + 12;
        }
        assert_int_equal(at, size);
    }
}

/* With twice the pixels all is where it was: each pixel has become four. */
static void print_has_twice_the_pixels(void) {
    Canvas one = canvas_make(60, 40, 1), two = canvas_make(60, 40, 2);
    const CurvePoint line[2] = {{5, 30}, {55, 30}};
    for (Canvas *c = &one;; c = &two) {
        canvas_rectangle(c, 3, 4, 20, 7, black);
        canvas_frame(c, 30, 4, 20, 7, black);
        canvas_curve(c, line, 2, 4, 5, black);
        if (c == &two) break;
    }
    assert_int_equal(two.width, 120);
    for (int y = 0; y < two.height; y++)
        for (int x = 10; x < two.width - 10; x++) {
            const unsigned char a = two.rgb[3 * (y * two.width + x)], b = one.rgb[3 * (y / 2 * one.width + x / 2)];
            if (a != b) fail_msg("(%d, %d) is %d, not %d", x, y, a, b);
        }
    canvas_text(&one, 30, 20, 12, ALIGN_CENTER, black, "step");
    const long before = ink(&two);
    canvas_text(&two, 30, 20, 12, ALIGN_CENTER, black, "step");
    assert_true(ink(&two) > before);
}

/* Dashes are as long as the gaps between them, also across the joints of a curve. */
static void dashes_and_gaps_alternate(void) {
    const CurvePoint points[] = {{0, 5}, {7, 5}, {31, 5}, {60, 5}};
    Canvas canvas = canvas_make(60, 10, 1);
    canvas_curve(&canvas, points, 4, 2, 6, black);
    for (int x = 0; x < 60; x++) assert_int_equal(canvas.rgb[3 * (5 * 60 + x)], x / 6 % 2 ? 255 : 0);
}

int main(void) {
    return RUN_GROUP(set_up, temporary_leave, TEST(text_draws_ink), TEST(broken_utf8_is_replaced),
                     TEST(text_is_measured), TEST(upwards_text_is_turned), TEST(drawing_is_clipped),
                     TEST(a_marker_is_a_disc), TEST(impossible_sizes_are_errors), TEST(resolution_is_in_the_file),
                     TEST(print_has_twice_the_pixels), TEST(dashes_and_gaps_alternate));
}
