/* A heap as a stream: first what is known beforehand, then the objects in the order of the walk, then what the walk has
 * learnt. A number is a LEB128; a text is its length and its bytes.
 *
 *   magic u32, objects u64, references u64 (both filled in at the end)
 *   regions: count, each { start / 8, length / 8, committed / 8, heap, generation }
 *   roots:   count, each { kind, name, thread, count, address / 8 ... }
 *   links:   count, each { from / 8, to / 8 }
 *   objects, region by region:
 *     0                      the region ends
 *     1, units               room without an object
 *     2 + type, ...          an object. A type that is new (its number is the next one) brings its shape: kind,
 *                            variable, then units and slots unless variable. A variable one has its units.
 *                            References: 0 = null, else 1 + zigzag((target - this) / 8); as many as it has slots; of
 *                            a variable type only those that are not null, ended by 0.
 *   types:   each { name, module, loader / 8, name of each slot }
 *   facts:   count, values in the order of struct graph_facts */

#include "model/heapgraph_internal.h"
#include <string.h>

struct heapgraph_writer {
	struct buf *out;
	size_t counts_at;
	uint64_t objects, references;
	enum { AT_REGIONS, AT_ROOTS, AT_LINKS, AT_OBJECTS, AT_TYPES } stage;
	/* What has to be counted before it is written waits here. */
	struct buf pending;
	uint64_t n_pending;
	VEC(struct graph_region) regions;
	size_t region;
	uint64_t address, next; /* of the last object; where the next one is expected */
	bool open, variable;
	uint32_t slots_left;
	VEC(uint32_t) order, index; /* type by number; number + 1 by type */
};

static void put_text(struct buf *out, const char *s)
{
	buf_vartext(out, s, s ? strlen(s) : 0);
}

struct heapgraph_writer *heapgraph_writer_new(struct buf *out)
{
	struct heapgraph_writer *w = mem_zalloc(sizeof(*w));
	w->out = out;
	buf_u32(out, HEAPGRAPH_MAGIC);
	w->counts_at = out->len;
	buf_add(out, (uint64_t[2]){ 0 }, 2 * sizeof(uint64_t));
	return w;
}

void heapgraph_writer_free(struct heapgraph_writer *w)
{
	if (!w)
		return;
	buf_free(&w->pending);
	vec_free(&w->regions);
	vec_free(&w->order);
	vec_free(&w->index);
	mem_free(w);
}

static void flush(struct heapgraph_writer *w)
{
	buf_varu64(w->out, w->n_pending);
	buf_add(w->out, w->pending.data, w->pending.len);
	buf_clear(&w->pending);
	w->n_pending = 0;
	w->stage++;
}

static void reach(struct heapgraph_writer *w, unsigned stage)
{
	while (w->stage < stage)
		flush(w);
}

void heapgraph_write_region(struct heapgraph_writer *w, const struct graph_region *r)
{
	struct buf *out = &w->pending;
	uint64_t committed = r->committed > r->start ? r->committed - r->start : 0;
	w->n_pending++;
	buf_varu64(out, r->start / 8);
	buf_varu64(out, (r->end - r->start) / 8);
	buf_varu64(out, committed / 8);
	buf_varu64(out, r->heap);
	buf_varu64(out, r->generation);
	vec_push(&w->regions, *r);
}

void heapgraph_write_root(struct heapgraph_writer *w, enum graph_root kind, const char *name, const char *thread,
			  const uint64_t *objects, size_t n)
{
	reach(w, AT_ROOTS);
	w->n_pending++;
	buf_varu64(&w->pending, kind);
	put_text(&w->pending, name);
	put_text(&w->pending, thread);
	buf_varu64(&w->pending, n);
	for (size_t i = 0; i < n; i++)
		buf_varu64(&w->pending, objects[i] / 8);
}

void heapgraph_write_link(struct heapgraph_writer *w, uint64_t from, uint64_t to)
{
	reach(w, AT_LINKS);
	w->n_pending++;
	buf_varu64(&w->pending, from / 8);
	buf_varu64(&w->pending, to / 8);
}

/* The last object has all its references. */
static void close_object(struct heapgraph_writer *w)
{
	if (!w->open)
		return;
	if (w->variable)
		buf_varu64(w->out, 0);
	for (; w->slots_left; w->slots_left--)
		buf_varu64(w->out, 0);
	w->open = false;
}

static void next_region(struct heapgraph_writer *w)
{
	buf_varu64(w->out, 0);
	w->region++;
	w->next = w->region < w->regions.n ? w->regions.v[w->region].start : 0;
}

static uint32_t number_of(struct heapgraph_writer *w, uint32_t type, bool *ret_new)
{
	while (w->index.n <= type)
		vec_push(&w->index, 0);
	*ret_new = !w->index.v[type];
	if (*ret_new) {
		vec_push(&w->order, type);
		w->index.v[type] = (uint32_t)w->order.n;
	}
	return w->index.v[type] - 1;
}

