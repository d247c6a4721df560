#!/bin/sh
# configs/study/page.py on a small page with results of its own: what is right passes, and every fault planted in it is
# named, with its line. Then the pages of this repository.
set -u
cd "$(dirname "$0")/.." || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
relative=$(realpath --relative-to=. "$tmp") # page.py names files by the shorter of the two paths
[ ${#relative} -ge ${#tmp} ] || tmp=$relative
trap 'exit 1' HUP INT TERM
passed=0 failed=0

pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    printf 'FAILED: %s\n  expected: %s\n  came: %s\n' "$1" "$2" "$3"
}
page() {
    configs/study/page.py --results "$tmp/results" --configs "$tmp/configs" --images "$tmp/images" \
        --page "$tmp/results.md" "$@" 2>&1
}

# Two divisors at two rates: no divisor is best at 1e-3, the other one at 3e-3. seeds 1 and 2 choose the rate.
mkdir "$tmp/results" "$tmp/configs" "$tmp/images"
for name in rates best post later; do
    printf '[model]\nd_k = 64 ; as always\n[train]\nsteps = 1000\n' >"$tmp/configs/$name.ini"
done
printf '[sweep]\nmodel.norm = post\n' >>"$tmp/configs/post.ini"
cat >"$tmp/results/rates.csv" <<'END'
run,scale_divisor,lr,seed,result,steps,val_loss,error
a1,none,0.001,1,finished,1000,2.0,
a2,none,0.001,2,finished,1000,2.2,
a3,none,0.003,1,finished,1000,2.3,
a4,none,0.003,2,finished,1000,2.4,
b1,sqrt_dk,0.001,1,finished,1000,1.7,
b2,sqrt_dk,0.001,2,finished,1000,1.6,
b3,sqrt_dk,0.003,1,finished,1000,1.5,
b4,sqrt_dk,0.003,2,finished,1000,1.6,
d1,dk,0.001,1,finished,1000,1.9,
d2,dk,0.001,2,finished,1000,1.9,
d3,dk,0.003,1,finished,1000,1.2,
d4,dk,0.003,2,diverged,700,,NaN
END
cat >"$tmp/results/best.csv" <<'END'
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
cat >"$tmp/results/post.csv" <<'END'
run,norm,scale_divisor,lr,seed,result,steps,val_loss,error
p1,post,none,0.001,3,finished,1000,2.5,
p2,post,none,0.001,4,not finished,300,,
p3,post,sqrt_dk,1e-3,3,finished,1000,1.875,
p4,post,sqrt_dk,1e-3,5,finished,1000,1.75,
END
printf 'figure,value\nd_k_64,0.63\n' >"$tmp/results/first_edition.csv"
: >"$tmp/images/loss.png"
cat >"$tmp/good.md" <<'END'
# What was measured

Without a divisor the loss is 2.188<!-- best d_k=64 lr=1e-3 scale_divisor=none val_loss --> at 1e-3, from
**2.1<!-- min best lr=0.001 scale_divisor=none val_loss -->** to 2.25<!-- max best lr=1e-3 scale_divisor=none
val_loss -->: +0.44<!-- best lr=1e-3 scale_divisor=none val_loss minus scale_divisor=sqrt_dk --> nats, or
−0.44<!-- best lr=1e-3 scale_divisor=sqrt_dk val_loss minus scale_divisor=none -->. `0.1` and
[0.656<!-- best lr=best:rates scale_divisor=none val_loss minus scale_divisor=sqrt_dk -->](http://x/1.5) with each at
its best rate. In all 10<!-- count best --> runs, 1<!-- count best result=diverged --> diverged. It was
0.63<!-- first_edition figure=d_k_64 -->, and the median is
1.53<!-- median best lr=best:rates scale_divisor=sqrt_dk val_loss -->; of those that
finished, 1.875<!-- best scale_divisor=dk result=finished val_loss --> is the mean;
219<!-- best lr=1e-3 scale_divisor=none val_loss --> % or 1,000<!-- best lr=1e-3 scale_divisor=none steps --> steps.

```sh
lr=0.5
```

<!-- table best rows=scale_divisor columns=lr value=val_loss -->
<!-- end -->

<!-- table best rows=scale_divisor value=val_loss,steps lr=best:rates minus scale_divisor=sqrt_dk show=lr
  digits=2 -->
<!-- end -->

<!-- picture images/loss.png best x=lr lines=scale_divisor value=val_loss -->
![loss](images/loss.png)

## Speed
<!-- measured by make bench -->

It takes 1.5 seconds.
END

# What page.py writes passes its check, and a second time it writes the same.
cp "$tmp/good.md" "$tmp/results.md"
came=$(page && page --check && sed -n '/^|/p' "$tmp/results.md")
expected='| validation loss | lr 1e-3 | lr 3e-3 |
|---|---|---|
| none | 2.188 (2.125 to 2.250) | 2.500 |
| ÷ √d_k | 1.750 | 1.531 (1.500 to 1.562) |
| ÷ d_k | 1.875 (1 diverged) |  |
|  | validation loss, against ÷ √d_k | steps, against ÷ √d_k |
|---|---|---|
| none | +0.66 (+0.62 to +0.69) at 1e-3 | +0.00 at 1e-3 |
| ÷ √d_k | - | - |
| ÷ d_k | +0.38 at 1e-3 (1 diverged) | +0.00 at 1e-3 (1 diverged) |'
if [ "$came" = "$expected" ]; then pass; else fail "a good page" "$expected" "$came"; fi
cp "$tmp/results.md" "$tmp/good.md"
page
if cmp -s "$tmp/good.md" "$tmp/results.md"; then pass; else fail "written twice" "the same page" "another one"; fi

# planted WHAT EXPECTED SED-SCRIPT [FILE]: with this change, in the page or in another file, the check fails, its first
# line begins with this, and it changes nothing.
planted() {
    file=$tmp/${4:-results.md}
    cp "$tmp/good.md" "$tmp/results.md"
    cp "$file" "$tmp/kept"
    sed "$3" "$tmp/kept" >"$file"
    cp "$tmp/results.md" "$tmp/changed.md"
    came=$(page --check) && fail "$1" "exit status 1" 0
    case $came in
    "$tmp/results.md:$2"*) pass ;;
    *) fail "$1" "results.md:$2" "$came" ;;
    esac
    cmp -s "$tmp/results.md" "$tmp/changed.md" || fail "$1" "a page that --check leaves alone" "a changed one"
    cp "$tmp/kept" "$file"
}
# text WHAT EXPECTED TEXT: the same with this text in the second line, which is otherwise empty.
text() { planted "$1" "2: $2" "2s#.*#$3#"; }

