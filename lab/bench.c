/* The verb bench trains in memory and measures the time. The table splits a step by kind of work. Products are compared
   with the speed of 2048 x 2048 ones, everything else with the speed at which arrays are added. Both are measured in
   this process, since they vary with what else the machine does. */
#include "lab/lab.h"

#include <math.h>
#include <omp.h>
#include <string.h>
#include <sys/resource.h>

#include "base/interrupt.h"
#include "base/machine.h"
#include "gemm/bf16.h"
#include "gemm/gemm.h"
#include "lab/statistics.h"
#include "lab/sweep/section.h"
#include "ops/newton_schulz.h"
#include "train/trainer.h"

enum { STEPS_MIN = 3, STEPS_MAX = 4096, PEAK_SIZE = 2048, PEAK_REPEATS = 3 };
static const size_t MOVED = (size_t)1 << 20; /* numbers in an array: 4 MB */

/* The work of one kind in a step: what is done by the functions whose names begin so, unless an earlier row has them.
   The bytes are the sizes that the arrays which it reads and writes have in fp32. Both are 0 where the work is not of a
   known size: waiting, drawing the batch, what the config does not have. */
typedef struct {
    const char *functions, *name;
    double flops, bytes;
} Work;
enum { KINDS_MAX = 32 };
static Work work[KINDS_MAX];
static size_t kinds;

/* One thread's time in each kind of work, and the bytes of right operands that its products packed. */
typedef struct {
    double last;        /* when the operation before ended */
    size_t last_packed; /* the thread's packed bytes then */
    double seconds[KINDS_MAX];
    size_t packed[KINDS_MAX];
    char padding[64]; /* so that no two threads share a cache line */
} Profile;
static Profile *profiles; /* (threads) */

/* Counts the time since the thread's last operation for this one (Model.clock). */
static void count_time(const char *function) {
    Profile *own = &profiles[omp_get_thread_num()];
    const double now = omp_get_wtime();
    const size_t packed = gemm_packed_bytes();
    size_t kind = 0;
    while (kind < kinds && strncmp(function, work[kind].functions, strlen(work[kind].functions)) != 0) kind++;
    if (kind < kinds) own->seconds[kind] += now - own->last;
    if (kind < kinds) own->packed[kind] += packed - own->last_packed;
    own->last = now;
    own->last_packed = packed;
}

static double seconds = 8;
static bool as_json;

typedef struct {
    const Config *config;
    Corpus corpus;
    Model model;
    Engine engine;
    Optimizer optimizer;
    size_t step, clocked; /* steps made; steps with running clocks */
    double step_seconds[STEPS_MAX];
    size_t steps;             /* steps timed, whose clocks do not run */
    double flops;             /* floating-point operations of a step */
    double kernels, openblas; /* operations per second of 2048^3 products, by gemm/gemm.c and by OpenBLAS */
    double sgemm, bf16;       /* the larger of these two; of products of bf16 */
    double bandwidth;         /* bytes per second */
    double peak_rss;          /* megabytes */
} Bench;

/* Returns the operations per second of a product of two 2048 x 2048 matrices, both of floats or both of bf16: the best
   of PEAK_REPEATS, or of fewer if `seconds` end before; at least of one. Each thread computes its rows. */
static double measure_products(const void *a, const void *b, real *c, size_t threads, bool openblas, Form form) {
    const size_t n = PEAK_SIZE;
    const double begin = omp_get_wtime();
    double best = 0;
    for (int i = 0; i < PEAK_REPEATS && (i == 0 || omp_get_wtime() - begin < seconds); i++) {
        const double start = omp_get_wtime();
#pragma omp parallel num_threads((int)threads)
        {
            Range rows = range_split(n, 16, (size_t)omp_get_thread_num(), (size_t)omp_get_num_threads());
            const Product product = {.m = range_size(rows),
                                     .n = n,
                                     .k = n,
                                     .a = operand_from((Operand){a, n, form}, rows.begin, 0),
                                     .b = {b, n, form},
                                     .ldc = n,
                                     .alpha = 1};
            (openblas ? matmul_openblas : matmul_product)(&product, c + rows.begin * n);
        }
        best = fmax(best, 2.0 * (double)n * (double)n * (double)n / (omp_get_wtime() - start));
    }
    return best;
}

