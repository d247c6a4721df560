/* --share and the environment that "auto" reads. The input is lines: the text of --share, then the variables of batch
   systems and mpirun in the order below; an empty line leaves one unset. A share that is accepted is one of the shares.
 */
#include "fuzz.h"
#include "sweep/sweep.h"

static const char *const VARIABLES[] = {"SLURM_ARRAY_TASK_ID",
                                        "SLURM_ARRAY_TASK_COUNT",
                                        "SLURM_ARRAY_TASK_MIN",
                                        "SLURM_ARRAY_TASK_STEP",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE"};
enum { COUNT = sizeof VARIABLES / sizeof *VARIABLES };

static size_t share, shares;

static void read_share(void *text) { share_read(text, &share, &shares); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[2048] = "", *rest = text;
    if (size >= sizeof text) size = sizeof text - 1;
    if (size) memcpy(text, data, size);
    char *said = strsep(&rest, "\n");
    for (size_t i = 0; i < COUNT; i++) {
        const char *value = rest ? strsep(&rest, "\n") : "";
        unsetenv(VARIABLES[i]);
        if (*value) setenv(VARIABLES[i], value, 1);
    }
    if (fuzz_answer(read_share, said)) {
        REQUIRE(share < shares);
    }
    return 0;
}