planted "a wrong figure" "3: 2.189 should be 2.188" 's/2\.188<!/2.189<!/'
planted "a wrong sign" "6: 0.44 should be -0.44" 's/−0\.44/0.44/'
planted "a wrong integer" "8: 11 should be 10" 's/10<!-- count/11<!-- count/'
planted "a wrong percentage" "12: 220 should be 219" 's/^219/220/'
planted "a wrong figure of the first edition" "9: 0.64 is 0.63" 's/^0.63/0.64/'
planted "an edited table" "18: the table is not" 's/1\.531/1.530/'
planted "a table without end" "18: the table has no line" 24d
planted "a picture that the page does not show" "35: images/loss.png is not shown" 's#^!.*##'
planted "a picture that is not there" "35: images/los.png is not" 's#loss\.png#los.png#'
planted "a picture of nothing" "35: best has no column loss" 's#value=val_loss -->$#value=loss -->#;18s#loss#val_loss#'
planted "a decimal outside of the section that is exempt" "43: 1.5 has no comment" 's/^It takes/## Next\n\n&/'
planted "a section no longer exempt" "41: 1.5 has no comment" 's/^<!-- measured by.*//'
text "an unmarked decimal" "0.5 has no" "about 0.5 nats"
text "... without a zero" ".5 has no" "about .5 nats"
text "... in a table" "0.5 has no" "| a | 0.5 |"
text "a comment that belongs to nothing" "<!-- best val_loss --> belongs to nothing" "loss <!-- best val_loss -->"
text "seeds without partners" "cannot be paired: seeds 3 minus seeds 4" \
    "1<!-- best lr=1e-3 scale_divisor=none seed=3 val_loss minus seed=4 -->"
