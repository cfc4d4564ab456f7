#include "symbols/debug_file.h"
#include "base/fd.h"
#include "base/str.h"
#include "symbols/cache.h"
#include <fcntl.h>
#include <string.h>

static struct elf *try_open(int fd, const struct elf *elf)
{
	CLEANUP(elf_freep) struct elf *debug = NULL;
	struct err *err = elf_open(fd, &debug);
	bool usable = !err && elf_has_symtab(debug) && str_eq(elf_build_id(debug), elf_build_id(elf));
	err_ignore(err);
	return usable ? STEAL(debug) : NULL;
}

static struct elf *try_file(const char *root, const struct elf *elf, const char *path)
{
	CLOSE_FD int fd = *root ? file_open_below(root, path, O_RDONLY) : -1;
	if (fd < 0)
		fd = file_open_below("/", path, O_RDONLY);
	return fd < 0 ? NULL : try_open(fd, elf);
}

static struct elf *try_cache(const char *path, const struct elf *elf)
{
	struct symbol_file file;
	CLOSE_FD int fd = symbol_of_elf(SYMBOL_DEBUG, path, elf_build_id(elf), &file) ? symbol_cache_open(&file) : -1;
	return fd < 0 ? NULL : try_open(fd, elf);
}

struct elf *debug_file_find(const char *root, const char *path, const struct elf *elf)
{
	const char *id = elf_build_id(elf), *link = elf_debug_link(elf), *slash = strrchr(path, '/');
	if (elf_has_symtab(elf) || strlen(id) < 4 || !slash)
		return NULL;
	int dir = (int)(slash + 1 - path);
	char *tries[] = {
		mem_printf("/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2),
		mem_printf("%s.dbg", path),
		mem_printf("/usr/lib/debug%s.dbg", path),
		link ? mem_printf("%.*s%s", dir, path, link) : NULL,
		link ? mem_printf("%.*s.debug/%s", dir, path, link) : NULL,
		link ? mem_printf("/usr/lib/debug%.*s%s", dir, path, link) : NULL,
	};
	struct elf *debug = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		if (tries[i] && !debug)
			debug = try_file(root, elf, tries[i]);
		mem_free(tries[i]);
	}
	return debug ? debug : try_cache(path, elf);
}
