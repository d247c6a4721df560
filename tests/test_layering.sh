#!/bin/sh
# The arrows between the folders of src/ and lab/ go one way only (docs/development.md: "Arrows"): lab/ stands on src/, and
# train.c alone knows whether lab/ is there. Each foreign library has one file that includes its header, what a header says
# of who includes it is true, and OpenMP and unsafe arithmetic stay out of where they do not belong. Every rule is first
# proved: a copy of the tree with a violation planted in it must be refused, with that file named.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/check.sh
plain_build_or_skip
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# The includes that a folder may have, apart from its own: folders of src/ by their names, and parts of lab/.
trainer="train run ranks plain model data show config ops gemm base"
allowed() {
    case $1 in
    base) echo ;;
    config | gemm | data | show) echo base ;;
    ops) echo gemm base ;;
    model) echo config ops gemm base ;;
    plain) echo model ops config base ;;
    ranks) echo ops base ;;
    run) echo ranks model ops data show config gemm base ;;
    train) echo run ranks model plain data show config ops gemm base ;;
    train.c) echo "$trainer" lab/lab.h ;;
    lab/statistics | lab/terminal | lab/text) echo "$trainer" ;;
    lab/sweep) echo "$trainer" lab/statistics lab/text ;;
    lab/why) echo "$trainer" lab/statistics lab/sweep lab/lab.h ;;
    lab/report | lab/live) echo "$trainer" lab/statistics lab/text lab/why lab/sweep lab/lab.h ;;
    lab/theory) echo "$trainer" lab/statistics lab/lab.h ;;
    lab/gradcheck | lab/bench) echo "$trainer" lab/statistics lab/sweep lab/lab.h ;;
    lab/attend) echo "$trainer" lab/terminal lab/text lab/lab.h ;;
    lab/sweep.c) echo "$trainer" lab/report lab/why lab/sweep lab/lab.h ;;
    lab/lab.h) echo base ;;
    esac
}

# The rules: each reads the tree in the current directory and prints a line for each violation, beginning with its file.

