#!/bin/sh
# Checks the check of gradients: each mutant is the program with one line changed into a mistake people make in a
# backward pass, and `./train gradcheck` must refuse it. Mistakes in an update must be refused by the comparison with
# PyTorch. A pattern that matches no line is an error, so that the list stays true. Prints for each mutant the first
# gradient that is wrong in the backward pass, or the first number that is not PyTorch's.
set -u
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL BUILD SANITIZER COVERAGE # independent of a make that may have started this
build=$(dirname "$(readlink train)")
case $build in
clang* | */clang* | *-address* | *-undefined* | *-thread* | *-leak* | *-coverage*)
    echo "skipped: mutants of one build are enough, gcc's without run-time checks"
    exit 0
    ;;
esac
CC=${CC:-$(basename "$build")}
export CC OMP_NUM_THREADS=1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
at_once=$(getconf _NPROCESSORS_ONLN) count=0 failed=0

cat >"$tmp/tiny.ini" <<'CONFIG'
[model]
layers = 2
heads = 2
d_model = 4
d_k = 3
d_ff = 7
context = 4
dropout = 0.2
[train]
batch = 1
accumulate = 2
CONFIG
# Options with which not every target counts.
recall='--set data.task=recall --set data.recall_pairs=1'
# Options for more positions than one tile of queries holds.
long='--set model.context=66 --set model.heads=1 --set model.layers=1 --set train.accumulate=1'

# Makes a tree with every object of the double build. Mutants share it by hard links, and make sees that one source is newer.
mkdir -p "$tmp/original/$build" && cp -a src lab data docs tests share configs Makefile train.c "$tmp/original" &&
    cp -a "$build/double" "$build/embedded" "$build/flags" "$build/train-double" "$tmp/original/$build" || exit 1

# gradcheck TREE OPTION...: returns the program's status; its messages are in TREE.err
gradcheck() {
    tree=$1
    shift
    "$tree/$build/train-double" gradcheck "$tmp/tiny.ini" "$@" >"$tree.out" 2>"$tree.err"
}

# against_torch TREE: the same for the comparison with PyTorch
against_torch() {
    (cd "$1" && "$build/test_torch_double") >"$1.out" 2>"$1.err"
}

# one_mutant TREE WHAT FILE SED OPTION...: writes a line to TREE.line, which begins with "caught" on success. The only
# option `torch`: against PyTorch
one_mutant() {
    tree=$1 what=$2 file=$3 sed=$4
    shift 4
    program=train-double
    [ "${1-}" != torch ] || program=test_torch_double
    cp -al "$tmp/original" "$tree"
    rm -f "$tree/$file" "$tree/$build/$program" "$tree/$build/double/${file%.c}.o"
    sed "$sed" "$file" >"$tree/$file"
    changed=$(diff "$file" "$tree/$file" | grep -c '^>')
    if [ "$changed" != 1 ]; then
        echo "FAILED: $what: the pattern changes $changed lines of $file, not 1" >"$tree.line"
    elif ! make -s -C "$tree" SAME_FLAGS=yes WARNINGS=-w OPTIMISE=-O1 CFLAGS= "$build/$program" >"$tree.err" 2>&1; then
        echo "FAILED: $what: does not compile: $(head -n 1 "$tree.err")" >"$tree.line"
    else
        if [ $program = train-double ]; then gradcheck "$tree" "$@"; else against_torch "$tree"; fi
        status=$?
        exposed=$(sed -n 's/^\(after 1.*\): .*, expected .*/\1/p' "$tree.err" | head -n 1)
        [ "$exposed" ] || exposed=$(sed -n 's/^.*gradients disagree: the gradient of \(.*\) is \(off\|not finite\)[ ,].*$/\1/p' "$tree.err")
        if [ "$status" = 1 ] && [ "$exposed" ]; then
            printf 'caught  %-48s %s\n' "$what" "$exposed" >"$tree.line"
        else
            echo "FAILED: $what: not caught, exit status $status: $(head -n 1 "$tree.err")" >"$tree.line"
        fi
    fi
    rm -rf "$tree"
}
# mutant WHAT FILE SED OPTION...
mutant() {
    count=$((count + 1))
    one_mutant "$tmp/$count" "$@" &
    [ $((count % at_once)) != 0 ] || wait
}

