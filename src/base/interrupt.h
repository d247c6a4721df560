/* SIGHUP, SIGINT and SIGTERM, asked for between steps, so that a run can be saved before it ends. */
#pragma once

enum { INTERRUPT_COUNT = 3 };
extern const int INTERRUPTS[INTERRUPT_COUNT];

/* From now on the first of them is only noted; a second one, whichever it is, ends the program at once. A SIGHUP that
   is ignored (nohup) stays so. A limit on file sizes becomes an error of writing. */
void interrupt_catch(void);
/* A reader of stdout or stderr that goes away does not end the program: for those that have a run to save. */
void interrupt_survive_closed_pipes(void);
/* The signal that came, or 0. */
int interrupt_signal(void);
