#include "base/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

/* Memory that the caller frees; NULL, with errno, where there is none to be had. */
static char *find_out(void) {
#ifdef __APPLE__
    char path[4096];
    uint32_t size = sizeof path;
    if (_NSGetExecutablePath(path, &size) == 0) return realpath(path, NULL);
    errno = ENAMETOOLONG;
    return NULL;
#else
    return realpath("/proc/self/exe", NULL);
#endif
}

bool program_path(char *out, size_t capacity, Error *err) {
    char *path = find_out();
    size_t size = path ? strlen(path) + 1 : 0;
    bool found = path && size <= capacity;
    if (path && !found) errno = ENAMETOOLONG;
    if (found) memcpy(out, path, size);
    free(path);
    return found || error_set(err, STATUS_FAILED, "cannot find out where this program is: %s", strerror(errno));
}

bool program_again(char *out, size_t capacity, Error *err) {
    static const char LINK[] = "/proc/self/exe";
    if (access(LINK, X_OK) != 0 || capacity < sizeof LINK) return program_path(out, capacity, err);
    memcpy(out, LINK, sizeof LINK);
    return true;
}
