/* DejaVu Sans (free licence, Bitstream Vera's), whole, so that the pictures need no file at run time. The Makefile says
   where the font lies: -DFONT_PATH='"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"'. */
#define NAME sqrtdk_font
#define PATH FONT_PATH
#include "base/embed.inc"
