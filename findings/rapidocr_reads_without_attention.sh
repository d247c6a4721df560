#!/bin/sh
# Guess: a model that reads text in pictures, with two layers of attention, reads nothing sensible once its attention weights
# are all equal.
# Really: with queries multiplied by 0 in both layers the recognition model of rapidocr-onnxruntime reads the same lines of
# drawn text, and it no longer reads blanks at their ends. The convolutions before the attention see the letters by
# themselves. Even without any values of the attention only capitals are confused: w with W, c with C. So such a model
# says nothing about which divisor is right.
# Versions: rapidocr-onnxruntime 1.4.4, onnx 1.23.2, onnxruntime 1.32.0, pillow 13.0.0, numpy 2.4.6, Python 3.11.7.
# Date: 2026-11-29.
# Output: constants of the queries: 0.2582 0.2582 (1/sqrt(15) is 0.2582)
#         as it ships        40 of 40 lines as drawn, 40 but for capitals, 10 with blanks at the ends
#         all weights equal  40 of 40 lines as drawn, 40 but for capitals, 0 with blanks at the ends
#         no values at all   34 of 40 lines as drawn, 40 but for capitals, 0 with blanks at the ends
# Needs about 0.4 GB in the temporary folder. Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM

# Installs into a private environment. Of the package itself only the model is used.
python3 -m venv "$dir/venv"
{
    "$dir/venv/bin/pip" install -q onnx==1.23.2 onnxruntime==1.32.0 pillow==13.0.0 numpy==2.4.6 &&
        "$dir/venv/bin/pip" install -q --no-deps rapidocr-onnxruntime==1.4.4
} >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/measure.py" <<'PY'
import random
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from PIL import Image, ImageDraw, ImageFont

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)
onnxruntime.set_default_logger_severity(3)
path = Path(find_spec("rapidocr_onnxruntime").submodule_search_locations[0]) / "models/ch_PP-OCRv4_rec_infer.onnx"


def session(query=1, value=1):
    """Returns the model with its queries and its values multiplied by a number, and the constants of the queries."""
    model = onnx.load(path)
    nodes = list(model.graph.node)
    producer = {name: node for node in nodes for name in node.output}
    found = []
    for number, softmax in enumerate(node for node in nodes if node.op_type == "Softmax"):
        product = producer[softmax.input[0]]
        if product.op_type != "MatMul":
            continue
        scaling = producer[product.input[0]]
        constant = producer[scaling.input[1]].attribute[0].t
        old = numpy_helper.to_array(constant)
        found.append(old.item())
        constant.CopyFrom(numpy_helper.from_array(old * numpy.float32(query), constant.name))
        mixed = next(node for node in nodes if softmax.output[0] in node.input and node.op_type == "MatMul")
        name = "factor_%d" % number
        model.graph.initializer.append(numpy_helper.from_array(numpy.float32([value]), name))
        place = list(model.graph.node).index(mixed)
        model.graph.node.insert(place, helper.make_node("Mul", [mixed.input[1], name], [name + "_values"]))
        mixed.input[1] = name + "_values"
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]), found


def picture(text):
    font = ImageFont.load_default(30)
    image = Image.new("L", (round(font.getlength(text)) + 16, 48), 255)
    ImageDraw.Draw(image).text((8, 4), text, font=font, fill=0)
    pixels = (numpy.asarray(image, dtype=numpy.float32) / 255 - 0.5) / 0.5
    return pixels[None, None].repeat(3, axis=1).copy()


def read(model, image, letters):
    best = model.run(None, {"x": image})[0][0].argmax(1)
    return "".join(letters[one] for number, one in enumerate(best) if one and (number == 0 or one != best[number - 1]))


shipped, constants = session()
print("constants of the queries:", *("%.4f" % one for one in constants), "(1/sqrt(15) is 0.2582)")
letters = ["", *shipped.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]
rng = random.Random(1)
words = "river ferry bridge letter window garden silver market winter paper engine mirror basket candle".split()
lines = [" ".join(rng.sample(words, 3)) for _ in range(40)]
counts = []
for name, model in (("as it ships", shipped), ("all weights equal", session(query=0)[0]), ("no values at all", session(value=0)[0])):
    found = [read(model, picture(line), letters) for line in lines]
    right = sum(one.strip() == line for one, line in zip(found, lines))
    letters_right = sum(one.strip().lower() == line for one, line in zip(found, lines))
    blanks = sum(one != one.strip() for one in found)
    counts.append((right, letters_right, blanks))
    print("%-17s  %d of 40 lines as drawn, %d but for capitals, %d with blanks at the ends" % (name, *counts[-1]))
(whole, _, blanks), (equal, _, no_blanks), (_, capitals, _) = counts
if min(whole, equal, capitals) < 38 or blanks < no_blanks + 3 or len(constants) != 2 or any(abs(one - 15**-0.5) > 1e-4 for one in constants):
    print("changed: what the model reads")
    sys.exit(1)
PY
"$dir/venv/bin/python" "$dir/measure.py" 2>/dev/null || exit 1
