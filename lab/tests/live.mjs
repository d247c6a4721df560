// Trains in the module of the page docs/live.html, in Node. Prints the training loss of every 20th step, and at the end the
// validation loss and the hash of the parameters; lab/tests/live.sh compares them.
//   node lab/tests/live.mjs PAGE.html CONFIG.ini STEPS [section.key=value ...] [FOLDER.zip | --errors]
// A last word FOLDER.zip writes the run as the page does, and why.txt, its sentences. --errors makes six errors before each step,
// and prints each message once.
import fs from "node:fs";
import vm from "node:vm";
import zlib from "node:zlib";
const [page, file, steps, ...keys] = process.argv.slice(2);
const parts = JSON.parse(fs.readFileSync(page, "utf8").match(/<script type="application\/json" id="live">(.*)<\/script>/)[1]);
const unpacked = name => zlib.gunzipSync(Buffer.from(parts[name], "base64"));
vm.runInThisContext(parts.worker.slice(0, parts.worker.indexOf("/* A worker")) + "; globalThis.Model = Model;");
vm.runInThisContext(fs.readFileSync(new URL("live_hash.js", import.meta.url), "utf8"));
const errors = keys.at(-1) === "--errors" ? keys.pop() && new Map() : null;
const archive = keys.at(-1)?.endsWith(".zip") ? keys.pop() : null;
const set = keys.map(key => key.match(/(\w+)\.(\w+)=(.*)/)).map(([, section, name, value]) => `[${section}]\n${name} = ${value}\n`);
try {
    const config = `${fs.readFileSync(file, "utf8")}\n${set.join("")}`;
    const model = new Model(new WebAssembly.Module(unpacked("module")), config, unpacked("corpus").toString());
    const begin = process.cpuUsage().user;
    const refused = [["attention", "Gr\u00fc\u00dfe", 0], ["attention", "", 0], ["sample", "\u20ac", 4, 1, 1n], ["divide", 0], ["rate", -1], ["sample", "a\0b", 4, 1, 1n]];
    for (let step = 0; step < steps; step++) {
        for (const [name, ...values] of errors ? refused : []) {
            try {
                model.call(name, ...values);
            } catch ({message}) {
                errors.set(message, (errors.get(message) ?? 0) + 1);
            }
        }
        const loss = model.call("step");
        if (step % 20 === 0) console.log(`step ${step}: ${loss.toFixed(6)}`);
    }
    console.error(`${((process.cpuUsage().user - begin) / 1000 / steps).toFixed(1)} ms of a processor per step`);
    console.log(`validation: ${model.evaluate().loss.toFixed(6)}`);
    console.log(`parameters: ${hash(model)}`);
    for (const [message, count] of errors ?? []) console.log(`${count} times: ${message}`);
    if (archive) fs.writeFileSync("why.txt", model.text(model.call("why", "run")));
    if (archive) fs.writeFileSync(archive, Buffer.from(await model.archive("run", "").arrayBuffer()));
} catch (error) {
    console.log(error.message);
    process.exit(1);
}
