#pragma once
/* Failure as a value: a kind that decides exit code and HTTP status, and a sentence for a person.
 *
 * NULL is success. The caller owns what it gets and frees it or passes it up. Each layer may wrap once with what it
 * was doing; texts have no trailing full stop and no newline. */

#include "base/base.h"

enum err_kind {
	ERR_USAGE = 1,	 /* the caller's arguments are wrong */
	ERR_NOT_FOUND,	 /* no such target, session, file */
	ERR_DENIED,	 /* missing right */
	ERR_BUSY,	 /* another process or user holds it */
	ERR_UNSUPPORTED, /* this runtime, kernel or build does not support it */
	ERR_BAD_DATA,	 /* input is damaged or hostile */
	ERR_IO,		 /* a system call failed */
	ERR_TIMEOUT,	 /* no answer in time */
	ERR_CANCELLED,	 /* it was cancelled */
};

struct err;

struct err *err_new(enum err_kind kind, const char *fmt, ...) PRINTF(2, 3) MUST_USE;
/* "text: strerror(errnum)"; the kind follows from errnum. */
struct err *err_errno(int errnum, const char *fmt, ...) PRINTF(2, 3) MUST_USE;
/* "text: what it was"; keeps the kind. */
struct err *err_wrap(struct err *err, const char *fmt, ...) PRINTF(2, 3) MUST_USE;

enum err_kind err_kind(const struct err *err);
const char *err_text(const struct err *err);
/* A short stable word such as "not-found", for JSON. */
const char *err_kind_name(enum err_kind kind);
/* Frees; NULL is fine. */
void err_free(struct err *err);
DEFINE_CLEANUP(err_free, struct err *)
/* For failures during cleanup that change nothing for the caller. */
void err_ignore(struct err *err);

#define TRY(expr)                                                                                                      \
	do {                                                                                                           \
		struct err *try_err_ = (expr);                                                                         \
		if (try_err_)                                                                                          \
			return try_err_;                                                                               \
	} while (0)

#define TRY_WRAP(expr, ...)                                                                                            \
	do {                                                                                                           \
		struct err *try_err_ = (expr);                                                                         \
		if (try_err_)                                                                                          \
			return err_wrap(try_err_, __VA_ARGS__);                                                        \
	} while (0)
