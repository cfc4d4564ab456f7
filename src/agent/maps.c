/* Reads /proc/self/maps, and saves the content of shared mappings, which a fork does not copy. */

#include "agent/agent.h"
#include "agent/sys.h"

#define DOUBLED "/memfd:doublemapper"
#define RUN_BYTES ((uint64_t)1 << 20)

static const char *hex(const char *p, const char *end, uint64_t *ret)
{
	uint64_t v = 0;
	for (; p < end; p++) {
		if (*p >= '0' && *p <= '9')
			v = v * 16 + (uint64_t)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			v = v * 16 + (uint64_t)(*p - 'a' + 10);
		else
			break;
	}
	*ret = v;
	return p;
}

/* start-end rwxp offset device inode      path */
bool map_next(const char **at, const char *end, struct map *ret)
{
	const char *p = *at;
	p = hex(p, end, &ret->start);
	p = hex(p < end ? p + 1 : p, end, &ret->end);
	if (end - p < 8)
		return false;
	ret->read = p[1] == 'r';
	ret->write = p[2] == 'w';
	ret->shared = p[4] == 's';
	p = hex(p + 6, end, &ret->offset);
	for (int words = 0; words < 2; words++) {
		while (p < end && *p == ' ')
			p++;
		while (p < end && *p != ' ' && *p != '\n')
			p++;
	}
	while (p < end && *p == ' ')
		p++;
	ret->path = p;
	while (p < end && *p != '\n')
		p++;
	if (p == end)
		return false; /* a line that is cut off */
	ret->path_len = (size_t)(p - ret->path);
	*at = p + 1;
	return ret->start < ret->end;
}

static size_t length(const char *s)
{
	size_t n = 0;
	while (s[n])
		n++;
	return n;
}

bool map_ends(const struct map *m, const char *suffix)
{
	size_t n = length(suffix);
	return m->path_len >= n && !memcmp(m->path + m->path_len - n, suffix, n);
}

bool map_starts(const struct map *m, const char *prefix)
{
	size_t n = length(prefix);
	return m->path_len >= n && !memcmp(m->path, prefix, n);
}

/* "/proc/self/fd/N" is another descriptor of the same file: one with a place of its own. */
static void open_if_doubled(void *user, int n)
{
	char path[64], leads_to[64];
	int *found = user;
	struct map m = { .path = leads_to };
	if (*found >= 0)
		return;
	proc_descriptor_path(path, n);
	long len = sys_readlink(path, leads_to, sizeof(leads_to));
	m.path_len = len > 0 ? (size_t)len : 0;
	if (map_starts(&m, DOUBLED))
		*found = sys_open(path, 0);
}

int save_open(void)
{
	int found = -1;
	proc_each_descriptor(open_if_doubled, &found);
	return found;
}

static void save_run(struct save *s, uint64_t start, uint64_t len, uint64_t offset)
{
	if (s->n == s->cap || len > s->room - s->used ||
	    SYS(pread64, s->file, s->buffer + s->used, len, offset) != (long)len) {
		s->left += len;
		return;
	}
	s->list[s->n++] = (struct saved){ start, len, s->buffer + s->used };
	s->used += len;
}

/* From the file, not through the mapping: reading a page that was never used would create it. */
static void save_map(struct save *s, const struct map *m)
{
	for (uint64_t at = m->start; at < m->end; at += RUN_BYTES) {
		uint64_t len = m->end - at < RUN_BYTES ? m->end - at : RUN_BYTES;
		save_run(s, at, len, m->offset + (at - m->start));
	}
}

void save_shared(struct save *s, const char *maps, size_t len)
{
	const char *p = maps, *end = maps + len;
	s->n = 0;
	s->used = s->left = 0;
	for (struct map m; map_next(&p, end, &m);)
		if (m.shared && m.read && map_starts(&m, DOUBLED))
			save_map(s, &m);
}
