// Trains configs in the WebAssembly module (make live), in Node, and prints losses and hashes; tests/test_live.sh compares.
//   node tests/live.mjs CONFIG.ini STEPS [key=value ...]
import fs from "node:fs";
import vm from "node:vm";
vm.runInThisContext(fs.readFileSync("src/live/model.js", "utf8") + "; globalThis.Model = Model;");
const [file, steps, ...keys] = process.argv.slice(2);
const module = new WebAssembly.Module(fs.readFileSync("build/live/sqrtdk.wasm"));
const set = keys.map(key => key.match(/(\w+)\.(\w+)=(.*)/)).map(([, section, name, value]) => `[${section}]\n${name} = ${value}\n`);
try {
    const model = new Model(module, fs.readFileSync(file, "utf8") + "\n" + set.join(""), fs.readFileSync("data/sallow_reach.txt", "utf8"));
    const begin = process.cpuUsage().user;
    for (let step = 0; step < steps; step++) {
        const loss = model.train();
        if (step % 20 === 0) console.log(`${step},${loss.toFixed(6)}`);
    }
    const seconds = (process.cpuUsage().user - begin) / 1e6, a = model.attention("The ferry");
    console.log(`validation,${model.evaluate().loss.toFixed(6)}`);
    console.log(`statistics,${Object.values(model.statistics(a.layers, a.heads)).map(x => x.toPrecision(6))}`);
    console.log(`hash,${model.hash()}`);
    console.error(`${(1000 * seconds / steps).toFixed(1)} ms of a processor per step`);
} catch (error) {
    console.log(error.message);
    process.exit(1);
}
