/* Pictures read back from their files by stb_image, and the colours in them. */
#pragma once

#include "temporary.h"

#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#include <stb_image.h>

#include "show/canvas.h"

static char picture[540];

typedef struct {
    int width, height;
    unsigned char *rgb;
} Image;

/* The group's set-up; a test's teardown is support_release. */
static inline int set_up(void **state) {
    const int failed = temporary_enter(state);
    snprintf(picture, sizeof picture, "%s/picture.png", temporary);
    return failed;
}

static inline Image image_read(void) {
    Image image;
    int channels;
    image.rgb = stbi_load(picture, &image.width, &image.height, &channels, 0);
    assert_non_null(image.rgb);
    assert_int_equal(channels, 3);
    return image;
}

static inline bool same(Color a, Color b) { return a.r == b.r && a.g == b.g && a.b == b.b; }

static inline Color pixel(const Image *image, int x, int y) {
    assert_in_range(x, 0, image->width - 1);
    assert_in_range(y, 0, image->height - 1);
    const unsigned char *p = image->rgb + 3 * ((size_t)y * (size_t)image->width + (size_t)x);
    return (Color){p[0], p[1], p[2]};
}

static inline void assert_color(const Image *image, int x, int y, Color wanted) {
    Color got = pixel(image, x, y);
    if (!same(got, wanted))
        fail_msg("(%d, %d) is %d %d %d, not %d %d %d", x, y, got.r, got.g, got.b, wanted.r, wanted.g, wanted.b);
}

static inline size_t count_color(const Image *image, Color color) {
    size_t count = 0;
    for (int y = 0; y < image->height; y++)
        for (int x = 0; x < image->width; x++) count += same(pixel(image, x, y), color);
    return count;
}

/* Fails where columns or rows at the edge hold ink: nothing may be cut off there. */
static inline void assert_white_border(const Image *image, int thickness) {
    for (int y = 0; y < image->height; y++)
        for (int x = 0; x < image->width; x++)
            if (x < thickness || y < thickness || x >= image->width - thickness || y >= image->height - thickness)
                assert_color(image, x, y, (Color){255, 255, 255});
}
