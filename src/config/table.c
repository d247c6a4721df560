/* The one table of settings. A key is described here and nowhere else; parsing, checking, help and the resolved copy
   walk this table. To add a key: a member in Config, an entry here. The defaults are written as in a file and go
   through the same parser. Below the table: finding a section or key by its name, and what to say about one that is not
   there. */
#include <string.h>

#include "base/text.h"
#include "config/table.h"

/* NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member takes none. */
#define FIELD(s, k) .section = #s, .key = #k, .name = #s "." #k, .offset = offsetof(Config, s.k)
#define INTEGER(lo, hi) .kind = KIND_INTEGER, .least = (lo), .most = (hi)
#define NUMBER(lo, hi) .kind = KIND_NUMBER, .low = (lo), .high = (hi)
#define CHOICE(names) .kind = KIND_CHOICE, .choices = (names)
#define SWITCH .kind = KIND_SWITCH
#define TEXT(shortest) .kind = KIND_TEXT, .least = (shortest), .most = CONFIG_TEXT_MAX - 1

static const char *const NORMS[] = {[NORM_PRE] = "pre", [NORM_POST] = "post", NULL};
static const char *const ACTIVATIONS[] = {[ACTIVATION_GELU] = "gelu", [ACTIVATION_RELU] = "relu", NULL};
static const char *const INITS[] = {
    [INIT_UNIT] = "unit", [INIT_XAVIER] = "xavier", [INIT_TORCH] = "torch", [INIT_GPT2] = "gpt2", NULL};
static const char *const OPTIMIZERS[] = {[OPTIMIZER_ADAMW] = "adamw", [OPTIMIZER_SGD] = "sgd", NULL};

const char *const SECTIONS[] = {"data", "model", "attention", "train", "eval", "log", "sweep", NULL};

