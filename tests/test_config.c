/* The config: what each key is by default, every way a file can be wrong and what is said about it, and that whatever
   config_write prints config_load reads back. Files go to a directory of their own, named c.ini, and errors are
   compared as a whole: a message is part of the interface. */
#include <stdarg.h>
#include <stddef.h>

#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "model/config.h"

static char start[4096], directory[] = "/tmp/test_config.XXXXXX";
static Config config, again;
static Error err;

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static void save(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static bool load_with(const char *text, size_t count, const char *const *overrides) {
    save("c.ini", text, strlen(text));
    memset(&err, 0, sizeof err);
    return config_load(&config, "c.ini", overrides, count, &err);
}

static void loads(const char *text) {
    if (!load_with(text, 0, NULL)) fail_msg("%s", err.message);
}

static void loads_set(const char *text, const char *override) {
    if (!load_with(text, 1, &override)) fail_msg("%s", err.message);
}

/* `message` is what follows "c.ini:". */
static void refuses(const char *text, const char *message) {
    char expected[1200];
    snprintf(expected, sizeof expected, "c.ini:%s", message);
    assert_false(load_with(text, 0, NULL));
    assert_string_equal(err.message, expected);
    assert_int_equal(err.status, STATUS_USAGE);
}

/* `message` is what follows "--set OVERRIDE: ". */
static void refuses_set(const char *override, const char *message) {
    char expected[1200];
    snprintf(expected, sizeof expected, "--set %s: %s", override, message);
    assert_false(load_with("", 1, &override));
    assert_string_equal(err.message, expected);
    assert_int_equal(err.status, STATUS_USAGE);
}

static void write_config(const Config *of, const char *path) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    config_write(of, file);
    assert_int_equal(fclose(file), 0);
}

/* config -> file -> again -> file: the same settings, the same bytes. */
static void assert_round_trip(void) {
    char *first, *second;
    size_t n, m;
    write_config(&config, "w.ini");
    if (!config_load(&again, "w.ini", NULL, 0, &err)) fail_msg("%s", err.message);
    assert_string_equal(again.data.corpus, config.data.corpus);
    assert_string_equal(again.log.out, config.log.out);
    assert_string_equal(again.log.attention_text, config.log.attention_text);
    assert_true(again.train.grad_clip == config.train.grad_clip && again.train.min_lr == config.train.min_lr);
    write_config(&again, "v.ini");
    assert_true(file_read("w.ini", "w", 1 << 20, STATUS_FAILED, &first, &n, &err));
    assert_true(file_read("v.ini", "v", 1 << 20, STATUS_FAILED, &second, &m, &err));
    assert_string_equal(first, second);
    free(first);
    free(second);
}

static void defaults(void **state) {
    (void)state;
    static const char EXPECTED[] =
        "[data]\ncorpus = \"\"\nval_fraction = 0.1\n\n"
        "[model]\nlayers = 2\nheads = 2\nd_model = 128\nd_k = 64\nd_ff = 512\ncontext = 64\nnorm = pre\n"
        "activation = gelu\nbias = yes\ndropout = 0\ntie_embeddings = yes\ninit = unit\n\n"
        "[attention]\nscale_divisor = sqrt_dk\n\n"
        "[train]\nsteps = 1000\nbatch = 16\naccumulate = 1\nlr = 0.001\nmin_lr = 0.0001\nwarmup = 100\n"
        "optimizer = adamw\nbeta1 = 0.9\nbeta2 = 0.99\neps = 1e-08\nmomentum = 0.9\nweight_decay = 0.1\n"
        "grad_clip = 1\nseed = 1\n\n"
        "[eval]\nevery = 250\nbatches = 0\n\n"
        "[log]\nout = runs/c\nevery = 10\nattention_every = 250\nattention_text = \"\"\nsample_tokens = 256\n"
        "checkpoint_every = 1000\n";
    char *text;
    size_t size;
    loads("");
    write_config(&config, "w.ini");
    assert_true(file_read("w.ini", "w", 1 << 20, STATUS_FAILED, &text, &size, &err));
    assert_string_equal(text, EXPECTED);
    free(text);
    assert_string_equal(config.name, "c");
    assert_int_equal(config.sweep_count, 0);
    assert_true(config.given[0] == 0 && config.given[1] == 0);
    assert_true(config.model.bias && config.train.lr == 1e-3 && config.train.eps == 1e-8);
    assert_int_equal(config.model.d_k, 64);
    assert_string_equal(config_key_name(0), "data.corpus");
}

