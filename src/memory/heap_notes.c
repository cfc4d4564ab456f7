/* In the recording: tag u32, length u32 of what follows; then numbers as LEB128 and texts:
 *
 *   methods: count, each { text }
 *   notes:   count, each { object, less the one before; 1 + method, or 0 and then due and period }
 *   frames of the finalizer thread: count, each { text }
 *   modules whose static fields are not known: count */

#include "memory/heap_notes.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include "memory/delegates.h"
#include <stdlib.h>
#include <string.h>

#define TAG 0x45544F4Eu /* "NOTE" */
#define NOTES_MAX ((size_t)4 << 20)
#define CODES_MAX ((size_t)1 << 16) /* that delegates point to, told apart */
#define METHODS_MAX 1000u	    /* of these: so many get a name, the most frequent first */
#define FRAMES_MAX 16u
#define TEXT_MAX 4096u
#define FIELDS_AT 8 /* behind the method table */

/* ---- while the heap is walked ---- */

enum note_role { ROLE_UNKNOWN, ROLE_NONE, ROLE_DELEGATE, ROLE_TIMER };

struct note_type {
	enum note_role role;
	uint32_t first, second; /* offsets: method and its other place; due and period */
};

struct note_code {
	uint64_t ip, n;
	uint32_t index, method; /* index: the order in which they were met; method: 0 = it has no name */
};

struct heap_notes_reader {
	VEC(struct note_type) types; /* by the heap's types */
	VEC(struct heap_note) v;     /* method: index of its code */
	struct map_u64 by_ip;	     /* index + 1 */
	VEC(struct note_code) codes;
};

struct heap_notes_reader *heap_notes_reader_new(void)
{
	return mem_zalloc(sizeof(struct heap_notes_reader));
}

void heap_notes_reader_free(struct heap_notes_reader *r)
{
	if (!r)
		return;
	vec_free(&r->types);
	vec_free(&r->v);
	vec_free(&r->codes);
	map_u64_free(&r->by_ip);
	mem_free(r);
}

static bool place(struct heap *h, const struct heap_type *type, const char *field, uint32_t *ret)
{
	const struct heap_field *f = heap_field(h, type, field);
	if (!f || f->is_static)
		return false;
	*ret = FIELDS_AT + f->offset;
	return true;
}

static struct note_type learn_type(struct heap *h, const struct heap_type *type)
{
	const struct heap_type *parent = type->parent ? heap_type(h, type->parent) : NULL;
	struct note_type t = { .role = ROLE_NONE };
	if (parent && str_eq(parent->name, "System.MulticastDelegate")) {
		if (place(h, type, "_methodPtr", &t.first) && place(h, type, "_methodPtrAux", &t.second))
			t.role = ROLE_DELEGATE;
	} else if (str_eq(type->name, "System.Threading.TimerQueueTimer")) {
		if (place(h, type, "_dueTime", &t.first) && place(h, type, "_period", &t.second))
			t.role = ROLE_TIMER;
	}
	return t;
}

static const struct note_type *type_of(struct heap_notes_reader *r, struct heap *h, const struct heap_type *type)
{
	while (r->types.n <= type->index)
		vec_push(&r->types, (struct note_type){ 0 });
	struct note_type *t = &r->types.v[type->index];
	if (t->role == ROLE_UNKNOWN)
		*t = learn_type(h, type);
	return t;
}

static bool read_at(struct heap_walk *walk, const struct heap_found *found, uint32_t offset, void *to, size_t len)
{
	const uint8_t *bytes = offset + len <= found->size ? heap_walk_bytes(walk, found, offset, len) : NULL;
	if (bytes)
		memcpy(to, bytes, len);
	return bytes != NULL;
}

static void note_delegate(struct heap_notes_reader *r, uint32_t number, uint64_t ip)
{
	bool fresh = false;
	uint64_t *at = r->codes.n < CODES_MAX ? map_u64_put(&r->by_ip, ip, &fresh) : map_u64_get(&r->by_ip, ip);
	if (!at)
		return;
	if (fresh) {
		vec_push(&r->codes, ((struct note_code){ .ip = ip, .index = (uint32_t)r->codes.n }));
		*at = r->codes.n;
	}
	r->codes.v[*at - 1].n++;
	vec_push(&r->v, ((struct heap_note){ .object = number, .method = (uint32_t)(*at - 1) }));
}

