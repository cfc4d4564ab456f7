#pragma once
/* What every unit test includes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include <stdio.h>
#include <unistd.h>

/* A new folder in memory where there is such a place: thousands of small synced files are slow on a disk. */
static inline void unit_temp_dir(char *ret, size_t size)
{
	snprintf(ret, size, "%s/drdotnet-test-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(ret));
}

/* Fails with the error's text. */
#define assert_ok(expr)                                                                                                \
	do {                                                                                                           \
		struct err *ok_err_ = (expr);                                                                          \
		if (ok_err_)                                                                                           \
			fail_msg("%s: %s", #expr, err_text(ok_err_));                                                  \
	} while (0)

/* Fails unless it fails with that kind; frees the error. */
#define assert_err(expr, want)                                                                                         \
	do {                                                                                                           \
		struct err *bad_err_ = (expr);                                                                         \
		if (!bad_err_)                                                                                         \
			fail_msg("%s: no error", #expr);                                                               \
		if (err_kind(bad_err_) != (want))                                                                      \
			fail_msg("%s: %s: %s", #expr, err_kind_name(err_kind(bad_err_)), err_text(bad_err_));          \
		err_free(bad_err_);                                                                                    \
	} while (0)
