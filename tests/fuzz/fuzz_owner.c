/* The file of a directory's owner. One that is accepted names a host, a process and a job; any other keeps the
   directory, and its message is one line. */
#include "base/lock.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[1024] = "";
    Owner owner;
    Error err = {0};
    if (size >= sizeof text) size = sizeof text - 1;
    if (size) memcpy(text, data, size);
    const bool parsed = owner_parse(text, &owner);
    if (parsed) {
        REQUIRE(owner.process > 0 && *owner.host && *owner.job);
    }
    fuzz_put("owner", data, size);
    if (*text) { /* an empty one is of a process that was killed */
        const bool free = fuzz_answer(directory_free(fuzz_directory(), &err), &err);
        REQUIRE(parsed || !free);
        REQUIRE(free || err.status == STATUS_USAGE);
    }
    fuzz_accepted = parsed;
    return 0;
}