for options in '' '--set model.dropout=0' '--set model.norm=post' '--set model.activation=relu' "$long" "$recall" \
    '--set train.engine=plain --set model.dropout=0' '--set train.batch=4 --set train.shards=4 --threads 1' \
    '--set train.batch=4 --set train.shards=4 --threads 2'; do
    # shellcheck disable=SC2086 # a list of words, here and below
    gradcheck "$tmp/original" $options && continue
    echo "FAILED: the program as it is, with ${options:-the tiny config}: $(cat "$tmp/original.err")"
    failed=$((failed + 1))
done

file=src/model/attention_softmax.c
mutant 'softmax: ds with + delta' $file 's/dp\[j\] \* mask\[j\] - delta/dp[j] * mask[j] + delta/'
mutant 'softmax: delta forgotten' $file 's/: dp\[j\] - delta/: dp[j]/' --set model.dropout=0
mutant 'softmax: ds without p' $file 's/dp\[j\] = p\[j\] \* (mask/dp[j] = (mask/' --set model.dropout=0
mutant 'attention: mask of dropout not in dp' $file 's/dp\[j\] \* mask\[j\] - delta/dp[j] - delta/'
mutant 'attention: 1/(1-p) of dropout not in dv' $file 's/p\[j\] \*= mask\[j\]/p[j] = mask[j] > 0 ? p[j] : 0/'
mutant 'attention: backward sees one key more' $file \
    '/void backward_rows/,/^}/s/first + r + 1, whole/first + r + 1 + (r + 1 < t->count), whole/'
mutant 'attention: forward sees one key more' $file \
    '/static real normalize/,/^}/s/first + r + 1, whole/first + r + 1 + (r + 1 < t->count), whole/'
mutant 'sink: gradient with the other sign' $file 's/\*sum -= p/*sum += p/' --set attention.sink=learned
mutant 'sink: not in the sum' $file 's/if (sink) row_sum/if (false) row_sum/' --set attention.sink=learned

file=src/model/attention_scores.c
mutant 'attention: dq without the multiplier' $file 's/t, multiplier, ds, h->key/t, 1, ds, h->key/'
mutant 'attention: dk without the multiplier' $file 's/t, multiplier, ds, h->query/t, 1, ds, h->query/'
mutant 'attention: dq from q' $file 's/ds, h->key/ds, h->query/'
# shellcheck disable=SC2086
mutant 'attention: dk and dv from the first tile of queries' src/model/attention_products.c \
    's/operand_from(x, t->first, 0), adds/x, adds/' $long
mutant 'additive: slope of tanh without the square' $file 's/(1 - y \* y)/(1 - y)/' --set attention.score=additive
mutant 'additive: gradient of v from its slope' $file 's/dv\[d\] += g \* y/dv[d] += slope/' --set attention.score=additive
mutant 'additive: dk overwritten by queries' $file 's/dk\[d\] += slope/dk[d] = slope/' --set attention.score=additive
mutant 'norm of q and k: what the length takes forgotten' $file 's/ - (x\[d\] - n.mean) \* n.rstd \* product \/ N/ - 0 * product/' \
    --set attention.qk_norm=rms
mutant 'norm of q and k: mean forgotten' $file 's/QK_NORM_LAYER ? sum \/ N : 0/QK_NORM_LAYER ? 0 : 0/' --set attention.qk_norm=layer
mutant 'norm of q and k: gain before its gradient' $file 's/dgain\[d\] += dy\[d\] \*/dgain[d] += dy[d] * gain[d] */' \
    --set attention.qk_norm=rms
mutant 'norm of q and k: mean left in the projection' $file 's/ - n.mean \* sum//' --set attention.qk_norm=layer
mutant 'l2: divided by d_k' $file 's/QK_NORM_L2 ? 1 : (real)D/QK_NORM_L2 ? (real)D : (real)D/' \
    --set attention.qk_norm=l2 --set attention.scale_divisor=1
