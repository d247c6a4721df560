/* Directories that are locked on several hosts, and on file systems whose flock fails or does not lock. The functions
   below stand in for the library's. */
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

/* The behaviour of flock: the system's; it fails, as on Lustre; it is granted to all, as between machines. The last
   does not stand for two processes of one host. */
enum { FLOCK, NO_FLOCK, FLOCK_FOR_ALL };
static int flocks = FLOCK;
int flock(int file, int operation) {
    if (flocks == NO_FLOCK) errno = ENOLCK;
    return flocks == FLOCK ? (int)syscall(SYS_flock, file, operation) : flocks == NO_FLOCK ? -1 : 0;
}
