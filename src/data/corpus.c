/* The corpus as token ids, and the batches and windows that are taken from it. The whole text is decoded and encoded
   once and stays in memory, so that a batch is a copy. The training part comes first and the validation part last, and
   no window crosses from one into the other. */
#include "data/corpus.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "data/recall.h"

extern const char sqrtdk_corpus[]; /* builtin.S */

static const size_t CORPUS_LIMIT = (size_t)1 << 30; /* bytes */
enum { RECALL_VALIDATION = 16384 };                 /* characters */

/* Decodes UTF-8 to code points. A zero byte is refused as well, since it is not text. */
static bool decode(const char *path, const char *text, size_t size, uint32_t *characters, size_t *count, Error *err) {
    size_t line = 1;
    *count = 0;
    for (size_t at = 0; at < size;) {
        size_t length = utf8_decode(text + at, size - at, &characters[*count]);
        if (length == 0 || characters[*count] == 0)
            return usage_error(
                err,
                "the corpus %s is not UTF-8 text: byte %zu (line %zu) is 0x%02x; name a text file, or convert it with iconv",
                path, at + 1, line, (unsigned char)text[at]);
        line += text[at] == '\n';
        if (at > 0 || characters[0] != 0xFEFF) ++*count; /* a byte order mark is not part of the text */
        at += length;
    }
    return true;
}

/* Encodes code points as ids, by the given vocabulary or, if that is NULL, by that of the text. */
static bool encode(Corpus *corpus, const char *path, const uint32_t *characters, const Vocabulary *given, Error *err) {
    if (!vocabulary_make(&corpus->vocabulary, given ? given->characters : characters,
                         given ? given->count : corpus->count, err))
        return false;
    corpus->ids = malloc(corpus->count * sizeof *corpus->ids + 1);
    if (!corpus->ids) return runtime_error(err, "no memory for the corpus %s", path);
    for (size_t i = 0; i < corpus->count; i++) {
        int32_t id = vocabulary_id(&corpus->vocabulary, characters[i]);
        if (id < 0)
            return usage_error(
                err,
                "the corpus %s has the character U+%04X, which is not in the run's vocab.json: the corpus has changed since the run",
                path, (unsigned)characters[i]);
        corpus->ids[i] = id;
    }
    return true;
}

/* Sets where training ends and validation begins. Each part must hold a window and the target of its last token. */
static bool split(Corpus *corpus, const char *path, double val_fraction, size_t window, Error *err) {
    size_t validation = (size_t)((double)corpus->count * val_fraction + 0.5);
    corpus->train = corpus->count - validation;
    if (corpus->train > window && validation > window) return true;
    size_t part = corpus->train > window ? validation : corpus->train;
    return usage_error(
        err,
        "the corpus %s is too short: %zu characters leave %zu for %s, and one window takes context + 1 = %zu; use a longer text or a smaller context",
        path, corpus->count, part, corpus->train > window ? "validation" : "training", window + 1);
}

/* Makes a corpus from its text, which has been read from `path`. */
static bool corpus_from_text(Corpus *corpus, const char *path, const char *text, size_t size,
                             const Vocabulary *vocabulary, double val_fraction, size_t window, Error *err) {
    if (size == 0) return usage_error(err, "the corpus %s is empty", path);
    uint32_t *characters = malloc(size * sizeof *characters); /* no more than bytes */
    if (!characters) return runtime_error(err, "no memory for the corpus %s", path);
    const bool ok = decode(path, text, size, characters, &corpus->count, err) &&
                    encode(corpus, path, characters, vocabulary, err) && split(corpus, path, val_fraction, window, err);
    free(characters);
    return ok;
}

/* Adds to "cannot read" how to get Tiny Shakespeare, if that is what is missing. */
static void hint_at_download(const char *path, Error *err) {
    static const char NAME[] = "tinyshakespeare.txt";
    const size_t length = strlen(path), name_length = strlen(NAME);
    char found[4096];
    if (length >= name_length && strcmp(path + length - name_length, NAME) == 0 && !path_exists(path))
        error_set(err, err->status, "%.900s; %.400s downloads it", err->message,
                  path_installed("data/get_shakespeare.sh", found));
}

bool corpus_load(Corpus *corpus, const char *path, const Vocabulary *vocabulary, double val_fraction, size_t window,
                 Error *err) {
    const char *name = *path ? path : "(built in)";
    char *file = NULL, found[4096];
    size_t size = strlen(sqrtdk_corpus);
    *corpus = (Corpus){0};
    if (*path && !file_read(path_installed(path, found), "the corpus", CORPUS_LIMIT, STATUS_USAGE, &file, &size, err)) {
        hint_at_download(path, err);
        return false;
    }
    const bool ok =
        corpus_from_text(corpus, name, file ? file : sqrtdk_corpus, size, vocabulary, val_fraction, window, err);
    free(file);
    if (!ok) corpus_free(corpus);
    return ok;
}

bool corpus_recall(Corpus *corpus, size_t pairs, const Vocabulary *vocabulary, Error *err) {
    uint32_t letters[RECALL_VOCABULARY];
    for (uint32_t i = 0; i < RECALL_LETTERS; i++) {
        letters[i] = 'A' + i;
        letters[RECALL_LETTERS + i] = 'a' + i;
    }
    *corpus = (Corpus){.pairs = pairs};
    return vocabulary_make(&corpus->vocabulary, vocabulary ? vocabulary->characters : letters,
                           vocabulary ? vocabulary->count : RECALL_VOCABULARY, err);
}

void corpus_free(Corpus *corpus) {
    vocabulary_free(&corpus->vocabulary);
    free(corpus->ids);
    *corpus = (Corpus){0};
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
    size_t at = corpus->train + i * T, left = corpus->count - 1 - at, length = left < T ? left : T;
    memcpy(tokens, corpus->ids + at, length * sizeof *tokens);
    memcpy(targets, corpus->ids + at + 1, length * sizeof *targets);
    return length;
}
