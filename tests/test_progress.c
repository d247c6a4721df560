/* The output of a terminal, here a pseudo-terminal, during a run. None of it reaches a file. */
#include "support.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/command.h"
#include "show/progress.h"

static int screen = -1; /* what is written to the terminal comes out here */
static FILE *terminal;

static int enter(void **state) {
    (void)state;
    struct termios raw;
    setenv("TERM", "xterm", 1);
    screen = posix_openpt(O_RDWR | O_NOCTTY);
    const char *name = screen >= 0 && grantpt(screen) == 0 && unlockpt(screen) == 0 ? ptsname(screen) : NULL;
    terminal = name ? fopen(name, "w") : NULL;
    if (!terminal) return 0; /* NEED_TERMINAL says so */
    if (tcgetattr(fileno(terminal), &raw) != 0) return 1;
    cfmakeraw(&raw); /* a line end stays one character */
    return tcsetattr(fileno(terminal), TCSANOW, &raw) != 0;
}
static int leave(void **state) {
    support_release(state);
    const bool closed = !terminal || fclose(terminal) == 0;
    return screen >= 0 && close(screen) != 0 ? 1 : !closed;
}
/* A system without pseudo-terminals, such as a container without /dev/pts. */
#define NEED_TERMINAL()                                                                                                \
    if (!terminal) skip()

/* A pseudo-terminal delivers what was written in parts and late: a mark after it shows that this was all. */
static void assert_shows(const char *expected) {
    enum { MARK = '\a' };
    char got[1000];
    size_t size = 0;
    assert_true(fputc(MARK, terminal) == MARK && fflush(terminal) == 0);
    do {
        assert_true(size < sizeof got);
        assert_int_equal(read(screen, got + size, 1), 1);
    } while (got[size++] != MARK);
    got[size - 1] = 0;
    assert_string_equal(got, expected);
}

static void one_line_over_another(void) {
    NEED_TERMINAL();
    Progress *p = progress_make(terminal, false);
    Progress *recall = progress_make(terminal, false);
    progress_update(recall, 1, 120, 1000, 0.01, 0.02, 0.9984, 64); /* after an evaluation that took long */
    assert_shows("\rstep 120/1000  train 0.010  accuracy 0.998");
    progress_update(recall, 2, 121, 1000, 0.01, 0.02, 0.9984, 64);
    assert_shows("\rstep 121/1000  train 0.010  accuracy 0.998");
    progress_clear(recall);
    assert_shows("\r                                          \r");
    progress_update(recall, 3, 221, 1000, 0.01, 0.02, 0.9984, 64);
    assert_shows("\rstep 221/1000  train 0.010  accuracy 0.998  6.4k tokens/s  0:08 left");
    progress_update(p, 0, 0, 1000, 2.31, 2.4, NAN, 3510);
    assert_shows("\rstep 0/1000  train 2.310  val 2.400");
    progress_update(p, 0.1, 20, 1000, 2.31, 2.4, NAN, 3510); /* too soon */
    progress_update(p, 10.1, 120, 1000, 2.31, 2.4, NAN, 3510);
    assert_shows("\rstep 120/1000  train 2.310  val 2.400  35.1k tokens/s  1:28 left");
    progress_update(p, 10.2, 121, 1000, 2.31, 2.4, NAN, 3510); /* too soon */
    assert_shows("");
    progress_update(p, 20.1, 220, 1000, NAN, NAN, NAN, 3510);
    assert_shows("\rstep 220/1000  35.1k tokens/s  1:18 left"
                 "                        "); /* the rest of the longer one */
    progress_message(p, "step %d", 122);
    assert_shows("\r                                        \rstep 122\n");
    progress_message(p, "again");
    assert_shows("again\n");
    assert_true(progress_is_due(p, 22));
    progress_line(p, "12/58 tensors");
    assert_shows("\r12/58 tensors");
    assert_true(progress_is_due(p, 23));
    assert_false(progress_is_due(p, 23.2));
    progress_line(p, "3 of 4 runs");
    assert_shows("\r3 of 4 runs  ");
    progress_clear(p);
    assert_shows("\r           \r");
    progress_clear(p);
    assert_shows("");
}

/* As by an error. */
static void wiped_when_released(void) {
    NEED_TERMINAL();
    Progress *p = progress_make(terminal, false);
    progress_line(p, "3 of 4 runs");
    memory_free(p);
    assert_shows("\r3 of 4 runs\r           \r");
}

