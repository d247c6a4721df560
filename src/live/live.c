/* The trainer without files. Everything is made by the functions that ./train calls, in the same order: those that
   write a run find no directory and write nothing, and its logs are texts in memory. */
#include "live/live.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/sample.h"
#include "train/step.h"
#include "train/trainer.h"

/* Where the divisor or the learning rate was moved. */
typedef struct {
    size_t step;
    double divisor,
        rate; /* the new divisor, and what the schedule is multiplied by; 0: it was not this that was moved */
} Move;

struct Live {
    size_t mark;   /* of memory, before the model was made */
    Trainer t;     /* without a directory, and with logs in memory */
    bool measured; /* attention, for the log, at this step */
    bool ended;    /* the last step has its row in the log */
    bool diverged;
    size_t sample_at; /* where the last text in samples.txt begins */
    Move *moves;      /* (move_count) */
    size_t move_count;
    double rate;                 /* what the schedule of the learning rate is multiplied by */
    AttentionSnapshot attention; /* of T x T */
    float *divided;              /* (L, H, T, T) */
    LiveAttention shown;         /* these matrices */
    char *written;               /* the last text that was returned; NULL before the first */
    LiveFile best;               /* a checkpoint, once there is one */
    LiveFile *files;             /* first the snapshots, `kept` of them, then those of the last live_files */
    size_t kept, file_count;
};

/* --- texts that are written as files are */

typedef struct {
    FILE *stream;
    char *bytes;
    size_t size;
} Text;

static void text_begin(Text *t) {
    t->stream = open_memstream(&t->bytes, &t->size);
    if (!t->stream) runtime_error("no memory for a text");
}

/* Returns what was written, with a zero byte behind it. */
static char *text_end(Text *t) {
    const bool complete = fclose(t->stream) == 0;
    char *copy = complete ? memory_copy_text(t->bytes, t->size) : NULL;
    free(t->bytes);
    if (!complete) runtime_error("no memory for a text");
    return copy;
}

/* text_end, of a text that the caller reads until its next call. */
static const char *text_return(Live *l, Text *t) {
    memory_free(l->written);
    l->written = NULL;
    l->written = text_end(t);
    return l->written;
}

static LiveFile copy_file(const char *name, const void *bytes, size_t size) {
    return (LiveFile){memory_copy_text(name, strlen(name)), memory_copy_text(bytes, size), size};
}

static LiveFile file_end(const char *name, Text *t) {
    const char *bytes = text_end(t);
    return (LiveFile){memory_copy_text(name, strlen(name)), bytes, t->size};
}

static void add_file(Live *l, LiveFile file) {
    l->files = memory_resize(l->files, (l->file_count + 1) * sizeof *l->files, "the run's files");
    l->files[l->file_count++] = file;
}

static void free_file(const LiveFile *file) {
    memory_free((void *)file->name);
    memory_free((void *)file->bytes);
}

/* Frees the files of the last live_files. */
static void drop_parts(Live *l) {
    for (; l->file_count > l->kept; l->file_count--) free_file(&l->files[l->file_count - 1]);
}

/* --- the model */

static Corpus make_corpus(const Config *c, const char *text) {
    if (c->data.task == TASK_RECALL) return corpus_recall(c->data.recall_pairs, NULL);
    if (*c->data.corpus) usage_error("the config names the corpus %s: leave data.corpus out here", c->data.corpus);
    if (!text) text = sqrtdk_corpus;
    return corpus_from_text(text, strlen(text), "the text", NULL, c->data.val_fraction, c->model.context);
}

static float *make_matrices(const ModelShape *s) {
    return memory_make(size_mul(s->L * s->attention.H, size_mul(s->T, s->T)), sizeof(float), "matrices of attention");
}

/* Removes log.attention_text where the text that is learned does not have its characters, or it is too long: a run then
   shows validation text. An error would end the module here. */
static void check_attention_text(Config *c, const Vocabulary *v) {
    size_t count = 0;
    for (const char *text = c->log.attention_text; *text; count++) {
        uint32_t character;
        const size_t length = utf8_decode(text, strlen(text), &character);
        if (length == 0 || count == SNAPSHOT_TEXT_MAX || vocabulary_id(v, character) < 0) {
            *c->log.attention_text = 0;
            return;
        }
        text += length;
    }
}

