/* Runs a fuzz target on the files and directories that are named, or on the seeds of its NAME without "fuzz_". A
   file whose name begins with "valid" must be accepted by the reader, one whose name begins with "refused" must not; of
   any other, such as a finding, it is enough that the target comes back. */
#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern bool fuzz_accepted;

static size_t files, accepted, wrong;

static int replay(const char *path, const struct stat *info, int type, struct FTW *walk) {
    const char *name = path + walk->base;
    if (type != FTW_F) return 0;
    const size_t size = (size_t)info->st_size;
    uint8_t *data = malloc(size + !size); /* no byte more, so that a sanitizer sees the first one beyond */
    FILE *file = fopen(path, "rb");
    if (!data || !file || fread(data, 1, size, file) != size) {
        perror(path);
        return 1;
    }
    fclose(file);
    printf("%s\n", path);
    fflush(stdout); /* before it may end here */
    fuzz_accepted = false;
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    if ((strncmp(name, "valid", 5) == 0 && !fuzz_accepted) || (strncmp(name, "refused", 7) == 0 && fuzz_accepted)) {
        printf("FAILED: it was %s\n", fuzz_accepted ? "accepted" : "refused");
        wrong++;
    }
    files++;
    accepted += fuzz_accepted;
    return 0;
}

int main(int argc, char **argv) {
    char seeds[256];
    const char *name = strstr(argv[0], "fuzz_");
    snprintf(seeds, sizeof seeds, "lab/tests/fuzz/seeds/%.100s", name ? name + 5 : "");
    const char *place = access(seeds, F_OK) == 0 ? seeds : seeds + 4; /* without "lab/" */
    for (int i = 1; i < argc || (argc == 1 && i == 1); i++)
        if (nftw(argc == 1 ? place : argv[i], replay, 16, FTW_PHYS) != 0) wrong++;
    printf("%zu inputs, %zu of them accepted\n", files, accepted);
    return files == 0 || wrong > 0;
}
