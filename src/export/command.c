/* The verb export: its options, and the order in which a run is read, checked and written. */
#include "export/export.h"
#include "run/checkpoint.h"

static const char *hf;
static bool best;

static const Option OPTIONS[] = {
    {"hf", "DIR", "the new directory, for Hugging Face transformers", OPTION_DIRECTORY, &hf, 0, 0},
    {"best", NULL, "the weights of the lowest validation loss, not the last", OPTION_SWITCH, &best, 0, 0},
    {0},
};

static int run_export(const Command *command) {
    static Run run;
    char path[RESULTS_PATH];
    Model model;
    if (!hf) usage_error("name the new directory: %s export %s --hf DIR", program_name, command->target);
    results_name(path, hf, 1);
    run_open(&run, command->target, NULL, 0, false);
    export_check(&run.config);
    export_check_path(path);
    run_load_model(&run, &model, 1, command_threads(command));
    if (best) run.step = checkpoint_load(&run, CHECKPOINT_BEST, &model, (Moments){0}).step;
    export_write(&run, &model, path);
    print_plain(stdout, "model     %s, of step %zu", path, run.step);
    return 0;
}

const Verb export_verb = {
    .name = "export",
    .target = "RUN_DIR",
    .what = "Writes a trained model in GPT-2's layout, with its tokenizer, for Hugging Face\n"
            "transformers. The divisor is folded into the queries.",
    .options = OPTIONS,
    .run = run_export,
};
