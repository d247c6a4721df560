// The page that trains in Firefox: the hash of the quick preset after 200 steps is that of lab/tests/live.txt, which Node and
// Chromium give; a triangle has the same pixels where the browser protects from fingerprints, which makes what is read back
// from a canvas noise; and the page trains there. By hand: apt-get install firefox-esr; npm install puppeteer-core in a
// directory DIR outside.
//   node lab/tests/live_firefox.mjs DIR [PICTURE.png]      the picture is of the protected page while it trains
import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";
const [directory, picture] = process.argv.slice(2), STEPS = 200, said = [];
const puppeteer = createRequire(path.resolve(directory, "x.js"))("puppeteer-core");
async function open(preferences) {
    const browser = await puppeteer.launch({browser: "firefox", executablePath: "/usr/bin/firefox-esr", headless: true, protocolTimeout: 3e6,
        extraPrefsFirefox: preferences});
    const page = await browser.newPage();
    page.setDefaultTimeout(3e6);
    page.on("console", message => said.push(message.text()));
    page.on("pageerror", error => said.push(String(error)));
    await page.setViewport({width: 1280, height: 900});
    await page.goto(pathToFileURL("docs/live.html").href);
    await page.waitForFunction("source !== live && sides.length === 4");
    return {browser, page};
}
/* The pixels of the chosen triangle. */
async function triangle({page}) {
    const [x, y, width, height] = await page.evaluate(() => {
        matrix.svg.querySelectorAll(":scope > :not(image)").forEach(element => element.remove());
        const box = matrix.image.getBoundingClientRect();
        return [box.x, box.y, box.width, box.height].map(Math.round);
    });
    return page.screenshot({encoding: "base64", clip: {x, y, width, height}});
}
const plain = await open({}), protecting = await open({"privacy.resistFingerprinting": true});
const triangles = [await triangle(plain), await triangle(protecting)], same = triangles[0] === triangles[1] && triangles[0].length > 2000;
const hash = await plain.page.evaluate(async (steps, hashes) => {
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
await protecting.page.reload();
await protecting.page.evaluate(() => document.getElementById("train").click());
await protecting.page.waitForFunction("training.lanes.length === 4 && training.lanes.every(lane => lane.step > 20)");
if (picture) await protecting.page.screenshot({path: picture});
const version = await plain.browser.version();
await plain.browser.close();
await protecting.browser.close();
console.log(`${version}: ${hash}, expected ${expected}; triangles ${same ? "alike" : "differ"}; the console: ${JSON.stringify(said)}`);
process.exit(hash === expected && same && said.length === 0 ? 0 : 1);
