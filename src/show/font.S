/* DejaVu Sans (free licence, Bitstream Vera's), whole, so that the pictures need no file at run time. The Makefile says
   where its copy of the font lies: -DFONT_PATH='"build/gcc/embedded/font.ttf"'. */
#define NAME sqrtdk_font
#define PATH FONT_PATH
#include "base/embed.inc"
