/* The page's three files, byte by byte, each ended by a zero byte. */
#ifdef __APPLE__
#define SYMBOL(name) _##name
    .const_data
#else
#define SYMBOL(name) name
    .section .rodata
#endif
    .global SYMBOL(report_html)
    .global SYMBOL(report_css)
    .global SYMBOL(report_js)
SYMBOL(report_html):
    .incbin "src/report/page.html"
    .byte 0
SYMBOL(report_css):
    .incbin "src/report/page.css"
    .byte 0
SYMBOL(report_js):
    .incbin "src/report/page.js"
    .byte 0
#ifdef __ELF__
    .section .note.GNU-stack,"",%progbits
#endif