mutant 'learned multiplier: applied twice in the backward pass' $file 's/LEARNED_NO ? h->multiplier : 1/LEARNED_NO ? h->multiplier : h->multiplier/' \
    --set attention.scale_learned=head
mutant 'learned multiplier: keys not multiplied' $file 's/lanes_scale(g->dk/if (false) &/' --set attention.scale_learned=head

file=src/model/attention_score_mod.c
mutant 'length: not in the backward pass' $file 's/const real length = length_of(h, t->first + r);/const real length = 1;/' \
    --set attention.scale_length=log
mutant 'cap: not in the backward pass' $file 's/length \* slope\[j\]/length/' --set attention.softcap=2
mutant 'cap: slope without the square' $file 's/1 - y \* y/1 - y/' --set attention.softcap=2

file=src/model/attention.c
mutant 'attention: dv with the multiplier' $file 's/t, 1, s->p, do_, adds/t, h->multiplier, s->p, do_, adds/'
# shellcheck disable=SC2086
mutant 'attention: tiles of queries do not add' $file 's/tile + 1 < tiles, /false, /' $long
mutant 'own parameters: of one head alone' $file 's/pair % own.heads \* own.size/0/' --set attention.sink=learned
mutant 'own parameters: last sequence forgotten' $file \
    '/^void attention_partials_add/,/^}/s/pair < pairs.end; pair++/pair + 1 < pairs.end; pair++/' --set attention.sink=learned

file=src/ops/layernorm.c
mutant 'LayerNorm: mean term forgotten' $file '/dx\[c\] = residual/s/ - mean_g - / - /'
mutant 'LayerNorm: variance term forgotten' $file '/dx\[c\] = rstd/s/ - (x\[c\] - mean) \* rstd \* mean_gx//'
mutant 'LayerNorm: residual forgotten' $file 's/residual\[c\] + rstd/rstd/'
mutant 'LayerNorm: sign flipped' $file 's/residual\[c\] + rstd/residual[c] - rstd/'
mutant 'LayerNorm: gain forgotten in the backward pass' $file 's/^ *EACH_PART(p) g\.part\[p\] \*= scale\.part\[p\];$//'
mutant 'LayerNorm: gradient of the gain without rstd' $file 's/ - m) \* s;/ - m);/'

file=src/ops/activation.c
mutant 'GELU: last term of the derivative forgotten' $file 's/ = s + x\[i\] \* s \* (1 - s) \* slope/ = s/'
mutant 'GELU: 3 of the cubic forgotten' $file 's/1 + 3 \* CUBIC/1 + CUBIC/'
mutant 'ReLU: mask inverted' $file '/void relu_forward/,/^}/s/x\[i\] <= 0 ? 0 : (real)1/x[i] <= 0 ? (real)1 : 0/' --set model.activation=relu

mutant 'linear: gradients of some biases forgotten' src/gemm/bf16.c \
    's/c < columns.end; c++) sums\[c\] += values/c + 5 < columns.end; c++) sums[c] += values/'

file=src/ops/embedding.c
mutant 'embedding: positions off by one' $file '/^MULTIVERSIONED void embedding_rows_backward/,/^}/s/r % T \* C/(r + 1) % T * C/'
mutant 'embedding: gradient of the tokens forgotten' $file 's/token\[c\] += dx\[r \* C + c\]/(void)token/'

file=src/ops/cross_entropy.c
mutant 'loss: target off by one' $file \
    '/^MULTIVERSIONED void cross_entropy_rows_backward/,/^}/s/(size_t)targets\[r\]/((size_t)targets[r] + 1) % V/'
# shellcheck disable=SC2086
mutant 'loss: targets that do not count get a gradient' $file \
    '/^MULTIVERSIONED void cross_entropy_rows_backward/,/^}/s/memset(.*);/logits[r * V] = weight;/' $recall
mutant 'loss: weight forgotten' $file 's|weight / sums\[r\]|1 / sums[r]|'

file=src/model/transformer.c
mutant 'model: weight of accumulation forgotten' $file 's|(real)(pass->batch_weight / |(real)(1 / |'
mutant 'model: gradients not started at zero' $file 's/memset(p->gradients + begin/if (false) &/'
mutant 'model: tied embedding gets no gradient as output' $file \
    's/^    logits_backward_weight(p, final);/    if (!m->shape.tied) &/'
