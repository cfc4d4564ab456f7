/* An image of the process while it runs. */
#include "base/chroot.h"
#include "base/fd.h"
#include "image/internal.h"
#include "image/maps.h"
#include "target/target.h"
#include <errno.h>
#include <fcntl.h>

#define MAPS_MAX ((size_t)64 << 20)
#define USER_SPACE_END 0x7ffffffff000u

/* What may be read between two mappings that must not. It takes in what is not mapped or reserved only: the process goes
 * on, and may use it by the time that something leads there. */
static void add_span(struct image *img, uint32_t fd, uint64_t start, uint64_t end)
{
	if (start < end)
		image_add_piece(img, (struct image_piece){ start, end, fd, start });
}

struct err *image_peek(const struct target *target, struct image **ret)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(mem_freep) char *maps = mem_printf("/proc/%d/maps", (int)target->pid);
	CLEANUP(mem_freep) char *mem = mem_printf("/proc/%d/mem", (int)target->pid);
	CLEANUP(image_closep) struct image *img = image_new(IMAGE_LIVE);
	CLOSE_FD int fd = open(mem, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(errno, "its memory");
	TRY(file_read(maps, MAPS_MAX, &text));
	uint32_t index = image_add_fd(img, fd_steal(&fd));
	const char *at = buf_cstr(&text), *end = at + text.len;
	uint64_t span = 0;
	CLEANUP(mem_freep) char *chroot = chroot_of(target->pid);
	for (struct maps_line l; maps_next(&at, end, &l);) {
		maps_add(img, &l, chroot);
		if (!maps_device(&l))
			continue;
		add_span(img, index, span, MIN(l.start, (uint64_t)USER_SPACE_END));
		span = l.end;
	}
	add_span(img, index, span, USER_SPACE_END);
	image_seal_pieces(img);
	image_find_modules(img);
	img->pid = target->ns_pid;
	TRY(target_check(target));
	*ret = STEAL(img);
	return NULL;
}
