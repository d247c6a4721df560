/* data/: UTF-8 to code points, text and files that a vocabulary refuses, the two parts of a corpus, and the batches
   from the first. Where positions matter, all characters of the corpus are different and in ascending order: then an id
   is its own position. */
#include "temporary.h"

#include <iconv.h>

#include "data/corpus.h"

/* Every code point is encoded as by glibc's iconv, and every proper beginning of its bytes is refused. */
static void utf8_of_every_code_point(void) {
    iconv_t oracle = iconv_open("UTF-8", "UTF-32LE");
    assert_true(oracle != (iconv_t)-1);
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        if (c == 0xD800) c = 0xE000;
        char expected[8], text[5], *from = (char *)&c, *to = expected;
        size_t from_size = 4, to_size = sizeof expected;
        if (iconv(oracle, &from, &from_size, &to, &to_size) != 0) fail_msg("iconv refuses U+%04X", (unsigned)c);
        size_t length = utf8_encode(c, text);
        uint32_t decoded = ~c;
        if (length != sizeof expected - to_size || memcmp(text, expected, length) != 0 || text[length] != 0)
            fail_msg("U+%04X is encoded wrongly", (unsigned)c);
        if (utf8_decode(text, length, &decoded) != length || decoded != c)
            fail_msg("U+%04X is decoded wrongly", (unsigned)c);
        if (utf8_decode(text, 5, &decoded) != length) fail_msg("U+%04X with more behind it", (unsigned)c);
        for (size_t size = 0; size < length; size++)
            if (utf8_decode(text, size, &decoded) != 0) fail_msg("U+%04X cut to %zu bytes", (unsigned)c, size);
    }
    iconv_close(oracle);
}

