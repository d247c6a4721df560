/* Pixels, text and PNG. Only this file includes stb_truetype.h and stb_image_write.h. Colours are blended linearly in
   their sRGB values, which suits dark ink on white. */
#include "show/canvas.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static void *larger_memory(void *memory, size_t before, size_t size) {
    void *larger = memory_make(1, size, "a compressed picture");
    if (before) memcpy(larger, memory, before);
    memory_free(memory);
    return larger;
}

/* Without memory stb_truetype would omit a glyph, and stb_image_write would end the program by an assertion. Instead
   the error leaves the functions of stb by its jump, and frees their memory. */
#define STBTT_malloc(size, unused) ((void)(unused), memory_make(1, size, "a character of a picture"))
#define STBTT_free(memory, unused) ((void)(unused), memory_free(memory))
#define STBIW_MALLOC(size) memory_make(1, size, "a compressed picture")
#define STBIW_REALLOC_SIZED(memory, before, size) larger_memory(memory, before, size)
#define STBIW_FREE(memory) memory_free(memory)
#define STB_TRUETYPE_IMPLEMENTATION
#define STBTT_STATIC
#include <stb_truetype.h>
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb_image_write.h>

/* stb_image_write counts bytes in int. At CANVAS_SIDE (192 MiB) its buffers, which double, still fit. */

/* Larger coordinates are not drawn, since they might not fit into int. */
#define FAR 1e6

extern const unsigned char sqrtdk_font[]; /* font.S */

Canvas canvas_make(int width, int height) {
    stbtt_fontinfo font;
    if (width < 1 || height < 1 || width > CANVAS_SIDE || height > CANVAS_SIDE)
        runtime_error("a picture of %d x %d pixels: each side must be 1 to %d", width, height, CANVAS_SIDE);
    if (!stbtt_InitFont(&font, sqrtdk_font, 0))
        runtime_error("the font built in is not TrueType: make FONT=/path/to/DejaVuSans.ttf");
    const size_t pixels = (size_t)width * (size_t)height;
    const Canvas canvas = {width, height, memory_make(pixels, 3, "a picture"), memory_make(pixels, 1, "a picture")};
    memset(canvas.rgb, 255, 3 * pixels);
    return canvas;
}

static size_t pixel_index(const Canvas *canvas, int x, int y) { return (size_t)y * (size_t)canvas->width + (size_t)x; }

static unsigned char mix(unsigned char below, unsigned char above, int cover /* 0 to 255 */) {
    return (unsigned char)((below * (255 - cover) + above * cover + 127) / 255);
}

/* Returns a fraction of a pixel's area as 0 to 255. */
static int coverage(double fraction) { return (int)(fmax(0, fmin(1, fraction)) * 255 + .5); }

static void blend(Canvas *canvas, int x, int y, int cover, Color color) {
    if (x < 0 || y < 0 || x >= canvas->width || y >= canvas->height) return;
    unsigned char *pixel = canvas->rgb + 3 * pixel_index(canvas, x, y);
    pixel[0] = mix(pixel[0], color.r, cover);
    pixel[1] = mix(pixel[1], color.g, cover);
    pixel[2] = mix(pixel[2], color.b, cover);
}

/* Finds the pixels that [low, high] can touch: the first, and one past the last. */
static void pixel_span(double low, double high, int limit, int *from, int *to) {
    *from = (int)fmax(0, fmin(limit, floor(low)));
    *to = (int)fmax(0, fmin(limit, ceil(high)));
}

void canvas_rectangle(Canvas *canvas, int x, int y, int width, int height, Color color) {
    int x0, x1, y0, y1;
    pixel_span(x, (double)x + width, canvas->width, &x0, &x1);
    pixel_span(y, (double)y + height, canvas->height, &y0, &y1);
    for (int row = y0; row < y1; row++)
        for (int column = x0; column < x1; column++) blend(canvas, column, row, 255, color);
}

void canvas_frame(Canvas *canvas, int x, int y, int width, int height, Color color) {
    canvas_rectangle(canvas, x, y, width, 1, color);
    canvas_rectangle(canvas, x, y + height - 1, width, 1, color);
    canvas_rectangle(canvas, x, y, 1, height, color);
    canvas_rectangle(canvas, x + width - 1, y, 1, height, color);
}

