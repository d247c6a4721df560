/* The built-in corpus, data/sallow_reach.txt. */
#define NAME sqrtdk_corpus
#define PATH CORPUS_PATH
#include "base/embed.inc"
