#pragma once
/* The words that open a server: made, checked, and kept in a file of the home so that a link that was opened once goes
 * on working after a restart. Knows nothing of requests. Any thread. */

#include "base/err.h"

#define TOKEN_BYTES 24
#define TOKEN_LEN ((size_t)2 * TOKEN_BYTES)

struct err *token_make(char ret[TOKEN_LEN + 1]) MUST_USE;
/* Long enough, and without what a header or a cookie could not carry. ERR_USAGE; `what` is named in it. */
struct err *token_check(const char *token, const char *what) MUST_USE;
/* The one of this file, which is made with a new one in it when it is not there. ERR_DENIED when the file is a link, or
 * belongs to somebody else, or somebody else could read it: then it is no secret, and nothing of it is used. The caller
 * frees. */
struct err *token_keep(const char *path, char **ret) MUST_USE;
