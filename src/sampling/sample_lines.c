#include "sampling/sample_lines.h"
#include "base/cursor.h"
#include "base/json.h"
#include "base/str.h"
#include "exam/code_list.h"
#include "eventpipe/modules.h"
#include "symbols/pdb.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HITS_MAX 200000
#define LINES_KEPT 400
#define METHODS_MAX 1000000
#define ENTRIES_MAX 4000000 /* of IL maps: 32 MB */
enum { LISTED_IL_MAP = 150, NEW_IL_MAP = 190 };

struct hit {
	uint64_t start, offset, weight;
	uint32_t frame;
	uint32_t token, il; /* token 0: not known */
	uint64_t module;
};
struct il_entry {
	uint32_t il, native;
};
/* Code of the user's own, as the runtime lists it. */
struct listed {
	uint64_t start, module;
	uint32_t size, token;
	uint32_t first, n; /* in entries */
};

struct sample_lines {
	const struct whose_names *whose;
	VEC(struct hit) hits;
	struct map_u64 by_address; /* -> hit + 1 */
	/* In a rundown the map stands before the method it belongs to, of new code behind it. Which methods were hit
	 * may not be known yet. */
	uint64_t map_method;
	VEC(struct il_entry) map, entries;
	VEC(struct listed) listed;
	struct map_u64 by_start; /* -> listed + 1 */
	struct map_u64 new_code; /* id of a method whose map is still to come -> listed + 1 */
	struct clr_modules modules;
	struct buf text;
};

struct sample_lines *sample_lines_new(const struct whose_names *whose)
{
	struct sample_lines *l = mem_zalloc(sizeof(*l));
	l->whose = whose;
	return l;
}

void sample_lines_free(struct sample_lines *l)
{
	if (!l)
		return;
	vec_free(&l->hits);
	map_u64_free(&l->by_address);
	vec_free(&l->map);
	vec_free(&l->entries);
	vec_free(&l->listed);
	map_u64_free(&l->by_start);
	map_u64_free(&l->new_code);
	clr_modules_free(&l->modules);
	buf_free(&l->text);
	mem_free(l);
}

void sample_line_list_free(struct sample_line_list *list)
{
	vec_each(x, list)
		mem_free(x->file);
	vec_free(list);
}

void sample_lines_hit(struct sample_lines *l, const struct method *method, uint64_t address, uint32_t frame,
		      uint64_t weight)
{
	uint64_t *known = map_u64_get(&l->by_address, address);
	if (known) {
		l->hits.v[*known - 1].weight += weight;
		return;
	}
	if (l->hits.n >= HITS_MAX)
		return;
	vec_push(
		&l->hits,
		((struct hit){
			.start = method->start, .offset = address - method->start, .weight = weight, .frame = frame }));
	*map_u64_put(&l->by_address, address, NULL) = l->hits.n;
}

/* --- what the runtime knows --- */

/* MethodID, ReJITID, extent, count, then the IL offsets and the native offsets. */
static void take_map(struct sample_lines *l, const struct nettrace_event *event)
{
	struct cursor c = cursor_make(event->payload, event->payload_size);
	l->map_method = cursor_u64(&c);
	cursor_u64(&c);
	cursor_u8(&c);
	size_t n = cursor_u16(&c);
	const uint8_t *il = cursor_take(&c, 4 * n), *native = cursor_take(&c, 4 * n);
	vec_clear(&l->map);
	for (size_t i = 0; native && i < n; i++) {
		struct il_entry e;
		memcpy(&e.il, il + 4 * i, 4);
		memcpy(&e.native, native + 4 * i, 4);
		vec_push(&l->map, e);
	}
}

/* The nearest place before it whose IL is known; places without IL (prologs and the like) have offsets from -3 up. */
static bool il_of(const struct sample_lines *l, const struct listed *m, uint64_t offset, uint32_t *ret)
{
	const struct il_entry *best = NULL;
	for (uint32_t i = m->first; i < m->first + m->n; i++) {
		const struct il_entry *e = &l->entries.v[i];
		if (e->native <= offset && e->il < 0xfffffff0u && (!best || e->native >= best->native))
			best = e;
	}
	if (best)
		*ret = best->il;
	return best;
}

static void add_map(struct sample_lines *l, struct listed *m)
{
	if (l->entries.n + l->map.n > ENTRIES_MAX)
		return;
	m->first = (uint32_t)l->entries.n;
	m->n = (uint32_t)l->map.n;
	vec_each(e, &l->map)
		vec_push(&l->entries, *e);
}

/* NULL: none of the user's own. */
static struct listed *keep_method(struct sample_lines *l, const struct clr_method *m)
{
	buf_clear(&l->text);
	utf16_add(&l->text, m->space.units, MIN(m->space.n, (size_t)256));
	if (l->listed.n >= METHODS_MAX || method_is_framework(l->whose, buf_cstr(&l->text)))
		return NULL;
	vec_push(&l->listed,
		 ((struct listed){ .start = m->start, .module = m->module, .size = m->size, .token = m->token }));
	*map_u64_put(&l->by_start, m->start, NULL) = l->listed.n;
	return &l->listed.v[l->listed.n - 1];
}

static void listed_event(struct sample_lines *l, const struct nettrace_event *event)
{
	struct clr_method m;
	if (event->meta->event_id == LISTED_IL_MAP)
		take_map(l, event);
	if (clr_event(event) != CLR_METHOD_LOAD || !clr_decode_method(event, &m) || m.id != l->map_method)
		return;
	struct listed *kept = keep_method(l, &m);
	if (kept)
		add_map(l, kept);
	l->map_method = 0;
}

