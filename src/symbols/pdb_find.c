/* Where the PDB of an assembly is: beside it, packed inside (debug directory entry 17: "MPDB", u32 size, deflate), or
 * in the cache.
 * Entry 2 names it: "RSDS", GUID, u32 age, path on the build machine; GUID and the entry's stamp are the id. */

#include "base/cursor.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "symbols/cache.h"
#include "symbols/inflate.h"
#include "symbols/pdb.h"
#include "symbols/pe.h"
#include <fcntl.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_ASSEMBLY_BYTES ((off_t)1 << 30)
#define HEADER_BYTES 4096
#define MAX_PDB_BYTES ((size_t)256 << 20)
#define PORTABLE_MINOR 0x504d

/* What the assembly says. */
struct wanted {
	uint8_t id[PDB_ID_BYTES];
	bool has_id;
	char name[128]; /* of the PDB, on the machine that built it: with folders of either kind */
	struct span {
		const uint8_t *p;
		size_t len;
	} embedded;
};

/* Of a long path its end. */
static void set_name(struct wanted *w, const uint8_t *path, size_t room)
{
	size_t len = room ? strnlen((const char *)path, room) : 0, over = len - MIN(len, sizeof(w->name) - 1);
	if (len)
		memcpy(w->name, path + over, len - over);
	w->name[len - over] = '\0';
}

static void ask_assembly(const struct pe *pe, struct wanted *ret)
{
	struct pe_debug d;
	*ret = (struct wanted){ 0 };
	for (size_t i = 0; pe_debug_next(pe, &i, &d);) {
		if (d.type == PE_DEBUG_EMBEDDED_PDB) {
			ret->embedded = (struct span){ d.bytes, d.len };
		} else if (d.type == PE_DEBUG_CODEVIEW && d.minor == PORTABLE_MINOR) {
			struct cursor c = cursor_make(d.bytes, d.len);
			uint32_t magic = cursor_u32(&c);
			const uint8_t *guid = cursor_take(&c, 16);
			if (magic != 0x53445352 || !guid)
				continue;
			memcpy(ret->id, guid, 16);
			memcpy(ret->id + 16, &d.stamp, 4);
			ret->has_id = true;
			cursor_u32(&c);
			set_name(ret, c.p, cursor_left(&c));
		}
	}
}

static struct err *open_embedded(const struct wanted *w, struct pdb **ret)
{
	struct cursor c = cursor_make(w->embedded.p, w->embedded.len);
	uint32_t magic = cursor_u32(&c), size = cursor_u32(&c);
	if (!cursor_ok(&c) || magic != 0x4244504d || size > MAX_PDB_BYTES || size / INFLATE_RATIO_MAX > cursor_left(&c))
		return err_new(ERR_BAD_DATA, "the PDB inside the assembly is damaged");
	CLEANUP(mem_freep) uint8_t *bytes = mem_alloc(size ? size : 1);
	if (!inflate_all(c.p, cursor_left(&c), bytes, size))
		return err_new(ERR_BAD_DATA, "the PDB inside the assembly is damaged");
	return pdb_from_bytes(STEAL(bytes), size, w->has_id ? w->id : NULL, ret);
}

/* "/app/Shop.dll" -> "/app/Shop.pdb" */
static char *beside(const char *assembly)
{
	const char *slash = strrchr(assembly, '/'), *dot = strrchr(assembly, '.');
	size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - assembly) : strlen(assembly);
	return mem_printf("%.*s.pdb", (int)stem, assembly);
}

static struct err *open_beside(const struct pdb_assembly *a, const struct wanted *w, struct pdb **ret)
{
	CLEANUP(mem_freep) char *path = beside(a->path);
	CLOSE_FD int fd = file_open_below(a->root, path, O_RDONLY);
	CLEANUP(buf_free) struct buf bytes = { 0 };
	if (fd < 0)
		return err_errno(errno, "'%s'", path);
	if (!w->has_id)
		return err_new(ERR_NOT_FOUND, "'%s': the assembly does not say which PDB is its own", path);
	TRY(file_read_fd(fd, path, MAX_PDB_BYTES, &bytes));
	size_t len = bytes.len;
	TRY_WRAP(pdb_from_bytes(buf_steal(&bytes), len, w->id, ret), "'%s'", path);
	return NULL;
}