const Setting SETTINGS[] = {
    {FIELD(data, corpus), TEXT(0), .initial = "", .shown = "(built-in)",
     .help = "Text file to learn, UTF-8; empty: the corpus built into the program."},
    {FIELD(data, val_fraction), NUMBER(0, 0.9), .above_low = true, .initial = "0.1",
     .help = "Share of the text kept for validation: its last part."},

    {FIELD(model, layers), INTEGER(1, 1000), .initial = "2", .help = "Transformer blocks, one after the other."},
    {FIELD(model, heads), INTEGER(1, 1024), .initial = "2", .help = "Attention heads in each layer."},
    {FIELD(model, d_model), INTEGER(1, 65536), .initial = "128",
     .help = "Width of the stream of vectors the layers read and add to."},
    {FIELD(model, d_k), INTEGER(1, 65536), .shown = "d_model/heads",
     .help = "Width of a query, key and value; heads*d_k need not equal d_model."},
    {FIELD(model, d_ff), INTEGER(1, 1048576), .shown = "4*d_model",
     .help = "Width of the hidden layer of the feed-forward block."},
    {FIELD(model, context), INTEGER(1, 65536), .initial = "64", .help = "Positions of a sequence, in characters."},
    {FIELD(model, norm), CHOICE(NORMS), .initial = "pre",
     .help = "LayerNorm before each block and at the end, or after each block only."},
    {FIELD(model, activation), CHOICE(ACTIVATIONS), .initial = "gelu",
     .help = "Nonlinearity of the feed-forward block."},
    {FIELD(model, bias), SWITCH, .initial = "yes", .help = "Biases in the linear layers and LayerNorms."},
    {FIELD(model, dropout), NUMBER(0, 1), .below_high = true, .initial = "0",
     .help = "Share of activations dropped while training."},
    {FIELD(model, tie_embeddings), SWITCH, .initial = "yes",
     .help = "Use the token embedding as the output layer too."},
    {FIELD(model, init), CHOICE(INITS), .initial = "unit",
     .help = "Initial weights; unit gives queries and keys of unit variance."},

    {FIELD(attention, scale_divisor), .kind = KIND_SCALE, .initial = "sqrt_dk",
     .help = "What the attention scores q.k are divided by before softmax."},

    {FIELD(train, steps), INTEGER(1, 1000000000), .initial = "1000", .help = "Updates of the weights."},
    {FIELD(train, batch), INTEGER(1, 65536), .initial = "16", .help = "Sequences in a batch."},
    {FIELD(train, accumulate), INTEGER(1, 65536), .initial = "1", .help = "Batches whose gradients make one step."},
    {FIELD(train, lr), NUMBER(0, 1e6), .above_low = true, .initial = "0.001",
     .help = "Learning rate at its highest, after the warmup."},
    {FIELD(train, min_lr), NUMBER(0, 1e6), .shown = "lr/10",
     .help = "Learning rate at the last step, reached by a cosine; at most lr."},
    {FIELD(train, warmup), INTEGER(0, 1000000000), .initial = "100",
     .help = "Steps over which the learning rate rises: lr*(t+1)/(warmup+1)."},
    {FIELD(train, optimizer), CHOICE(OPTIMIZERS), .initial = "adamw", .help = "How a gradient becomes an update."},
    {FIELD(train, beta1), NUMBER(0, 1), .below_high = true, .initial = "0.9",
     .help = "adamw: decay of the average of the gradient."},
    {FIELD(train, beta2), NUMBER(0, 1), .below_high = true, .initial = "0.99",
     .help = "adamw: decay of the average of its square."},
    {FIELD(train, eps), NUMBER(1e-30, 1), .initial = "1e-8", .help = "adamw: added to the root of that average."},
    {FIELD(train, momentum), NUMBER(0, 1), .below_high = true, .initial = "0.9",
     .help = "sgd: decay of the velocity; 0: plain gradient descent."},
    {FIELD(train, weight_decay), NUMBER(0, 1000), .initial = "0.1",
     .help = "Pull towards zero on every tensor of two dimensions."},
    {FIELD(train, grad_clip), NUMBER(0, 1e9), .initial = "1",
     .help = "Largest norm of the gradient, which is scaled down to it; 0: no limit."},
    {FIELD(train, seed), INTEGER(0, INT64_MAX), .initial = "1",
     .help = "Decides the initial weights, the batches and the dropout."},

    {FIELD(eval, every), INTEGER(0, 1000000000), .initial = "250",
     .help = "Steps between validation losses; 0: only at the start and the end."},
    {FIELD(eval, batches), INTEGER(0, 1000000000), .initial = "0",
     .help = "Batches of a validation loss, the same each time; 0: the whole split."},

    {FIELD(log, out), TEXT(1), .shown = "runs/NAME",
     .help = "Directory of the run; NAME is the config's file name without .ini."},
    {FIELD(log, every), INTEGER(1, 1000000000), .initial = "10", .help = "Steps between rows of metrics.csv."},
    {FIELD(log, attention_every), INTEGER(0, 1000000000), .initial = "250",
     .help = "Steps between looks at attention; 0: only at the start and the end."},
    {FIELD(log, attention_text), TEXT(0), .initial = "", .shown = "(validation)",
     .help = "Text of the pictures; empty: the beginning of the validation split."},
    {FIELD(log, sample_tokens), INTEGER(0, 100000), .initial = "256",
     .help = "Characters of a text drawn while training; 0: none."},
    {FIELD(log, checkpoint_every), INTEGER(0, 1000000000), .initial = "1000",
     .help = "Steps between checkpoints; 0: only at the best loss, the end and a stop."},
};

const size_t SETTING_COUNT = sizeof SETTINGS / sizeof SETTINGS[0];
_Static_assert(sizeof SETTINGS / sizeof SETTINGS[0] <= SETTINGS_MAX, "Config.given needs more bits");
_Static_assert(sizeof((Config *)0)->given * 8 == SETTINGS_MAX, "one bit for each possible setting");

bool config_is_given(const Config *config, size_t setting) { return config->given[setting / 64] >> setting % 64 & 1; }

size_t setting_at(size_t offset) {
    size_t i = 0;
    while (i < SETTING_COUNT && SETTINGS[i].offset != offset) i++;
    return i;
}

size_t config_key_count(void) { return SETTING_COUNT; }
const char *config_key_name(size_t setting) { return SETTINGS[setting].name; }

void config_value_text(const Config *config, size_t setting, char *out, size_t capacity) {
    value_text(&SETTINGS[setting], config, out, capacity);
}

