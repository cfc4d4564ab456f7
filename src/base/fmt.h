#pragma once
/* Numbers as people read them: "1,204,311", "310 MB", "6.2 ms", "0.15 %". One place, so that every report agrees.
 *
 * At most three significant digits except for counts. Powers of 1024 are written MB as in every .NET tool. The result
 * is a struct with the text, so a call may be an argument of printf: fmt_bytes(n).s */

#include "base/base.h"

struct fmt_text {
	char s[40];
};

struct fmt_text fmt_count(uint64_t n);	       /* 1,204,311 */
struct fmt_text fmt_signed(int64_t n);	       /* +1,204 or -3 */
struct fmt_text fmt_bytes(uint64_t bytes);     /* 310 MB, 4.4 MB, 812 bytes */
struct fmt_text fmt_duration_ns(uint64_t ns);  /* 940 ns, 6.2 ms, 12.3 s, 2 min 5 s, 3 h 12 min */
struct fmt_text fmt_percent(double ratio);     /* of 1.0: "77 %", "0.15 %", "below 0.01 %" */
struct fmt_text fmt_number(double x);	       /* 3 significant digits, thousands separated */
struct fmt_text fmt_rate(double per_second);   /* "412/s", "0.3/s", "2 per min" */
struct fmt_text fmt_time_utc(int64_t unix_ns); /* 2026-11-15 03:12:09Z */
struct fmt_text fmt_time_iso(int64_t unix_ns); /* 2026-11-15T03:12:09.123Z */
/* An estimate rounded to two digits, since it is no more precise than that: 1234 -> 1200. */
double fmt_estimate(double n);
/* "1 pause", "14 pauses"; irregular plurals are given. */
struct fmt_text fmt_plural(uint64_t n, const char *one, const char *many);
