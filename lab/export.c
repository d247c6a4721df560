/* The verb export writes a model as GPT-2 of Hugging Face transformers: which models GPT-2 can represent, its tensors,
   and its files. Both have the same names and orientation of tensors. They differ in four things: GPT-2 always has
   biases; its heads have the width d_model / heads; its divisor is the square root of this width; and its names have a
   prefix. */
#include "lab/export.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "lab/lab.h"
#include "ops/activation.h"
#include "ops/layernorm.h"
#include "run/checkpoint.h"

/* --- which models */

/* The keys of [attention], and why GPT-2 cannot represent a value other than the default; NULL: it can. A divisor,
   switched or learned, becomes part of W_Q and b_Q. score_gradient changes only the backward pass. */
static const struct {
    const char *key, *reason;
} ATTENTION[] = {
    {"attention.scale_divisor", NULL},
    {"attention.switch_step", NULL},
    {"attention.switch_divisor", NULL},
    {"attention.scale_learned", NULL},
    {"attention.score_gradient", NULL},
    {"attention.score", "attention.score: GPT-2's scores are dot products"},
    {"attention.qk_norm", "attention.qk_norm: GPT-2 does not normalize queries and keys"},
    {"attention.softcap", "attention.softcap: GPT-2 does not cap scores"},
    {"attention.sink", "attention.sink: GPT-2's softmax has no sink"},
    {"attention.scale_length", "attention.scale_length: GPT-2 has one divisor for rows of all lengths"},
    {"attention.score_precision", "attention.score_precision: GPT-2 does not round scores"},
};

/* Returns why GPT-2 cannot represent a value of this key: for a key outside the table, such as that of a new way to
   score, the key itself. */
static const char *reason_against(const char *key) {
    for (size_t i = 0; i < sizeof ATTENTION / sizeof *ATTENTION; i++)
        if (strcmp(key, ATTENTION[i].key) == 0) return ATTENTION[i].reason;
    return key;
}

static _Noreturn void refuse(const char *reason) { usage_error("GPT-2 cannot hold this model, because of %s", reason); }

static void check_attention(const Config *c) {
    static const char SECTION[] = "attention.";
    for (size_t key = 0; key < config_key_count(); key++) {
        const char *name = config_key_name(key);
        if (strncmp(name, SECTION, strlen(SECTION)) != 0 || config_is_default(c, key)) continue;
        const char *reason = reason_against(name);
        if (reason) refuse(reason);
    }
}

void export_check(const Config *c) {
    if (c->data.task == TASK_RECALL)
        refuse("data.task = recall: its records are no text, and its loss counts answers alone");
    if (c->model.norm == NORM_POST)
        refuse("model.norm = post: GPT-2 has each LayerNorm before its block, and one at the end");
    check_attention(c);
    const size_t H = c->model.heads, D = c->model.d_k, C = c->model.d_model;
    if (C % H != 0 || size_mul(H, D) > C)
        usage_error("GPT-2 cannot hold this model: its heads have d_model / heads columns each, at least d_k, "
                    "and here d_model is %zu, heads %zu and d_k %zu",
                    C, H, D);
}

/* --- the tensors */

/* Returns the factor of a head's queries: the square root of GPT-2's head width, divided by the run's divisor (or times
   the learned multiplier). Then GPT-2's division gives the run's scores. The factor is exactly 1 if both divisors are
   equal. */
static double query_factor(const Model *m, size_t gpt2_width, size_t layer, size_t head) {
    const AttentionConfig *a = &m->shape.attention;
    const real *learned = tensor_at(&m->tensors, m->parameters, ATTN_SCALE, layer);
    if (!learned) return sqrt((double)gpt2_width) / a->divisor;
    return sqrt((double)gpt2_width) * (double)learned[a->learned == LEARNED_HEAD ? head : 0];
}

/* Copies a tensor into GPT-2's tensor of the same name, which is zero before. If each head has columns or rows,
   the tensor is a row of blocks of `size` numbers, and GPT-2's blocks may be larger. */
static void copy_tensor(float *to, const real *from, const Model *m, const Tensor *t, size_t gpt2_width, size_t layer) {
    const size_t H = m->shape.attention.H, D = m->shape.attention.D, C = m->shape.C;
    const bool columns = t->role == ATTN_W || t->role == ATTN_B, rows = t->role == ATTN_PROJ_W;
    const size_t size = columns ? D : rows ? D * C : t->count;
    const size_t gpt2_size = columns ? gpt2_width : rows ? gpt2_width * C : t->count;
    for (size_t block = 0; block < t->count / size; block++) {
        const size_t part = block / H % ATTENTION_PARTS, head = block % H;
        const double factor = columns && part == QUERY ? query_factor(m, gpt2_width, layer, head) : 1;
        for (size_t i = 0; i < size; i++) to[block * gpt2_size + i] = (float)(factor * (double)from[block * size + i]);
    }
}