bool setting_assign(Config *config, size_t setting, const char *written, Error *why) {
    Value value;
    if (!value_parse(&SETTINGS[setting], written, &value, why)) return false;
    value_store(config, &SETTINGS[setting], &value);
    config->given[setting / 64] |= (uint64_t)1 << setting % 64;
    return true;
}

bool section_check(const char *section, Error *why) {
    char shown[64], list[128] = "", hint[64] = "";
    size_t best = SIZE_MAX, used = 0;
    for (const char *const *name = SECTIONS; *name; name++) {
        if (strcmp(section, *name) == 0) return true;
        if (text_is_nearer(section, *name, &best)) snprintf(hint, sizeof hint, "; did you mean [%s]?", *name);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", *name);
    }
    text_clip(section, 40, shown, sizeof shown);
    return error_set(why, STATUS_USAGE, "there is no section [%s]%s The sections: %s", shown, *hint ? hint : ".", list);
}

bool setting_names(const char *key, const char *between, char *out, size_t capacity) {
    size_t used = 0;
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (strcmp(SETTINGS[i].key, key) == 0 && used < capacity)
            used += (size_t)snprintf(out + used, capacity - used, "%s%s", used ? between : "", SETTINGS[i].name);
    return used > 0;
}

/* "; did you mean train.lr?": the nearest of all keys, whatever its section; empty where none is near. */
static void hint_at_key(const char *key, char *hint, size_t capacity) {
    size_t best = SIZE_MAX;
    *hint = 0;
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (text_is_nearer(key, SETTINGS[i].key, &best) || text_is_nearer(key, SETTINGS[i].name, &best))
            snprintf(hint, capacity, "; did you mean %s?", SETTINGS[i].name);
}

static bool unknown_key(const char *key, Error *why) {
    char shown[64], hint[96];
    hint_at_key(key, hint, sizeof hint);
    text_clip(key, 40, shown, sizeof shown);
    return error_set(why, STATUS_USAGE, "there is no key %s%s", shown, hint);
}

static bool unknown_in_section(const char *section, const char *key, Error *why) {
    char shown[64], hint[160] = "", list[512] = "", others[96];
    size_t best = SIZE_MAX, used = 0;
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const Setting *setting = &SETTINGS[i];
        if (strcmp(setting->section, section) != 0) continue;
        if (text_is_nearer(key, setting->key, &best)) snprintf(hint, sizeof hint, "; did you mean %s?", setting->key);
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", setting->key);
    }
    if (setting_names(key, " and ", others, sizeof others))
        snprintf(hint, sizeof hint, "; there is %s.", others);
    else if (best == SIZE_MAX)
        hint_at_key(key, hint, sizeof hint);
    text_clip(key, 40, shown, sizeof shown);
    return error_set(why, STATUS_USAGE, "[%s] has no key %s%s It accepts: %s", section, shown, *hint ? hint : ".",
                     list);
}

static bool find_in(const char *section, const char *key, size_t *setting, Error *why) {
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (strcmp(SETTINGS[i].section, section) != 0 || strcmp(SETTINGS[i].key, key) != 0) continue;
        *setting = i;
        return true;
    }
    return unknown_in_section(section, key, why);
}

/* In [sweep] a key has its section in front, or is the only one of its name. */
static bool find_swept(const char *key, size_t *setting, Error *why) {
    char names[128], section[64];
    const char *dot = strchr(key, '.');
    if (dot) {
        snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
        if (strcmp(section, "sweep") == 0) return unknown_key(key, why);
        return section_check(section, why) && find_in(section, dot + 1, setting, why);
    }
    if (!setting_names(key, " or ", names, sizeof names)) return unknown_key(key, why);
    if (strstr(names, " or "))
        return error_set(why, STATUS_USAGE, "%s is a key of several sections: write %s", key, names);
    for (*setting = 0; strcmp(SETTINGS[*setting].key, key) != 0;) ++*setting;
    return true;
}

bool setting_find(const char *section, const char *key, size_t *setting, Error *why) {
    return strcmp(section, "sweep") == 0 ? find_swept(key, setting, why) : find_in(section, key, setting, why);
}
