#include "symbols/cache.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "symbols/elffile.h"
#include "symbols/pdb.h"
#include "symbols/pe.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PDB_BYTES_MAX ((size_t)256 << 20)
#define PE_HEADER_BYTES 4096
/* Keys hold 20 bytes of a build id, filled up with zeros. */
#define KEY_ID_CHARS 40

static const struct {
	const char *show, *word, *prefix;
} kinds[SYMBOL_KINDS] = {
	[SYMBOL_DEBUG] = { "debug file", "debug", "elf-buildid-sym-" },
	[SYMBOL_LIBRARY] = { "library", "library", "elf-buildid-" },
	[SYMBOL_DAC] = { "data-access library", "dac", "elf-buildid-coreclr-" },
	[SYMBOL_PDB] = { "PDB", "pdb", "" },
	[SYMBOL_ASSEMBLY] = { "assembly", "assembly", "" },
};

const char *symbol_kind_show(enum symbol_kind kind)
{
	return kinds[kind].show;
}

const char *symbol_kind_word(enum symbol_kind kind)
{
	return kinds[kind].word;
}

/* ---- names ---- */

/* Becomes a part of paths and addresses: nothing that means something there. */
static bool set_name(struct symbol_file *f, const char *path)
{
	const char *name = path;
	for (const char *p = path; *p; p++)
		if (*p == '/' || *p == '\\')
			name = p + 1;
	size_t len = strlen(name);
	if (!len || len >= sizeof(f->name) || name[0] == '.')
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];
		if (!isalnum(c) && !strchr("._+-", c))
			return false;
		f->name[i] = (char)tolower(c);
	}
	f->name[len] = '\0';
	return true;
}

bool symbol_of_elf(enum symbol_kind kind, const char *path, const char *build_id, struct symbol_file *ret)
{
	size_t len = strlen(build_id);
	*ret = (struct symbol_file){ .kind = kind };
	if (len < 8 || len >= sizeof(ret->id) || strspn(build_id, "0123456789abcdef") != len)
		return false;
	str_copy(ret->id, sizeof(ret->id), build_id);
	return set_name(ret, path);
}