/* Of an assembly that is no file. */
static struct err *open_told(const struct pdb_assembly *a, struct pdb **ret)
{
	CLEANUP(mem_freep) char *path = beside(a->path);
	CLOSE_FD int fd = file_open_below(a->root, path, O_RDONLY);
	CLEANUP(buf_free) struct buf bytes = { 0 };
	CLEANUP(pdb_freep) struct pdb *pdb = NULL;
	if (fd < 0)
		return err_errno(errno, "'%s'", path);
	TRY(file_read_fd(fd, path, MAX_PDB_BYTES, &bytes));
	size_t len = bytes.len;
	TRY_WRAP(pdb_from_bytes(buf_steal(&bytes), len, NULL, &pdb), "'%s'", path);
	if (memcmp(pdb_id(pdb), a->guid, 16))
		return err_new(ERR_NOT_FOUND, "'%s' is of another build", path);
	*ret = STEAL(pdb);
	return NULL;
}

static struct err *open_cached(const struct wanted *w, struct pdb **ret)
{
	struct symbol_file file;
	CLOSE_FD int fd = w->has_id && symbol_of_pdb(w->name, w->id, &file) ? symbol_cache_open(&file) : -1;
	CLEANUP(buf_free) struct buf bytes = { 0 };
	if (fd < 0)
		return err_new(ERR_NOT_FOUND, "there is none");
	TRY(file_read_fd(fd, file.name, MAX_PDB_BYTES, &bytes));
	size_t len = bytes.len;
	return pdb_from_bytes(buf_steal(&bytes), len, w->id, ret);
}

static bool same_build(const struct pdb_assembly *a, const struct pe *pe)
{
	uint32_t stamp, size;
	return !a->headers || !pe_identity(a->headers, a->headers_len, &stamp, &size) ||
	       (stamp == pe->stamp && size == pe->image_size);
}

/* Of a large file only a few pages are needed; the rest is never read. */
static void load(int fd, uint8_t *bytes, size_t size, size_t at, size_t len)
{
	if (at < size)
		fd_pread(fd, bytes + at, MIN(len, size - at), at);
}

static bool load_assembly(int fd, uint8_t *bytes, size_t size, struct pe *ret)
{
	struct pe_debug d;
	size_t room = 0;
	load(fd, bytes, size, 0, HEADER_BYTES);
	if (!pe_parse_any(bytes, size, ret))
		return false;
	const uint8_t *directory = ret->debug_size ? pe_at(ret, ret->debug_rva, &room) : NULL;
	if (directory)
		load(fd, bytes, size, (size_t)(directory - bytes), MIN(room, (size_t)ret->debug_size));
	for (size_t i = 0; pe_debug_next(ret, &i, &d);)
		load(fd, bytes, size, (size_t)(d.bytes - bytes), d.len);
	return true;
}

/* From its path, or from the cache when that is known to be of another build or is not there. */
static int open_assembly(const struct pdb_assembly *a)
{
	CLOSE_FD int fd = file_open_below(a->root, a->path, O_RDONLY);
	int errnum = errno;
	struct symbol_file file;
	uint32_t stamp, size;
	if (a->headers && pe_identity(a->headers, a->headers_len, &stamp, &size) &&
	    symbol_of_assembly(a->path, stamp, size, &file)) {
		struct err *err = fd >= 0 ? symbol_check(&file, fd) : NULL;
		CLOSE_FD int cached = fd < 0 || err ? symbol_cache_open(&file) : -1;
		err_ignore(err);
		if (cached >= 0)
			return fd_steal(&cached);
	}
	errno = errnum;
	return fd_steal(&fd);
}

/* The bytes of an assembly that are needed here, and its parsed headers. */
static struct err *read_assembly(const struct pdb_assembly *a, uint8_t **ret_bytes, struct wanted *ret)
{
	if (str_empty(a->path))
		return err_new(ERR_NOT_FOUND, "the assembly is in memory only");
	CLOSE_FD int fd = open_assembly(a);
	struct stat st;
	struct pe pe;
	if (fd < 0 || fstat(fd, &st))
		return err_errno(errno, "'%s'", a->path);
	if (st.st_size <= 0 || st.st_size > MAX_ASSEMBLY_BYTES)
		return err_new(ERR_BAD_DATA, "'%s' is not an assembly: %lld bytes", a->path, (long long)st.st_size);
	CLEANUP(mem_freep) uint8_t *bytes = mem_zalloc((size_t)st.st_size);
	if (!load_assembly(fd, bytes, (size_t)st.st_size, &pe))
		return err_new(ERR_BAD_DATA, "'%s' is not an assembly", a->path);
	if (!same_build(a, &pe))
		return err_new(ERR_BAD_DATA, "'%s' was replaced by another build since", a->path);
	ask_assembly(&pe, ret);
	*ret_bytes = STEAL(bytes);
	return NULL;
}

