/* Functions that the fuzz targets share. A target is a program with one function, LLVMFuzzerTestOneInput. It passes an
   input to a reader of src/ as a file, and aborts if the reader breaks its contract. libFuzzer calls it with generated
   inputs (make fuzz), replay.c with the files of seeds/NAME, in `make test`. It releases all blocks that an input has
   made; an error outside of fuzz_answer ends the program, which counts as a finding.

   To be included once in each target. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/memory.h"
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* True if the reader accepted the last input: replay.c compares this with the seed's name. */
bool fuzz_accepted;

/* Aborts if a condition does not hold, in every build. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Calls a reader with its argument. Returns whether it accepted the input. If not, fuzz_error is one printable line
   with a status, and the reader's blocks have been released. */
static Error fuzz_error;
static inline bool fuzz_answer(void (*reader)(void *argument), void *argument) {
    fuzz_accepted = protect(reader, argument, &fuzz_error);
    if (fuzz_accepted) return true;
    REQUIRE(fuzz_error.status == STATUS_USAGE || fuzz_error.status == STATUS_FAILED);
    REQUIRE(*fuzz_error.message);
    for (const char *c = fuzz_error.message; *c; c++) REQUIRE((unsigned char)*c >= ' ' && *c != 127);
    return false;
}

static char fuzz_directory_name[64];
static inline void fuzz_remove_directory(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", fuzz_directory_name);
    if (system(command) != 0) perror(command);
}

/* The target's directory, in memory where the system has that; removed at the end. */
static inline const char *fuzz_directory(void) {
    if (*fuzz_directory_name) return fuzz_directory_name;
    snprintf(fuzz_directory_name, sizeof fuzz_directory_name, "%s/fuzz.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    REQUIRE(mkdtemp(fuzz_directory_name));
    atexit(fuzz_remove_directory);
    return fuzz_directory_name;
}

/* Opens the directory. It is a block: it is released after an input or, if it is made once for all inputs, stays. */
static inline const Directory *fuzz_opened_directory(void) { return directory_open(fuzz_directory()); }

/* Makes "NAME" in the target's directory a file of these bytes, and returns its path, valid for two calls. */
static inline const char *fuzz_put(const char *name, const void *data, size_t size) {
    static char paths[2][256];
    static unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", fuzz_directory(), name);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
    return path;
}
static inline const char *fuzz_put_text(const char *name, const char *text) {
    return fuzz_put(name, text, strlen(text));
}
static inline void fuzz_make_directory(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_directory(), name);
    REQUIRE(mkdir(path, 0700) == 0);
}

/* Reads a whole file, which the caller frees. */
static inline uint8_t *fuzz_get(const char *path, size_t *size) {
    struct stat info;
    const int file = open(path, O_RDONLY);
    REQUIRE(file >= 0 && fstat(file, &info) == 0);
    *size = (size_t)info.st_size;
    uint8_t *data = malloc(*size + 1);
    REQUIRE(data && read(file, data, *size) == info.st_size && close(file) == 0);
    return data;
}

/* The smallest model, on a text of three characters. */
static inline const Config *fuzz_config(void) {
    static Config config;
    if (*config.name) return &config;
    const char *path =
        fuzz_put_text("config.ini", "[model]\nlayers = 1\nheads = 1\nd_model = 2\nd_ff = 2\ncontext = 2\n"
                                    "[train]\nsteps = 4\nbatch = 1\n");
    config_load(&config, NULL, path, NULL, 0);
    return &config;
}

static inline char *fuzz_config_text(const Config *config) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    REQUIRE(out);
    config_write(config, out);
    REQUIRE(fclose(out) == 0);
    return text;
}

/* A config that is written and read again must be what it was. */
static inline void fuzz_read_back(const Config *config) {
    static Config again;
    char *text = fuzz_config_text(config);
    config_load(&again, NULL, fuzz_put_text("again.ini", text), NULL, 0);
    char *second = fuzz_config_text(&again);
    REQUIRE(strcmp(text, second) == 0);
    free(text);
    free(second);
}

/* Renames the checksum of a safetensors file, so that what an edit changes is read and not refused for that alone. */
static inline void fuzz_without_checksum(uint8_t *file, size_t size) {
    static const char NAME[] = "\"checksum\":";
    uint8_t *name = memmem(file, size, NAME, strlen(NAME));
    REQUIRE(name);
    name[1] = 'C';
}

/* Returns a safetensors file that the program has written in the target's directory, for edits. The caller frees. */
static inline uint8_t *fuzz_get_written(const char *name, size_t *size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_directory(), name);
    uint8_t *file = fuzz_get(path, size);
    fuzz_without_checksum(file, *size);
    return file;
}

/* Changes a file that the program itself has written, so that seeds and findings remain valid when the format changes.
   An input is a list of changes, each of a place (2 bytes), how many bytes go (1), how many come (1), and these. A
   place from 2^15 on counts from the end of the file. The caller frees. */
static inline uint8_t *fuzz_edit(const uint8_t *file, size_t *file_size, const uint8_t *edits, size_t size) {
    uint8_t *out = malloc(*file_size + size + 1);
    REQUIRE(out);
    memcpy(out, file, *file_size);
    while (size >= 4) {
        const size_t place = (size_t)edits[0] << 8 | edits[1];
        size_t at = place >> 15 ? *file_size - (0xffff - place) % (*file_size + 1) : place % (*file_size + 1);
        const size_t gone = edits[2] < *file_size - at ? edits[2] : *file_size - at;
        const size_t come = edits[3] < size - 4 ? edits[3] : size - 4;
        memmove(out + at + come, out + at + gone, *file_size - at - gone);
        memcpy(out + at, edits + 4, come);
        *file_size += come - gone;
        edits += 4 + come;
        size -= 4 + come;
    }
    return out;
}

/* An edited safetensors file: the header's length is made true again, unless the first byte of the input is odd. Else
   no edit behind the header would be reached. The caller frees. */
static inline uint8_t *fuzz_edit_safetensors(const uint8_t *file, size_t *file_size, const uint8_t *edits,
                                             size_t size) {
    const bool repaired = size == 0 || edits[0] % 2 == 0;
    const size_t before = *file_size;
    uint64_t header;
    uint8_t *out = fuzz_edit(file, file_size, edits + (size > 0), size - (size > 0));
    memcpy(&header, file, sizeof header);
    header += *file_size - before;
    if (repaired && *file_size >= sizeof header) memcpy(out, &header, sizeof header);
    return out;
}