static void new_event(struct sample_lines *l, const struct nettrace_event *event)
{
	struct clr_method m;
	if (clr_event(event) == CLR_METHOD_LOAD && clr_decode_method(event, &m) && keep_method(l, &m))
		*map_u64_put(&l->new_code, m.id, NULL) = l->listed.n;
	if (event->meta->event_id != NEW_IL_MAP)
		return;
	take_map(l, event);
	const uint64_t *at = map_u64_get(&l->new_code, l->map_method);
	if (at && !l->listed.v[*at - 1].n)
		add_map(l, &l->listed.v[*at - 1]);
	l->map_method = 0;
}

void sample_lines_event(struct sample_lines *l, const struct nettrace_event *event)
{
	clr_modules_event(&l->modules, event);
	if (str_eq(event->meta->provider, CLR_RUNDOWN_PROVIDER))
		listed_event(l, event);
	else if (str_eq(event->meta->provider, CLR_PROVIDER))
		new_event(l, event);
}

static void find_places(struct sample_lines *l)
{
	vec_each(h, &l->hits) {
		const uint64_t *at = map_u64_get(&l->by_start, h->start);
		const struct listed *m = at ? &l->listed.v[*at - 1] : NULL;
		if (m && h->offset < m->size && il_of(l, m, h->offset, &h->il)) {
			h->token = m->token;
			h->module = m->module;
		}
	}
}

/* Those whose map no event brought. */
static void ask_places(struct sample_lines *l, struct exam *exam)
{
	VEC(struct code_place) places = { 0 };
	size_t next = 0;
	vec_each(h, &l->hits)
		if (!h->token)
			vec_push(&places, ((struct code_place){ .address = h->start + h->offset }));
	exam_code_places(exam, places.v, places.n);
	vec_each(h, &l->hits) {
		if (h->token || next >= places.n)
			continue;
		const struct code_place *p = &places.v[next++];
		h->token = p->token;
		h->module = p->module;
		h->il = p->il;
	}
	vec_free(&places);
}

/* --- lines --- */

static int heaviest_first(const void *pa, const void *pb)
{
	const struct sample_line *a = pa, *b = pb;
	return CMP(b->weight, a->weight) ?: CMP(a->frame, b->frame) ?: CMP(a->line, b->line);
}

/* The compiler may have run on Windows. */
static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/'), *back = strrchr(path, '\\');
	return MAX(slash ? slash + 1 : path, back ? back + 1 : path);
}

static void add_line(struct sample_line_list *list, struct map_u64 *index, const struct hit *h,
		     const struct pdb_line *at)
{
	bool new;
	uint64_t key = (uint64_t)h->frame << 32 | at->line;
	uint64_t *place = map_u64_put(index, key, &new);
	if (new) {
		*place = list->n;
		vec_push(list, ((struct sample_line){ h->frame, at->line, mem_strdup(last_part(at->file)), 0 }));
	}
	list->v[*place].weight += h->weight;
}

void sample_lines_resolve(struct sample_lines *l, struct exam *exam, struct sample_line_list *ret)
{
	char root[64];
	struct map_u64 index = { 0 };
	find_places(l);
	ask_places(l, exam);
	snprintf(root, sizeof(root), "/proc/%d/root", (int)exam->patient->target.pid);
	CLEANUP(pdbs_freep) struct pdbs *pdbs = pdbs_new(root);
	vec_each(h, &l->hits) {
		struct clr_module_file file;
		bool known = h->token && clr_modules_find(&l->modules, h->module, &file);
		struct pdb *pdb = known ? pdbs_get_told(pdbs, file.path, file.pdb) : NULL;
		struct pdb_line at;
		if (pdb && pdb_line(pdb, h->token, h->il, &at))
			add_line(ret, &index, h, &at);
	}
	map_u64_free(&index);
	vec_sort(ret, heaviest_first);
	while (ret->n > LINES_KEPT)
		mem_free(ret->v[--ret->n].file);
}

/* --- kept --- */

void sample_lines_save(const struct sample_line_list *list, const struct samples *samples, struct exam *exam)
{
	if (!exam->recording)
		return;
	json_t *all = json_array();
	vec_each(x, list)
		json_array_append_new(all, json_pack("[s,s,I,I]", samples_frame_name(samples, x->frame), x->file,
						     (json_int_t)x->line, (json_int_t)x->weight));
	recording_set_fact(exam->recording, "lines", all);
	json_decref(all);
}

void sample_lines_load(const struct exam *exam, struct samples *samples, struct sample_line_list *ret)
{
	const json_t *all = recording_fact(exam->recording, "lines");
	for (size_t i = 0; i < json_array_size(all) && i < LINES_KEPT; i++) {
		const json_t *x = json_array_get(all, i);
		const char *name = json_string_value(json_array_get(x, 0)),
			   *file = json_string_value(json_array_get(x, 1));
		json_int_t line = json_integer_value(json_array_get(x, 2)),
			   weight = json_integer_value(json_array_get(x, 3));
		if (!name || !file || line <= 0 || line > INT32_MAX || weight <= 0)
			continue;
		vec_push(ret, ((struct sample_line){ samples_frame(samples, name, NULL, FRAME_CODE), (uint32_t)line,
						     mem_strndup(file, 256), (uint64_t)weight }));
	}
}
