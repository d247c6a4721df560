/* Texts: what is appended, lines. Characters are in test_data.c, messages in test_errors.c. */
#include "support.h"

#include "base/text.h"

static void appended_text_is_cut_off(void) {
    char out[8] = "";
    text_append(out, sizeof out, "%d", 12);
    text_append(out, sizeof out, "; %s", "three");
    assert_string_equal(out, "12; thr");
    text_append(out, sizeof out, "more");
    assert_string_equal(out, "12; thr");
}

static void lines_of_a_text(void) {
    static const struct {
        const char *text, *line, *next;
        size_t columns;
    } cases[] = {{"aa bb cc", "aa bb", "cc", 5},
                 {"aa bb cc", "aa", "bb cc", 4},
                 {"aa  bb   cc", "aa  bb", "cc", 6},
                 {"longer x", "longer", "x", 3},
                 {"÷ √d 8", "÷ √d", "8", 4},
                 {"aa bb", "aa bb", "", 5},
                 {"", "", "", 5}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t line;
        assert_string_equal(text_next_line(cases[i].text, cases[i].columns, &line), cases[i].next);
        assert_int_equal(line, strlen(cases[i].line));
        assert_memory_equal(cases[i].text, cases[i].line, line);
    }
    char lines[64] = "";
    FILE *file = fmemopen(lines, sizeof lines, "w");
    text_write_lines("broken into  lines", 6, file);
    text_write_lines("or  into none", SIZE_MAX, file);
    fclose(file);
    assert_string_equal(lines, "broken\ninto\nlines\nor  into none\n");
}

int main(void) { return RUN_TESTS(TEST(appended_text_is_cut_off), TEST(lines_of_a_text)); }
