/* Options: every kind, its bounds, and what is said of a wrong one. The program's own are in test_cli.sh. */
#include "support.h"

#include "base/options.h"

enum { ONE = 1, OTHER = 2 };
typedef struct {
    bool on;
    const char *text, *other;
    OptionList list;
    long long whole, seed;
    double number;
} Said;
#define MEMBER(name) offsetof(Said, name)
static const Option OPTIONS[] = {
    {"--on", NULL, "a switch", OPTION_SWITCH, MEMBER(on), 0, 0, ONE | OTHER},
    {"--name", "TEXT", "of the first verb", OPTION_TEXT, MEMBER(text), 0, 0, ONE},
    {"--name", "DIR", "of the other verb", OPTION_DIRECTORY, MEMBER(other), 0, 0, OTHER},
    {"--each", "ITEM", "again and again", OPTION_LIST, MEMBER(list), 0, 0, ONE},
    {"--whole", "N", "within bounds", OPTION_WHOLE, MEMBER(whole), 2, 64, ONE},
    {"--seed", "S", "as large as it gets", OPTION_WHOLE, MEMBER(seed), 0, INT64_MAX, ONE},
    {"--number", "A-VERY-LONG-NAME", "with a point", OPTION_NUMBER, MEMBER(number), 0, 1e6, ONE},
};
static Said said;
static Error err;

static bool take(unsigned verb, const char *first, const char *second) {
    char *words[] = {"prog", (char *)first, (char *)second, NULL};
    int i = 1;
    bool taken = options_take(OPTIONS, COUNT_OF(OPTIONS), verb, "prog", second ? 3 : 2, words, &i, &said, &err);
    if (taken) assert_int_equal(i, second ? 2 : 1); /* the value's word is taken, too */
    return taken;
}
static void assert_refused(unsigned verb, const char *first, const char *second, const char *message) {
    const Said before = said;
    assert_that(!take(verb, first, second), "accepted: %s", first);
    assert_int_equal(err.status, STATUS_USAGE);
    assert_string_equal(err.message, message);
    assert_memory_equal(&before, &said, sizeof said);
}

static void every_kind(void **state) {
    (void)state;
    said = (Said){0};
    assert_true(take(OTHER, "--on", NULL) && said.on);
    assert_true(take(ONE, "--name", "") && *said.text == 0 && said.other == NULL);
    assert_true(take(OTHER, "--name=a=b", NULL));
    assert_string_equal(said.other, "a=b");
    assert_true(take(ONE, "--name", "-x") && take(ONE, "--name=--on", NULL));
    assert_string_equal(said.text, "--on");
    assert_true(take(ONE, "--whole", "2") && said.whole == 2 && take(ONE, "--whole=64", NULL) && said.whole == 64);
    assert_true(take(ONE, "--seed", "9223372036854775807") && said.seed == INT64_MAX);
    assert_true(take(ONE, "--number", "2.5e3") && said.number == 2500 && take(ONE, "--number=0", NULL));
    for (size_t i = 0; i < OPTION_LIST_MAX; i++) assert_true(take(ONE, "--each", i ? "more" : "first"));
    assert_int_equal(said.list.count, OPTION_LIST_MAX);
    assert_string_equal(said.list.items[0], "first");
    assert_refused(ONE, "--each", "one", "more than 256 --each");
}

static void what_is_refused(void **state) {
    (void)state;
    said = (Said){0};
    assert_refused(OTHER, "--whole", "3", "there is no option --whole here: prog --help lists them");
    assert_refused(ONE, "--onn", NULL, "there is no option --onn here: prog --help lists them");
    assert_refused(ONE, "--o", NULL, "there is no option --o here: prog --help lists them");
    assert_refused(ONE, "--on=1", NULL, "--on takes no value");
    assert_refused(OTHER, "--name", NULL, "--name needs a value: --name DIR");
    assert_refused(OTHER, "--name=", NULL, "--name takes a directory");
    assert_refused(ONE, "--name", "--on",
                   "--name needs a value, and --on looks like an option: write --name=--on if it is meant");
    static const char *const whole[] = {"1", "65", "", "x", "3x", "2.5", "99999999999999999999"};
    static const char *const number[] = {"-1", "1000001", "", "x", "3x", "nan", "inf"};
    char message[200];
    for (size_t i = 0; i < COUNT_OF(whole); i++) {
        snprintf(message, sizeof message, "--whole takes a whole number from 2 to 64, not \"%s\"", whole[i]);
        assert_refused(ONE, "--whole", whole[i], message);
        snprintf(message, sizeof message, "--number takes a number from 0 to 1e+06, not \"%s\"", number[i]);
        assert_refused(ONE, "--number", number[i], message);
    }
    assert_refused(ONE, "--seed", "9223372036854775808",
                   "--seed takes a whole number from 0 to 9223372036854775807, not \"9223372036854775808\"");
}

static void help(void **state) {
    (void)state;
    char *text;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    options_print(OPTIONS, COUNT_OF(OPTIONS), OTHER, stream);
    options_print(OPTIONS + 6, 1, ONE, stream);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, "  --on               a switch\n"
                              "  --name DIR         of the other verb\n"
                              "  --number A-VERY-LONG-NAME\n"
                              "                     with a point\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
