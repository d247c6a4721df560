/* A hash (FNV-1a over words) of the finite parameters of a Model of lab/live/model.js: the same on every machine. */
function hash(model) {
    const count = model.call("count"), words = model.numbers(Uint32Array, model.call("parameters", 0), count);
    let sum = 0x811c9dc5;
    for (const word of words) if ((word & 0x7f800000) !== 0x7f800000) sum = Math.imul(sum ^ word, 0x01000193);
    return (sum >>> 0).toString(16).padStart(8, "0");
}
