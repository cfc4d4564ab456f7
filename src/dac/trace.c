/* The stack that an exception object carries, as the runtime keeps it: an array of bytes (or, with objects that it
 * keeps alive, an array of objects whose first element is that).
 *
 *   0  u64 number of frames (low 32 bits), u64 thread, then for each: u64 ip, u64 sp, u64 method, u64 flags */

#include "dac/dac.h"

#define ARRAY_COUNT 8
#define ARRAY_DATA 16
#define HEAD_BYTES 16
#define FRAME_BYTES 32
#define MAX_FRAMES 100000

static bool read_array(const struct dac *d, uint64_t object, uint32_t *ret_component, uint32_t *ret_n)
{
	uint64_t type;
	uint32_t flags;
	/* An array's method table begins with the size of an element, and bit 31 says that it does. */
	if (!object || !image_read_all(dac_image(d), object, &type, sizeof(type)) ||
	    !image_read_all(dac_image(d), type & ~(uint64_t)7, &flags, sizeof(flags)) || !(flags & 0x80000000) ||
	    !image_read_all(dac_image(d), object + ARRAY_COUNT, ret_n, sizeof(*ret_n)))
		return false;
	*ret_component = flags & 0xffff;
	return true;
}

static void read_frames(const struct dac *d, uint64_t array, uint32_t bytes, struct dac_stack *ret)
{
	uint32_t n;
	if (bytes < HEAD_BYTES || !image_read_all(dac_image(d), array + ARRAY_DATA, &n, sizeof(n)))
		return;
	n = MIN(n, (bytes - HEAD_BYTES) / FRAME_BYTES);
	ret->cut = n > MAX_FRAMES;
	for (uint32_t i = 0; i < MIN(n, (uint32_t)MAX_FRAMES); i++) {
		uint64_t frame[3];
		if (!image_read_all(dac_image(d), array + ARRAY_DATA + HEAD_BYTES + (uint64_t)i * FRAME_BYTES, frame,
				    sizeof(frame)))
			return;
		vec_push(ret,
			 ((struct dac_frame){ .ip = frame[0], .sp = frame[1], .method = frame[2], .il_offset = -1 }));
	}
}

/* The address lies inside the call already, so it needs no step back. */
static void find_il(struct dac *d, struct dac_frame *f)
{
	struct dac_code code = { 0 };
	uint64_t best = 0;
	struct err *err = dac_code(d, f->ip, &code);
	if (err) {
		err_free(err);
		return;
	}
	f->native_offset = f->ip >= code.start && f->ip - code.start < code.size ? (uint32_t)(f->ip - code.start) : 0;
	vec_each(il, &code) {
		if (il->il_offset < 0 || il->start > f->ip || il->start < best)
			continue;
		best = il->start;
		f->il_offset = il->il_offset;
	}
	dac_code_free(&code);
}

struct err *dac_exception_stack(struct dac *d, const struct dac_exception *exception, struct dac_stack *ret)
{
	uint32_t component = 0, n = 0;
	uint64_t array = exception->stack_trace;
	*ret = (struct dac_stack){ 0 };
	bool there = read_array(d, array, &component, &n);
	if (there && component == sizeof(uint64_t) && n)
		there = image_read_all(dac_image(d), array + ARRAY_DATA, &array, sizeof(array)) &&
			read_array(d, array, &component, &n);
	if (!there || component != 1)
		return NULL;
	read_frames(d, array, n, ret);
	struct dac_addresses methods = { 0 };
	uint64_t last_ip = 0;
	vec_each(f, ret) {
		vec_push(&methods, f->method);
		/* An endless recursion is one place, many times. */
		if (f->ip == last_ip)
			f->il_offset = f[-1].il_offset;
		else
			find_il(d, f);
		last_ip = f->ip;
	}
	struct err *err = dac_learn_methods(d, methods.v, methods.n);
	dac_addresses_free(&methods);
	if (err)
		dac_stack_free(ret);
	return err;
}
