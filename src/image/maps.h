#pragma once
/* The text of /proc/PID/maps, line by line, without a copy. Private to image. */

#include "base/base.h"
#include <sys/types.h>

struct image;

/* A line of /proc/PID/maps. */
struct maps_line {
	uint64_t start, end, offset;
	dev_t dev;
	ino_t ino;
	char prot[4]; /* r w x and p or s, or - */
	const char *path;
	size_t path_len;
};
/* The next line of the text, which ends at end; false when there is none or it is no such line. */
bool maps_next(const char **text, const char *end, struct maps_line *ret);
/* Must it be saved, if its bytes are to be those of the instant? */
bool maps_shared(const struct maps_line *line);
/* Does it belong to the runtime, so that nothing can be read without it? */
bool maps_runtime(const struct maps_line *line);
/* Could reading it do something else than read memory (a device)? */
bool maps_device(const struct maps_line *line);
/* As a mapping of the image. chroot: what its path has more at the front than the process knows (base/chroot.h). */
void maps_add(struct image *img, const struct maps_line *line, const char *chroot);