static void measure_peak(Bench *b) {
    const size_t size = (size_t)PEAK_SIZE * PEAK_SIZE, threads = b->model.threads, mark = memory_mark();
    Arena arena = {.used = 3 * size * sizeof(real)};
    arena_allocate(&arena, "products of 2048 x 2048");
    matmul_load_openblas();
    real *x = arena_take(&arena, 3 * size, sizeof *x), *y = x + size, *z = y + size;
    for (size_t i = 0; i < 3 * size; i++) x[i] = (real)(i % 13) - 6;
    b->kernels = fmax(b->kernels, measure_products(x, y, z, threads, false, FORM_REAL));
    b->openblas = fmax(b->openblas, measure_products(x, y, z, threads, true, FORM_REAL));
    b->sgemm = fmax(b->kernels, b->openblas);
    if (b->model.shape.attention.rounds) {
        Bf16 *rounded = (Bf16 *)z; /* x and y, which take half as much memory; the product then overwrites x */
        bf16_round(rounded, 0, x, 0, 1, 2 * size);
        b->bf16 = fmax(b->bf16, measure_products(rounded, rounded + size, x, threads, false, FORM_BF16));
    }
    memory_release(mark);
}

/* Returns the bytes per second when every thread adds two arrays of 4 MB, as activations are, into a third. */
static double measure_bandwidth(size_t threads) {
    real *x = memory_make(3 * MOVED * threads, sizeof *x, "arrays that are added");
    double best = 0;
    for (int i = 0; i < 8; i++) {
        double start = omp_get_wtime();
#pragma omp parallel num_threads((int)threads)
        {
            real *sum = x + 3 * MOVED * (size_t)omp_get_thread_num();
            for (size_t j = 0; j < MOVED; j++) sum[j] = sum[MOVED + j] + sum[2 * MOVED + j];
        }
        best = fmax(best, (double)(3 * MOVED * threads * sizeof *x) / (omp_get_wtime() - start));
    }
    memory_free(x);
    return best;
}

/* Makes one step of training and returns its seconds. With `clocks`, adds up the seconds of each kind of work. */
static double make_step(Bench *b, bool clocks) {
    const double start = omp_get_wtime();
    b->model.clock = clocks ? count_time : NULL;
    step_gradients(&b->engine, &b->corpus, b->config, b->step);
    operations_begin(&b->model);
    const double norm = gradient_norm(&b->optimizer, b->model.gradients);
    operation_ended(&b->model, "gradient_norm");
    step_update(&b->model, &b->optimizer, b->config, norm, b->step++);
    operation_ended(&b->model, "step_update");
    b->clocked += clocks;
    return omp_get_wtime() - start;
}

/* Returns the floating-point operations of Muon's products in one update. */
static double muon_flops(const Optimizer *o) {
    double sum = 0;
    for (size_t i = 0; i < o->matrix_count; i++)
        sum += newton_schulz_flops(o->matrices[i].rows, o->matrices[i].columns,
                                   o->config->train.precision == PRECISION_BF16);
    return sum;
}

static void add_work(const char *functions, const char *name, double flops, double bytes) {
    work[kinds++] = (Work){functions, name, flops, bytes};
}

static void list_work(const Bench *b) {
    const ModelShape *s = &b->model.shape;
    const double micro = (double)b->config->train.accumulate, size = sizeof(real), L = (double)s->L;
    const double rows = micro * (double)b->config->train.batch * (double)s->T, P = (double)b->model.tensors.parameters;
    const double C = (double)s->C, F = (double)s->F, V = (double)s->V, S = (double)b->config->train.shards;
    const double linear = 2 * rows * model_linear_weights(s), norms = 2 * L + s->pre_norm, head = 2 * rows * C * V;
    const double attention = rows * L * attention_flops(&s->attention, s->T);
    add_work("pack_weights", "packing weights", 0, 4 * (model_linear_weights(s) + C * V) * size);
    add_work("zero_gradients", "zeroing gradients", 0, S * (P - model_linear_weights(s)) * size);
    add_work("embedding_forward", "embedding", 0, 3 * rows * C * size);
    add_work("layernorm_forward", "LayerNorm", 0, 2 * norms * rows * C * size);
    add_work("linear_forward", "linear layers", linear, 0);
    add_work("attention_forward", "attention", attention, 0);
    add_work("residual_forward", "residual", 0, 2 * L * 3 * rows * C * size);
    add_work("hidden_forward", "activation", 0, L * 2 * rows * F * size);
    add_work("logits_forward", "logits", head, 0);
    add_work("cross_entropy_forward", "loss", 0, 2 * rows * V * size);
    add_work("cross_entropy_backward", "loss, backward", 0, 2 * rows * V * size);
    add_work("logits_backward", "logits, backward", 2 * head, 0);
    add_work("layernorm_backward", "LayerNorm, backward", 0, norms * 6 * rows * C * size);
    add_work("linear_backward_input", "linear, inputs", linear, 0);
    add_work("linear_backward_weight", "linear, weights", linear, 0);
    add_work("attention_", "attention, backward", 2 * attention, 0);
    add_work("residual_backward", "residual, backward", 0, (s->pre_norm ? 0 : 6) * L * rows * C * size);
    add_work("dropout_backward", "dropout, backward", 0, (s->dropout > 0 ? 4 : 0) * L * rows * C * size);
    add_work("hidden_backward", "activation, backward", 0, L * 3 * rows * F * size);
    add_work("embedding_backward", "embedding, backward", 0, 3 * rows * C * size);
    add_work("barrier", "waiting at barriers", 0, 0);
    add_work("corpus_training_batch", "drawing the batch", 0, 0);
    add_work("shards_end", "sum over shards", 0, 3 * (S - 1) * P * size);
    add_work("gradient_norm", "gradient norm", 0, P * size);
    add_work("step_update", "update", muon_flops(&b->optimizer), (b->optimizer.v ? 7 : 5) * P * size);
}

