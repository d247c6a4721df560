/* Directories that are locked on several hosts and on file systems whose flock is no help. The functions below stand in
   for the library's. */
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not static: the C library's headers make of gethostname an inline function of external linkage. */
char host[64] = "a";
int gethostname(char *name, size_t size) {
    snprintf(name, size, "%s", host);
    return 0;
}

/* What flock does: what the system does; fails, as on Lustre; is granted to all, as between machines. The last is no
   stand-in for two processes of one host. */
enum { FLOCK, NO_FLOCK, FLOCK_FOR_ALL };
static int flocks = FLOCK;
int flock(int file, int operation) {
    if (flocks == NO_FLOCK) errno = ENOLCK;
    return flocks == FLOCK ? (int)syscall(SYS_flock, file, operation) : flocks == NO_FLOCK ? -1 : 0;
}
