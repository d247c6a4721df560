#!/usr/bin/env bash
# The study of lab/docs/results.md: trains the sweeps of this folder one after another, in runs/study, and puts what each run
# measured into lab/docs/results/NAME.csv. Tables and pictures of results.md, appendix.md and theory.md are made from those
# files (page.py). Stopped and started again, it resumes where it was; what has finished is not trained again. Remove
# runs/study to begin afresh.
#   make study          all of it: seven hours on two cores, 8 GB
#   make study-quick    the headline with two seeds, in runs/study-quick: ten minutes; nothing else changes
#   study.sh --try      every sweep, two steps each, and pages of its own, in runs/study-try: whether all of this works
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
overrides=(--set train.shards=1) # the order of sums in which lab/docs/results was recorded
folder=runs/study
docs=lab/docs
# In the order of the page. Rates are chosen by the first four, on seeds 1 and 2, and reported on others.
sweeps=(rates rates_edge rates_d_k rates_post best slower slower_d_k steps gpt2 start rate switch switch_back post text long
    clip large muon_rates muon muon_faster muon_gpt2 bf16_dk64 bf16_cpu parts parts_uniform parts_context
    parts_text parts_gpt2 parts_d_k parts_muon depth long_text qk_norm cosine learned)
score_ways=()
for file in configs/scores/*.ini; do score_ways+=("$(basename "$file" .ini)"); done
recall_ways=(sqrt_dk learned sink_learned softcap)
bench_seconds=1
rank_steps=1000
freezing_rows=4096
optimizer_settings=(dk64+adamw dk64+muon cpu+adamw cpu+muon)
losses="2.2 2.0 1.8 1.6"
case "${1:-}" in
"") ;;
--quick)
    folder=runs/study-quick
    overrides+=(--set "sweep.train.seed=3, 4")
    ;;
--try)
    folder=runs/study-try
    overrides+=(--set "sweep.train.seed=1, 2" --set train.steps=2 --set train.warmup=1 --set eval.batches=1 --set data.corpus=
        --set model.d_model=16 --set train.batch=1 --set "log.attention_text=The ferry")
    docs=$folder
    score_ways=(additive sqrt_dk)
    recall_ways=(sqrt_dk)
    bench_seconds=0.1
    rank_steps=1
    freezing_rows=64
    losses=9
    rm -rf $folder
    mkdir -p $folder/results
    sed 's/seed=3|4/seed=1|2/' lab/docs/results.md >$folder/results.md
    cp lab/docs/appendix.md lab/docs/theory.md $folder
    ;;
*)
    echo "usage: $0 [--quick | --try]" >&2
    exit 2
    ;;
esac

results=$docs/results

fail() {
    echo "study: $1" >&2
    exit "${2:-1}"
}

# The config of a sweep as it is resolved, without comments and blank lines.
plain() { sed '/^;/d; /^$/d'; }

# train NAME [CONFIG [--set KEY=VALUE]...]: trains what is not trained yet, if the sweep that is there is that of the
# config, NAME.ini if not given.
train() {
    local there=$folder/$1 config=lab/study/${2:-$1}.ini wanted
    shift $(($# > 1 ? 2 : 1))
    echo "== $config -> $there" >&2
    wanted=$(./train sweep "$config" --dry-run "$@" "${overrides[@]}")
    mkdir -p "$(dirname "$there")"
    [ -e "$there/run.json" ] || rm -rf "$there" # it was killed before it began
    if ! [ -e "$there" ]; then
        ./train sweep "$config" --out "$there" "$@" "${overrides[@]}"
    elif [ "$(plain <<<"$wanted")" = "$(./train sweep "$there/config.ini" --dry-run | plain)" ]; then
        ./train resume "$there"
    else
        fail "$there is not the sweep of $config as it is now: move it away, and start again" 2
    fi
}

# What rounding to fp16 did: a row for each run, its counts over all measured steps, layers and heads.
roundings() {
    echo "run,d_k,scale_divisor,seed,result,val_loss,score_max,overflows,infinities,subnormals"
    awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { print $1, $2, $3, $4, $at["result"], $at["val_loss"] }' "$folder/fp16/summary.csv" |
        while IFS=, read -r run row; do
            awk -F, -v OFS=, -v row="$run,$row" '
                NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
                $at["score_max"] > most { most = $at["score_max"] }
                { over += $at["overflows"]; inf += $at["infinities"]; sub_ += $at["subnormals"] }
                END { print row, most, over, inf, sub_ }' "$folder/fp16/$run/attention.csv"
        done
}

# What happens step by step: the validation loss, and the attention as means over layers and heads.
steps() {
    local run divisor seed result
    echo "run,scale_divisor,seed,step,result,val_loss" >"$results/steps_loss.csv"
    echo "run,scale_divisor,seed,step,result,entropy,saturated,grad_scores" >"$results/steps_attention.csv"
    tail -n +2 "$folder/steps/summary.csv" | while IFS=, read -r run divisor seed _ result _; do
        awk -F, -v OFS=, -v run="$run,$divisor,$seed" -v result="$result" '
            NR > 1 && $6 != "" { print run, $1, result, $6 }' "$folder/steps/$run/metrics.csv" >>"$results/steps_loss.csv"
        awk -F, -v OFS=, -v run="$run,$divisor,$seed" -v result="$result" '
            function finish() { if (n) print run, step, result, entropy / n, saturated / n, gradient / n }
            NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
            NR == 2 || $1 != step { finish(); step = $1; n = entropy = saturated = gradient = 0 }
            { n++; entropy += $at["entropy"]; saturated += $at["saturated"]; gradient += $at["grad_scores_median"] }
            END { finish() }' "$folder/steps/$run/attention.csv" >>"$results/steps_attention.csv"
    done
}

# The keys of configs/scores/WAY.ini, as arguments.
keys_of() {
    sed 's/ *;.*//' "configs/scores/$1.ini" | awk -F ' *= *' '
        /^\[/ { section = substr($0, 2, length($0) - 2) }
        NF == 2 { printf "--set\n%s.%s=%s\n", section, $1, $2 }'
}

