/* Writes the logits of a run's last checkpoint for the text of standard input, a line for each position, as
   lab/tests/report_decoder.py compares them with the page's: with the parameters rounded to fp16, which is what the
   page has, and the text cut to its last `context` characters. --fp32 leaves the parameters as they are, for
   lab/engines/engines.py.

       logits [--fp32] RUN_DIR [DIVISOR] */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "run/run.h"

static Run run;
enum { TEXT_MAX = 1 << 16 };

static real to_fp16(real x) {
    int exponent;
    frexp((double)x, &exponent);
    const int last_digit = exponent > -13 ? exponent - 11 : -24;
    return (real)ldexp(rint(ldexp((double)x, -last_digit)), last_digit);
}

static void write_logits(const char *directory, const char *divisor, bool rounded) {
    static char text[TEXT_MAX];
    static int32_t ids[TEXT_MAX];
    const size_t size = fread(text, 1, sizeof text, stdin);
    Model m;
    run_open(&run, directory, NULL, 0, false);
    run_load_model(&run, &m, 1, 1);
    const size_t count = vocabulary_encode(&run.vocabulary, "the text", text, size, ids, TEXT_MAX);
    for (size_t i = 0; rounded && i < m.tensors.flat; i++) m.parameters[i] = to_fp16(m.parameters[i]);
    const double by = divisor ? atof(divisor) : 0;
    for (size_t l = 0; divisor && l < m.shape.L; l++) {
        const Tensor *learned = tensor_find(&m.tensors, ATTN_SCALE, l);
        for (size_t i = 0; learned && i < learned->count; i++) m.parameters[learned->offset + i] = (real)(1 / by);
    }
    if (divisor) m.shape.attention.divisor = by;
    const size_t T = m.shape.T, V = m.shape.V, seen = count < T ? count : T;
    model_forward(&m, &(Batch){ids + count - seen, NULL, 1, seen});
    for (size_t i = 0; i < seen * V; i++) printf("%.9g%c", (double)m.logits.values[i], i % V + 1 < V ? ' ' : '\n');
}

int main(int argc, char **argv) {
    const int first = argc > 1 && strcmp(argv[1], "--fp32") == 0 ? 2 : 1;
    if (argc < first + 1 || argc > first + 2) usage_error("logits [--fp32] RUN_DIR [DIVISOR] <TEXT");
    write_logits(argv[first], argc > first + 1 ? argv[first + 1] : NULL, first == 1);
    memory_release(0);
    return 0;
}
