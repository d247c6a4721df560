/* The page with the table of claims. */
#define NAME sqrtdk_claims
#define PATH "docs/claims.md"
#include "base/embed.inc"
