#include "agent/agent.h"
#include "agent/sys.h"
#include <sys/uio.h>

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

/* Through the kernel, which answers with an error where a plain read would be a fault. */
static bool copy_own(const struct save *s, void *to, uint64_t from, size_t n)
{
	struct iovec local = { to, n }, remote = { (void *)(uintptr_t)from, n };
	long self = SYS(getpid);
	return SYS(process_vm_readv, self, &local, 1, &remote, 1, 0) == (long)n ||
	       SYS(pread64, s->memory_fd, to, n, from) == (long)n;
}

static void save_run(struct save *s, uint64_t start, uint64_t len)
{
	if (s->n == s->cap || len > s->room - s->used || !copy_own(s, s->buffer + s->used, start, len)) {
		s->left += len;
		return;
	}
	s->list[s->n++] = (struct saved){ start, len, s->buffer + s->used };
	s->used += len;
}

/* Only what is there: a page that was never touched would come to be by being read. */
static void save_map(struct save *s, const struct map *m)
{
	uint8_t there[1024];
	const uint64_t page = s->page;
	for (uint64_t at = m->start; at < m->end;) {
		size_t pages = (size_t)((m->end - at) / page), run = 0;
		if (pages > sizeof(there))
			pages = sizeof(there);
		if (SYS(mincore, at, pages * page, there) == 0)
			for (size_t i = 0; i <= pages; i++) {
				if (i < pages && (there[i] & 1)) {
					run++;
				} else if (run) {
					save_run(s, at + (i - run) * page, run * page);
					run = 0;
				}
			}
		at += pages * page;
	}
}

void save_shared(struct save *s, const char *maps, size_t len)
{
	const char *p = maps, *end = maps + len;
	s->n = 0;
	s->used = s->left = 0;
	for (struct map m; map_next(&p, end, &m);)
		if (m.shared && m.read && map_starts(&m, "/memfd:doublemapper"))
			save_map(s, &m);
}