# The rate with the lowest mean validation loss, among the runs of a summary where KEY is VALUE.
best_rate() { # SUMMARY RATE KEY VALUE
    awk -F, -v rate="$2" -v key="$3" -v value="$4" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
        NR > 1 && $column[key] == value && $column["result"] == "finished" {
            sum[$column[rate]] += $column["val_loss"]
            count[$column[rate]]++
        }
        END {
            for (at in sum) if (best == "" || sum[at] / count[at] < sum[best] / count[best]) best = at
            print best
        }' "$1"
}

# A summary.csv with a column for the way to score; the first of a file has the header.
with_way() { # WAY SUMMARY OUT
    local first=
    [ -s "$3" ] || first=1
    awk -F, -v OFS=, -v way="$1" -v first=$first '
        NR > 1 || first { $1 = $1 OFS (NR == 1 ? "way" : way); print }' "$2" >>"$3"
}

# Every way to score, in the sweep of NAME.ini: a learning rate for each initialization is chosen on seeds 1 and 2, and
# reported on 3 to 5. NAME_rates.csv and NAME.csv.
ways() {
    local name=$1 way init there arguments
    rm -f "$results/$name.csv" "$results/${name}_rates.csv"
    for way in "${score_ways[@]}"; do
        mapfile -t arguments < <(keys_of "$way")
        there=$name/$way
        train "$there-rates" "$name" "${arguments[@]}"
        with_way "$way" "$folder/$there-rates/summary.csv" "$results/${name}_rates.csv"
        for init in unit gpt2; do
            train "$there-$init" "$name" "${arguments[@]}" --set sweep.model.init=$init --set "sweep.train.seed=3, 4, 5" \
                --set sweep.train.lr="$(best_rate "$folder/$there-rates/summary.csv" lr init $init)"
            with_way "$way" "$folder/$there-$init/summary.csv" "$results/$name.csv"
        done
    done
}

