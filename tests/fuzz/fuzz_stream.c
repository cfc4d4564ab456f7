/* Streamed images. */
#include "base/err.h"
#include "image/image.h"
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
	struct image *img = NULL;
	struct err *err = image_open_stream(fd, NULL, &img);
	if (!err) {
		size_t n, got;
		char bytes[256];
		const struct image_piece *p = image_pieces(img, &n);
		for (size_t i = 0; i < n; i++) {
			if (p[i].start >= p[i].end || (i && p[i - 1].end > p[i].start))
				abort();
			image_read(img, p[i].start, bytes, sizeof(bytes), &got);
		}
	}
	err_free(err);
	image_close(img);
	return 0;
}
