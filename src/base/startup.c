/* Checks that must be made before main. In its constructor OpenBLAS maps 128 MB of address space for each of its
   threads. If the system refuses (ulimit -v, or no memory to commit), OpenBLAS tries again for ever. So this file maps
   as much first, before any library's constructor runs, with some more for the threads' stacks. If this fails, the
   program says so and ends. The stack is made to grow here as well: later it could only grow by a fault, which ends the
   program.

   At this time the C library has not been initialized: nothing but system calls is safe, and the environment is only in
   the arguments. A sanitizer's runtime, which maps terabytes, is not ready either. */
#if defined(__linux__) && !defined(SANITIZED)
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BUFFER = 128 << 20, REST = 64 << 20, STACK = 256 << 10 };

/* The threads that OpenBLAS prepares: as many as there are processors, or fewer if the environment says so. */
static size_t threads_of(char **environment) {
    static const char *const variables[] = {"OPENBLAS_NUM_THREADS=", "GOTO_NUM_THREADS=", "OMP_NUM_THREADS="};
    cpu_set_t processors;
    const bool known = sched_getaffinity(0, sizeof processors, &processors) == 0;
    const size_t most = known ? (size_t)CPU_COUNT(&processors) : 1;
    for (size_t v = 0; v < sizeof variables / sizeof *variables; v++)
        for (char **variable = environment; *variable; variable++) {
            const size_t length = strlen(variables[v]);
            const int threads =
                strncmp(*variable, variables[v], length) == 0 ? (int)strtol(*variable + length, NULL, 10) : 0;
            if (threads > 0) return (size_t)threads < most ? (size_t)threads : most;
        }
    return most;
}

static void start(int argc, char **argv, char **environment) {
    static const char message[] =
        ": no memory to start with: OpenBLAS takes 128 MB of address space per thread: raise ulimit -v, or set "
        "OMP_NUM_THREADS to less\n";
    const size_t size = threads_of(environment) * BUFFER + REST;
    void *space = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    volatile char stack[STACK];
    for (size_t i = 0; i < STACK; i += 4096) stack[STACK - 1 - i] = 0;
    (void)stack;
    if (space != MAP_FAILED) {
        munmap(space, size);
        return;
    }
    const ssize_t name = argc > 0 ? write(STDERR_FILENO, argv[0], strlen(argv[0])) : 0;
    if (name < 0 || write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(1);
    _exit(1);
}

__attribute__((section(".preinit_array"), used)) static void (*const before_constructors)(int, char **,
                                                                                          char **) = start;
#endif
