#!/bin/sh
# Writes the man page, from what `sqrtdk --help`, `sqrtdk VERB --help` and `sqrtdk help config` print, so that both come
# from one table.
#   PATH=DIRECTORY_OF_SQRTDK:$PATH share/man.sh >sqrtdk.1
set -eu
help=$(sqrtdk --help)
keys=$(sqrtdk help config)
date=$(sed -n 's/^date-released: //p' "${0%/*}/../CITATION.cff")

# Text as roff shows it: a backslash, a hyphen, and what begins a request at the start of a line.
escaped() { sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"; }

cat <<END
.TH SQRTDK 1 "$date" "$(sqrtdk --version)"
.SH NAME
sqrtdk \- train a small transformer and show what the divisor of its attention scores does
.SH SYNOPSIS
.nf
$(printf '%s\n' "$help" | sed -nE 's/^(usage:|      ) (sqrtdk .*)/\2/p' | escaped)
.fi
.SH COMMANDS
END
for verb in train $(printf '%s\n' "$help" | sed -n 's/^       sqrtdk \([a-z]*\) .*\[options\]$/\1/p'); do
    text=$(sqrtdk "$verb" --help) # by itself: of a pipe that begins with it, its failure would be lost
    printf '%s\n' "$text" | escaped | awk '
        NR == 1 { sub(/^usage: /, ""); print ".SS " $0; next }
        # "  --name VALUE   text", or the text in a line of its own
        /^  \\-/ {
            match($0, /^ *(\\-[a-z], )?\\-\\-[a-z\\-]+( [^ ]+)?/)
            print ".TP\n.B " substr($0, 3, RLENGTH - 2)
            $0 = substr($0, RLENGTH + 1)
        }
        { sub(/^ +/, ""); if ($0 != "") print }'
done
cat <<END
.SH KEYS OF A CONFIG
.nf
$(printf '%s\n' "$keys" | escaped)
.fi
.SH EXIT STATUS
$(printf '%s\n' "$help" | sed -n '/^exit status: /,$p' | sed 's/^exit status: //' | escaped)
.SH FILES
.TP
.I share/sqrtdk/configs
The configs that come with the program, beside the directory of the program. A config that the working directory
lacks is read from there.
.TP
.I runs/NAME
What a training writes, in the working directory.
.SH SEE ALSO
.I share/doc/sqrtdk/README.md
END