text "one seed more on a side" "cannot be paired: seeds 3, 4 minus seeds 3, 5" \
    "1<!-- best lr=1e-3 scale_divisor=none val_loss minus post norm=post scale_divisor=sqrt_dk -->"
text "an ambiguous query" "ambiguous: the runs of best that match differ in lr" \
    "1<!-- best scale_divisor=none val_loss -->"
text "a run that did not finish" 'post: p2 has the result "not finished"' "1<!-- post scale_divisor=none val_loss -->"
text "a mean without a run that diverged" "1 of these runs diverged" "1<!-- best scale_divisor=dk val_loss -->"
text "no such run" "no run of best matches" "1<!-- best scale_divisor=2sqrt_dk val_loss -->"
text "an unknown file" "$tmp/results/other.csv cannot be read: No such file" "1<!-- other val_loss -->"
text "an unknown key" "best has no key norm" "1<!-- best norm=post val_loss -->"
text "an unknown column" "best has no column loss" "1<!-- best scale_divisor=none lr=1e-3 loss -->"
text "a column of text" 'best: run of a1 is' "1<!-- best scale_divisor=none lr=1e-3 seed=3 run -->"
text "an unknown statistic" "expected FILE COLUMN without =" "1<!-- sum best scale_divisor=none lr=1e-3 val_loss -->"
text "a run that is in two files" "best,best has a1 twice" "1<!-- count best,best -->"
text "a table of another statistic" "expected FILE without =" \
    "<!-- table median best rows=lr value=val_loss -->\n<!-- end -->"
text "a table without rows" "rows= is missing" "<!-- table best value=val_loss -->\n<!-- end -->"
planted "another best rate" "7: 0.656 should be 0.969 (0.96875)" 's/^a3\(.*\)2.3,$/a3\11.3,/' results/rates.csv
planted "a best rate that is not there" "7: best has no run with scale_divisor=none at lr=0.01, the best of rates" \
    '/^a3/{s/0.003/0.01/;s/2.3,$/1.3,/;}' results/rates.csv
planted "no best rate" "7: rates has no rate whose runs finished, with scale_divisor=none" \
    '/^a/s/finished/diverged/' results/rates.csv
planted "a truncated file" "3: $tmp/results/best.csv is no complete summary.csv" "\$s/,.*//" results/best.csv
planted "a changed loss" "3: 2.188 should be 2.250" 's/,2.125,/,2.25,/' results/best.csv
planted "a config that is not one" "3: File contains no section headers" 1d configs/best.ini

# Other pages are read between two lines alone.
part() {
    printf '%b\n' "$2" >"$tmp/README.md"
    came=$(configs/study/page.py --results "$tmp/results" --configs "$tmp/configs" --page "$tmp/README.md" --check)
    if [ "$came" = "${3:+$tmp/README.md:$3}" ]; then pass; else fail "$1" "README.md:$3" "$came"; fi
}
figure='2.250<!-- best lr=best:rates scale_divisor=none seed=4 val_loss -->'
part "a part of a page" "0.5\n<!-- figures -->\n$figure\n<!-- figures end -->\n0.5" ""
part "two parts" "<!-- figures -->\n$figure\n<!-- figures end -->\n0.5\n<!-- figures -->\n.5\n<!-- figures end -->" \
    "6: .5 has no comment behind it that says where it comes from"
part "a block of code" "<!-- figures -->\n$figure\n~~~\n0.5\n\n0.5\n~~~\n<!-- figures end -->" ""
printf 'run,scale_divisor,lr,seed,divisor,result,val_loss\nc1,none,0.001,5,1,finished,2.0\n' >"$tmp/results/later.csv"
part "a file with the divisor as a number and one without" "<!-- figures -->
2.125<!-- best,later scale_divisor=none lr=1e-3 val_loss -->\n<!-- figures end -->" ""
part "no part" "0.5" " needs lines <!-- figures --> and <!-- figures end -->, in pairs"
part "a part without end" "<!-- figures -->\n0.5" " needs lines <!-- figures --> and <!-- figures end -->, in pairs"

