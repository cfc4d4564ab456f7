/* Folded stacks: one line for each thread and stack, frames root first between semicolons, then how often. */

#include "base/str.h"
#include "base/vec.h"
#include "export/formats.h"
#include <string.h>

/* Semicolons and line ends have a meaning in the format. */
static void add_frame(struct buf *out, const char *name)
{
	size_t start = out->len;
	utf8_add_valid(out, name, strlen(name));
	for (size_t i = start; i < out->len; i++) {
		char *c = &out->data[i];
		if (*c == ';')
			*c = ':';
		else if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
}

struct err *folded_write(const struct profile *p, struct out *out)
{
	struct profile_sums sums = { 0 };
	struct profile_path path = { 0 };
	struct err *err = profile_sum(p, &sums);
	for (size_t i = 0; i < sums.n && !err && !out_failed(out); i++) {
		add_frame(&out->buf, profile_thread_text(p, sums.v[i].thread));
		profile_path(p, sums.v[i].node, &path);
		vec_each(frame, &path) {
			buf_char(&out->buf, ';');
			add_frame(&out->buf, profile_frame(p, *frame));
		}
		buf_printf(&out->buf, " %llu\n", (unsigned long long)sums.v[i].count);
		out_turn(out);
	}
	vec_free(&sums);
	vec_free(&path);
	return err;
}
