/* A progress line ends with no line end: the next one overwrites it, and a message first wipes it. If stderr is no
   terminal, or one that prints lines alone (TERM=dumb), there is no progress line, so that a log file has whole lines
   only. */
#include "show/progress.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"

static void wipe(void *progress) { progress_clear(progress); }

Progress *progress_make(FILE *stream, bool quiet) {
    Progress *p = memory_make_with_undo(sizeof *p, wipe, "the progress line");
    *p = (Progress){.stream = stream,
                    .quiet = quiet,
                    .terminal = isatty(fileno(stream)) && terminal_is_capable(),
                    .last = -INFINITY,
                    .from = NAN};
    return p;
}

void progress_clear(Progress *p) {
    if (p->shown) {
        progress_line(p, "");
        fputc('\r', p->stream);
    }
}

void progress_message(Progress *p, const char *format, ...) {
    if (p->quiet) return;
    progress_clear(p);
    char line[3 * 4096]; /* holds a path or two */
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    text_make_plain(line);
    fprintf(p->stream, "%s\n", line);
}

void progress_duration(double seconds, char *out, size_t capacity) {
    if (!(seconds >= 0) || seconds > 1e8) {
        snprintf(out, capacity, "?");
        return;
    }
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s < 3600) snprintf(out, capacity, "%lu:%02lu", s / 60, s % 60);
    else snprintf(out, capacity, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
}

bool progress_is_due(Progress *p, double now) {
    if (p->quiet || !p->terminal || now - p->last < 0.5) return false;
    p->last = now;
    return true;
}

void progress_line(Progress *p, const char *line) {
    /* A line that wraps could not be overwritten, and the blanks that wipe a longer line must not wrap either if the
       terminal has become narrower. The last column stays free, since some terminals wrap behind it. */
    const size_t most = terminal_columns(fileno(p->stream)) - 1, length = strnlen(line, most),
                 over = p->shown < most ? p->shown : most;
    fprintf(p->stream, "\r%.*s%*s", (int)length, line, (int)(over > length ? over - length : 0), "");
    p->shown = length;
}

double progress_rate(Progress *p, double now, double done) {
    if (p->counts < 2 && done != p->from) {
        p->counts++;
        p->from = done;
        p->since = now;
    }
    return p->counts < 2 || done == p->from ? (double)NAN : (done - p->from) / (now - p->since);
}

void progress_append_left(char *line, size_t capacity, double left, double rate) {
    char text[32];
    progress_duration(left / rate, text, sizeof text);
    if (isfinite(rate)) text_append(line, capacity, "  %s left", text);
}

void progress_update(Progress *p, double now, size_t step, size_t steps, double train_loss, double val_loss,
                     double accuracy, size_t tokens_per_step) {
    const double rate = progress_rate(p, now, (double)step);
    if (!progress_is_due(p, now)) return;
    char line[256], train[24] = "", val[24] = "";
    if (!isnan(train_loss)) snprintf(train, sizeof train, "  train %.3f", train_loss);
    if (!isnan(accuracy)) snprintf(val, sizeof val, "  accuracy %.3f", accuracy);
    else if (!isnan(val_loss)) snprintf(val, sizeof val, "  val %.3f", val_loss);
    snprintf(line, sizeof line, "step %zu/%zu%s%s", step, steps, train, val);
    if (isfinite(rate)) text_append(line, sizeof line, "  %.1fk tokens/s", rate * (double)tokens_per_step / 1e3);
    progress_append_left(line, sizeof line, (double)(steps - step), rate);
    progress_line(p, line);
}
