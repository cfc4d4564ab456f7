#include "symbols/code_map.h"
#include "base/cursor.h"
#include <string.h>

#define JITDUMP_MAGIC 0x4A695444u
enum { JIT_CODE_LOAD = 0 }; /* .NET moves no code */
#define ENTRIES_MAX 4000000
#define NAME_MAX_BYTES 16384

static bool hex(const char **p, const char *end, uint64_t *ret)
{
	const char *s = *p;
	if (end - s > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		s += 2;
	uint64_t v = 0;
	size_t digits = 0;
	for (; s < end; s++, digits++) {
		unsigned c = (unsigned char)*s, d;
		if (c >= '0' && c <= '9')
			d = c - '0';
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			d = (c | 32) - 'a' + 10;
		else
			break;
		v = v << 4 | d;
	}
	*p = s;
	*ret = v;
	return digits && digits <= 16;
}

static void parse_line(const char *p, const char *end, code_map_entry *entry, void *user)
{
	uint64_t start, size;
	if (!hex(&p, end, &start) || p == end || *p++ != ' ' || !hex(&p, end, &size) || p == end || *p++ != ' ')
		return;
	if (p < end && size)
		entry(user, start, size, p, MIN((size_t)(end - p), (size_t)NAME_MAX_BYTES));
}

void perf_map_parse(const char *text, size_t len, code_map_entry *entry, void *user)
{
	const char *end = text + len;
	for (size_t n = 0; text < end && n < ENTRIES_MAX; n++) {
		const char *line_end = memchr(text, '\n', (size_t)(end - text));
		/* A last line without its end is still being written. */
		if (!line_end)
			return;
		parse_line(text, line_end, entry, user);
		text = line_end + 1;
	}
}

static void parse_load(struct cursor *c, code_map_entry *entry, void *user)
{
	cursor_u64(c); /* pid and tid */
	cursor_u64(c); /* where it will lie: as the next */
	uint64_t address = cursor_u64(c), size = cursor_u64(c);
	cursor_u64(c); /* its number */
	if (!cursor_ok(c) || !size)
		return;
	size_t len = strnlen((const char *)c->p, cursor_left(c));
	entry(user, address, size, (const char *)c->p, MIN(len, (size_t)NAME_MAX_BYTES));
}

bool jitdump_parse(const void *bytes, size_t len, code_map_entry *entry, void *user)
{
	struct cursor c = cursor_make(bytes, len);
	uint32_t magic = cursor_u32(&c);
	cursor_u32(&c);
	uint32_t head = cursor_u32(&c);
	if (!cursor_ok(&c) || magic != JITDUMP_MAGIC || head < 40 || head > len)
		return false;
	c = cursor_make((const uint8_t *)bytes + head, len - head);
	for (size_t n = 0; cursor_left(&c) >= 16 && n < ENTRIES_MAX; n++) {
		struct cursor r = c;
		uint32_t id = cursor_u32(&r), size = cursor_u32(&r);
		cursor_u64(&r);
		if (size < 16 || size > cursor_left(&c))
			break;
		r.end = c.p + size;
		if (id == JIT_CODE_LOAD)
			parse_load(&r, entry, user);
		c.p += size;
	}
	return true;
}

static const char *find(const char *s, const char *end, const char *what)
{
	size_t n = strlen(what);
	for (; (size_t)(end - s) >= n; s++) {
		if (!memcmp(s, what, n))
			return s;
	}
	return NULL;
}

bool code_name_split(const char *name, size_t len, struct buf *space, struct buf *method)
{
	const char *end = name + len, *colons = find(name, end, "::");
	if (!colons)
		return false;
	/* Behind the assembly in brackets. */
	const char *type = colons;
	while (type > name + 1 && !(type[-1] == ' ' && type[-2] == ']'))
		type--;
	if (type <= name + 1)
		type = name;
	const char *rest = colons + 2, *args = memchr(rest, '(', (size_t)(end - rest));
	buf_add(space, type, (size_t)(colons - type));
	buf_add(method, rest, (size_t)((args ? args : end) - rest));
	return colons > type && (args ? args : end) > rest;
}
