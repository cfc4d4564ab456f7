#include "dac/missing.h"
#include "base/fd.h"
#include "base/str.h"
#include "dac/dac.h"
#include "image/image.h"
#include "symbols/debug_file.h"
#include "symbols/elffile.h"
#include "symbols/pdb.h"
#include "symbols/space.h"
#include "target/target.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define RUNTIME_FILE "libcoreclr.so"
#define PAGE_BYTES ((uint64_t)4096)
#define ASSEMBLY_BYTES_MAX ((uint64_t)256 << 20)

void dac_missing_fini(struct dac_missing *m)
{
	vec_free(&m->files);
	strtab_free(&m->keys);
}

static void add(struct dac_missing *m, const struct symbol_file *f)
{
	CLEANUP(buf_free) struct buf key = { 0 };
	symbol_key(f, &key);
	uint32_t id = strtab_add(&m->keys, key.data, key.len);
	if (id == m->files.n)
		vec_push(&m->files, *f);
}

/* ---- files ---- */

static void look_at_elf(struct dac_missing *m, const char *root, const char *path, const struct elf *elf)
{
	struct symbol_file f;
	if (!m->wanted[SYMBOL_DEBUG] || elf_has_symtab(elf))
		return;
	struct elf *debug = debug_file_find(root, path, elf);
	if (debug)
		m->here++;
	else if (symbol_of_elf(SYMBOL_DEBUG, path, elf_build_id(elf), &f))
		add(m, &f);
	elf_free(debug);
}

static enum pdb_state look_at_assembly(struct dac_missing *m, const struct pdb_assembly *a)
{
	struct symbol_file f;
	enum pdb_state state = m->wanted[SYMBOL_PDB] ? pdb_state(a, &f) : PDB_NONE;
	if (state == PDB_MISSING)
		add(m, &f);
	m->here += state == PDB_HERE;
	return state;
}

static void look_at(struct dac_missing *m, const char *root, const char *path)
{
	CLOSE_FD int fd = file_open_below(root, path, O_RDONLY);
	CLEANUP(elf_freep) struct elf *elf = NULL;
	struct err *err = fd >= 0 ? elf_open(fd, &elf) : NULL;
	if (elf)
		look_at_elf(m, root, path, elf);
	else if (fd >= 0)
		look_at_assembly(m, &(struct pdb_assembly){ .root = root, .path = path });
	err_ignore(err);
}

struct err *dac_missing_of_process(struct dac_missing *m, const struct target *target)
{
	CLEANUP(space_freep) struct space *space = space_new(target->pid);
	CLEANUP(mem_freep) char *root = mem_printf("/proc/%d/root", (int)target->pid);
	struct symbol_file f;
	space_look(space);
	if (!space_n_objects(space))
		return err_new(ERR_DENIED, "what process %d has mapped cannot be read", (int)target->pid);
	for (size_t i = 0; i < space_n_objects(space); i++)
		if (space_object(space, i)->path[0] == '/' && !space_object(space, i)->part_size)
			look_at(m, root, space_object(space, i)->path);
	if (m->wanted[SYMBOL_DAC] && dac_target_lacks(target, &f))
		add(m, &f);
	return NULL;
}

/* The library beside the runtime. */
static void look_beside(struct dac_missing *m, const char *path, const struct elf *elf)
{
	const char *slash = strrchr(path, '/');
	struct symbol_file f;
	if (!m->wanted[SYMBOL_DAC] || !str_eq(slash ? slash + 1 : path, RUNTIME_FILE))
		return;
	CLEANUP(mem_freep)
	char *beside = mem_printf("%.*s" DAC_LIBRARY, slash ? (int)(slash + 1 - path) : 0, path);
	if (access(beside, F_OK) && symbol_of_elf(SYMBOL_DAC, DAC_LIBRARY, elf_build_id(elf), &f))
		add(m, &f);
}

static bool is_core(int fd)
{
	Elf64_Ehdr h;
	return pread(fd, &h, sizeof(h), 0) == sizeof(h) && !memcmp(h.e_ident, ELFMAG, SELFMAG) && h.e_type == ET_CORE;
}

struct err *dac_missing_of_file(struct dac_missing *m, const char *path)
{
	CLEANUP(mem_freep) char *full = realpath(path, NULL);
	CLOSE_FD int fd = full ? file_open_below(NULL, full, O_RDONLY) : -1;
	CLEANUP(elf_freep) struct elf *elf = NULL;
	struct pdb_assembly assembly = { .path = full };
	if (fd < 0)
		return err_errno(errno, "'%s'", path);
	if (is_core(fd))
		return dac_missing_of_core(m, path);
	struct err *err = elf_open(fd, &elf);
	if (!err) {
		look_at_elf(m, "", full, elf);
		look_beside(m, full, elf);
		return NULL;
	}
	if (err_kind(err) == ERR_IO)
		return err_wrap(err, "'%s'", path);
	err_free(err);
	struct symbol_file f;
	if (pdb_state(&assembly, &f) == PDB_UNKNOWN)
		return err_new(ERR_BAD_DATA, "'%s' is no library, program, assembly or core file", path);
	look_at_assembly(m, &assembly);
	return NULL;
}