static void derived_defaults(void **state) {
    (void)state;
    loads("[model]\nd_model = 96\nheads = 3\n[train]\nlr = 0.5\n");
    assert_int_equal(config.model.d_k, 32);
    assert_int_equal(config.model.d_ff, 384);
    assert_true(config.train.min_lr == 0.05);
    assert_true(config_set(&config, "arm", "train.lr", "1", &err) && config.train.min_lr == 0.1);
    assert_true(config_set(&config, "arm", "model.d_model", "48", &err));
    assert_int_equal(config.model.d_k, 16);
    assert_int_equal(config.model.d_ff, 192);
    loads("[model]\nheads = 3\nd_k = 5\nd_ff = 7\n[train]\nmin_lr = 0\n[log]\nout = here\n");
    assert_int_equal(config.model.d_k, 5);
    assert_int_equal(config.model.d_ff, 7);
    assert_true(config.train.min_lr == 0);
    assert_string_equal(config.log.out, "here");

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

static void names_of_configs(void **state) {
    (void)state;
    static const char *const NAMES[][2] = {
        {"a.b.ini", "a.b"}, {"./plain", "plain"}, {".ini", ".ini"}, {"x#;.ini", "x#;"}};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        save(NAMES[i][0], "", 0);
        assert_true(config_load(&config, NAMES[i][0], NULL, 0, &err));
        assert_string_equal(config.name, NAMES[i][1]);
        assert_round_trip();
    }
}

static void wrong_names(void **state) {
    (void)state;
    refuses("# a\n\n[attention]\nscale_divisr = none\n",
            "4: \"scale_divisr = none\": [attention] has no key scale_divisr; did you mean scale_divisor? It accepts: "
            "scale_divisor");
    refuses("[atention]\n",
            "1: \"[atention]\": there is no section [atention]; did you mean [attention]? The sections: "
            "data, model, attention, train, eval, log, sweep");
    refuses("[]\n", "1: \"[]\": there is no section []. The sections: data, model, attention, train, eval, log, sweep");
    refuses("[eval]\nlr = 1\n", "2: \"lr = 1\": [eval] has no key lr; there is train.lr. It accepts: every, batches");
    refuses("[data]\nevery = 1\n",
            "2: \"every = 1\": [data] has no key every; there is eval.every and log.every. It accepts: corpus, "
            "val_fraction");
    refuses("[eval]\nzzzzzz = 1\n", "2: \"zzzzzz = 1\": [eval] has no key zzzzzz. It accepts: every, batches");
    refuses("[eval]\nbeta_1 = 1\n",
            "2: \"beta_1 = 1\": [eval] has no key beta_1; did you mean train.beta1? It accepts: every, batches");
    refuses("[data]\nCorpus = a\n",
            "2: \"Corpus = a\": [data] has no key Corpus; did you mean corpus? It accepts: corpus, val_fraction");
    refuses("lr = 1\n", "1: \"lr = 1\": a [section] must come first; the key is train.lr");
    refuses("zz = 1\n", "1: \"zz = 1\": a [section] must come first");
    refuses("[eval]\nevery = 1\n\n[eval]\nevery = 1\n",
            "5: \"every = 1\": every is given twice, in line 2 and in line 5");
}

