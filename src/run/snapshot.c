/* Snapshots of attention: in memory, as a file, and read back. A file is checked against the config, since the pictures
   index it by the config's layers and heads. */
#include "run/snapshot.h"

#include <string.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "base/text.h"

enum { TENSORS = 4 };

Snapshot snapshot_make(size_t L, size_t H, const uint32_t *text, size_t T) {
    const size_t heads = L * H, count = heads * T * T;
    Snapshot s = {.L = L, .H = H, .T = T};
    float *numbers = memory_make(2 * (count + heads), sizeof *numbers, "a snapshot of the attention");
    memcpy(s.text, text, T * sizeof *text);
    s.attention = (AttentionSnapshot){numbers, numbers + count, numbers + 2 * count, numbers + 2 * count + heads};
    return s;
}

static void list_tensors(const Snapshot *s, NamedArray arrays[TENSORS]) {
    const AttentionSnapshot *a = &s->attention;
    arrays[0] = (NamedArray){"scores", ARRAY_F32, 4, {s->L, s->H, s->T, s->T}, a->scores};
    arrays[1] = (NamedArray){"weights", ARRAY_F32, 4, {s->L, s->H, s->T, s->T}, a->weights};
    arrays[2] = (NamedArray){"multiplier", ARRAY_F32, 2, {s->L, s->H}, a->multiplier};
    arrays[3] = (NamedArray){"sink", ARRAY_F32, 2, {s->L, s->H}, a->sink};
}

void snapshot_name(size_t step, char name[64]) { snprintf(name, 64, "attention/step%06zu.safetensors", step); }

void snapshot_put(const Snapshot *s, FILE *out) {
    char step[32], text[4 * SNAPSHOT_TEXT_MAX + 1], *end = text;
    NamedArray arrays[TENSORS];
    *text = 0;
    for (size_t i = 0; i < s->T; i++) end += utf8_encode(s->text[i], end);
    snprintf(step, sizeof step, "%zu", s->step);
    list_tensors(s, arrays);
    safetensors_write(out, arrays, TENSORS, (const Metadata[]){{"step", step}, {"text", text}}, 2);
}

void snapshot_write(const Snapshot *s, const Directory *directory, const char *name) {
    FileWriter *writer = file_writer_open(directory, name);
    snapshot_put(s, writer->stream);
    file_writer_commit(writer);
}

void snapshot_save(const Snapshot *s, const Directory *directory) {
    char name[64];
    if (!directory) return;
    snapshot_name(s->step, name);
    snapshot_write(s, directory, name);
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

Snapshot snapshot_load(const char *directory, const Config *config, size_t step) {
    const size_t L = config->model.layers, H = config->model.heads;
    const size_t most = size_mul(size_mul(L, H), TENSORS * sizeof(float) * SNAPSHOT_TEXT_MAX * SNAPSHOT_TEXT_MAX);
    char name[64], path[PATH_CAPACITY], expected[32];
    uint32_t text[SNAPSHOT_TEXT_MAX];
    NamedArray arrays[TENSORS];
    snapshot_name(step, name);
    path_join(path, directory, name);
    const SafetensorsFile file = safetensors_open(path, most);
    const char *said = safetensors_metadata(&file, "step");
    snprintf(expected, sizeof expected, "%zu", step);
    if (!said || strcmp(said, expected) != 0)
        usage_error("%s is not of step %zu: it says another step, or none", path, step);
    const size_t T = decode(safetensors_metadata(&file, "text"), text);
    if (T == 0) usage_error("%s lacks its text, of 1 to %d characters", path, (int)SNAPSHOT_TEXT_MAX);
    Snapshot s = snapshot_make(L, H, text, T);
    s.step = step;
    list_tensors(&s, arrays);
    safetensors_take(&file, arrays, TENSORS, "the model of config.ini");
    memory_free(file.bytes);
    return s;
}
