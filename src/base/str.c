#include "base/str.h"
#include "base/clock.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

bool str_eq(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

bool str_eq_nocase(const char *a, const char *b)
{
	return a && b ? !strcasecmp(a, b) : a == b;
}

bool str_starts(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

bool str_ends(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);
	return n >= m && !memcmp(s + n - m, suffix, m);
}

bool str_contains_nocase(const char *s, const char *part)
{
	size_t m = strlen(part);
	for (; strlen(s) >= m; s++) {
		if (!strncasecmp(s, part, m))
			return true;
		if (!*s)
			break;
	}
	return false;
}

#define TYPED_MAX 40

size_t str_distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), rows[3][TYPED_MAX + 1];
	if (n > TYPED_MAX || m > TYPED_MAX)
		return SIZE_MAX;
	for (size_t k = 0; k <= m; k++)
		rows[0][k] = k;
	for (size_t i = 1; i <= n; i++) {
		size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *over = rows[(i + 1) % 3];
		row[0] = i;
		for (size_t k = 1; k <= m; k++) {
			bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[k - 1]);
			bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
			size_t one_less = MIN(above[k], row[k - 1]) + 1, changed = above[k - 1] + !same;
			row[k] = MIN(one_less, changed);
			if (swapped)
				row[k] = MIN(row[k], over[k - 2] + 1);
		}
	}
	return rows[n % 3][m];
}

void guess_name(struct guess *g, const char *name)
{
	bool begins = strlen(g->word) >= 3 && str_starts(name, g->word);
	size_t distance = begins ? 1 : str_distance(g->word, name);
	if (distance < g->least && (begins || distance * 3 <= strlen(g->word))) {
		g->least = distance;
		g->best = name;
	}
}

void str_copy(char *dst, size_t size, const char *src)
{
	size_t n = MIN(strlen(src), size - 1);
	memcpy(dst, src, n);
	dst[n] = '\0';
}

bool str_to_u64(const char *s, uint64_t *ret)
{
	if (!s || *s < '0' || *s > '9')
		return false;
	char *end;
	errno = 0;
	unsigned long long v = strtoull(s, &end, 10);
	if (errno || *end)
		return false;
	*ret = v;
	return true;
}

bool str_to_i64(const char *s, int64_t *ret)
{
	if (!s)
		return false;
	const char *digits = *s == '-' ? s + 1 : s;
	if (*digits < '0' || *digits > '9')
		return false;
	char *end;
	errno = 0;
	long long v = strtoll(s, &end, 10);
	if (errno || *end)
		return false;
	*ret = v;
	return true;
}

bool str_to_double(const char *s, double *ret)
{
	/* Plain decimal only: strtod would also take "inf", "nan", hexadecimal and leading blanks. */
	if (!s || !*s || strspn(s, "0123456789+-.eE") != strlen(s))
		return false;
	char *end;
	errno = 0;
	double v = strtod(s, &end);
	if (*end || end == s || !isfinite(v))
		return false;
	*ret = v;
	return true;
}

bool str_to_bool(const char *s, bool *ret)
{
	static const char *const yes[] = { "true", "1", "yes", "on" }, *const no[] = { "false", "0", "no", "off" };
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (str_eq_nocase(s, yes[i]) || str_eq_nocase(s, no[i])) {
			*ret = str_eq_nocase(s, yes[i]);
			return true;
		}
	}
	return false;
}

bool str_to_duration_ms(const char *s, uint64_t *ret)
{
	static const struct {
		const char *unit;
		double ms;
	} units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "min", 60000 }, { "h", 3600000 }, { "", 1000 } };
	if (!s)
		return false;
	size_t digits = strspn(s, "0123456789.");
	char number[32];
	if (!digits || digits >= sizeof(number))
		return false;
	memcpy(number, s, digits);
	number[digits] = '\0';
	double v;
	if (!str_to_double(number, &v))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (!str_eq(s + digits, units[i].unit))
			continue;
		double ms = v * units[i].ms;
		if (ms > 1e15)
			return false;
		*ret = (uint64_t)(ms + 0.5);
		return true;
	}
	return false;
}

/* "1.5" and the rest; false unless it begins with a number that is not negative. */
static bool split_number(const char *word, double *ret_number, const char **ret_unit)
{
	size_t len = strspn(word, "0123456789.");
	CLEANUP(mem_freep) char *digits = mem_strndup(word, len);
	*ret_unit = word + len;
	return len && str_to_double(digits, ret_number);
}

