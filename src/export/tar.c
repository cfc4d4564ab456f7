#include "export/tar.h"
#include "base/base.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 512
#define FILE_BYTES_MAX ((off_t)8 << 30) /* what eleven octal digits can say */

struct head {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct head) == BLOCK, "a header is one block");

static void put_head(struct out *out, const char *name, uint64_t bytes, int64_t unix_time)
{
	struct head h = { .type = '0', .magic = "ustar", .version = { '0', '0' } };
	snprintf(h.name, sizeof(h.name), "%s", name);
	snprintf(h.mode, sizeof(h.mode), "%07o", 0644u);
	snprintf(h.uid, sizeof(h.uid), "%07o", 0u);
	snprintf(h.gid, sizeof(h.gid), "%07o", 0u);
	snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)(bytes & 077777777777ull));
	snprintf(h.mtime, sizeof(h.mtime), "%011llo", (unsigned long long)MAX(unix_time, 0) & 077777777777ull);
	memset(h.sum, ' ', sizeof(h.sum));
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(h.sum, sizeof(h.sum), "%06o", sum & 0777777);
	buf_add(&out->buf, &h, sizeof(h));
}

static void fill_block(struct out *out, uint64_t bytes)
{
	static const char zeros[BLOCK];
	if (bytes % BLOCK)
		buf_add(&out->buf, zeros, BLOCK - bytes % BLOCK);
}

struct err *tar_add_fd(struct out *out, const char *name, int in_fd, int64_t unix_time)
{
	struct stat st;
	if (fstat(in_fd, &st) < 0)
		return err_errno(errno, "'%s'", name);
	if (!S_ISREG(st.st_mode) || st.st_size >= FILE_BYTES_MAX || strlen(name) >= sizeof(((struct head *)0)->name))
		return err_new(ERR_UNSUPPORTED, "'%s' does not fit a tar archive", name);
	put_head(out, name, (uint64_t)st.st_size, unix_time);
	for (off_t at = 0; at < st.st_size && !out_failed(out);) {
		size_t want = (size_t)MIN(st.st_size - at, (off_t)65536);
		char *room = buf_room(&out->buf, want);
		ssize_t n = room ? pread(in_fd, room, want, at) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_new(ERR_IO, "'%s' changed while it was read", name);
		out->buf.len += (size_t)n;
		at += n;
		out_turn(out);
	}
	fill_block(out, (uint64_t)st.st_size);
	return NULL;
}

void tar_end(struct out *out)
{
	static const char zeros[2 * BLOCK];
	buf_add(&out->buf, zeros, sizeof(zeros));
}