/* Returns the seconds of one kind of work in a step: the mean over the threads, or what one thread does alone outside
   of a pass. */
static double seconds_of(const Bench *b, size_t kind) {
    double sum = 0, threads = 0;
    for (size_t t = 0; t < b->model.threads; t++) {
        sum += profiles[t].seconds[kind];
        threads += profiles[t].seconds[kind] > 0;
    }
    return sum / fmax(1, threads) / (double)b->clocked;
}

/* Returns the megabytes of right operands that all threads pack in a step for the products of one kind of work. */
static double packed_of(const Bench *b, size_t kind) {
    double sum = 0;
    for (size_t t = 0; t < b->model.threads; t++) sum += (double)profiles[t].packed[kind];
    return sum / (double)b->clocked / 1e6;
}

/* Prints a row for each kind of work. Work of unknown size has one only where it takes a thousandth of the step. */
static void print_table(const Bench *b) {
    const double peak = b->model.shape.attention.rounds ? b->bf16 : b->sgemm; /* in the config's precision */
    double total = 0;
    for (size_t i = 0; i < kinds; i++) total += seconds_of(b, i);
    printf("\n%-24s %9s %7s %10s  %s\n", "operation", "ms", "share", "MB packed", "speed, and share of its limit");
    for (size_t i = 0; i < kinds; i++) {
        const Work *w = &work[i];
        const double spent = seconds_of(b, i), flops = w->flops / spent, bytes = w->bytes / spent;
        if (!(spent > 0) || (spent < 1e-3 * total && !(w->flops > 0 || w->bytes > 0))) continue;
        printf("%-24s %9.3f %6.1f%%", w->name, 1e3 * spent, 100 * spent / total);
        const double packed = packed_of(b, i);
        if (packed > 0) printf(" %10.2f", packed);
        else printf(" %10s", "");
        if (w->flops > 0) printf("  %7.1f GFLOP/s %4.0f%%", flops / 1e9, 100 * flops / peak);
        else if (w->bytes > 0) printf("  %7.1f GB/s    %4.0f%%", bytes / 1e9, 100 * bytes / b->bandwidth);
        putchar('\n');
    }
}

static void print_report(const Bench *b, double step) {
    char cpu[64];
    cpu_name(cpu, sizeof cpu);
    printf("%s: %zu threads on %s (%s); products by %s\n", b->config->name, b->model.threads, cpu,
           cpu_level_name(cpu_level()),
           b->engine.kind == ENGINE_PLAIN ? "the plain engine" : matmul_kernels(b->model.shape.attention.rounds));
    printf("  step           %.3f ms, median of %zu; %.4g tokens/s\n", 1e3 * step, b->steps,
           (double)tokens_per_step(b->config) / step);
    printf("  arithmetic     %.4g GFLOP per step, %.1f GFLOP/s: %.1f %% of the sgemm peak\n", b->flops / 1e9,
           b->flops / step / 1e9, 100 * b->flops / step / b->sgemm);
    printf("  sgemm peak     %.1f GFLOP/s (own kernels %.1f, OpenBLAS %.1f)\n", b->sgemm / 1e9, b->kernels / 1e9,
           b->openblas / 1e9);
    if (b->model.shape.attention.rounds)
        printf("  bf16 peak      %.1f GFLOP/s (%s), of which a step reaches %.1f %%\n", b->bf16 / 1e9,
               matmul_kernels(true), 100 * b->flops / step / b->bf16);
    printf("  memory         %.1f MB at most; adding two arrays of 4 MB runs at %.1f GB/s\n", b->peak_rss,
           b->bandwidth / 1e9);
    if (b->engine.kind == ENGINE_FAST) print_table(b); /* the plain engine has no clocks */
}