void heap_notes_see(struct heap_notes_reader *r, struct heap_walk *walk, const struct heap_found *found,
		    uint32_t number)
{
	struct heap_note timer = { .object = number, .method = STRTAB_NONE };
	uint64_t ip = 0, aux = 0;
	if (found->type->kind != HEAP_OBJECT || !found->type->has_refs || r->v.n >= NOTES_MAX)
		return;
	const struct note_type *t = type_of(r, heap_walk_heap(walk), found->type);
	if (t->role == ROLE_DELEGATE && read_at(walk, found, t->first, &ip, sizeof(ip)) &&
	    read_at(walk, found, t->second, &aux, sizeof(aux)) && (aux || ip))
		/* Static methods are called through one word more. */
		note_delegate(r, number, aux ? aux : ip);
	else if (t->role == ROLE_TIMER && read_at(walk, found, t->first, &timer.due_ms, sizeof(timer.due_ms)) &&
		 read_at(walk, found, t->second, &timer.period_ms, sizeof(timer.period_ms)))
		vec_push(&r->v, timer);
}

static int most_frequent_first(const void *a, const void *b)
{
	const struct note_code *x = a, *y = b;
	return CMP(y->n, x->n) ?: CMP(x->index, y->index);
}

static int in_order(const void *a, const void *b)
{
	const struct note_code *x = a, *y = b;
	return CMP(x->index, y->index);
}

static void write_methods(struct heap_notes_reader *r, struct dac *dac, struct buf *out)
{
	struct strtab names = { 0 };
	vec_sort(&r->codes, most_frequent_first);
	for (size_t i = 0; i < r->codes.n && i < METHODS_MAX; i++) {
		CLEANUP(buf_free) struct buf name = { 0 };
		if (code_show(dac, dac_image(dac), r->codes.v[i].ip, &name) && name.len <= TEXT_MAX)
			r->codes.v[i].method = strtab_add(&names, name.data, name.len) + 1;
	}
	vec_sort(&r->codes, in_order);
	buf_varu64(out, names.n);
	for (uint32_t i = 0; i < names.n; i++)
		buf_vartext(out, strtab_get(&names, i), strtab_len(&names, i));
	strtab_free(&names);
}

static bool has_words(const struct heap_notes_reader *r, const struct heap_note *note)
{
	return note->method == STRTAB_NONE || r->codes.v[note->method].method;
}

static void write_notes(const struct heap_notes_reader *r, struct buf *out)
{
	uint64_t n = 0;
	uint32_t before = 0;
	vec_each(note, &r->v)
		n += has_words(r, note);
	buf_varu64(out, n);
	vec_each(note, &r->v) {
		if (!has_words(r, note))
			continue;
		buf_varu64(out, note->object - before);
		before = note->object;
		if (note->method != STRTAB_NONE) {
			buf_varu64(out, r->codes.v[note->method].method);
			continue;
		}
		buf_varu64(out, 0);
		buf_varu64(out, note->due_ms);
		buf_varu64(out, note->period_ms);
	}
}

/* Where the finalizer thread stands; nothing when it runs no managed code. */
static void write_finalizer(struct dac *dac, struct buf *out)
{
	struct dac_threads threads = { 0 };
	struct dac_stack stack = { 0 };
	struct strtab frames = { 0 };
	VEC(uint64_t) methods = { 0 };
	VEC(uint32_t) order = { 0 };
	err_ignore(dac_threads(dac, &threads));
	vec_each(t, &threads)
		if (t->finalizer && t->os_id && !stack.n)
			err_ignore(dac_stack(dac, t->os_id, &stack));
	vec_each(f, &stack)
		if (f->method && methods.n < FRAMES_MAX)
			vec_push(&methods, f->method);
	err_ignore(dac_learn_methods(dac, methods.v, methods.n));
	vec_each(method, &methods) {
		CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 }, name = { 0 };
		const struct dac_method *m = dac_method(dac, *method);
		if (!m || str_empty(m->name))
			continue;
		dac_split_name(m->name, &space, &member);
		method_show(buf_cstr(&space), buf_cstr(&member), &name);
		if (name.len && name.len <= TEXT_MAX)
			vec_push(&order, strtab_add(&frames, name.data, name.len));
	}
	buf_varu64(out, order.n);
	vec_each(id, &order)
		buf_vartext(out, strtab_get(&frames, *id), strtab_len(&frames, *id));
	vec_free(&order);
	vec_free(&methods);
	strtab_free(&frames);
	dac_stack_free(&stack);
	dac_threads_free(&threads);
}

