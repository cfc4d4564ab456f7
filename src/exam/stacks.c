#include "exam/stacks.h"
#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <string.h>

/* 32 MB of addresses; deeper frames of a stack say little about who threw or allocated. */
#define FRAMES_TOTAL_MAX (4u << 20)
#define FRAMES_EACH_MAX 128
#define LINES_MAX 20

struct stack_entry {
	uint32_t first, n;
	uint32_t next; /* with the same hash; STACKS_NONE ends */
};

struct stacks {
	const struct whose_names *whose;
	VEC(struct stack_entry) entries;
	VEC(uint64_t) frames;
	struct map_u64 by_hash;	   /* -> entry index */
	struct map_u64 by_address; /* -> name id + 1 */
	struct strtab names;
	VEC(uint32_t) spaces; /* per name id: id of its space */
	VEC(uint8_t) known;   /* per name id */
	struct buf text;
};

struct stacks *stacks_new(const struct whose_names *whose)
{
	struct stacks *s = mem_zalloc(sizeof(*s));
	s->whose = whose;
	return s;
}

void stacks_free(struct stacks *s)
{
	if (!s)
		return;
	vec_free(&s->entries);
	vec_free(&s->frames);
	map_u64_free(&s->by_hash);
	map_u64_free(&s->by_address);
	strtab_free(&s->names);
	vec_free(&s->spaces);
	vec_free(&s->known);
	buf_free(&s->text);
	mem_free(s);
}

static bool same(const struct stacks *s, const struct stack_entry *e, const uint64_t *frames, size_t n)
{
	return e->n == n && !memcmp(&s->frames.v[e->first], frames, n * sizeof(*frames));
}

uint32_t stacks_add(struct stacks *s, const struct nettrace_event *event)
{
	uint64_t frames[FRAMES_EACH_MAX];
	size_t n = MIN(event->n_frames, (size_t)FRAMES_EACH_MAX);
	if (!n || s->frames.n + n > FRAMES_TOTAL_MAX)
		return STACKS_NONE;
	for (size_t i = 0; i < n; i++)
		frames[i] = nettrace_event_frame(event, i);
	bool new;
	uint64_t *head = map_u64_put(&s->by_hash, hash_bytes(frames, n * sizeof(frames[0]), 0), &new);
	if (new)
		*head = STACKS_NONE;
	for (uint32_t i = (uint32_t)*head; i != STACKS_NONE; i = s->entries.v[i].next) {
		if (same(s, &s->entries.v[i], frames, n))
			return i;
	}
	struct stack_entry entry = { .first = (uint32_t)s->frames.n, .n = (uint32_t)n, .next = (uint32_t)*head };
	for (size_t i = 0; i < n; i++)
		vec_push(&s->frames, frames[i]);
	*head = s->entries.n;
	vec_push(&s->entries, entry);
	return (uint32_t)*head;
}

size_t stacks_count(const struct stacks *s)
{
	return s->entries.n;
}

size_t stacks_depth(const struct stacks *s, uint32_t id)
{
	return s->entries.v[id].n;
}

/* Interns the name of an address; remembers what is known about it beside. */
static uint32_t name_of(struct stacks *s, struct methods *methods, uint64_t address)
{
	bool new;
	uint64_t *place = map_u64_put(&s->by_address, address, &new);
	if (!new)
		return (uint32_t)*place;
	const struct method *m = methods_find(methods, address);
	buf_clear(&s->text);
	if (m)
		methods_show(methods, m, &s->text);
	else
		buf_printf(&s->text, "[unknown 0x%llx]", (unsigned long long)address);
	uint32_t id = strtab_add(&s->names, buf_cstr(&s->text), s->text.len);
	uint32_t space = strtab_add_cstr(&s->names, m ? m->space : "");
	while (s->spaces.n < s->names.n) {
		vec_push(&s->spaces, 0);
		vec_push(&s->known, 0);
	}
	s->spaces.v[id] = space;
	s->known.v[id] = m != NULL;
	*map_u64_put(&s->by_address, address, NULL) = id;
	return id;
}

struct stack_frame stacks_frame(struct stacks *s, struct methods *methods, uint32_t id, size_t i)
{
	const struct stack_entry *e = &s->entries.v[id];
	/* All but the leaf are return addresses: the call is just before. */
	uint32_t name = name_of(s, methods, s->frames.v[e->first + i] - (i ? 1 : 0));
	const char *space = strtab_get(&s->names, s->spaces.v[name]);
	return (struct stack_frame){
		.name = strtab_get(&s->names, name),
		.space = space,
		.known = s->known.v[name],
		.framework = s->known.v[name] && method_is_framework(s->whose, space),
	};
}

uint64_t stacks_unknown(struct stacks *s, struct methods *methods)
{
	uint64_t unknown = 0;
	for (size_t e = 0; e < s->entries.n; e++) {
		for (size_t i = 0; i < s->entries.v[e].n; i++) {
			uint64_t address = s->frames.v[s->entries.v[e].first + i] - (i ? 1 : 0);
			unknown += !methods_find(methods, address);
		}
	}
	return unknown;
}

size_t stacks_site(struct stacks *s, struct methods *methods, uint32_t id)
{
	size_t perhaps = SIZE_MAX, of[WHOSE_PLATFORM + 1] = { SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX };
	for (size_t i = 0; i < stacks_depth(s, id); i++) {
		struct stack_frame f = stacks_frame(s, methods, id, i);
		if (!f.framework && f.known && !str_eq(f.space, "dynamicClass"))
			return i;
		size_t *first = f.framework ? &of[whose_code(s->whose, f.space)] : &perhaps;
		*first = MIN(*first, i);
	}
	size_t library = of[WHOSE_PACKAGE] != SIZE_MAX ? of[WHOSE_PACKAGE] : of[WHOSE_LIBRARY];
	size_t best = library != SIZE_MAX ? library : perhaps;
	return best == SIZE_MAX ? 0 : best;
}

void stacks_lines(struct stacks *s, struct methods *methods, uint32_t id, size_t first, struct report_row *row)
{
	size_t depth = stacks_depth(s, id), i = first;
	for (size_t lines = 0; i < depth && lines < LINES_MAX; lines++) {
		const char *name = stacks_frame(s, methods, id, i).name;
		size_t times = 1;
		while (i + times < depth && stacks_frame(s, methods, id, i + times).name == name)
			times++;
		CLEANUP(mem_freep) char *line = times > 1 ? mem_printf("%s (×%zu)", name, times) : mem_strdup(name);
		report_row_line(row, VALUE_CODE, line, NULL);
		i += times;
	}
	if (i < depth)
		report_row_line(row, VALUE_TEXT, fmt_plural(depth - i, "more frame", "more frames").s, NULL);
}
