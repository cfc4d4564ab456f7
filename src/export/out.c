#define ZLIB_CONST
#include "export/out.h"
#include <errno.h>
#include <unistd.h>
#include <zlib.h>

#define TURN_BYTES ((size_t)64 << 10)
#define GZIP_WINDOW (15 + 16) /* 32 KB, and gzip's own header around it */

struct out_gzip {
	z_stream stream;
	uint8_t packed[64 << 10];
};

void out_init(struct out *o, int fd, bool gzip)
{
	*o = (struct out){ .fd = fd };
	if (!gzip)
		return;
	o->gzip = mem_zalloc(sizeof(*o->gzip));
	if (deflateInit2(&o->gzip->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		o->err = err_new(ERR_IO, "zlib does not start");
}

static void write_all(struct out *o, const void *data, size_t len)
{
	for (size_t done = 0; done < len && !o->err;) {
		ssize_t n = write(o->fd, (const char *)data + done, len - done);
		if (n < 0 && errno != EINTR)
			o->err = err_errno(errno, "write");
		done += n > 0 ? (size_t)n : 0;
	}
	o->bytes += len;
}

static void pack(struct out *o, int flush)
{
	z_stream *z = &o->gzip->stream;
	z->next_in = (const Bytef *)o->buf.data;
	z->avail_in = (uInt)o->buf.len;
	do {
		z->next_out = o->gzip->packed;
		z->avail_out = sizeof(o->gzip->packed);
		if (deflate(z, flush) == Z_STREAM_ERROR) {
			o->err = err_new(ERR_IO, "zlib does not go on");
			return;
		}
		write_all(o, o->gzip->packed, sizeof(o->gzip->packed) - z->avail_out);
	} while (!z->avail_out && !o->err);
}

static void pass_on(struct out *o, int flush)
{
	if (o->buf.overflow && !o->err)
		o->err = err_new(ERR_IO, "a piece of the result is too large");
	if (!o->err && o->gzip)
		pack(o, flush);
	else if (!o->err)
		write_all(o, buf_cstr(&o->buf), o->buf.len);
	buf_clear(&o->buf);
}

void out_turn(struct out *o)
{
	if (o->buf.len >= TURN_BYTES)
		pass_on(o, Z_NO_FLUSH);
}

bool out_failed(const struct out *o)
{
	return o->err != NULL;
}

struct err *out_finish(struct out *o)
{
	pass_on(o, Z_FINISH);
	return STEAL(o->err);
}

void out_fini(struct out *o)
{
	if (o->gzip)
		deflateEnd(&o->gzip->stream);
	mem_free(o->gzip);
	buf_free(&o->buf);
	err_free(o->err);
	*o = (struct out){ .fd = -1 };
}
