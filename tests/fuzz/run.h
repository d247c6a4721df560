/* A whole run of the smallest model, for the targets of what reads several of its files; and an input that replaces one
   of them. */
#pragma once

#include "checkpoint.h"
#include "run/snapshot.h"

typedef struct {
    const char *name, *text;
} FuzzFile;

/* The files of the run that an input may replace. */
static const FuzzFile FUZZ_RUN_FILES[] = {
    {"config.ini",
     "[model]\nlayers = 1\nheads = 1\nd_model = 2\nd_ff = 2\ncontext = 2\n[train]\nsteps = 4\nbatch = 1\n"},
    {"vocab.json", "[\"a\",\"b\",\"c\"]"},
    {"run.json",
     "{\"program\": \"sqrtdk\", \"version\": \"0.6.0\", \"name\": \"fuzz\", \"threads\": 1, \"result\": \"finished\", "
     "\"ngram_losses\": [3, 2.5, 2.25, 2], \"steps\": 4, \"train_loss\": 1, \"val_loss\": 1, \"seconds\": 1}"},
    {"metrics.csv",
     "step,tokens,seconds,lr,train_loss,val_loss,grad_norm\n0,0,0.1,0.001,1.1,1.1,1\n2,4,0.2,0.001,1,1,1\n"},
    {"attention.csv",
     "step,layer,head,score_std,score_max,entropy,max_weight,saturated,grad_q_mean,grad_q_rms,grad_q_median,grad_q_p10,grad_q_p99,grad_scores_mean,grad_scores_rms,grad_scores_median,grad_scores_p10,grad_scores_p99,w_q_norm,w_k_norm,overflows,infinities,subnormals\n"
     "0,0,0,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0,0,0\n2,0,0,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0,0,0\n"},
    {"samples.txt", "==== step 0, validation loss 1.1 ====\nabc\n\n==== step 4, validation loss 1 ====\nabab\n\n"},
};
enum { FUZZ_RUN_COUNT = sizeof FUZZ_RUN_FILES / sizeof *FUZZ_RUN_FILES };

/* Writes the files into a directory below the target's, one of them as the input has it: its name is the first line,
   and what follows is its content. Any other input changes none. */
static inline void fuzz_put_changed(const char *directory, const FuzzFile *files, size_t count, const uint8_t *data,
                                    size_t size) {
    for (size_t i = 0; i < count; i++) {
        char name[64];
        const size_t length = strlen(files[i].name);
        const bool changed = size > length && data[length] == '\n' && memcmp(data, files[i].name, length) == 0;
        snprintf(name, sizeof name, "%s/%s", directory, files[i].name);
        if (changed) fuzz_put(name, data + length + 1, size - length - 1);
        else fuzz_put_text(name, files[i].text);
    }
}

/* Makes the directory NAME of a run that nobody has changed. */
static inline void fuzz_make_run(const char *name) {
    static const uint32_t text[] = {'a', 'b'};
    char command[512];
    if (!fuzz_run.locked) {
        size_t size;
        free(fuzz_make_checkpoint(&size));
        fuzz_make_directory("attention");
        for (size_t step = 0; step <= 2; step += 2) {
            Snapshot s = snapshot_make(1, 1, text, 2);
            s.step = step;
            snapshot_save(&s, fuzz_run.locked);
        }
    }
    fuzz_make_directory(name);
    snprintf(command, sizeof command, "cd %s && cp -R checkpoint attention %s", fuzz_directory(), name);
    REQUIRE(system(command) == 0);
    fuzz_put_changed(name, FUZZ_RUN_FILES, FUZZ_RUN_COUNT, NULL, 0);
}

/* Returns the path of a directory or file below the target's. */
static inline const char *fuzz_path(const char *name, char path[256]) {
    snprintf(path, 256, "%s/%s", fuzz_directory(), name);
    return path;
}

/* Checks that a page is whole, and that no text of a file has ended a script early. */
static inline void fuzz_check_page(const char *name) {
    static size_t scripts;
    char path[256];
    size_t size, found = 0;
    uint8_t *page = fuzz_get(fuzz_path(name, path), &size);
    page[size] = 0;
    REQUIRE(strlen((char *)page) == size && size > 8 && strcmp((char *)page + size - 8, "</html>\n") == 0);
    for (const char *at = (char *)page; (at = strstr(at, "</script")); at++) found++;
    if (!scripts) scripts = found;
    REQUIRE(found == scripts);
    free(page);
    REQUIRE(unlink(path) == 0);
}
