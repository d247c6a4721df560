/* Compares runs by the code of why, from the texts of their files. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "lab/live/parts.h"
#include "lab/why/why.h"

static LogTable read_log(Log log, const char *text) { return logs_read_text(log, text, strlen(text)); }

void live_join(Live *l, const char *label, const char *config, const char *metrics, const char *attention) {
    const size_t mark = memory_mark();
    const double *losses = live_baselines(l);
    l->joined = live_longer(l->joined, l->joined_count, sizeof *l->joined);
    SweepRun *run = &l->joined[l->joined_count];
    memset(run, 0, sizeof *run);
    snprintf(run->directory, sizeof run->directory, "memory");
    text_clip(label, sizeof run->name - 4, run->name, sizeof run->name);
    config_from_text(&run->config, config, "the config of a run to compare");
    const LogTable steps = read_log(LOG_METRICS, metrics), heads = read_log(LOG_ATTENTION, attention);
    sweep_measure(run, &steps, &heads);
    for (size_t i = 0; i < NGRAM_ORDERS; i++) run->baselines[i] = losses ? losses[i] : (double)NAN;
    if (run->measured[MEASURE_STEPS] == (double)run->config.train.steps) run->state = RUN_FINISHED;
    l->joined_count++;
    memory_release(mark);
}

const char *live_compared(Live *l) {
    static Why why; /* large */
    const size_t mark = memory_mark(), count = l->joined_count;
    Sweep *s = memory_make(1, sizeof *s, "runs to compare");
    s->runs = l->joined;
    s->settings = memory_make(count, sizeof *s->settings, "runs to compare");
    s->run_count = s->setting_count = count;
    for (size_t i = 0; i < count; i++) {
        s->settings[i] = (SweepSetting){.run = {i}, .count = 1, .reference = NO_SETTING};
        snprintf(s->settings[i].label, sizeof s->settings[i].label, "%s", s->runs[i].name);
    }
    sweep_summarize(s);
    why_sweep(s, &why);
    Text *text = text_begin();
    fputs(why.sentence[0], text->stream);
    const char *said = live_text_return(l, text);
    memory_release(mark);
    l->joined_count = 0;
    return said;
}