static void wrong_lines(void **state) {
    (void)state;
    static const char SHAPE[] = "this is neither a [section] nor key = value nor a comment (; or #)";
    static const char *const LINES[] = {"heads", "heads 3", "= 3", ": 3", "heads ; = 3", "heads # = 3", "==", "\"a\""};
    for (size_t i = 0; i < COUNT_OF(LINES); i++) {
        char text[64], message[200];
        snprintf(text, sizeof text, "[model]\n  %s  ", LINES[i]);
        snprintf(message, sizeof message, "2: \"%s\": %s", LINES[i], SHAPE);
        refuses(text, message);
        snprintf(text, sizeof text, "[model]\n%s\nheads = 0\n", LINES[i]); /* the first error of a file is told */
        refuses(text, message);
    }
    refuses("[model\nheads = 2\n", "1: \"[model\": a ] is missing after the section's name");
    refuses("[model] heads = 2\n", "1: \"[model] heads = 2\": only a comment may follow [section] on its line");
    refuses("[log]\nout = \"a\n", "2: \"out = \"a\": the value opens with a double quote and none closes it; inside, a "
                                  "double quote is written \\\"");
    refuses("[log]\nout = \"a\\\"\n", "2: \"out = \"a\\\"\": the value opens with a double quote and none closes it; "
                                      "inside, a double quote is written \\\"");
    refuses("[log]\nout = \"a\" b\n", "2: \"out = \"a\" b\": only a comment may follow the closing double quote");
    refuses("[log]\nout = \"\\q\"\n",
            "2: \"out = \"\\q\"\": in double quotes a backslash takes n, t, r, \" or another backslash after it");
    refuses("[log]\nout =\n", "2: \"out =\": out takes a text of 1 to 1023 bytes");
}

