/* The table of keys. It alone describes a key: parsing, checking, help and the resolved copy walk it. To add a key, add
   a member to Config and an entry here. The defaults are written as in a file and go through the same parser. Below the
   table, sections and keys are found by their names, and a name that does not exist gets a message. */
#include <string.h>

#include "base/text.h"
#include "config/table.h"

/* NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member takes none. */
#define FIELD(s, k) .section = #s, .name = #k, .full = #s "." #k, .offset = offsetof(Config, s.k)
#define INTEGER(lo, hi) .kind = KIND_INTEGER, .least = (lo), .most = (hi)
#define OR_WORD(word)                                                                                                  \
    .choices = (const char *const[]) { word, NULL }
#define NUMBER(lo, hi) .kind = KIND_NUMBER, .low = (lo), .high = (hi)
#define CHOICE(...)                                                                                                    \
    .kind = KIND_CHOICE, .choices = (const char *const[]) { __VA_ARGS__, NULL }
#define SWITCH CHOICE("no", "yes")
#define NAME(VALUE, name) #name,
#define TEXT(shortest) .kind = KIND_TEXT, .least = (shortest), .most = CONFIG_TEXT_MAX - 1

/* The sections in the order of the table, and after them [sweep]. */
static const char *const SECTIONS[] = {"data", "model", "attention", "train", "eval", "log", "sweep", NULL};

