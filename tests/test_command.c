/* The command line: every kind of option, its bounds, where words may stand, and the message for a wrong one. The
   program's own verbs are in test_cli.sh. */
#include "support.h"

#include "base/command.h"
#include "base/machine.h"
#include "base/range.h"
#include "config/config.h"

static struct {
    bool on;
    const char *text, *directory;
    OptionList list;
    long long whole, seed;
    double number;
} given;
static const Option OPTIONS[] = {
    {"on", NULL, "a switch", OPTION_SWITCH, &given.on, 0, 0},
    {"name", "TEXT", "anything", OPTION_TEXT, &given.text, 0, 0},
    {"directory", "DIR", "not empty", OPTION_PATH, &given.directory, 0, 0},
    {"each", "ITEM", "again and again", OPTION_LIST, &given.list, 0, 0},
    {"whole", "N", "within bounds", OPTION_INTEGER, &given.whole, 2, 64},
    {"seed", "S", "as large as it gets", OPTION_INTEGER, &given.seed, 0, INT64_MAX},
    {"number", "A-VERY-LONG-NAME", "with a point", OPTION_NUMBER, &given.number, 0, 1e6},
    {0},
};
static const Verb VERB = {.name = "verb", .target = "CONFIG.ini", .what = "Does it.", .options = OPTIONS};
static const Verb BARE = {.name = "bare", .what = "Takes no target."};
static const Verb PLAIN = {
    .target = "CONFIG.ini", .what = "Trains.", .settings_meant = config_settings_meant, .makes_runs = true};

static Command command;

/* Parses up to five words after the verb. */
#define PARSE(verb, ...) parse(verb, (const char *[6]){__VA_ARGS__})
static bool parse(const Verb *verb, const char *const *given_words) {
    const char *words[8] = {"verb"}, *before[8];
    int count = 1;
    while (given_words[count - 1]) words[count] = given_words[count - 1], count++;
    memcpy(before, words, sizeof words);
    command = (Command){0};
    const bool taken = works(command_parse(verb, count, (char **)words, &command));
    assert_memory_equal(before, words, sizeof words); /* they stay in their order */
    return taken;
}
static void assert_refused(const Verb *verb, const char *first, const char *second, const char *message) {
    static char before[sizeof given];
    memcpy(before, &given, sizeof given);
    assert_that(!PARSE(verb, first, second), "accepted: %s", first);
    assert_int_equal(err.status, STATUS_USAGE);
    assert_string_equal(err.message, message);
    assert_memory_equal(before, &given, sizeof given);
}

static void every_kind(void) {
    memset(&given, 0, sizeof given);
    assert_true(PARSE(&VERB, "a.ini", "--on") && given.on);
    assert_true(PARSE(&VERB, "a.ini", "--name", "") && *given.text == 0 && given.directory == NULL);
    assert_true(PARSE(&VERB, "a.ini", "--directory=a=b"));
    assert_string_equal(given.directory, "a=b");
    assert_true(PARSE(&VERB, "a.ini", "--name", "-x") && PARSE(&VERB, "a.ini", "--name=--on"));
    assert_string_equal(given.text, "--on");
    assert_true(PARSE(&VERB, "a.ini", "--whole", "2") && given.whole == 2);
    assert_true(PARSE(&VERB, "a.ini", "--whole=64") && given.whole == 64);
    assert_true(PARSE(&VERB, "a.ini", "--seed", "9223372036854775807") && given.seed == INT64_MAX);
    assert_true(PARSE(&VERB, "a.ini", "--number", "2.5e3") && given.number == 2500);
    assert_true(PARSE(&VERB, "a.ini", "--number=0") && given.number == 0);
    for (size_t i = 0; i < OPTION_LIST_MAX; i++) assert_true(PARSE(&VERB, "a.ini", "--each", i ? "more" : "first"));
    assert_int_equal(given.list.count, OPTION_LIST_MAX);
    assert_string_equal(given.list.items[0], "first");
    assert_refused(&VERB, "--each", "one", "more than 256 --each");
}