static void wrong_values(void **state) {
    (void)state;
    static const struct {
        const char *key, *accepted, *values[10];
    } CASES[] = {
        {"model.heads",
         "a whole number from 1 to 1024",
         {"0", "-1", "1025", "", "two", "+2", "0x2", "99999999999999999999", "1.5", "2 3"}},
        {"train.seed", "a whole number from 0 to 9223372036854775807", {"9223372036854775808", "-1", "1e18"}},
        {"log.every", "a whole number from 1 to 1000000000", {"0"}},
        {"train.lr", "a number above 0 and at most 1000000", {"0", "-1", "nan", "inf", "1e7", "", "x", "1,5", "1e-3x"}},
        {"train.min_lr", "a number from 0 to 1000000", {"-1e-9", "nan", "-inf"}},
        {"train.beta1", "a number from 0 to below 1", {"1", "-0.1"}},
        {"data.val_fraction", "a number above 0 and at most 0.9", {"0", "0.91"}},
        {"model.bias", "yes or no", {"", "y", "2", "Yes"}},
        {"model.init", "unit, xavier, torch or gpt2", {"", "ones", "0"}},
        {"attention.scale_divisor",
         "sqrt_dk, none, dk, 2sqrt_dk or a number from 1e-6 to 1e6",
         {"0", "-1", "nan", "inf", "8x", "1e-7", "1e7", "", "infinity"}},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        for (size_t j = 0; j < 10 && CASES[i].values[j]; j++) {
            char override[128], message[256];
            snprintf(override, sizeof override, "%s=%s", CASES[i].key, CASES[i].values[j]);
            snprintf(message, sizeof message, "%s takes %s", strchr(CASES[i].key, '.') + 1, CASES[i].accepted);
            refuses_set(override, message);
        }
    refuses("[model]\nheads = 0\n", "2: \"heads = 0\": heads takes a whole number from 1 to 1024");
    refuses("[train]\nsteps = 1e3\n",
            "2: \"steps = 1e3\": steps takes a whole number from 1 to 1000000000; write 1000");
    refuses(
        "[attention]\nscale_divisor = sqrt\n",
        "2: \"scale_divisor = sqrt\": scale_divisor takes sqrt_dk, none, dk, 2sqrt_dk or a number from 1e-6 to 1e6; "
        "did you mean sqrt_dk?");
    refuses("[model]\nactivation = GELU\n",
            "2: \"activation = GELU\": activation takes gelu or relu; did you mean gelu?");
}

static void right_values(void **state) {
    (void)state;
    loads("");
    static const char *const ON[] = {"yes", "true", "on", "1"}, *const OFF[] = {"no", "false", "off", "0"};
    for (size_t i = 0; i < 4; i++) {
        assert_true(config_set(&config, "t", "model.bias", ON[i], &err) && config.model.bias);
        assert_true(config_set(&config, "t", "model.bias", OFF[i], &err) && !config.model.bias);
    }
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
    for (int i = 0; i < 200; i++) { /* any double survives its shortest text */
        char value[64];
        snprintf(value, sizeof value, "%.17g", exp(-14 + 0.13 * i));
        assert_true(config_set(&config, "t", "train.grad_clip", value, &err));
        assert_round_trip();
    }
}

static void overrides(void **state) {
    (void)state;
    const char *both[] = {"model.heads=4", " model.heads =  8 "};
    assert_true(load_with("[model]\nheads = 1\n", 2, both));
    assert_int_equal(config.model.heads, 8);
    loads_set("", "log.attention_text=a # b ; c = d");
    assert_string_equal(config.log.attention_text, "a # b ; c = d");
    loads_set("", "log.attention_text=\" a\\n\"");
    assert_string_equal(config.log.attention_text, " a\n");

    refuses_set("heads=4", "heads needs its section: write model.heads");
    refuses_set("every=4", "every needs its section: write eval.every or log.every");
    refuses_set("haeds=4", "there is no key haeds; did you mean model.heads?");
    refuses_set("modelheads=4", "there is no key modelheads; did you mean model.heads?");
    refuses_set("modle.heads=4", "there is no section [modle]; did you mean [model]? The sections: data, model, "
                                 "attention, train, eval, log, sweep");
    refuses_set("eval.heads=4", "[eval] has no key heads; there is model.heads. It accepts: every, batches");
    refuses_set("model.heads", "write section.key=value");
    refuses_set("=1", "write section.key=value");
    refuses_set(" = 1", "write section.key=value");
    refuses_set("", "write section.key=value");

    loads("");
    assert_false(config_set(&config, "sweep", "model.heads", "0", &err));
    assert_string_equal(err.message, "sweep: model.heads=0: heads takes a whole number from 1 to 1024");
    assert_false(config_set(&config, "sweep", "model.heads", "3", &err));
    assert_string_equal(err.message, "sweep: model.heads = 3 does not divide model.d_model = 128 (the default); choose "
                                     "others, or set model.d_k");
    const char *keys[] = {"model.heads", "model.d_model"}, *values[] = {"3", "96"};
    assert_true(config_set_all(&config, "sweep", 2, keys, values, &err));
    assert_int_equal(config.model.d_k, 32);
}

static void texts(void **state) {
    (void)state;
    static const char *const TEXTS[] = {"",
                                        " ",
                                        "a",
                                        "  a  ",
                                        "\"",
                                        "\"a\"",
                                        "\\",
                                        "\\n",
                                        "a\nb\r\tc",
                                        "a ; b # c",
                                        ";",
                                        "#",
                                        "=",
                                        "[model]",
                                        "a = b: c",
                                        "\xC3\xA9t\xC3\xA9 √d_k",
                                        "\x01\x7f\x1b[0m",
                                        "\v\f",
                                        "\xff\xfe",
                                        "a\\",
                                        "a\"",
                                        "\n",
                                        "\r",
                                        "\xEF\xBB\xBF"};
    loads("");
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        snprintf(config.log.attention_text, CONFIG_TEXT_MAX, "%s", TEXTS[i]);
        snprintf(config.data.corpus, CONFIG_TEXT_MAX, "%s", TEXTS[i]);
        assert_round_trip();
    }
    for (size_t length = 90; length < CONFIG_TEXT_MAX; length += length < 210 ? 1 : 271) {
        memset(config.log.attention_text, length % 2 ? '"' : 'x', length);
        config.log.attention_text[length] = 0;
        assert_round_trip();
    }
    static const char HARD[] = " \"\\;#=a\n\t[]:";
    uint32_t random = 1;
    for (int i = 0; i < 500; i++) {
        size_t length = (random = random * 1664525 + 1013904223) >> 22; /* up to 1023 */
        for (size_t j = 0; j < length; j++) {
            random = random * 1664525 + 1013904223;
            unsigned char byte = (unsigned char)(random >> 24);
            if (i % 2 || byte == 0) byte = (unsigned char)HARD[byte % (sizeof HARD - 1)];
            memcpy(&config.log.attention_text[j], &byte, 1);
        }
        config.log.attention_text[length] = 0;
        assert_round_trip();
    }
}

