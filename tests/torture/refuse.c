/* A library to be preloaded (LD_PRELOAD), which counts the fallible calls of a program and refuses one of them, or one
   and all that follow: torture.sh says which. What the program itself calls is counted. What libraries call is not,
   since those of OpenMP and OpenBLAS can only end the program; jansson asks the program for its memory. A stream is
   written in the C library, out of sight; instead the file behind it becomes /dev/full, as if the disk were full, and
   what counts as the call is the opening of the stream. The count is in a shared file, so that the processes of a sweep
   have one between them. Environment:

       REFUSE=memory|files   the calls that count
       REFUSE_CALL=N         the first that is refused, from 1; 0: none is
       REFUSE_LASTING=1      and all after it
       REFUSE_STATE=FILE     holds the count (8 bytes), then the name of the first call that was refused
       REFUSE_PLACES=FILE    the numbers of the calls that come from a place for the first time, a line each. A place is
                             a stack of callers: a picture asks for memory thirty thousand times, from a hundred places
*/
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef enum { NOTHING, MEMORY, FILES } Kind;
enum { NAME = 32 };
typedef struct {
    atomic_long calls;
    char refused[NAME];
} State;

static Kind kind;
static long first;
static bool lasting;
static State *state;

/* Where the code of those is to whom calls are refused. */
enum { RANGES = 16 };
static struct { uintptr_t begin, end; } ranges[RANGES];
static size_t range_count;

static int find_code(struct dl_phdr_info *object, size_t size, void *arg) {
    (void)size, (void)arg;
    if (*object->dlpi_name) return 0; /* a library */
    for (size_t i = 0; i < object->dlpi_phnum && range_count < RANGES; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X)) continue;
        ranges[range_count].begin = object->dlpi_addr + segment->p_vaddr;
        ranges[range_count].end = ranges[range_count].begin + segment->p_memsz;
        range_count++;
    }
    return 0;
}

/* Writes the number of a call down that comes from a new place. */
enum { CALLERS = 12, HASHES = 1 << 16 };
static int list = -1;
static void note_place(long call) {
    static uint64_t hashes[HASHES];
    static _Thread_local bool inside;
    void *callers[CALLERS];
    if (list < 0 || inside) return;
    inside = true;
    const int depth = backtrace(callers, CALLERS);
    uint64_t hash = 1;
    for (int i = 0; i < depth; i++) hash = (hash ^ (uintptr_t)callers[i]) * 0x9e3779b97f4a7c15u;
    size_t at = hash >> 48;
    while (hashes[at] && hashes[at] != hash) at = (at + 1) % HASHES;
    if (!hashes[at]) dprintf(list, "%ld\n", call);
    hashes[at] = hash;
    inside = false;
}