# The part that a file belongs to: train.c, a folder of src/, a folder of lab/, or a file of lab/ with its header.
# lab/sweep.c, the verb, stands above the folder lab/sweep.
part_of() {
    case $1 in
    lab/sweep.c | lab/lab.h | train.c) echo "$1" ;;
    lab/*/*) echo "$1" | cut -d / -f 1,2 ;;
    lab/*) echo "${1%.*}" ;;
    src/*) echo "$1" | cut -d / -f 2 ;;
    *) echo "${1%%/*}" ;;
    esac
}
# "file header" for each #include of a file whose name is in the quotes, or in <> when it is one of ours.
own_includes() {
    grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*("|<(base|config|gemm|ops|model|plain|data|ranks|show|run|train|lab)/)' src train.c \
        lab --include='*.[chS]' | grep -vE '^lab/(tests|bench)/' | sed -E 's/^([^:]*):[0-9]*:[^"<]*["<]([^">]*).*/\1 \2/'
}
rule_arrows() {
    own_includes | while read -r file header; do
        from=$(part_of "$file") to=$(part_of "$header")
        [ "$from" = "$to" ] && continue
        case " $(allowed "$from") " in
        *" $to "*) ;;
        *) echo "$file includes $header: $from may include only: $(allowed "$from")" ;;
        esac
    done
}
# train.c asks once whether lab/ is there.
rule_lab() {
    grep -rnE '__has_include.*lab|SQRTDK_LAB' src lab tests/*.[ch] train.c --include='*.[ch]' | grep -v '^train.c:[0-9]*:#if __has_include(<lab/lab.h>)$'
    [ "$(grep -cE 'lab/lab\.h' train.c)" = 2 ] || echo "train.c names lab/lab.h in more places than one"
}
# tests/training.h alone includes the program, whose loop the tests of training run.
rule_program() {
    grep -rnE '#[[:space:]]*include.*[<"/]train\.c[>"]' src lab tests/*.[ch] train.c | grep -v '^tests/training.h:'
}
rule_one_includer() {
    for header in cblas.h mpi.h stb_image_write.h stb_truetype.h jansson.h; do
        files=$(grep -rlE "#[[:space:]]*include[[:space:]]*[<\"]([^>\"]*/)?${header}[>\"]" src lab train.c)
        [ "$(printf '%s\n' "$files" | grep -c .)" = 1 ] || echo "${files:-no file} includes $header: one file must, and only one" |
            tr '\n' ' '
    done
}
# matmul.c asks OpenMP what it offered before OpenBLAS limited it, error.c whether it is called in a parallel region.
rule_openmp() {
    grep -rnE '<omp\.h>|"omp\.h"|pragma[[:space:]]+omp|_Pragma.*omp' src/base src/gemm src/ops src/data src/show |
        grep -vE '^src/(gemm/matmul|base/error)\.c:[0-9]+:#include <omp\.h>$'
}
rule_reduction() {
    grep -rnE '(^|[^_[:alnum:]])reduction[[:space:]]*\(' src lab train.c --include='*.[ch]'
}
rule_arithmetic() {
    grep -nE -e '-(ffast-math|Ofast|funsafe-math-optimizations|fassociative-math|ffinite-math-only)' Makefile ./*/*.mk ./*/*/*.mk
    grep -rnE 'pragma[[:space:]]+(GCC|clang|STDC)?[[:space:]]*(optimize|fp)|__attribute__.*optimize|fast-math' src lab train.c --include='*.[ch]'
}
# Tables of n-grams are counted where a run begins to train or is announced, and nowhere else.
rule_ngrams() {
    grep -rnE '(^|[^_[:alnum:]])(ngram_losses|run_count_ngrams) *\(' src lab train.c --include='*.[ch]' |
        grep -vE '^(src/(data/ngrams\.[ch]|run/run\.[ch]|train/trainer\.c)|lab/(live/live\.c|tests/.*)):'
}

# A header may promise in its opening comment who includes it: "Included only by A, B and C.", where each is a file beside
# it (* as in a shell), "the files of this folder", or a folder such as lab/why or tests. Other words would not be read.
promises() {
    for header in src/*/*.h lab/*.h lab/*/*.h; do
        awk '{ printf "%s ", $0 } /\*\// { exit }' "$header" |
            grep -oE 'Included only by ([^.]|\.[^ ])*\. ' | sed -E "s,^Included only by (.*)\\. \$,$header \\1,"
    done
}
rule_promises() (
    grep -rnE '[Nn](othing|obody) (else|outside)[^.]* includes' src lab --include=*.h
    promises >"$tmp/promises"
    set -f
    while read -r header names; do
        folder=$(dirname "$header") named=
        for name in $(printf '%s' "$names" | tr -d ','); do
            case $name in
            and | the | files | of | this) ;;
            folder) named="$named $folder/*" ;;
            tests | src/* | lab/*/* | lab/sweep | lab/why) named="$named $name/*" ;;
            *) named="$named $folder/$name" ;;
            esac
        done
        grep -rlE "#[[:space:]]*include[[:space:]]*[<\"]([^>\"]*/)?${header#src/}[>\"]" src lab tests train.c |
            grep '\.[ch]$' | while read -r file; do
            found=no
            for pattern in $named; do
                # shellcheck disable=SC2254 # a pattern
                case $file in $pattern) found=yes ;; esac
            done
            [ $found = yes ] || echo "$file includes $header, which says: included only by $names"
        done
    done <"$tmp/promises"
)

