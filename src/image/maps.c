#include "image/maps.h"
#include "base/chroot.h"
#include "image/internal.h"
#include <string.h>
#include <sys/sysmacros.h>

static bool take_hex(const char **p, const char *end, char stop, uint64_t *ret)
{
	uint64_t v = 0;
	const char *s = *p;
	for (; s < end && *s != stop; s++) {
		int digit = *s >= '0' && *s <= '9' ? *s - '0' : *s >= 'a' && *s <= 'f' ? *s - 'a' + 10 : -1;
		if (digit < 0 || v >> 60)
			return false;
		v = v << 4 | (unsigned)digit;
	}
	if (s == *p || s >= end)
		return false;
	*p = s + 1;
	*ret = v;
	return true;
}

static bool take_decimal(const char **p, const char *end, uint64_t *ret)
{
	uint64_t v = 0;
	const char *s = *p;
	for (; s < end && *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (unsigned)(*s - '0');
	if (s == *p)
		return false;
	*p = s;
	*ret = v;
	return true;
}

bool maps_next(const char **text, const char *end, struct maps_line *ret)
{
	const char *p = *text, *newline = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
	uint64_t major, minor, ino;
	if (!newline)
		return false;
	if (!take_hex(&p, newline, '-', &ret->start) || !take_hex(&p, newline, ' ', &ret->end) || newline - p < 5)
		return false;
	memcpy(ret->prot, p, 4);
	p += 5;
	if (!take_hex(&p, newline, ' ', &ret->offset) || !take_hex(&p, newline, ':', &major) ||
	    !take_hex(&p, newline, ' ', &minor) || !take_decimal(&p, newline, &ino))
		return false;
	while (p < newline && *p == ' ')
		p++;
	ret->dev = makedev((unsigned)major, (unsigned)minor);
	ret->ino = ino;
	ret->path = p;
	ret->path_len = (size_t)(newline - p);
	*text = newline + 1;
	return true;
}

static bool path_starts(const struct maps_line *l, const char *prefix)
{
	size_t n = strlen(prefix);
	return l->path_len >= n && !memcmp(l->path, prefix, n);
}

static bool lives_in_memory(const struct maps_line *l)
{
	return path_starts(l, "/memfd:") || path_starts(l, "/dev/zero") || path_starts(l, "/SYSV") ||
	       path_starts(l, "/dev/shm/");
}

bool maps_runtime(const struct maps_line *line)
{
	static const char name[] = "/memfd:doublemapper";
	return line->path_len >= sizeof(name) - 1 && memcmp(line->path, name, sizeof(name) - 1) == 0;
}

bool maps_device(const struct maps_line *l)
{
	if (lives_in_memory(l))
		return false;
	return path_starts(l, "/dev/") || path_starts(l, "anon_inode:") || path_starts(l, "socket:") ||
	       path_starts(l, "[vvar") || path_starts(l, "[vsyscall") || path_starts(l, "/dmabuf:");
}

bool maps_shared(const struct maps_line *l)
{
	bool changes = l->prot[1] == 'w' || l->prot[2] == 'x' || lives_in_memory(l);
	return l->prot[3] == 's' && l->prot[0] == 'r' && changes && !maps_device(l);
}

void maps_add(struct image *img, const struct maps_line *l, const char *chroot)
{
	CLEANUP(mem_freep) char *path = mem_strndup(l->path, l->path_len);
	struct image_mapping m = { .start = l->start,
				   .end = l->end,
				   .offset = l->offset,
				   .prot = (uint8_t)((l->prot[0] == 'r' ? IMAGE_READ : 0) |
						     (l->prot[1] == 'w' ? IMAGE_WRITE : 0) |
						     (l->prot[2] == 'x' ? IMAGE_EXEC : 0)),
				   .shared = l->prot[3] == 's',
				   .path = arena_strdup(&img->arena, chroot_cut(chroot, path)) };
	vec_push(&img->mappings, m);
}