Live *live_make(const char *config, const char *text) {
    static Progress nowhere = {.quiet = true};
    static const TrainOptions options = {.threads = 1, .progress = &nowhere};
    const size_t mark = memory_mark();
    Live *l = memory_make(1, sizeof *l, "a model");
    Trainer *t = &l->t;
    Config *c = &t->run.config;
    l->mark = mark;
    l->rate = 1;
    l->files = memory_make(0, sizeof *l->files, "the run's files");
    l->moves = memory_make(0, sizeof *l->moves, "what was moved");
    t->options = &options;
    config_from_text(c, config, "the config");
    snprintf(c->name, sizeof c->name, "live");
    t->run.corpus = make_corpus(c, text);
    check_attention_text(c, &t->run.corpus.vocabulary);
    trainer_make_arrays(t);
    t->logs = logs_start_in_memory();
    logs_sizes(t->logs, t->state.log_size);
    t->val_loss = NAN;
    const ModelShape *s = &t->model.shape;
    const size_t heads = s->L * s->attention.H;
    l->attention = (AttentionSnapshot){.scores = make_matrices(s),
                                       .weights = make_matrices(s),
                                       .multiplier = memory_make(heads, sizeof(float), "scales"),
                                       .sink = memory_make(heads, sizeof(float), "sinks")};
    l->divided = make_matrices(s);
    tensors_initialize(&t->model.tensors, s, c->model.init, c->train.seed, 1, t->model.parameters);
    t->start = omp_get_wtime();
    return l;
}

void live_free(Live *l) { memory_release(l->mark); }

/* --- steps */

/* Evaluates the step as ./train does, with its sample and, if no loss was lower, its checkpoint. */
static void evaluate_step(Live *l) {
    Trainer *t = &l->t;
    const size_t mark = memory_mark();
    const double best = t->state.best_val_loss;
    l->sample_at = t->logs->size[LOG_SAMPLES];
    trainer_evaluate(t);
    memory_release(mark);
    if (!(t->state.best_val_loss < best)) return;
    Text text = {0};
    text_begin(&text);
    const RunState of_best = {.step = t->state.step};
    checkpoint_write(text.stream, &t->run.config, CHECKPOINT_BEST, &t->model, (Moments){0}, &of_best);
    free_file(&l->best);
    l->best = file_end(CHECKPOINT_NAMES[CHECKPOINT_BEST], &text);
}

/* Measures attention for the log, and keeps its snapshot. */
static void measure_step(Live *l) {
    const size_t mark = memory_mark();
    char name[64];
    Text text = {0};
    trainer_measure(&l->t);
    memory_release(mark);
    drop_parts(l);
    snapshot_name(l->t.state.step, name);
    text_begin(&text);
    snapshot_put(&l->t.snapshot, text.stream);
    add_file(l, file_end(name, &text));
    l->kept = l->file_count;
    l->measured = true;
}

/* Does what ./train does at a step before its update. Returns whether loss and gradients are finite. */
static bool begin_step(Live *l) {
    Trainer *t = &l->t;
    const Config *c = &t->run.config;
    const size_t step = t->state.step;
    attention_set_step(&t->model.shape.attention, c, step);
    if (isnan(t->val_loss) && live_evaluates(l)) evaluate_step(l);
    if (!l->measured && live_measures(l)) measure_step(l);
    t->loss = step_gradients(&t->engine, &t->run.corpus, c, step, t->tokens, t->targets, NULL);
    t->norm = gradient_norm(&t->optimizer, t->model.gradients);
    l->diverged = !isfinite(t->loss) || !isfinite(t->norm);
    if (l->diverged) return false;
    trainer_log(t);
    if (!isnan(t->val_loss) || step_is_due(step, c->log.every)) t->state.train_loss = logs_rounded(t->loss);
    if (!isnan(t->val_loss)) t->state.val_loss = logs_rounded(t->val_loss);
    return true;
}

double live_step(Live *l) {
    Trainer *t = &l->t;
    const Config *c = &t->run.config;
    if (!begin_step(l)) return isfinite(t->loss) ? (double)NAN : t->loss;
    step_update(&t->model, &t->optimizer, c, t->norm, t->state.step);
    t->state.step++;
    t->val_loss = NAN;
    l->measured = false;
    logs_sizes(t->logs, t->state.log_size);
    attention_set_step(&t->model.shape.attention, c, t->state.step);
    return t->loss;
}

size_t live_steps(const Live *l) { return l->t.state.step; }

size_t live_last(const Live *l) { return l->t.run.config.train.steps; }

bool live_evaluates(const Live *l) {
    return step_is_due(live_steps(l), l->t.run.config.eval.every) || live_steps(l) == live_last(l);
}

bool live_measures(const Live *l) {
    return live_steps(l) == 0 || step_is_due(live_steps(l), l->t.run.config.log.attention_every) ||
           live_steps(l) == live_last(l);
}

double live_evaluate(Live *l) {
    Trainer *t = &l->t;
    const Config *c = &t->run.config;
    if (isnan(t->val_loss) && live_evaluates(l)) {
        evaluate_step(l);
        return t->val_loss;
    }
    const Evaluation e = evaluate(&t->engine, &t->run.corpus, c->train.batch, c->eval.batches, t->tokens, t->targets);
    t->val_accuracy = e.accuracy;
    return e.loss;
}

