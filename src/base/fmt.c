#include "base/fmt.h"
#include "base/clock.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void group_digits(char *out, size_t size, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	size_t o = 0;
	for (int i = 0; i < len && o + 2 < size; i++) {
		if (i && (len - i) % 3 == 0)
			out[o++] = ',';
		out[o++] = digits[i];
	}
	out[o] = '\0';
}

struct fmt_text fmt_count(uint64_t n)
{
	struct fmt_text t = { "" };
	group_digits(t.s, sizeof(t.s), n);
	return t;
}

struct fmt_text fmt_signed(int64_t n)
{
	struct fmt_text t = { "" };
	t.s[0] = n < 0 ? '-' : '+';
	group_digits(t.s + 1, sizeof(t.s) - 1, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
	return t;
}

/* Three significant digits, no trailing zeros after the point. */
static void three_digits(char *out, size_t size, double x)
{
	double a = fabs(x);
	if (a >= 99.95 || a == 0) {
		snprintf(out, size, "%.0f", x);
		return;
	}
	int places = a >= 9.995 ? 1 : a >= 0.9995 ? 2 : a >= 0.09995 ? 2 : a >= 0.009995 ? 3 : 4;
	if (a >= 0.9995 && a < 9.995)
		places = 1;
	snprintf(out, size, "%.*f", places, x);
	char *end = out + strlen(out) - 1;
	while (*end == '0')
		*end-- = '\0';
	if (*end == '.')
		*end = '\0';
}

struct fmt_text fmt_number(double x)
{
	struct fmt_text t = { "" };
	if (!isfinite(x)) {
		snprintf(t.s, sizeof(t.s), "unknown");
	} else if (fabs(x) >= 999.5 && fabs(x) < 1e18) {
		group_digits(t.s + (x < 0), sizeof(t.s) - 1, (uint64_t)(fabs(x) + 0.5));
		if (x < 0)
			t.s[0] = '-';
	} else {
		three_digits(t.s, sizeof(t.s), x);
	}
	return t;
}

static struct fmt_text with_unit(double x, const char *unit)
{
	struct fmt_text t = { "" };
	char number[24];
	three_digits(number, sizeof(number), x);
	snprintf(t.s, sizeof(t.s), "%s %s", number, unit);
	return t;
}

struct fmt_text fmt_bytes(uint64_t bytes)
{
	static const char *const units[] = { "KB", "MB", "GB", "TB", "PB", "EB" };
	if (bytes < 1024) {
		struct fmt_text t = { "" };
		snprintf(t.s, sizeof(t.s), "%u byte%s", (unsigned)bytes, bytes == 1 ? "" : "s");
		return t;
	}
	double x = (double)bytes / 1024;
	size_t unit = 0;
	while (x >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		x /= 1024;
		unit++;
	}
	return with_unit(x, units[unit]);
}

struct fmt_text fmt_duration_ns(uint64_t ns)
{
	struct fmt_text t = { "" };
	double s = (double)ns / NS_PER_S;
	if (ns < 1000)
		return with_unit((double)ns, "ns");
	if (ns < 999500)
		return with_unit((double)ns / NS_PER_US, "µs");
	if (ns < 999500000)
		return with_unit((double)ns / NS_PER_MS, "ms");
	if (s < 59.95)
		return with_unit(s, "s");
	uint64_t whole = (uint64_t)(s + 0.5);
	if (whole < 3600)
		snprintf(t.s, sizeof(t.s), whole % 60 ? "%u min %u s" : "%u min", (unsigned)(whole / 60),
			 (unsigned)(whole % 60));
	else if (whole < 86400)
		snprintf(t.s, sizeof(t.s), "%u h %u min", (unsigned)(whole / 3600), (unsigned)(whole / 60 % 60));
	else
		snprintf(t.s, sizeof(t.s), "%llu d %u h", (unsigned long long)(whole / 86400),
			 (unsigned)(whole / 3600 % 24));
	return t;
}

struct fmt_text fmt_percent(double ratio)
{
	struct fmt_text t = { "" };
	double p = ratio * 100;
	if (!isfinite(p))
		snprintf(t.s, sizeof(t.s), "unknown");
	else if (p > 0 && p < 0.01)
		snprintf(t.s, sizeof(t.s), "below 0.01 %%");
	else if (p > 99.5 && p < 100)
		return with_unit(floor(p * 10) / 10, "%"); /* never round up to all of it */
	else if (p >= 9.95)
		snprintf(t.s, sizeof(t.s), "%.0f %%", p);
	else
		return with_unit(p, "%");
	return t;
}

double fmt_estimate(double n)
{
	double unit = 1;
	while (n / unit >= 100)
		unit *= 10;
	return round(n / unit) * unit;
}

struct fmt_text fmt_rate(double per_second)
{
	struct fmt_text t = { "" }, n;
	bool slow = per_second > 0 && per_second < 0.1;
	n = fmt_number(slow ? per_second * 60 : per_second);
	snprintf(t.s, sizeof(t.s), slow ? "%.24s per min" : "%.24s/s", n.s);
	return t;
}

static struct fmt_text time_text(int64_t unix_ns, bool iso)
{
	struct fmt_text t = { "" };
	time_t seconds = (time_t)(unix_ns / NS_PER_S);
	struct tm tm;
	if (!gmtime_r(&seconds, &tm) || !(iso ? strftime(t.s, sizeof(t.s), "%Y-%m-%dT%H:%M:%S", &tm)
					      : strftime(t.s, sizeof(t.s), "%Y-%m-%d %H:%M:%S", &tm))) {
		snprintf(t.s, sizeof(t.s), "unknown time");
		return t;
	}
	size_t len = strlen(t.s);
	if (iso)
		snprintf(t.s + len, sizeof(t.s) - len, ".%03uZ", (unsigned)(unix_ns / NS_PER_MS % 1000));
	else
		snprintf(t.s + len, sizeof(t.s) - len, "Z");
	return t;
}

struct fmt_text fmt_time_utc(int64_t unix_ns)
{
	return time_text(unix_ns, false);
}

struct fmt_text fmt_time_iso(int64_t unix_ns)
{
	return time_text(unix_ns, true);
}

struct fmt_text fmt_plural(uint64_t n, const char *one, const char *many)
{
	struct fmt_text t = fmt_count(n);
	size_t len = strlen(t.s);
	snprintf(t.s + len, sizeof(t.s) - len, " %s", n == 1 ? one : many);
	return t;
}
