/* The config: the default of each key, the values that it accepts, --set and [sweep]. config_load reads back
   everything that config_write prints. The grammar of a file is tested in test_config_file.c. */
#include "configs.h"

static void defaults(void) {
    static const char EXPECTED[] =
        "[data]\ncorpus = \"\"\nval_fraction = 0.1\ntask = text\nrecall_pairs = 8\n\n"
        "[model]\nlayers = 2\nheads = 2\nd_model = 128\nd_k = 64\nd_ff = 512\ncontext = 64\nnorm = pre\n"
        "activation = gelu\nbias = yes\ndropout = 0\ntie_embeddings = yes\ninit = unit\nqk_init_scale = 1\n\n"
        "[attention]\nscore = dot\nqk_norm = none\nscale_divisor = sqrt_dk\nswitch_step = 0\nswitch_divisor = sqrt_dk\n"
        "scale_learned = no\nscale_length = none\nsoftcap = 0\nsink = none\nscore_precision = fp32\nscore_gradient = yes\n\n"
        "[train]\nsteps = 1000\nbatch = 16\naccumulate = 1\nshards = 2\nlr = 0.001\nmin_lr = 0.0001\nwarmup = 100\n"
        "optimizer = adamw\nbeta1 = 0.9\nbeta2 = 0.99\neps = 1e-08\nmomentum = 0.9\nmuon_lr = 0.02\nweight_decay = 0.1\nadamw_decay = 0\nqk_lr_scale = 1\n"
        "grad_clip = 1\nqk_clip = 0\nprecision = fp32\nengine = fast\nseed = 1\n\n"
        "[eval]\nevery = 250\nbatches = 0\n\n"
        "[log]\nout = runs/c\nevery = 10\nattention_every = 250\nattention_text = \"\"\nsample_tokens = 256\n"
        "checkpoint_every = 1000\n"
        "page_model = auto\n";
    loads("");
    write_config(&config, "w.ini");
    assert_string_equal(written("w.ini"), EXPECTED);
    assert_string_equal(config.name, "c");
    assert_int_equal(axes.count, 0);
    for (size_t i = 0; i < config_key_count(); i++) assert_false(config_is_given(&config, i));
    assert_true(config.model.bias && config.train.lr == 1e-3 && config.train.eps == 1e-8);
    assert_int_equal(config.model.d_k, 64);
    assert_string_equal(config_key_name(0), "data.corpus");
}

static void derived_defaults(void) {
    loads("[model]\nd_model = 96\nheads = 3\n[train]\nlr = 0.5\n");
    assert_int_equal(config.model.d_k, 32);
    assert_int_equal(config.model.d_ff, 384);
    assert_true(config.train.min_lr == 0.05);
    set("train.lr", "1");
    assert_true(config.train.min_lr == 0.1);
    set("train.lr", "0.003");
    assert_true(config.train.min_lr == 0.0003);
    set("train.lr", "1e-45");
    assert_true(config.train.min_lr == 1e-46);
    set("train.lr", "5e-324"); /* the least number above 0 */
    assert_true(config.train.min_lr == 0);
    set("model.d_model", "48");
    assert_int_equal(config.model.d_k, 16);
    assert_int_equal(config.model.d_ff, 192);
    loads("[model]\nheads = 3\nd_k = 5\nd_ff = 7\n[train]\nmin_lr = 0\n[log]\nout = here\n");
    assert_int_equal(config.model.d_k, 5);
    assert_int_equal(config.model.d_ff, 7);
    assert_true(config.train.min_lr == 0);
    assert_string_equal(config.log.out, "here");
    assert_true(config.train.momentum == 0.9);
    set("train.optimizer", "muon");
    assert_true(config.train.momentum == 0.95);
    set("train.momentum", "0.5");
    assert_true(config.train.momentum == 0.5);
    assert_int_equal(config.train.shards, 2);
    set("train.batch", "7");
    assert_int_equal(config.train.shards, 1);
    set("train.batch", "12");
    set("train.shards", "4");
    set("train.batch", "8");
    assert_int_equal(config.train.shards, 4);

    refuses("[model]\nheads = 3\n",
            " model.heads = 3 (line 2) does not divide model.d_model = 128 (the default); choose "
            "others, or set model.d_k");
    refuses("[train]\nlr = 1e-3\nmin_lr = 0.01\n",
            " train.min_lr = 0.01 (line 3) is above train.lr = 0.001 (line 2); it takes a number up to lr");
    const char *lr = "train.lr=1e-5";
    assert_false(load_with("[train]\nmin_lr = 1e-4\n", 1, &lr));
    assert_string_equal(err.message,
                        "c.ini: train.min_lr = 0.0001 (line 2) is above train.lr = 1e-05 (--set); it takes a "
                        "number up to lr");
}

