/* Another process of this program, whose messages are kept until it ends. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

typedef struct {
    int pid;        /* 0: none */
    FILE *messages; /* what it writes to stderr */
} Child;

/* Starts `program` with the words of `arguments`, ended by NULL. Its stdin and stdout are /dev/null. It has a process
   group of its own, so that a terminal's Ctrl-C reaches only the parent, which passes it on. On Linux it gets a SIGTERM
   when the parent is killed. */
bool child_start(Child *child, const char *program, const char *const *arguments, Error *err);

/* Whether it has ended. Then *status is its exit status, 128 + N where signal N killed it, and `message` its last line
   on stderr without "train: ", or else what killed it. */
bool child_ended(Child *child, int *status, char *message, size_t capacity);
void child_signal(const Child *child, int signal_number);
