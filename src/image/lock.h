#pragma once
/* One intrusive examination of a process at a time, whichever program runs it. Private to image.
 *
 * The lock is a name in the kernel (an abstract socket): nothing is left behind when its holder is killed, and every
 * user of the machine sees the same one. It is not seen across network namespaces; there a living copy of the process
 * shows it (lock_find_copy). */

#include "image/image.h"

struct target;
/* ERR_BUSY names the holder. cookie: 16 bytes, or NULL. */
struct err *lock_take(const struct target *target, const uint8_t *cookie, int *ret_fd) MUST_USE;
/* The same, waiting as image_wait_turn() does. */
struct err *lock_take_in_turn(const struct target *target, const struct image_turn *turn, int *ret_fd) MUST_USE;
struct image_turn lock_turn(const struct image_limits *limits);
/* Is it free? Takes nothing. */
struct err *lock_probe(const struct target *target, const uint8_t *cookie) MUST_USE;

/* Children of the process that only a snapshot makes (no signal at their end): ended ones that are left over, and one
 * that lives, which is the copy of another examination. */
struct lock_children {
	pid_t alive;
	pid_t dead[16], dead_ns[16]; /* as we see them and as the process does */
	size_t n_dead;
};
void lock_find_children(const char *proc, pid_t pid, struct lock_children *ret);
