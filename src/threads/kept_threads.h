#pragma once
/* Thread objects whose thread has ended, and which static fields keep them. */

#include "exam/image_exam.h"

struct kept_holder {
	char *name; /* "Shop.Jobs.History.Finished" */
	uint32_t n;
};
struct kept_threads {
	uint32_t dead;
	VEC(struct kept_holder) holders; /* most first */
	bool cut;			 /* the search was cut by its limits */
};
void kept_threads_free(struct kept_threads *k);
/* Looks for them from static fields, a few steps deep; what cannot be read is left out. */
void kept_threads_drain(struct image_exam *look, struct buf *out);
struct err *kept_threads_take(struct kept_threads *ret, struct cursor *in) MUST_USE;
