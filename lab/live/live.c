/* The trainer without files: its model, its steps, and what can be moved between them. Everything is made by the
   functions that ./train calls, in the same order: those that write a run find no directory and write nothing, and its
   logs are texts in memory. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/live/parts.h"

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

/* Starts the logs, which close the streams of their texts. */
static void start_logs(Live *l) {
    FILE *file[LOG_COUNT];
    for (Log log = 0; log < LOG_COUNT; log++) {
        l->logs[log] = text_begin();
        file[log] = l->logs[log]->stream;
    }
    l->t.logs = logs_start_on(file);
    for (Log log = 0; log < LOG_COUNT; log++) l->logs[log]->stream = NULL;
}

static void free_kept(void *live) {
    Live *l = live;
    l->kept = 0;
    live_drop_parts(l);
    live_free_file(&l->best);
    free(l->files);
    free(l->moves);
    free(l->joined);
    free(l->written);
}

Live *live_make(const char *config, const char *text) {
    static Progress nowhere = {.quiet = true};
    static const TrainOptions options = {.threads = 1, .progress = &nowhere};
    const size_t mark = memory_mark();
    Live *l = memory_make_with_undo(sizeof *l, free_kept, "a model");
    Trainer *t = &l->t;
    Config *c = &t->run.config;
    l->mark = mark;
    l->rate = 1;
    l->moves = live_longer(NULL, 0, sizeof *l->moves);
    t->options = &options;
    config_from_text(c, config, "the config");
    snprintf(c->name, sizeof c->name, "live");
    t->run.corpus = make_corpus(c, text);
    check_attention_text(c, &t->run.corpus.vocabulary);
    trainer_make_arrays(t);
    start_logs(l);
    logs_sizes(t->logs, t->state.log_size);
    t->val_loss = NAN;
    const ModelShape *s = &t->model.shape;
    const size_t heads = s->L * s->attention.H;
    l->attention = (AttentionSnapshot){.scores = make_matrices(s),
                                       .weights = make_matrices(s),
                                       .multiplier = memory_make(heads, sizeof(float), "scales"),
                                       .sink = memory_make(heads, sizeof(float), "sinks")};
    tensors_initialize(&t->model.tensors, s, c->model.init, c->train.seed, 1, t->model.parameters);
    t->start = omp_get_wtime();
    return l;
}

void live_free(Live *l) { memory_release(l->mark); }

/* --- steps */

/* Makes what was measured at this step be measured again. */
static void forget_step(Live *l) {
    logs_cut(l->t.logs, l->t.state.log_size);
    l->t.val_loss = NAN;
    l->measured = l->ended = false;
}

void live_take_back(Live *l) {
    if (!l->measuring) return;
    l->t.state = l->before;
    for (Log log = 0; log < LOG_COUNT; log++) clearerr(l->t.logs->file[log]);
    forget_step(l);
    l->measuring = false;
}

static void begin_measuring(Live *l) {
    live_take_back(l);
    l->before = l->t.state;
    l->measuring = true;
}

/* Evaluates the step as ./train does, with its sample and, if no loss was lower, its checkpoint. */
static void evaluate_step(Live *l) {
    Trainer *t = &l->t;
    const size_t mark = memory_mark();
    const double best = t->state.best_val_loss;
    size_t sizes[LOG_COUNT]; /* after a cut they are not yet those of the texts */
    logs_sizes(t->logs, sizes);
    trainer_evaluate(t);
    memory_release(mark);
    l->sample_at = sizes[LOG_SAMPLES];
    if (!(t->state.best_val_loss < best)) return;
    Text *text = text_begin();
    const RunState of_best = {.step = t->state.step};
    checkpoint_write(text->stream, &t->run.config, CHECKPOINT_BEST, &t->model, (Moments){0}, &of_best);
    const LiveFile file = live_file_end(CHECKPOINT_NAMES[CHECKPOINT_BEST], text);
    live_free_file(&l->best);
    l->best = file;
}

/* Measures attention for the log, and keeps its snapshot, in place of one of this step under another divisor. */
static void measure_step(Live *l) {
    const size_t mark = memory_mark();
    char name[64];
    trainer_measure(&l->t);
    live_drop_parts(l);
    snapshot_name(l->t.state.step, name);
    Text *text = text_begin();
    snapshot_put(&l->t.snapshot, text->stream);
    live_add_file(l, name, text);
    memory_release(mark);
    LiveFile *before = l->kept ? &l->files[l->kept - 1] : NULL;
    if (before && strcmp(before->name, name) == 0) {
        live_free_file(before);
        *before = l->files[--l->file_count];
    }
    l->kept = l->file_count;
    l->measured = true;
}