double live_accuracy(const Live *l) { return l->t.val_accuracy; }

const char *live_written(const Live *l) {
    const char *samples = l->t.logs->text[LOG_SAMPLES] + l->sample_at, *line_end = strchr(samples, '\n');
    return line_end ? line_end + 1 : "";
}

const double *live_baselines(Live *l) {
    Run *run = &l->t.run;
    if (run->corpus.pairs) return NULL;
    if (run->ngrams[0] == 0) run_count_ngrams(run);
    return run->ngrams;
}

/* --- what can be moved */

/* Returns a divisor as a config has it. */
static ScaleDivisor checked_divisor(const Live *l, double divisor) {
    if (l->t.run.config.attention.scale_learned != LEARNED_NO)
        usage_error("this model learns its scale: its divisor cannot be moved");
    if (!(divisor >= SCALE_LEAST && divisor <= SCALE_MOST)) usage_error("a divisor is a number from " SCALE_RANGE);
    return (ScaleDivisor){.mode = SCALE_NUMBER, .number = divisor};
}

/* Notes what was moved; another move of the same at this step takes the place of the one before. */
static void note_move(Live *l, Move move) {
    const Move *last = l->move_count ? &l->moves[l->move_count - 1] : NULL;
    if (last && last->step == move.step && (last->divisor == 0) == (move.divisor == 0)) l->move_count--;
    l->moves = memory_resize(l->moves, (l->move_count + 1) * sizeof *l->moves, "what was moved");
    l->moves[l->move_count++] = move;
}

/* Returns whether switch_step and switch_divisor say all that was moved. */
static bool is_one_switch(const Live *l) {
    return l->move_count == 1 && l->moves->step == l->t.run.config.attention.switch_step;
}

/* The divisor after one move is written as a switch, so that the config makes the run again. */
void live_divide(Live *l, double divisor) {
    Trainer *t = &l->t;
    Config *c = &t->run.config;
    const ScaleDivisor chosen = checked_divisor(l, divisor);
    const size_t step = t->state.step;
    const bool may_switch = step > 0 && (c->attention.switch_step == 0 || is_one_switch(l));
    if (step > 0) note_move(l, (Move){.step = step, .divisor = divisor});
    if (may_switch && l->move_count == 1) {
        c->attention.switch_step = step;
        c->attention.switch_divisor = chosen;
    } else {
        c->attention.switch_step = 0;
        c->attention.scale_divisor = chosen;
    }
    attention_set_step(&t->model.shape.attention, &t->run.config, step);
    logs_cut(t->logs, t->state.log_size); /* what was measured at this step was measured with another divisor */
    t->val_loss = NAN;
    l->measured = l->ended = false;
}

void live_rate(Live *l, double factor) {
    Config *c = &l->t.run.config;
    if (!(factor >= 0 && factor <= 1e6)) usage_error("the learning rate is multiplied by a number from 0 to 1e6");
    c->train.lr *= factor;
    c->train.min_lr *= factor;
    c->train.muon_lr *= factor;
    l->rate *= factor;
    if (live_steps(l) > 0) note_move(l, (Move){.step = live_steps(l), .rate = l->rate});
}

/* --- what it shows */

/* Computes the logits of as much of a text as the context holds. Returns how many characters that is. */
static size_t forward(Live *l, const char *text) {
    const size_t T = l->t.model.shape.T, size = strlen(text);
    if (size == 0) usage_error("the text is empty");
    const size_t count = vocabulary_encode(&l->t.run.corpus.vocabulary, "the text", text, size, l->t.tokens, T);
    model_forward(&l->t.model, &(Batch){l->t.tokens, NULL, 1, count});
    return count;
}

const LiveAttention *live_attention(Live *l, const char *text) {
    const ModelShape *s = &l->t.model.shape;
    const size_t T = forward(l, text), H = s->attention.H;
    measure_snapshot(&l->t.model, T, &l->attention);
    for (size_t h = 0; h < s->L * H; h++)
        for (size_t i = h * T * T; i < (h + 1) * T * T; i++)
            l->divided[i] = l->attention.multiplier[h] * l->attention.scores[i];
    l->shown = (LiveAttention){s->L, H, T, l->attention.scores, l->divided, l->attention.weights};
    return &l->shown;
}

const HeadStatistics *live_statistics(Live *l) {
    Trainer *t = &l->t;
    const size_t T = t->model.shape.T;
    model_forward(&t->model, &(Batch){t->measured_tokens, NULL, t->measured_batch, T});
    measure_heads(&t->model, t->measured_batch, T, t->heads);
    return t->heads;
}

const real *live_logits(Live *l, const char *text, double divisor, size_t *T) {
    AttentionConfig *attention = &l->t.model.shape.attention;
    const AttentionConfig trained = *attention;
    attention->divisor = checked_divisor(l, divisor).number;
    attention->multiplier = (real)(1 / attention->divisor);
    *T = forward(l, text);
    *attention = trained;
    return l->t.model.logits.values;
}