/* Runs after the constructors of the program's libraries and before main. */
__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("REFUSE"), *call = getenv("REFUSE_CALL"), *path = getenv("REFUSE_STATE");
    if (!name || !call || !path) return;
    const int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || syscall(SYS_ftruncate, file, sizeof *state) != 0) abort();
    void *shared = (void *)syscall(SYS_mmap, NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) abort();
    syscall(SYS_close, file);
    state = shared;
    if (getenv("REFUSE_PLACES"))
        list = (int)syscall(SYS_openat, AT_FDCWD, getenv("REFUSE_PLACES"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    first = atol(call);
    lasting = getenv("REFUSE_LASTING") != NULL;
    kind = strcmp(name, "memory") == 0 ? MEMORY : FILES;
    dl_iterate_phdr(find_code, NULL);
}

/* Returns whether this call, of `name` from the code at `caller`, is refused, with `reason` in errno. */
static bool refused(Kind of, const void *caller, const char *name, int reason) {
    if (kind != of) return false;
    bool counts = false;
    for (size_t i = 0; i < range_count; i++)
        counts = counts || ((uintptr_t)caller >= ranges[i].begin && (uintptr_t)caller < ranges[i].end);
    if (!counts) return false;
    const long call = atomic_fetch_add(&state->calls, 1) + 1;
    note_place(call);
    if (first == 0 || call < first || (call > first && !lasting)) return false;
    if (call == first) snprintf(state->refused, NAME, "%s", name);
    errno = reason;
    return true;
}
#define REFUSED(kind, name, reason) refused(kind, __builtin_return_address(0), name, reason)

/* The C library's own function of a name. */
#define ACTUAL(name)                                                                                                   \
    static __typeof__(name) *actual;                                                                                   \
    if (!actual) *(void **)&actual = dlsym(RTLD_NEXT, #name);

/* --- memory */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

void *malloc(size_t size) { return REFUSED(MEMORY, "malloc", ENOMEM) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) {
    return REFUSED(MEMORY, "calloc", ENOMEM) ? NULL : __libc_calloc(count, size);
}
void *realloc(void *block, size_t size) {
    return REFUSED(MEMORY, "realloc", ENOMEM) ? NULL : __libc_realloc(block, size);
}
void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    if (REFUSED(MEMORY, "mmap", ENOMEM)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}

/* Defines name(parameters), which returns `answer` when it is refused. */
#define STAND_IN(of, reason, type, answer, name, parameters, arguments)                                                \
    type name parameters {                                                                                             \
        ACTUAL(name)                                                                                                   \
        return REFUSED(of, #name, reason) ? answer : actual arguments;                                                 \
    }
STAND_IN(MEMORY, ENOMEM, void *, NULL, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
STAND_IN(MEMORY, ENOMEM, int, ENOMEM, posix_memalign, (void **block, size_t alignment, size_t size),
         (block, alignment, size))
STAND_IN(MEMORY, ENOMEM, char *, NULL, strdup, (const char *text), (text))
STAND_IN(MEMORY, ENOMEM, FILE *, NULL, open_memstream, (char **text, size_t *size), (text, size))
STAND_IN(MEMORY, EAGAIN, pid_t, -1, fork, (void), ())

/* --- files */

STAND_IN(FILES, EIO, int, -1, stat, (const char *restrict path, struct stat *restrict info), (path, info))
STAND_IN(FILES, EIO, int, -1, lstat, (const char *restrict path, struct stat *restrict info), (path, info))
STAND_IN(FILES, EIO, int, -1, fstatat,
         (int directory, const char *restrict path, struct stat *restrict info, int flags),
         (directory, path, info, flags))
STAND_IN(FILES, EIO, int, -1, fstat, (int file, struct stat *info), (file, info))
STAND_IN(FILES, EIO, int, -1, rename, (const char *from, const char *to), (from, to))
STAND_IN(FILES, EIO, int, -1, renameat, (int from_directory, const char *from, int to_directory, const char *to),
         (from_directory, from, to_directory, to))
STAND_IN(FILES, EIO, int, -1, unlink, (const char *path), (path))
STAND_IN(FILES, EIO, int, -1, unlinkat, (int directory, const char *path, int flags), (directory, path, flags))
STAND_IN(FILES, EIO, int, -1, rmdir, (const char *path), (path))
STAND_IN(FILES, ENOSPC, int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
STAND_IN(FILES, ENOSPC, int, -1, mkdirat, (int directory, const char *path, mode_t mode), (directory, path, mode))
STAND_IN(FILES, EIO, int, -1, ftruncate, (int file, off_t size), (file, size))
STAND_IN(FILES, ENOLCK, int, -1, flock, (int file, int operation), (file, operation))
STAND_IN(FILES, EIO, int, -1, fseeko, (FILE * file, off_t at, int from), (file, at, from))
STAND_IN(FILES, EIO, off_t, -1, ftello, (FILE * file), (file))
STAND_IN(FILES, EIO, DIR *, NULL, opendir, (const char *path), (path))
STAND_IN(FILES, EIO, struct dirent *, NULL, readdir, (DIR * directory), (directory))
STAND_IN(FILES, EIO, char *, NULL, realpath, (const char *restrict path, char *restrict out), (path, out))
STAND_IN(FILES, EIO, size_t, 0, fread, (void *restrict to, size_t size, size_t count, FILE *restrict file),
         (to, size, count, file))

/* The function that a program calls if it was built with _FORTIFY_SOURCE. */
char *__realpath_chk(const char *path, char *out, size_t capacity);
size_t __fread_chk(void *to, size_t capacity, size_t size, size_t count, FILE *file);
STAND_IN(FILES, EIO, char *, NULL, __realpath_chk, (const char *path, char *out, size_t capacity),
         (path, out, capacity))
STAND_IN(FILES, EIO, size_t, 0, __fread_chk, (void *to, size_t capacity, size_t size, size_t count, FILE *file),
         (to, capacity, size, count, file))

/* The power stays on. */
int fsync(int file) {
    (void)file;
    return REFUSED(FILES, "fsync", EIO) ? -1 : 0;
}
int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return REFUSED(FILES, "open", EIO) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags) {
    return REFUSED(FILES, "open", EIO) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags);
}
int openat(int directory, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return REFUSED(FILES, "openat", EIO) ? -1 : (int)syscall(SYS_openat, directory, path, flags, mode);
}
int __openat_2(int directory, const char *path, int flags);
int __openat_2(int directory, const char *path, int flags) {
    return REFUSED(FILES, "openat", EIO) ? -1 : (int)syscall(SYS_openat, directory, path, flags);
}

/* Makes the file behind this stream /dev/full, so that writing fails as on a full disk. */
static FILE *on_full_disk(FILE *file) {
    const int full = (int)syscall(SYS_openat, AT_FDCWD, "/dev/full", O_WRONLY | O_CLOEXEC);
    if (!file || full < 0 || dup2(full, fileno(file)) < 0) abort();
    syscall(SYS_close, full);
    return file;
}
FILE *fopen(const char *restrict path, const char *restrict mode) {
    ACTUAL(fopen)
    if (REFUSED(FILES, "fopen", EIO)) return NULL;
    FILE *file = actual(path, mode);
    return file && *mode != 'r' && REFUSED(FILES, "fopen, then a full disk", 0) ? on_full_disk(file) : file;
}
FILE *fdopen(int descriptor, const char *mode) {
    ACTUAL(fdopen)
    if (REFUSED(FILES, "fdopen", EIO)) return NULL;
    FILE *file = actual(descriptor, mode);
    return file && *mode != 'r' && REFUSED(FILES, "fdopen, then a full disk", 0) ? on_full_disk(file) : file;
}

/* fflush and fclose lose what is in the stream's buffer when they fail. */
int fflush(FILE *file) {
    ACTUAL(fflush)
    return file && file != stderr && REFUSED(FILES, "fflush", ENOSPC) ? EOF : actual(file);
}
int fclose(FILE *file) {
    ACTUAL(fclose)
    const bool fails = REFUSED(FILES, "fclose", EIO);
    const int result = actual(file);
    if (!fails) return result;
    errno = EIO;
    return EOF;
}
