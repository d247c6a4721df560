/* The claims. What is expected comes from docs/theory.md and the integrals of exact.c where there are any, and must
   hold for the explanation to be given. */
#include "theory/claims.h"

#include <float.h>
#include <math.h>

#define VASWANI "Vaswani et al. 2017, Attention Is All You Need"
#define BRITZ "Britz et al. 2017, Massive Exploration of Neural Machine Translation Architectures"
#define YANG "Yang et al. 2022, Tensor Programs V"
#define HENRY "Henry et al. 2020, Query-Key Normalization for Transformers"
#define WORTSMAN "Wortsman et al. 2023, Small-scale proxies for large-scale Transformer training instabilities"

/* A table, with a line for each thing that is said of a claim. */
/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): parts of initializers take none */

/* Divisors */
#define NONE {.mode = SCALE_NONE}
#define ROOT {.mode = SCALE_SQRT_DK}
#define D_K {.mode = SCALE_DK}
#define TWO_ROOT {.mode = SCALE_2SQRT_DK}
#define OVER(x) {.mode = SCALE_NUMBER, .number = x}
#define ROOT_512 22.627416997969522

/* Cases */
#define SCORES(dim, n, count, by) .d_k = dim, .keys = n, .rows = count, .divisor = by
#define MATRICES(dim, by, number) SCORES(dim, MATRIX_ROWS, 4000, by), .queries = MATRIX_ROWS, .stream = number
#define THEORY(dim, n, by) .from = FROM_THEORY, SCORES(dim, n, 4000, by)
#define ADDITIVE(hidden, by, number) .from = FROM_ADDITIVE, SCORES(hidden, 10, 60, by), .stream = number
#define INTEGRALS(dim) .from = FROM_INTEGRALS, SCORES(dim, 64, 1, NONE)
#define VALUES(scale) .from = FROM_VALUES, SCORES(64, 32, 400, NONE), .value_scale = scale
#define MODEL(h, dim) .from = FROM_MODEL, .rows = 1, .heads = h, .d_k = dim
#define ROW(number, by, ...) .from = FROM_ROW, SCORES(5, 5, 1, by), .row = {__VA_ARGS__}, .key = number
#define KEYS(...) \
    {ROW(0, NONE, __VA_ARGS__)}, {ROW(1, NONE, __VA_ARGS__)}, {ROW(2, NONE, __VA_ARGS__)}, \
    {ROW(3, NONE, __VA_ARGS__)}, {ROW(4, NONE, __VA_ARGS__)}
#define MARKS 10, 80, 500, 4000, 20000
#define LARGE_ROW -24, -10, 0, 10, 24
#define SMALL_ROW -3, -1, 0, 1, 3
#define EXAMPLE .from = FROM_ROW, .d_k = 3, .keys = 1, .rows = 1, .row = {.5 * -.7 + -.3 * .4 + 1.2 * .9}
#define FP16 .format_max = 65504
#define ALIGNED(dim, by, number) SCORES(dim, 8, 400, by), .alignment = .5, .stream = number
#define SELF(by) SCORES(64, 1, 500, by), FP16, .stream = 1, .alignment = 1 /* a position and itself: k = q */

/* Statistics, and targets: the values of the cases in their order, `tolerance` besides the figure's own error. */
#define OF(reduction, name) .take = reduction, .field = offsetof(Row, name)
#define ARRAY(...) (const double[]){__VA_ARGS__}
#define TARGET(tolerance, ...) {tolerance, sizeof ARRAY(__VA_ARGS__) / sizeof(double), ARRAY(__VA_ARGS__)}
#define SAID(...) .said = TARGET(__VA_ARGS__)
#define EXPECTED(...) .expected = TARGET(__VA_ARGS__)

/* NOLINTEND(bugprone-macro-parentheses) */