static void comments_and_quotes(void **state) {
    (void)state;
    static const char *const LINES[][2] = {
        {"a ; b", "a"},
        {"a # b", "a"},
        {"a\t;b", "a"},
        {"a;b#c", "a;b#c"},
        {"; a", ""},
        {"# a", ""},
        {"a \"b\" c", "a \"b\" c"},
        {"\"a ; b # c\"", "a ; b # c"},
        {"\"a\" ; b", "a"},
        {"\"a\"# b", "a"},
        {"\"\"", ""},
        {"\" a \"", " a "},
        {"\"\\\\\"", "\\"},
        {"C:\\new", "C:\\new"},
        {"a = b", "a = b"},
        {"\"a # \\\" ; b\" # \"", "a # \" ; b"},
    };
    for (size_t i = 0; i < COUNT_OF(LINES); i++) {
        char text[128];
        snprintf(text, sizeof text, "[log] # c\nattention_text = %s\n;end", LINES[i][0]);
        loads(text);
        assert_string_equal(config.log.attention_text, LINES[i][1]);
        snprintf(text, sizeof text, "\xEF\xBB\xBF; c\r\n[log];c\r\n\r\n \tattention_text:%s\r\n", LINES[i][0]);
        loads(text);
        assert_string_equal(config.log.attention_text, LINES[i][1][0] == 0 && strchr(";#", LINES[i][0][0])
                                                           ? LINES[i][0]
                                                           : LINES[i][1]); /* ":;" opens no comment */
    }
    loads("[model]\nheads = 4\n    layers = 3\n\td_ff = 9"); /* an indented line continues nothing */
    assert_int_equal(config.model.layers, 3);
    assert_int_equal(config.model.d_ff, 9);
}

static void long_lines(void **state) {
    (void)state;
    static char text[40000], zeros[2000];
    memset(zeros, '0', sizeof zeros - 1);
    for (int length = 1; length < 400; length++) {
        snprintf(text, sizeof text, "[log]\nout = %.*s\n[model]\nheads = 4\n", length, zeros);
        if (load_with(text, 0, NULL)) {
            assert_int_equal(strlen(config.log.out), length);
            assert_int_equal(config.model.heads, 4);
            assert_true(length <= 192);
        } else {
            char expected[96];
            snprintf(expected, sizeof expected, "the line has %d bytes; at most 198 are accepted", length + 6);
            assert_non_null(strstr(err.message, expected));
            assert_int_equal(strncmp(err.message, "c.ini:2: \"out = 0", 16), 0);
        }
    }
    for (int length = 1020; length < 1030; length++) {
        snprintf(text, sizeof text, "[log]\nout = \"%.*s\"\n", length, zeros);
        assert_int_equal(load_with(text, 0, NULL), length < CONFIG_TEXT_MAX);
        snprintf(text, sizeof text, "log.out=%.*s", length, zeros);
        assert_int_equal(load_with("", 1, (const char *[]){text}), length < CONFIG_TEXT_MAX);
    }
    snprintf(text, sizeof text, "; %s\n[model] ; %s\nheads = 4 # %s\n", zeros, zeros, zeros);
    loads(text);
    assert_int_equal(config.model.heads, 4);
    snprintf(text, sizeof text, "%s.%s=%s", zeros, zeros, zeros);
    assert_false(load_with("", 1, (const char *[]){text}));
    snprintf(text, sizeof text, "[%s]\n", zeros);
    assert_false(load_with(text, 0, NULL));
}

