/* The verb report. One directory gets its page in itself; several get one page, which must not replace another. */
#include "base/files.h"
#include "base/lock.h"
#include "report/report.h"
#include "show/progress.h"

static const char *out = "";

static const Option OPTIONS[] = {
    {"out", "FILE", "where the page of several runs goes (default: report.html)", OPTION_DIRECTORY, &out, 0, 0},
    {0},
};

static bool run_report(const Command *command, int *signal, Error *err) {
    const OptionList *directories = &command->targets;
    const char *path = *out ? out : "report.html";
    (void)signal;
    if (directories->count == 1 && !*out) {
        Directory directory;
        if (!directory_open(&directory, directories->items[0], err)) return false;
        const bool ok = report_write_noting(&directory, stderr, err);
        directory_close(&directory);
        if (!ok) return false;
        print_plain(stdout, "page to look at: %s/%s", directories->items[0], path);
        return true;
    }
    if (!*out && path_exists(path)) return usage_error(err, "report.html exists: name the page with --out FILE");
    if (!report_compare(directories->items, directories->count, path, err)) return false;
    print_plain(stdout, "page to look at: %s", path);
    return true;
}

const Verb report_verb = {
    .name = "report",
    .target = "DIR...",
    .what = "Writes report.html, a page for the browser, into the directory of a run, a sweep\n"
            "or theory. For several runs it writes one page that compares them.",
    .options = OPTIONS,
    .many = true,
    .run = run_report,
};
