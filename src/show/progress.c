#include "show/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 80 };

Progress progress_make(FILE *stream, bool quiet) {
    return (Progress){.stream = stream, .quiet = quiet, .terminal = isatty(fileno(stream)) != 0, .last = -INFINITY};
}

void progress_clear(Progress *p) {
    if (p->lines)
        fprintf(p->stream, "\r\033[%zuA\033[J", p->lines); /* up, and away with all below */
    else if (p->shown)
        fprintf(p->stream, "\r%*s\r", (int)p->shown, "");
    p->shown = p->lines = 0;
    fflush(p->stream);
}

void progress_message(Progress *p, const char *format, ...) {
    if (p->quiet) return;
    progress_clear(p);
    va_list args;
    va_start(args, format);
    vfprintf(p->stream, format, args);
    va_end(args);
    fputc('\n', p->stream);
    fflush(p->stream);
}

void progress_duration(double seconds, char *out, size_t capacity) {
    if (!(seconds >= 0) || seconds > 1e8) {
        snprintf(out, capacity, "?");
        return;
    }
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s < 3600)
        snprintf(out, capacity, "%lu:%02lu", s / 60, s % 60);
    else
        snprintf(out, capacity, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
}

bool progress_is_due(Progress *p, double now) {
    if (p->quiet || !p->terminal || now - p->last < 0.1) return false;
    p->last = now;
    return true;
}

void progress_update(Progress *p, double now, size_t step, size_t steps, double train_loss, double val_loss,
                     double tokens_per_second, double seconds_left) {
    if (!progress_is_due(p, now)) return;
    char line[256], train[24] = "", val[24] = "", left[32];
    if (!isnan(train_loss)) snprintf(train, sizeof train, "  train %.3f", train_loss);
    if (!isnan(val_loss)) snprintf(val, sizeof val, "  val %.3f", val_loss);
    progress_duration(seconds_left, left, sizeof left);
    snprintf(line, sizeof line, "step %zu/%zu%s%s  %.1fk characters/s  %s left", step, steps, train, val,
             tokens_per_second / 1e3, left);
    progress_lines(p, &(const char *){line}, 1);
}

void progress_count(Progress *p, double now, const char *what, size_t done, size_t all) {
    if (!progress_is_due(p, now)) return;
    char line[256];
    snprintf(line, sizeof line, "%zu/%zu %s", done, all, what);
    progress_lines(p, &(const char *){line}, 1);
}

/* Lines that would wrap, or scroll out at the top, could not be written over. */
void progress_lines(Progress *p, const char *const *lines, size_t count) {
    const char *kind = getenv("TERM");
    struct winsize size;
    int columns = COLUMNS;
    if (!kind || strcmp(kind, "dumb") == 0) count = 1;
    if (ioctl(fileno(p->stream), TIOCGWINSZ, &size) == 0) {
        if (size.ws_col > 1 && size.ws_col < columns) columns = size.ws_col;
        if (size.ws_row > 1 && count >= size.ws_row) count = (size_t)size.ws_row - 1;
    }
    if (count == 1 && p->lines == 0) {
        const size_t length = strnlen(lines[0], (size_t)columns - 1);
        fprintf(p->stream, "\r%.*s%*s", (int)length, lines[0], (int)(p->shown > length ? p->shown - length : 0), "");
        fflush(p->stream);
        p->shown = length;
        return;
    }
    if (p->lines)
        fprintf(p->stream, "\r\033[%zuA", p->lines);
    else
        fputc('\r', p->stream);
    for (size_t i = 0; i < count; i++) fprintf(p->stream, "%s%.*s\033[K", i ? "\n" : "", columns - 1, lines[i]);
    fprintf(p->stream, "\033[J"); /* there may have been more */
    fflush(p->stream);
    p->lines = count - 1;
    p->shown = strlen(lines[count - 1]);
}
