# Completion for bash: verbs, options, keys of --set and their choices, as the program itself lists them, and configs,
# those that came with it included. What was typed and the names of files are data, which nothing expands.

# The keys, each with what it takes: "attention.scale_length none or log"; after them those without their section that no
# other section has.
_sqrtdk_keys() {
    "$1" help config | awk '
        /^\[sweep\]/ { exit }
        /^\[/ { gsub(/[][]/, ""); section = $0 }
        section && /^  [a-z]/ {
            key = $1; sub(/^ *[^ ]+ +/, ""); sub(/;.*/, "")
            print section "." key " " $0; takes[key] = $0; count[key]++
        }
        END { for (key in takes) if (count[key] == 1) print key " " takes[key] }'
}

_sqrtdk() {
    local program=${COMP_WORDS[0]/#\~\//"$HOME"/} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local verb=${COMP_WORDS[1]} key='' words='' verbs came_with candidate
    verbs="train $("$program" --help | sed -n 's/^       [^ ]* \([a-z]*\) .*\[options\]$/\1/p')"
    [[ " $verbs " == *[[:space:]]"$verb"[[:space:]]* ]] || verb=train
    COMPREPLY=()
    # bash makes a word of each "=".
    if [[ $word == "=" ]]; then
        key=$before word=''
    elif [[ $before == "=" ]]; then
        key=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ $key == [a-z]* ]]; then
        # The words of "a, b or c"; of a range nothing, but "doubling" of "a whole number from 0 to 9, or doubling".
        words=$(_sqrtdk_keys "$program" | while read -r candidate words; do [[ $candidate != "$key" ]] || echo "$words"; done |
            sed -e 's/^a .*, or //' -e 's/ or [^ ]* to .*//' -e 's/^a .*//' -e 's/, / /g' -e 's/ or / /')
    elif [[ $before == --set || $key == --set ]]; then
        words=$(_sqrtdk_keys "$program" | sed 's/ .*/=/')
        compopt -o nospace
    elif [[ $word == -* ]]; then
        words=$("$program" help "$verb" | grep -oE -e '^  (-[a-z], )?--[a-z-]+' | grep -oE -e '--[a-z-]+')
    else
        ((COMP_CWORD > 1)) || words=$verbs
        came_with=$(dirname "$(dirname "$(type -P "$program")")")/share/sqrtdk
        mapfile -t COMPREPLY < <(compgen -f -- "$word"; CDPATH='' cd "$came_with" 2>/dev/null && compgen -f -- "$word")
        compopt -o filenames
    fi
    for candidate in $words; do [[ $candidate != "$word"* ]] || COMPREPLY+=("$candidate"); done
}
complete -o bashdefault -o default -F _sqrtdk sqrtdk