void heapgraph_write_object(struct heapgraph_writer *w, uint64_t address, uint64_t size, uint32_t type,
			    const struct graph_type *shape)
{
	bool fresh;
	if (w->stage < AT_OBJECTS) {
		reach(w, AT_OBJECTS);
		w->next = w->regions.n ? w->regions.v[0].start : 0;
	}
	close_object(w);
	while (w->region < w->regions.n && address >= w->regions.v[w->region].end)
		next_region(w);
	if (address > w->next) {
		buf_varu64(w->out, HEAPGRAPH_GAP);
		buf_varu64(w->out, (address - w->next) / 8);
	}
	uint32_t number = number_of(w, type, &fresh);
	buf_varu64(w->out, (uint64_t)number + HEAPGRAPH_TYPES);
	if (fresh) {
		buf_varu64(w->out, shape->kind);
		buf_varu64(w->out, shape->variable);
		if (!shape->variable) {
			buf_varu64(w->out, shape->units);
			buf_varu64(w->out, shape->n_slots);
		}
	}
	if (shape->variable)
		buf_varu64(w->out, size / 8);
	w->address = address;
	w->next = address + size;
	w->variable = shape->variable;
	w->slots_left = shape->variable ? 0 : shape->n_slots;
	w->references += w->slots_left;
	w->open = true;
	w->objects++;
}

void heapgraph_write_refs(struct heapgraph_writer *w, const uint64_t *refs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int64_t delta = (int64_t)(refs[i] - w->address) / 8;
		uint64_t code =
			refs[i] && !(refs[i] & 7) ? 1 + ((uint64_t)delta << 1 ^ (delta < 0 ? UINT64_MAX : 0)) : 0;
		if (w->variable) {
			if (!code)
				continue;
			w->references++;
		} else if (!w->slots_left) {
			return;
		} else {
			w->slots_left--;
		}
		buf_varu64(w->out, code);
	}
}

void heapgraph_end_objects(struct heapgraph_writer *w)
{
	reach(w, AT_OBJECTS);
	close_object(w);
	while (w->region < w->regions.n)
		next_region(w);
	w->stage = AT_TYPES;
	uint64_t counts[2] = { w->objects, w->references };
	if (!w->out->overflow)
		memcpy(w->out->data + w->counts_at, counts, sizeof(counts));
}

const uint32_t *heapgraph_type_order(const struct heapgraph_writer *w, size_t *ret_n)
{
	*ret_n = w->order.n;
	return w->order.v;
}

void heapgraph_write_type(struct heapgraph_writer *w, const struct graph_type *type)
{
	put_text(w->out, type->name);
	put_text(w->out, type->module);
	buf_varu64(w->out, type->loader / 8);
	for (uint32_t i = 0; !type->variable && i < type->n_slots; i++)
		put_text(w->out, type->slots ? type->slots[i] : "");
}

/* ---- facts as numbers ---- */

#define FACTS(X)                                                                                                       \
	X(0, objects)                                                                                                  \
	X(1, bytes)                                                                                                    \
	X(2, free_objects)                                                                                             \
	X(3, free_bytes)                                                                                               \
	X(4, unused_bytes)                                                                                             \
	X(5, lost_bytes)                                                                                               \
	X(6, lost_at)                                                                                                  \
	X(7, n_finalizable)                                                                                            \
	X(8, rss)                                                                                                      \
	X(9, committed)

enum { FACT_HEAPS = 10, FACT_LOST_REGIONS, FACT_FLAGS, FACT_AREA };
_Static_assert(FACT_AREA + GRAPH_AREAS == HEAPGRAPH_FACTS, "all of them");

static void facts_to_values(const struct graph_facts *f, uint64_t values[HEAPGRAPH_FACTS])
{
#define PUT(i, name) values[i] = f->name;
	FACTS(PUT)
	values[FACT_HEAPS] = f->n_heaps;
	values[FACT_LOST_REGIONS] = f->lost_regions;
	values[FACT_FLAGS] = (f->server ? 1u : 0) | (f->uses_regions ? 2u : 0);
	for (size_t i = 0; i < GRAPH_AREAS; i++)
		values[FACT_AREA + i] = f->area[i];
}

void heapgraph_write_facts(struct heapgraph_writer *w, const struct graph_facts *f)
{
	uint64_t values[HEAPGRAPH_FACTS];
	facts_to_values(f, values);
	buf_varu64(w->out, HEAPGRAPH_FACTS);
	for (size_t i = 0; i < HEAPGRAPH_FACTS; i++)
		buf_varu64(w->out, values[i]);
}

void heapgraph_facts_from_values(const uint64_t values[HEAPGRAPH_FACTS], struct graph_facts *f)
{
#define GET(i, name) f->name = values[i];
	FACTS(GET)
	f->n_heaps = (uint32_t)MIN(values[FACT_HEAPS], (uint64_t)UINT32_MAX);
	f->lost_regions = (uint32_t)MIN(values[FACT_LOST_REGIONS], (uint64_t)UINT32_MAX);
	f->server = values[FACT_FLAGS] & 1;
	f->uses_regions = values[FACT_FLAGS] & 2;
	for (size_t i = 0; i < GRAPH_AREAS; i++)
		f->area[i] = values[FACT_AREA + i];
}