static void sweeps(void **state) {
    (void)state;
    loads("[sweep]\nscale_divisor = none, sqrt_dk ,dk,3.5 ; four\ntrain.seed = \"1, 2\"\n");
    assert_int_equal(config.sweep_count, 2);
    assert_string_equal(config_key_name(config.sweep[0].setting), "attention.scale_divisor");
    assert_int_equal(config.sweep[0].count, 4);
    assert_string_equal(config.sweep[0].values[1], "sqrt_dk");
    assert_string_equal(config.sweep[0].values[3], "3.5");
    assert_string_equal(config.sweep[1].values[1], "2");
    loads_set("[sweep]\nscale_divisor = none, dk\n", "sweep.attention.scale_divisor=2sqrt_dk, 7 ,8");
    assert_int_equal(config.sweep_count, 1);
    assert_int_equal(config.sweep[0].count, 3);
    assert_string_equal(config.sweep[0].values[1], "7");

    refuses("[sweep]\nlr = 1, 1.0\n", "2: \"lr = 1, 1.0\": the value 1.0 is there twice");
    refuses("[sweep]\nlr = 1,,2\n", "2: \"lr = 1,,2\": a value is missing; write values with commas between them");
    refuses("[sweep]\nheads = 1, x\n",
            "2: \"heads = 1, x\": the value \"x\": heads takes a whole number from 1 to 1024");
    refuses("[sweep]\nlr = 1\ntrain.lr = 2\n", "3: \"train.lr = 2\": train.lr is given twice, in line 2 and in line 3");
    refuses("[sweep]\nlog.out = a\n", "2: \"log.out = a\": log.out is a text; texts and directories cannot be swept");
    refuses("[sweep]\nevery = 1\n",
            "2: \"every = 1\": every is a key of several sections: write eval.every or log.every");
    refuses("[sweep]\nscale = 1\n", "2: \"scale = 1\": there is no key scale; did you mean attention.scale_divisor?");
    refuses(
        "[sweep]\nmodel.lrs = 1\n",
        "2: \"model.lrs = 1\": [model] has no key lrs; did you mean train.lr? It accepts: layers, heads, d_model, d_k, "
        "d_ff, context, norm, activation, bias, dropout, tie_embeddings, init");
    refuses("[sweep]\nsweep.lr = 1\n", "2: \"sweep.lr = 1\": there is no key sweep.lr");
    refuses_set("sweep.scale_divisr=1", "there is no key scale_divisr; did you mean attention.scale_divisor?");
    refuses("[sweep]\nlr=1\nbatch=1\nsteps=1\nseed=1\nbeta1=0\nbeta2=0\neps=1\nwarmup=1\nheads=1\n",
            "10: \"heads=1\": more than the 8 keys that [sweep] accepts");
    char many[1000] = "sweep.seed=1";
    for (int i = 2; i <= 65; i++) {
        loads_set("", many);
        assert_int_equal(config.sweep[0].count, i - 1);
        snprintf(many + strlen(many), 16, ",%d", i);
    }
    assert_false(load_with("", 1, (const char *[]){many}));
    assert_non_null(strstr(err.message, ": train.seed has more than the 64 values accepted"));
}

static void files(void **state) {
    (void)state;
    assert_false(config_load(&config, "none", NULL, 0, &err));
    assert_string_equal(err.message, "cannot read config none: No such file or directory");
    assert_int_equal(err.status, STATUS_USAGE);
    assert_true(directory_make("configs", false, &err));
    save("configs/dk64.ini", "", 0);
    static const char *const MEANT[] = {"dk64", "dk64.ini", "configs/dk64", "config/dk64.ini"};
    for (size_t i = 0; i < COUNT_OF(MEANT); i++) {
        assert_false(config_load(&config, MEANT[i], NULL, 0, &err));
        assert_non_null(strstr(err.message, "; did you mean configs/dk64.ini?"));
    }
    assert_false(config_load(&config, "configs", NULL, 0, &err));
    assert_string_equal(err.message, "cannot read config configs: it is a directory; name a file");
    assert_int_equal(err.status, STATUS_USAGE);
    save("c.ini", "[model]\nhea\0ds = 2\n", 18);
    assert_false(config_load(&config, "c.ini", NULL, 0, &err));
    assert_string_equal(err.message, "c.ini:2: a zero byte; a config is text in UTF-8");
    static char large[(1 << 20) + 1];
    save("c.ini", memset(large, '\n', sizeof large), sizeof large);
    assert_false(config_load(&config, "c.ini", NULL, 0, &err));
    assert_string_equal(err.message, "config c.ini has 1048577 bytes; at most 1048576 are accepted");
}

