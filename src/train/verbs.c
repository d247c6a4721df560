/* The verbs eval and sample, which read a trained model. evaluate.c and sample.c, which training calls as well, compute
   the loss and draw the characters. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "base/files.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/run.h"
#include "show/progress.h"
#include "train/sample.h"
#include "train/trainer.h"

/* --- eval */

static int run_evaluation(const Command *command) {
    static Run run;
    Model model;
    run_open(&run, command->target, NULL, 0, false);
    run_load_model(&run, &model, 0, command_threads(command));
    run_load_corpus(&run);
    const Evaluation e = evaluate_run(&run, &model);
    if (!e.complete) return interrupt_signal();
    const char *target = config_target(&run.config);
    printf("validation loss %.4f nats per %s", e.loss, target);
    if (!isnan(e.accuracy)) printf(", accuracy %.4f", e.accuracy);
    printf(", over %zu %ss\n", e.targets, target);
    return 0;
}

const Verb eval_verb = {
    .name = "eval",
    .target = "RUN_DIR",
    .what = "Prints the loss of a trained model over the whole validation split.",
    .run = run_evaluation,
};

/* --- sample */

enum { PROMPT_MAX = 65536 };
static const char *prompt = "";
static long long tokens = 500, top_k = 0, seed = -1; /* top_k 0, seed -1: not given */
static double temperature = 1, top_p = 1;

static const Option SAMPLE_OPTIONS[] = {
    {"prompt", "TEXT", "how it begins; - reads standard input (default: a newline)", OPTION_TEXT, &prompt, 0, 0},
    {"tokens", "N", "characters to draw (default 500)", OPTION_INTEGER, &tokens, 0, 1000000000},
    {"temperature", "X", "above 1 more random, below 1 less, 0 greedy (default 1)", OPTION_NUMBER, &temperature, 0,
     1000000},
    {"top-k", "K", "draw from the K most likely characters (default: all)", OPTION_INTEGER, &top_k, 1, 1000000000},
    {"top-p", "P", "draw from the fewest characters with probability P", OPTION_NUMBER, &top_p, 0, 1},
    {"seed", "S", "of the random numbers (default: a new one, which is shown)", OPTION_INTEGER, &seed, 0, LLONG_MAX},
    {0},
};

/* Returns --seed; without it a seed drawn from the system, with a note, so that the text can be drawn again. A greedy
   text needs none. */
static uint64_t choose_seed(const Command *command) {
    uint32_t drawn;
    if (seed >= 0 || temperature <= 0) return seed >= 0 ? (uint64_t)seed : 0;
    if (getentropy(&drawn, sizeof drawn) != 0) runtime_error("cannot draw a seed: %s", strerror(errno));
    progress_message(progress_make(stderr, command->quiet), "note: --seed %u draws this text again", drawn);
    return drawn;
}

/* Returns the signal that ended the text, or 0. */
static int write_sample(const Run *run, Model *model, const Command *command) {
    static int32_t ids[PROMPT_MAX];
    static char input[4 * PROMPT_MAX + 8]; /* more than is used, so that a longer text is found */
    const size_t size = input_read(&prompt, input, sizeof input, vocabulary_id(&run->vocabulary, '\r') >= 0);
    size_t count = 1;
    if (top_p <= 0) usage_error("--top-p takes a number above 0");
    ids[0] = sample_start(&run->vocabulary);
    if (size) count = vocabulary_encode(&run->vocabulary, "--prompt", prompt, size, ids, PROMPT_MAX);
    int32_t *window = memory_make(model->shape.T, sizeof *window, "sampling a text");
    const SampleOptions options = {.tokens = (size_t)tokens,
                                   .temperature = temperature,
                                   .top_k = (size_t)top_k,
                                   .top_p = top_p,
                                   .seed = choose_seed(command)};
    text_write(prompt, size, stdout);
    const bool complete = sample_text(model, &run->vocabulary, ids, count, &options, window, stdout);
    fputc('\n', stdout); /* main notices at its end that stdout failed */
    return complete ? 0 : interrupt_signal();
}

static int run_sampling(const Command *command) {
    static Run run;
    Model model;
    run_open(&run, command->target, NULL, 0, false);
    run_load_model(&run, &model, 1, command_threads(command));
    return write_sample(&run, &model, command);
}

const Verb sample_verb = {
    .name = "sample",
    .target = "RUN_DIR",
    .what = "Writes text with a trained model.",
    .options = SAMPLE_OPTIONS,
    .run = run_sampling,
};
