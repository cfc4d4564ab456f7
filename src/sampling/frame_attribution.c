#include "sampling/frame_attribution.h"

/* The same stack with their frames, or the stack itself. */
static uint32_t marked(struct samples *s, const struct attribution *m, uint32_t stack)
{
	const struct samples_stack k = s->stacks.v[stack];
	CLEANUP(mem_freep) uint32_t *frames = mem_array(k.n + 1, sizeof(*frames));
	bool any = false, above = true;
	for (uint32_t i = 0; i < k.n; i++) {
		frames[i] = s->stack_frames.v[k.first + i];
		const struct samples_frame f = s->frames.v[frames[i]];
		bool managed = f.kind == FRAME_CODE || f.kind == FRAME_FRAMEWORK;
		if (above && managed && m->leaves_method && m->leaves_method(samples_frame_name(s, frames[i])))
			return stack;
		above = above && !managed && f.kind != FRAME_JIT;
		if (above && f.kind == FRAME_NATIVE && f.module != STRTAB_NONE &&
		    m->takes_module(m->user, strtab_get(&s->strings, f.module))) {
			frames[i] = samples_frame_as(s, frames[i], m->name, m->kind);
			any = true;
		}
	}
	uint32_t with = any ? samples_stack(s, frames, k.n, k.end, k.guessed) : stack;
	return with == SAMPLES_FULL ? stack : with;
}

void samples_attribute(struct samples *s, const struct attribution *m)
{
	struct map_u64 memo = { 0 }; /* stack -> the marked one + 1 */
	vec_each(x, &s->list) {
		if (!m->takes_sample(m->user, s, x))
			continue;
		uint64_t known = *map_u64_put(&memo, x->stack, NULL);
		uint32_t with = known ? (uint32_t)known - 1 : marked(s, m, x->stack);
		*map_u64_put(&memo, x->stack, NULL) = (uint64_t)with + 1;
		x->stack = with;
	}
	map_u64_free(&memo);
}
