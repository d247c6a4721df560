/* The file of a directory's owner. One that is accepted names a host and a process; any other keeps the directory, and
   its message is one line. */
#include "fuzz.h"

static void check_free(void *path) { directory_check_free(path); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[1024] = "";
    Owner owner;
    if (size >= sizeof text) size = sizeof text - 1;
    if (size) memcpy(text, data, size);
    const bool parsed = owner_parse(text, &owner);
    if (parsed) {
        REQUIRE(owner.process > 0 && *owner.host);
    }
    fuzz_put("owner", data, size);
    if (*text) { /* an empty one is of a process that has ended */
        const bool is_free = fuzz_answer(check_free, (void *)fuzz_directory());
        REQUIRE(parsed || !is_free);
        REQUIRE(is_free || fuzz_error.status == STATUS_USAGE);
    }
    fuzz_accepted = parsed;
    return 0;
}