bool str_to_age_ns(const char *word, uint64_t *ret)
{
	double n;
	const char *unit;
	uint64_t ms;
	if (!split_number(word, &n, &unit))
		return false;
	if (str_eq(unit, "d") || str_eq(unit, "w")) {
		double ns = n * (double)(24 * 3600 * NS_PER_S) * (unit[0] == 'w' ? 7 : 1);
		*ret = ns < 9e18 ? (uint64_t)ns : (uint64_t)9e18;
		return true;
	}
	/* A number without a unit would be seconds, which is never meant here. */
	if (!*unit || !str_to_duration_ms(word, &ms))
		return false;
	*ret = MIN(ms, (uint64_t)9e12) * NS_PER_MS;
	return true;
}

bool str_to_bytes(const char *word, uint64_t *ret)
{
	static const char units[] = "KMGT";
	double n;
	const char *unit;
	if (!split_number(word, &n, &unit))
		return false;
	const char *at = *unit ? strchr(units, *unit & ~0x20) : NULL;
	if (*unit && (!at || (unit[1] && !str_eq(unit + 1, "B"))))
		return false;
	if (at)
		n = ldexp(n, 10 * (int)(at - units + 1));
	if (n > 9e18)
		return false;
	*ret = (uint64_t)n;
	return true;
}

size_t utf8_decode(const char *s, size_t len, uint32_t *ret_cp)
{
	const uint8_t *p = (const uint8_t *)s;
	if (!len)
		return 0;
	if (p[0] < 0x80) {
		*ret_cp = p[0];
		return 1;
	}
	size_t n = p[0] >= 0xf0 && p[0] <= 0xf4	 ? 4
		   : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
		   : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
						 : 0;
	if (!n || n > len)
		return 0;
	uint32_t cp = p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (p[i] & 0x3f);
	}
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return 0;
	*ret_cp = cp;
	return n;
}

void utf8_encode(struct buf *out, uint32_t cp)
{
	char b[4];
	if (cp < 0x80) {
		buf_char(out, (char)cp);
	} else if (cp < 0x800) {
		b[0] = (char)(0xc0 | cp >> 6);
		b[1] = (char)(0x80 | (cp & 0x3f));
		buf_add(out, b, 2);
	} else if (cp < 0x10000) {
		b[0] = (char)(0xe0 | cp >> 12);
		b[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		b[2] = (char)(0x80 | (cp & 0x3f));
		buf_add(out, b, 3);
	} else {
		b[0] = (char)(0xf0 | cp >> 18);
		b[1] = (char)(0x80 | (cp >> 12 & 0x3f));
		b[2] = (char)(0x80 | (cp >> 6 & 0x3f));
		b[3] = (char)(0x80 | (cp & 0x3f));
		buf_add(out, b, 4);
	}
}

struct cp_range {
	uint32_t from, to;
};

static bool in_ranges(uint32_t cp, const struct cp_range *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (cp >= r[i].from && cp <= r[i].to)
			return true;
	}
	return false;
}

/* Control, bidi, zero-width, line and paragraph separators, variation selectors, tags: nothing a reader would see. */
bool cp_is_invisible(uint32_t cp)
{
	static const struct cp_range hidden[] = {
		{ 0, 0x1f },	    { 0x7f, 0x9f },	{ 0xad, 0xad },	    { 0x61c, 0x61c },
		{ 0x180e, 0x180e }, { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f },
		{ 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff }, { 0xfff0, 0xfffb }, { 0xe0000, 0xe0fff },
	};
	return in_ranges(cp, hidden, ARRAY_SIZE(hidden));
}

void str_add_visible(struct buf *out, const char *s, size_t len, size_t max_chars)
{
	size_t chars = 0;
	for (size_t i = 0; i < len; chars++) {
		if (max_chars && chars == max_chars) {
			buf_str(out, "…");
			return;
		}
		uint32_t cp;
		size_t n = utf8_decode(s + i, len - i, &cp);
		if (!n)
			buf_printf(out, "\\x%02x", (uint8_t)s[i]);
		else if (cp_is_invisible(cp))
			buf_printf(out, "\\u{%x}", cp);
		else
			buf_add(out, s + i, n);
		i += n ? n : 1;
	}
}

static bool is_frame(const char *line, size_t len)
{
	return (len > 3 && str_starts(line, "at ")) || (len > 3 && str_starts(line, "---"));
}