# The rows of several summaries under one header.
rows_of() { awk 'NR == 1 || FNR > 1' "$@"; }

# What tables of n-grams reach on the two texts, as run.json of a run on each has it.
ngrams() {
    "$python" - "$folder" <<'PYTHON'
import glob, json, sys

print("text,order,loss")
for text, sweep in ("built-in text", "best"), ("Tiny Shakespeare", "text"):
    with open(min(glob.glob(f"{sys.argv[1]}/{sweep}/*/run.json")), encoding="utf-8") as file:
        for order, loss in enumerate(json.load(file)["ngram_losses"], 1):
            print(text, order, f"{loss:.4f}", sep=",")
PYTHON
}

# Widths 64 to 256 under three divisors; the third is d_k / 8, which is sqrt_dk's 8 at width 128.
widths() {
    train width/64 width --set sweep.model.d_model=64 --set "sweep.attention.scale_divisor=sqrt_dk, dk, 4"
    train width/128 width
    train width/256 width --set sweep.model.d_model=256 --set "sweep.attention.scale_divisor=sqrt_dk, dk, 16" \
        --set sweep.train.seed=1 --set "sweep.train.lr=1e-3, 2e-3, 4e-3"
    rows_of "$folder"/width/{64,128,256}/summary.csv >"$results/width.csv"
}

# How the scores of these widths grow with the step, at one rate and seed: means over layers and heads.
width_steps() {
    local width run settings
    echo "run,d_model,scale_divisor,lr,seed,step,result,score_std"
    for width in 64 128 256; do
        awk -F, -v OFS=, '$3 ~ /dk$/ && $4 == 0.002 && $5 == 1 { print $1, $2, $3, $4, $5, $7 }' \
            "$folder/width/$width/summary.csv" | while IFS=, read -r run settings; do
            awk -F, -v OFS=, -v run="$run,${settings%,*}" -v result="${settings##*,}" '
                function finish() { if (n) print run, step, result, sum / n }
                NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
                NR == 2 || $1 != step { finish(); step = $1; n = sum = 0 }
                { n++; sum += $at["score_std"] }
                END { finish() }' "$folder/width/$width/$run/attention.csv"
        done
    done
}

# Undivided scores start with a deviation of sqrt(d_k); these divisors make it 1/4 to 4, the column start.
deviations() {
    train deviation/64 deviation
    train deviation/16 deviation --set sweep.model.d_k=16 --set "sweep.attention.scale_divisor=16, 8, 4, 2, 1"
    train deviation/256 deviation --set sweep.model.d_k=256 --set "sweep.attention.scale_divisor=64, 32, 16, 8, 4" \
        --set sweep.train.seed=1
    rows_of "$folder"/deviation/{16,64,256}/summary.csv | awk -F, -v OFS=, '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        { $1 = $1 OFS (NR == 1 ? "start" : sqrt($at["d_k"]) / $at["scale_divisor"]); print }' >"$results/deviation.csv"
}

# A summary at d_k 64 with the deviation that each divisor lets the scores start with.
with_starts() {
    awk -F, -v OFS=, '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        { $1 = $1 OFS (NR == 1 ? "start" : 8 / $at["scale_divisor"]); print }'
}

# Where the plateau ends, by context: 1024 characters a step at each. The rule is in edge.ini.
edges() {
    local context
    for context in 16 64 256; do
        train edge/$context edge --set sweep.model.context=$context --set train.batch=$((1024 / context))
    done
    train edge_init
    for context in 64 256; do
        train edge_long/$context edge_long --set sweep.model.context=$context --set train.batch=$((1024 / context))
    done
    rows_of "$folder"/edge/{16,64,256}/summary.csv | with_starts >"$results/edge.csv"
    awk -F, -v OFS=, '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        { $1 = $1 OFS (NR == 1 ? "start" : $at["qk_init_scale"] ^ 2); print }' \
        "$folder/edge_init/summary.csv" >"$results/edge_init.csv"
    rows_of "$folder"/edge_long/{64,256}/summary.csv | with_starts >"$results/edge_long.csv"
}