const Key KEYS[] = {
    {FIELD(data, corpus), TEXT(0), .initial = "", .shown = "(built-in)",
     .help = "Text file to learn, UTF-8; empty: the corpus built into the program."},
    {FIELD(data, val_fraction), NUMBER(0, 0.9), .above_low = true, .initial = "0.1",
     .help = "Fraction of the text kept for validation: its last part."},
    {FIELD(data, task), CHOICE("text", "recall"), .initial = "text",
     .help = "Learn the corpus, or to recall: generated pairs, then their keys alone."},
    {FIELD(data, recall_pairs), INTEGER(1, 26), .initial = "8",
     .help = "recall: pairs of a key and a value in a sequence."},

    {FIELD(model, layers), INTEGER(1, 1000), .initial = "2", .help = "Transformer blocks."},
    {FIELD(model, heads), INTEGER(1, 1024), .initial = "2", .help = "Attention heads in each layer."},
    {FIELD(model, d_model), INTEGER(1, 65536), .initial = "128", .help = "Width of the residual stream."},
    {FIELD(model, d_k), INTEGER(1, 65536), .shown = "d_model/heads",
     .help = "Width of a query, key and value; heads*d_k need not equal d_model."},
    {FIELD(model, d_ff), INTEGER(1, 1048576), .shown = "4*d_model",
     .help = "Width of the hidden layer of the feed-forward block."},
    {FIELD(model, context), INTEGER(1, 65536), .initial = "64",
     .help = "Context length: positions in a sequence, one character each."},
    {FIELD(model, norm), CHOICE("pre", "post"), .initial = "pre",
     .help = "LayerNorm before each block and at the end, or after each block only."},
    {FIELD(model, activation), .kind = KIND_CHOICE, .choices = (const char *const[]){ACTIVATION_TABLE(NAME) NULL},
     .initial = "gelu", .help = "Nonlinearity of the feed-forward block."},
    {FIELD(model, bias), SWITCH, .initial = "yes", .help = "Biases in the linear layers and LayerNorms."},
    {FIELD(model, dropout), NUMBER(0, 1), .below_high = true, .fast_only = true, .initial = "0",
     .help = "Probability, to 1/65536, that an activation is dropped in training."},
    {FIELD(model, tie_embeddings), SWITCH, .initial = "yes",
     .help = "Use the token embedding as the output layer too."},
    {FIELD(model, init), CHOICE("unit", "xavier", "torch", "gpt2"), .initial = "unit",
     .help = "Initial weights; unit gives queries and keys of unit variance."},
    {FIELD(model, qk_init_scale), NUMBER(0, 1e6), .above_low = true, .initial = "1",
     .help = "Factor of the initial W_Q, W_K, b_Q and b_K."},

    {FIELD(attention, score), CHOICE("dot", "additive"), .fast_only = true, .initial = "dot",
     .help = "Score of a query and a key: q.k, or v.tanh(q + k) with a learned v."},
    {FIELD(attention, qk_norm), CHOICE("none", "l2", "rms", "layer"), .fast_only = true, .initial = "none",
     .help = "Normalize queries and keys by head; rms and layer have learned gains."},
    {FIELD(attention, scale_divisor), .kind = KIND_SCALE, .shown = "sqrt_dk",
     .help = "What scores are divided by before softmax; additive: default none."},
    {FIELD(attention, switch_step), INTEGER(0, 1000000000), .initial = "0",
     .help = "Step from which on switch_divisor is the divisor; 0: never."},
    {FIELD(attention, switch_divisor), .kind = KIND_SCALE, .shown = "(same)",
     .help = "What the scores are divided by from switch_step on."},
    {FIELD(attention, scale_learned), CHOICE("no", "layer", "head"), .fast_only = true, .initial = "no",
     .help = "Learn the multiplier of the scores, which starts at 1/scale_divisor."},
    {FIELD(attention, scale_length), CHOICE("none", "log"), .fast_only = true, .initial = "none",
     .help = "Also multiply the scores of a query by ln(number of keys it sees)."},
    {FIELD(attention, softcap), NUMBER(0, 1e6), .fast_only = true, .initial = "0",
     .help = "Cap scores at X by X*tanh(score/X); 0: no cap."},
    {FIELD(attention, sink), CHOICE("none", "one", "learned"), .fast_only = true, .initial = "none",
     .help = "One more term in softmax's sum, exp(0) or exp(a learned number)."},
    {FIELD(attention, score_precision), CHOICE("fp32", "bf16", "fp16"), .fast_only = true, .initial = "fp32",
     .help = "Format that queries, keys and scores are rounded to."},
    {FIELD(attention, score_gradient), SWITCH, .fast_only = true, .initial = "yes",
     .help = "no: the backward pass takes attention weights as constants."},

    {FIELD(train, steps), INTEGER(1, 1000000000), .initial = "1000", .help = "Optimizer steps."},
    {FIELD(train, batch), INTEGER(1, 65536), .initial = "16", .help = "Sequences in a batch."},
    {FIELD(train, accumulate), INTEGER(1, 65536), .initial = "1", .help = "Batches whose gradients make one step."},
    {FIELD(train, shards), INTEGER(1, 65536), .shown = "2, or 1 where batch is odd",
     .help = "Parts of each batch whose gradients are summed in a tree: a power of two."},
    {FIELD(train, lr), NUMBER(0, 1e6), .above_low = true, .initial = "0.001",
     .help = "Peak learning rate, reached after the warmup."},
    {FIELD(train, min_lr), NUMBER(0, 1e6), .shown = "lr/10",
     .help = "Learning rate at the last step, reached by a cosine; at most lr."},
    {FIELD(train, warmup), INTEGER(0, 1000000000), .initial = "100",
     .help = "Steps over which the learning rate rises: lr*(t+1)/(warmup+1)."},
    {FIELD(train, optimizer), CHOICE("adamw", "sgd", "muon"), .initial = "adamw",
     .help = "How a gradient becomes an update."},
    {FIELD(train, beta1), NUMBER(0, 1), .below_high = true, .initial = "0.9",
     .help = "adamw: decay rate of the first moment."},
    {FIELD(train, beta2), NUMBER(0, 1), .below_high = true, .initial = "0.99",
     .help = "adamw: decay rate of the second moment."},
    {FIELD(train, eps), NUMBER(1e-30, 1), .initial = "1e-8",
     .help = "adamw: added to the square root of the second moment."},
    {FIELD(train, momentum), NUMBER(0, 1), .below_high = true, .shown = "0.9; muon: 0.95",
     .help = "sgd, muon: decay rate of the velocity; 0: the gradient alone."},
    {FIELD(train, muon_lr), NUMBER(0, 1e6), .above_low = true, .initial = "0.02",
     .help = "muon: peak learning rate of the blocks' matrices; lr is the others'."},
    {FIELD(train, weight_decay), NUMBER(0, 1000), .initial = "0.1",
     .help = "Decoupled weight decay of tensors of two dimensions; muon: of its own."},
    {FIELD(train, adamw_decay), NUMBER(0, 1000), .initial = "0",
     .help = "muon: decay of the embeddings and the output layer, which AdamW updates."},
    {FIELD(train, qk_lr_scale), NUMBER(0, 1e6), .initial = "1",
     .help = "Factor of lr for W_Q, W_K and biases, not of their decay; 0: as drawn."},
    {FIELD(train, grad_clip), NUMBER(0, 1e9), .initial = "1",
     .help = "Largest norm of the gradient, which is scaled down to it; 0: no clipping."},
    {FIELD(train, qk_clip), NUMBER(0, 1e9), .fast_only = true, .initial = "0",
     .help = "Above this score of a head its W_Q and W_K shrink; 0: no clipping."},
    {FIELD(train, precision), CHOICE("fp32", "bf16"), .fast_only = true, .initial = "fp32",
     .help = "Of what products multiply, and of kept activations; all else is fp32."},
    {FIELD(train, engine), CHOICE("fast", "plain"), .initial = "fast",
     .help = "What computes the passes; plain: src/plain/plain.c, in loops, for reading."},
    {FIELD(train, seed), INTEGER(0, SIZE_MAX / 2), .initial = "1",
     .help = "Decides the initial weights, the batches and the dropout."},

    {FIELD(eval, every), INTEGER(0, 1000000000), OR_WORD("doubling"), .initial = "250",
     .help = "Steps between validation losses; 0: only at the end; doubling: 1, 2, 4 ..."},
    {FIELD(eval, batches), INTEGER(0, 1000000000), .initial = "0",
     .help = "Batches of a validation loss, the same each time; 0: the whole split."},

    {FIELD(log, out), TEXT(1), .shown = "runs/NAME",
     .help = "Directory of the run; NAME is the config's file name without .ini."},
    {FIELD(log, every), INTEGER(1, 1000000000), .initial = "10", .help = "Steps between rows of metrics.csv."},
    {FIELD(log, attention_every), INTEGER(0, 1000000000), OR_WORD("doubling"), .initial = "250",
     .help = "Steps between attention snapshots; 0: start and end; doubling: 1, 2, 4 ..."},
    {FIELD(log, attention_text), TEXT(0), .initial = "", .shown = "(validation)",
     .help = "Text of the pictures; empty: the beginning of the validation split."},
    {FIELD(log, sample_tokens), INTEGER(0, 100000), .initial = "256",
     .help = "Characters of a text sampled while training; 0: none."},
    {FIELD(log, checkpoint_every), INTEGER(0, 1000000000), .initial = "1000",
     .help = "Steps between checkpoints; 0: only at the start, the end and a stop."},
    {FIELD(log, page_model), CHOICE("auto", "yes", "no"), .initial = "auto",
     .help = "Put the model into report.html; auto: up to a million parameters."},
};