/* The order is the numbering, on which the random numbers depend: append. */
const Claim CLAIMS[] = {
    {.claim = "q = (0.5, -0.3, 1.2) and k = (-0.7, 0.4, 0.9): q·k = 0.61, over √3 0.35; Var(q·k) = 3 = d_k, after dividing 1",
     .cases = {{EXAMPLE, .divisor = NONE}, {EXAMPLE, .divisor = ROOT}, {SCORES(3, 1, 100000, NONE)}, {SCORES(3, 1, 100000, ROOT)}},
     .statistics = {{OF(mean_of, score), SAID(.01, .61, .35)}, {OF(mean_of, square), SAID(0, NAN, NAN, 3, 1)}},
     .measured = "q·k = {0.0:.3f}, over √3 {0.1:.3f}; variance over 100000 random pairs {1.2:.3f} ± {~1.2:.3f}, divided {1.3:.3f} ± {~1.3:.3f}",
     .why = "The score is a sum of d_k independent products of variance 1, when entries are independent with mean 0 and variance 1."},
    {.claim = "Marks 10, 80, 500, 4000, 20000 in five subjects with different full marks: shares .00009 .00072 .0045 .036 .18; the small ones cannot learn",
     .cases = {KEYS(MARKS), {ROW(4, ROOT, MARKS)}},
     .statistics = {{OF(mean_of, key_share), SAID(.0001, .00009, .00072, .0045, .036, .18)}, {OF(mean_of, key_weight)},
                    {OF(mean_of, key_derivative), SAID(1e-6, 0, 0, 0, 0), EXPECTED(1e-6, 0, 0, 0, 0, 0)}},
     .measured = "the stated shares are the marks over about 111111 and add up to 0.22; marks over their own sum are {0.0:.4f} {0.1:.4f} {0.2:.3f} {0.3:.3f} {0.4:.3f}; softmax gives {1.0:.3g} {1.1:.3g} {1.2:.3g} {1.3:.3g} {1.4:.3g}, also after dividing by √5 ({1.5:.3g} for the last); p(1-p) is {2.3:.2g} for the fourth and {2.4:.2g} for the largest",
     .why = "Proportions are a poor analogy: softmax depends on differences: the small ones learn nothing, but the largest, alone with weight 1, does not either. One divisor for all changes no share; a measure for each subject is another thing."},
    {.claim = "Dividing brings the scores to -1..1",
     .cases = {{SCORES(64, 64, 1000, ROOT)}},
     .statistics = {{OF(mean_of, inside), SAID(.1, 100), EXPECTED(1, 68.3)}, {OF(largest_of, largest)}},
     .measured = "of 64000 scores at d_k 64, divided by 8, {0.0:.1f} % lie in -1..1; the largest is {1.0:.1f}",
     .why = "Dividing makes the standard deviation 1, it sets no bounds; a normal number lies in -1..1 in 68 of 100 cases."},
    {.claim = "softmax(-24, -10, 0, 10, 24) = 0 0 0 0 1",
     .cases = {KEYS(LARGE_ROW)},
     .statistics = {{OF(mean_of, key_weight), SAID(.001, 0, 0, 0, 0, 1)}},
     .measured = "{0.0:.3g} {0.1:.3g} {0.2:.3g} {0.3:.3g} {0.4:.3g} (to three digits)",
     .why = "To three decimals that is what it gives."},
    {.claim = "softmax(-3, -1, 0, 1, 3) = .012 .089 .243 .661 .995",
     .cases = {KEYS(SMALL_ROW)},
     .statistics = {{OF(mean_of, key_weight), SAID(.001, .012, .089, .243, .661, .995),
                     EXPECTED(.001, .002, .015, .041, .112, .829)}},
     .measured = "{0.0:.3g} {0.1:.3g} {0.2:.3g} {0.3:.3g} {0.4:.3g}",
     .why = "What is stated adds up to 2.000; weights add up to 1."},
    {.claim = "Softmax's derivative p(1-p) is about 0 undivided and above 0.01 divided",
     .cases = {{ROW(4, NONE, LARGE_ROW)}, {ROW(0, NONE, SMALL_ROW)}, /* where it is largest, and where it is least */
               {SCORES(64, 64, 1000, NONE)}, {SCORES(64, 10, 1000, ROOT)}, {SCORES(64, 64, 1000, ROOT)}},
     .statistics = {{OF(mean_of, key_derivative), SAID(.001, 0), EXPECTED(.001, 0, .002)},
                    {OF(mean_of, steep), SAID(1, NAN, NAN, 0, 100, 100), EXPECTED(2, NAN, NAN, 4.5, 97, 48)}},
     .measured = "in the rows of claims 4 and 5 at most {0.0:.1g}, and at least {0.1:.4f}; at d_k 64, undivided and 64 keys, {1.2:.1f} % of the weights have more than 0.01; divided {1.3:.0f} % with 10 keys, {1.4:.0f} % with 64",
     .why = "The direction is right, the 0.01 is not: with n keys a weight is about 1/n, and p(1-p) no more than that."},
    {.claim = "10 keys, d_k 16 / 64 / 256: entropy undivided 2.1 / 0.8 / 0.2, divided 2.3 each time",
     .cases = {{THEORY(16, 10, NONE)}, {THEORY(64, 10, NONE)}, {THEORY(256, 10, NONE)},
               {THEORY(16, 10, ROOT)}, {THEORY(64, 10, ROOT)}, {THEORY(256, 10, ROOT)}},
     .statistics = {{OF(mean_of, entropy), SAID(.05, 2.1, .8, .2, 2.3, 2.3, 2.3),
                     EXPECTED(.01, .75, .34, .17, 1.93, 1.93, 1.93)}},
     .measured = "undivided {0.0-2:.2f}, divided {0.3-5:.2f} nats, ± {~0.0:.2f}; 2.30 is the most that 10 keys can have",
     .why = "Figures that agree: {=0.0-5:.0f} of 6. It does fall without the divisor and stay with it; but ln 10 = 2.3 is the entropy of weights all equal, and scores of variance 1 do not give those."},
    {.claim = "The same, largest weight of a 10x10 matrix: undivided .342 / .891 / .998, divided .289 / .276 / .301",
     .cases = {{MATRICES(16, NONE, 4)}, {MATRICES(64, NONE, 6)}, {MATRICES(256, NONE, 8)},
               {MATRICES(16, ROOT, 4)}, {MATRICES(64, ROOT, 6)}, {MATRICES(256, ROOT, 8)}},
     .statistics = {{OF(matrix_mean_of, top_weight), SAID(0, .342, .891, .998, .289, .276, .301)},
                    {OF(matrix_largest_of, top_weight), SAID(0, .342, .891, .998, .289, .276, .301), .aside = true}},
     .measured = "95 of 100 matrices have, as mean of the rows' largest weights, undivided {<0.0:.2f} to {>0.0:.2f}, {<0.1:.2f} to {>0.1:.2f}, {<0.2:.2f} to {>0.2:.2f}; divided {<0.3:.2f} to {>0.3:.2f}, {<0.4:.2f} to {>0.4:.2f}, {<0.5:.2f} to {>0.5:.2f}; {=0.0-5:.0f} of the 6 stated figures are such means, {=1.0-5:.0f} such a matrix's single largest weight",
     .why = "As means of rows, {=0.0-2:.0f} of the 3 undivided figures and {=0.3-5:.0f} of the 3 divided ones can be had."},
    {.claim = "The norm of dL/dQ falls as 1/d_k undivided and is constant divided",
     .cases = {{THEORY(16, 10, NONE)}, {THEORY(64, 10, NONE)}, {THEORY(256, 10, NONE)}, {THEORY(1024, 10, NONE)},
               {THEORY(16, 10, ROOT)}, {THEORY(64, 10, ROOT)}, {THEORY(256, 10, ROOT)}, {THEORY(1024, 10, ROOT)}},
     .statistics = {{OF(mean_of, gradient), SAID(.02, NAN, .86 / 4, .86 / 16, .86 / 64, .31, .31, .31, .31),
                     EXPECTED(.02, .86, 1.04, 1.11, 1.11)},
                    {OF(root_of, gradient_square)}, {OF(median_of_rows, gradient), EXPECTED(.01, NAN, NAN, NAN, 0)}},
     .measured = "10 keys, d_k 16 / 64 / 256 / 1024: mean undivided {0.0-3:.2f} (about d_k^{^0.0-3:.2f}), its root mean square about d_k^{^1.0-3:.2f}, its median {2.0-3:.2g}; mean divided {0.4-7:.2f}",
     .why = "Divided it is constant. Undivided the typical row loses it far faster than 1/d_k, but the few rows with two keys nearly level get ever more, so that the mean stays."},
    {.claim = "Table 3, rows (B), of the Transformer's paper shows that models without the divisor improve when d_k falls from 64 to 32",
     .source = VASWANI,
     .measured = "nothing; the table prints, for d_k 16 / 32 / 64, BLEU 25.1 / 25.4 / 25.8 and perplexity 5.16 / 5.01 / 4.92, all divided by √d_k",
     .if_so = VERDICT_WRONG,
     .why = "The table has no model without the divisor, and in it a smaller d_k does worse, as the paper says."},
    {.claim = "Additive attention, v·tanh(W1 q + W2 k), needs no scaling because tanh is bounded",
     .cases = {{ADDITIVE(16, NONE, 0)}, {ADDITIVE(512, NONE, 1)}, {ADDITIVE(16, ROOT, 0)}, {ADDITIVE(512, ROOT, 1)}},
     .statistics = {{OF(mean_of, square), SAID(.05, NAN, NAN, .5, .5), EXPECTED(0, 8.4, 270)},
                    {OF(largest_of, largest)}},
     .measured = "v·tanh(W1 q + W2 k) with 16 / 512 hidden units: v of unit variance, score variance {0.0:.1f} ± {~0.0:.1f} / {0.1:.0f} ± {~0.1:.0f}; v of variance 1/units, {0.2-3:.2f}. The largest at 512 is {1.1:.0f}",
     .if_so = VERDICT_OTHER_REASON,
     .why = "tanh bounds each unit, not their sum, which grows as q·k does. It is v's initial variance of 1/units, as usual, that keeps the score: the divisor is inside v."},
    {.claim = "Additive attention is slower",
     .source = VASWANI,
     .measured = "for one score with d_k and hidden units 64: q·k 128 operations; additive 192 and 64 times tanh (counted, not timed)",
     .why = "It needs more arithmetic, and of all scores together only q·k is a product of matrices."},
    {.claim = "Undivided dot products do as well as additive attention at small d_k and worse at large d_k; divided they do well at every d_k",
     .source = VASWANI, .if_so = VERDICT_TRAINING,
     .why = "docs/results.md has the dot products, for several d_k, and additive attention at d_k 64."},
    {.claim = "(q·k)/√d_k is N(0, 1)",
     .cases = {{SCORES(1, 1, 200000, ROOT)}, {SCORES(4, 1, 200000, ROOT), .stream = 1},
               {SCORES(64, 1, 200000, ROOT), .stream = 2}},
     .statistics = {{OF(mean_of, square), SAID(0, 1, 1, 1)},
                    {OF(excess_of, square), SAID(0, 0, 0, 0), EXPECTED(0, 6, 6 / 4., 6 / 64.)}},
     .measured = "d_k 1: variance {0.0:.3f}, excess kurtosis {1.0:.2f} (exact 6.00); d_k 4: variance {0.1:.3f}, excess kurtosis {1.1:.2f} (exact 1.50); d_k 64: variance {0.2:.3f}, excess kurtosis {1.2:.2f} (exact 0.09)",
     .why = "Mean 0 and variance 1, yes; normal only in the limit of large d_k, and the scores of a row share their q, so the row's own variance is |q|²/d_k."},
    {.claim = "Dividing by √d_k is like BatchNorm without the mean",
     .cases = {{SCORES(64, 16, 2000, ROOT), .q_std = 2}},
     .statistics = {{OF(mean_of, square), SAID(0, 1), EXPECTED(0, 4)}},
     .measured = "with q twice as long the divided scores have variance {0.0:.2f} ± {~0.0:.2f}; normalized by what is measured they would have 1",
     .why = "BatchNorm divides by what it measures; √d_k is a constant, right for one size of q and k and corrected by nothing."},
    {.claim = "Undivided scores may overflow a float",
     .cases = {{SCORES(1024, 64, 300, NONE), .format_max = FLT_MAX}},
     .statistics = {{OF(largest_of, largest)}, {OF(largest_of, beyond), SAID(99.99, 100), EXPECTED(0, 0)},
                    {OF(mean_of, exp_overflow), EXPECTED(0, 17)}, {OF(mean_of, safe_overflow), EXPECTED(0, 0)}},
     .measured = "d_k 1024, 19200 scores: the largest is {0.0:.0f}, a float holds 3e+38; exp of the bare scores overflows in {2.0:.0f} % of the rows, with the row's maximum subtracted in {3.0:.0f}",
     .why = "Not the scores but their exponentials overflow, from 88.7 on, and only in a softmax that does not subtract the maximum first."},
    {.claim = "In fp16, undivided scores overflow",
     .cases = {{SCORES(64, 64, 500, NONE), FP16}, {SCORES(64, 64, 500, ROOT), FP16},
               {SCORES(1024, 64, 200, NONE), FP16, .stream = 2},
               {SELF(NONE)}, {SELF(NONE), .q_std = 48}, {SELF(ROOT), .q_std = 48}},
     .statistics = {{OF(largest_of, largest)},
                    {OF(mean_of, beyond), SAID(99.99, NAN, NAN, 100, 100, 100), EXPECTED(1, 0, 0, 0, 0, 100, 0)},
                    {OF(mean_of, exp_overflow), EXPECTED(1, 100, 0)}, {OF(mean_of, bf16_error)}},
     .measured = "unit entries, d_k 1024: the largest of 12800 scores is {0.2:.0f}, fp16 holds 65504. exp of bare scores (d_k 64, 64 keys) overflows fp16 in {2.0:.0f} % of the rows, divided in {2.1:.0f} %. q·q of d_k 64 overflows in {1.3:.0f} % of the cases with entries of deviation 1, {1.4:.0f} % with 48, {1.5:.0f} % with 48 and q divided by 8 first. bf16 has a float's range but 8 bits: the worst weight of a row is off by {3.0:.2g} undivided, {3.1:.2g} divided",
     .why = "Not with entries of unit variance. It takes a deviation of 32 and more, or exp without the maximum subtracted. Dividing helps with the first only if q is divided before the product."},
    {.claim = "Dividing by d_k: variance 1/d_k, weights nearly uniform",
     .cases = {{SCORES(64, 64, 1000, D_K)}, {SCORES(64, 64, 1000, ROOT)}},
     .statistics = {{OF(mean_of, square), SAID(0, 1 / 64.)}, {OF(mean_of, evenness), SAID(.01, 1)}},
     .measured = "d_k 64, 64 keys: variance {0.0:.4g} ± {~0.0:.1g}; entropy {1.0:.3f} of the possible (divided by √d_k: {1.1:.3f})",
     .why = "The variance is what is stated, and the weights are nearly uniform. Whether it trains worse is another question: docs/results.md."},
    {.claim = "Dividing by 2√d_k: variance 1/4",
     .cases = {{SCORES(64, 64, 1000, TWO_ROOT)}, {SCORES(64, 64, 1000, ROOT)}},
     .statistics = {{OF(mean_of, square), SAID(0, .25)}, {OF(mean_of, evenness)}},
     .measured = "d_k 64, 64 keys: variance {0.0:.4g} ± {~0.0:.1g}; entropy {1.0:.3f} of the possible (divided by √d_k: {1.1:.3f})",
     .why = "The variance is what is stated. Whether it trains worse is another question: docs/results.md."},
    {.claim = "Dividing by d_k, or by 2√d_k, trains worse than by √d_k",
     .if_so = VERDICT_TRAINING,
     .why = "Drawing queries and keys says nothing about it: docs/results.md."},
    {.claim = "8 keys, d_k 32 / 128 / 512: undivided softmax is much sharper",
     .cases = {{THEORY(32, 8, NONE)}, {THEORY(128, 8, NONE)}, {THEORY(512, 8, NONE)},
               {THEORY(32, 8, ROOT)}, {THEORY(128, 8, ROOT)}, {THEORY(512, 8, ROOT)}},
     .statistics = {{OF(mean_of, top_weight)},
                    {OF(mean_of, entropy), SAID(.43, .43, .43, .43) /* 0 to half of 1.72 */,
                     EXPECTED(.02, NAN, NAN, NAN, 1.72, 1.72, 1.72)}},
     .measured = "largest weight {0.0-2:.2f} undivided, {0.3-5:.2f} divided; entropy {1.0-2:.2f} and {1.3-5:.2f} nats",
     .why = "Undivided the entropy is less than half of the divided one. Whether training suffers is measured by training: docs/results.md."},
    {.claim = "Training without the divisor is unstable at d_k 512",
     .if_so = VERDICT_TRAINING,
     .why = "Drawing queries and keys says nothing about it: docs/results.md."},
    {.claim = "Cross-attention between modalities of different variance (text 10x768, image 49x768): the divisor keeps the scores aligned",
     .cases = {{SCORES(768, 49, 100, ROOT)}, {SCORES(768, 49, 100, ROOT), .k_std = 4, .stream = 1},
               {SCORES(768, 49, 100, ROOT), .correlation = .1, .stream = 2}},
     .statistics = {{OF(mean_of, square), SAID(0, NAN, 1, 1), EXPECTED(0, 1, 16, 1 + 767 * .01)}},
     .measured = "49 keys, d_k 768, divided by √768: variance {0.0:.2f} ± {~0.0:.2f} for unit entries; {0.1:.1f} ± {~0.1:.1f} (exact 16) where the image's have deviation 4; {0.2:.1f} ± {~0.2:.1f} (exact 8.7) where the entries of a vector correlate by 0.1",
     .why = "The variance is tr(Cov q · Cov k) / d_k. A constant takes no notice of it; a normalization of q and k would."},
    {.claim = "Scaling only V does not cure saturation",
     .cases = {{VALUES(1)}, {VALUES(.125)}},
     .statistics = {{OF(mean_of, entropy), SAID(0, .49, .49)}, {OF(median_of_rows, gradient), SAID(0, 4.8, 4.8 / 8)}},
     .measured = "d_k 64, 32 keys, undivided scores: entropy {0.0:.3f} with V, {0.1:.3f} with V / 8; median of |dL/dq| {1.0:.3g} and {1.1:.3g}",
     .why = "The weights do not contain V: they stay as they are, and the gradient shrinks with it."},
    {.claim = "A softmax temperature, or normalized Q and K (cosine attention), can replace the divisor",
     .cases = {{SCORES(64, 64, 1000, ROOT)}, {SCORES(64, 64, 1000, NONE), .cosine = true},
               {SCORES(64, 64, 1000, OVER(.125)), .cosine = true}},
     .statistics = {{OF(largest_of, temperature_gap), SAID(1e-12, 0)},
                    {OF(mean_of, entropy), SAID(.05, NAN, NAN, 3.69), EXPECTED(.04, 3.69, 4.159)}},
     .measured = "d_k 64, 64 keys: a temperature of √d_k changes no weight (largest difference {0.0:.1g}); entropy of cosines {1.1:.3f}, of cosines times √d_k {1.2:.3f}, of divided scores {1.0:.3f}, uniform 4.159",
     .why = "A temperature is the divisor by another name; cosines do as well if a scale of about √d_k goes with them, and alone are as good as uniform."},
    {.claim = "With several heads, divide by the root of each head's own d_k",
     .cases = {{SCORES(64, 64, 1000, ROOT)}, {SCORES(64, 64, 1000, OVER(ROOT_512))}},
     .statistics = {{OF(mean_of, square), SAID(0, 1), EXPECTED(0, 1, 64 / 512.)}, {OF(mean_of, entropy)}},
     .measured = "8 heads of d_k 64 in d_model 512: variance {0.0:.3f} ± {~0.0:.3f} over √64, {0.1:.3f} over √512; entropy {1.0:.2f} and {1.1:.2f} of 4.16 nats",
     .why = "A head's score is a sum of its own d_k products. (The weights' distribution is logged: attention.csv.)"},
    {.claim = "Multi-head attention has 3·h·d_model·d_k + d_model² parameters, however many heads",
     .cases = {{MODEL(1, 512)}, {MODEL(2, 256)}, {MODEL(4, 128)}, {MODEL(8, 64)}, {MODEL(16, 32)}, {MODEL(8, 16)}},
     .statistics = {{OF(mean_of, parameters), SAID(0, 1048576, 1048576, 1048576, 1048576, 1048576, 458752),
                     EXPECTED(0, 1048576, 1048576, 1048576, 1048576, 1048576, 262144)}},
     .measured = "d_model 512, heads 1 to 16 with d_k = 512 / heads: {0.0:.0f} weights each time; 8 heads of d_k 16: {0.5:.0f}, the formula says 458752",
     .why = "It holds while heads · d_k = d_model; in general there are 4 · heads · d_k · d_model, for the output's matrix has heads · d_k rows."},
    {.claim = "Several heads attend to different things (subspaces, near and far)",
     .if_so = VERDICT_TRAINING,
     .why = "What heads attend to is learned; the pictures of a run, attention/*.png, show it."},
    {.claim = "BLEU of undivided dot-product attention at 128 / 256 / 512 / 1024: 22.03 / 22.33 / 21.78 / 18.22",
     .source = BRITZ,
     .cases = {{INTEGRALS(128)}, {INTEGRALS(256)}, {INTEGRALS(512)}, {INTEGRALS(1024)}},
     .statistics = {{OF(mean_of, evenness)}},
     .measured = "no translation; but with random q, k and 64 keys the entropy is {0.0-3:.3f} of the possible",
     .if_so = VERDICT_OUTSIDE,
     .why = "BLEU takes a translation model. Its queries and keys are a trained recurrent network's, not N(0, 1), so those entropies do not carry over."},
    {.claim = "Divide by d_k, not √d_k, so that hyper-parameters transfer over width",
     .source = YANG,
     .cases = {{SCORES(64, 8, 400, D_K)}, {SCORES(256, 8, 400, D_K), .stream = 1},
               {SCORES(1024, 8, 400, D_K), .stream = 2}, {ALIGNED(64, D_K, 3)}, {ALIGNED(256, D_K, 4)},
               {ALIGNED(1024, D_K, 5)}, {ALIGNED(64, ROOT, 3)}, {ALIGNED(256, ROOT, 4)}, {ALIGNED(1024, ROOT, 5)}},
     .statistics = {{OF(mean_of, score), EXPECTED(0, NAN, NAN, NAN, .5, .5, .5, 4, 8, 16)},
                    {OF(root_of, square), EXPECTED(0, 1 / 8., 1 / 16., 1 / 32.)}},
     .measured = "d_k 64 / 256 / 1024: keys that correlate with q by 0.5 score {0.3-5:.2f} over d_k, {0.6-8:.1f} over √d_k; unrelated keys ± {1.0-2:.3f} over d_k",
     .if_so = VERDICT_TRAINING,
     .why = "Its premise holds: where keys are aligned with queries, as training may make them, scores grow as d_k; at random, as √d_k. Whether hyper-parameters then transfer takes training at several widths, which docs/results.md does not have."},
    {.claim = "Normalized queries and keys with a learned scale keep the scores in hand",
     .source = HENRY,
     .cases = {{SCORES(64, 64, 500, ROOT)}, {SCORES(64, 64, 500, ROOT), .q_std = 10, .k_std = 10},
               {SCORES(64, 64, 500, OVER(.125)), .cosine = true},
               {SCORES(64, 64, 500, OVER(.125)), .cosine = true, .q_std = 10, .k_std = 10}},
     .statistics = {{OF(mean_of, entropy), SAID(.05, NAN, NAN, 3.69, 3.69), EXPECTED(.05, 3.69, .04)}},
     .measured = "q and k ten times as long: entropy of q·k / √d_k falls from {0.0:.3f} to {0.1:.3f}, of cosines times √d_k from {0.2:.3f} to {0.3:.3f}",
     .why = "No score leaves ± its learned scale, however long q and k become; the divisor has no such hold. What that does to training: docs/results.md."},
    {.claim = "Growth of attention logits predicts instability at high learning rates",
     .source = WORTSMAN, .if_so = VERDICT_TRAINING,
     .why = "Drawing queries and keys says nothing about it: docs/results.md. attention.csv logs score_std and score_max of every run."},
};
/* clang-format on */
const size_t CLAIM_COUNT = sizeof CLAIMS / sizeof *CLAIMS;
