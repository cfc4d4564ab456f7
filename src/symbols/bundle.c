/* In the host's data, in front of a mark of 32 bytes, stands where the list begins (u64; 0 = it is no bundle). The
 * list:
 *
 *   u32 major (2: .NET 5, 6: since), u32 minor, u32 number of files, id
 *   u64 offset, u64 size of the deps.json; the same of the runtimeconfig.json; u64 flags
 *   a file: u64 offset, u64 size, since major 6 u64 size when packed (0 = it is not), u8 kind, path
 *
 * Strings have their length before them in 7-bit groups. */

#include "symbols/bundle.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/str.h"
#include "base/vec.h"
#include "symbols/inflate.h"
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS_MAX 64
#define DATA_BYTES_MAX ((size_t)64 << 20)
#define LIST_BYTES_MAX ((uint64_t)16 << 20)
#define FILES_MAX 65536
#define PATH_BYTES_MAX 4096

/* The SHA-256 of ".net core bundle". */
static const uint8_t mark[32] = { 0x8b, 0x12, 0x02, 0xb9, 0x6a, 0x61, 0x20, 0x38, 0x72, 0x7b, 0x93,
				  0x02, 0x14, 0xd7, 0xa0, 0x32, 0x13, 0xf5, 0xb9, 0xe6, 0xef, 0xae,
				  0x33, 0x18, 0xee, 0x3b, 0x2d, 0xce, 0x24, 0xb3, 0x6a, 0xae };

static char *take_string(struct cursor *c)
{
	uint32_t len = cursor_varu32(c);
	if (len > PATH_BYTES_MAX)
		c->bad = true;
	const uint8_t *s = cursor_take(c, len);
	return s ? mem_strndup((const char *)s, len) : NULL;
}

static bool take_file(struct cursor *c, bool may_pack, uint64_t file_size, struct bundle *b)
{
	struct bundle_file f = { 0 };
	f.offset = cursor_u64(c);
	f.size = cursor_u64(c);
	f.packed = may_pack ? cursor_u64(c) : 0;
	cursor_u8(c);
	f.path = take_string(c);
	uint64_t room = f.packed ? f.packed : f.size;
	bool ok = cursor_ok(c) && f.offset <= file_size && room <= file_size - f.offset;
	if (ok)
		vec_push(b, f);
	else
		mem_free(f.path);
	return ok;
}

struct err *bundle_parse(const void *list, size_t len, uint64_t file_size, struct bundle *ret)
{
	struct cursor c = cursor_make(list, len);
	struct bundle b = { 0 };
	uint32_t major = cursor_u32(&c);
	cursor_u32(&c);
	uint32_t n = cursor_u32(&c);
	mem_free(take_string(&c));
	cursor_take(&c, 40);
	bool ok = cursor_ok(&c) && major >= 2 && n <= FILES_MAX;
	for (uint32_t i = 0; ok && i < n; i++)
		ok = take_file(&c, major >= 6, file_size, &b);
	if (!ok) {
		bundle_free(&b);
		return err_new(ERR_BAD_DATA, "the list of a single-file program's files is damaged");
	}
	*ret = b;
	return NULL;
}

static bool read_at(int fd, void *data, size_t len, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, data, len, (off_t)offset) == (ssize_t)len;
}

/* Where the list begins; 0 = there is none. */
static uint64_t list_in(int fd, const Elf64_Phdr *data)
{
	if (data->p_filesz > DATA_BYTES_MAX || data->p_filesz < sizeof(mark) + 8)
		return 0;
	CLEANUP(mem_freep) uint8_t *bytes = mem_alloc(data->p_filesz);
	if (!read_at(fd, bytes, data->p_filesz, data->p_offset))
		return 0;
	const uint8_t *at = memmem(bytes + 8, data->p_filesz - 8, mark, sizeof(mark));
	uint64_t offset = 0;
	if (at)
		memcpy(&offset, at - 8, sizeof(offset));
	return offset;
}

static uint64_t find_list(int fd)
{
	Elf64_Ehdr head;
	Elf64_Phdr segments[SEGMENTS_MAX];
	if (!read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr) ||
	    head.e_phnum > SEGMENTS_MAX || !read_at(fd, segments, head.e_phnum * sizeof(Elf64_Phdr), head.e_phoff))
		return 0;
	for (size_t i = 0; i < head.e_phnum; i++) {
		bool data = segments[i].p_type == PT_LOAD && segments[i].p_flags & PF_W;
		uint64_t list = data ? list_in(fd, &segments[i]) : 0;
		if (list)
			return list;
	}
	return 0;
}

struct err *bundle_open(int fd, struct bundle *ret)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_errno(errno, "a program");
	uint64_t size = (uint64_t)st.st_size, at = find_list(fd);
	if (!at || at >= size)
		return err_new(ERR_NOT_FOUND, "not a single-file program");
	size_t len = (size_t)MIN(size - at, LIST_BYTES_MAX);
	CLEANUP(mem_freep) uint8_t *list = mem_alloc(len);
	if (!read_at(fd, list, len, at))
		return err_new(ERR_IO, "a single-file program cannot be read");
	return bundle_parse(list, len, size, ret);
}

const struct bundle_file *bundle_find(const struct bundle *b, const char *path)
{
	vec_each(f, b)
		if (str_eq(f->path, path))
			return f;
	return NULL;
}

struct err *bundle_read(int fd, const struct bundle_file *file, size_t max, struct buf *out)
{
	size_t len = file->packed ? file->packed : file->size;
	if (file->size > max || len > max || file->size / INFLATE_RATIO_MAX > len)
		return err_new(ERR_BAD_DATA, "'%s' is too large", file->path);
	if (!file->packed) {
		if (!read_at(fd, buf_room(out, len), len, file->offset))
			return err_new(ERR_IO, "'%s' cannot be read", file->path);
	} else {
		CLEANUP(mem_freep) uint8_t *packed = mem_alloc(len);
		if (!read_at(fd, packed, len, file->offset) ||
		    !inflate_all(packed, len, buf_room(out, file->size), file->size))
			return err_new(ERR_BAD_DATA, "'%s' is damaged", file->path);
	}
	out->len += file->size;
	return NULL;
}

void bundle_free(struct bundle *b)
{
	vec_each(f, b)
		mem_free(f->path);
	vec_free(b);
}