static void what_verbs_share(void) {
    assert_true(PARSE(&PLAIN, "--set", "a=1", "a.ini", "--set=b=2", "--quiet"));
    assert_true(command.overrides.count == 2 && command.quiet && !command.help && !command.dry_run);
    assert_string_equal(command.target, "a.ini");
    assert_string_equal(command.overrides.items[1], "b=2");
    command.processors = 6;
    assert_true(command.threads == 0 && command_threads(&command) == 6);
    assert_true(PARSE(&PLAIN, "a.ini", "--threads", "3", "--dry-run") && command.dry_run);
    assert_int_equal(command_threads(&command), 3);
    assert_true(PARSE(&PLAIN, "a.ini", "--force", "--out", "there") && command.force);
    assert_string_equal(command.out, "there");
    assert_true(PARSE(&PLAIN, "--help") && command.help && command.target == NULL);
    assert_true(PARSE(&PLAIN, "-h") && command.help && !command.quiet);
    assert_true(PARSE(&VERB, "-q", "a.ini") && command.quiet && !command.help);
    assert_true(PARSE(&BARE, "-hq") && command.quiet && command.help);
    assert_true(PARSE(&BARE, "--threads=1") && command.target == NULL);
    assert_refused(&PLAIN, "a.ini", "--force",
                   "--force replaces the directory that --out names: add --out DIR, or leave --force out");
    assert_refused(&VERB, "--set", "a=1", "there is no option --set here: ./train verb --help lists them");
    assert_refused(&VERB, "--out", "a", "there is no option --out here: ./train verb --help lists them");
    char message[100];
    snprintf(message, sizeof message, "--threads takes a whole number from 1 to %d, not \"0\"", THREADS_MAX);
    assert_refused(&BARE, "--threads", "0", message);
}

static void where_words_stand(void) {
    assert_true(PARSE(&VERB, "--whole", "3", "a.ini", "--on") && PARSE(&VERB, "-"));
    assert_string_equal(command.target, "-");
    assert_true(PARSE(&VERB, "--wh", "4", "--", "--on") && given.whole == 4); /* cut short; and after it no options */
    assert_string_equal(command.target, "--on");
    assert_true(PARSE(&VERB, "--", "-h") && !command.help);
    assert_string_equal(command.target, "-h");
    assert_refused(&VERB, "a.ini", "b.ini",
                   "one argument too many: \"b.ini\"; usage: ./train verb CONFIG.ini [options]");
    assert_refused(&BARE, "a.ini", NULL, "one argument too many: \"a.ini\"; usage: ./train bare [options]");
    assert_refused(&BARE, "a=1", NULL, "one argument too many: \"a=1\"; usage: ./train bare [options]");
    assert_refused(&PLAIN, "a.ini", "lr=1",
                   "one argument too many: \"lr=1\"; write --set train.lr=1 to set a key of the config");
    assert_refused(&PLAIN, "--quiet", NULL,
                   "nothing to do: usage: ./train CONFIG.ini [options], for example ./train configs/dk64_scaled.ini "
                   "(--help says more)");
}

/* An option that is the name of a key, and not of an option, is answered with the words that set the key. */
static void keys_as_options(void) {
    char option[64], words[64];
    for (size_t key = 0; key < config_key_count(); key++) {
        const char *full = config_key_name(key), *name = strchr(full, '.') + 1;
        snprintf(words, sizeof words, "--set %s=1", full);
        snprintf(option, sizeof option, "--%s=1", full);
        assert_that(!PARSE(&PLAIN, option) && strstr(err.message, words), "%s: %s", option, err.message);
        if (strcmp(name, "out") == 0) continue;
        snprintf(option, sizeof option, "--%s", name);
        assert_that(!PARSE(&PLAIN, option, "1") && strstr(err.message, words), "%s: %s", option, err.message);
    }
}

