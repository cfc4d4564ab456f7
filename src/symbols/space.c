#include "symbols/space.h"
#include "base/chroot.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "symbols/bundle.h"
#include "symbols/debug_file.h"
#include "symbols/demangle.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define MAPS_BYTES_MAX ((size_t)64 << 20)
#define REREAD_NS (50 * NS_PER_MS)
#define OBJECTS_MAX 8192
#define VDSO_BYTES_MAX 65536
#define PE_BYTES_MAX ((uint64_t)1 << 30)

struct space {
	pid_t pid;
	struct space_source source; /* instead of it */
	VEC(struct space_map) maps;
	VEC(struct space_object *) objects;
	struct strtab paths;  /* id = index in objects */
	struct bundle bundle; /* of a single-file program */
	char *program;	      /* its path */
	char *chroot;
	bool knows_program;
	uint64_t read_ns;
	struct buf text;
};

struct space *space_new(pid_t pid)
{
	struct space *s = mem_zalloc(sizeof(*s));
	s->pid = pid;
	return s;
}

struct space *space_new_from(const struct space_source *source)
{
	struct space *s = space_new(0);
	s->source = *source;
	return s;
}

static bool is_live(const struct space *s)
{
	return s->pid || s->source.read;
}

static void close_pe(struct space_object *o)
{
	mem_free(o->pe);
	o->pe = NULL;
	filemap_close(&o->file);
}

static void object_free(struct space_object *o)
{
	elf_free(o->elf);
	elf_free(o->debug);
	close_pe(o);
	mem_free(o->path);
	mem_free(o);
}

void space_free(struct space *s)
{
	if (!s)
		return;
	vec_each(o, &s->objects)
		object_free(*o);
	vec_free(&s->objects);
	vec_free(&s->maps);
	strtab_free(&s->paths);
	bundle_free(&s->bundle);
	mem_free(s->program);
	mem_free(s->chroot);
	buf_free(&s->text);
	mem_free(s);
}

static struct space_object *object_of(struct space *s, const char *named)
{
	const char *path = chroot_cut(s->chroot ? s->chroot : "", named);
	/* What the runtime's JIT maps twice comes as a file without a name. */
	if ((*path != '/' && !str_eq(path, "[vdso]")) || str_starts(path, "/memfd:") || str_starts(path, "/dev/"))
		return NULL;
	uint32_t id = strtab_find(&s->paths, path, strlen(path));
	if (id != STRTAB_NONE)
		return s->objects.v[id];
	if (s->objects.n >= OBJECTS_MAX)
		return NULL;
	strtab_add_cstr(&s->paths, path);
	struct space_object *o = mem_zalloc(sizeof(*o));
	o->path = mem_strdup(path);
	const char *slash = strrchr(o->path, '/');
	o->name = slash ? slash + 1 : o->path;
	vec_push(&s->objects, o);
	return o;
}

/* Files in a single-file program do not begin at pages: of two that share one, the mapping belongs to the one that has
 * more of it. What is before all of them is the program itself: NULL. */
static const struct bundle_file *part_at(const struct space *s, uint64_t offset, uint64_t len)
{
	const struct bundle_file *best = NULL;
	uint64_t most = 0, first = UINT64_MAX;
	vec_each(f, &s->bundle) {
		uint64_t begin = MAX(offset, f->offset), end = MIN(offset + len, f->offset + f->size);
		first = MIN(first, f->offset);
		if (f->packed || begin >= end || end - begin <= most)
			continue;
		most = end - begin;
		best = f;
	}
	return offset < first && first - offset >= most ? NULL : best;
}

static struct space_object *mapped_object(struct space *s, const char *path, uint64_t offset, uint64_t len)
{
	const struct bundle_file *part = s->program && str_eq(path, s->program) ? part_at(s, offset, len) : NULL;
	if (!part)
		return object_of(s, path);
	CLEANUP(mem_freep) char *inside = mem_printf("%s/%s", path, part->path);
	struct space_object *o = object_of(s, inside);
	if (o) {
		o->part_offset = part->offset;
		o->part_size = part->size;
	}
	return o;
}

static void add_map(struct space *s, char *line)
{
	unsigned long long start, end, offset;
	char rights[8];
	int at = 0;
	if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %n", &start, &end, rights, &offset, &at) < 4 || !at)
		return;
	struct space_object *o = mapped_object(s, line + at, offset, end - start);
	vec_push(&s->maps, ((struct space_map){ .start = start,
						.end = end,
						.offset = offset - (o ? o->part_offset : 0),
						.exec = rights[2] == 'x',
						.object = o }));
}

/* Once: a process that becomes another program is not looked at any longer. */
static void read_program(struct space *s)
{
	char link[64], path[4096];
	if (s->knows_program || !s->pid)
		return;
	s->knows_program = true;
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)s->pid);
	CLOSE_FD int fd = file_open_regular(link, O_RDONLY);
	ssize_t len = readlink(link, path, sizeof(path));
	struct err *err = fd >= 0 ? bundle_open(fd, &s->bundle) : NULL;
	if (len > 0 && (size_t)len < sizeof(path) && s->bundle.n)
		s->program = mem_strndup(path, (size_t)len);
	err_ignore(err);
}