const size_t KEY_COUNT = sizeof KEYS / sizeof *KEYS;
_Static_assert(sizeof KEYS / sizeof *KEYS <= CONFIG_KEYS_MAX, "Config.origin needs more entries");

bool config_is_given(const Config *config, size_t key) { return config->origin[key] != ORIGIN_DEFAULT; }

size_t key_at(size_t offset) {
    size_t i = 0;
    while (i < KEY_COUNT && KEYS[i].offset != offset) i++;
    return i;
}

const char *key_text(const Config *config, size_t offset, char out[96]) {
    const size_t key = key_at(offset);
    const int origin = config->origin[key];
    snprintf(out, 96, "%s = ", KEYS[key].full);
    config_value_text(config, key, out + strlen(out), 96 - strlen(out));
    if (origin > 0) text_append(out, 96, " (line %d)", origin);
    else if (origin != ORIGIN_SWEEP) text_append(out, 96, origin == ORIGIN_OVERRIDE ? " (--set)" : " (the default)");
    return out;
}

bool config_is_default(const Config *config, size_t key) {
    const Key *k = &KEYS[key];
    const char *member = (const char *)config + k->offset;
    char now[CONFIG_VALUE_MAX];
    if (k->kind == KIND_TEXT) return !*member;
    if (!k->initial) return !config_is_given(config, key);
    value_text(k, member, now, sizeof now);
    return strcmp(now, k->initial) == 0;
}

size_t config_key_count(void) { return KEY_COUNT; }
const char *config_key_name(size_t key) { return KEYS[key].full; }

bool config_key_is_text(size_t key) { return KEYS[key].kind == KIND_TEXT; }

void config_value_text(const Config *config, size_t key, char *out, size_t capacity) {
    value_text(&KEYS[key], (const char *)config + KEYS[key].offset, out, capacity);
}

