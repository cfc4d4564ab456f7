/* An archive is, for each file: a local header, the deflated bytes, a data descriptor (sizes and sum, which a stream
 * knows only afterwards: flag bit 3); then the central directory with one entry a file; then its end record. Numbers
 * are little-endian. */

#define ZLIB_CONST
#include "export/zip.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define ZIP_FILES_MAX 1000
#define ZIP_BYTES_MAX UINT32_MAX
#define ZIP_VERSION 20
#define ZIP_STREAMED 0x0008
#define ZIP_DEFLATED 8
#define NAME_LEN_MAX 128
#define CHUNK_BYTES ((size_t)64 << 10)

struct zip_entry {
	char *name;
	uint32_t at, packed, size, sum;
};

struct zip {
	int fd;
	uint64_t at; /* bytes written */
	uint16_t date, time;
	VEC(struct zip_entry) entries;
	z_stream deflate;
	bool deflating;
	uint8_t in[CHUNK_BYTES], out[CHUNK_BYTES];
};

static void set_time(struct zip *z, int64_t unix_time)
{
	struct tm tm = { .tm_year = 80, .tm_mday = 1 };
	time_t t = (time_t)unix_time;
	if (unix_time && (!gmtime_r(&t, &tm) || tm.tm_year < 80 || tm.tm_year > 207))
		tm = (struct tm){ .tm_year = 80, .tm_mday = 1 };
	z->date = (uint16_t)((tm.tm_year - 80) << 9 | (tm.tm_mon + 1) << 5 | tm.tm_mday);
	z->time = (uint16_t)(tm.tm_hour << 11 | tm.tm_min << 5 | tm.tm_sec / 2);
}

struct zip *zip_new(int fd, int64_t unix_time)
{
	struct zip *z = mem_zalloc(sizeof(*z));
	z->fd = fd;
	set_time(z, unix_time);
	return z;
}

void zip_free(struct zip *z)
{
	if (!z)
		return;
	vec_each(e, &z->entries)
		mem_free(e->name);
	vec_free(&z->entries);
	if (z->deflating)
		deflateEnd(&z->deflate);
	mem_free(z);
}

