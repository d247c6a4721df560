/* The signals that ask the program to end. */
#include "support.h"

#include <sys/wait.h>

#include "base/interrupt.h"

/* A signal is noted; its repeats within a second change nothing; a later one ends the program. */
static void signals_that_repeat(void) {
    for (int later = 0; later < 2; later++) {
        int how;
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (int i = 0; i < INTERRUPT_COUNT; i++) signal(INTERRUPTS[i], SIG_DFL);
            interrupt_catch();
            raise(SIGTERM);
            raise(SIGHUP);
            raise(SIGTERM);
            if (later) usleep(1100000);
            if (later) raise(SIGXCPU); /* which the system itself repeats */
            if (later) raise(SIGINT);
            _exit(interrupt_signal());
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        if (later) assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGINT);
        else assert_true(WIFEXITED(how) && WEXITSTATUS(how) == SIGTERM);
    }
}

/* A signal that whoever started the program ignores stays ignored; the others are noted. */
static void ignored_signals(void) {
    for (int ignored = 0; ignored < INTERRUPT_COUNT; ignored++) {
        const int other = INTERRUPTS[(ignored + 1) % INTERRUPT_COUNT];
        int how;
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (int i = 0; i < INTERRUPT_COUNT; i++) signal(INTERRUPTS[i], i == ignored ? SIG_IGN : SIG_DFL);
            interrupt_catch();
            raise(INTERRUPTS[ignored]);
            if (interrupt_signal()) _exit(1);
            raise(other);
            _exit(interrupt_signal() == other ? 0 : 2);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(how, 0);
    }
}

/* A signal that was blocked when the program was started, and has come since, is noted. */
static void blocked_signals(void) {
    for (int i = 0; i < INTERRUPT_COUNT; i++) {
        int how;
        sigset_t all;
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            sigfillset(&all);
            sigprocmask(SIG_BLOCK, &all, NULL);
            signal(INTERRUPTS[i], SIG_DFL);
            raise(INTERRUPTS[i]);
            interrupt_catch();
            _exit(interrupt_signal());
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == INTERRUPTS[i]);
    }
}

static volatile sig_atomic_t seen;
static void see(int signal_number) { seen = signal_number; }

/* A signal that a preloaded library has a handler for, such as a profiler's SIGPROF, stays with it. */
static void signals_of_others(void) {
    signal(SIGPROF, see);
    interrupt_catch();
    raise(SIGPROF);
    assert_int_equal(seen, SIGPROF);
    assert_int_equal(interrupt_signal(), 0);
}

int main(void) {
    return RUN_TESTS(TEST(signals_that_repeat), TEST(ignored_signals), TEST(blocked_signals), TEST(signals_of_others));
}
