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
/* Can others change it, so that its bytes of that instant must be saved while the process is stopped? */
bool maps_shared(const struct maps_line *line);
/* Is it one of the runtime's own tables, without which nothing of .NET can be read? */
bool maps_runtime(const struct maps_line *line);
/* Is it a device, so that a read of it could do more than read memory? */
bool maps_device(const struct maps_line *line);
/* Adds the line as a mapping of the image. chroot: the beginning of its path that the process does not see, because its root is
 * another folder (base/chroot.h). */
void maps_add(struct image *img, const struct maps_line *line, const char *chroot);