static struct err *emit(struct zip *z, const void *data, size_t len)
{
	const uint8_t *p = data;
	if (z->at + len > ZIP_BYTES_MAX)
		return err_new(ERR_UNSUPPORTED, "the zip would be larger than 4 GB");
	z->at += len;
	while (len) {
		ssize_t n = write(z->fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(errno, "write the zip");
		p += n;
		len -= (size_t)n;
	}
	return NULL;
}

static struct err *emit_buf(struct zip *z, struct buf *b)
{
	struct err *err = emit(z, b->data, b->len);
	buf_free(b);
	return err;
}

static struct err *check_name(const struct zip *z, const char *name)
{
	size_t len = strlen(name);
	if (!len || len > NAME_LEN_MAX || name[0] == '.' || name[0] == '-' ||
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != len)
		return err_new(ERR_USAGE, "'%.128s' is no name for a file in a zip", name);
	for (size_t i = 0; i < z->entries.n; i++)
		if (str_eq(z->entries.v[i].name, name))
			return err_new(ERR_USAGE, "'%s' is in the zip already", name);
	if (z->entries.n >= ZIP_FILES_MAX)
		return err_new(ERR_UNSUPPORTED, "a zip takes at most %d files", ZIP_FILES_MAX);
	return NULL;
}

/* What local header and directory entry have in common. */
static void add_common(const struct zip *z, const struct zip_entry *e, struct buf *b)
{
	buf_u16(b, ZIP_VERSION);
	buf_u16(b, ZIP_STREAMED);
	buf_u16(b, ZIP_DEFLATED);
	buf_u16(b, z->time);
	buf_u16(b, z->date);
	buf_u32(b, e->sum);
	buf_u32(b, e->packed);
	buf_u32(b, e->size);
	buf_u16(b, (uint16_t)strlen(e->name));
	buf_u16(b, 0);
}

static struct err *begin(struct zip *z, const char *name)
{
	TRY(check_name(z, name));
	struct zip_entry e = { .name = mem_strdup(name), .at = (uint32_t)z->at };
	vec_push(&z->entries, e);
	struct buf b = { 0 };
	buf_u32(&b, 0x04034b50);
	add_common(z, &e, &b);
	buf_str(&b, name);
	TRY(emit_buf(z, &b));
	int rc = z->deflating ? deflateReset(&z->deflate)
			      : deflateInit2(&z->deflate, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
					     Z_DEFAULT_STRATEGY);
	if (rc != Z_OK)
		return err_new(ERR_IO, "zlib: cannot start to deflate");
	z->deflating = true;
	return NULL;
}

static struct err *feed(struct zip *z, const uint8_t *data, size_t len, int flush)
{
	struct zip_entry *e = &vec_last(&z->entries);
	if ((uint64_t)e->size + len > ZIP_BYTES_MAX)
		return err_new(ERR_UNSUPPORTED, "'%s' is larger than the 4 GB a zip can hold", e->name);
	e->size += (uint32_t)len;
	e->sum = (uint32_t)crc32_z(e->sum, data, len);
	z->deflate.next_in = data;
	z->deflate.avail_in = (uInt)len;
	do {
		z->deflate.next_out = z->out;
		z->deflate.avail_out = sizeof(z->out);
		if (deflate(&z->deflate, flush) == Z_STREAM_ERROR)
			return err_new(ERR_IO, "zlib: cannot deflate '%s'", e->name);
		size_t n = sizeof(z->out) - z->deflate.avail_out;
		TRY(emit(z, z->out, n));
		e->packed += (uint32_t)n;
	} while (z->deflate.avail_out == 0);
	return NULL;
}

static struct err *end(struct zip *z)
{
	TRY(feed(z, z->in, 0, Z_FINISH));
	const struct zip_entry *e = &vec_last(&z->entries);
	struct buf b = { 0 };
	buf_u32(&b, 0x08074b50);
	buf_u32(&b, e->sum);
	buf_u32(&b, e->packed);
	buf_u32(&b, e->size);
	return emit_buf(z, &b);
}

struct err *zip_add(struct zip *z, const char *name, const void *data, size_t len)
{
	TRY(begin(z, name));
	const uint8_t *p = data;
	for (size_t n; len; p += n, len -= n) {
		n = MIN(len, CHUNK_BYTES);
		TRY(feed(z, p, n, Z_NO_FLUSH));
	}
	return end(z);
}

struct err *zip_add_fd(struct zip *z, const char *name, int in_fd)
{
	TRY(begin(z, name));
	for (;;) {
		ssize_t n = read(in_fd, z->in, sizeof(z->in));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(errno, "read '%s'", name);
		if (n == 0)
			return end(z);
		TRY(feed(z, z->in, (size_t)n, Z_NO_FLUSH));
	}
}

struct err *zip_finish(struct zip *z)
{
	uint32_t at = (uint32_t)z->at;
	vec_each(e, &z->entries) {
		struct buf b = { 0 };
		buf_u32(&b, 0x02014b50);
		buf_u16(&b, 3 << 8 | ZIP_VERSION); /* made on Unix: the mode below counts */
		add_common(z, e, &b);
		buf_u16(&b, 0);
		buf_u16(&b, 0);
		buf_u16(&b, 0);
		buf_u32(&b, 0100644u << 16);
		buf_u32(&b, e->at);
		buf_str(&b, e->name);
		TRY(emit_buf(z, &b));
	}
	struct buf b = { 0 };
	buf_u32(&b, 0x06054b50);
	buf_u32(&b, 0);
	buf_u16(&b, (uint16_t)z->entries.n);
	buf_u16(&b, (uint16_t)z->entries.n);
	buf_u32(&b, (uint32_t)z->at - at);
	buf_u32(&b, at);
	buf_u16(&b, 0);
	return emit_buf(z, &b);
}