# A group of trainings that try to refute the sentences about the edge; its rows also have what the groups differ in.
edge_group() { # GROUP [--set KEY=VALUE]...
    train "edge_tried/$1" edge_tried "${@:2}"
    awk -F, -v OFS=, -v group="$1" -v keys="corpus d_model d_k context lr qk_init_scale" '
        FNR == NR { split($0, part, " *= *"); gsub(".*/|\"", "", part[2]); value[part[1]] = part[2]; next }
        FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        { start = FNR == 1 ? "start" : sqrt(value["d_k"]) / $at["scale_divisor"] * value["qk_init_scale"] ^ 2
          $1 = $1 OFS (FNR == 1 ? "group" : group)
          for (i = 1; i <= split(keys, key, " "); i++) $1 = $1 OFS (FNR == 1 ? key[i] : value[key[i]])
          $1 = $1 OFS start
          print }' "$folder/edge_tried/$1/config.ini" "$folder/edge_tried/$1/summary.csv" >"$folder/edge_tried/$1.csv"
}

# The twenty of edge_tried.ini, which says what each group tries.
edges_tried() {
    local same=(--set data.corpus= --set model.d_model=128 --set model.d_k=64)
    edge_group divisors "${same[@]}" --set "sweep.attention.scale_divisor=8, 32, 300" --set "sweep.train.seed=21, 22"
    edge_group weights "${same[@]}" --set sweep.attention.scale_divisor=8 --set model.qk_init_scale=1.68179283
    edge_group speed "${same[@]}" --set sweep.attention.scale_divisor=2.82842712
    edge_group size
    edge_group keys --set model.context=16 --set train.batch=64
    edge_group rate --set train.lr=5e-4
    edge_group steps --set train.steps=3000
    rows_of "$folder"/edge_tried/{divisors,weights,speed,size,keys,rate,steps}.csv >"$results/edge_tried.csv"
}

# Four heads with their divisors, then eight with theirs: the last divisor is d_k sqrt(d_k).
heads() {
    train heads/4 heads
    train heads/8 heads --set sweep.model.heads=8 --set "sweep.attention.scale_divisor=none, sqrt_dk, sqrt_dmodel, 64"
    rows_of "$folder"/heads/{4,8}/summary.csv >"$results/heads.csv"
}

# The multiplier of each layer at the end, where layers learn them.
learned_scales() {
    "$python" - "$folder/learned" <<'PYTHON'
import csv, sys
from pathlib import Path

sys.path.insert(0, "lab/study")
from weights import tensors

print("run,seed,layer,result,multiplier")
for run in csv.DictReader(open(f"{sys.argv[1]}/summary.csv", encoding="utf-8")):
    if run["scale_learned"] == "layer":
        last = max(Path(sys.argv[1], run["run"], "attention").glob("step*.safetensors"))
        for layer, multipliers in enumerate(tensors(last)["multiplier"], 1):
            print(run["run"], run["seed"], layer, run["result"], f"{multipliers[0]:.5g}", sep=",")
PYTHON
}

# One way of refute.ini, with a column for the largest rise of the validation loss from one evaluation to the next.
attempt() { # WAY [--set KEY=VALUE]...
    local there=$folder/refute/$1 run
    train "refute/$1" refute "${@:2}"
    {
        echo largest_rise
        tail -n +2 "$there/summary.csv" | while IFS=, read -r run _; do
            awk -F, 'NR > 1 && $6 != "" { if (n++ && (n == 2 || $6 - last > most)) most = $6 - last; last = $6 }
                END { print most }' "$there/$run/metrics.csv"
        done
    } | paste -d , "$there/summary.csv" - | with_way "$1" /dev/stdin "$results/refute.csv"
}

