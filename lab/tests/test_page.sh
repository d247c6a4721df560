#!/bin/sh
# lab/study/page.py on small pages with results of their own: what is right passes, and every fault planted in it is
# named, with its line. Then the pages of this repository.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/check.sh
plain_build_or_skip
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
# page.py names files by the shorter of the two paths.
relative=$(python3 -c 'import os, sys; print(os.path.relpath(sys.argv[1]))' "$tmp")
[ ${#relative} -ge ${#tmp} ] || tmp=$relative
trap 'exit 1' HUP INT TERM
page() { lab/study/page.py --docs "$tmp/docs" --configs "$tmp/configs" "$@" 2>&1; }

# Two divisors at two rates, one of which a run diverged at; a sweep that is not finished; a table of no runs.
results=$tmp/docs/results
mkdir -p "$results" "$tmp/configs" "$tmp/docs/images"
for name in best post later; do
    printf '[model]\nd_k = 64 ; as always\n[train]\nsteps = 1000\n' >"$tmp/configs/$name.ini"
done
printf '[sweep]\nmodel.norm = post\n' >>"$tmp/configs/post.ini"
cat >"$results/best.csv" <<'END'
run,scale_divisor,lr,seed,result,steps,val_loss,error
a1,none,0.001,3,finished,1000,2.125,
a2,none,0.001,4,finished,1000,2.25,
a3,none,0.003,3,finished,1000,2.5,
a4,none,0.003,4,finished,1000,2.5,
b1,sqrt_dk,0.001,3,finished,1000,1.75,
b2,sqrt_dk,0.001,4,finished,1000,1.75,
b3,sqrt_dk,0.003,3,finished,1000,1.5,
b4,sqrt_dk,0.003,4,finished,1000,1.5625,
d1,dk,0.001,3,finished,1000,1.875,
d2,dk,0.001,4,diverged,700,,NaN
END
cat >"$results/post.csv" <<'END'
run,norm,scale_divisor,lr,seed,result,steps,val_loss,error
p1,post,none,0.001,3,finished,1000,2.5,
p2,post,none,0.001,4,not finished,300,,
p3,post,sqrt_dk,1e-3,3,finished,1000,1.875,
p4,post,sqrt_dk,1e-3,5,finished,1000,1.75,
END
printf 'run,scale_divisor,lr,seed,divisor,result,val_loss\nc1,none,0.001,5,1,finished,2.0\n' >"$results/later.csv"
printf 'order,loss\n1,3.09\n2,2.34\n' >"$results/levels.csv"
: >"$tmp/docs/images/loss.png"
cat >"$tmp/docs/results.md" <<'END'
# What was measured

Without a divisor the loss is 2.188 at 1e-3, from **2.1** to 2.25: +0.44 nats, or −0.44. `0.1` and
[0.44](http://x/1.5), in the median 2.19; 219 % or 1,000 steps. A table of pairs has
2.34, and of two files it is 2.125.

```sh
lr=0.5
```

<!-- table best rows=scale_divisor columns=lr value=val_loss -->
<!-- end -->

<!-- table best rows=scale_divisor value=val_loss,steps lr=0.001 minus scale_divisor=sqrt_dk show=lr
  digits=2 -->
<!-- end -->

<!-- picture images/loss.png best x=lr lines=scale_divisor value=val_loss levels="levels order loss" -->
![loss](images/loss.png)
END
printf '# Appendix\n\nNothing.\n' >"$tmp/docs/appendix.md"
: >"$tmp/docs/theory.md"
printf '# Front\n\n0.5\n\n## The answer\n\nIt ends at\n2.188.\n\n### In short\n\nAt 1.75.\n\n## More\n\n0.5\n' >"$tmp/front.md"
cat >"$results/figures.txt" <<'END'
# A comment.
== results.md
the loss is {2.188} at 1e-3, from **{2.1}** to {2.25}: {+0.44} nats, or {−0.44}.
    best d_k=64 lr=1e-3 scale_divisor=none val_loss
    min best lr=0.001 scale_divisor=none val_loss
    max best lr=1e-3 scale_divisor=none val_loss
    best lr=1e-3 scale_divisor=none val_loss minus scale_divisor=sqrt_dk
    best lr=1e-3 scale_divisor=sqrt_dk val_loss minus scale_divisor=none
[{0.44}](http://x/1.5), in the median {2.19}; {219} % or {1,000} steps. A table of pairs has {2.34}
    best lr=1e-3 scale_divisor=none val_loss minus scale_divisor=sqrt_dk
    median best lr=1e-3 scale_divisor=none val_loss
    best lr=1e-3 scale_divisor=none val_loss
    best lr=1e-3 scale_divisor=none steps
    levels order=2 loss
of two files it is {2.125}
    best,later scale_divisor=none lr=1e-3 val_loss

== appendix.md
== ../front.md: The answer
It ends at {2.188}.
    best d_k=64 lr=1e-3 scale_divisor=none val_loss
At {1.75}.
    best lr=1e-3 scale_divisor=sqrt_dk val_loss
END

# A page that page.py writes passes its check, and a second time page.py writes the same.
came=$(page && page --check && sed -n '/^|/p' "$tmp/docs/results.md")
expected='| validation loss | lr 1e-3 | lr 3e-3 |
|---|---|---|
| none | 2.188 (2.125 to 2.250) | 2.500 |
| ÷ √d_k | 1.750 | 1.531 (1.500 to 1.562) |
| ÷ d_k | 1.875 (1 diverged) |  |
|  | validation loss, against ÷ √d_k | steps, against ÷ √d_k |
|---|---|---|
| none | +0.44 (+0.38 to +0.50) at 1e-3 | +0.00 at 1e-3 |
| ÷ √d_k | - | - |
| ÷ d_k | +0.12 at 1e-3 (1 diverged) | +0.00 at 1e-3 (1 diverged) |'
check "a good page" "$expected" "$came"
cp "$tmp/docs/results.md" "$tmp/good.md"
page
if cmp -s "$tmp/good.md" "$tmp/docs/results.md"; then pass; else fail "written twice" "the same page" "another one"; fi

# planted WHAT FILE SED-SCRIPT EXPECTED: with this change in a file below docs, the check says this and changes nothing.
planted() {
    cp "$tmp/docs/$2" "$tmp/kept"
    sed "$3" "$tmp/kept" >"$tmp/docs/$2"
    cp "$tmp/docs/results.md" "$tmp/changed.md"
    came=$(page --check) && fail "$1" "exit status 1" 0
    case $came in
    *"$4"*) pass ;;
    *) fail "$1" "$4" "$came" ;;
    esac
    cmp -s "$tmp/docs/results.md" "$tmp/changed.md" || fail "$1" "a page that --check leaves alone" "a changed one"
    cp "$tmp/kept" "$tmp/docs/$2"
}

planted "a figure that is not listed so" results.md 's/2\.188/2.189/' "figures.txt:3: $tmp/docs/results.md has 0 times: the loss is 2.188"
planted "... and is therefore not listed" results.md 's/2\.188/2.189/' "results.md:3: 2.189 is not in figures.txt"
planted "a figure that is not that of the runs" results/best.csv 's/,2.125,/,2.25,/' "figures.txt:3: 2.188 should be 2.250"
planted "a wrong sign" results/figures.txt '8s/\(.*\)sqrt_dk\(.*\)none/\1none\2sqrt_dk/' "figures.txt:3: −0.44 should be 0.44"
planted "a wrong percentage" results/figures.txt '12s/val_loss/& minus scale_divisor=sqrt_dk/' "figures.txt:9: 219 should be 44"
planted "a part of a number" results/figures.txt '15s/{2.125}/{2.12}5/' "results.md:5: 2.125 is not"
planted "a word in braces" results/figures.txt '15s/it is {2.125}/{it} is 2.125/' "figures.txt:15: it is not a number"
planted "a text that is there twice" results.md '1s/$/ of two files it is 2.125/' "figures.txt:15: $tmp/docs/results.md has 2 times"
planted "a figure with more digits" results.md 's/2\.125\.$/2.1253/' "figures.txt:15: $tmp/docs/results.md has 0 times"
planted "an unlisted decimal" results.md '2s/.*/about 0.5 nats/' "results.md:2: 0.5 is not in figures.txt"
planted "... without a zero" results.md '2s/.*/about .5 nats/' "results.md:2: .5 is not"
planted "... in a table" results.md '2s/.*/| a | 0.5 |/' "results.md:2: 0.5 is not"
planted "... in the other page" appendix.md 's/Nothing/&: 0.5/' "appendix.md:3: 0.5 is not"
planted "a query too few" results/figures.txt 16d "figures.txt:15: 1 numbers in braces, but 0 queries"
planted "a text before any page" results/figures.txt 2d "figures.txt:2: no line \"== PAGE\" stands before this one"
planted "a query before any text" results/figures.txt 3d "figures.txt:3: no text stands before this query"
planted "an edited table" results.md 's/1\.531/1.530/' "results.md:11: the table is not that of the runs"
planted "a table without end" results.md 17d "results.md: a table has no line <!-- end -->"
planted "a picture that the page does not show" results.md 's#^!.*##' "results.md:28: images/loss.png is not shown"
planted "a picture that is not there" results.md 's#loss\.png#los.png#' "results.md:28: images/los.png is not"
planted "a picture of nothing" results.md '28s/value=val_loss/value=loss/' "results.md:28: best has no column loss"
planted "a table without rows" results.md '11s/rows=scale_divisor//' "results.md:11: rows= is missing"
planted "a truncated file" results/best.csv "\$s/,.*//" "results/best.csv has rows that are not complete"
planted "a page that is not there" results/figures.txt 's/front/none/' "none.md cannot be read: No such file"
planted "a heading that is not there" results/figures.txt 's/: The answer/: The question/' "front.md has no heading The question"

# query WHAT QUERY EXPECTED: a query that cannot be answered.
query() { planted "$1" results/figures.txt "16s/.*/    $2/" "figures.txt:15: $3"; }

query "seeds without partners" "best lr=1e-3 scale_divisor=none seed=3 val_loss minus seed=4" \
    "cannot be paired: seeds 3 minus seeds 4"
query "one seed more on a side" "best lr=1e-3 scale_divisor=none val_loss minus post norm=post scale_divisor=sqrt_dk" \
    "cannot be paired: seeds 3, 4 minus seeds 3, 5"
query "an ambiguous query" "best scale_divisor=none val_loss" "ambiguous: the runs of best that match differ in lr"
query "a run that did not finish" "post scale_divisor=none val_loss" 'post: p2 has the result "not finished"'
query "a mean without a run that diverged" "best scale_divisor=dk val_loss" "1 of these runs diverged"
query "no such run" "best scale_divisor=2sqrt_dk val_loss" "no run of best matches"
query "an unknown file" "other val_loss" "$results/other.csv cannot be read: No such file"
query "an unknown key" "best norm=post val_loss" "best has no key norm"
query "an unknown column" "best scale_divisor=none lr=1e-3 loss" "best has no column loss"
query "a column of text" "best scale_divisor=none lr=1e-3 seed=3 run" "best: run of a1 is"
query "an unknown statistic" "sum best scale_divisor=none lr=1e-3 val_loss" "expected FILE COLUMN without ="
query "a run that is in two files" "best,best lr=1e-3 val_loss" "best,best has a1 twice"
echo "d_k = 64" >"$tmp/configs/later.ini"
query "a config that is not one" "later val_loss" "File contains no section headers"

# Pictures need matplotlib, and only they.
echo 'raise ImportError("not here")' >"$tmp/matplotlib.py"
came=$(PYTHONPATH=$tmp page --pictures) && fail "no matplotlib" "exit status 1" 0
expected="page.py: pictures need matplotlib: pip install matplotlib (not here)"
check "no matplotlib" "$expected" "$came"

# docs/twin.py and lab/docs/claims.py without what they need: one line.
for missing in 'docs/twin torch' 'lab/docs/claims numpy'; do
    program=${missing% *} module=${missing#* }
    echo 'raise ImportError("not here")' >"$tmp/$module.py"
    came=$(PYTHONPATH=$tmp python3 "$program.py" 2>&1)
    check "$program.py without $module: exit status" 2 $?
    check "$program.py without $module: lines" 1 "$(echo "$came" | wc -l)"
    check_match "$program.py without $module" "^${program##*/}.py needs .*: pip install $module" "$came"
done

# The pages as they are.
came=$(lab/study/page.py --check 2>&1)
check "lab/study/page.py --check" "" "$came"

# README.md with one number changed, and with one more.
mkdir "$tmp/lab"
cp -R lab/docs "$tmp/lab"
for change in 's/ends at 1\.59/ends at 1.58/' 's/^## Why$/&\n\nIt costs 0.7 nats./'; do
    sed "$change" README.md >"$tmp/README.md"
    came=$(lab/study/page.py --docs "$tmp/lab/docs" --check) && fail "README.md, $change" "exit status 1" 0
    case $came in
    *README.md:*" is not in figures.txt"*) pass ;;
    *) fail "README.md, $change" "a number that is not listed" "$came" ;;
    esac
done

checked