ExportedTensors export_tensors(const Model *m) {
    ModelShape shape = m->shape;
    ExportedTensors e;
    shape.bias = true;
    shape.attention.D = shape.C / shape.attention.H;
    shape.attention.learned = LEARNED_NO;
    e.table = tensors_make(&shape);
    e.numbers = memory_make(e.table.flat, sizeof *e.numbers, "the numbers of GPT-2's tensors");
    for (size_t layer = 0; layer < shape.L; layer++)
        for (TensorRole role = 0; role < ROLE_COUNT; role++) {
            const Tensor *to = tensor_find(&e.table, role, layer), *from = tensor_find(&m->tensors, role, layer);
            if (to && from)
                copy_tensor(e.numbers + to->offset, m->parameters + from->offset, m, from, shape.attention.D, layer);
        }
    return e;
}

static void save_tensors(const Model *m, const Directory *directory, const char *name) {
    const ExportedTensors e = export_tensors(m);
    NamedArray *arrays = memory_make(e.table.count, sizeof *arrays, "a list of tensors");
    for (size_t i = 0; i < e.table.count; i++) {
        const Tensor *t = &e.table.items[i];
        arrays[i] = (NamedArray){.type = ARRAY_F32,
                                 .dimensions = t->dimensions,
                                 .shape = {t->size[0], t->size[1]},
                                 .data = e.numbers + t->offset};
        snprintf(arrays[i].name, sizeof arrays[i].name, "%s%s", t->role == LM_HEAD ? "" : "transformer.", t->name);
    }
    safetensors_save(directory, name, arrays, e.table.count, NULL, 0);
}

/* --- the other files */

static void add_config(const Run *run, Json *config) {
    const Config *c = &run->config;
    js_set(config, "vocab_size", js_size(run->vocabulary.count));
    js_set(config, "n_positions", js_size(c->model.context));
    js_set(config, "n_embd", js_size(c->model.d_model));
    js_set(config, "n_layer", js_size(c->model.layers));
    js_set(config, "n_head", js_size(c->model.heads));
    js_set(config, "n_inner", js_size(c->model.d_ff));
    js_set(config, "activation_function", js_text(ACTIVATIONS[c->model.activation].gpt2));
    js_set(config, "layer_norm_epsilon", js_number(LAYERNORM_EPSILON));
    js_set(config, "tie_word_embeddings", js_boolean(c->model.tie_embeddings));
    js_set(config, "embd_pdrop", js_number(c->model.dropout));
    js_set(config, "attn_pdrop", js_number(c->model.dropout));
    js_set(config, "resid_pdrop", js_number(c->model.dropout));
}

/* Text is drawn from all characters, as by the verb sample. It is half a context long, so that a prompt of the other
   half fits. */
static void add_generation(const Run *run, Json *config) {
    js_set(config, "max_new_tokens", js_size((run->config.model.context + 1) / 2));
}

/* A token is a character. `<unk>` is not in the vocabulary, so an unknown character is an error, as in this program. */
static void add_vocabulary(const Run *run, Json *tokenizer) {
    Json *model = js_set(tokenizer, "model", js_object()), *vocabulary = js_set(model, "vocab", js_object());
    js_set(model, "type", js_text("WordLevel"));
    js_set(model, "unk_token", js_text("<unk>"));
    for (size_t id = 0; id < run->vocabulary.count; id++) {
        char character[5];
        utf8_encode(run->vocabulary.characters[id], character);
        js_set(vocabulary, character, js_size(id));
    }
}

static void add_tokenizer_config(const Run *run, Json *config) {
    js_set(config, "model_max_length", js_size(run->config.model.context));
}

/* The files of JSON: the entries that all exports have, and a function that adds those of the run. They are written in
   this order, after the tensors; config.json is the last, since a directory without it is no model. There are no
   special tokens: none begins or ends a text, and none pads it. torch_dtype is the name of dtype before transformers 5.
 */
