"use strict";
/* A model of lab/live/live.h in its WebAssembly module. An error of the program is an Error with its words. */
class Model {
    constructor(module, config, text) {
        const imports = {};
        for (const {module: from, name} of WebAssembly.Module.imports(module))
            (imports[from] ??= {})[name] = name === "clock_time_get" ? (...asked) => this.clock(...asked) : () => 8; /* EBADF */
        this.calls = new WebAssembly.Instance(module, imports).exports;
        this.calls._initialize();
        this.live = this.call("make", config, text);
        this.last = this.call("last");
        this.shown = this.text(this.call("text"));
    }
    /* Writes a time in nanoseconds: since 1970, or on any other clock since the page was opened. */
    clock(clock, precision, at) {
        const now = Math.round((clock === 0 ? Date.now() : performance.now()) * 1e6);
        new DataView(this.calls.memory.buffer).setBigUint64(at, BigInt(now), true);
        return 0;
    }
    /* Numbers in the module's memory, copied: its arrays move when it grows. */
    numbers(type, at, count) { return new type(this.calls.memory.buffer, at, count).slice(); }
    text(at) {
        const memory = new Uint8Array(this.calls.memory.buffer);
        return new TextDecoder().decode(memory.subarray(at, memory.indexOf(0, at)));
    }
    /* Calls live_NAME with the model. A text is given as a pointer to a copy of it, ended by a zero byte. An error leaves the
       model as it was. */
    call(name, ...values) {
        const copies = [], stack = this.calls.__stack_pointer.value;
        if (values.some(value => typeof value === "string" && value.includes("\0")))
            throw new Error("The text has a character NUL (U+0000), which ends a text: remove it.");
        const given = values.map(value => {
            if (typeof value !== "string") return value;
            const bytes = new TextEncoder().encode(value + "\0"), at = this.calls.malloc(bytes.length);
            new Uint8Array(this.calls.memory.buffer, at, bytes.length).set(bytes);
            copies.push(at);
            return at;
        });
        try {
            this.calls.live_begin();
            return this.calls[`live_${name}`](...this.live === undefined ? [] : [this.live], ...given);
        } catch (error) {
            this.calls.__stack_pointer.value = stack;
            throw new Error(this.text(this.calls.live_error()) || error.message);
        } finally {
            for (const at of copies) this.calls.free(at);
        }
    }
    get step() { return this.call("steps"); }
    evaluate() { return {loss: this.call("evaluate"), accuracy: this.call("accuracy")}; }
    baselines() {
        const at = this.call("baselines");
        return at ? Array.from(this.numbers(Float64Array, at, 4)) : [];
    }
    sample(prompt) { return this.text(this.call("sample", prompt, 160, 1, 1n)); }
    /* What a page must know of it. */
    about() {
        const count = this.calls.malloc(4), at = this.call("vocabulary", count), [characters] = this.numbers(Uint32Array, count, 1);
        this.calls.free(count);
        return {last: this.last, baselines: this.baselines(), config: this.text(this.call("config")), shown: this.shown,
            vocabulary: [...this.numbers(Uint32Array, at, characters)]};
    }
    /* Returns what live_attention does; of the scores the lower triangles, head by head and row by row. */
    attention(text) {
        const sizes = this.call("attention", text, 0), floats = (at, count) => this.numbers(Float32Array, at, count);
        const [layers, heads, T, V, scores, , multiplier, sink, logits] = this.numbers(Uint32Array, sizes, 9), rows = layers * heads * T;
        const all = floats(scores, rows * T), lower = new Float32Array(rows * (T + 1) / 2);
        for (let row = 0, end = 0; row < rows; end += row++ % T + 1) lower.set(all.subarray(row * T, row * T + row % T + 1), end);
        return {text, layers, heads, T, V, scores: lower, logits: floats(logits, T * V),
            multiplier: [...floats(multiplier, layers * heads)], sink: [...floats(sink, layers * heads)]};
    }
    /* The run as files of a directory of ./train, {name, bytes} each. */
    files() {
        const count = this.calls.malloc(4), first = this.call("files", count), [files] = this.numbers(Uint32Array, count, 1);
        const numbers = this.numbers(Uint32Array, first, 3 * files);
        this.calls.free(count);
        return Array.from({length: files}, (_, i) => ({name: this.text(numbers[3 * i]),
            bytes: this.numbers(Uint8Array, numbers[3 * i + 1], numbers[3 * i + 2])}));
    }
    /* These files as a .zip, with the text if it is the reader's own. */
    archive(folder, text) {
        const all = this.files(), config = all.find(f => f.name === "config.ini"), encode = words => new TextEncoder().encode(words);
        if (text) {
            config.bytes = encode(new TextDecoder().decode(config.bytes).replace(/^corpus = ""$/m, `corpus = ${folder}/corpus.txt`));
            all.push({name: "corpus.txt", bytes: encode(text)});
        }
        return zip(all.map(({name, bytes}) => ({name: encode(`${folder}/${name}`), bytes})));
    }
    /* These files as data of the report: what lab/report/data.c makes of them, without the snapshots. */
    report() {
        const files = new Map(this.files().map(({name, bytes}) => [name, bytes]));
        const text = name => new TextDecoder().decode(files.get(name)), description = JSON.parse(text("run.json"));
        const tensors = Object.entries(read_safetensors(files.get("checkpoint/last.safetensors")))
            .filter(([name, {numbers}]) => numbers && !/^(exp_avg|exp_avg_sq|momentum_buffer)\./.test(name));
        const model = {step: this.step, tensors: tensors.map(([name, {shape}]) => [name, ...shape]),
            parameters: Float32Array.from(tensors.flatMap(([, {numbers}]) => [...numbers])),
            vocabulary: JSON.parse(text("vocab.json")).map(character => character.codePointAt(0)),
            multiplier: this.attention(this.shown).multiplier[0], excerpt: this.excerpt()};
        return {result: description.result, description, config: text("config.ini"), metrics: text("metrics.csv"),
            attention: text("attention.csv"), model: description.result === "diverged" ? {left_out: "its training has diverged"} : model};
    }
    /* Windows of the validation split. */
    excerpt() {
        const [count, T, tokens, targets] = this.numbers(Uint32Array, this.call("windows", 8), 4);
        const ids = (at, i) => [...this.numbers(Int32Array, at + 4 * i * T, T)];
        return Array.from({length: count}, (_, i) => ({tokens: ids(tokens, i), targets: ids(targets, i)}));
    }
}
/* The arrays of a .safetensors file by their names, {shape, numbers}, and its metadata. */
function read_safetensors(bytes) {
    const head = Number(new DataView(bytes.buffer).getBigUint64(0, true));
    const arrays = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + head)));
    const cut = places => new Float32Array(bytes.buffer.slice(...places.map(place => 8 + head + place)));
    for (const array of Object.values(arrays)) array.numbers = array.data_offsets && cut(array.data_offsets);
    return arrays;
}
/* Files, {name, bytes}, as a .zip without compression (APPNOTE.TXT of PKWARE, 4.3). */
function zip(files) {
    const table = Int32Array.from({length: 256}, (_, n) => [...Array(8)].reduce(c => c & 1 ? 0xedb88320 ^ c >>> 1 : c >>> 1, n));
    const little = (...fields) => Uint8Array.from(fields.flatMap(([size, value]) =>
        Array.from({length: size}, (_, i) => value / 256 ** i & 255)));
    const parts = [], directory = [], now = new Date(), date = now.getFullYear() - 1980 << 9 | now.getMonth() + 1 << 5 | now.getDate();
    let at = 0, listed = 0;
    for (const {name, bytes} of files) {
        const crc = ~bytes.reduce((sum, byte) => table[(sum ^ byte) & 255] ^ sum >>> 8, -1) >>> 0;
        const about = little([2, 10], [2, 0x800], [4, 0], [2, date], [4, crc], [4, bytes.length], [4, bytes.length], [2, name.length], [2, 0]);
        parts.push(little([4, 0x04034b50]), about, name, bytes);
        directory.push(little([4, 0x02014b50], [2, 10]), about, little([10, 0], [4, at]), name);
        at += 30 + name.length + bytes.length;
        listed += 46 + name.length;
    }
    return new Blob([...parts, ...directory,
        little([4, 0x06054b50], [4, 0], [2, files.length], [2, files.length], [4, listed], [4, at], [2, 0])]);
}
