/* The model of a run, for the page's own decoder (decoder.js): the parameters of the last checkpoint, the vocabulary,
   and some windows of the validation split.

   The parameters are in fp16, not in bf16: a trained weight is far below fp16's largest number, 65504, and fp16 keeps
   11 binary digits of it where bf16 keeps 8. lab/tests/report_decoder.py measures what this costs. */
#include <math.h>

#include "base/files.h"
#include "base/memory.h"
#include "lab/report/report.h"
#include "run/checkpoint.h"
#include "train/evaluate.h"

/* The most parameters for `auto`, 2 MB in fp16; windows for the curve of losses; bytes of a window's position. */
enum { AUTO_PARAMETERS = 1000000, EXCERPT = 8, POSITION_BYTES = 12, HALF_INFINITY = 0x7c00 };

Json *report_numbers(const void *numbers, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    const unsigned char *bytes = numbers;
    char *text = memory_make(4 * (size / 3 + 1) + 1, 1, "numbers in base64"), *out = text;
    for (size_t i = 0; i < size; i += 3) {
        const size_t rest = size - i;
        const unsigned group = (unsigned)bytes[i] << 16 | (rest > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                               (rest > 2 ? (unsigned)bytes[i + 2] : 0);
        for (size_t k = 0; k < 4; k++) *out++ = digits[k <= rest ? group >> (18 - 6 * k) & 63 : 64];
    }
    Json *json = js_text(text);
    memory_free(text);
    return json;
}

/* Returns the magnitude of x in fp16 (IEEE 754 binary16), rounded to nearest, ties to even; HALF_INFINITY from 65520
   on. A number in fp16 is an integer below 2048 times a power of two. Adding the integer's highest bit raises the
   exponent by 1, as the format requires. */
static unsigned half_of(double x) {
    int exponent;
    if (x >= 65520) return HALF_INFINITY;
    frexp(x, &exponent);
    const int unit = exponent > -13 ? exponent - 11 : -24; /* the exponent of the last digit */
    return (unsigned)((unit + 24) * 1024 + (int)rint(ldexp(x, -unit)));
}

/* Adds the tensors' names, shapes and numbers. Returns false if a number is too large for fp16. */
static bool add_tensors(Json *json, const Model *m) {
    Json *tensors = js_list(json, "tensors");
    const size_t count = m->tensors.parameters;
    uint16_t *halves = memory_make(count, sizeof *halves, "the page's parameters"), *next = halves;
    bool fits = true;
    for (const Tensor *t = m->tensors.items; t < m->tensors.items + m->tensors.count; t++) {
        Json *described = js_array();
        js_append(described, js_text(t->name));
        for (size_t d = 0; d < t->dimensions; d++) js_append(described, js_size(t->size[d]));
        js_append(tensors, described);
        for (size_t i = 0; i < t->count; i++) {
            const double x = (double)m->parameters[t->offset + i];
            const unsigned half = half_of(fabs(x));
            fits = fits && half < HALF_INFINITY;
            *next++ = (uint16_t)(half | (signbit(x) ? 0x8000 : 0));
        }
    }
    js_set(json, "parameters", report_numbers(halves, count * sizeof *halves));
    memory_free(halves);
    return fits;
}

static Json *ids_json(const int32_t *ids, size_t count) {
    Json *list = js_array();
    for (size_t i = 0; i < count; i++) js_append(list, js_integer(ids[i]));
    return list;
}

static void load_corpus(void *run) { run_load_corpus(run); }

/* Adds windows at even distances. If the text is missing or has changed, "no_excerpt" says so. */
static void add_excerpt(Json *json, Run *run, size_t T) {
    Error error;
    if (!protect(load_corpus, run, &error)) {
        if (error.status != STATUS_USAGE) error_raise_again(&error);
        js_set(json, "no_excerpt", js_text(error.message));
        return;
    }
    int32_t *tokens = memory_make((size_t)2 * EXCERPT * T, sizeof *tokens, "the windows of a text");
    int32_t *targets = tokens + (size_t)EXCERPT * T;
    Json *excerpt = js_list(json, "excerpt");
    const size_t windows = validation_batch(&run->corpus, EXCERPT, T, tokens, targets);
    for (size_t i = 0; i < windows; i++) {
        Json *window = js_object();
        js_set(window, "tokens", ids_json(tokens + i * T, T));
        js_set(window, "targets", ids_json(targets + i * T, T));
        js_append(excerpt, window);
    }
    memory_free(tokens);
    memory_free(run->corpus.ids);
}

static Json *left_out(const char *reason) {
    Json *json = js_object();
    js_set(json, "left_out", js_text(reason));
    return json;
}

static Json *model_json(Run *run, Model *m) {
    Json *json = js_object();
    m->parameters = memory_make(m->tensors.flat, sizeof *m->parameters, "the parameters");
    const RunState state = checkpoint_load(run, CHECKPOINT_LAST, m, (Moments){0});
    const bool fits = add_tensors(json, m);
    memory_free(m->parameters);
    if (!fits) return left_out("a parameter is above 65504, the largest number of the page's format, fp16");
    Json *characters = js_list(json, "vocabulary");
    for (size_t i = 0; i < run->vocabulary.count; i++) js_append(characters, js_integer(run->vocabulary.characters[i]));
    js_set(json, "step", js_size(state.step));
    js_set(json, "multiplier", js_number((double)divisor_multiplier(m->shape.attention.divisor)));
    add_excerpt(json, run, m->shape.T);
    return json;
}

/* Returns why a model of this size is left out of the page; NULL: it is not. */
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

/* The arguments of report_model, and the model that it returns. */
typedef struct {
    const char *directory;
    double *room;
    Json *model;
} Question;

static void read_model(void *question) {
    Question *q = question;
    Run run;
    Model model = {0};
    run_open(&run, q->directory, NULL, 0, false);
    run_load_vocabulary(&run);
    model.shape = model_shape(&run.config, run.vocabulary.count);
    model.tensors = tensors_make(&model.shape);
    const PageModel wanted = run.config.log.page_model;
    const char *reason = reason_against(&model.shape, model.tensors.parameters, wanted, q->room);
    q->model = reason ? left_out(reason) : model_json(&run, &model);
}

Json *report_model(const char *directory, double *room) {
    Question question = {.directory = directory, .room = room};
    char path[PATH_CAPACITY];
    Error error;
    path_join(path, directory, "checkpoint/last.safetensors");
    if (!path_exists(path)) return left_out("the run has no checkpoint");
    if (protect(read_model, &question, &error)) return question.model;
    if (error.status != STATUS_USAGE) error_raise_again(&error);
    return left_out(error.message); /* damaged, or of a run that diverged */
}