bool live_begin_step(Live *l) {
    Trainer *t = &l->t;
    const Config *c = &t->run.config;
    const size_t step = t->state.step;
    begin_measuring(l);
    attention_set_divisor(&t->model.shape.attention, c, step);
    if (isnan(t->val_loss) && live_evaluates(l)) evaluate_step(l);
    if (!l->measured && live_measures(l)) measure_step(l);
    t->loss = step_gradients(&t->engine, &t->run.corpus, c, step);
    t->norm = gradient_norm(&t->optimizer, t->model.gradients);
    l->diverged = !isfinite(t->loss) || !isfinite(t->norm);
    if (!l->diverged) trainer_log(t);
    l->measuring = false;
    if (l->diverged) return false;
    if (!isnan(t->val_loss) || step_is_due(step, c->log.every)) t->state.train_loss = logs_rounded(t->loss);
    if (!isnan(t->val_loss)) t->state.val_loss = logs_rounded(t->val_loss);
    return true;
}

double live_step(Live *l) {
    Trainer *t = &l->t;
    const Config *c = &t->run.config;
    if (!live_begin_step(l)) return isfinite(t->loss) ? (double)NAN : t->loss;
    step_update(&t->model, &t->optimizer, c, t->norm, t->state.step);
    t->state.step++;
    t->val_loss = NAN;
    l->measured = false;
    logs_sizes(t->logs, t->state.log_size);
    attention_set_divisor(&t->model.shape.attention, c, t->state.step);
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
    live_take_back(l);
    if (isnan(t->val_loss) && live_evaluates(l)) {
        begin_measuring(l);
        evaluate_step(l);
        l->measuring = false;
        return t->val_loss;
    }
    const Evaluation e = evaluate(&t->engine, &t->run.corpus, t->run.config.eval.batches);
    t->val_accuracy = e.accuracy;
    return e.loss;
}

double live_accuracy(const Live *l) { return l->t.val_accuracy; }

const char *live_written(const Live *l) {
    const char *samples = l->logs[LOG_SAMPLES]->bytes + l->sample_at, *line_end = strchr(samples, '\n');
    return line_end ? line_end + 1 : "";
}

const double *live_baselines(Live *l) {
    Run *run = &l->t.run;
    if (run->corpus.pairs) return NULL;
    if (run->ngrams[NGRAM_ORDERS - 1] == 0) run_count_ngrams(run);
    return run->ngrams;
}

/* --- what can be moved */

DivisorChoice live_checked_divisor(const Live *l, double divisor) {
    if (l->t.run.config.attention.scale_learned != LEARNED_NO)
        usage_error("this model learns its scale: its divisor cannot be moved");
    if (!(divisor >= SCALE_LEAST && divisor <= SCALE_MOST)) usage_error("a divisor is a number from " SCALE_RANGE);
    return (DivisorChoice){.mode = SCALE_NUMBER, .number = divisor};
}

/* Notes what was moved; another move of the same at this step takes the place of the one before. */
static void note_move(Live *l, Move move) {
    l->moves = live_longer(l->moves, l->move_count, sizeof *l->moves);
    const Move last = l->move_count ? l->moves[l->move_count - 1] : (Move){.step = SIZE_MAX};
    if (last.step == move.step && (last.divisor == 0) == (move.divisor == 0)) l->move_count--;
    l->moves[l->move_count++] = move;
}

bool live_is_one_switch(const Live *l) {
    return l->move_count == 1 && l->moves->step == l->t.run.config.attention.switch_step;
}

/* The divisor after one move is written as a switch, so that the config makes the run again. */
void live_divide(Live *l, double divisor) {
    Trainer *t = &l->t;
    Config *c = &t->run.config;
    const DivisorChoice chosen = live_checked_divisor(l, divisor);
    const size_t step = t->state.step;
    live_take_back(l);
    const bool may_switch = step > 0 && (c->attention.switch_step == 0 || live_is_one_switch(l));
    if (step > 0) note_move(l, (Move){.step = step, .divisor = divisor});
    if (may_switch && l->move_count == 1) {
        c->attention.switch_step = step;
        c->attention.switch_divisor = chosen;
    } else {
        c->attention.switch_step = 0;
        c->attention.scale_divisor = chosen;
    }
    attention_set_divisor(&t->model.shape.attention, &t->run.config, step);
    forget_step(l); /* it was measured with another divisor */
}

/* Raises an error if ./train would refuse the config. */
static void check_config(const Config *config) {
    static Config checked; /* large */
    Text *text = text_begin();
    config_write(config, text->stream);
    const char *written = text_end(text);
    config_from_text(&checked, written, "the config with this learning rate");
}

void live_rate(Live *l, double factor) {
    static Config moved; /* large */
    const size_t mark = memory_mark();
    if (!isfinite(factor)) usage_error("the learning rate is multiplied by a number");
    moved = l->t.run.config;
    moved.train.lr *= factor;
    moved.train.min_lr *= factor;
    moved.train.muon_lr *= factor;
    check_config(&moved);
    memory_release(mark);
    if (live_steps(l) > 0) note_move(l, (Move){.step = live_steps(l), .rate = l->rate * factor});
    l->rate *= factor;
    l->t.run.config = moved;
}
