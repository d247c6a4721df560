/* The signals that a person, a scheduler or a limit sends to end a program are noted when they arrive. Loops ask for
   them between steps, so that a run can be saved before the program ends. */
#pragma once

#include <signal.h>

enum { INTERRUPT_COUNT = 9 };
extern const int INTERRUPTS[INTERRUPT_COUNT];

/* Records the first signal; repeats within a second are ignored, a later one kills, except SIGXCPU. A signal that was
   blocked is unblocked. One that is ignored stays ignored (SIGHUP under nohup, SIGINT in a background job of a script),
   and one with a preloaded library's handler stays with it. A limit on file sizes becomes an error of writing. */
void interrupt_catch(void);
/* Keeps the program running when the reader of stdout or stderr has ended: for verbs that have a run to save. */
void interrupt_survive_closed_pipes(void);
/* Returns the signal on which to end, or 0: the one that was noted or, after interrupt_agree, the agreed one. */
int interrupt_signal(void);
/* Ends the program by the noted signal, which has ended a wait before anything was begun. */
void interrupt_end(void);

/* For processes that must end at the same step (ranks/shards.c). interrupt_noted returns the signal that this process
   has noted, or 0. interrupt_agree sets what interrupt_signal returns from now on. */
int interrupt_noted(void);
void interrupt_agree(int signal_number);
