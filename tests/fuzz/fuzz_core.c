/* Core files: headers, notes, tables. */
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
	struct image_core_facts facts;
	struct err *err = image_open_core_fd(fd, "fuzz", NULL, &facts, &img);
	if (!err) {
		size_t n, got;
		char bytes[256];
		const struct image_mapping *m = image_mappings(img, &n);
		for (size_t i = 0; i < n; i++) {
			if (m[i].start >= m[i].end || (i && m[i - 1].end > m[i].start))
				abort();
			image_read(img, m[i].start, bytes, sizeof(bytes), &got);
		}
		const struct image_piece *p = image_pieces(img, &n);
		for (size_t i = 0; i < n; i++)
			if (p[i].start >= p[i].end || (i && p[i - 1].end > p[i].start))
				abort();
	}
	err_free(err);
	image_close(img);
	return 0;
}
