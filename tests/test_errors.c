/* Errors, and the blocks that they release. */
#include "support.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/text.h"

static void messages(void) {
    (void)works(error_raise(STATUS_USAGE, "%s: %d", "a\nb\tc\033[1m\x7f\r", 5));
    assert_int_equal(err.status, STATUS_USAGE);
    assert_string_equal(err.message, "a?b?c?[1m??: 5");
    (void)works(error_raise(STATUS_FAILED, "√d_k = %s", "é"));
    assert_int_equal(err.status, STATUS_FAILED);
    assert_string_equal(err.message, "√d_k = é");
    (void)works(error_raise(STATUS_FAILED, "%s",
                            "\302\233"
                            "31m \342\200\256\342\201\246\342\200\250\330\234 \377\303"));
    assert_string_equal(err.message, "?31m ???? ??"); /* C1, bidi, a line separator, no UTF-8 */
    (void)works(error_raise(STATUS_USAGE, "−1"));
    assert_string_equal(err.message, "−1; it has the character U+2212, which is not ASCII");
    (void)works(error_raise(STATUS_USAGE, "the character '−' (U+2212) is not in the text")); /* which says so already */
    assert_string_equal(err.message, "the character '−' (U+2212) is not in the text");
    char text[sizeof err.message + 100];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    (void)works(error_raise(STATUS_FAILED, "%s", text)); /* what is too long is cut */
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    text[2 * 4096] = 0;
    (void)works(error_raise(STATUS_FAILED, "cannot read %s: no such file", text));
    assert_string_equal(err.message + strlen(err.message) - 18, "xxxx: no such file");
    (void)works(error_raise(STATUS_FAILED, "%s", ""));
    assert_string_equal(err.message, "");
    (void)works(error_raise(STATUS_USAGE, "reason"));
    const Error reason = err;
    (void)works(error_raise(reason.status, "line 7: %s", reason.message)); /* words put before it */
    assert_int_equal(err.status, STATUS_USAGE);
    assert_string_equal(err.message, "line 7: reason");
}

/* A disk, a server or a signal that fails a call is no mistake of the user. */
static void statuses(void) {
    static const int lasting[] = {ENOENT, ENOTDIR, EACCES, ENOLCK}, passing[] = {EIO, ESTALE, EINTR, ENOMEM, ETIMEDOUT};
    for (size_t i = 0; i < COUNT_OF(lasting); i++) assert_int_equal(error_status(lasting[i]), STATUS_USAGE);
    for (size_t i = 0; i < COUNT_OF(passing); i++) assert_int_equal(error_status(passing[i]), STATUS_FAILED);
}

/* The blocks that were undone, a letter each, in order. */
static char undone[16];
static void note_undone(void *block) { text_append(undone, sizeof undone, "%c", *(char *)block); }
static void fail_undone(void *block) {
    note_undone(block);
    runtime_error("while undoing %c", *(char *)block);
}
/* Makes a block that notes when it is undone, and fails then if its letter is a capital. */
static char *make_letter(char letter) {
    char *block = memory_make_with_undo(1, letter < 'a' ? fail_undone : note_undone, "a letter");
    *block = letter;
    return block;
}

static void return_only(void *argument) { *(int *)argument += 1; }
static void make_z(void *argument) {
    (void)argument;
    make_letter('z');
}
static void fail_with_letters(void *argument) {
    make_letter('b');
    memory_make(100, 1, "a block without an undo");
    make_letter('C');
    memory_free(make_letter('d'));
    make_letter('E');
    usage_error("the first of %s", (const char *)argument);
}

/* An error releases what was made since the innermost protect, the newest first, also where an undo fails. */
static void protected_calls(void) {
    int calls = 0;
    Error error = {STATUS_FAILED, "old"};
    *undone = 0;
    make_letter('a');
    assert_true(protect(return_only, &calls, &error));
    assert_true(calls == 1 && error.status == STATUS_OK && !*error.message);
    assert_null(innermost_protection);
    assert_false(protect(fail_with_letters, "many\n", &error));
    assert_null(innermost_protection);
    assert_null(jump_target);
    assert_string_equal(undone, "dECb");
    assert_int_equal(error.status, STATUS_USAGE);
    assert_string_equal(error.message, "the first of many?");
    const size_t mark = memory_mark();
    assert_true(protect(make_z, NULL, &error)); /* what a call makes stays if it returns */
    assert_string_equal(undone, "dECb");
    memory_release(mark);
    assert_string_equal(undone, "dECbz");
    memory_release(0);
    assert_string_equal(undone, "dECbza");
}

