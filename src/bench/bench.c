#include "bench/bench.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/range.h"
#include "base/statistics.h"
#include "data/corpus.h"
#include "model/initialization.h"
#include "ops/matmul.h"
#include "train/announce.h"
#include "train/loop.h"

enum { STEPS_MIN = 8, STEPS_MAX = 4096, PEAK_SIZE = 2048, PEAK_REPEATS = 3 };
static const size_t MOVED = (size_t)1 << 20; /* numbers in an array: 4 MB */

/* The rate of products of 2048 x 2048, each thread its rows: the best of a few, by this program's kernels and by
   OpenBLAS. Floating-point operations per second; NaN without memory. */
typedef struct {
    double own, openblas;
} Peak;

typedef struct {
    const Config *config;
    Corpus corpus;
    Model model;
    Optimizer optimizer;
    int32_t *tokens, *targets;
    Profile *profiles;
    double batch_seconds, norm_seconds, update_seconds; /* of the steps in which the clocks ran */
    size_t step, clocked;                               /* steps made, and those with the clocks running */
    double step_seconds[STEPS_MAX];
    size_t steps;
    double flops;                /* of a step */
    Peak rates;                  /* of 2048^3 products */
    double peak, bandwidth;      /* the larger of them: what shares are of; bytes per second */
    double start_up, first_step; /* seconds from the start of the process to the beginning of the first step; of it */
} Bench;

