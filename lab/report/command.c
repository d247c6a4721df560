/* The verb report. One directory gets its page in itself; several get one page, which must not replace another. */
#include "base/files.h"
#include "lab/report/report.h"
#include "show/progress.h"

static const char *out = "";

static const Option OPTIONS[] = {
    {"out", "FILE", "where the page of several runs goes (default: report.html)", OPTION_PATH, &out, 0, 0},
    {0},
};

static int run_report(const Command *command) {
    const OptionList *directories = &command->targets;
    const char *path = *out ? out : "report.html";
    if (directories->count == 1 && !*out) {
        report_write_noting(directory_open(directories->items[0]), stderr);
        if (sweep_is(directories->items[0])) print_plain(stdout, "pictures:        %s/*.png", directories->items[0]);
        print_plain(stdout, "page to look at: %s/%s", directories->items[0], path);
        return 0;
    }
    if (!*out && path_exists(path)) usage_error("report.html exists: name the page with --out FILE");
    report_compare(directories->items, directories->count, path);
    print_plain(stdout, "page to look at: %s", path);
    return 0;
}

const Verb report_verb = {
    .name = "report",
    .target = "DIR...",
    .what = "Writes report.html, a page for the browser, into the directory of a run or a\n"
            "sweep; for a sweep also losses.png and triangles.png, to take away. For\n"
            "several runs it writes one page that compares them.",
    .options = OPTIONS,
    .many = true,
    .run = run_report,
};
