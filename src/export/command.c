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

static bool run_export(const Command *command, int *signal, Error *err) {
    static Run run;
    char path[RESULTS_PATH];
    Model model = {0};
    RunState state = {0};
    (void)signal;
    if (!hf) return usage_error(err, "name the new directory: %s export %s --hf DIR", program_name, command->target);
    const bool ok = results_name(path, sizeof path, hf, 1, err) &&
                    run_open(&run, command->target, NULL, 0, false, err) && export_check(&run.config, err) &&
                    export_check_path(path, err) && run_load_model(&run, &model, 1, command_threads(command), err) &&
                    (!best || checkpoint_load(&run, CHECKPOINT_BEST, &model, (Moments){0}, &state, err)) &&
                    export_write(&run, &model, path, err);
    if (ok) print_plain(stdout, "model     %s, of step %zu", path, best ? state.step : run.step);
    model_free(&model);
    run_close(&run);
    return ok;
}

const Verb export_verb = {
    .name = "export",
    .target = "RUN_DIR",
    .what = "Writes a trained model in GPT-2's layout, with its tokenizer, for Hugging Face\n"
            "transformers. The divisor is folded into the queries.",
    .options = OPTIONS,
    .run = run_export,
};
