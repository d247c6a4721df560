/* An RGB picture: rectangles, lines, text, PNG. Text through stb_truetype with DejaVu Sans, embedded at build time
   (font.S); PNG through stb_image_write. Coordinates and sizes are in units from the top left: hundredths of an inch,
   of `scale` pixels each. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/files.h"

typedef struct {
    unsigned char r, g, b;
} Color;

typedef struct {
    int width, height;    /* in pixels */
    int scale;            /* pixels per unit: 1, or 2 for print at 200 dpi */
    unsigned char *rgb;   /* (height, width, 3) */
    unsigned char *cover; /* (height, width): scratch of the drawing calls, which leave it 0 */
} Canvas;

typedef enum { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT } Align;

enum { CANVAS_SIDE = 8192 };
/* Makes a white picture of `width` x `height` units; each side must have 1 to CANVAS_SIDE pixels. */
Canvas canvas_make(int width, int height, int scale);

/* Fills a rectangle. What lies outside the picture is not drawn. */
void canvas_rectangle(Canvas *canvas, int x, int y, int width, int height, Color color);
/* Draws the edge of a rectangle, one unit wide, inside it. */
void canvas_frame(Canvas *canvas, int x, int y, int width, int height, Color color);
typedef struct {
    double x, y;
} CurvePoint;
/* Draws lines through all points, anti-aliased with round ends and clipped. They are blended as one shape, so that
   joints are not darker. Dashes are `dash` long, and so are the gaps between them; 0: a whole line. A line without
   length is a dot. */
void canvas_curve(Canvas *canvas, const CurvePoint *points, size_t count, double thickness, double dash, Color color);

/* Draws a disc around (x, y) with a thin white edge, which separates it from what lies below. */
void canvas_marker(Canvas *canvas, double x, double y, double radius, Color color);

/* Draws UTF-8 text. `size` is the font's height, and (x, y) is on the baseline. A character that the font lacks is
   spelled, as "U+4E2D". A byte that is not UTF-8 is drawn as U+FFFD. */
void canvas_text(Canvas *canvas, double x, double y, double size, Align align, Color color, const char *text);
/* Draws text from the left, and smaller if it would be wider than `limit`. */
void canvas_text_within(Canvas *canvas, double x, double y, double size, double limit, Color color, const char *text);
/* Draws text turned a quarter to the left, so that it reads upwards. */
void canvas_text_upwards(Canvas *canvas, double x, double y, double size, Align align, Color color, const char *text);
/* Checks that the font that is built in can be read. */
void canvas_check_font(void);
/* Returns whether the font has this character. */
bool canvas_has(uint32_t character);
double canvas_text_width(double size, const char *text);

/* Saves the picture as PNG with its resolution, by file_write. */
void canvas_save(const Canvas *canvas, const Directory *directory, const char *name);
