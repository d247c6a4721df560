/* The C library's, and a function that it lacks. */
#pragma once
#include_next <unistd.h>

int dup2(int from, int to);
