/* Frames of samples: what the code at an address is called, and which part of the process it belongs to. */

#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam/lambda_lines.h"
#include "sampling/sampling_parts.h"
#include <stdio.h>

bool sampling_find_method(void *user, uint64_t address, struct unwind_method *ret)
{
	struct sampling *g = user;
	const struct method *m = methods_find(g->methods, address);
	if (!m)
		return false;
	*ret = (struct unwind_method){ .start = m->start, .size = m->size, .version = m->order };
	return true;
}

enum frame_kind method_kind(const struct whose_names *whose, const char *space)
{
	/* No space, or this one: stubs that the runtime compiles for calls out of managed code. */
	bool stub = !*space || str_eq(space, "dynamicClass");
	return stub || method_is_framework(whose, space) ? FRAME_FRAMEWORK : FRAME_CODE;
}

/* Lambdas of one method may be shown by the same name until their lines are known: these differ. */
static void add_raw_name(const struct method *m, struct buf *out)
{
	buf_printf(out, "%s.%s", m->space, m->name);
}

uint32_t sampling_method_frame(struct sampling *g, const struct method *m)
{
	bool new;
	uint64_t *place = map_u64_put(&g->by_method, hash_u64(m->start) ^ m->order, &new);
	if (!new)
		return (uint32_t)*place;
	buf_clear(&g->text);
	if (method_is_lambda(m->space, m->name))
		add_raw_name(m, &g->text);
	else
		method_show(m->space, m->name, &g->text);
	uint32_t frame = samples_frame(g->samples, buf_cstr(&g->text), NULL, method_kind(g->exam->whose, m->space));
	*map_u64_put(&g->by_method, hash_u64(m->start) ^ m->order, NULL) = frame;
	return frame;
}

/* Code that may yet turn out to be a method. */
static uint32_t later_frame(struct sampling *g, uint64_t address)
{
	bool new;
	uint64_t *place = map_u64_put(&g->later_index, address, &new);
	if (!new)
		return (uint32_t)*place;
	char name[40];
	snprintf(name, sizeof(name), "[code at 0x%llx]", (unsigned long long)address);
	uint32_t frame = samples_frame(g->samples, name, NULL, FRAME_OTHER);
	vec_push(&g->later, ((struct sampling_later){ frame, address }));
	*map_u64_put(&g->later_index, address, NULL) = frame;
	return frame;
}

enum frame_kind native_code_kind(const char *module)
{
	if (str_starts(module, "libclrjit"))
		return FRAME_JIT;
	return str_starts(module, "libclrgc") ? FRAME_GC : FRAME_NATIVE;
}

static uint32_t native_frame(struct sampling *g, uint64_t address)
{
	uint64_t *known = map_u64_get(&g->by_address, address);
	if (known)
		return (uint32_t)*known;
	const struct space_map *map = space_find(g->space, address);
	if (!map || !map->object)
		return later_frame(g, address);
	struct space_object *o = space_open(g->space, map);
	if (o->pe)
		return later_frame(g, address);
	buf_clear(&g->text);
	if (!space_symbol(g->space, map, address, &g->text))
		buf_printf(&g->text, o->shrunk ? "[%s, which became shorter]" : "[%s]", o->name);
	uint32_t frame = samples_frame(g->samples, buf_cstr(&g->text), o->name, native_code_kind(o->name));
	*map_u64_put(&g->by_address, address, NULL) = frame;
	return frame;
}

static uint32_t kernel_frame(struct sampling *g, uint64_t address)
{
	uint64_t *known = map_u64_get(&g->by_address, address);
	if (known)
		return (uint32_t)*known;
	const char *name = kernel_symbol(g->kernel, address);
	g->kernel_seen = true;
	g->facts->kernel_names |= name != NULL;
	uint32_t frame = samples_frame(g->samples, name ? name : "[kernel]", "kernel", FRAME_KERNEL);
	*map_u64_put(&g->by_address, address, NULL) = frame;
	return frame;
}

static uint32_t user_frame(struct sampling *g, uint64_t address)
{
	const struct method *m = methods_find(g->methods, address);
	return m ? sampling_method_frame(g, m) : native_frame(g, address);
}

