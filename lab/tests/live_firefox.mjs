// The page that trains in Firefox: the hash of the quick preset after 200 steps is that of lab/tests/live.txt, which Node and
// Chromium give. By hand: apt-get install firefox-esr; npm install puppeteer-core in a directory DIR outside.
//   node lab/tests/live_firefox.mjs DIR [PICTURE.png]      the picture is of the page after that many steps of all lanes
import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";
const [directory, picture] = process.argv.slice(2), STEPS = 200;
const puppeteer = createRequire(path.resolve(directory, "x.js"))("puppeteer-core");
const browser = await puppeteer.launch({browser: "firefox", executablePath: "/usr/bin/firefox-esr", headless: true, protocolTimeout: 3e6});
const page = await browser.newPage(), said = [];
page.setDefaultTimeout(3e6);
page.on("console", message => said.push(message.text()));
page.on("pageerror", error => said.push(String(error)));
await page.setViewport({width: 1280, height: 900});
await page.goto(pathToFileURL("docs/live.html").href);
const hash = await page.evaluate(async (steps, hashes) => {
    const source = live_parts.worker + hashes + `; onmessage = ({data}) => {
        const model = new Model(new WebAssembly.Module(data.module), data.config, data.corpus);
        for (let step = 0; step < ${steps}; step++) model.call("step");
        postMessage(hash(model));
    }`;
    const worker = new Worker(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
    const config = live_parts.presets[0].config.replace(/every = .*/g, "every = 0") + "[attention]\nscale_divisor = sqrt_dk\n";
    worker.postMessage({module: await live_module, corpus: await live_corpus, config});
    return new Promise(done => { worker.onmessage = ({data}) => done(data); });
}, STEPS, fs.readFileSync("lab/tests/live_hash.js", "utf8"));
const expected = fs.readFileSync("lab/tests/live.txt", "utf8").match(/demo 200[^]*?parameters: (\w+)/)[1];
if (picture) {
    await page.evaluate(() => start(true));
    await page.waitForFunction(() => training.lanes.every(lane => lane.step > 20));
    await page.screenshot({path: picture});
}
const version = await browser.version();
await browser.close();
console.log(`${version}: ${hash}, expected ${expected}; the console: ${JSON.stringify(said)}`);
process.exit(hash === expected && said.length === 0 ? 0 : 1);
