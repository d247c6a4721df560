#include "train/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught = 0;

static void note(int signal_number) { caught = signal_number; }

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int interrupt_signal(void) { return caught; }
