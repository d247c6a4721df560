#include "base/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught = 0;

enum { CAUGHT_COUNT = 2 };
static const int CAUGHT[CAUGHT_COUNT] = {SIGINT, SIGTERM};

static void note(int signal_number) {
    caught = signal_number;
    for (int i = 0; i < CAUGHT_COUNT; i++) signal(CAUGHT[i], SIG_DFL);
}

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < CAUGHT_COUNT; i++) sigaction(CAUGHT[i], &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of writing, like a full disk */
}

void interrupt_survive_closed_pipes(void) { signal(SIGPIPE, SIG_IGN); }

int interrupt_signal(void) { return caught; }
