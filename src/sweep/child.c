#include "sweep/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/interrupt.h"

enum { CANNOT_START = 127 };

/* Between fork and exec: system calls only. */
static _Noreturn void become(const char *program, const char *const *arguments, int messages, pid_t parent,
                             const sigset_t *mask) {
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (getppid() != parent) _exit(CANNOT_START); /* the parent died before prctl */
    for (int i = 0; i < INTERRUPT_COUNT; i++) signal(INTERRUPTS[i], SIG_DFL);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
        dup2(messages, STDERR_FILENO) >= 0) {
        if (null > STDERR_FILENO) close(null);
        sigprocmask(SIG_SETMASK, mask, NULL);
        execv(program, (char *const *)arguments);
    }
    _exit(CANNOT_START);
}

bool child_start(Child *child, const char *program, const char *const *arguments, Error *err) {
    sigset_t caught, before;
    *child = (Child){.messages = tmpfile()};
    if (!child->messages || fcntl(fileno(child->messages), F_SETFD, FD_CLOEXEC) != 0) {
        error_set(err, STATUS_FAILED, "cannot make a temporary file: %s", strerror(errno));
        if (child->messages) fclose(child->messages);
        *child = (Child){0};
        return false;
    }
    /* A signal that reached the child while the parent's handler is still in place would be noted there and lost. */
    sigemptyset(&caught);
    for (int i = 0; i < INTERRUPT_COUNT; i++) sigaddset(&caught, INTERRUPTS[i]);
    sigprocmask(SIG_BLOCK, &caught, &before);
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) become(program, arguments, fileno(child->messages), parent, &before);
    int reason = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid > 0) {
        child->pid = pid;
        return true;
    }
    fclose(child->messages);
    *child = (Child){0};
    return error_set(err, STATUS_FAILED, "cannot start another process: %s", strerror(reason));
}

/* The last line that is not empty, without "train: ". */
static void last_line(FILE *messages, char *message, size_t capacity) {
    static const char prefix[] = "train: ";
    char line[1280];
    *message = 0;
    rewind(messages);
    while (fgets(line, sizeof line, messages)) {
        line[strcspn(line, "\n")] = 0;
        if (*line)
            snprintf(message, capacity, "%s", strncmp(line, prefix, strlen(prefix)) ? line : line + strlen(prefix));
    }
}

bool child_ended(Child *child, int *status, char *message, size_t capacity) {
    int how;
    if (child->pid == 0 || waitpid(child->pid, &how, WNOHANG) != child->pid) return false;
    *status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    last_line(child->messages, message, capacity);
    if (WIFSIGNALED(how))
        snprintf(message, capacity, "killed by signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
    else if (*status == CANNOT_START && !*message)
        snprintf(message, capacity, "the program could not be started");
    fclose(child->messages);
    *child = (Child){0};
    return true;
}

void child_signal(const Child *child, int signal_number) {
    if (child->pid > 0) kill(child->pid, signal_number);
}