# The attempts to refute lab/docs/claims.md that refute.ini decides. Only the first needs the loss by step.
refutations() {
    local smaller=0.353553391 root=(--set sweep.attention.scale_divisor=sqrt_dk) last=(--set eval.every=500)
    rm -f "$results/refute.csv"
    attempt plain --set "sweep.attention.scale_divisor=none, sqrt_dk, dk"
    attempt absorbed "${last[@]}" --set sweep.attention.scale_divisor=none --set model.qk_init_scale=$smaller \
        --set train.qk_lr_scale=$smaller
    attempt gpt2 "${last[@]}" --set model.init=gpt2
    attempt start "${last[@]}" "${root[@]}" --set model.qk_init_scale=$smaller
    attempt rate "${last[@]}" "${root[@]}" --set train.qk_lr_scale=$smaller
    attempt log "${last[@]}" "${root[@]}" --set model.context=256 --set train.batch=4 --set attention.scale_learned=head \
        --set attention.scale_length=log
    attempt long "${last[@]}" "${root[@]}" --set model.context=256 --set train.batch=4
    attempt fixed "${last[@]}" --set train.qk_lr_scale=0 --set model.layers=4
}

# Recall again for four ways, with ten seeds that chose nothing: a run learns it or stays at a guess.
recall_seeds() {
    local way arguments
    rm -f "$results/recall_seeds.csv"
    for way in "${recall_ways[@]}"; do
        mapfile -t arguments < <(keys_of "$way")
        train "recall_seeds/$way" scores_recall "${arguments[@]}" --set sweep.model.init=unit \
            --set "sweep.train.seed=6, 7, 8, 9, 10, 11, 12, 13, 14, 15" \
            --set sweep.train.lr="$(best_rate "$folder/scores_recall/$way-rates/summary.csv" lr init unit)"
        with_way "$way" "$folder/recall_seeds/$way/summary.csv" "$results/recall_seeds.csv"
    done
}