static struct err *read_text(struct space *s)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)s->pid);
	if (!s->source.open) {
		mem_free(s->chroot);
		s->chroot = chroot_of(s->pid);
		return file_read(path, MAPS_BYTES_MAX, &s->text);
	}
	CLOSE_FD int fd = s->source.open(s->source.user, "/proc/self/maps");
	return fd < 0 ? NULL : file_read_fd(fd, "its mappings", MAPS_BYTES_MAX, &s->text);
}

static void read_maps(struct space *s)
{
	s->read_ns = clock_mono_ns();
	read_program(s);
	buf_clear(&s->text);
	struct err *err = read_text(s);
	/* Of a process that is gone we keep what we knew. */
	if (!err && s->text.len) {
		vec_clear(&s->maps);
		char *save = NULL;
		for (char *line = strtok_r(s->text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
			add_map(s, line);
	}
	err_ignore(err);
	buf_free(&s->text);
}

void space_look(struct space *s)
{
	if (s->pid)
		read_maps(s);
}

static const struct space_map *find_known(const struct space *s, uint64_t address)
{
	size_t low = 0, high = s->maps.n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (s->maps.v[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low && address < s->maps.v[low - 1].end ? &s->maps.v[low - 1] : NULL;
}

const struct space_map *space_find(struct space *s, uint64_t address)
{
	const struct space_map *map = find_known(s, address);
	if (map || !is_live(s) || clock_mono_ns() - s->read_ns < REREAD_NS)
		return map;
	read_maps(s);
	return find_known(s, address);
}

bool space_read(struct space *s, uint64_t address, void *out, size_t len)
{
	struct iovec ours = { out, len }, its = { (void *)(uintptr_t)address, len };
	if (s->source.read)
		return s->source.read(s->source.user, address, out, len);
	return s->pid && process_vm_readv(s->pid, &ours, 1, &its, 1, 0) == (ssize_t)len;
}

/* --- files --- */

static int regular(int opened)
{
	CLOSE_FD int fd = opened;
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -1;
	return fd_steal(&fd);
}

/* By the mapping itself where we may: that is the right file even when its path now names another one. */
static int open_mapped(const struct space *s, const struct space_map *map)
{
	char path[96];
	if (s->source.open)
		return regular(s->source.open(s->source.user, map->object->path));
	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)s->pid, (unsigned long long)map->start,
		 (unsigned long long)map->end);
	int fd = file_open_regular(path, O_RDONLY);
	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)s->pid);
	return file_open_below(path, map->object->path, O_RDONLY);
}

static void open_pe(struct space_object *o, int fd)
{
	struct err *err = filemap_open(fd, PE_BYTES_MAX, &o->file);
	err_ignore(err);
	if (err)
		return;
	o->pe = mem_zalloc(sizeof(*o->pe));
	bool there = o->part_offset <= o->file.len && o->part_size <= o->file.len - o->part_offset;
	if (!there || !pe_parse(o->file.bytes + o->part_offset, o->part_size ? o->part_size : o->file.len, o->pe))
		close_pe(o);
}

static void open_vdso(struct space *s, const struct space_map *map)
{
	size_t len = (size_t)(map->end - map->start);
	if (len > VDSO_BYTES_MAX)
		return;
	void *bytes = mem_alloc(len);
	if (space_read(s, map->start, bytes, len))
		err_ignore(elf_from_bytes(bytes, len, &map->object->elf));
	else
		mem_free(bytes);
}

static void notice_shrunk(struct space_object *o)
{
	bool pe = filemap_shrunk(&o->file);
	o->shrunk |= pe || (o->elf && elf_shrunk(o->elf)) || (o->debug && elf_shrunk(o->debug));
	if (pe)
		close_pe(o);
}

struct space_object *space_open(struct space *s, const struct space_map *map)
{
	struct space_object *o = map->object;
	if (!o)
		return NULL;
	if (o->opened) {
		notice_shrunk(o);
		return o;
	}
	o->opened = true;
	if (*o->path != '/') {
		open_vdso(s, map);
		return o;
	}
	CLOSE_FD int fd = open_mapped(s, map);
	if (fd < 0)
		return o;
	if (o->part_size) {
		open_pe(o, fd);
		return o;
	}
	struct err *err = elf_open(fd, &o->elf);
	char root[64] = "";
	if (s->pid)
		snprintf(root, sizeof(root), "/proc/%d/root", (int)s->pid);
	if (err)
		open_pe(o, fd);
	else
		o->debug = debug_file_find(root, o->path, o->elf);
	err_ignore(err);
	return o;
}

bool space_symbol(struct space *s, const struct space_map *map, uint64_t address, struct buf *out)
{
	struct space_object *o = space_open(s, map);
	uint64_t va;
	if (!o || !o->elf || !elf_va(o->elf, address - map->start + map->offset, &va))
		return false;
	const char *name = elf_symbol(o->elf, o->debug, va);
	if (name)
		demangle_add(out, name);
	else
		notice_shrunk(o);
	return name != NULL;
}

size_t space_n_objects(const struct space *s)
{
	return s->objects.n;
}

const struct space_object *space_object(const struct space *s, size_t i)
{
	return s->objects.v[i];
}
