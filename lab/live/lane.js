/* A worker that trains one model, a lane of the page. It gets messages {do: ..., ...} and answers with the step that they
   are of: {made, ...}, {progress: [[step, loss], ...]}, {evaluation, sample}, {look, read}, {error}. Between two pieces of
   work it reads its messages, so that a divisor that is moved holds from the next step on. */
const turn = new MessageChannel(), PIECE = 40, LOOKS = 10; /* milliseconds; at least so many steps from look to look */
let model = null, running = false, text = "", rate = 1, looked = -1, losses = [];
const say = message => postMessage({step: model ? model.step : 0, ...message});

/* Tells the losses of the steps so far, before anything that is said of a later one. */
function tell_progress() {
    if (losses.length)
        say({progress: losses, done: model.step >= model.last, diverged: !Number.isFinite(losses.at(-1)[1])});
    losses = [];
}
function evaluate() {
    tell_progress();
    say({evaluation: model.call("evaluate"), sample: text ? text + model.sample(text) : model.text(model.call("written"))});
}
/* Measures attention: of the run's text, and of a text that was typed. */
function look() {
    tell_progress();
    looked = model.step;
    say({look: model.attention(model.shown), read: text ? model.attention(text) : null});
}
/* Trains for a piece, or while the lane rests for a step. */
function work() {
    const until = performance.now() + PIECE, every = Math.max(LOOKS, Math.ceil(model.last / 200));
    do {
        losses.push([model.step, model.call("step")]);
        running &&= model.step < model.last && Number.isFinite(losses.at(-1)[1]);
        if (model.call("evaluates")) evaluate();
        if (model.call("measures") || model.step % every === 0) look();
    } while (running && performance.now() < until);
    tell_progress();
    if (running) turn.port2.postMessage(0);
}
const actions = {
    make(message) {
        model = new Model(new WebAssembly.Module(message.module), message.config, message.corpus);
        say({made: model.about()});
        evaluate();
        look();
    },
    run() {
        if (!running && model.step < model.last) turn.port2.postMessage(0);
        running = model.step < model.last;
    },
    pause() { running = false; },
    one() {
        if (running || model.step >= model.last) return;
        work();
        if (looked < model.step) look();
    },
    /* While the lane rests, the loss under the new divisor is computed at once. */
    divide({divisor}) {
        model.call("divide", divisor);
        say({moved: divisor});
        if (running) return;
        evaluate();
        look();
    },
    rate({factor}) {
        model.call("rate", factor / rate);
        rate = factor;
    },
    read(message) {
        if (message.text) model.attention(message.text); /* one that is refused changes nothing */
        ({text} = message);
        look();
        if (text) say({sample: text + model.sample(text)});
    },
    report({folder}) { say({run: model.report(), why: model.text(model.call("why", folder))}); },
    /* Says in a sentence what runs show, this model's and those of other lanes. */
    compare({runs}) {
        for (const {label, config, metrics, attention} of runs) model.call("join", label, config, metrics, attention);
        say({compared: model.text(model.call("compared"))});
    },
    take({folder, corpus}) { say({zip: model.archive(folder, corpus), folder}); },
};
/* An error leaves the model as it was, and training goes on unless a step has failed. Without a model, since its config
   or text was refused, there is nothing to do. */
function guarded(action) {
    try {
        action();
    } catch (error) {
        running &&= action !== work;
        say({error: error.message, refused: !model, failed: action === work});
    }
}
turn.port1.onmessage = () => running && guarded(work);
onmessage = ({data}) => {
    if (model || data.do === "make") guarded(() => actions[data.do](data));
};