void heap_notes_write(struct heap_notes_reader *r, struct dac *dac, uint32_t modules_unread, struct buf *out)
{
	CLEANUP(buf_free) struct buf notes = { 0 };
	write_methods(r, dac, &notes);
	write_notes(r, &notes);
	write_finalizer(dac, &notes);
	buf_varu64(&notes, modules_unread);
	buf_u32(out, TAG);
	buf_u32(out, (uint32_t)notes.len);
	buf_add(out, notes.data, notes.len);
}

/* ---- reading ---- */

static uint64_t take_strings(struct heap_notes *notes, uint64_t most, struct cursor *in)
{
	uint64_t n = cursor_varu64(in);
	for (uint64_t i = 0; cursor_ok(in) && i < n && n <= most; i++) {
		size_t len = 0;
		const char *text = cursor_vartext(in, TEXT_MAX, &len);
		if (text)
			vec_push(&notes->finalizer_frames, strtab_add(&notes->strings, text, len));
	}
	in->bad |= n > most;
	return n;
}

static void take_notes(struct heap_notes *notes, uint32_t n_objects, uint64_t n_methods, struct cursor *in)
{
	uint64_t n = cursor_varu64(in), object = 0;
	in->bad |= n > cursor_left(in);
	for (uint64_t i = 0; cursor_ok(in) && i < n; i++) {
		object += cursor_varu64(in);
		uint64_t method = cursor_varu64(in);
		in->bad |= object >= n_objects || method > n_methods;
		if (!cursor_ok(in))
			return;
		struct heap_note note = { .object = (uint32_t)object, .method = STRTAB_NONE };
		if (method) {
			note.method = notes->finalizer_frames.v[method - 1];
		} else {
			note.due_ms = cursor_varu32(in);
			note.period_ms = cursor_varu32(in);
		}
		vec_push(&notes->v, note);
	}
}

bool heap_notes_take(struct heap_notes *notes, uint32_t n, struct cursor *in)
{
	struct cursor at = *in;
	if (cursor_left(in) < 8 || cursor_u32(&at) != TAG)
		return true;
	uint32_t len = cursor_u32(&at);
	const uint8_t *bytes = cursor_take(&at, len);
	if (!bytes)
		return false;
	struct cursor own = cursor_make(bytes, len);
	/* The names of methods wait where those of the frames will be. */
	uint64_t n_methods = take_strings(notes, METHODS_MAX, &own);
	take_notes(notes, n, n_methods, &own);
	vec_clear(&notes->finalizer_frames);
	take_strings(notes, FRAMES_MAX, &own);
	notes->modules_unread = cursor_varu32(&own);
	*in = at;
	return cursor_ok(&own);
}

void heap_notes_fini(struct heap_notes *notes)
{
	strtab_free(&notes->strings);
	vec_free(&notes->v);
	vec_free(&notes->finalizer_frames);
}

const struct heap_note *heap_notes_of(const struct heap_notes *notes, uint32_t object)
{
	size_t low = 0, high = notes ? notes->v.n : 0;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (notes->v.v[middle].object < object)
			low = middle + 1;
		else
			high = middle;
	}
	return notes && low < notes->v.n && notes->v.v[low].object == object ? &notes->v.v[low] : NULL;
}

const char *heap_notes_method(const struct heap_notes *notes, uint32_t object)
{
	const struct heap_note *note = heap_notes_of(notes, object);
	return note && note->method != STRTAB_NONE ? strtab_get(&notes->strings, note->method) : NULL;
}
