/* SIGINT and SIGTERM, asked for between steps, so that a run can be saved before it ends. */
#ifndef SQRTDK_TRAIN_INTERRUPT_H
#define SQRTDK_TRAIN_INTERRUPT_H

/* From now on the first of either is only noted; a second one ends the program at once. */
void interrupt_catch(void);
/* The signal that came, or 0. */
int interrupt_signal(void);

#endif
