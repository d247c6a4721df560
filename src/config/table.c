/* The one table of settings. A key is described here and nowhere else; parsing, checking, help and the resolved copy
   walk this table. To add a key: a member in Config, an entry here. The defaults are written as in a file and go
   through the same parser. */
#include "config/table.h"

/* NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member takes none. */
#define FIELD(s, k) .section = #s, .key = #k, .name = #s "." #k, .offset = offsetof(Config, s.k)
#define COUNT(lo, hi) .kind = KIND_COUNT, .least = (lo), .most = (hi)
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

    {FIELD(model, layers), COUNT(1, 1000), .initial = "2", .help = "Transformer blocks, one after the other."},
    {FIELD(model, heads), COUNT(1, 1024), .initial = "2", .help = "Attention heads in each layer."},
    {FIELD(model, d_model), COUNT(1, 65536), .initial = "128",
     .help = "Width of the stream of vectors the layers read and add to."},
    {FIELD(model, d_k), COUNT(1, 65536), .shown = "d_model/heads",
     .help = "Width of a query, key and value; heads*d_k need not equal d_model."},
    {FIELD(model, d_ff), COUNT(1, 1048576), .shown = "4*d_model",
     .help = "Width of the hidden layer of the feed-forward block."},
    {FIELD(model, context), COUNT(1, 65536), .initial = "64", .help = "Positions of a sequence, in characters."},
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

    {FIELD(train, steps), COUNT(1, 1000000000), .initial = "1000", .help = "Updates of the weights."},
    {FIELD(train, batch), COUNT(1, 65536), .initial = "16", .help = "Sequences in a batch."},
    {FIELD(train, accumulate), COUNT(1, 65536), .initial = "1", .help = "Batches whose gradients make one step."},
    {FIELD(train, lr), NUMBER(0, 1e6), .above_low = true, .initial = "0.001",
     .help = "Learning rate at its highest, after the warmup."},
    {FIELD(train, min_lr), NUMBER(0, 1e6), .shown = "lr/10",
     .help = "Learning rate at the last step, reached by a cosine; at most lr."},
    {FIELD(train, warmup), COUNT(0, 1000000000), .initial = "100",
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
    {FIELD(train, seed), COUNT(0, INT64_MAX), .initial = "1",
     .help = "Decides the initial weights, the batches and the dropout."},

    {FIELD(eval, every), COUNT(0, 1000000000), .initial = "250",
     .help = "Steps between validation losses; 0: only at the start and the end."},
    {FIELD(eval, batches), COUNT(0, 1000000000), .initial = "0",
     .help = "Batches of a validation loss, the same each time; 0: the whole split."},

    {FIELD(log, out), TEXT(1), .shown = "runs/NAME",
     .help = "Directory of the run; NAME is the config's file name without .ini."},
    {FIELD(log, every), COUNT(1, 1000000000), .initial = "10", .help = "Steps between rows of metrics.csv."},
    {FIELD(log, attention_every), COUNT(0, 1000000000), .initial = "250",
     .help = "Steps between looks at attention; 0: only at the start and the end."},
    {FIELD(log, attention_text), TEXT(0), .initial = "", .shown = "(validation)",
     .help = "Text of the pictures; empty: the beginning of the validation split."},
    {FIELD(log, sample_tokens), COUNT(0, 100000), .initial = "256",
     .help = "Characters of a text drawn while training; 0: none."},
    {FIELD(log, checkpoint_every), COUNT(0, 1000000000), .initial = "1000",
     .help = "Steps between checkpoints; 0: only at the best loss, the end and a stop."},
};

const size_t SETTING_COUNT = sizeof SETTINGS / sizeof SETTINGS[0];
_Static_assert(sizeof SETTINGS / sizeof SETTINGS[0] <= SETTINGS_MAX, "Config.given needs more bits");
_Static_assert(sizeof((Config *)0)->given * 8 == SETTINGS_MAX, "one bit for each possible setting");

size_t setting_at(size_t offset) {
    size_t i = 0;
    while (i < SETTING_COUNT && SETTINGS[i].offset != offset) i++;
    return i;
}

size_t config_key_count(void) { return SETTING_COUNT; }
const char *config_key_name(size_t setting) { return SETTINGS[setting].name; }