bool symbol_of_build(enum symbol_kind kind, const char *path, const uint8_t *id, size_t len, struct symbol_file *ret)
{
	char text[sizeof(ret->id)] = "";
	if (len > (sizeof(text) - 1) / 2)
		return false;
	for (size_t i = 0; i < len; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
	return symbol_of_elf(kind, path, text, ret);
}

bool symbol_of_pdb(const char *path, const uint8_t guid[16], struct symbol_file *ret)
{
	/* Its first three parts are numbers, least byte first. */
	static const uint8_t order[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	*ret = (struct symbol_file){ .kind = SYMBOL_PDB };
	for (size_t i = 0; i < sizeof(order); i++)
		snprintf(ret->id + 2 * i, 3, "%02x", guid[order[i]]);
	str_copy(ret->id + 2 * sizeof(order), sizeof(ret->id) - 2 * sizeof(order), "FFFFFFFF");
	return set_name(ret, path);
}

bool symbol_of_assembly(const char *path, uint32_t stamp, uint32_t image_size, struct symbol_file *ret)
{
	*ret = (struct symbol_file){ .kind = SYMBOL_ASSEMBLY };
	snprintf(ret->id, sizeof(ret->id), "%08X%x", stamp, image_size);
	return set_name(ret, path);
}

void symbol_key(const struct symbol_file *f, struct buf *out)
{
	const char *name = f->kind == SYMBOL_DEBUG ? "_.debug" : f->name;
	size_t len = strlen(f->id);
	buf_printf(out, "%s/%s%s", name, kinds[f->kind].prefix, f->id);
	if (*kinds[f->kind].prefix && len < KEY_ID_CHARS)
		buf_repeat(out, "0", KEY_ID_CHARS - len);
	buf_printf(out, "/%s", name);
}

bool symbol_debuginfod_path(const struct symbol_file *f, struct buf *out)
{
	if (f->kind != SYMBOL_DEBUG && f->kind != SYMBOL_LIBRARY)
		return false;
	buf_printf(out, "buildid/%s/%s", f->id, f->kind == SYMBOL_DEBUG ? "debuginfo" : "executable");
	return true;
}

/* ---- what a file is ---- */

static struct err *other(const struct symbol_file *f, const char *what)
{
	return err_new(ERR_BAD_DATA, "it is not the %s of %s: %s", symbol_kind_show(f->kind), f->name, what);
}

static struct err *check_elf(const struct symbol_file *f, int fd)
{
	CLEANUP(elf_freep) struct elf *elf = NULL;
	TRY(elf_open(fd, &elf));
	/* The headers of a data-access library do not say which runtime it belongs to; the code that loads it checks
	 * that. */
	if (f->kind != SYMBOL_DAC && !str_eq(elf_build_id(elf), f->id))
		return other(f, "it has another build id");
	if (f->kind == SYMBOL_DEBUG && !elf_has_symtab(elf))
		return other(f, "it has no symbols");
	return NULL;
}

static struct err *check_pdb(const struct symbol_file *f, int fd)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	CLEANUP(pdb_freep) struct pdb *pdb = NULL;
	struct symbol_file is;
	TRY(file_read_fd(fd, f->name, PDB_BYTES_MAX, &bytes));
	size_t len = bytes.len;
	TRY(pdb_from_bytes(buf_steal(&bytes), len, NULL, &pdb));
	return symbol_of_pdb(f->name, pdb_id(pdb), &is) && str_eq(is.id, f->id) ? NULL : other(f, "it has another id");
}

static struct err *check_assembly(const struct symbol_file *f, int fd)
{
	uint8_t head[PE_HEADER_BYTES];
	uint32_t stamp, size;
	struct symbol_file is;
	ssize_t n = pread(fd, head, sizeof(head), 0);
	if (n <= 0 || !pe_identity(head, (size_t)n, &stamp, &size))
		return other(f, "it is no assembly");
	return symbol_of_assembly(f->name, stamp, size, &is) && str_eq(is.id, f->id)
		       ? NULL
		       : other(f, "it is of another build");
}

struct err *symbol_check(const struct symbol_file *f, int fd)
{
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(errno, "read a file");
	if (f->kind == SYMBOL_PDB)
		return check_pdb(f, fd);
	return f->kind == SYMBOL_ASSEMBLY ? check_assembly(f, fd) : check_elf(f, fd);
}

/* ---- the folder ---- */

struct err *symbol_cache_path(char **ret)
{
	CLEANUP(mem_freep) char *home = NULL;
	TRY(home_path(&home));
	*ret = mem_printf("%s/symbols", home);
	return NULL;
}

static int open_checked(const struct symbol_file *f, const char *cache)
{
	CLEANUP(buf_free) struct buf key = { 0 };
	symbol_key(f, &key);
	CLOSE_FD int fd = file_open_below(cache, buf_cstr(&key), O_RDONLY);
	struct err *err = fd >= 0 ? symbol_check(f, fd) : NULL;
	bool fits = fd >= 0 && !err && lseek(fd, 0, SEEK_SET) == 0;
	err_ignore(err);
	return fits ? fd_steal(&fd) : -1;
}

int symbol_cache_open(const struct symbol_file *f)
{
	CLEANUP(mem_freep) char *cache = NULL;
	struct err *err = symbol_cache_path(&cache);
	int fd = err ? -1 : open_checked(f, cache);
	err_ignore(err);
	return fd;
}

struct err *symbol_cache_begin(int *ret_fd, char **ret_path)
{
	CLEANUP(mem_freep) char *cache = NULL;
	TRY(symbol_cache_path(&cache));
	TRY_WRAP(dir_make(cache, 0700), "the folder of symbols");
	CLEANUP(mem_freep) char *path = mem_printf("%s/.fetch-XXXXXX", cache);
	int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return err_errno(errno, "cannot write into '%s'", cache);
	*ret_fd = fd;
	*ret_path = STEAL(path);
	return NULL;
}

static struct err *give_name(const struct symbol_file *f, int fd, const char *path)
{
	CLEANUP(mem_freep) char *cache = NULL;
	CLEANUP(buf_free) struct buf place = { 0 };
	TRY(symbol_check(f, fd));
	TRY(symbol_cache_path(&cache));
	buf_printf(&place, "%s/", cache);
	symbol_key(f, &place);
	CLEANUP(mem_freep) char *folder = mem_strndup(place.data, (size_t)(strrchr(place.data, '/') - place.data));
	TRY_WRAP(dir_make(folder, 0700), "the folder of symbols");
	if (fsync(fd) < 0 || rename(path, buf_cstr(&place)) < 0)
		return err_errno(errno, "cannot write '%s'", buf_cstr(&place));
	return NULL;
}

struct err *symbol_cache_keep(const struct symbol_file *f, int fd, const char *path)
{
	struct err *err = give_name(f, fd, path);
	if (err)
		unlink(path);
	return err;
}