static size_t add_kernel(struct sampling *g, const struct record *r, size_t n)
{
	for (size_t i = 0; i < r->n_kernel && n < SAMPLING_KERNEL_FRAMES_MAX; i++) {
		uint64_t ip = record_kernel_ip(r, i);
		if (ip)
			g->frames[n++] = kernel_frame(g, ip);
	}
	return n;
}

size_t sampling_unwind(struct sampling *g, const struct record *r, size_t n)
{
	struct unwound *u = &g->unwound;
	if (!r->has_regs) {
		u->end = UNWIND_ROOT;
		u->guessed = 0;
		return n;
	}
	unwind(g->unwinder, &r->regs, &r->stack, u);
	for (size_t i = 0; i < u->n; i++)
		g->frames[n++] = user_frame(g, u->ips[i] - !unwound_exact(u, i));
	/* What is missing is shown where it is missing: at the root. */
	if (u->end == UNWIND_CUT || u->end == UNWIND_DEEP)
		g->frames[n++] = samples_frame(g->samples, "[truncated]", NULL, FRAME_OTHER);
	else if (u->end == UNWIND_LOST)
		g->frames[n++] = samples_frame(g->samples, "[incomplete]", NULL, FRAME_OTHER);
	return n;
}

uint32_t sampling_stack(struct sampling *g, const struct record *r)
{
	struct sampling_facts *f = g->facts;
	size_t n = sampling_unwind(g, r, add_kernel(g, r, 0));
	const struct unwound *u = &g->unwound;
	f->samples++;
	f->ends[u->end]++;
	f->guessed += u->guessed > 0;
	g->seen++;
	g->cut += u->end == UNWIND_CUT;
	return samples_stack(g->samples, g->frames, n, u->end, u->guessed > 0);
}

/* --- names that come later --- */

void sampling_name_known(struct sampling *g)
{
	size_t n = 0;
	vec_each(l, &g->later) {
		const struct method *m = methods_find(g->methods, l->address);
		if (!m) {
			g->later.v[n++] = *l;
			continue;
		}
		/* On its own: it may move the frames. */
		uint32_t same = sampling_method_frame(g, m);
		g->samples->frames.v[l->frame] = g->samples->frames.v[same];
	}
	g->later.n = n;
}

void sampling_name_rest(struct sampling *g)
{
	struct samples *s = g->samples;
	uint32_t stub = strtab_add_cstr(&s->strings, "[stub]");
	sampling_name_known(g);
	vec_each(l, &g->later)
		s->frames.v[l->frame].name = stub;
}

struct renaming {
	struct sampling *g;
	struct map_u64 names; /* of lambdas, as they were added -> as they are shown */
};

static void rename_lambda(void *user, const struct method *m)
{
	struct renaming *r = user;
	struct strtab *strings = &r->g->samples->strings;
	struct buf *text = &r->g->text;
	if (!method_is_lambda(m->space, m->name))
		return;
	buf_clear(text);
	add_raw_name(m, text);
	uint32_t added = strtab_find(strings, text->data, text->len);
	if (added == STRTAB_NONE)
		return;
	buf_clear(text);
	methods_show(r->g->methods, m, text);
	*map_u64_put(&r->names, added, NULL) = strtab_add(strings, buf_cstr(text), text->len);
}

void sampling_name_lambdas(struct sampling *g)
{
	struct renaming r = { .g = g };
	if (g->facts->named && !g->exam->cancelled)
		lambda_lines_learn(g->exam, g->methods);
	methods_each(g->methods, rename_lambda, &r);
	vec_each(f, &g->samples->frames) {
		const uint64_t *shown = map_u64_get(&r.names, f->name);
		f->name = shown ? (uint32_t)*shown : f->name;
	}
	map_u64_free(&r.names);
}

bool sampling_unnamed(const struct sampling *g)
{
	vec_each(l, &g->later)
		if (!methods_find(g->methods, l->address))
			return true;
	return false;
}

bool sampling_unlisted(const struct sampling *g)
{
	vec_each(l, &g->later) {
		const struct space_map *map =
			methods_find(g->methods, l->address) ? NULL : space_find(g->space, l->address);
		if (map && map->object && space_open(g->space, map)->pe)
			return true;
	}
	return false;
}