static void set_width(unsigned short columns) {
    const struct winsize size = {.ws_row = 24, .ws_col = columns};
    assert_int_equal(ioctl(screen, TIOCSWINSZ, &size), 0);
}

/* The line is cut, since a line that wraps could not be overwritten; where the terminal does not say its width, that
   is 80. */
static void never_wider_than_a_terminal(void) {
    NEED_TERMINAL();
    char expected[] = "\rstep 1000000000000000000/1000000000000000000  train 1234567890.000  val 1234567890.000";
    Progress *p = progress_make(terminal, false);
    progress_update(p, 0, 1000000000000000000, 1000000000000000000, 1234567890, 1234567890, NAN, 35100);
    expected[80] = 0;
    assert_shows(expected);
}

/* The line is as wide as the terminal at each update: the rest of a line from before a resize must not wrap either. */
static void follows_a_resize(void) {
    NEED_TERMINAL();
    Progress *p = progress_make(terminal, false);
    set_width(100);
    progress_line(p, "twenty characters...twenty characters...twenty characters...twenty characters...ten more..");
    assert_shows("\rtwenty characters...twenty characters...twenty characters...twenty characters...ten more..");
    set_width(30);
    progress_line(p, "twenty characters...twenty characters...");
    assert_shows("\rtwenty characters...twenty ch");
    set_width(11);
    progress_line(p, "3 of 4");
    assert_shows("\r3 of 4    ");
    set_width(60);
    progress_line(p, "twenty characters...twenty characters...");
    assert_shows("\rtwenty characters...twenty characters...");
    set_width(6);
    progress_message(p, "a message is whole");
    assert_shows("\r     \ra message is whole\n");
}

/* Names may hold anything. */
static void messages_are_plain(void) {
    NEED_TERMINAL();
    Progress *p = progress_make(terminal, false);
    progress_message(p, "into %s", "a\nb\033]0;title\a\302\2332J\342\200\256√é");
    assert_shows("into a?b?]0;title??2J?√é\n");
}

/* An error ends in lines of whole words; one word may be longer than the terminal is wide. */
static void a_message_breaks_between_words(void) {
    NEED_TERMINAL();
    set_width(20);
    const int before = dup(STDERR_FILENO);
    dup2(fileno(terminal), STDERR_FILENO);
    program_print_error("", "cannot read runs/of/a/long/name/run.json: √d_k is 8");
    dup2(before, STDERR_FILENO);
    close(before);
    assert_shows("./train: cannot read\nruns/of/a/long/name/run.json:\n√d_k is 8\n");
}

static void quiet_is_silent(void) {
    NEED_TERMINAL();
    Progress *p = progress_make(terminal, true);
    progress_update(p, 0, 1, 2, 3, 4, NAN, 5);
    assert_false(progress_is_due(p, 1));
    progress_message(p, "nothing");
    progress_clear(p);
    assert_shows("");
}

static void a_dumb_terminal_gets_messages_only(void) {
    NEED_TERMINAL();
    for (int unset = 0; unset < 2; unset++) {
        setenv("TERM", "dumb", 1);
        if (unset) unsetenv("TERM");
        Progress *p = progress_make(terminal, false);
        progress_update(p, 0, 1, 2, 3, 4, NAN, 5);
        progress_message(p, "whole lines");
        assert_shows("whole lines\n");
    }
}

static void a_file_gets_messages_only(void) {
    Progress *p = progress_make(print_into(), false);
    progress_update(p, 0, 1, 2, 3, 4, NAN, 5);
    progress_message(p, "whole lines");
    progress_clear(p);
    assert_string_equal(what_was_printed(), "whole lines\n");
}

static void durations(void) {
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0:00"},       {59.4, "0:59"},        {75, "1:15"}, {3599, "59:59"}, {3599.6, "1:00:00"},
                 {3675, "1:01:15"}, {360000, "100:00:00"}, {NAN, "?"},   {-1, "?"},       {INFINITY, "?"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[32];
        progress_duration(cases[i].seconds, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void) {
#define TERMINAL_TEST(function) TEST_WITH(function, enter, leave)
    return RUN_TESTS(TERMINAL_TEST(one_line_over_another), TERMINAL_TEST(wiped_when_released),
                     TERMINAL_TEST(never_wider_than_a_terminal), TERMINAL_TEST(follows_a_resize),
                     TERMINAL_TEST(messages_are_plain), TERMINAL_TEST(a_message_breaks_between_words),
                     TERMINAL_TEST(quiet_is_silent), TERMINAL_TEST(a_dumb_terminal_gets_messages_only),
                     TEST(a_file_gets_messages_only), TEST(durations));
}
