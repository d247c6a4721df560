/* The built-in corpus, data/sallow_reach.txt, byte by byte. */
#ifdef __APPLE__
#define SYMBOL(name) _##name
    .const_data
#else
#define SYMBOL(name) name
    .section .rodata
#endif
    .global SYMBOL(sqrtdk_corpus)
    .global SYMBOL(sqrtdk_corpus_end)
SYMBOL(sqrtdk_corpus):
    .incbin CORPUS_PATH
SYMBOL(sqrtdk_corpus_end):
    .byte 0
#ifdef __ELF__
    .section .note.GNU-stack,"",%progbits
#endif