void config_scores_title(const Config *config, size_t step, char *out, size_t capacity) {
    const char *between = " (";
    char value[CONFIG_VALUE_MAX];
    scale_title(config_divisor_choice(config, step), config->model.d_k, value, sizeof value);
    snprintf(out, capacity, "Scores divided by %s", value);
    for (const Key *key = KEYS; key < KEYS + KEY_COUNT; key++) {
        if (strcmp(key->section, "attention") != 0 || key->kind == KIND_SCALE || key->kind == KIND_INTEGER) continue;
        if (config_is_default(config, (size_t)(key - KEYS))) continue;
        value_text(key, (const char *)config + key->offset, value, sizeof value);
        text_append(out, capacity, "%s%s %s", between, key->name, value);
        between = ", ";
    }
    if (*between == ',')
        text_append(out, capacity, ")%s", config->attention.scale_learned == LEARNED_NO ? "" : " at first");
    if (config->attention.switch_step <= step) return;
    scale_title(config->attention.switch_divisor, config->model.d_k, value, sizeof value);
    text_append(out, capacity, ", from step %zu on by %s", config->attention.switch_step, value);
}

void section_check(const char *section) {
    char shown[64], list[128] = "", hint[64] = ".";
    size_t best = SIZE_MAX;
    for (const char *const *name = SECTIONS; *name; name++) {
        if (strcmp(section, *name) == 0) return;
        if (text_is_nearer(section, *name, &best)) snprintf(hint, sizeof hint, "; did you mean [%s]?", *name);
        text_append(list, sizeof list, "%s%s", *list ? ", " : "", *name);
    }
    text_clip(section, 40, shown, sizeof shown);
    config_error("there is no section [%s]%s The sections: %s", shown, hint, list);
}

/* Sets the hint to "; did you mean train.lr?": the nearest key of the section or, if none is near, of all sections. If
   no key is near, leaves the hint unchanged. */
static void hint_at_key(const char *section, const char *name, char *hint, size_t capacity) {
    const char *dot = strchr(name, '.'), *last = dot ? dot + 1 : name;
    size_t best = SIZE_MAX;
    for (int all = 0; all < 2 && best == SIZE_MAX; all++)
        for (const Key *key = KEYS; key < KEYS + KEY_COUNT; key++) {
            if (!all && strcmp(key->section, section) != 0) continue;
            if (text_is_nearer(last, key->name, &best) || text_is_nearer(name, key->full, &best))
                snprintf(hint, capacity, "; did you mean %s?", key->full);
        }
}

void config_settings_meant(const char *name, const char *value, char *out, size_t capacity) {
    static const char sweep[] = "sweep.";
    const bool swept = strncmp(name, sweep, sizeof sweep - 1) == 0;
    char spelled[64];
    text_clip(swept ? name + sizeof sweep - 1 : name, sizeof spelled - 4, spelled, sizeof spelled);
    for (char *c = spelled; *c; c++)
        if (*c == '-') *c = '_';
    *out = 0;
    for (const Key *key = KEYS; key < KEYS + KEY_COUNT; key++)
        if (strcmp(key->name, spelled) == 0 || strcmp(key->full, spelled) == 0)
            text_append(out, capacity, "%s--set %s%s=%.100s", *out ? " or " : "", swept ? sweep : "", key->full, value);
}

size_t key_find(const char *section, const char *name) {
    const bool anywhere = !*section || strcmp(section, "sweep") == 0;
    char found[128] = "", list[512] = "", hint[96] = "", shown[64];
    size_t count = 0, key = 0;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const Key *k = &KEYS[i];
        if (!anywhere && strcmp(k->section, section) != 0) continue;
        text_append(list, sizeof list, "%s%s", *list ? ", " : "", k->name);
        if (strcmp(k->name, name) != 0 && !(anywhere && strcmp(k->full, name) == 0)) continue;
        text_append(found, sizeof found, "%s%s", count ? " or " : "", k->full);
        key = i;
        count++;
    }
    if (count == 1) return key;
    if (count > 1) config_error("%s needs its section: write %s", name, found);
    hint_at_key(section, name, hint, sizeof hint);
    text_clip(name, 40, shown, sizeof shown);
    if (anywhere) config_error("there is no key %s%s", shown, hint);
    config_error("[%s] has no key %s%s It accepts: %s", section, shown, *hint ? hint : ".", list);
}
