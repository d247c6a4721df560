/* Texts: fields of CSV, lines, digits. Characters are in test_data.c, messages in test_errors.c. */
#include "support.h"

#include "base/text.h"

static void fields_of_tables(void) {
    static const struct {
        const char *text, *as_needed, *always;
    } cases[] = {{"", "", "\"\""},
                 {"plain text", "plain text", "\"plain text\""},
                 {"a,b", "\"a,b\"", "\"a,b\""},
                 {"\"a\"", "\"\"\"a\"\"\"", "\"\"\"a\"\"\""},
                 {"a\nb", "\"a\nb\"", "\"a\nb\""}};
    for (size_t i = 0; i < 2 * COUNT_OF(cases); i++) {
        char *text;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        text_write_field(cases[i / 2].text, i % 2, out);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, i % 2 ? cases[i / 2].always : cases[i / 2].as_needed);
        free(text);
    }
}

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

/* A column of numbers has equal digits, and no decimal point without any behind it. */
static void digits_of_numbers(void) {
    static const struct {
        double number;
        int digits;
        const char *text;
    } cases[] = {{1, 4, "1.000"},     {.99961, 4, "0.9996"}, {1024, 4, "1024"},
                 {1e5, 2, "1.0e+05"}, {0, 3, "0.00"},        {2e-9, 2, "2.0e-09"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[32];
        text_digits(cases[i].number, cases[i].digits, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void) {
    return RUN_TESTS(TEST(fields_of_tables), TEST(appended_text_is_cut_off), TEST(lines_of_a_text),
                     TEST(digits_of_numbers));
}
