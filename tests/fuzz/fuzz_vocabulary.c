/* vocab.json. One that is accepted is in order, and is written and read again. */
#include "data/vocabulary.h"
#include "fuzz.h"

static Vocabulary vocabulary;

static void load(void *path) { vocabulary = vocabulary_load(path); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    memory_release(0); /* what the last input has made */
    const char *path = fuzz_put("vocab.json", data, size);
    if (!fuzz_answer(load, (char *)path)) return 0;
    REQUIRE(vocabulary.count > 0);
    for (size_t i = 0; i < vocabulary.count; i++) {
        REQUIRE(i == 0 || vocabulary.characters[i - 1] < vocabulary.characters[i]);
        REQUIRE(vocabulary_id(&vocabulary, vocabulary.characters[i]) == (int32_t)i);
    }
    vocabulary_save(&vocabulary, &no_directory, path);
    const Vocabulary again = vocabulary_load(path);
    REQUIRE(again.count == vocabulary.count &&
            memcmp(again.characters, vocabulary.characters, again.count * sizeof *again.characters) == 0);
    return 0;
}