static double distance(CurvePoint a, CurvePoint b, double x, double y) {
    const double dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
    const double along = square > 0 ? fmax(0, fmin(1, ((x - a.x) * dx + (y - a.y) * dy) / square)) : 0;
    return hypot(x - a.x - along * dx, y - a.y - along * dy);
}

/* Covers the pixels near a segment. The coverage of a pixel follows from the distance of its centre to the segment. The
   larger coverage counts where segments overlap. */
static void stroke(Canvas *canvas, CurvePoint a, CurvePoint b, double thickness) {
    if (!(fabs(a.x) < FAR && fabs(a.y) < FAR && fabs(b.x) < FAR && fabs(b.y) < FAR)) return;
    double reach = thickness / 2 + .5;
    int left, right, top, bottom;
    pixel_span(fmin(a.x, b.x) - reach, fmax(a.x, b.x) + reach, canvas->width, &left, &right);
    pixel_span(fmin(a.y, b.y) - reach, fmax(a.y, b.y) + reach, canvas->height, &top, &bottom);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) {
            const int cover = coverage(fmin(thickness, reach - distance(a, b, x + .5, y + .5)));
            unsigned char *covered = &canvas->cover[pixel_index(canvas, x, y)];
            if (*covered < cover) *covered = (unsigned char)cover;
        }
}

void canvas_curve(Canvas *canvas, const CurvePoint *points, size_t count, double thickness, Color color) {
    double high = INFINITY, low = -INFINITY;
    int top, bottom;
    for (size_t i = 1; i < count; i++) {
        stroke(canvas, points[i - 1], points[i], thickness);
        high = fmin(high, fmin(points[i - 1].y, points[i].y));
        low = fmax(low, fmax(points[i - 1].y, points[i].y));
    }
    pixel_span(high - thickness / 2 - .5, low + thickness / 2 + .5, canvas->height, &top, &bottom);
    for (int y = top; y < bottom; y++)
        for (int x = 0; x < canvas->width; x++) {
            unsigned char *covered = &canvas->cover[pixel_index(canvas, x, y)];
            if (*covered) blend(canvas, x, y, *covered, color);
            *covered = 0;
        }
}

void canvas_marker(Canvas *canvas, double x, double y, double radius, Color color) {
    const CurvePoint dot[2] = {{x, y}, {x, y}};
    canvas_curve(canvas, dot, 2, 2 * radius + 2, (Color){255, 255, 255});
    canvas_curve(canvas, dot, 2, 2 * radius, color);
}

/* Returns the first code point of a text, and moves the text past it. A byte that starts no valid sequence is U+FFFD.
 */
static int utf8_next(const char **text) {
    uint32_t code;
    size_t length = utf8_decode(*text, strnlen(*text, 4), &code);
    *text += length ? length : 1;
    return length ? (int)code : 0xfffd;
}

/* A walk over the glyphs of a text. */
typedef struct {
    stbtt_fontinfo font;
    float scale;
    const char *rest;
    char spelled[12];  /* "U+4E2D", which is drawn for a character that the font lacks */
    size_t spelled_at; /* index of its next character, or of its end */
    int glyph;         /* -1 before the first */
    double pen, after; /* where the glyph begins and ends, in pixels from the start of the text */
} TextRun;

static TextRun text_run(double size, const char *text) {
    TextRun run = {.rest = text, .glyph = -1};
    stbtt_InitFont(&run.font, sqrtdk_font, 0); /* reads the font's table of contents, which canvas_make has checked */
    run.scale = stbtt_ScaleForPixelHeight(&run.font, (float)size);
    return run;
}

static int next_glyph(TextRun *run) {
    if (!run->spelled[run->spelled_at]) {
        const int code = utf8_next(&run->rest), glyph = stbtt_FindGlyphIndex(&run->font, code);
        if (glyph) return glyph;
        snprintf(run->spelled, sizeof run->spelled, "U+%04X", (unsigned)code);
        run->spelled_at = 0;
    }
    return stbtt_FindGlyphIndex(&run->font, run->spelled[run->spelled_at++]);
}