# AdamW and Muon on two models, each at the best of four rates.
optimizers() {
    local setting optimizer rate rates arguments
    for setting in "${optimizer_settings[@]}"; do
        optimizer=${setting#*+} rate=lr rates="1e-3, 3e-3, 5e-3, 1e-2"
        if [ "$optimizer" = muon ]; then rate=muon_lr rates="0.01, 0.02, 0.05, 0.1"; fi
        arguments=("optimizers_${setting%+*}" --set train.optimizer="$optimizer")
        train "optimizers/$setting-rates" "${arguments[@]}" --set "sweep.train.$rate=$rates"
        rate="sweep.train.$rate=$(best_rate "$folder/optimizers/$setting-rates/summary.csv" $rate result finished)"
        train "optimizers/$setting" "${arguments[@]}" --set "$rate" --set "sweep.train.seed=3, 4, 5, 6, 7"
    done
}

# Of these runs: optimizers_rates.csv; optimizers_steps.csv, the validation loss by step; optimizers_losses.csv, the step
# at which a loss is reached, on a line between two evaluations, of the runs that reach it.
optimizer_tables() {
    "$python" - "$folder/optimizers" "$results" "$losses" "${optimizer_settings[@]}" <<'PYTHON'
import csv, sys

folder, results, losses, *settings = sys.argv[1:]

def rows(path):
    with open(f"{folder}/{path}", encoding="utf-8") as file:
        return list(csv.DictReader(file))

def table(name, key, value):
    file = open(f"{results}/optimizers_{name}.csv", "w", encoding="utf-8")
    keys = ["run", "model", "optimizer", *key, "seed", "result", *value]
    return csv.DictWriter(file, keys, lineterminator="\n", extrasaction="ignore")

tables = table("rates", ["rate"], ["val_loss"]), table("steps", ["step"], ["rate", "val_loss"]), table("losses", ["loss"], ["rate", "step"])
for each in tables:
    each.writeheader()
for setting in settings:
    names = dict(zip(("model", "optimizer"), setting.split("+")))
    rate = "muon_lr" if names["optimizer"] == "muon" else "lr"
    for run in rows(f"{setting}-rates/summary.csv"):
        tables[0].writerow({**run, **names, "rate": run[rate]})
    for run in rows(f"{setting}/summary.csv"):
        measured = [row for row in rows(f"{setting}/{run['run']}/metrics.csv") if row["val_loss"]]
        common = {**run, **names, "rate": run[rate]}
        for row in measured:
            if int(row["step"]) % 250 == 0:
                tables[1].writerow({**common, "step": row["step"], "val_loss": row["val_loss"]})
        points = [(int(row["step"]), float(row["val_loss"])) for row in measured]
        for loss in map(float, losses.split()):
            for (step, above), (then, below) in zip([points[0], *points], points):
                if below <= loss:
                    part = (above - loss) / (above - below) if above > loss else 1
                    tables[2].writerow({**common, "loss": loss, "step": round(step + part * (then - step))})
                    break
PYTHON
}

step_ms() { ./train bench "configs/scores/$1.ini" --set train.shards=1 --json --seconds "$bench_seconds" | sed 's/.*"step_ms": *\([0-9.]*\).*/\1/'; }

# The time of a step relative to √d_k's: the median of five ratios, each of two measurements one after the other.
costs() {
    local way
    echo "figure,value"
    for way in "${score_ways[@]}"; do
        for _ in 1 2 3 4 5; do
            echo "$(step_ms "$way") $(step_ms sqrt_dk)"
        done | awk '{ print $1 / $2 }' | sort -n | sed -n "3s/^/$way,/p"
    done
}

# For each way, initialization and seed: what it does on the text and on recall, and what a step costs.
score_table() {
    "$python" - "$results" <<'PYTHON'
import csv, sys

def rows(name):
    with open(f"{sys.argv[1]}/{name}.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))

costs = {row["figure"]: row["value"] for row in rows("scores_cost")}
recalled = {(row["way"], row["init"], row["seed"]): row for row in rows("scores_recall")}
print("run,way,init,seed,result,lr,val_loss,recall_lr,recall_loss,recall_accuracy,step_cost")
for row in rows("scores"):
    key = way, init, seed = row["way"], row["init"], row["seed"]
    recall = recalled[key]
    ended = "finished" if row["result"] == recall["result"] == "finished" else "diverged"
    print("+".join(key), way, init, seed, ended, row["lr"], row["val_loss"], recall["lr"], recall["val_loss"],
          recall["val_accuracy"], costs[way], sep=",")
PYTHON
}

if [ "${1:-}" = --quick ]; then
    train best
    mkdir -p $folder/results
    cp $folder/best/summary.csv $folder/results/best.csv
    table="table best rows=d_k columns=scale_divisor value=val_loss"
    printf '<!-- %s -->\n<!-- end -->\n\n' "$table" "$table minus scale_divisor=sqrt_dk" >$folder/results.md
    : >$folder/appendix.md
    : >$folder/theory.md
    lab/study/page.py --docs $folder
    grep '^|\|^$' $folder/results.md
    exit
fi
"$python" -c 'import numpy' || fail "$python has no NumPy: install lab/study/requirements.txt" 2
[ "${1:-}" = --try ] || [ -e data/tinyshakespeare.txt ] || data/get_shakespeare.sh
mkdir -p $results
for name in "${sweeps[@]}"; do
    train "$name"
    cp "$folder/$name/summary.csv" "$results/$name.csv"
done
"$python" lab/study/weights.py "$folder/best" "$folder/slower" >$results/weights.csv
ngrams >$results/ngrams.csv
steps
train fp16
roundings >$results/fp16.csv
ways scores
ways scores_recall
recall_seeds
widths
width_steps >$results/width_steps.csv
deviations
edges
edges_tried
"$python" lab/study/edge.py freezing $freezing_rows >$results/freezing.csv
heads
refutations
"$python" lab/study/rank.py $folder/rank $rank_steps >$results/rank.csv
learned_scales >$results/learned_scales.csv
"$python" lab/study/picks.py $folder/steps >$results/picks.csv
"$python" lab/study/picks.py $folder/steps --heads >$results/picks_heads.csv
[ -e $results/scores_cost.csv ] || costs >$results/scores_cost.csv
score_table >$results/scores_table.csv
optimizers
optimizer_tables
lab/study/page.py --docs $docs