/* Seconds since this process was started, to a hundredth; NaN where the system does not say. */
static double process_age(void) {
    enum { START = 20 }; /* fields behind the name, which is in parentheses: proc(5) */
    char line[1024] = "";
    struct timespec now;
    FILE *stat = fopen("/proc/self/stat", "r");
    if (!stat) return NAN;
    char *field = fgets(line, sizeof line, stat) ? strrchr(line, ')') : NULL;
    fclose(stat);
    for (int i = 0; field && i < START; i++) field = strchr(field + 1, ' ');
    if (!field || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return NAN;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec -
           (double)strtoull(field, NULL, 10) / (double)sysconf(_SC_CLK_TCK);
}

static double measure_products(const real *a, const real *b, real *c, size_t threads, bool openblas) {
    const size_t n = PEAK_SIZE;
    double best = 0;
    for (int i = 0; i < PEAK_REPEATS; i++) {
        const double start = omp_get_wtime();
#pragma omp parallel num_threads((int)threads)
        {
            Range rows = range_split(n, 16, (size_t)omp_get_thread_num(), (size_t)omp_get_num_threads());
            const Product product = {.m = range_size(rows), .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .alpha = 1};
            (openblas ? matmul_openblas : matmul_product)(&product, a + rows.begin * n, b, c + rows.begin * n);
        }
        best = fmax(best, 2.0 * (double)n * (double)n * (double)n / (omp_get_wtime() - start));
    }
    return best;
}
static Peak measure_peak(size_t threads) {
    const size_t size = (size_t)PEAK_SIZE * PEAK_SIZE;
    real *a = malloc(3 * size * sizeof *a);
    if (!a) return (Peak){NAN, NAN};
    for (size_t i = 0; i < 3 * size; i++) a[i] = (real)(i % 13) - 6;
    const Peak peak = {measure_products(a, a + size, a + 2 * size, threads, false),
                       measure_products(a, a + size, a + 2 * size, threads, true)};
    free(a);
    return peak;
}

/* Bytes a second when every thread adds two arrays into a third, 4 MB each, as activations are. */
static double measure_bandwidth(size_t threads) {
    real *x = calloc(3 * MOVED * threads, sizeof *x);
    double best = 0;
    if (!x) return NAN;
    for (int i = 0; i < 8; i++) {
        double start = omp_get_wtime();
#pragma omp parallel num_threads((int)threads)
        {
            real *own = x + 3 * MOVED * (size_t)omp_get_thread_num();
            for (size_t j = 0; j < MOVED; j++) own[j] = own[MOVED + j] + own[2 * MOVED + j];
        }
        best = fmax(best, (double)(3 * MOVED * threads * sizeof *x) / (omp_get_wtime() - start));
    }
    free(x);
    return best;
}

/* One step of training; with `clocks` it also says where its time goes. */
static double take_step(Bench *b, bool clocks) {
    const double start = omp_get_wtime();
    b->model.profiles = clocks ? b->profiles : NULL;
    step_gradients(&b->model, &b->corpus, b->config, b->step, b->tokens, b->targets, clocks ? &b->batch_seconds : NULL);
    double mark = omp_get_wtime();
    const double norm = gradient_norm(&b->optimizer, b->model.gradients), now = omp_get_wtime();
    if (clocks) b->norm_seconds += now - mark;
    optimizer_step(&b->optimizer, &b->model.tensors, b->model.parameters, b->model.gradients, norm,
                   learning_rate(b->config, b->step), b->step);
    mark = omp_get_wtime();
    if (clocks) b->update_seconds += mark - now, b->clocked++;
    b->step++;
    return mark - start;
}

/* Operations and bytes of one step, by kind of work. The bytes are those of the arrays it reads and writes once. */
typedef struct {
    const char *name;
    double flops, bytes, seconds;
} Line;

enum { LINES_MAX = OP_COUNT + 3 };

static size_t lines_of(const Bench *b, Line lines[LINES_MAX]) {
    const ModelShape *s = &b->model.shape;
    const double micro = (double)b->config->train.accumulate, size = sizeof(real), L = (double)s->L;
    const double rows = micro * (double)b->config->train.batch * (double)s->T, P = (double)b->model.tensors.parameters;
    const double C = (double)s->C, F = (double)s->F, V = (double)s->V;
    const double linear = 2 * rows * model_linear_weights(s),
                 attention = rows * L * attention_flops(&s->attention, s->T);
    const double norms = 2 * L + s->pre_norm, head = 2 * rows * C * V;
    const bool drops = s->dropout > 0;
    const Line all[LINES_MAX] = {
        [OP_CLEAR] = {"gradients to zero", 0, P * size, 0},
        [OP_EMBEDDING] = {"embedding", 0, 3 * rows * C * size, 0},
        [OP_LAYERNORM] = {"LayerNorm", 0, 2 * norms * rows * C * size, 0},
        [OP_LINEAR] = {"linear layers", linear, 0, 0},
        [OP_ATTENTION] = {"attention", attention, 0, 0},
        [OP_RESIDUAL] = {"residual", 0, 2 * L * 3 * rows * C * size, 0},
        [OP_ACTIVATION] = {s->relu ? "ReLU" : "GELU", 0, L * 2 * rows * F * size, 0},
        [OP_LOGITS] = {"logits", head, 0, 0},
        [OP_LOSS] = {"loss", 0, 2 * rows * V * size, 0},
        [OP_LOSS_BACK] = {"loss, backward", 0, 2 * rows * V * size, 0},
        [OP_LOGITS_BACK] = {"logits, backward", 2 * head, 0, 0},
        [OP_LAYERNORM_BACK] = {"LayerNorm, backward", 0, norms * 6 * rows * C * size, 0},
        [OP_LINEAR_BACK] = {"linear, inputs", linear, 0, 0},
        [OP_LINEAR_WEIGHTS] = {"linear, weights", linear, 0, 0},
        [OP_ATTENTION_BACK] = {"attention, backward", 2 * attention, 0, 0},
        [OP_RESIDUAL_BACK] = {"residual, backward", 0,
                              (drops         ? 4
                               : s->pre_norm ? 0
                                             : 6) *
                                  L * rows * C * size,
                              0},
        [OP_ACTIVATION_BACK] = {s->relu ? "ReLU, backward" : "GELU, backward", 0, L * 3 * rows * F * size, 0},
        [OP_EMBEDDING_BACK] = {"embedding, backward", 0, 3 * rows * C * size, 0},
        [OP_WAIT] = {"waiting for each other", 0, 0, 0},
        [OP_COUNT] = {"drawing the batch", 0, 0, 0},
        [OP_COUNT + 1] = {"gradient norm", 0, P * size, 0},
        [OP_COUNT + 2] = {"update", 0, (b->optimizer.v ? 7 : 5) * P * size, 0},
    };
    const double outside[] = {b->batch_seconds, b->norm_seconds, b->update_seconds};
    for (size_t i = 0; i < LINES_MAX; i++) {
        lines[i] = all[i];
        for (size_t t = 0; i < OP_COUNT && t < b->model.threads; t++)
            lines[i].seconds += b->profiles[t].seconds[i] / (double)b->model.threads;
        if (i >= OP_COUNT) lines[i].seconds = outside[i - OP_COUNT];
        lines[i].seconds /= (double)b->clocked;
    }
    return LINES_MAX;
}

static void print_table(const Bench *b, FILE *out) {
    Line lines[LINES_MAX];
    double total = 0;
    size_t count = lines_of(b, lines);
    for (size_t i = 0; i < count; i++) total += lines[i].seconds;
    fprintf(out, "\n%-24s %9s %7s  %s\n", "operation", "ms", "share", "speed, and share of its limit");
    for (size_t i = 0; i < count; i++) {
        const Line *l = &lines[i];
        if (l->seconds < 1e-3 * total) continue;
        fprintf(out, "%-24s %9.3f %6.1f%%", l->name, 1e3 * l->seconds, 100 * l->seconds / total);
        if (l->flops > 0)
            fprintf(out, "  %7.1f GFLOP/s %4.0f%%", l->flops / l->seconds / 1e9, 100 * l->flops / l->seconds / b->peak);
        else if (l->bytes > 0)
            fprintf(out, "  %7.1f GB/s    %4.0f%%", l->bytes / l->seconds / 1e9,
                    100 * l->bytes / l->seconds / b->bandwidth);
        fputc('\n', out);
    }
}

static void print_report(const Bench *b, double step, double peak_rss, FILE *out) {
    char cpu[64];
    double tokens = (double)b->config->train.batch * (double)b->config->train.accumulate * (double)b->model.shape.T;
    cpu_name(cpu, sizeof cpu);
    fprintf(out, "%s: %zu threads on %s; products by %s%s\n", b->config->name, b->model.threads, cpu,
            matmul_is_own() ? "own kernels for " : "OpenBLAS core ",
            matmul_is_own() ? cpu_level_name(cpu_level()) : matmul_core());
    fprintf(out, "  step           %.3f ms, median of %zu; %.4g tokens/s\n", 1e3 * step, b->steps, tokens / step);
    fprintf(out, "  arithmetic     %.4g GFLOP a step, %.1f GFLOP/s\n", b->flops / 1e9, b->flops / step / 1e9);
    fprintf(out, "  sgemm peak     %.1f GFLOP/s (own kernels %.1f, OpenBLAS %.1f): a share of %.1f %%\n", b->peak / 1e9,
            b->rates.own / 1e9, b->rates.openblas / 1e9, 100 * b->flops / step / b->peak);
    fprintf(out, "  memory         %.1f MB at most; a sum of two arrays of 4 MB runs at %.1f GB/s\n", peak_rss,
            b->bandwidth / 1e9);
    fprintf(out, "  start-up       %.2f s until the first step began, which took %.2f s\n", b->start_up, b->first_step);
    print_table(b, out);
}

static bool print_json(const Bench *b, double step, double peak_rss, FILE *out, Error *err) {
    char *text = NULL;
    double tokens = (double)b->config->train.batch * (double)b->config->train.accumulate * (double)b->model.shape.T;
    Json *json = js_object();
    js_set(json, "name", js_text(b->config->name));
    js_set(json, "step_ms", js_number(1e3 * step));
    js_set(json, "steps", js_integer((int64_t)b->steps));
    js_set(json, "tokens_per_s", js_number(tokens / step));
    js_set(json, "gflop_per_step", js_number(b->flops / 1e9));
    js_set(json, "sgemm_peak_gflops", js_number(b->peak / 1e9));
    js_set(json, "own_gflops", js_number(b->rates.own / 1e9));
    js_set(json, "openblas_gflops", js_number(b->rates.openblas / 1e9));
    js_set(json, "share_of_peak", js_number(b->flops / step / b->peak));
    js_set(json, "peak_rss_mb", js_number(peak_rss));
    js_set(json, "start_up_s", js_number(b->start_up));
    js_set(json, "first_step_s", js_number(b->first_step));
    js_set(json, "threads", js_integer((int64_t)b->model.threads));
    js_set(json, "blas_core", js_text(matmul_core()));
    bool ok = js_dump(json, false, &text, err);
    if (ok) fprintf(out, "%s\n", text);
    js_free(json);
    free(text);
    return ok;
}

static bool prepare(Bench *b, size_t threads, Error *err) {
    const Config *c = b->config;
    size_t ids = (size_t)c->train.batch * (size_t)c->model.context;
    size_t bytes;
    if (!config_corpus(&b->corpus, c, NULL, err)) return false;
    const ModelShape shape = model_shape(c, b->corpus.vocabulary.count);
    if (!training_memory(c, &shape, threads, &bytes, err) ||
        !model_make(&b->model, &shape, (size_t)c->train.batch, threads, true, err) ||
        !optimizer_make(&b->optimizer, c, b->model.tensors.flat, threads, err))
        return false;
    b->tokens = calloc(2 * ids, sizeof *b->tokens);
    b->profiles = calloc(threads, sizeof *b->profiles);
    if (!b->tokens || !b->profiles) return error_set(err, STATUS_FAILED, "no memory for the batches");
    b->targets = b->tokens + ids;
    b->flops = model_flops(&shape, (double)tokens_per_step(c));
    tensors_initialise(&b->model.tensors, &shape, (Init)c->model.init, (uint64_t)c->train.seed, b->model.threads,
                       b->model.parameters);
    return true;
}

bool bench_run(const Config *config, size_t threads, double seconds, bool json, FILE *out, int *signal, Error *err) {
    Bench *b = calloc(1, sizeof *b);
    bool ok = (b != NULL || error_set(err, STATUS_FAILED, "no memory for a benchmark"));
    if (ok) b->config = config;
    if (ok && (ok = prepare(b, threads, err))) {
        struct rusage usage;
        b->start_up = process_age();
        b->first_step = take_step(b, false);
        for (double start = omp_get_wtime(); omp_get_wtime() - start < 1 && !interrupt_signal();) take_step(b, false);
        getrusage(RUSAGE_SELF, &usage); /* before the arrays that only this measurement needs */
        const Peak before = measure_peak(threads);
        const double start = omp_get_wtime();
        while (b->steps < STEPS_MAX && !interrupt_signal() &&
               (b->steps < STEPS_MIN || omp_get_wtime() - start < seconds)) {
            b->step_seconds[b->steps++] = take_step(b, false);
            if (b->steps % 2 == 0 || b->clocked < 2)
                take_step(b, true); /* in between, so that the machine is the same */
        }
        *signal = interrupt_signal();
        const Peak after = measure_peak(threads);
        b->rates = (Peak){fmax(before.own, after.own), fmax(before.openblas, after.openblas)};
        b->peak = fmax(b->rates.own, b->rates.openblas);
        b->bandwidth = measure_bandwidth(threads);
        double step = median_of(b->step_seconds, b->steps), peak_rss = (double)usage.ru_maxrss * 1024 / 1e6;
        if (json)
            ok = print_json(b, step, peak_rss, out, err);
        else if (b->steps)
            print_report(b, step, peak_rss, out);
    }
    if (b) {
        corpus_free(&b->corpus);
        model_free(&b->model);
        optimizer_free(&b->optimizer);
        free(b->tokens);
        free(b->profiles);
    }
    free(b);
    return ok;
}
