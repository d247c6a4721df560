// The engines of engines.py that run in Node: node engines.mjs ENGINE WORK prints a row for each model, as engines.py --measure.
import {readFileSync} from "node:fs";
import {join} from "node:path";

const MODELS = ["none", "sqrt_dk", "dk", "free", "untied", "relu"];
const read = path => JSON.parse(readFileSync(path, "utf8"));
const version_of = name => read(join(import.meta.dirname, "node_modules", name, "package.json")).version;

/* Returns a function of ids that gives logits, V for each position. */
async function with_onnxruntime(name, place) {
    const ort = await import(name);
    const session = await ort.InferenceSession.create(join(place, "onnx/model.onnx"));
    return async ids => {
        const input_ids = new ort.Tensor("int64", BigInt64Array.from(ids.map(BigInt)), [1, ids.length]);
        return (await session.run({input_ids})).logits.data;
    };
}

async function with_transformers(place) {
    const {AutoModelForCausalLM, AutoTokenizer} = await import("@huggingface/transformers");
    const model = await AutoModelForCausalLM.from_pretrained(place, {dtype: "fp32", local_files_only: true});
    const tokenizer = await AutoTokenizer.from_pretrained(place, {local_files_only: true});
    return async (ids, text) => {
        const words = await tokenizer(text);
        const came = [...words.input_ids.data].map(Number);
        if (came.join() !== ids.join()) throw new Error(`other ids: ${came.slice(0, 5)}`);
        return (await model(words)).logits.data;
    };
}

/* Answers what engines.py asks beside logits: what becomes of an unknown character, and how many parameters a file has. */
async function unknown_character(place, expected) {
    const {AutoTokenizer} = await import("@huggingface/transformers");
    const tokenizer = await AutoTokenizer.from_pretrained(place, {local_files_only: true});
    const ids = tokenizer.encode(expected.unknown);
    const called = await Promise.resolve().then(() => tokenizer(expected.unknown)).then(words => [...words.input_ids.data].join(" "), reason);
    return {unknown: called, "unknown, encode": `ids ${ids.map(String).join(" ")}`};
}

async function parameters_of(place) {
    const {parseSafetensorsMetadata} = await import("@huggingface/hub");
    const count = async path => {
        const data = readFileSync(path);
        const fetch = async (url, options) => {
            const range = /bytes=(\d+)-(\d+)/.exec(new Headers(options?.headers).get("range"));
            const part = range ? data.subarray(Number(range[1]), Number(range[2]) + 1) : data;
            return new Response(part, {status: range ? 206 : 200, headers: {
                "content-range": `bytes 0-${part.length - 1}/${data.length}`, "content-length": String(part.length), etag: '"1"'}});
        };
        const came = await parseSafetensorsMetadata({repo: "a/b", computeParametersCount: true, fetch});
        return Object.values(came.parameterCount).reduce((sum, n) => sum + n, 0);
    };
    const files = {last: "../run/checkpoint/last.safetensors", best: "../run/checkpoint/best.safetensors", exported: "model.safetensors"};
    const counts = [];
    for (const [name, path] of Object.entries(files)) counts.push(`${name} ${await count(join(place, path))}`);
    return {parameters: counts.join(", ")};
}

const ENGINES = {
    "onnxruntime-node": ["onnxruntime-node", place => with_onnxruntime("onnxruntime-node", place)],
    "onnxruntime-web": ["onnxruntime-web", place => with_onnxruntime("onnxruntime-web", place)],
    "transformers.js": ["@huggingface/transformers", with_transformers],
};
const ANSWERS = {
    "transformers.js tokenizer": ["@huggingface/transformers", unknown_character],
    "@huggingface/hub": ["@huggingface/hub", parameters_of],
};

const [name, work] = process.argv.slice(2);
const print = row => console.log("row " + JSON.stringify(row));
const reason = fault => `${fault.constructor.name}: ${fault.message.replace(/\s+/g, " ").slice(0, 200)}`;
const place_of = model => join(work, "models", model, "hf");
if (name in ANSWERS) {
    const [of, ask] = ANSWERS[name];
    const expected = read(join(work, "models/sqrt_dk/expected.json"));
    for (const [model, said] of Object.entries(await ask(place_of("sqrt_dk"), expected)))
        print({engine: name, version: version_of(of), shows: "answers", must: "", model, said});
} else {
    const [of, open] = ENGINES[name];
    for (const model of MODELS) {
        const expected = read(join(work, "models", model, "expected.json"));
        const row = {engine: name, version: version_of(of), shows: "logits", must: "convert", model};
        try {
            const logits = await open(place_of(model));
            let [difference, largest] = [0, 0];
            for (const [i, ids] of expected.ids.entries()) {
                const came = await logits(ids, expected.texts[i]), wanted = expected.logits[i].flat();
                if (came.length !== wanted.length) throw new Error(`${came.length} logits, not ${wanted.length}`);
                wanted.forEach((x, j) => { difference = Math.max(difference, Math.abs(x - came[j])); });
                largest = wanted.reduce((most, x) => Math.max(most, Math.abs(x)), largest);
            }
            Object.assign(row, {difference: difference.toExponential(1), largest: String(Number(largest.toPrecision(3)))});
        } catch (fault) {
            row.said = reason(fault);
        }
        print(row);
    }
}