static void names_of_configs(void) {
    static const char *const NAMES[][2] = {
        {"a.b.ini", "a.b"}, {"./plain", "plain"}, {".ini", ".ini"}, {"x#;.ini", "x#;"}};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        put(NAMES[i][0], "", 0);
        axes_load(&config, &axes, NAMES[i][0], NULL, 0);
        assert_string_equal(config.name, NAMES[i][1]);
        assert_round_trip();
    }
}

static void wrong_values(void) {
    static const struct {
        const char *key, *accepted, *values[10];
    } CASES[] = {
        {"model.heads",
         "a whole number from 1 to 1024",
         {"0", "-1", "1025", "", "two", "99999999999999999999", "1.5", "2 3"}},
        {"train.seed", "a whole number from 0 to 9223372036854775807", {"9223372036854775808", "-1", "1e18"}},
        {"log.every", "a whole number from 1 to 1000000000", {"0", "doubling"}},
        {"log.attention_every",
         "a whole number from 0 to 1000000000, or doubling",
         {"-1", "-2", "1000000001", "", "1e18", "none"}},
        {"train.lr", "a number above 0 and at most 1000000", {"0", "-1", "nan", "inf", "1e7", "", "x", "1e-3x"}},
        {"train.min_lr", "a number from 0 to 1000000", {"-1e-9", "nan", "-inf"}},
        {"train.beta1", "a number from 0 to below 1", {"1", "-0.1"}},
        {"model.qk_init_scale", "a number above 0 and at most 1000000", {"0", "-1", "1e7"}},
        {"train.qk_lr_scale", "a number from 0 to 1000000", {"-1", "1e7", "nan"}},
        {"data.val_fraction", "a number above 0 and at most 0.9", {"0", "0.91"}},
        {"model.bias", "no or yes", {"", "y", "2", "on"}},
        {"model.init", "unit, xavier, torch or gpt2", {"", "ones", "0"}},
        {"attention.scale_divisor",
         "sqrt_dk, none, dk, 2sqrt_dk, sqrt_dmodel or 1e-6 to 1e6",
         {"0", "-0", "-8", "nan", "inf", "8x", "1e-7", "1e7", "", "infinity"}},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        for (size_t j = 0; j < 10 && CASES[i].values[j]; j++) {
            char override[128], message[256];
            snprintf(override, sizeof override, "%s=%s", CASES[i].key, CASES[i].values[j]);
            snprintf(message, sizeof message, "%s takes %s", strchr(CASES[i].key, '.') + 1, CASES[i].accepted);
            refuses_set(override, message);
        }
    refuses("[model]\nheads = 0\n", "2: \"heads = 0\": heads takes a whole number from 1 to 1024");
    refuses_set("model.heads=+2", "heads takes a whole number from 1 to 1024; write 2");
    refuses("[log]\nattention_every = dubling\n",
            "2: \"attention_every = dubling\": attention_every takes a whole number from 0 to 1000000000, or doubling; "
            "did you mean doubling?");
    refuses_set("log.attention_every=2e2",
                "attention_every takes a whole number from 0 to 1000000000, or doubling; write 200");
    refuses("[train]\nsteps = 1e3\n",
            "2: \"steps = 1e3\": steps takes a whole number from 1 to 1000000000; write 1000");
    refuses("[attention]\nscale_divisor = sqrt\n",
            "2: \"scale_divisor = sqrt\": scale_divisor takes sqrt_dk, none, dk, 2sqrt_dk, sqrt_dmodel or 1e-6 to 1e6; "
            "did you mean sqrt_dk?");
    refuses("[attention]\nswitch_step = 5\n",
            " attention.switch_step = 5 (line 2) needs attention.switch_divisor, the divisor from then on");
    refuses("[attention]\nswitch_divisor = dk\n",
            " attention.switch_divisor = dk (line 2) needs attention.switch_step, the step from which on it holds");
    refuses("[model]\nactivation = GELU\n",
            "2: \"activation = GELU\": activation takes gelu or relu; did you mean gelu?");
}

static void right_values(void) {
    loads("");
    set("model.bias", "no");
    assert_true(!config.model.bias);
    set("model.bias", "yes");
    assert_true(config.model.bias);
    loads("[train]\nseed = 9223372036854775807\nlr = 1e6\nbeta1=0\noptimizer: sgd\n[model]\nnorm = post\ninit = gpt2\n"
          "activation = relu\nheads = \"4\"\n[attention]\nscale_divisor = 0.1\n[log]\nattention_every = 0\n");
    assert_true(config.train.seed == INT64_MAX && config.train.lr == 1e6 && config.train.beta1 == 0);
    assert_int_equal(config.train.optimizer, OPTIMIZER_SGD);
    assert_int_equal(config.model.norm, NORM_POST);
    assert_int_equal(config.model.init, INIT_GPT2);
    assert_int_equal(config.model.activation, ACTIVATION_RELU);
    assert_int_equal(config.model.heads, 4);
    assert_round_trip();
    assert_int_equal(again.attention.scale_divisor.mode, SCALE_NUMBER);
    assert_true(again.attention.scale_divisor.number == 0.1);
    loads("[log]\nattention_every = \"doubling\" ; a word beside the numbers\n");
    assert_int_equal(config.log.attention_every, EVERY_DOUBLING);
    assert_round_trip();
    set("log.attention_every", "7");
    assert_true(config.log.attention_every == 7);
    assert_round_trip();
    for (int i = 0; i < 200; i++) { /* any double survives its shortest text */
        char value[64];
        snprintf(value, sizeof value, "%.17g", exp(-14 + 0.13 * i));
        set("train.grad_clip", value);
        assert_round_trip();
    }
}

static void overrides(void) {
    const char *both[] = {"model.heads=4", " model.heads =  8 "};
    assert_true(load_with("[model]\nheads = 1\n", 2, both));
    assert_int_equal(config.model.heads, 8);
    loads_set("", "log.attention_text=a # b ; c = d");
    assert_string_equal(config.log.attention_text, "a # b ; c = d");
    loads_set("", "log.attention_text=\" a\\n\"");
    assert_string_equal(config.log.attention_text, " a\n");

    refuses_set("train.lr=0,001", "lr takes a number above 0 and at most 1000000; write a decimal point, not a comma");
    refuses_set("train.lr=1,5e-3", "lr takes a number above 0 and at most 1000000; write a decimal point, not a comma");
    refuses_set("train.lr=1,5,3",
                "lr takes a number above 0 and at most 1000000; a list is for sweep: --set sweep.train.lr=1,5,3");
    loads_set("", "heads=4"); /* only one section has it */
    assert_int_equal(config.model.heads, 4);
    refuses_set("every=4", "every needs its section: write eval.every or log.every");
    refuses_set("haeds=4", "there is no key haeds; did you mean model.heads?");
    refuses_set("modelheads=4", "there is no key modelheads; did you mean model.heads?");
    refuses_set("modle.heads=4", "there is no key modle.heads; did you mean model.heads?");
    refuses_set("eval.heads=4", "there is no key eval.heads; did you mean model.heads?");
    refuses_set("model.heads", "write section.key=value");
    refuses_set("=1", "write section.key=value");
    refuses_set(" = 1", "write section.key=value");
    refuses_set("", "write section.key=value");

    loads("");
    assert_false(works(set("model.heads", "3")));
    assert_string_equal(err.message,
                        "[sweep]: model.heads = 3 does not divide model.d_model = 128 (the default); choose "
                        "others, or set model.d_k");
    const char *keys[] = {"model.heads", "model.d_model"}, *values[] = {"3", "96"};
    set_keys(&config, 2, keys, values);
    assert_int_equal(config.model.d_k, 32);
}

static void sweeps(void) {
    loads("[sweep]\nscale_divisor = none, sqrt_dk ,dk,3.5 ; four\ntrain.seed = \"1, 2\"\n");
    assert_int_equal(axes.count, 2);
    assert_string_equal(config_key_name(axes.axis[0].key), "attention.scale_divisor");
    assert_int_equal(axes.axis[0].count, 4);
    assert_string_equal(axes.axis[0].values[1], "sqrt_dk");
    assert_string_equal(axes.axis[0].values[3], "3.5");
    assert_string_equal(axes.axis[1].values[1], "2");
    loads("[sweep]\nattention_every = 0, doubling\n");
    assert_string_equal(axes.axis[0].values[1], "doubling");
    combinations_config(&config, &axes, 1, &again);
    assert_int_equal(again.log.attention_every, EVERY_DOUBLING);
    refuses("[sweep]\nattention_every = doubling, 1, doubling\n",
            "2: \"attention_every = doubling, 1, doubling\": the value doubling is given twice");
    loads_set("[sweep]\nscale_divisor = none, dk\n", "sweep.attention.scale_divisor=2sqrt_dk, 7 ,8");
    assert_int_equal(axes.count, 1);
    assert_int_equal(axes.axis[0].count, 3);
    assert_string_equal(axes.axis[0].values[1], "7");
    loads("");
    assert_int_equal(axes.count, 0);

    refuses("[sweep]\nlr = 1, 1.0\n", "2: \"lr = 1, 1.0\": the value 1.0 is given twice");
    refuses("[sweep]\nnorm = pre, pre\n", "2: \"norm = pre, pre\": the value pre is given twice");
    loads_set("", "sweep.lr=0.0000000000000000000000000000000000000000000000000000000000000001, 1e-3");
    assert_string_equal(axes.axis[0].values[0], "1e-64");
    assert_string_equal(axes.axis[0].values[1], "0.001");
    /* Rules that concern several keys are checked for each combination. */
    loads("[model]\nd_model = 9\n[sweep]\nheads = 3, 9, 2\n");
    combinations_config(&config, &axes, 1, &again);
    assert_int_equal(again.model.d_k, 1);
    assert_fails(STATUS_USAGE, "[sweep]: model.heads = 2 does not divide model.d_model = 9 (line 2)",
                 combinations_config(&config, &axes, 2, &again));
    refuses("[sweep]\nlr = 1,,2\n", "2: \"lr = 1,,2\": a value is missing; write values with commas between them");
    refuses("[sweep]\nheads = 1, x\n",
            "2: \"heads = 1, x\": the value \"x\": heads takes a whole number from 1 to 1024");
    refuses("[sweep]\nlr = 1\ntrain.lr = 2\n", "3: \"train.lr = 2\": train.lr is given twice, in line 2 and in line 3");
    refuses("[sweep]\nlog.out = a\n", "2: \"log.out = a\": log.out is a text; texts and directories cannot be swept");
    refuses("[sweep]\nevery = 1\n", "2: \"every = 1\": every needs its section: write eval.every or log.every");
    refuses("[sweep]\nscale = 1\n", "2: \"scale = 1\": there is no key scale; did you mean attention.scale_length?");
    refuses("[sweep]\nmodel.lrs = 1\n", "2: \"model.lrs = 1\": there is no key model.lrs; did you mean train.lr?");
    refuses("[sweep]\nsweep.lr = 1\n", "2: \"sweep.lr = 1\": there is no key sweep.lr; did you mean train.lr?");
    refuses_set("sweep.scale_divisr=1", "there is no key scale_divisr; did you mean attention.scale_divisor?");
    refuses("[sweep]\nlr=1\nbatch=1\nsteps=1\nseed=1\nbeta1=0\nbeta2=0\neps=1\nwarmup=1\nheads=1\n",
            "10: \"heads=1\": more than the 8 keys that [sweep] accepts");
    char many[1000] = "sweep.seed=1";
    for (int i = 2; i <= 65; i++) {
        loads_set("", many);
        assert_int_equal(axes.axis[0].count, i - 1);
        snprintf(many + strlen(many), 16, ",%d", i);
    }
    assert_false(load_with("", 1, (const char *[]){many}));
    assert_non_null(strstr(err.message, ": train.seed has more than the 64 values accepted"));
}

/* A config for one run has no axes. A Config fits any stack. */
static void no_axes(void) {
    const char *override = "sweep.lr = 1e-3, 2e-3";
    _Static_assert(sizeof(Config) <= 4096, "a sweep of 4096 runs holds as many");
    loads("[sweep]\nlr = 1e-3, 2e-3\n");
    assert_false(works(config_load(&again, NULL, "c.ini", NULL, 0)));
    assert_string_equal(err.message, "c.ini has a [sweep] section: run it with ./train sweep c.ini");
    assert_int_equal(err.status, STATUS_USAGE);
    loads("");
    config_load(&again, NULL, "c.ini", NULL, 0);
    assert_false(works(config_load(&again, NULL, "c.ini", &override, 1)));
    assert_string_equal(err.message, "c.ini has a [sweep] section: run it with ./train sweep c.ini");
}

/* Each pair of values that do not go together is refused, and each value of it alone is not. */
static void scores(void) {
    static const struct {
        const char *values[2], *reason;
    } REFUSED[] = {
        {{"attention.qk_norm=rms", "train.qk_clip=9"}, "normalized queries and keys do not shrink"},
        {{"attention.score=additive", "train.qk_clip=9"}, "only dot products are proportional"},
        {{"attention.softcap=9", "train.qk_clip=9"}, "a capped score does not show"},
        {{"attention.scale_learned=head", "attention.switch_step=9"}, "a learned multiplier starts at"},
        {{"data.task=recall", "data.corpus=text.txt"}, "the text of recall is generated"},
    };
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        const char *const all[] = {REFUSED[i].values[0], REFUSED[i].values[1], "attention.switch_divisor=3"};
        const char *const second[] = {all[1], all[2], "attention.switch_step=9"};
        assert_true(load_with("", 1, all));
        assert_true(load_with("", strncmp(all[1], "attention", 9) == 0 ? 2 : 1, second));
        assert_false(load_with("", strncmp(all[1], "attention", 9) == 0 ? 3 : 2, all));
        assert_non_null(strstr(err.message, REFUSED[i].reason));
        assert_non_null(strstr(err.message, " (--set) does not go with "));
    }
    loads("[attention]\nscore = additive\n");
    assert_int_equal(config.attention.scale_divisor.mode, SCALE_NONE);
    loads("[attention]\nscore = additive\nscale_divisor = dk\n");
    assert_int_equal(config.attention.scale_divisor.mode, SCALE_DK);
    loads(
        "[attention]\nscale_divisor = sqrt_dmodel\nswitch_divisor = sqrt_dmodel\nswitch_step = 3\n[model]\nd_model = 64\n");
    assert_true(divisor_value(config.attention.scale_divisor, 3) == 8);
    assert_true(divisor_value(config.attention.switch_divisor, 3) == 8);
    refuses("[attention]\nqk_norm = l2\n",
            " attention.qk_norm = l2 (line 2) needs attention.scale_divisor or attention.scale_learned: cosines over "
            "sqrt_dk are nearly equal, and 1/sqrt(d_k) is the divisor that makes them vary as q.k / sqrt(d_k) does");
    loads("[attention]\nqk_norm = l2\nscale_divisor = sqrt_dk\n");
    loads("[attention]\nqk_norm = l2\nscale_learned = layer\n");
    loads("[attention]\nqk_norm = l2\nscore = additive\n");
    loads("[attention]\nqk_norm = l2\n[sweep]\nattention.scale_divisor = 1, 2\n");
    loads("[attention]\nqk_norm = l2\n[sweep]\nattention.scale_learned = head, layer\n");
    loads("[data]\ntask = recall\nrecall_pairs = 4\n[model]\ncontext = 9\n");
    refuses("[data]\ntask = recall\nrecall_pairs = 4\n[model]\ncontext = 8\n",
            " data.recall_pairs = 4 (line 3) takes a context of at least 9, and model.context = 8 (line 5)");
}

int main(void) {
    return RUN_GROUP(enter, leave, TEST(defaults), TEST(derived_defaults), TEST(names_of_configs), TEST(wrong_values),
                     TEST(right_values), TEST(overrides), TEST(sweeps), TEST(no_axes), TEST(scores));
}
