/* The corpus as token ids, its batches and its windows. The whole text is decoded and encoded once and stays in memory,
   so that a batch is a copy. No window crosses from the training part into the validation part. */
#include "data/corpus.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/command.h"
#include "base/files.h"
#include "base/memory.h"
#include "data/recall.h"

static const size_t CORPUS_LIMIT = (size_t)1 << 30; /* bytes */
enum { RECALL_VALIDATION = 16384 };                 /* characters */

/* Decodes UTF-8 to code points, which have the place of the ids that they become. Refuses a zero byte as well, since it
   is not text. Here and below, `what` is "the corpus PATH". */
static uint32_t *decode(Corpus *corpus, const char *what, const char *text, size_t size) {
    uint32_t *characters = memory_make(size, sizeof *characters, what); /* no more than bytes */
    for (size_t at = 0, line = 1; at < size;) {
        uint32_t *c = &characters[corpus->count];
        size_t length = utf8_decode(text + at, size - at, c);
        if (length == 0 || *c == 0)
            usage_error(
                "%s is not UTF-8 text: byte %zu (line %zu) is 0x%02x; name a text file, or convert it with iconv", what,
                at + 1, line, (unsigned char)text[at]);
        line += text[at] == '\n';
        corpus->count += at > 0 || *c != 0xFEFF; /* a byte order mark is not part of the text */
        at += length;
    }
    return characters;
}

/* Sets where training ends and validation begins. Each part must hold a window and the target of its last token. */
static void split(Corpus *corpus, const char *what, double val_fraction, size_t window) {
    size_t validation = (size_t)((double)corpus->count * val_fraction + 0.5);
    corpus->train = corpus->count - validation;
    if (corpus->train > window && validation > window) return;
    size_t part = corpus->train > window ? validation : corpus->train;
    usage_error(
        "%s is too short: %zu characters leave %zu for %s, and one window takes context + 1 = %zu; use a longer text or a smaller context",
        what, corpus->count, part, corpus->train > window ? "validation" : "training", window + 1);
}

/* Raises the error for a text that is missing: where it was looked for (find_corpus in config.c), and how to get Tiny
   Shakespeare. */
static _Noreturn void is_missing(const char *path) {
    static const char SHAKESPEARE[] = "tinyshakespeare.txt";
    char folder[PATH_CAPACITY], script[PATH_CAPACITY], places[PATH_CAPACITY + 64] = "", hint[PATH_CAPACITY + 64] = "";
    const size_t length = strlen(path), name = strlen(SHAKESPEARE);
    if (*path != '/' && getcwd(folder, sizeof folder))
        snprintf(places, sizeof places, ", in %s or beside the config", folder);
    if (length >= name && strcmp(path + length - name, SHAKESPEARE) == 0)
        snprintf(hint, sizeof hint, "; %s downloads it",
                 command_word(path_installed("data/get_shakespeare.sh", script)));
    usage_error("cannot read the corpus %s: %s%s%s", path, strerror(ENOENT), places, hint);
}

static char *read_text(const char *path, size_t *size) {
    char found[PATH_CAPACITY];
    path_check_tilde(path);
    path = path_installed(path, found);
    if (access(path, F_OK) != 0 && errno == ENOENT) is_missing(path);
    return file_read(path, "the corpus", CORPUS_LIMIT, size);
}

Corpus corpus_from_text(const char *text, size_t size, const char *what, const Vocabulary *vocabulary,
                        double val_fraction, size_t window) {
    Corpus corpus = {0};
    if (size == 0) usage_error("%s is empty", what);
    uint32_t *characters = decode(&corpus, what, text, size);
    corpus.vocabulary = vocabulary ? *vocabulary : vocabulary_make(characters, corpus.count);
    corpus.ids = (int32_t *)characters;
    for (size_t i = 0; i < corpus.count; i++) {
        const int32_t id = vocabulary_id(&corpus.vocabulary, characters[i]);
        if (id < 0)
            usage_error(
                "%s has the character U+%04X, which is not in the run's vocab.json: the corpus has changed since the run",
                what, (unsigned)characters[i]);
        corpus.ids[i] = id;
    }
    split(&corpus, what, val_fraction, window);
    return corpus;
}

Corpus corpus_load(const char *path, const Vocabulary *vocabulary, double val_fraction, size_t window) {
    size_t size = strlen(sqrtdk_corpus);
    char what[PATH_CAPACITY + 16], *text = *path ? read_text(path, &size) : NULL;
    snprintf(what, sizeof what, "the corpus %s", *path ? path : "(built in)");
    const Corpus corpus = corpus_from_text(text ? text : sqrtdk_corpus, size, what, vocabulary, val_fraction, window);
    memory_free(text);
    return corpus;
}

Corpus corpus_recall(size_t pairs, const Vocabulary *vocabulary) {
    uint32_t letters[RECALL_VOCABULARY];
    for (uint32_t i = 0; i < RECALL_LETTERS; i++) {
        letters[i] = 'A' + i;
        letters[RECALL_LETTERS + i] = 'a' + i;
    }
    return (Corpus){.vocabulary = vocabulary ? *vocabulary : vocabulary_make(letters, RECALL_VOCABULARY),
                    .pairs = pairs};
}

void corpus_fingerprint(const Corpus *corpus, char out[HASH_DIGITS]) {
    const Vocabulary *v = &corpus->vocabulary;
    const uint32_t pairs = (uint32_t)corpus->pairs;
    uint64_t hash = hash_bytes(HASH_START, v->characters, v->count * sizeof *v->characters);
    hash = hash_bytes(hash, corpus->ids, corpus->count * sizeof *corpus->ids);
    hash_text(pairs ? hash_bytes(hash, &pairs, sizeof pairs) : hash, out);
}

void corpus_training_batch(const Corpus *corpus, uint64_t seed, uint64_t micro_step, size_t B, size_t T,
                           int32_t *tokens, int32_t *targets) {
    Rng rng = rng_make(seed, RNG_BATCH, 0);
    for (size_t b = 0; b < B; b++) {
        if (corpus->pairs) {
            recall_record(seed, RNG_RECALL, micro_step * B + b, corpus->pairs, T, tokens + b * T, targets + b * T);
            continue;
        }
        size_t at = (size_t)rng_below(&rng, micro_step * B + b, corpus->train - T);
        memcpy(tokens + b * T, corpus->ids + at, T * sizeof *tokens);
        memcpy(targets + b * T, corpus->ids + at + 1, T * sizeof *targets);
    }
}

size_t corpus_whole_windows(const Corpus *corpus, size_t T) {
    if (corpus->pairs) return T < RECALL_VALIDATION ? RECALL_VALIDATION / T : 1;
    return (corpus->count - corpus->train - 1) / T;
}

size_t corpus_windows(const Corpus *corpus, size_t T) {
    return corpus->pairs ? corpus_whole_windows(corpus, T) : (corpus->count - corpus->train - 1 + T - 1) / T;
}

size_t corpus_window(const Corpus *corpus, size_t i, size_t T, int32_t *tokens, int32_t *targets) {
    if (corpus->pairs) {
        recall_record(0, RNG_RECALL_VALIDATION, i, corpus->pairs, T, tokens, targets);
        return T;
    }
    const size_t at = corpus->train + i * T, rest = corpus->count - 1 - at, length = rest < T ? rest : T;
    memcpy(tokens, corpus->ids + at, length * sizeof *tokens);
    memcpy(targets, corpus->ids + at + 1, length * sizeof *targets);
    return length;
}