struct err *pdb_open(const struct pdb_assembly *a, struct pdb **ret)
{
	CLEANUP(mem_freep) uint8_t *bytes = NULL;
	struct wanted w = { 0 };
	struct err *unread = read_assembly(a, &bytes, &w);
	if (unread && a->guid && err_kind(unread) == ERR_NOT_FOUND && !str_empty(a->path)) {
		err_free(unread);
		return open_told(a, ret);
	}
	TRY(unread);
	if (w.embedded.p) {
		TRY_WRAP(open_embedded(&w, ret), "'%s'", a->path);
		return NULL;
	}
	struct err *err = open_beside(a, &w, ret), *none = err ? open_cached(&w, ret) : NULL;
	if (err && !none) {
		err_free(err);
		return NULL;
	}
	err_free(none);
	return err;
}

bool pdb_of_assembly(const struct pe *pe, struct symbol_file *ret)
{
	struct wanted w;
	ask_assembly(pe, &w);
	return w.has_id && !w.embedded.p && symbol_of_pdb(w.name, w.id, ret);
}

enum pdb_state pdb_state(const struct pdb_assembly *a, struct symbol_file *ret)
{
	CLEANUP(mem_freep) uint8_t *bytes = NULL;
	CLEANUP(pdb_freep) struct pdb *pdb = NULL;
	struct wanted w = { 0 };
	CLEANUP(err_freep) struct err *unread = read_assembly(a, &bytes, &w);
	if (unread)
		return PDB_UNKNOWN;
	CLEANUP(err_freep) struct err *none = pdb_open(a, &pdb);
	if (!none)
		return PDB_HERE;
	return w.has_id && symbol_of_pdb(w.name, w.id, ret) ? PDB_MISSING : PDB_NONE;
}

/* ---- many ---- */

struct pdbs {
	char *root;
	struct strtab paths;
	VEC(struct known {
		struct pdb *pdb;
		char *why;
		bool refused; /* something was there, but it does not fit */
	})
	known; /* by the id of the path */
};

struct pdbs *pdbs_new(const char *root)
{
	struct pdbs *all = mem_zalloc(sizeof(*all));
	all->root = root ? mem_strdup(root) : NULL;
	return all;
}

void pdbs_free(struct pdbs *all)
{
	if (!all)
		return;
	vec_each(k, &all->known) {
		pdb_free(k->pdb);
		mem_free(k->why);
	}
	vec_free(&all->known);
	strtab_free(&all->paths);
	mem_free(all->root);
	mem_free(all);
}

static bool is_there(const char *root, const char *path)
{
	CLEANUP(mem_freep) char *pdb = beside(path);
	CLOSE_FD int fd = file_open_below(root, pdb, O_RDONLY);
	return fd >= 0;
}

static const struct known *get(struct pdbs *all, struct pdb_assembly a)
{
	a.root = all->root;
	a.path = a.path ? a.path : "";
	uint32_t id = strtab_add_cstr(&all->paths, a.path);
	if (id == all->known.n) {
		struct known k = { 0 };
		CLEANUP(err_freep) struct err *err = pdb_open(&a, &k.pdb);
		if (err) {
			k.why = mem_strdup(err_text(err));
			k.refused = err_kind(err) == ERR_BAD_DATA || is_there(all->root, a.path);
		}
		vec_push(&all->known, k);
	}
	return &all->known.v[id];
}

struct pdb *pdbs_get(struct pdbs *all, const char *assembly, const void *headers, size_t headers_len,
		     const char **ret_why)
{
	const struct known *k =
		get(all, (struct pdb_assembly){ .path = assembly, .headers = headers, .headers_len = headers_len });
	if (ret_why)
		*ret_why = k->why;
	return k->pdb;
}

struct pdb *pdbs_get_told(struct pdbs *all, const char *assembly, const uint8_t *guid)
{
	return get(all, (struct pdb_assembly){ .path = assembly, .guid = guid })->pdb;
}

const char *pdbs_refused(const struct pdbs *all, size_t *i)
{
	while (*i < all->known.n) {
		const struct known *k = &all->known.v[(*i)++];
		if (k->refused)
			return k->why;
	}
	return NULL;
}
