/* The arms of a sweep: one for each combination of its [sweep] section, with its resolved config, the name of its
   directory and the group it belongs to. Arms that differ in the seed alone are one group, over which means are taken;
   groups that differ in the divisor alone are compared with the one that divides by √d_k. */
#pragma once

#include "config/config.h"

enum { ARMS_MAX = 256, ARM_NAME = 200, GROUP_LABEL = 320 };

typedef struct {
    Config config;
    char name[ARM_NAME]; /* "scale_divisor=none+seed=1" */
    size_t same_as;      /* the first arm that trains the very same thing, whose run is this one's too; else itself */
    size_t group, seed;  /* its place in the group: which of the swept seeds it has */
} Arm;

typedef struct {
    char label[GROUP_LABEL];      /* for people: "÷ √d_k = 8, lr 0.001" */
    char legend[GROUP_LABEL];     /* the same, with the labels of the groups that are the same as this */
    size_t arm[SWEEP_VALUES_MAX]; /* (count): by seed */
    size_t count;
    size_t same_as;   /* the group whose arms are all of its own; else itself */
    size_t reference; /* the group that differs in the divisor alone and divides by √d_k, maybe itself; or NO_GROUP */
} Group;
#define NO_GROUP ((size_t)-1)

typedef struct {
    const Config *config; /* of the sweep */
    size_t count, group_count;
    Arm *arms;
    Group *groups;
} Arms;

/* Two combinations are the same when their resolved configs are, but for the divisor, and the multipliers agree to the
   bit: with d_k = 4, dk and 2sqrt_dk. Errors have status STATUS_USAGE: no [sweep], too many combinations, a
   combination that is no valid config. The config must outlive the arms. Free with arms_free, also after a failure. */
bool arms_make(Arms *arms, const Config *config, Error *err);
void arms_free(Arms *arms);

/* How many runs there are: arms that are the same as no other. */
size_t arms_runs(const Arms *arms);

/* A swept key in names and as a column: "scale_divisor", or with its section where the short name is also that of
   another swept key or of a column of summary.csv. */
const char *arms_key(const Config *config, size_t axis);
/* Whether a swept key is this one, "section.key". */
bool arms_axis_is(const Config *config, size_t axis, const char *name);
#define SCALE_KEY "attention.scale_divisor"
/* Which of its values a group has for a swept key, counted from 0; 0 for the seed, which differs within a group. */
size_t arms_digit(const Config *config, size_t group, size_t axis);
/* Whether two groups have the same values for every swept key but one. */
bool arms_agree_but(const Config *config, size_t axis, size_t a, size_t b);
/* For people: what a group shares with those that differ from it in the key `without` alone, and its divisor. The
   divisor is without its value where d_k differs among the arms. The first is empty when the divisor was all that was
   swept. */
void arms_label(const Arms *arms, size_t group, size_t without, char label[GROUP_LABEL]);
void arms_divisor_label(const Arms *arms, size_t group, char label[GROUP_LABEL]);

/* The columns of summary.csv behind the arm and the swept keys, each between two commas. */
extern const char SUMMARY_COLUMNS[];
