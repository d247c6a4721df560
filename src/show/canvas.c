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
   the error jumps out of the functions of stb, and frees their memory. */
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
#define UNITS_PER_METRE (100 / .0254)

/* Bytes of a PNG before its pixels, the signature and the chunk IHDR; bytes of the chunk pHYs. */
enum { PIXELS_BEGIN = 33, RESOLUTION_SIZE = 21 };

extern const unsigned char sqrtdk_font[]; /* font.S */

/* Returns the font, whose table of contents is read once. */
static const stbtt_fontinfo *font(void) {
    static stbtt_fontinfo read;
    static bool is_read;
    const int begin = stbtt_GetFontOffsetForIndex(sqrtdk_font, 0); /* of a collection (.ttc) the first font */
    if (!is_read && (begin < 0 || !stbtt_InitFont(&read, sqrtdk_font, begin)))
        runtime_error("the font that is built in cannot be read: build again with make FONT=/path/to/DejaVuSans.ttf");
    is_read = true;
    return &read;
}

void canvas_check_font(void) { (void)font(); }

Canvas canvas_make(int width, int height, int scale) {
    if (width < 1 || height < 1 || width > CANVAS_SIDE / scale || height > CANVAS_SIDE / scale)
        runtime_error("a picture of %d x %d pixels: each side must be 1 to %d", width, height, CANVAS_SIDE / scale);
    const size_t pixels = (size_t)(width * scale) * (size_t)(height * scale);
    const Canvas canvas = {width * scale, height * scale, scale, memory_make(pixels, 3, "a picture"),
                           memory_make(pixels, 1, "a picture")};
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
    const double scale = canvas->scale;
    int x0, x1, y0, y1;
    pixel_span(scale * x, scale * ((double)x + width), canvas->width, &x0, &x1);
    pixel_span(scale * y, scale * ((double)y + height), canvas->height, &y0, &y1);
    for (int row = y0; row < y1; row++)
        for (int column = x0; column < x1; column++) blend(canvas, column, row, 255, color);
}

void canvas_frame(Canvas *canvas, int x, int y, int width, int height, Color color) {
    canvas_rectangle(canvas, x, y, width, 1, color);
    canvas_rectangle(canvas, x, y + height - 1, width, 1, color);
    canvas_rectangle(canvas, x, y, 1, height, color);
    canvas_rectangle(canvas, x + width - 1, y, 1, height, color);
}

/* A segment of a curve, in pixels. */
typedef struct {
    CurvePoint a, b;
    double start, length; /* along the curve */
} Segment;

/* Returns the distance of (x, y) to a segment. *along is where on the curve the nearest point is. */
static double distance(const Segment *s, double x, double y, double *along) {
    const double dx = s->b.x - s->a.x, dy = s->b.y - s->a.y, square = dx * dx + dy * dy;
    const double share = square > 0 ? fmax(0, fmin(1, ((x - s->a.x) * dx + (y - s->a.y) * dy) / square)) : 0;
    *along = s->start + share * s->length;
    return hypot(x - s->a.x - share * dx, y - s->a.y - share * dy);
}

/* Covers the pixels near a segment. The coverage of a pixel follows from the distance of its centre to the segment. The
   larger coverage counts where segments overlap. */
static void stroke(Canvas *canvas, const Segment *s, double thickness, double dash) {
    const double reach = thickness / 2 + .5;
    int left, right, top, bottom;
    pixel_span(fmin(s->a.x, s->b.x) - reach, fmax(s->a.x, s->b.x) + reach, canvas->width, &left, &right);
    pixel_span(fmin(s->a.y, s->b.y) - reach, fmax(s->a.y, s->b.y) + reach, canvas->height, &top, &bottom);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) {
            double along;
            const int cover = coverage(fmin(thickness, reach - distance(s, x + .5, y + .5, &along)));
            const bool is_gap = dash > 0 && fmod(along, 2 * dash) >= dash;
            unsigned char *covered = &canvas->cover[pixel_index(canvas, x, y)];
            if (*covered < cover && !is_gap) *covered = (unsigned char)cover;
        }
}

void canvas_curve(Canvas *canvas, const CurvePoint *points, size_t count, double thickness, double dash, Color color) {
    const double scale = canvas->scale, reach = scale * thickness / 2 + .5;
    double high = INFINITY, low = -INFINITY;
    int top, bottom;
    Segment s = {0};
    for (size_t i = 1; i < count; i++) {
        s.a = (CurvePoint){scale * points[i - 1].x, scale * points[i - 1].y};
        s.b = (CurvePoint){scale * points[i].x, scale * points[i].y};
        if (!(fabs(s.a.x) < FAR && fabs(s.a.y) < FAR && fabs(s.b.x) < FAR && fabs(s.b.y) < FAR)) continue;
        s.start += s.length;
        s.length = hypot(s.b.x - s.a.x, s.b.y - s.a.y);
        stroke(canvas, &s, scale * thickness, scale * dash);
        high = fmin(high, fmin(s.a.y, s.b.y));
        low = fmax(low, fmax(s.a.y, s.b.y));
    }
    pixel_span(high - reach, low + reach, canvas->height, &top, &bottom);
    for (int y = top; y < bottom; y++)
        for (int x = 0; x < canvas->width; x++) {
            unsigned char *covered = &canvas->cover[pixel_index(canvas, x, y)];
            if (*covered) blend(canvas, x, y, *covered, color);
            *covered = 0;
        }
}