static void print_json(const Bench *b, double step) {
    Json *json = js_object();
    js_set(json, "name", js_text(b->config->name));
    js_set(json, "step_ms", js_number(1e3 * step));
    js_set(json, "steps", js_size(b->steps));
    js_set(json, "tokens_per_s", js_number((double)tokens_per_step(b->config) / step));
    js_set(json, "gflop_per_step", js_number(b->flops / 1e9));
    js_set(json, "sgemm_peak_gflops", js_number(b->sgemm / 1e9));
    js_set(json, "share_of_peak", js_number(b->flops / step / b->sgemm));
    if (b->model.shape.attention.rounds) {
        js_set(json, "bf16_peak_gflops", js_number(b->bf16 / 1e9));
        js_set(json, "share_of_bf16_peak", js_number(b->flops / step / b->bf16));
    }
    Json *packed = js_object();
    for (size_t i = 0; i < kinds; i++)
        if (packed_of(b, i) > 0) js_set(packed, work[i].name, js_number(packed_of(b, i)));
    js_set(json, "packed_mb", packed);
    js_set(json, "peak_rss_mb", js_number(b->peak_rss));
    js_set(json, "threads", js_size(b->model.threads));
    js_set(json, "blas_core", js_text(matmul_core()));
    puts(js_dump(json, JS_LINE));
}

static void prepare(Bench *b, size_t threads) {
    const Config *c = b->config;
    b->corpus = config_corpus(c, NULL);
    const ModelShape shape = model_shape(c, b->corpus.vocabulary.count);
    model_make(&b->model, &shape, c->train.batch, threads, true);
    engine_make(&b->engine, c->train.engine, c->train.shards, &b->model);
    optimizer_make(&b->optimizer, c, &b->model.tensors, threads);
    training_memory_check(training_memory(&b->engine, &b->optimizer));
    profiles = memory_make(threads, sizeof *profiles, "the clocks");
    list_work(b);
    b->flops = model_flops(&shape, (double)tokens_per_step(c));
    tensors_initialize(&b->model.tensors, &shape, c->model.init, c->train.seed, threads, b->model.parameters);
}

/* Returns the peak memory of this process in megabytes. */
static double peak_memory(void) {
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
    return (double)usage.ru_maxrss / 1e6; /* in bytes there */
#else
    return (double)usage.ru_maxrss * 1024 / 1e6;
#endif
}

/* Warms up for a second, then makes steps for about `seconds`, at least three. The peak is measured before the steps
   and after them, and the larger one counts. After a caught signal returns early with what was measured. */
static void measure(Bench *b) {
    const double warming = omp_get_wtime();
    do make_step(b, false);
    while (omp_get_wtime() - warming < 1 && !interrupt_signal());
    b->peak_rss = peak_memory(); /* before the arrays that only this measurement needs */
    measure_peak(b);
    const double start = omp_get_wtime();
    while (b->steps < STEPS_MAX && !interrupt_signal() && (b->steps < STEPS_MIN || omp_get_wtime() - start < seconds)) {
        b->step_seconds[b->steps++] = make_step(b, false);
        /* Steps with clocks are made in between, so that the machine is the same for both. */
        if (b->steps % 2 == 0 || b->clocked < 2) make_step(b, true);
    }
    b->bandwidth = measure_bandwidth(b->model.threads);
    measure_peak(b);
}

/* Trains with real batches and real updates, and writes no file. */
static int run(const Command *command) {
    Config config;
    static SweepAxes ignored; /* the config is timed without its [sweep] section */
    static Bench b;           /* large */
    b.config = &config;
    axes_load(&config, &ignored, command->target, command->overrides.items, command->overrides.count);
    prepare(&b, command_threads(command));
    measure(&b);
    const double step = estimate_median(b.step_seconds, b.steps).value;
    if (b.steps && as_json) print_json(&b, step);
    else if (b.steps) print_report(&b, step);
    return interrupt_signal();
}

static const Option OPTIONS[] = {
    {"seconds", "S", "how long to measure (default 8; three steps at least)", OPTION_NUMBER, &seconds, 0, 1000000},
    {"json", NULL, "print one line of JSON", OPTION_SWITCH, &as_json, 0, 0},
    {0},
};

const Verb bench_verb = {
    .name = "bench",
    .target = "CONFIG.ini",
    .what = "Measures how fast a config trains, and what share that is of the machine's peak.",
    .options = OPTIONS,
    .settings_meant = config_settings_meant,
    .run = run,
};