static void catch_and_wrap(void *argument) {
    Error error;
    make_letter('o');
    assert_false(protect(fail_with_letters, argument, &error));
    assert_string_equal(undone, "dECb"); /* the outer one's is still there */
    error_raise(error.status, "line 7: %s", error.message);
}
static void catch_and_raise_again(void *argument) {
    Error error;
    assert_false(protect(catch_and_wrap, argument, &error));
    make_letter('r');
    error_raise_again(&error);
}
static void fail_after_a_protect(void *argument) {
    Error error;
    assert_true(protect(return_only, argument, &error));
    runtime_error("behind it");
}

/* Protects may be nested: an error ends the innermost one that has not ended. */
static void nested_protects(void) {
    int calls = 0;
    Error error;
    *undone = 0;
    assert_false(protect(catch_and_raise_again, "two", &error));
    assert_string_equal(undone, "dECbor");
    assert_int_equal(error.status, STATUS_USAGE);
    assert_string_equal(error.message, "line 7: the first of two");
    assert_false(protect(fail_after_a_protect, &calls, &error));
    assert_true(calls == 1 && error.status == STATUS_FAILED);
    assert_string_equal(error.message, "behind it");
    assert_null(innermost_protection);
}

/* An undo may protect a call itself, and make and free blocks. */
static void protect_in_undo(void *block) {
    Error error;
    const size_t mark = memory_mark();
    note_undone(block);
    assert_false(protect(fail_with_letters, "an undo", &error));
    memory_make(1, 10, "what an undo needs");
    memory_release(mark);
}
static void fail_over_such_an_undo(void *argument) {
    (void)argument;
    make_letter('f');
    char *block = memory_make_with_undo(1, protect_in_undo, "a letter");
    *block = 'p';
    make_letter('g');
    runtime_error("the reason");
}
static void protects_in_undos(void) {
    Error error;
    *undone = 0;
    assert_false(protect(fail_over_such_an_undo, NULL, &error));
    assert_string_equal(undone, "gpdECbf");
    assert_string_equal(error.message, "the reason");
}

/* Without a protect an error prints its message and ends the program with its status; main's undos are not needed. */
static void fail_alone(void) { usage_error("no %s\n", "\033protect"); }
static void fail_within_a_region(void) {
#pragma omp parallel num_threads(1) /* in which omp_in_parallel is false */
    fail_alone();
}
static int child_of(void (*function)(void), char *message, size_t capacity) {
    int ends[2], how;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* not cmocka's */
        dup2(ends[1], STDERR_FILENO);
        function();
        _exit(0);
    }
    close(ends[1]);
    FILE *stream = fdopen(ends[0], "r");
    message[fread(message, 1, capacity - 1, stream)] = 0;
    fclose(stream);
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}
static void errors_without_a_protect(void) {
    char message[4096];
    int how = child_of(fail_alone, message, sizeof message);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == STATUS_USAGE);
    assert_string_equal(message, "no ?protect?\n");
    how = child_of(fail_within_a_region, message, sizeof message);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    assert_non_null(strstr(message, "omp_get_level"));
}

static void marks_and_releases(void) {
    *undone = 0;
    make_letter('a');
    const size_t outer = memory_mark();
    char *b = make_letter('b');
    const size_t inner = memory_mark();
    make_letter('c');
    memory_free(b); /* made before the mark, and freed out of order */
    assert_string_equal(undone, "b");
    make_letter('d');
    memory_release(inner);
    assert_string_equal(undone, "bdc");
    memory_release(inner); /* nothing is left */
    make_letter('e');
    assert_true(memory_mark() > inner);
    memory_release(outer);
    assert_string_equal(undone, "bdce");
    memory_release(0);
    assert_string_equal(undone, "bdcea");
    memory_free(NULL);
    assert_fails(STATUS_FAILED, "while undoing X", memory_free(make_letter('X'))); /* alone, an undo's error counts */
}

/* Without memory there is an error, and what was made before stays. */
static void blocks_too_large(void) {
    static const size_t sizes[][2] = {{SIZE_MAX, 1}, {SIZE_MAX / 2, 3}, {SIZE_MAX - 8, 1}, {PTRDIFF_MAX, 1}};
    const char *copy = memory_copy_text("copied", 4);
    assert_non_null(memory_make(0, 8, "nothing"));
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        assert_fails(STATUS_FAILED, "no memory for the test", memory_make(sizes[i][0], sizes[i][1], "the test"));
    assert_string_equal(copy, "copi");
}

int main(void) {
    return RUN_TESTS(TEST(messages), TEST(statuses), TEST(protected_calls), TEST(nested_protects),
                     TEST(protects_in_undos), TEST(errors_without_a_protect), TEST(marks_and_releases),
                     TEST(blocks_too_large));
}
