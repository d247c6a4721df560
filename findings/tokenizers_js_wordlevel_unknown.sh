#!/bin/sh
# Guess: one tokenizer.json gives one text the same ids in both packages of Hugging Face, in Python and in JavaScript.
# Really: not with a vocabulary of whole words (WordLevel). The token for unknown words is named in tokenizer.json, beside
# the vocabulary. For WordLevel the JavaScript package does not read it there, but in tokenizer_config.json: without that
# entry an unknown word has the id undefined, and nothing is said. For BPE and WordPiece it reads tokenizer.json.
# Versions: @huggingface/tokenizers 0.2.0 (as transformers.js 4.3.1 has it), Node 20.20.2, tokenizers 0.23.3, Python 3.11.7.
# Date: 2026-11-29.
# Output: the wide river, by Python                            1 0 2
#         by JavaScript                                        1 undefined 2
#         by JavaScript, named in tokenizer_config.json, too   1 0 2
#         as BPE by JavaScript                                 1 0 2
#         as WordPiece by JavaScript                           1 0 2
# Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
cd "$dir"

python3 -m venv venv
venv/bin/pip install -q tokenizers==0.23.3 >pip.log 2>&1 || { tail -n 5 pip.log >&2; exit 2; }
echo '{"private": true, "type": "module"}' >package.json
npm install --no-audit --no-fund @huggingface/tokenizers@0.2.0 >npm.log 2>&1 || { tail -n 5 npm.log >&2; exit 2; }

# Writes a tokenizer of whole words with the ordinary functions, and encodes by it.
cat >write.py <<'PY'
from tokenizers import Tokenizer, models, pre_tokenizers

words = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "river": 2}, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
words.save("tokenizer.json")
print(*words.encode("the wide river").ids)
PY

cat >encode.mjs <<'JS'
import {readFileSync} from "node:fs";
import {Tokenizer} from "@huggingface/tokenizers";

const kind = process.argv[2], config = JSON.parse(process.argv[3]);
const written = JSON.parse(readFileSync("tokenizer.json", "utf8"));
const more = {BPE: {merges: []}, WordPiece: {continuing_subword_prefix: "##", max_input_chars_per_word: 100}};
const text = kind === "WordLevel" ? "the wide river" : "t w r";
if (kind !== "WordLevel") written.model = {...written.model, type: kind, vocab: {"[UNK]": 0, t: 1, r: 2}, ...more[kind]};
console.log(new Tokenizer(written, config).encode(text).ids.map(String).join(" "));
JS

expect() { # WORDS IDS COMMAND...
    words=$1
    wanted=$2
    shift 2
    came=$("$@" 2>&1) || came="fails: $(printf %s "$came" | tail -n 1)"
    printf '%-52s %s\n' "$words" "$came"
    [ "$came" = "$wanted" ] || { echo "changed: $words"; exit 1; }
}
expect "the wide river, by Python" "1 0 2" venv/bin/python write.py
expect "by JavaScript" "1 undefined 2" node encode.mjs WordLevel '{}'
expect "by JavaScript, named in tokenizer_config.json, too" "1 0 2" node encode.mjs WordLevel '{"unk_token": "[UNK]"}'
expect "as BPE by JavaScript" "1 0 2" node encode.mjs BPE '{}'
expect "as WordPiece by JavaScript" "1 0 2" node encode.mjs WordPiece '{}'
