"use strict";
/* A model of src/live/live.h in its WebAssembly module. An error of the program is an Error with its words; afterwards
   the model can only be dropped. */
class Model {
    constructor(module, config, text) {
        const imports = {};
        for (const {module: from, name} of WebAssembly.Module.imports(module))
            (imports[from] ??= {})[name] = name === "clock_time_get" ? (...asked) => this.clock(...asked) : () => 8; /* EBADF */
        this.calls = new WebAssembly.Instance(module, imports).exports;
        this.calls._initialize();
        this.live = this.call("make", config, text);
        this.last = this.call("last");
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
    /* Calls live_NAME with the model. A text is given as a pointer to a copy of it, ended by a zero byte. */
    call(name, ...values) {
        const copies = [];
        const given = values.map(value => {
            if (typeof value !== "string") return value;
            const bytes = new TextEncoder().encode(value + "\0"), at = this.calls.malloc(bytes.length);
            new Uint8Array(this.calls.memory.buffer, at, bytes.length).set(bytes);
            copies.push(at);
            return at;
        });
        try {
            return this.calls[`live_${name}`](...this.live === undefined ? [] : [this.live], ...given);
        } catch (error) {
            throw new Error(this.text(this.calls.live_error()) || error.message);
        } finally {
            for (const at of copies) this.calls.free(at);
        }
    }
    get step() { return this.call("steps"); }
    get evaluates() { return this.call("evaluates") !== 0; }
    get measures() { return this.call("measures") !== 0; }
    get written() { return this.text(this.call("written")); }
    get config() { return this.text(this.call("config")); }
    train() { return this.call("step"); }
    evaluate() { return {loss: this.call("evaluate"), accuracy: this.call("accuracy")}; }
    baselines() {
        const at = this.call("baselines");
        return at ? Array.from(this.numbers(Float64Array, at, 4)) : [];
    }
    divide(divisor) { this.call("divide", divisor); }
    rate(factor) { this.call("rate", factor); }
    sample(prompt, count, temperature, seed) {
        return this.text(this.call("sample", prompt, count, temperature, BigInt(seed)));
    }
    /* Raw scores, divided scores and weights, (layers, heads, T, T) each, of the beginning of a text. */
    attention(text) {
        const [layers, heads, T, scores, divided, weights] = this.numbers(Uint32Array, this.call("attention", text), 6);
        const matrices = at => this.numbers(Float32Array, at, layers * heads * T * T);
        return {layers, heads, T, scores: matrices(scores), divided: matrices(divided), weights: matrices(weights)};
    }
    /* The means over all heads, on the batch of attention.csv. */
    statistics(layers, heads) {
        const names = ["score_std", "score_max", "entropy", "max_weight", "saturated"], numbers = 10; /* HeadStatistics */
        const all = this.numbers(Float64Array, this.call("statistics"), numbers * layers * heads), means = {};
        names.forEach((name, i) => {
            const of_heads = [...Array(layers * heads).keys()].map(head => all[numbers * head + i]);
            means[name] = of_heads.reduce((sum, x) => sum + x, 0) / of_heads.length;
        });
        return means;
    }
    /* The run as a .zip that unpacks to a directory of ./train. A text of the reader's own, and files of the page, are in
       it as well. */
    archive(folder, text, more) {
        const count = this.calls.malloc(4), first = this.call("files", count), [files] = this.numbers(Uint32Array, count, 1);
        const numbers = this.numbers(Uint32Array, first, 3 * files), encode = words => new TextEncoder().encode(words);
        const all = Array.from({length: files}, (_, i) => ({name: this.text(numbers[3 * i]),
            bytes: this.numbers(Uint8Array, numbers[3 * i + 1], numbers[3 * i + 2])})), config = all.find(f => f.name === "config.ini");
        if (text) {
            config.bytes = encode(new TextDecoder().decode(config.bytes).replace(/^corpus = ""$/m, `corpus = ${folder}/corpus.txt`));
            all.push({name: "corpus.txt", bytes: encode(text)});
        }
        return zip([...all, ...more].map(({name, bytes}) => ({name: encode(`${folder}/${name}`), bytes})));
    }
    /* A hash (FNV-1a over words) of the finite parameters: the same on every machine. */
    hash() {
        const count = this.call("count"), words = this.numbers(Uint32Array, this.call("parameters", 0), count);
        let sum = 0x811c9dc5;
        for (const word of words) if ((word & 0x7f800000) !== 0x7f800000) sum = Math.imul(sum ^ word, 0x01000193);
        return (sum >>> 0).toString(16).padStart(8, "0");
    }
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