void str_add_message(struct buf *out, const char *s, size_t max_chars)
{
	static const char *const blanks = " \t\r\n";
	for (s += strspn(s, blanks); *s; s += strspn(s, blanks)) {
		size_t len = strcspn(s, "\r\n"), shown = 0;
		const char *rest = s + len;
		while (len && strchr(blanks, s[len - 1]))
			len--;
		if (is_frame(s, len)) {
			s = rest;
			continue;
		}
		uint32_t cp;
		for (size_t n = 0; n < max_chars && shown < len; n++)
			shown += utf8_decode(s + shown, len - shown, &cp) ?: 1;
		buf_add(out, s, shown);
		if (shown < len || rest[strspn(rest, blanks)])
			buf_str(out, "…");
		return;
	}
}

size_t utf8_width(const char *s)
{
	static const struct cp_range wide[] = {
		{ 0x1100, 0x115f },   { 0x2e80, 0x303e },   { 0x3041, 0xa4cf },	  { 0xac00, 0xd7a3 },
		{ 0xf900, 0xfaff },   { 0xfe30, 0xfe6f },   { 0xff00, 0xff60 },	  { 0xffe0, 0xffe6 },
		{ 0x1f300, 0x1f64f }, { 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd },
	};
	static const struct cp_range zero[] = { { 0x300, 0x36f },   { 0x483, 0x489 },	{ 0x591, 0x5bd },
						{ 0x610, 0x61a },   { 0x64b, 0x65f },	{ 0x1ab0, 0x1aff },
						{ 0x1dc0, 0x1dff }, { 0x20d0, 0x20ff }, { 0xfe20, 0xfe2f } };
	size_t width = 0, len = strlen(s);
	for (size_t i = 0; i < len;) {
		uint32_t cp;
		size_t n = utf8_decode(s + i, len - i, &cp);
		i += n ? n : 1;
		if (n && in_ranges(cp, zero, ARRAY_SIZE(zero)))
			continue;
		width += n && in_ranges(cp, wide, ARRAY_SIZE(wide)) ? 2 : 1;
	}
	return width;
}

void utf8_add_valid(struct buf *out, const char *s, size_t len)
{
	for (size_t i = 0; i < len;) {
		uint32_t cp;
		size_t n = utf8_decode(s + i, len - i, &cp);
		if (n)
			buf_add(out, s + i, n);
		else
			buf_str(out, "\xef\xbf\xbd");
		i += n ? n : 1;
	}
}

static uint32_t unit_at(const uint8_t *units, size_t i)
{
	return (uint32_t)units[2 * i] | (uint32_t)units[2 * i + 1] << 8;
}

/* Most text is ASCII: those units are written straight into the buffer. Returns how many were taken. */
static size_t add_ascii_units(struct buf *out, const uint8_t *units, size_t n_units)
{
	char *room = buf_room(out, n_units);
	size_t n = 0;
	for (; room && n < n_units && units[2 * n] < 0x80 && !units[2 * n + 1]; n++)
		room[n] = (char)units[2 * n];
	if (room) {
		room[n] = '\0';
		out->len += n;
	}
	return n;
}

void utf16_add(struct buf *out, const uint8_t *units, size_t n_units)
{
	for (size_t i = add_ascii_units(out, units, n_units); i < n_units; i++) {
		uint32_t cp = unit_at(units, i);
		if (cp >= 0xd800 && cp < 0xe000) {
			uint32_t low = i + 1 < n_units ? unit_at(units, i + 1) : 0;
			if (cp < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
				cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
				i++;
			} else {
				cp = 0xfffd;
			}
		}
		utf8_encode(out, cp);
	}
}

static void add_unit(struct buf *out, uint32_t unit)
{
	char b[2] = { (char)(unit & 0xff), (char)(unit >> 8) };
	buf_add(out, b, 2);
}

void utf16_from_utf8(struct buf *out, const char *s)
{
	size_t len = strlen(s);
	for (size_t i = 0; i < len;) {
		uint32_t cp;
		size_t n = utf8_decode(s + i, len - i, &cp);
		if (!n)
			cp = 0xfffd;
		i += n ? n : 1;
		if (cp >= 0x10000) {
			add_unit(out, 0xd800 + ((cp - 0x10000) >> 10));
			add_unit(out, 0xdc00 + ((cp - 0x10000) & 0x3ff));
		} else {
			add_unit(out, cp);
		}
	}
}