mutant 'model: pre-norm, residual forgotten' $file \
    's/layernorm_backward_input(p, &b->res_1, \(.*\), &b->res_2)/layernorm_backward_input(p, \&b->res_1, \1, NULL)/'
mutant 'model: dropout of the embeddings not in the backward pass' $file 's/^    dropout_backward(p, &m->x, &m->x/    if (false) &/'
mutant 'model: weights of the second half from the first' $file 's/backward_weight(p, inputs->fc, /backward_weight(p, inputs->qkv, /'
file=src/model/operations.c
mutant 'model: dropout of a branch not in the backward pass' $file \
    '/^void dropout_backward/,/^}/s/&dropout, p/\&(Dropout){0}, p/'
mutant 'model: post-norm, residual forgotten' $file 's/^    residual_add(/    if (false) residual_add(/' \
    --set model.norm=post
mutant 'model: bias of another layer' $file '/^void linear_forward(/,/^}/s/weight(p, role + 1, y->layer)/weight(p, role + 1, 0)/' \
    --set model.init=torch
file=src/model/operations.c
mutant 'linear: the first product adds to old numbers' $file 's/, !is_first_slice(p))/, true)/'
mutant 'linear: a later batch overwrites the gradient' $file 's/, !is_first_slice(p))/, false)/'
file=src/model/arrays.c
mutant 'model: a block writes where it reads' $file 's/output = outputs\[(layer + 1) % 2\]/output = outputs[layer % 2]/' \
    --set model.dropout=0

# shellcheck disable=SC2086
{
    shards='--set train.batch=4 --set train.shards=4 --threads 1' parallel='--set train.batch=4 --set train.shards=4 --threads 2'
    mutant 'shards: a sum that waited is forgotten' src/ranks/shards.c '/^double shards_end/,/^}/s/^        add(/        if (level) add(/' $shards
    mutant 'shards: a sum waits where another does' src/ranks/shards.c 's/held = &s->held\[level\]/held = \&s->held[0]/' $shards
    mutant 'shards: weight of one shard for all targets' src/model/transformer.c 's|/ (double)m->targets)|/ (double)in_shard)|' $shards
    mutant 'shards at once: the gradients of one are forgotten' src/ranks/shards.c 's/(size_t stride = 1; stride < s->at_once/(size_t stride = 2; stride < s->at_once/' $parallel
    file=src/model/operations.c
    mutant 'shards at once: weights by rows of another' $file \
        's/= operand_from(x, p->shard_rows.begin, row)/= operand_from(x, 0, row)/' $parallel
    mutant 'shards at once: LayerNorm by rows of another' $file 's/ln->mean + p->shard_rows.begin/ln->mean/' $parallel
    mutant 'shards at once: tokens of another' $file 's/tokens_of(p) + p->shard_rows.begin/tokens_of(p)/' $parallel
}