# planted RULE FILE LINE: the rule has nothing against a copy of the tree, and names FILE once LINE stands in it.
mkdir "$tmp/tree" && cp -R src lab tests share configs Makefile train.c "$tmp/tree" || exit 1
planted() {
    [ ! -e "$tmp/tree/$2" ] && fail "planting in $2" "a file that is there" "none"
    cp "$tmp/tree/$2" "$tmp/as_it_was"
    printf '%s\n' "$3" >>"$tmp/tree/$2"
    came=$(cd "$tmp/tree" && "$1")
    cp "$tmp/as_it_was" "$tmp/tree/$2"
    case $came in
    *"$2"*) pass ;;
    *) fail "$1 with $3 planted in $2" "a line that names $2" "${came:-nothing}" ;;
    esac
}
planted rule_arrows lab/sweep/sweep.h '#include "lab/report/report.h"'
planted rule_arrows src/base/files.c '#include "gemm/matmul.h"'
planted rule_arrows src/gemm/matmul.c '#include "config/config.h"'
planted rule_arrows src/ops/lanes.h '  #  include <train/trainer.h>'
planted rule_arrows src/model/tensors.c '#include "data/corpus.h"'
planted rule_arrows src/model/measure.h '#include "show/canvas.h"'
planted rule_arrows src/data/corpus.c '#include "gemm/matmul.h"'
planted rule_arrows src/gemm/gemm.c '#include "ops/lanes.h"'
planted rule_arrows src/data/ngrams.c '#include "run/run.h"'
planted rule_arrows src/plain/plain.c '#include "train/engine.h"'
planted rule_arrows src/plain/plain.h '#include "data/corpus.h"'
planted rule_arrows src/ops/layernorm.h '#include "plain/plain.h"'
planted rule_arrows src/show/chart.c '#include "config/config.h"'
planted rule_arrows src/run/run.c '#include "train/trainer.h"'
planted rule_arrows src/train/trainer.c '#include "lab/sweep/sweep.h"'
planted rule_arrows src/config/config.c '#include <lab/lab.h>'
planted rule_arrows train.c '#include "lab/report/report.h"'
planted rule_arrows lab/attend.c '#include "lab/sweep/sweep.h"'
planted rule_arrows lab/theory/theory.c '#include "lab/report/report.h"'
planted rule_arrows lab/live/live.c '#include "lab/report/report.h"'
planted rule_arrows lab/why/run.c '#include "lab/live/live.h"'
planted rule_arrows lab/sweep/plan.c '#include "lab/why/why.h"'
planted rule_arrows lab/report/report.h '#include "lab/theory/theory.h"'
planted rule_arrows src/data/corpus.h '#include "../train/trainer.h"'
planted rule_lab src/train/trainer.c '#if __has_include(<lab/lab.h>)'
planted rule_lab train.c '#include <lab/lab.h>'
planted rule_promises lab/theory/theory_figures.c '#include "model/attention_stages.h"'
planted rule_promises tests/test_scores.c '#include "model/attention_stages.h"'
planted rule_promises src/model/measure.c '#include "model/operations.h"'
planted rule_promises src/model/measure.c '#include "model/attention_stages.h"'
planted rule_promises src/ops/layernorm.c '#include "gemm/gemm_kernel.h"'
planted rule_promises src/run/run.c '#include "config/table.h"'
planted rule_promises src/ops/layernorm.h '/* Nothing outside src/ops includes this. */'
planted rule_program lab/sweep/plan.c '#include "../../train.c"'
planted rule_one_includer src/ops/layernorm.c '#include <cblas.h>'
planted rule_one_includer src/run/pictures.c '#include "stb_image_write.h"'
planted rule_one_includer src/show/chart.c '#include <stb_truetype.h>'
planted rule_one_includer src/base/safetensors.c '#include <jansson.h>'
planted rule_openmp src/ops/layernorm.c '#include <omp.h>'
planted rule_openmp src/gemm/matmul.c '#pragma omp parallel'
planted rule_openmp src/base/memory.c '#pragma omp parallel for'
planted rule_one_includer src/train/engine.c '#include <mpi.h>'
planted rule_arrows src/ranks/ranks.c '#include "config/config.h"'
planted rule_openmp src/data/corpus.c '    #  pragma omp barrier'
planted rule_openmp src/show/canvas.c '_Pragma("omp parallel")'
planted rule_reduction src/model/measure.c '#pragma omp parallel for reduction(+ : sum)'
planted rule_reduction src/train/optimizer.c '    reduction (max : largest)'
planted rule_arithmetic Makefile 'OPTIMISE += -ffast-math'
planted rule_arithmetic Makefile 'OPTIMISE := -Ofast'
planted rule_arithmetic lab/study/study.mk 'OPTIMISE := -Ofast'
planted rule_arithmetic src/ops/cross_entropy.c '#pragma GCC optimize("fast-math")'
planted rule_ngrams lab/bench.c '    if (!run_count_ngrams(&run, err)) return false;'
planted rule_ngrams src/data/corpus.c '    ngram_losses(NULL, 0, NULL, 0, 1, losses, err);'

# A header that nobody includes any more is a violation too.
grep -v cblas "$tmp/tree/src/gemm/openblas.c" >"$tmp/without" && cp "$tmp/without" "$tmp/tree/src/gemm/openblas.c"
came=$(cd "$tmp/tree" && rule_one_includer)
case $came in
*"no file includes cblas.h"*) pass ;;
*) fail "rule_one_includer without cblas.h" "no file includes cblas.h" "${came:-nothing}" ;;
esac

# The tree as it is. It must have been read: an empty list of includes would please every rule.
count=$(own_includes | grep -c .)
if [ "$count" -gt 50 ]; then pass; else fail "reading the includes of src/" "more than 50" "$count"; fi
for file in src/*/*.[ch] lab/*.[ch] lab/*/*.[ch]; do
    case $file in lab/tests/* | lab/bench/*) continue ;; esac
    part=$(part_of "$file")
    case $part in base) continue ;; esac
    [ -n "$(allowed "$part")" ] || fail "$file" "a part whose arrows this test knows" "an unknown one"
done
count=$(promises | grep -c .)
if [ "$count" -ge 5 ]; then pass; else fail "reading the promises of headers" "5 or more" "$count"; fi
for rule in rule_arrows rule_lab rule_promises rule_program rule_one_includer rule_openmp rule_reduction rule_arithmetic rule_ngrams; do
    came=$($rule)
    check "$rule on this tree" "" "$came"
done

checked