#define TENSORS "model.safetensors"
#define JSON(...) #__VA_ARGS__
static const struct {
    const char *name, *constant;
    void (*add)(const Run *run, Json *json);
} FILES[] = {
    {"generation_config.json",
     JSON({"do_sample" : true, "top_k" : 0, "bos_token_id" : null, "eos_token_id" : null, "pad_token_id" : null}),
     add_generation},
    {"tokenizer.json", JSON({
         "version" : "1.0",
         "truncation" : null,
         "padding" : null,
         "added_tokens" : [],
         "normalizer" : null,
         "pre_tokenizer" :
             {"type" : "Split", "pattern" : {"Regex" : "[\\s\\S]"}, "behavior" : "Isolated", "invert" : false},
         "post_processor" : null,
         "decoder" : {"type" : "Fuse"}
     }),
     add_vocabulary},
    {"tokenizer_config.json",
     JSON({"tokenizer_class" : "PreTrainedTokenizerFast", "clean_up_tokenization_spaces" : false}),
     add_tokenizer_config},
    {"config.json", JSON({
         "architectures" : ["GPT2LMHeadModel"],
         "model_type" : "gpt2",
         "scale_attn_weights" : true,
         "dtype" : "float32",
         "torch_dtype" : "float32",
         "bos_token_id" : null,
         "eos_token_id" : null,
         "pad_token_id" : null
     }),
     add_config},
};
enum { FILE_COUNT = sizeof FILES / sizeof *FILES };

/* --- the directory */

/* A directory that is filled by an export. */
typedef struct {
    char path[RESULTS_PATH];
    int fd;              /* 0 or -1: it is not open */
    bool made, complete; /* made: by this export */
} Export;

/* Closes the directory. After an error makes it what it was. A file that is being written is no longer there. */
static void end_export(void *block) {
    const Export *e = block;
    for (size_t i = 0; !e->complete && e->fd > 0 && i <= FILE_COUNT; i++)
        unlinkat(e->fd, i < FILE_COUNT ? FILES[i].name : TENSORS, 0);
    if (e->fd > 0) close(e->fd);
    if (e->made && !e->complete && rmdir(e->path) != 0) error_append("; %s is left: remove it", e->path);
}

/* Raises an error unless there is nothing at `path`, or an empty directory. */
static void check_path(const char *path) {
    char begun[PATH_CAPACITY];
    path_join(begun, path, "run.json" FILE_NEW);
    if (path_find(path) && (!results_unused(path) || path_exists(begun)))
        usage_error("%s is there already: name a new or an empty directory after --hf", path);
}

static void write_files(const Run *run, const Model *m, const char *path) {
    Export *e = memory_make_undone(sizeof *e, end_export, "an export");
    snprintf(e->path, sizeof e->path, "%s", path);
    e->made = directory_make_new(path);
    const Directory *directory = directory_open(path);
    e->fd = fcntl(directory->fd, F_DUPFD_CLOEXEC, 3); /* this one is open when the other is closed */
    if (e->fd < 0) runtime_error("cannot open the directory %s: %s", path, strerror(errno));
    save_tensors(m, directory, TENSORS);
    for (size_t i = 0; i < FILE_COUNT; i++) {
        Json *json = js_parse(FILES[i].constant, strlen(FILES[i].constant), FILES[i].name);
        FILES[i].add(run, json);
        js_save(json, JS_INDENTED, directory, FILES[i].name);
    }
    e->complete = true;
}

/* --- the verb */

static const char *hf;
static bool best;

static const Option OPTIONS[] = {
    {"hf", "DIR", "a new or an empty directory, for Hugging Face transformers", OPTION_DIRECTORY, &hf, 0, 0},
    {"best", NULL, "the weights of the lowest validation loss, not the last", OPTION_SWITCH, &best, 0, 0},
    {0},
};

static int run_export(const Command *command) {
    static Run run;
    char path[RESULTS_PATH];
    Model model;
    if (!hf) usage_error("name a new or an empty directory: %s --hf DIR", command_to_copy("export", command->target));
    results_name(path, hf, 1);
    run_open(&run, command->target, NULL, 0, false);
    export_check(&run.config);
    check_path(path);
    run_load_model(&run, &model, 1, command_threads(command));
    if (best) run.step = checkpoint_load(&run, CHECKPOINT_BEST, &model, (Moments){0}).step;
    write_files(&run, &model, path);
    print_plain(stdout, "model     %s, of step %zu", path, run.step);
    return 0;
}

const Verb export_verb = {
    .name = "export",
    .target = "RUN_DIR",
    .what = "Writes a trained model in GPT-2's layout, with its tokenizer, for Hugging Face\n"
            "transformers. The divisor is folded into the queries.",
    .options = OPTIONS,
    .run = run_export,
};
