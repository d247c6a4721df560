#include "base/interrupt.h"

#include <signal.h>
#include <stddef.h>

const int INTERRUPTS[INTERRUPT_COUNT] = {SIGHUP, SIGINT, SIGTERM};

static volatile sig_atomic_t caught = 0;

static void note(int signal_number) {
    caught = signal_number;
    for (int i = 0; i < INTERRUPT_COUNT; i++) signal(INTERRUPTS[i], SIG_DFL);
}

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < INTERRUPT_COUNT; i++)
        if (INTERRUPTS[i] != SIGHUP || (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN))
            sigaction(INTERRUPTS[i], &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of writing, like a full disk */
}

void interrupt_survive_closed_pipes(void) { signal(SIGPIPE, SIG_IGN); }

int interrupt_signal(void) { return caught; }
