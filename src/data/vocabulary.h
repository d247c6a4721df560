/* Text and token ids. A character is a Unicode code point; the vocabulary is the code points of the corpus in ascending
   order, and a token id is an index into it. */
#pragma once

#include "base/directory.h"
#include "base/text.h"

typedef struct {
    uint32_t *characters; /* (count), ascending */
    size_t count;
} Vocabulary;

/* Makes a vocabulary from `count` code points in any order, repeated or not. */
Vocabulary vocabulary_make(const uint32_t *characters, size_t count);

/* Returns the id of a character, or -1. */
int32_t vocabulary_id(const Vocabulary *vocabulary, uint32_t character);

/* Writes the ids of a UTF-8 text, at most `capacity`, and returns their number. Refuses a character outside the
   vocabulary; `what` names the text. */
size_t vocabulary_encode(const Vocabulary *vocabulary, const char *what, const char *text, size_t size, int32_t *ids,
                         size_t capacity);

/* Write and read vocab.json: an array of one-character strings in the order of their ids. vocabulary_json returns that
   array. */
typedef struct json_t Json;
Json *vocabulary_json(const Vocabulary *vocabulary);
void vocabulary_save(const Vocabulary *vocabulary, const Directory *directory, const char *name);
Vocabulary vocabulary_load(const char *path);
