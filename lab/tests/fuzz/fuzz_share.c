/* --share and the environment that "auto" reads. The input is lines: the text of --share, then the variables of batch
   systems and mpirun in the order of launchers.h; an empty line leaves one unset. A share that is accepted is one of
   the shares.
 */
#include "../launchers.h"
#include "fuzz.h"
#include "lab/sweep/sweep.h"

enum { COUNT = sizeof LAUNCHERS / sizeof *LAUNCHERS };

static size_t share, shares;

static void read_share(void *text) { share_read(text, &share, &shares); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[2048] = "", *rest = text;
    if (size >= sizeof text) size = sizeof text - 1;
    if (size) memcpy(text, data, size);
    char *said = strsep(&rest, "\n");
    for (size_t i = 0; i < COUNT; i++) {
        const char *value = rest ? strsep(&rest, "\n") : "";
        unsetenv(LAUNCHERS[i]);
        if (*value) setenv(LAUNCHERS[i], value, 1);
    }
    if (fuzz_answer(read_share, said)) {
        REQUIRE(share < shares);
    }
    return 0;
}
