/* A worker that trains one model, a lane of the page. It gets messages {do: ..., ...} and answers with the step that
   they are of: {progress: [[step, loss], ...]}, {evaluation}, {attention}, {sample}, {error}. Between two pieces of
   work of some milliseconds it reads its messages, so that a divisor that is moved holds from the next step on. */
let model = null, running = false, text = "", prompt = "";
const turn = new MessageChannel(), PIECE = 40; /* milliseconds */
const say = message => postMessage({step: model ? model.step : 0, ...message});

/* What a run records before a step: validation loss and a sample; attention of the text, and the heads' statistics. */
function show(all) {
    if (all || model.evaluates) say({evaluation: model.evaluate(), sample: model.sample(prompt, 160, 1, 1)});
    if (all || model.measures) look();
}
function look() {
    const attention = model.attention(text);
    say({attention, statistics: model.statistics(attention.layers, attention.heads)});
}
function work() {
    if (!running) return;
    const until = performance.now() + PIECE, losses = [];
    do {
        const step = model.step;
        show(false);
        running = step < model.last;
        if (!running) break;
        const loss = model.train();
        losses.push([step, loss]);
        running = Number.isFinite(loss);
    } while (running && performance.now() < until);
    say({progress: losses, done: !running && model.step >= model.last, diverged: losses.some(l => !Number.isFinite(l[1]))});
    if (running) turn.port2.postMessage(0);
}
const actions = {
    make(message) {
        ({text, prompt} = message);
        model = new Model(new WebAssembly.Module(message.module), message.config, message.corpus);
        say({made: true, last: model.last, baselines: model.baselines()});
        show(true);
    },
    run() {
        if (!running) turn.port2.postMessage(0);
        running = true;
    },
    pause() { running = false; },
    one() {
        if (running || model.step >= model.last) return;
        const step = model.step;
        say({progress: [[step, model.train()]]});
        look();
    },
    divide({divisor}) { model.divide(divisor); if (!running) look(); },
    rate({factor}) { model.rate(factor); },
    read(message) { text = message.text; look(); },
    write(message) { prompt = message.prompt; say({sample: model.sample(prompt, message.count, message.temperature, message.seed)}); },
    config() { say({config: model.config}); },
    hash() { say({hash: model.hash()}); },
};
function guarded(action) {
    try {
        action();
    } catch (error) {
        running = false;
        say({error: error.message});
    }
}
turn.port1.onmessage = () => guarded(work);
onmessage = ({data}) => guarded(() => actions[data.do](data));
