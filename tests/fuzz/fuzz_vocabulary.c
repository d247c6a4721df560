/* vocab.json. One that is accepted is in order, and is written and read again. */
#include "data/vocabulary.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Vocabulary vocabulary, again;
    Error err = {0};
    const char *path = fuzz_put("vocab.json", data, size);
    if (!fuzz_answer(vocabulary_load(&vocabulary, path, &err), &err)) return 0;
    REQUIRE(vocabulary.count > 0);
    for (size_t i = 0; i < vocabulary.count; i++) {
        REQUIRE(i == 0 || vocabulary.characters[i - 1] < vocabulary.characters[i]);
        REQUIRE(vocabulary_id(&vocabulary, vocabulary.characters[i]) == (int32_t)i);
    }
    REQUIRE(vocabulary_save(&vocabulary, &no_directory, path, &err) && vocabulary_load(&again, path, &err));
    REQUIRE(again.count == vocabulary.count &&
            memcmp(again.characters, vocabulary.characters, again.count * sizeof *again.characters) == 0);
    vocabulary_free(&vocabulary);
    vocabulary_free(&again);
    return 0;
}
