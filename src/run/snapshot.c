/* Snapshots of attention: in memory, as a file, and read back. A file is checked against the config, since the pictures
   index it by the config's layers and heads. */
#include "run/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/safetensors.h"
#include "base/text.h"

enum { TENSORS = 4 };

bool snapshot_make(Snapshot *s, size_t L, size_t H, const uint32_t *text, size_t T, Error *err) {
    const size_t heads = L * H, count = heads * T * T;
    float *numbers = calloc(2 * (count + heads), sizeof *numbers);
    *s = (Snapshot){.L = L, .H = H, .T = T};
    memcpy(s->text, text, T * sizeof *text);
    if (!numbers) return runtime_error(err, "no memory for a snapshot of the attention");
    s->attention = (AttentionSnapshot){numbers, numbers + count, numbers + 2 * count, numbers + 2 * count + heads};
    return true;
}

void snapshot_free(Snapshot *s) {
    free(s->attention.scores); /* this block holds the other arrays, too */
    *s = (Snapshot){0};
}

static void list_tensors(const Snapshot *s, NamedArray arrays[TENSORS]) {
    const AttentionSnapshot *a = &s->attention;
    arrays[0] = (NamedArray){"scores", ARRAY_F32, 4, {s->L, s->H, s->T, s->T}, a->scores};
    arrays[1] = (NamedArray){"weights", ARRAY_F32, 4, {s->L, s->H, s->T, s->T}, a->weights};
    arrays[2] = (NamedArray){"multiplier", ARRAY_F32, 2, {s->L, s->H}, a->multiplier};
    arrays[3] = (NamedArray){"sink", ARRAY_F32, 2, {s->L, s->H}, a->sink};
}

static void name_of(size_t step, char name[64]) { snprintf(name, 64, "attention/step%06zu.safetensors", step); }

bool snapshot_write(const Snapshot *s, const Directory *directory, const char *name, Error *err) {
    char step[32], text[4 * SNAPSHOT_TEXT_MAX + 1], *end = text;
    NamedArray arrays[TENSORS];
    *text = 0;
    for (size_t i = 0; i < s->T; i++) end += utf8_encode(s->text[i], end);
    snprintf(step, sizeof step, "%zu", s->step);
    list_tensors(s, arrays);
    return safetensors_save(directory, name, arrays, TENSORS, (const Metadata[]){{"step", step}, {"text", text}}, 2,
                            err);
}

bool snapshot_save(const Snapshot *s, const Directory *directory, Error *err) {
    char name[64];
    name_of(s->step, name);
    return snapshot_write(s, directory, name, err);
}

/* Decodes a text of at most SNAPSHOT_TEXT_MAX characters; returns their number, 0 where it is longer or not UTF-8. */
static size_t decode(const char *text, uint32_t characters[SNAPSHOT_TEXT_MAX]) {
    size_t count = 0, size = text ? strlen(text) : 0;
    for (size_t at = 0, length; at < size; at += length) {
        length = count < SNAPSHOT_TEXT_MAX ? utf8_decode(text + at, size - at, &characters[count]) : 0;
        if (length == 0) return 0;
        count++;
    }
    return count;
}

/* Reads the snapshot from an opened file, as snapshot_load says. */
static bool take_snapshot(Snapshot *s, const SafetensorsFile *file, size_t L, size_t H, size_t step, Error *err) {
    uint32_t text[SNAPSHOT_TEXT_MAX];
    NamedArray arrays[TENSORS];
    char expected[32];
    const char *said = safetensors_metadata(file, "step");
    snprintf(expected, sizeof expected, "%zu", step);
    if (!said || strcmp(said, expected) != 0)
        return usage_error(err, "%s is not of step %zu: it says another step, or none", file->path, step);
    const size_t T = decode(safetensors_metadata(file, "text"), text);
    if (T == 0) return usage_error(err, "%s lacks its text, of 1 to %d characters", file->path, (int)SNAPSHOT_TEXT_MAX);
    if (!snapshot_make(s, L, H, text, T, err)) return false;
    s->step = step;
    list_tensors(s, arrays);
    return safetensors_take(file, arrays, TENSORS, "the model of config.ini", err) && safetensors_check(file, err);
}

bool snapshot_load(Snapshot *s, const char *directory, const Config *config, size_t step, Error *err) {
    const size_t L = (size_t)config->model.layers, H = (size_t)config->model.heads;
    const size_t most = size_mul(size_mul(L, H), TENSORS * sizeof(float) * SNAPSHOT_TEXT_MAX * SNAPSHOT_TEXT_MAX);
    char name[64], path[4096];
    SafetensorsFile file;
    *s = (Snapshot){0};
    name_of(step, name);
    if (!path_join(path, sizeof path, directory, name, err)) return false;
    const bool ok = safetensors_open(&file, path, most, err) && take_snapshot(s, &file, L, H, step, err);
    safetensors_close(&file);
    return ok;
}
