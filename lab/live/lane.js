/* A worker that trains one model, a lane of the page. It gets messages {do: ..., ...} and answers with the step that
   they are of: {progress: [[step, loss], ...]}, {evaluation, sample}, {attention, statistics}, {reading}, {error}. Between
   two pieces of work it reads its messages, so that a divisor that is moved holds from the next step on. */
const turn = new MessageChannel(), PIECE = 40, LOOK = 500; /* milliseconds: of a piece; between two looks at attention */
let model = null, running = false, text = "", prompt = "", looked = 0, rate = 1;
const say = message => postMessage({step: model ? model.step : 0, ...message});

function evaluate() {
    const evaluation = model.evaluate();
    say({evaluation, sample: prompt ? model.sample(prompt) : model.text(model.call("written"))});
}
/* Measures attention: of the text, and the heads' statistics on the validation batch. */
function look() {
    const attention = model.attention(text);
    say({attention, statistics: model.statistics(attention.layers, attention.heads)});
    looked = performance.now();
}
/* Trains for a piece, or while the lane rests for a step. */
function work() {
    const until = performance.now() + PIECE, losses = [];
    do {
        losses.push([model.step, model.call("step")]);
        running &&= model.step < model.last && Number.isFinite(losses.at(-1)[1]);
        if (model.call("evaluates")) evaluate();
        if (model.call("measures") || performance.now() > looked + LOOK) look();
    } while (running && performance.now() < until);
    say({progress: losses, done: model.step >= model.last, diverged: !Number.isFinite(losses.at(-1)[1])});
    if (running) turn.port2.postMessage(0);
}
/* Returns a text that the model can use, or else the other one, and says why. */
function accepted(words, otherwise, use) {
    try {
        use(words);
        return words;
    } catch (error) {
        say({error: error.message});
        return otherwise;
    }
}
const actions = {
    make(message) {
        model = new Model(new WebAssembly.Module(message.module), message.config, message.corpus);
        say({made: true, last: model.last, baselines: model.baselines()});
        text = accepted(message.text, Array.from(message.corpus).slice(0, 24).join(""), words => model.attention(words));
        prompt = accepted(message.prompt, "", words => model.sample(words));
        evaluate();
        look();
    },
    run() {
        if (!running && model.step < model.last) turn.port2.postMessage(0);
        running = model.step < model.last;
    },
    pause() { running = false; },
    one() {
        looked = -Infinity;
        if (!running && model.step < model.last) work();
    },
    divide({divisor}) {
        model.call("divide", divisor);
        say({moved: divisor});
        if (running) return;
        if (model.step >= model.last) evaluate();
        look();
    },
    rate({factor}) {
        model.call("rate", factor / rate);
        rate = factor;
    },
    read(message) {
        text = accepted(message.text, text, words => model.attention(words));
        look();
    },
    write(message) {
        prompt = accepted(message.prompt, prompt, words => model.sample(words));
        say({sample: model.sample(prompt)});
    },
    decode({text, divisor}) { say({reading: model.attention(text, divisor)}); },
    report({folder}) { say({run: model.report(text), why: model.text(model.call("why", folder))}); },
    take({folder, corpus}) { say({zip: model.archive(folder, corpus), folder}); },
};
/* An error leaves the model as it was, and training goes on unless a step has failed. */
function guarded(action) {
    try {
        action();
    } catch (error) {
        running &&= action !== work;
        say({error: error.message, refused: !model, failed: action === work});
    }
}
turn.port1.onmessage = () => running && guarded(work);
/* Without a model, since its config or text was refused, there is nothing else to do. */
onmessage = ({data}) => {
    if (model || data.do === "make") guarded(() => actions[data.do](data));
};