const uint32_t *live_vocabulary(const Live *l, size_t *count) {
    *count = l->t.run.corpus.vocabulary.count;
    return l->t.run.corpus.vocabulary.characters;
}

const char *live_sample(Live *l, const char *prompt, size_t count, double temperature, uint64_t seed) {
    const Vocabulary *v = &l->t.run.corpus.vocabulary;
    const size_t size = strlen(prompt), mark = memory_mark();
    int32_t *ids = memory_make(size_add(size, 1), sizeof *ids, "a prompt");
    int32_t *window = memory_make(l->t.model.shape.T, sizeof *window, "a text");
    const SampleOptions options = {.tokens = count, .temperature = temperature, .seed = seed};
    size_t known = 1;
    Text text = {0};
    ids[0] = sample_start(v);
    if (size) known = vocabulary_encode(v, "the prompt", prompt, size, ids, size);
    text_begin(&text);
    sample_text(&l->t.model, v, ids, known, &options, window, text.stream);
    memory_release(mark);
    return text_return(l, &text);
}

/* --- the run as files */

/* Says as comments what was moved, which a config has no keys for. */
static void write_moves(const Live *l, FILE *out) {
    if (l->move_count == 0 || is_one_switch(l)) return;
    fputs("; This run was steered while it trained. This config alone does not make it again:\n", out);
    for (const Move *m = l->moves; m < l->moves + l->move_count; m++)
        if (m->divisor > 0) fprintf(out, "; from step %zu on the scores were divided by %.9g\n", m->step, m->divisor);
        else
            fprintf(out, "; from step %zu on the learning rate was %.9g times that of the schedule\n", m->step,
                    m->rate);
}

static void write_config(Live *l, FILE *out) {
    write_moves(l, out);
    config_write(&l->t.run.config, out);
}

const char *live_config(Live *l) {
    Text text = {0};
    text_begin(&text);
    write_config(l, text.stream);
    return text_return(l, &text);
}

static void write_description(Live *l, FILE *out) {
    Run *run = &l->t.run;
    RunState *state = &l->t.state;
    const size_t mark = memory_mark();
    live_baselines(l);
    run_describe(run, &l->t.model, "docs/live.html, or src/live in a program");
    for (const Move *m = l->moves; m < l->moves + l->move_count; m++) {
        Json *move = js_object();
        js_set(move, "step", js_size(m->step));
        if (m->divisor > 0) js_set(move, "divisor", js_number(m->divisor));
        else js_set(move, "rate", js_number(m->rate));
        js_append(js_list(run->description, "moved"), move);
    }
    run_describe_end(run, state, l->diverged ? "diverged" : l->ended ? "finished" : "interrupted", NULL);
    fputs(js_dump(run->description, JS_INDENTED), out);
    run->description = NULL;
    memory_release(mark);
}

static void write_vocabulary(Live *l, FILE *out) {
    const size_t mark = memory_mark();
    fputs(js_dump(vocabulary_json(&l->t.run.corpus.vocabulary), JS_LINE), out);
    memory_release(mark);
}

static void write_checkpoint(Live *l, FILE *out) {
    Trainer *t = &l->t;
    checkpoint_write(out, &t->run.config, CHECKPOINT_LAST, &t->model, (Moments){t->optimizer.m, t->optimizer.v},
                     &t->state);
}

/* The files that are written when they are asked for. The snapshots and the best checkpoint are there. */
static const struct {
    const char *name;
    void (*write)(Live *live, FILE *out);
} PARTS[] = {{"config.ini", write_config},
             {"vocab.json", write_vocabulary},
             {"run.json", write_description},
             {"checkpoint/last.safetensors", write_checkpoint}};

const LiveFile *live_files(Live *l, size_t *count) {
    Trainer *t = &l->t;
    if (live_steps(l) == live_last(l) && !l->ended) l->ended = begin_step(l);
    t->state.seconds = omp_get_wtime() - t->start;
    drop_parts(l);
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        Text text = {0};
        text_begin(&text);
        PARTS[i].write(l, text.stream);
        add_file(l, file_end(PARTS[i].name, &text));
    }
    for (Log log = 0; log < LOG_COUNT; log++)
        add_file(l, copy_file(LOG_NAMES[log], t->logs->text[log], t->logs->size[log]));
    if (l->best.name) add_file(l, copy_file(l->best.name, l->best.bytes, l->best.size));
    *count = l->file_count;
    return l->files;
}

const real *live_parameters(const Live *l, const TensorTable **table) {
    if (table) *table = &l->t.model.tensors;
    return l->t.model.parameters;
}

size_t live_count(const Live *l) { return l->t.model.tensors.flat; }
