/* DejaVu Sans (free licence, Bitstream Vera's), whole, as constant data: the pictures then need no file at run time.
   The Makefile says where the font lies: -DFONT_PATH='"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"'. */
#ifndef FONT_PATH
#error "FONT_PATH must name DejaVuSans.ttf, in quotes"
#endif

#ifdef __APPLE__
#define SYMBOL(name) _##name
    .section __TEXT,__const
#else
#define SYMBOL(name) name
    .section .rodata
#endif

    .globl SYMBOL(sqrtdk_font)
    .balign 16
SYMBOL(sqrtdk_font):
    .incbin FONT_PATH

#ifdef __ELF__
    .section .note.GNU-stack, "", %progbits /* without it the linker makes the stack executable */
#endif
