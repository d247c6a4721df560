/* Signals that ask the program to end. The handler only notes the signal; loops ask interrupt_signal between steps. A
   call that waits (for standard input, for the reader of a pipe) fails with EINTR. A terminal that is closed sends a
   signal more than once, and a sweep passes on to its runs what the terminal has sent them already. So repeats within
   a second count as one. A later signal has its default action, which ends the program at once. SIGXCPU has not: the
   system itself repeats it, after each second of processor time. */
#include "base/interrupt.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

const int INTERRUPTS[INTERRUPT_COUNT] = {SIGHUP,  SIGINT,  SIGTERM,   SIGUSR1, SIGUSR2,
                                         SIGXCPU, SIGALRM, SIGVTALRM, SIGPROF};

static volatile sig_atomic_t caught;
static bool together; /* with other processes: what all have agreed on counts */
static int agreed;

static void note(int signal_number) {
    static struct timespec first; /* when this process noted one; zeros before that */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (first.tv_sec == 0 && first.tv_nsec == 0) {
        first = now;
        caught = signal_number;
    } else if (signal_number != SIGXCPU && now.tv_sec - first.tv_sec + (now.tv_nsec >= first.tv_nsec) > 1) {
        signal(signal_number, SIG_DFL);
        raise(signal_number); /* takes effect when this handler returns */
    }
}

void interrupt_catch(void) {
    struct sigaction action = {.sa_handler = note}, before;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < INTERRUPT_COUNT; i++) sigaddset(&action.sa_mask, INTERRUPTS[i]);
    for (int i = 0; i < INTERRUPT_COUNT; i++) {
        sigaction(INTERRUPTS[i], NULL, &before);
        if (before.sa_handler == SIG_DFL) sigaction(INTERRUPTS[i], &action, NULL);
    }
    pthread_sigmask(SIG_UNBLOCK, &action.sa_mask, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of writing, like a full disk */
}

void interrupt_survive_closed_pipes(void) { signal(SIGPIPE, SIG_IGN); }

int interrupt_noted(void) { return (int)caught; }

void interrupt_agree(int signal_number) {
    together = true;
    agreed = signal_number;
}

int interrupt_signal(void) { return together ? agreed : interrupt_noted(); }

void interrupt_end(void) {
    signal(caught, SIG_DFL);
    raise(caught);
}