file=src/plain/plain.c
plain='--set train.engine=plain --set model.dropout=0'
# shellcheck disable=SC2086 # lists of words
{
    mutant 'plain embedding: positions forgotten' $file 's/add_scaled(dwpe + t \* C, 1/add_scaled(dwpe + t * C, 0/' $plain
    mutant 'plain LayerNorm: mean term forgotten' $file 's/rstd \* (g - mean_g - /rstd * (g - /' $plain
    mutant 'plain LayerNorm: variance term forgotten' $file 's/ - mean_g - xhat \* mean_g_xhat)/ - mean_g)/' $plain
    mutant 'plain LayerNorm: gain of the gain' $file 's/w.dW\[c\] += dy\[c\] \* xhat/w.dW[c] += g * xhat/' $plain
    mutant 'plain linear: dx overwritten' $file 's/dx\[t \* in + i\] += dot/dx[t * in + i] = dot/' $plain --set model.norm=post
    mutant 'plain linear: dW of one position' $file 's/add_scaled(w.dW + i \* out, x\[t \* in + i\]/add_scaled(w.dW + i * out, x[i]/' $plain
    mutant 'plain linear: bias forgotten' $file 's/if (w.db) add_scaled(w.db, 1/if (w.db) add_scaled(w.db, 0/' $plain
    mutant 'plain attention: softmax without the sum' $file 's/p_i\[j\] \* (dp - sum)/p_i[j] * dp/' $plain
    mutant 'plain attention: softmax without p' $file 's/p_i\[j\] \* (dp - sum)/(dp - sum)/' $plain
    mutant 'plain attention: dq not divided' $file 's/add_scaled(dq + i \* row, ds \/ divisor/add_scaled(dq + i * row, ds/' $plain
    mutant 'plain attention: dk not divided' $file 's/add_scaled(dk + j \* row, ds \/ divisor/add_scaled(dk + j * row, ds/' $plain
    mutant 'plain attention: dv without the weight' $file 's/add_scaled(dv + j \* row, p_i\[j\]/add_scaled(dv + j * row, 1/' $plain
    mutant 'plain attention: forward takes keys for values' $file \
        '/^static void plain_attention_forward/,/^}/s/\*v = k + H \* D/*v = k/' $plain
    mutant 'plain residual: branch forgotten' $file 's/add_scaled(dbranch, 1/add_scaled(dbranch, 0/' $plain
    mutant 'plain GELU: slope of tanh forgotten' $file 's/ + x_i \/ 2 \* (1 - tanh_i \* tanh_i) \* du//' $plain
    mutant 'plain ReLU: mask inverted' $file 's/dx\[i\] += x\[i\] <= 0 ? 0 : dy\[i\]/dx[i] += x[i] <= 0 ? dy[i] : 0/' \
        $plain --set model.activation=relu
    mutant 'plain logits: tied embedding gets no gradient' $file 's/add_scaled(dW + v \* C, dlogits/add_scaled(dW + v * C, 0 * dlogits/' $plain
    mutant 'plain loss: target off by one' $file 's/(v == (size_t)targets\[t\])/(v == (size_t)targets[t] + 1)/' $plain
    mutant 'plain loss: targets that do not count get a gradient' $file 's/targets\[t\] >= 0 \&\& v < V/v < V/' $plain $recall
    mutant 'plain loss: weight forgotten' $file 's/+= weight \* (prob/+= (prob/' $plain
    mutant 'plain pre-norm: residual forgotten' $file \
        '/^static void pre_norm_backward/,/^}/s/plain_residual_backward(dx, /plain_residual_backward(d->ln_2, /' $plain
    mutant 'plain post-norm: residual forgotten' $file \
        '/^static void post_norm_backward/,/^}/s/plain_residual_backward(dx, /plain_residual_backward(d->ln_2, /' \
        $plain --set model.norm=post
    mutant 'plain decoder: last LayerNorm from the embeddings' $file 's/block_input(d, L), d->out, block_input(a, L)/block_input(d, L), d->out, a->x/' $plain
    mutant 'plain batch: a sequence forgotten' $file 's/if (pass->with_backward) add_scaled(/if (b > 0) add_scaled(/' $plain --set train.batch=2
}

file=src/train/optimizer.c
mutant 'muon: without Nesterov' $file 's/x\[i\] = g\[i\] \* k.clip + k.momentum \* b\[i\]/x[i] = b[i]/' torch
mutant 'muon: scaled by in/out' $file 's/(double)columns \/ (double)rows/(double)rows \/ (double)columns/' torch
mutant 'muon: gradient not clipped' $file '/void nesterov(/,/^}/s/b\[i\] = k.momentum \* b\[i\] + g\[i\] \* k.clip/b[i] = k.momentum * b[i] + g[i]/' torch
mutant 'muon: an iteration less' src/ops/newton_schulz.c 's/ITERATIONS = 5/ITERATIONS = 4/' torch
wait

number=0
while [ "$number" -lt "$count" ]; do
    number=$((number + 1))
    line=$(cat "$tmp/$number.line" 2>/dev/null)
    case $line in caught*) ;; *) failed=$((failed + 1)) ;; esac
    echo "${line:-FAILED: mutant $number left no result}"
done
printf '%d mutants, %d failed\n' "$count" "$failed"
[ "$failed" = 0 ]
