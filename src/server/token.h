#pragma once
/* Access tokens of a server: made, checked, and kept in a file of the home so that a link still works after a restart.
 * Knows nothing of requests. Any thread. */

#include "base/err.h"

#define TOKEN_BYTES 24
#define TOKEN_LEN ((size_t)2 * TOKEN_BYTES)

struct err *token_make(char ret[TOKEN_LEN + 1]) MUST_USE;
/* Long enough, and without what a header or a cookie could not carry. ERR_USAGE; `what` is named in it. */
struct err *token_check(const char *token, const char *what) MUST_USE;
/* The token of this file, which is created with a new one when it does not exist. ERR_DENIED when the file is a link,
 * belongs to another user, or could be read by one: then it is no secret and is not used. The caller frees. */
struct err *token_keep(const char *path, char **ret) MUST_USE;
