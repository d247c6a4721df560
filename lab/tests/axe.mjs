// Pages have no violations of the rules of axe-core, opened, dark, on a phone, and a page that trains also after a training. By
// hand: npm install puppeteer-core axe-core in a directory DIR outside.
//   node lab/tests/axe.mjs DIR PAGE.html...
import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";
const [directory, ...pages] = process.argv.slice(2), require = createRequire(path.resolve(directory, "x.js"));
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const browser = await require("puppeteer-core").launch({executablePath: "/usr/bin/chromium", protocolTimeout: 6e5,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]});
let violations = 0;
async function look(file, width, height, theme) {
    const page = await browser.newPage();
    page.setDefaultTimeout(6e5);
    await page.emulateMediaFeatures([{name: "prefers-color-scheme", value: theme}]);
    await page.setViewport({width, height});
    await page.goto(pathToFileURL(file).href);
    await page.evaluate(axe);
    const check = async when => {
        await new Promise(done => setTimeout(done, 2000));
        const found = (await page.evaluate(() => axe.run(document, {resultTypes: ["violations"]}))).violations;
        for (const {id, nodes} of found) console.log(`${file} ${width}x${height} ${theme} ${when}: ${id}: ${nodes[0].html}`);
        violations += found.length;
    };
    await check("opened");
    if (await page.$("#train")) {
        await page.evaluate(() => {
            document.getElementById("choices").hidden = false;
            document.getElementById("config").value = live_parts.presets[0].config.replace(/steps = .*/, "steps = 6");
            start(true);
        });
        await page.waitForFunction("source === live && training.lanes.every(lane => lane.done && !lane.run.trains)");
        await check("trained");
        await page.click("#lesson");
        await check("in the lesson");
    }
    await page.close();
}
for (const file of pages)
    for (const [width, height] of [[1280, 720], [844, 390], [390, 844]])
        for (const theme of ["light", "dark"]) await look(file, width, height, theme);
await browser.close();
console.log(`${pages.length} pages: ${violations} violations`);
process.exit(violations ? 1 : 0);
