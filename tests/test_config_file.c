/* A config's file: names, lines, quotes and comments, every way it can be wrong, and the message. */
#include "configs.h"

#include <sys/stat.h>

static void wrong_names(void) {
    refuses(
        "# a\n\n[attention]\nscale_divisr = none\n",
        "4: \"scale_divisr = none\": [attention] has no key scale_divisr; did you mean attention.scale_divisor? It accepts: "
        "score, qk_norm, scale_divisor, switch_step, switch_divisor, scale_learned, scale_length, softcap, sink, "
        "score_precision, score_gradient");
    refuses("[atention]\n",
            "1: \"[atention]\": there is no section [atention]; did you mean [attention]? The sections: "
            "data, model, attention, train, eval, log, sweep");
    refuses("[]\n", "1: \"[]\": there is no section []. The sections: data, model, attention, train, eval, log, sweep");
    refuses("[eval]\nlr = 1\n",
            "2: \"lr = 1\": [eval] has no key lr; did you mean train.lr? It accepts: every, batches");
    refuses("[data]\nevery = 1\n",
            "2: \"every = 1\": [data] has no key every; did you mean eval.every? It accepts: corpus, "
            "val_fraction, task, recall_pairs");
    refuses("[eval]\nzzzzzz = 1\n", "2: \"zzzzzz = 1\": [eval] has no key zzzzzz. It accepts: every, batches");
    refuses("[eval]\nbeta_1 = 1\n",
            "2: \"beta_1 = 1\": [eval] has no key beta_1; did you mean train.beta1? It accepts: every, batches");
    refuses(
        "[data]\nCorpus = a\n",
        "2: \"Corpus = a\": [data] has no key Corpus; did you mean data.corpus? It accepts: corpus, val_fraction, task, recall_pairs");
    refuses("every = 1\n", "1: \"every = 1\": every needs its section: write eval.every or log.every");
    refuses("zz = 1\n", "1: \"zz = 1\": there is no key zz");
    refuses("[eval]\nevery = 1\n\n[eval]\nevery = 1\n",
            "5: \"every = 1\": every is given twice, in line 2 and in line 5");
}

static void wrong_lines(void) {
    static const char SHAPE[] = "this is neither a [section] nor key = value nor a comment (; or #)";
    static const char *const LINES[] = {"heads", "heads 3", "= 3", ": 3", "heads ; = 3", "heads # = 3", "==", "\"a\""};
    for (size_t i = 0; i < COUNT_OF(LINES); i++) {
        char text[64], message[200];
        snprintf(text, sizeof text, "[model]\n  %s  ", LINES[i]);
        snprintf(message, sizeof message, "2: \"%s\": %s", LINES[i], SHAPE);
        refuses(text, message);
        snprintf(text, sizeof text, "[model]\n%s\nheads = 0\n", LINES[i]); /* the first error of a file is reported */
        refuses(text, message);
    }
    refuses("[model\nheads = 2\n", "1: \"[model\": a ] is missing after the section's name");
    refuses("[model] heads = 2\n", "1: \"[model] heads = 2\": only a comment may follow [section] on its line");
    refuses("[log]\nout = \"a\n",
            "2: \"out = \"a\": the value begins with a double quote that is never closed; inside, a "
            "double quote is written \\\"");
    refuses("[log]\nout = \"a\\\"\n",
            "2: \"out = \"a\\\"\": the value begins with a double quote that is never closed; "
            "inside, a double quote is written \\\"");
    refuses("[log]\nout = \"a\" b\n", "2: \"out = \"a\" b\": only a comment may follow the closing double quote");
    refuses("[log]\nout = \"\\q\"\n",
            "2: \"out = \"\\q\"\": in double quotes a backslash takes n, t, r, \" or another backslash");
    refuses("[log]\nout =\n", "2: \"out =\": out takes a text of 1 to 1023 bytes");
}

static void texts(void) {
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
}

static void comments_and_quotes(void) {
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

/* A carriage return ends a line as a line feed does: what follows it is read, and counted as a line of its own. */
static void carriage_returns(void) {
    loads("; no divisor\r[model]\rheads = 4 ; four\r\n[log]\rattention_text = a\rout = b\r\r[sweep] # axes\rlr = 1, 2\r"
          "train.seed = 1, 2");
    assert_int_equal(config.model.heads, 4);
    assert_string_equal(config.log.attention_text, "a");
    assert_string_equal(config.log.out, "b");
    assert_int_equal(axes.count, 2);
    refuses("[model]\r; b\r\nheads = 0", "3: \"heads = 0\": heads takes a whole number from 1 to 1024");
    refuses("[model]\n\rheads = 0", "3: \"heads = 0\": heads takes a whole number from 1 to 1024");
    refuses("[log]\nout = \"a\rb\"\n", "2: \"out = \"a\": the value begins with a double quote that is never closed; "
                                       "inside, a double quote is written \\\"");
}

static void long_lines(void) {
    static char text[40000], zeros[2000];
    memset(zeros, '0', sizeof zeros - 1);
    for (int length = 1; length < CONFIG_TEXT_MAX; length++) {
        snprintf(text, sizeof text, "[log]\nout = %.*s\n[model]\nheads = 4\n", length, zeros);
        loads(text);
        assert_int_equal(strlen(config.log.out), length);
        assert_int_equal(config.model.heads, 4);
    }
    snprintf(text, sizeof text, "[log]%9000s\n%9000severy%9000s=%9000s\n", ";", "", "", "7");
    loads(text);
    assert_int_equal(config.log.every, 7);
    for (int length = 1020; length < 1030; length++) {
        snprintf(text, sizeof text, "[log]\nout = %.*s\n", length, zeros);
        assert_int_equal(load_with(text, 0, NULL), length < CONFIG_TEXT_MAX);
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

static void files(void) {
    assert_false(works(axes_load(&config, &axes, "none", NULL, 0)));
    assert_string_equal(err.message,
                        "cannot read config none: No such file or directory; ./train --help lists the verbs");
    assert_int_equal(err.status, STATUS_USAGE);
    assert_int_equal(mkdir("configs", 0777), 0);
    put("configs/dk64.ini", "", 0);
    static const char *const MEANT[] = {"dk64", "dk64.ini", "configs/dk64", "config/dk64.ini"};
    for (size_t i = 0; i < COUNT_OF(MEANT); i++) {
        assert_false(works(axes_load(&config, &axes, MEANT[i], NULL, 0)));
        assert_non_null(strstr(err.message, "; did you mean configs/dk64.ini?"));
    }
    assert_false(works(axes_load(&config, &axes, "configs", NULL, 0)));
    assert_string_equal(err.message, "cannot read config configs: it is a directory; name a file");
    assert_int_equal(err.status, STATUS_USAGE);
    put("c.ini", "[model]\nhea\0ds = 2\n", 18);
    assert_false(works(axes_load(&config, &axes, "c.ini", NULL, 0)));
    assert_string_equal(err.message, "c.ini holds a zero byte; a config is text in UTF-8");
    static char large[(1 << 20) + 1];
    put("c.ini", memset(large, '\n', sizeof large), sizeof large);
    assert_false(works(axes_load(&config, &axes, "c.ini", NULL, 0)));
    assert_string_equal(err.message, "config c.ini has 1048577 bytes; at most 1048576 are accepted");
}

int main(void) {
    return RUN_GROUP(enter, leave, TEST(wrong_names), TEST(wrong_lines), TEST(texts), TEST(comments_and_quotes),
                     TEST(long_lines), TEST(files), TEST(carriage_returns));
}
