#include "sampling/event_frames.h"
#include "sampling/sampling.h"
#include <stdio.h>

#define FRAMES_MAX 1024

void event_frames_fini(struct event_frames *f)
{
	vec_free(&f->addresses);
	map_u64_free(&f->frames);
	buf_free(&f->text);
}

static uint32_t frame_of(struct event_frames *f, uint64_t address)
{
	uint64_t *known = map_u64_put(&f->frames, address, NULL);
	if (*known)
		return (uint32_t)(*known - 1);
	char name[40];
	snprintf(name, sizeof(name), "[code at 0x%llx]", (unsigned long long)address);
	uint32_t frame = samples_frame(f->samples, name, NULL, FRAME_OTHER);
	*known = frame + 1ull;
	while (f->addresses.n <= frame)
		vec_push(&f->addresses, 0);
	f->addresses.v[frame] = address;
	return frame;
}

uint32_t event_frames_stack(struct event_frames *f, const struct nettrace_event *event)
{
	uint32_t frames[FRAMES_MAX];
	size_t n = 0;
	for (size_t i = 0; i < event->n_frames && n < FRAMES_MAX; i++)
		frames[n++] = frame_of(f, nettrace_event_frame(event, i) - (i ? 1 : 0));
	if (!n)
		frames[n++] = samples_frame(f->samples, "[no stack]", NULL, FRAME_OTHER);
	return samples_stack(f->samples, frames, n, UNWIND_ROOT, false);
}

void event_frames_name(struct event_frames *f, struct methods *methods)
{
	struct samples *s = f->samples;
	for (uint32_t i = 0; i < f->addresses.n; i++) {
		const struct method *m = f->addresses.v[i] ? methods_find(methods, f->addresses.v[i]) : NULL;
		if (!m)
			continue;
		buf_clear(&f->text);
		methods_show(methods, m, &f->text);
		uint32_t same = samples_frame(s, buf_cstr(&f->text), NULL, method_kind(s->whose, m->space));
		s->frames.v[i] = s->frames.v[same];
	}
}