static bool text_next(TextRun *run) {
    int advance, bearing;
    if (!*run->rest && !run->spelled[run->spelled_at]) return false;
    int glyph = next_glyph(run);
    int kern = run->glyph < 0 ? 0 : stbtt_GetGlyphKernAdvance(&run->font, run->glyph, glyph);
    stbtt_GetGlyphHMetrics(&run->font, glyph, &advance, &bearing);
    run->glyph = glyph;
    run->pen = run->after + (double)run->scale * kern;
    run->after = run->pen + (double)run->scale * advance;
    return true;
}

bool canvas_has(uint32_t character) {
    const TextRun run = text_run(1, "");
    return stbtt_FindGlyphIndex(&run.font, (int)character) != 0;
}

double canvas_text_width(double size, const char *text) {
    TextRun run = text_run(size, text);
    while (text_next(&run)) continue;
    return run.after;
}

/* Draws one glyph. `along` counts in the direction of reading (x, or -y upwards), `across` is the baseline. Along the
   line a glyph may begin within a pixel, which spaces small text evenly. Across it begins with a pixel, which keeps
   text sharp. */
static void draw_glyph(Canvas *canvas, const TextRun *run, double along, int across, bool upwards, Color color) {
    int x0, y0, x1, y1, start = (int)floor(along);
    float shift = (float)(along - start);
    stbtt_GetGlyphBitmapBoxSubpixel(&run->font, run->glyph, run->scale, run->scale, shift, 0, &x0, &y0, &x1, &y1);
    int width = x1 - x0, height = y1 - y0;
    if (width <= 0 || height <= 0) return;                                                       /* a blank */
    if ((size_t)width * (size_t)height > (size_t)canvas->width * (size_t)canvas->height) return; /* no scratch for it */
    stbtt_MakeGlyphBitmapSubpixel(&run->font, canvas->cover, width, height, width, run->scale, run->scale, shift, 0,
                                  run->glyph);
    for (int j = 0; j < height; j++)
        for (int i = 0; i < width; i++) {
            unsigned char *covered = &canvas->cover[(size_t)j * (size_t)width + (size_t)i];
            const int u = start + x0 + i, v = across + y0 + j;
            blend(canvas, upwards ? v : u, upwards ? -u - 1 : v, *covered, color);
            *covered = 0;
        }
}

static void draw_text(Canvas *canvas, double along, double across, double size, Align align, bool upwards, Color color,
                      const char *text) {
    if (!(fabs(along) < FAR && fabs(across) < FAR && size > 0 && size < CANVAS_SIDE)) return;
    TextRun run = text_run(size, text);
    if (align != ALIGN_LEFT) along -= canvas_text_width(size, text) * (align == ALIGN_CENTER ? .5 : 1);
    while (text_next(&run) && fabs(along + run.pen) < FAR)
        draw_glyph(canvas, &run, along + run.pen, (int)lround(across), upwards, color);
}

void canvas_text(Canvas *canvas, double x, double y, double size, Align align, Color color, const char *text) {
    draw_text(canvas, x, y, size, align, false, color, text);
}

void canvas_text_within(Canvas *canvas, double x, double y, double size, double limit, Color color, const char *text) {
    const double width = canvas_text_width(size, text);
    canvas_text(canvas, x, y, width > limit ? size * limit / width : size, ALIGN_LEFT, color, text);
}

void canvas_text_upwards(Canvas *canvas, double x, double y, double size, Align align, Color color, const char *text) {
    draw_text(canvas, -y, x, size, align, true, color, text);
}

void canvas_save(const Canvas *canvas, const Directory *directory, const char *name) {
    int size = 0;
    stbi_write_png_compression_level = 5; /* with the filter "up" (2) half of the time, and 2 % more bytes */
    stbi_write_force_png_filter = 2;
    unsigned char *png = stbi_write_png_to_mem(canvas->rgb, 0, canvas->width, canvas->height, 3, &size);
    file_write(directory, name, png, (size_t)size);
    memory_free(png);
}