static void what_is_refused(void) {
    assert_refused(&VERB, "--onn", NULL, "there is no option --onn here: ./train verb --help lists them");
    assert_refused(&VERB, "--n", "1", "--n may mean --name or --number: write more of it");
    assert_refused(&VERB, "--n=1", NULL, "--n=1 may mean --name or --number: write more of it");
    assert_refused(
        &PLAIN, "--lr", "1",
        "there is no option --lr here: ./train --help lists them; to set a key of the config: --set train.lr=1");
    assert_refused(&PLAIN, "-x", NULL, "there is no option -x here: ./train --help lists them");
    assert_refused(&PLAIN, "-qx", NULL, "there is no option -qx here: ./train --help lists them");
    assert_refused(&PLAIN, "-set", NULL, "there is no option -set here: ./train --help lists them");
    assert_refused(&PLAIN, "-:", NULL, "there is no option -: here: ./train --help lists them");
    assert_refused(&VERB, "--on=1", NULL, "--on takes no value");
    assert_refused(&VERB, "--directory", NULL, "--directory needs a value: --directory DIR");
    assert_refused(&VERB, "--directory=", NULL, "--directory takes a path");
    assert_refused(&VERB, "--directory", "", "--directory takes a path");
    assert_refused(&VERB, "--name", "--on",
                   "--name needs a value, and --on looks like an option: write --name=--on if that is meant");
    static const char *const whole[] = {"1", "65", "", "x", "3x", "2.5", "99999999999999999999"};
    static const char *const number[] = {"-1", "1000001", "", "x", "3x", "nan", "inf"};
    char message[200];
    for (size_t i = 0; i < COUNT_OF(whole); i++) {
        snprintf(message, sizeof message, "--whole takes a whole number from 2 to 64, not \"%s\"", whole[i]);
        assert_refused(&VERB, "--whole", whole[i], message);
        snprintf(message, sizeof message, "--number takes a number from 0 to 1000000, not \"%s\"", number[i]);
        assert_refused(&VERB, "--number", number[i], message);
    }
    assert_refused(&VERB, "--seed", "9223372036854775808",
                   "--seed takes a whole number from 0 to 9223372036854775807, not \"9223372036854775808\"");
}

static void help(void) {
    const Verb verb = {
        .name = "verb", .what = "Does it.", .options = OPTIONS + 5, .settings_meant = config_settings_meant};
    verb_print_help(&verb, print_into());
    assert_string_equal(what_was_printed(), "usage: ./train verb [options]\nDoes it.\n\n"
                                            "  --seed S           as large as it gets\n"
                                            "  --number A-VERY-LONG-NAME\n"
                                            "                     with a point\n"
                                            "  --set SECTION.KEY=VALUE\n"
                                            "                     set a key of the config; may be repeated\n"
                                            "  --threads N        threads (default: one per processor)\n"
                                            "  -q, --quiet        no messages and no progress line\n"
                                            "  -h, --help         print this text\n");
}

/* The program's name is shown as it was typed, without directories if that is long, and made plain. */
static void the_name(void) {
    static const struct {
        const char *typed, *shown;
    } cases[] = {{"sqrtdk", "sqrtdk"},
                 {"../main/train", "../main/train"},
                 {"/a/path/that/is/far/too/long/train", "train"},
                 {"/usr/local/bin/a-very-long-name-of-a-program", "a-very-long-name-of-a-p"},
                 {"\033[1mx", "?[1mx"},
                 {"./train", "./train"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        program_set_name(cases[i].typed);
        assert_string_equal(program_name, cases[i].shown);
        char usage[80];
        snprintf(usage, sizeof usage, "%s bare [options]", cases[i].shown);
        assert_string_equal(verb_usage(&BARE), usage);
    }
}

/* A command that is printed for the user is read by a shell as it is meant: the words come out again. */
static void commands_to_copy(void) {
    static const char *const paths[][2] = {{"runs/a=b+c,d:1.0_x-2", "resume runs/a=b+c,d:1.0_x-2"},
                                           {"runs/my run", "resume 'runs/my run'"},
                                           {"it's", "resume 'it'\\''s'"},
                                           {"", "resume ''"},
                                           {"-x", "resume ./-x"},
                                           {"- x", "resume ./'- x'"},
                                           {"$HOME`ls`;a&b|c>d*?[e]\\!#~{f}\n\t\"", NULL},
                                           {"größe", "resume größe"}};
    program_set_name("./my train");
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        const char *const path = paths[i][0], *const printed = command_to_copy("resume", path);
        char script[512], words[512] = "", expected[512];
        assert_int_equal(strncmp(printed, "'./my train' ", 13), 0);
        if (paths[i][1]) assert_string_equal(printed + 13, paths[i][1]);
        snprintf(script, sizeof script, "printf '%%s|' %s", printed);
        FILE *shell = popen(script, "r");
        assert_non_null(shell);
        assert_true(fread(words, 1, sizeof words - 1, shell) > 0);
        assert_int_equal(pclose(shell), 0);
        snprintf(expected, sizeof expected, "./my train|resume|%s%s|", *path == '-' ? "./" : "", path);
        assert_string_equal(words, expected);
    }
    program_set_name("./train");
    assert_string_equal(command_to_copy(NULL, "a b.ini"), "./train 'a b.ini'");
}

int main(void) {
    return RUN_TESTS(TEST(every_kind), TEST(what_verbs_share), TEST(where_words_stand), TEST(what_is_refused),
                     TEST(keys_as_options), TEST(help), TEST(the_name), TEST(commands_to_copy));
}
