"use strict";
/* A model of src/live/live.h in its WebAssembly module. An error of the program is an Error with its words; afterwards
   the model can only be dropped. */
class Model {
    constructor(module, config, text) {
        const imports = {};
        for (const {module: from, name} of WebAssembly.Module.imports(module))
            (imports[from] ??= {})[name] = () => 8; /* there are no files: EBADF */
        this.calls = new WebAssembly.Instance(module, imports).exports;
        this.calls._initialize();
        this.live = this.call("make", config, text);
        this.last = this.call("last");
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
    /* A hash (FNV-1a over words) of the finite parameters: the same on every machine. */
    hash() {
        const count = this.call("count"), words = this.numbers(Uint32Array, this.call("parameters", 0), count);
        let sum = 0x811c9dc5;
        for (const word of words) if ((word & 0x7f800000) !== 0x7f800000) sum = Math.imul(sum ^ word, 0x01000193);
        return (sum >>> 0).toString(16).padStart(8, "0");
    }
}