# What another page quotes: quoted WHAT EXPECTED TEXT [FIGURE], where EXPECTED is all that the check says.
quoted() {
    printf '%b\n' "$3" >"$tmp/front.md"
    cat >"$tmp/results.md" <<END
Nothing.

## Quoted

<!-- quoted by front.md -->

Two figures.

- the loss ends at ${4:-2.188}<!-- best d_k=64 lr=1e-3 scale_divisor=none val_loss --> without
- from
  2.1<!-- min best lr=0.001 scale_divisor=none val_loss --> on
END
    came=$(page --check)
    if [ "$came" = "$(printf '%b' "$2")" ]; then pass; else fail "quoted: $1" "$(printf '%b' "$2")" "$came"; fi
}
right="Here the loss ends\nat 2.188 without,\nfrom 2.1 on. Of \`1.5\`, 1 and 3e-3\n~~~\n1.5\n~~~"
quoted "as listed" "" "$right"
quoted "a wrong figure" "$tmp/results.md:9: $tmp/front.md has 0 times: the loss ends at 2.188 without
$tmp/front.md:1: 2.189 is not among what $tmp/results.md lists as quoted here" "the loss ends at 2.189 without, from 2.1 on"
quoted "a figure that is listed nowhere" "$tmp/front.md:7: 0.5 is not among what $tmp/results.md lists as quoted here" \
    "$right\n0.5"
quoted "the same figure in other words" "$tmp/front.md:7: 2.188 is not among what $tmp/results.md lists as quoted here" \
    "$right\n2.188"
quoted "a figure that has more digits" "$tmp/results.md:10: $tmp/front.md has 0 times: from 2.1 on
$tmp/front.md:2: 2.15 is not among what $tmp/results.md lists as quoted here" "the loss ends at 2.188 without,\nfrom 2.15 on"
quoted "twice" "$tmp/results.md:10: $tmp/front.md has 2 times: from 2.1 on" "$right\nfrom 2.1 on"
quoted "a figure that is not that of the runs, though the pages agree" \
    "$tmp/results.md:9: 2.189 should be 2.188 (2.1875): best d_k=64 lr=1e-3 scale_divisor=none val_loss" \
    "the loss ends at 2.189 without, from 2.1 on" 2.189
rm "$tmp/front.md"
came=$(page --check)
expected="$tmp/results.md: $tmp/front.md cannot be read: No such file or directory"
if [ "$came" = "$expected" ]; then pass; else fail "quoted by nobody" "$expected" "$came"; fi

# Pictures need matplotlib, and only they.
echo 'raise ImportError("not here")' >"$tmp/matplotlib.py"
cp "$tmp/good.md" "$tmp/results.md"
came=$(PYTHONPATH=$tmp page --pictures) && fail "no matplotlib" "exit status 1" 0
expected="page.py: pictures need matplotlib: pip install matplotlib (not here)"
if [ "$came" = "$expected" ]; then pass; else fail "no matplotlib" "$expected" "$came"; fi

# The pages as they are.
came=$(configs/study/page.py --check 2>&1)
if [ -z "$came" ]; then pass; else fail "configs/study/page.py --check" "nothing" "$came"; fi

# README.md with one number changed, and with one more.
mkdir "$tmp/docs"
cp docs/results.md "$tmp/docs"
for change in 's/ends at 1\.59/ends at 1.58/' 's/^## The answer$/&\n\nIt costs 0.7 nats./'; do
    sed "$change" README.md >"$tmp/README.md"
    came=$(configs/study/page.py --page "$tmp/docs/results.md" --check) && fail "README.md, $change" "exit status 1" 0
    case $came in
    *README.md:*" is not among what "*) pass ;;
    *) fail "README.md, $change" "a number that is not listed" "$came" ;;
    esac
done

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
