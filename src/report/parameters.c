/* The model of a run, for the page's own decoder (decoder.js): the parameters of the last checkpoint, the vocabulary,
   and some windows of the validation split.

   The parameters are in fp16, not in bf16: a trained weight is far below fp16's largest number, 65504, and fp16 keeps
   11 binary digits of it where bf16 keeps 8. tests/report_decoder.py measures what this costs. */
#include <math.h>
#include <stdlib.h>

#include "base/files.h"
#include "report/report.h"
#include "run/checkpoint.h"
#include "train/evaluate.h"

/* The most parameters for `auto`, 2 MB in fp16; windows for the curve of losses; bytes of a window's position. */
enum { AUTO_PARAMETERS = 1000000, EXCERPT = 8, POSITION_BYTES = 12, HALF_INFINITY = 0x7c00 };

/* The magnitude of x in fp16 (IEEE 754 binary16), rounded to nearest, ties to even; HALF_INFINITY from 65520 on. A
   number in fp16 is an integer below 2048 times a power of two. Adding the integer's highest bit raises the exponent by
   1, as the format requires. */
static unsigned half_of(double x) {
    int exponent;
    if (x >= 65520) return HALF_INFINITY;
    frexp(x, &exponent);
    const int unit = exponent > -13 ? exponent - 11 : -24; /* the exponent of the last digit */
    return (unsigned)((unit + 24) * 1024 + (int)rint(ldexp(x, -unit)));
}

/* Adds the tensors' names, shapes and numbers. *fits becomes false if a number is too large for fp16. */
static bool add_tensors(Json *json, const Model *m, bool *fits, Error *err) {
    Json *tensors = js_list(json, "tensors");
    uint16_t *halves = calloc(m->tensors.parameters, sizeof *halves), *next = halves;
    if (!halves) return runtime_error(err, "no memory for the page's parameters");
    *fits = true;
    for (const Tensor *t = m->tensors.items; t < m->tensors.items + m->tensors.count; t++) {
        Json *described = js_array();
        js_append(described, js_text(t->name));
        for (size_t d = 0; d < t->dimensions; d++) js_append(described, js_integer((int64_t)t->size[d]));
        js_append(tensors, described);
        for (size_t i = 0; i < t->count; i++) {
            const double x = (double)m->parameters[t->offset + i];
            const unsigned half = half_of(fabs(x));
            *fits = *fits && half < HALF_INFINITY;
            *next++ = (uint16_t)(half | (signbit(x) ? 0x8000 : 0));
        }
    }
    char *text = text_base64(halves, m->tensors.parameters * sizeof *halves);
    free(halves);
    if (!text) return runtime_error(err, "no memory for the page's parameters");
    js_set(json, "parameters", js_text(text));
    free(text);
    return true;
}

static Json *ids_json(const int32_t *ids, size_t count) {
    Json *list = js_array();
    for (size_t i = 0; i < count; i++) js_append(list, js_integer(ids[i]));
    return list;
}

/* Adds windows at even distances. If the text is missing or has changed, "no_excerpt" says so. */
static bool add_excerpt(Json *json, Run *run, size_t T, Error *err) {
    if (!run_load_corpus(run, err)) {
        js_set(json, "no_excerpt", js_text(err->message));
        return err->status == STATUS_USAGE;
    }
    int32_t *tokens = calloc((size_t)2 * EXCERPT * T, sizeof *tokens);
    if (!tokens) return runtime_error(err, "no memory for windows of %zu characters", T);
    int32_t *targets = tokens + (size_t)EXCERPT * T;
    Json *excerpt = js_list(json, "excerpt");
    const size_t windows = validation_batch(&run->corpus, EXCERPT, T, tokens, targets);
    for (size_t i = 0; i < windows; i++) {
        Json *window = js_object();
        js_set(window, "tokens", ids_json(tokens + i * T, T));
        js_set(window, "targets", ids_json(targets + i * T, T));
        js_append(excerpt, window);
    }
    free(tokens);
    return true;
}

static bool add_model(Json *json, Run *run, Model *m, Error *err) {
    RunState state;
    bool fits = false;
    m->parameters = calloc(m->tensors.flat + 1, sizeof *m->parameters); /* never 0 bytes */
    if (!m->parameters) return runtime_error(err, "no memory for the parameters");
    if (!checkpoint_load(run, CHECKPOINT_LAST, m, (Moments){0}, &state, err) || !add_tensors(json, m, &fits, err))
        return false;
    if (!fits) {
        js_set(json, "left_out", js_text("a parameter is above 65504, the largest number of the page's format, fp16"));
        js_remove(json, "parameters");
        return true;
    }
    Json *characters = js_list(json, "vocabulary");
    for (size_t i = 0; i < run->vocabulary.count; i++) js_append(characters, js_integer(run->vocabulary.characters[i]));
    js_set(json, "step", js_integer((int64_t)state.step));
    js_set(json, "multiplier", js_number((double)m->shape.attention.multiplier));
    return add_excerpt(json, run, m->shape.T, err);
}

/* Why a model of this size is not in the page; NULL if it is. */
static const char *reason_against(const ModelShape *shape, size_t parameters, PageModel wanted, double *room) {
    const double bytes = (double)parameters * 2 * 4 / 3 + 2.0 * EXCERPT * (double)shape->T * POSITION_BYTES;
    if (wanted == PAGE_MODEL_YES) return NULL;
    if (wanted == PAGE_MODEL_NO) return "log.page_model = no";
    if (parameters > AUTO_PARAMETERS)
        return "its parameters would take more than 2 MB; log.page_model = yes in config.ini takes it in";
    if (bytes > *room) return "the page would become too large; a page of the run alone may have it";
    *room -= bytes;
    return NULL;
}

bool report_model(Json *json, const char *directory, bool diverged, double *room, Error *err) {
    static Run run; /* large */
    Model model = {0};
    char path[4096];
    bool there;
    if (!path_join(path, sizeof path, directory, "checkpoint/last.safetensors", err) || !path_find(path, &there, err))
        return false;
    if (!there) {
        js_set(json, "left_out", js_text("the run has no checkpoint"));
        return true;
    }
    bool ok = run_open(&run, directory, NULL, 0, false, err);
    if (ok) {
        model.shape = model_shape(&run.config, run.vocabulary.count);
        ok = tensors_make(&model.tensors, &model.shape, err);
    }
    if (ok) {
        const char *reason =
            reason_against(&model.shape, model.tensors.parameters, (PageModel)run.config.log.page_model, room);
        if (reason) js_set(json, "left_out", js_text(reason));
        else ok = add_model(json, &run, &model, err);
    }
    if (!ok && diverged && err->status == STATUS_USAGE) { /* its parameters may no longer be numbers */
        js_set(json, "left_out", js_text(err->message));
        ok = true;
    }
    tensors_free(&model.tensors);
    free(model.parameters);
    run_close(&run);
    return ok;
}