/* ---- cores ---- */

static bool has_build(int fd, const struct image_module *mod)
{
	uint8_t id[IMAGE_BUILD_ID_MAX];
	size_t len = fd >= 0 ? image_file_build_id(fd, id) : 0;
	return len && len == mod->build_id_len && !memcmp(id, mod->build_id, len);
}

static void look_at_module(struct dac_missing *m, const struct image_module *mod)
{
	struct symbol_file library, debug;
	if (!symbol_of_build(SYMBOL_LIBRARY, mod->path, mod->build_id, mod->build_id_len, &library) ||
	    !symbol_of_build(SYMBOL_DEBUG, mod->path, mod->build_id, mod->build_id_len, &debug))
		return;
	CLOSE_FD int fd = file_open_below(NULL, mod->path, O_RDONLY);
	if (!has_build(fd, mod)) {
		fd_closep(&fd);
		fd = symbol_cache_open(&library);
	}
	CLEANUP(elf_freep) struct elf *elf = NULL;
	if (fd >= 0)
		err_ignore(elf_open(fd, &elf));
	if (elf) {
		m->here++;
		look_at_elf(m, "", mod->path, elf);
		return;
	}
	CLOSE_FD int fetched = symbol_cache_open(&debug);
	m->here += fetched >= 0;
	if (m->wanted[SYMBOL_LIBRARY])
		add(m, &library);
	if (m->wanted[SYMBOL_DEBUG] && fetched < 0)
		add(m, &debug);
}

/* What the core holds of an assembly, zeros where it holds nothing. */
static uint8_t *copy_assembly(const struct image *img, const struct image_mapping *first, size_t left, size_t *ret_len)
{
	uint64_t end = first->end;
	for (size_t i = 1; i < left && str_eq(first[i].path, first->path); i++)
		end = first[i].end;
	uint64_t len = MIN(end - first->start, ASSEMBLY_BYTES_MAX);
	uint8_t *bytes = mem_zalloc((size_t)len);
	for (uint64_t at = 0; at < len;) {
		size_t got;
		image_read(img, first->start + at, bytes + at, (size_t)(len - at), &got);
		at += got ? got : PAGE_BYTES;
	}
	*ret_len = (size_t)len;
	return bytes;
}

/* The assembly is not on this machine: its memory says what its PDB is called. */
static void look_at_absent(struct dac_missing *m, const struct image *img, const struct image_mapping *first,
			   size_t left)
{
	size_t len;
	CLEANUP(mem_freep) uint8_t *bytes = copy_assembly(img, first, left, &len);
	struct symbol_file f;
	struct pe pe;
	uint32_t stamp, size;
	if (m->wanted[SYMBOL_ASSEMBLY] && pe_identity(bytes, len, &stamp, &size) &&
	    symbol_of_assembly(first->path, stamp, size, &f))
		add(m, &f);
	if (!m->wanted[SYMBOL_PDB] || ((!pe_parse_any(bytes, len, &pe) || !pdb_of_assembly(&pe, &f)) &&
				       (!pe_parse_loaded(bytes, len, &pe) || !pdb_of_assembly(&pe, &f))))
		return;
	CLOSE_FD int fetched = symbol_cache_open(&f);
	m->here += fetched >= 0;
	if (fetched < 0)
		add(m, &f);
}

static void look_at_assemblies(struct dac_missing *m, const struct image *img)
{
	size_t n;
	const struct image_mapping *maps = image_mappings(img, &n);
	for (size_t i = 0; i < n; i++) {
		uint8_t head[PAGE_BYTES];
		if (maps[i].path[0] != '/' || maps[i].offset || maps[i].end - maps[i].start < sizeof(head) ||
		    !image_read_all(img, maps[i].start, head, sizeof(head)) || memcmp(head, "MZ", 2) != 0)
			continue;
		struct pdb_assembly a = { .path = maps[i].path, .headers = head, .headers_len = sizeof(head) };
		if (look_at_assembly(m, &a) == PDB_UNKNOWN)
			look_at_absent(m, img, &maps[i], n - i);
	}
}

/* Is what understands its runtime here? */
static void look_for_reader(struct dac_missing *m, const struct image *img)
{
	CLEANUP(mem_freep) char *library = NULL;
	CLOSE_FD int fd = -1;
	struct dac_runtime runtime;
	struct symbol_file f;
	struct err *none = dac_find_runtime(img, &runtime), *err = NULL;
	if (!none)
		err = dac_find_library(&runtime, NULL, &fd, &library);
	if (err && dac_library_symbol(&runtime, &f))
		add(m, &f);
	err_free(none);
	err_free(err);
}

struct err *dac_missing_of_core(struct dac_missing *m, const char *path)
{
	CLEANUP(image_closep) struct image *img = NULL;
	size_t n;
	TRY(image_open_core(path, NULL, NULL, &img));
	const struct image_module *modules = image_modules(img, &n);
	for (size_t i = 0; i < n; i++)
		look_at_module(m, &modules[i]);
	look_at_assemblies(m, img);
	if (m->wanted[SYMBOL_DAC])
		look_for_reader(m, img);
	return NULL;
}