void canvas_marker(Canvas *canvas, double x, double y, double radius, Color color) {
    const CurvePoint dot[2] = {{x, y}, {x, y}};
    canvas_curve(canvas, dot, 2, 2 * radius + 2, 0, (Color){255, 255, 255});
    canvas_curve(canvas, dot, 2, 2 * radius, 0, color);
}

/* Returns the first code point of a text, U+FFFD for a byte that is not UTF-8, and moves the text past it. */
static int utf8_next(const char **text) {
    uint32_t code;
    size_t length = utf8_decode(*text, strnlen(*text, 4), &code);
    *text += length ? length : 1;
    return length ? (int)code : 0xfffd;
}

/* A walk over the glyphs of a text. */
typedef struct {
    float scale;
    const char *rest;
    char spelled[12];  /* "U+4E2D", which is drawn for a character that the font lacks */
    size_t spelled_at; /* index of its next character, or of its end */
    int glyph;         /* -1 before the first */
    double pen, after; /* where the glyph begins and ends, in pixels from the start of the text */
} TextRun;

static TextRun text_run(double size, const char *text) {
    return (TextRun){.scale = stbtt_ScaleForPixelHeight(font(), (float)size), .rest = text, .glyph = -1};
}

static int next_glyph(TextRun *run) {
    if (!run->spelled[run->spelled_at]) {
        const int code = utf8_next(&run->rest), glyph = stbtt_FindGlyphIndex(font(), code);
        if (glyph) return glyph;
        snprintf(run->spelled, sizeof run->spelled, "U+%04X", (unsigned)code);
        run->spelled_at = 0;
    }
    return stbtt_FindGlyphIndex(font(), run->spelled[run->spelled_at++]);
}

static bool text_next(TextRun *run) {
    int advance, bearing;
    if (!*run->rest && !run->spelled[run->spelled_at]) return false;
    int glyph = next_glyph(run);
    int kern = run->glyph < 0 ? 0 : stbtt_GetGlyphKernAdvance(font(), run->glyph, glyph);
    stbtt_GetGlyphHMetrics(font(), glyph, &advance, &bearing);
    run->glyph = glyph;
    run->pen = run->after + (double)run->scale * kern;
    run->after = run->pen + (double)run->scale * advance;
    return true;
}

bool canvas_has(uint32_t character) { return stbtt_FindGlyphIndex(font(), (int)character) != 0; }

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
    stbtt_GetGlyphBitmapBoxSubpixel(font(), run->glyph, run->scale, run->scale, shift, 0, &x0, &y0, &x1, &y1);
    int width = x1 - x0, height = y1 - y0;
    if (width <= 0 || height <= 0) return;                                                       /* a blank */
    if ((size_t)width * (size_t)height > (size_t)canvas->width * (size_t)canvas->height) return; /* no scratch for it */
    stbtt_MakeGlyphBitmapSubpixel(font(), canvas->cover, width, height, width, run->scale, run->scale, shift, 0,
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
    const double scale = canvas->scale;
    if (!(fabs(along) < FAR && fabs(across) < FAR && size > 0 && size < CANVAS_SIDE)) return;
    TextRun run = text_run(scale * size, text);
    if (align != ALIGN_LEFT) along -= canvas_text_width(size, text) * (align == ALIGN_CENTER ? .5 : 1);
    while (text_next(&run) && fabs(along + run.pen) < FAR)
        draw_glyph(canvas, &run, scale * along + run.pen, (int)lround(scale * across), upwards, color);
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

/* Writes the chunk pHYs, by which a PNG states its resolution: pixels per metre in both directions. */
static void write_resolution(unsigned per_metre, unsigned char chunk[RESOLUTION_SIZE]) {
    static const unsigned char begin[] = {0, 0, 0, 9, 'p', 'H', 'Y', 's'};
    memcpy(chunk, begin, sizeof begin);
    unsigned char *end = chunk + sizeof begin;
    stbiw__wp32(end, per_metre);
    stbiw__wp32(end, per_metre);
    *end++ = 1; /* the unit is the metre */
    stbiw__wpcrc(&end, 9);
}

void canvas_save(const Canvas *canvas, const Directory *directory, const char *name) {
    int size = 0;
    stbi_write_png_compression_level = 5; /* with the filter "up" (2) half of the time, and 2 % more bytes */
    stbi_write_force_png_filter = 2;
    unsigned char *png = stbi_write_png_to_mem(canvas->rgb, 0, canvas->width, canvas->height, 3, &size);
    png = larger_memory(png, (size_t)size, (size_t)size + RESOLUTION_SIZE);
    memmove(png + PIXELS_BEGIN + RESOLUTION_SIZE, png + PIXELS_BEGIN, (size_t)size - PIXELS_BEGIN);
    write_resolution((unsigned)lround(canvas->scale * UNITS_PER_METRE), png + PIXELS_BEGIN);
    file_write(directory, name, png, (size_t)size + RESOLUTION_SIZE);
    memory_free(png);
}
