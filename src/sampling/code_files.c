#include "sampling/code_files.h"
#include "base/fd.h"
#include "base/str.h"
#include "symbols/code_map.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)512 << 20)

struct taking {
	struct methods *methods;
	struct buf space, name;
	size_t n;
};

/* "Shop.Orders.Place": the last part is the method's. */
static void split_plain(const char *name, size_t len, struct taking *t)
{
	size_t dot = len;
	while (dot && name[dot - 1] != '.')
		dot--;
	buf_clear(&t->space);
	buf_clear(&t->name);
	buf_add(&t->space, name, dot ? dot - 1 : 0);
	buf_add(&t->name, name + dot, len - dot);
}

static void take(void *user, uint64_t start, uint64_t size, const char *name, size_t len)
{
	struct taking *t = user;
	buf_clear(&t->space);
	buf_clear(&t->name);
	if (size > UINT32_MAX)
		return;
	if (!code_name_split(name, len, &t->space, &t->name)) {
		/* Stubs have no name that says anything; else it is a plain name, as we write them ourselves. */
		if (len >= 5 && !memcmp(name, "stub ", 5))
			return;
		split_plain(name, len, t);
	}
	methods_add(t->methods, start, (uint32_t)size, buf_cstr(&t->space), buf_cstr(&t->name));
	t->n++;
}

static bool read_below(const char *root, const char *path, struct buf *out)
{
	CLOSE_FD int fd = file_open_below(root, path, O_RDONLY);
	for (ssize_t n = 1; fd >= 0 && n > 0;) {
		char *room = buf_room(out, 65536);
		n = room ? read(fd, room, 65536) : 0;
		out->len += n > 0 ? (size_t)n : 0;
	}
	return out->len > 0;
}

static size_t read_one(const char *root, const char *path, bool dump, struct methods *methods)
{
	struct taking t = { .methods = methods };
	CLEANUP(buf_free) struct buf bytes = { .limit = FILE_BYTES_MAX };
	if (read_below(root, path, &bytes)) {
		if (dump)
			jitdump_parse(bytes.data, bytes.len, take, &t);
		else
			perf_map_parse(bytes.data, bytes.len, take, &t);
	}
	buf_free(&t.space);
	buf_free(&t.name);
	return t.n;
}

size_t code_files_read(const struct target *target, struct methods *methods)
{
	char root[64];
	CLEANUP(mem_freep) char *folder = target_env(target, "DOTNET_PerfMapJitDumpPath");
	const char *where = str_empty(folder) ? "/tmp" : folder;
	CLEANUP(mem_freep) char *dump = mem_printf("%s/jit-%d.dump", where, (int)target->ns_pid);
	CLEANUP(mem_freep) char *map = mem_printf("%s/perf-%d.map", where, (int)target->ns_pid);
	snprintf(root, sizeof(root), "/proc/%d/root", (int)target->pid);
	size_t n = read_one(root, dump, true, methods);
	return n + read_one(root, map, false, methods);
}

size_t code_file_map(const char *folder, uint32_t pid, struct methods *methods)
{
	char name[40];
	snprintf(name, sizeof(name), "perf-%u.map", pid);
	return read_one(folder, name, false, methods);
}