/* Well-formed sequences by Unicode 15, table 3-7. */
static size_t table_3_7(const unsigned char *b, size_t size) {
    static const unsigned char rows[][5] = {
        {0x00, 0x7F, 0x00, 0xFF, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        const unsigned char *row = rows[r];
        if (b[0] < row[0] || b[0] > row[1]) continue;
        if (row[4] > size || (row[4] > 1 && (b[1] < row[2] || b[1] > row[3]))) return 0;
        for (size_t i = 2; i < row[4]; i++)
            if (b[i] < 0x80 || b[i] > 0xBF) return 0;
        return row[4];
    }
    return 0;
}

/* Overlong forms, surrogates, beyond U+10FFFF, lone and missing continuations: every three bytes, and every two with
   the bytes next to each border behind them. */
static void utf8_of_every_malformed_kind(void) {
    static const unsigned char borders[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F,
                                            0xA0, 0xBF, 0xC0, 0xED, 0xF4, 0xFF};
    uint32_t c;
    for (uint32_t n = 0; n < 1u << 24; n++) {
        const unsigned char b[4] = {(unsigned char)(n >> 16), (unsigned char)(n >> 8), (unsigned char)n};
        if (utf8_decode((const char *)b, 3, &c) != table_3_7(b, 3)) fail_msg("bytes %02x %02x %02x", b[0], b[1], b[2]);
    }
    for (uint32_t n = 0; n < 1u << 16; n++)
        for (size_t i = 0; i < COUNT_OF(borders); i++)
            for (size_t j = 0; j < COUNT_OF(borders); j++) {
                const unsigned char b[4] = {(unsigned char)(n >> 8), (unsigned char)n, borders[i], borders[j]};
                if (utf8_decode((const char *)b, 4, &c) != table_3_7(b, 4))
                    fail_msg("bytes %02x %02x %02x %02x", b[0], b[1], b[2], b[3]);
            }
}

/* The vocabulary of a text, and its code points. */
static size_t vocabulary_of(const char *text, Vocabulary *vocabulary, uint32_t *characters) {
    size_t count = 0;
    for (size_t at = 0; text[at]; count++) {
        size_t length = utf8_decode(text + at, strlen(text + at), &characters[count]);
        assert_true(length > 0);
        at += length;
    }
    *vocabulary = vocabulary_make(characters, count);
    return count;
}

static void text_outside_the_vocabulary(void) {
    Vocabulary v;
    uint32_t characters[16];
    int32_t ids[4] = {-7, -7, -7, -7};
    vocabulary_of("acé", &v, characters);
    const uint32_t others[] = {0, 'b', 'd', 0xE8, 0xEA, 0x10FFFF, 0x110000, UINT32_MAX};
    for (size_t n = 0; n < COUNT_OF(others); n++) assert_int_equal(vocabulary_id(&v, others[n]), -1);
    assert_refused("ö", vocabulary_encode(&v, "--prompt", "aö", 3, ids, 4));
    assert_true(strstr(err.message, "U+00F6") && strstr(err.message, "--prompt"));
    assert_refused("U+000A", vocabulary_encode(&v, "it", "a\n", 2, ids, 4));
    assert_refused("U+0000", vocabulary_encode(&v, "it", "a\0", 2, ids, 4));
    assert_refused("UTF-8", vocabulary_encode(&v, "it", "a\xC3", 2, ids, 4));
    assert_int_equal(vocabulary_encode(&v, "it", "caé", 4, ids, 3), 3);
    assert_refused("3", vocabulary_encode(&v, "it", "caéa", 5, ids, 3));
    assert_int_equal(ids[3], -7);
    assert_int_equal(vocabulary_encode(&v, "it", "", 0, ids, 0), 0);
}

/* Every kind of refused file is in seeds/vocabulary of the fuzz target. */
static void vocabulary_file_refused(void) {
    const char *path = put_text("vocab.json", "[\"b\", \"a\"]");
    assert_refused(path, vocabulary_load(path));
    assert_refused(in("missing"), vocabulary_load(in("missing")));
    assert_refused(temporary, vocabulary_load(temporary));
}

static void corpus_built_in(void) {
    const Corpus built_in = corpus_load("", NULL, 0.1, 64);
    assert_true(built_in.count > 120000 && built_in.vocabulary.count > 30 && built_in.vocabulary.count < 200);
    assert_true(vocabulary_id(&built_in.vocabulary, '\n') >= 0);
    assert_close(built_in.count - built_in.train, 0.1 * (double)built_in.count, 1, "characters for validation");
    const Corpus file = corpus_load("data/sallow_reach.txt", NULL, 0.1, 64);
    assert_int_equal(file.count, built_in.count);
    assert_memory_equal(file.ids, built_in.ids, file.count * sizeof *file.ids);
}

static void corpus_refused(void) {
    const struct {
        const char *text;
        size_t size;
        const char *word;
    } cases[] = {
        {"", 0, "empty"},
        {"ab\ncd\xFFxyz", 9, "line 2"},
        {"\xC3", 1, "line 1"},
        {"abc\n\nx\0yz", 9, "line 3"},
        {"a\n\n\n\xE2\x82", 6, "line 4"},
        {"\xFF\xFE\x61\x00", 4, "line 1"},
        {"short", 5, "short"},
        {"\xEF\xBB\xBF", 3, "short"},
        {"ab\xED\xA0\x80", 5, "UTF-8"},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        const char *path = put("corpus.txt", cases[n].text, cases[n].size);
        assert_refused(cases[n].word, corpus_load(path, NULL, 0.5, 4));
        assert_non_null(strstr(err.message, path));
    }
    assert_refused(in("missing"), corpus_load(in("missing"), NULL, 0.1, 4));
    assert_refused("directory", corpus_load(temporary, NULL, 0.1, 4));
    assert_refused("tinyshakespeare.txt: No such file or directory; data/get_shakespeare.sh downloads it",
                   corpus_load(in("tinyshakespeare.txt"), NULL, 0.1, 4));
    static const char *const others[] = {"other.txt", "tinyshakespeare.txt.gz", "tinyshakespeare.txt/tinyshakespeare"};
    for (size_t n = 0; n < COUNT_OF(others); n++) {
        assert_refused(others[n], corpus_load(in(others[n]), NULL, 0.1, 4));
        assert_null(strstr(err.message, "get_shakespeare"));
    }
    /* Each part must hold window + 1. */
    const char *path = put_text("corpus.txt", "0123456789");
    assert_int_equal(corpus_load(path, NULL, 0.5, 4).train, 5);
    assert_refused("validation", corpus_load(path, NULL, 0.4, 4));
    assert_refused("training", corpus_load(path, NULL, 0.6, 4));
    assert_refused("6", corpus_load(path, NULL, 0.5, 5));
}

static void corpus_of_a_file(void) {
    Corpus corpus;
    Vocabulary given;
    uint32_t characters[16];
    /* The mark at the start is omitted; U+FEFF anywhere else is a character like others. */
    const char *path = put_text("corpus.txt", "\xEF\xBB\xBF\xEF\xBB\xBF"
                                              "baé\xEF\xBB\xBF");
    corpus = corpus_load(path, NULL, 0.4, 1);
    const int32_t ids[] = {3, 1, 0, 2, 3};
    assert_int_equal(corpus.count, 5);
    assert_memory_equal(corpus.ids, ids, sizeof ids);
    assert_int_equal(corpus.train, 3);

    vocabulary_of("abcd", &given, characters);
    corpus = corpus_load(put_text("corpus.txt", "dada"), &given, 0.5, 1);
    const int32_t others[] = {3, 0, 3, 0};
    assert_memory_equal(corpus.ids, others, sizeof others);
    assert_int_equal(corpus.vocabulary.count, 4);
    path = put_text("corpus.txt", "dadé");
    assert_refused("U+00E9", corpus_load(path, &given, 0.5, 1));
}

/* `count` characters that are all different, ascending: ids are positions. */
static Corpus numbered_corpus(size_t count, double val_fraction, size_t window) {
    char *text = memory_make(count + 2, 4, "a text"), *end = text;
    for (size_t i = 0; i < count; i++) end += utf8_encode((uint32_t)(0x4E00 + i), end);
    return corpus_load(put("numbered.txt", text, (size_t)(end - text)), NULL, val_fraction, window);
}

static void training_batches(void) {
    enum { B = 3, T = 5, STEPS = 4000, STARTS = 45 - T };
    Corpus corpus = numbered_corpus(60, 0.25, T);
    assert_int_equal(corpus.train, 45);
    size_t seen[STARTS] = {0}, differ = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        int32_t tokens[B * T], targets[B * T], again[2][B * T];
        corpus_training_batch(&corpus, 7, step, B, T, tokens, targets);
        corpus_training_batch(&corpus, 7, step, B, T, again[0], again[1]);
        assert_memory_equal(tokens, again[0], sizeof tokens);
        assert_memory_equal(targets, again[1], sizeof targets);
        corpus_training_batch(&corpus, 7, step + 1, B, T, again[0], again[1]);
        differ += memcmp(tokens, again[0], sizeof tokens) != 0;
        corpus_training_batch(&corpus, 8, step, B, T, again[0], again[1]);
        differ += memcmp(tokens, again[0], sizeof tokens) != 0;
        for (size_t b = 0; b < B; b++) { /* as many batches of one window, one after the other */
            corpus_training_batch(&corpus, 7, B * step + b, 1, T, again[0], again[1]);
            assert_memory_equal(tokens + b * T, again[0], T * sizeof *tokens);
            assert_in_range(tokens[b * T], 0, STARTS - 1);
            seen[tokens[b * T]]++;
            for (size_t t = 0; t < T; t++) {
                assert_int_equal(tokens[b * T + t], tokens[b * T] + (int32_t)t);
                assert_int_equal(targets[b * T + t], tokens[b * T] + (int32_t)t + 1);
            }
        }
    }
    assert_true(differ > 2 * STEPS - 10); /* of 40^3 batches, few coincide */
    double chi_square = 0, expected = (double)B * STEPS / STARTS;
    for (size_t i = 0; i < STARTS; i++) chi_square += pow((double)seen[i] - expected, 2) / expected;
    assert_that(chi_square < 80, "chi-square %g of 39 degrees: places are not uniform", chi_square); /* p = 1e-4 */
}

int main(void) {
    return RUN_TESTS(TEST(utf8_of_every_code_point), TEST(utf8_of_every_malformed_kind),
                     TEST(text_outside_the_vocabulary), TEMPORARY_TEST(vocabulary_file_refused),
                     TEMPORARY_TEST(corpus_built_in), TEMPORARY_TEST(corpus_refused), TEMPORARY_TEST(corpus_of_a_file),
                     TEMPORARY_TEST(training_batches));
}