/* Mutated files: whatever is in them, an answer of one line; what is accepted survives being written. */
static void mutations(void **state) {
    (void)state;
    static const char SEED[] =
        "\xEF\xBB\xBF; c\r\n[model]\nheads = 4 # x\n\td_k = 9\n[attention]\nscale_divisor = 2sqrt_dk\n"
        "[log]\nattention_text = \"a\\n\\\"b ; c\" # d\nout: x ; y\n[sweep]\ntrain.lr = 1e-3, 1e-2\n";
    static const char PIECES[] = "\"\\;#=:[].,\n\r\t 019ae\xff";
    uint32_t random = 7;
    int accepted = 0;
    for (int i = 0; i < 4000; i++) {
        char text[2 * sizeof SEED];
        size_t length = sizeof SEED - 1;
        memcpy(text, SEED, length);
        for (int edits = 1 + i % 7; edits > 0; edits--) {
            random = random * 1664525 + 1013904223;
            size_t at = (random >> 8) % length, from = (random >> 16) % length;
            if (random >> 30 == 0 && length + 1 < sizeof text)
                memmove(text + at + 1, text + at, length++ - at);
            else if (random >> 30 == 1 && length > 1)
                memmove(text + at, text + at + 1, --length - at);
            if (random >> 30 < 3)
                text[at < length ? at : 0] = PIECES[(random >> 3) % (sizeof PIECES - 1)];
            else
                length = from + 1;
        }
        save("c.ini", text, length);
        if (config_load(&config, "c.ini", NULL, 0, &err)) {
            accepted++;
            assert_round_trip();
        } else {
            assert_int_equal(err.status, STATUS_USAGE);
            assert_null(strchr(err.message, '\n'));
        }
    }
    assert_in_range(accepted, 100, 3900);
}

static void check_columns(void (*writer)(FILE *), size_t widest) {
    char *text, *line;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    writer(file);
    fclose(file);
    assert_non_null(strstr(text, "scale_divisor"));
    for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        assert_true(strlen(line) <= widest);
        assert_true(line[strlen(line) - 1] != ' ');
    }
    free(text);
}

static void references(void **state) {
    (void)state;
    check_columns(config_write_help, 80);
    check_columns(config_write_markdown, 1000);
}

static void scales(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double at_16;
    } GOOD[] = {{"sqrt_dk", 4}, {"none", 1}, {"dk", 16}, {"2sqrt_dk", 8}, {"0.1", 0.1}, {"1e6", 1e6}, {"1e-6", 1e-6}};
    static const char *const BAD[] = {"", "0", "-8", "nan", "inf", "8x", "SQRT_DK", "sqrt_dk ", "1e-7", "1e7", "-0"};
    ScaleDivisor divisor, back;
    for (size_t i = 0; i < COUNT_OF(GOOD); i++) {
        char text[64];
        assert_true(scale_parse(GOOD[i].text, &divisor));
        assert_true(scale_value(divisor, 16) == GOOD[i].at_16);
        assert_true(scale_multiplier(divisor, 16) == 1 / GOOD[i].at_16);
        scale_text(divisor, text, sizeof text);
        assert_true(scale_parse(text, &back));
        assert_true(back.mode == divisor.mode && scale_value(back, 3) == scale_value(divisor, 3));
    }
    for (size_t i = 0; i < COUNT_OF(BAD); i++) assert_false(scale_parse(BAD[i], &divisor));
    char title[64];
    scale_parse("2sqrt_dk", &divisor);
    scale_title(divisor, 64, title, sizeof title);
    assert_string_equal(title, "2√d_k = 16");
}

static int enter(void **state) {
    (void)state;
    return !getcwd(start, sizeof start) || !mkdtemp(directory) || chdir(directory) != 0;
}

static int leave(void **state) {
    (void)state;
    return chdir(start) != 0 || !directory_remove(directory, &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),     cmocka_unit_test(derived_defaults),    cmocka_unit_test(names_of_configs),
        cmocka_unit_test(wrong_names),  cmocka_unit_test(wrong_lines),         cmocka_unit_test(wrong_values),
        cmocka_unit_test(right_values), cmocka_unit_test(overrides),           cmocka_unit_test(texts),
        cmocka_unit_test(long_lines),   cmocka_unit_test(comments_and_quotes), cmocka_unit_test(sweeps),
        cmocka_unit_test(files),        cmocka_unit_test(mutations),           cmocka_unit_test(references),
        cmocka_unit_test(scales),
    };
    return cmocka_run_group_tests_name("config", tests, enter, leave);
}
