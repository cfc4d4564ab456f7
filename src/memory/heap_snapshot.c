#include "memory/heap_snapshot.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/clr_heap.h"
#include "eventpipe/session.h"
#include "eventpipe/settle.h"
#include "model/heapgraph.h"
#include "exam/profiler.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ATTEMPTS 3
#define FIRST_BUFFER_MB 128 /* doubled with every attempt */
#define OPEN_TIMEOUT_MS 30000
#define SILENCE_TIMEOUT_MS 30000 /* nothing came for so long: give up */
#define MS_PER_MB 6 /* of its private memory: how long it is stopped, at the slow end of what was measured */
#define REGION_GAP ((uint64_t)1 << 20) /* between objects: what is beyond is another region */
#define SIZE_MAX_BYTES ((uint64_t)1 << 35)
#define TYPE_DEPTH 8 /* generics in generics, whose names are put together */
#define NAME_MAX_BYTES 4096
#define PROGRESS_OBJECTS 500000

/* ---- what was reported ---- */

struct node {
	uint64_t object;
	uint32_t units, type, edges;
	uint64_t first; /* of its edges */
};
struct told_type {
	const char *name;
	uint64_t module;
	uint64_t *params;
	uint32_t n_params, flags;
};
struct told_static {
	uint64_t object;
	const char *field;
	bool of_thread;
};
struct told_heap {
	struct arena arena;
	VEC(struct node) nodes;
	VEC(uint64_t) edges;
	VEC(struct clr_heap_root) roots;
	VEC(struct clr_heap_link) links;
	VEC(struct told_static) statics;
	VEC(struct told_type) types;
	struct map_u64 type_of;	   /* id -> index + 1 */
	struct map_u64 module_of;  /* id -> index of its file + 1 */
	VEC(const char *) modules; /* file names */
	uint32_t next_node, next_edge;
	uint64_t suspended_ns, pause_ns;
	uint64_t events;
	const char *fault; /* what is wrong with it, or NULL */
};

struct told_heap *told_heap_new(void)
{
	return mem_zalloc(sizeof(struct told_heap));
}

void told_heap_free(struct told_heap *s)
{
	if (!s)
		return;
	vec_free(&s->nodes);
	vec_free(&s->edges);
	vec_free(&s->roots);
	vec_free(&s->links);
	vec_free(&s->statics);
	vec_free(&s->types);
	map_u64_free(&s->type_of);
	map_u64_free(&s->module_of);
	vec_free(&s->modules);
	arena_free(&s->arena);
	mem_free(s);
}

static const char *keep_text(struct told_heap *s, struct utf16_span text)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	utf16_add(&out, text.units, MIN(text.n, (size_t)NAME_MAX_BYTES));
	return arena_strdup(&s->arena, buf_cstr(&out));
}

static uint32_t type_index(struct told_heap *s, uint64_t id)
{
	bool fresh;
	uint64_t *at = map_u64_put(&s->type_of, id, &fresh);
	if (fresh) {
		vec_push(&s->types, ((struct told_type){ 0 }));
		*at = s->types.n;
	}
	return (uint32_t)*at - 1;
}

static void take_types(struct told_heap *s, struct clr_bulk *bulk)
{
	struct clr_heap_type t;
	while (clr_bulk_type(bulk, &t)) {
		uint32_t index = type_index(s, t.id); /* may move the others */
		struct told_type *known = &s->types.v[index];
		if (known->name)
			continue;
		known->name = keep_text(s, t.name);
		known->flags = t.flags;
		known->module = t.module;
		known->n_params = t.n_params;
		known->params = arena_zalloc(&s->arena, MAX(t.n_params, 1u) * sizeof(uint64_t));
		memcpy(known->params, t.params, t.n_params * sizeof(uint64_t));
	}
}

static void take_module(struct told_heap *s, const struct nettrace_event *event)
{
	struct clr_module m;
	bool fresh;
	if (!clr_decode_module(event, &m))
		return;
	uint64_t *at = map_u64_put(&s->module_of, m.id, &fresh);
	if (!fresh)
		return;
	const char *path = keep_text(s, m.path), *slash = strrchr(path, '/');
	vec_push(&s->modules, slash ? slash + 1 : path);
	*at = s->modules.n;
}

/* Each event says the how manieth of its kind it is: none may be missing. */
static void count(struct told_heap *s, const struct clr_bulk *bulk, uint32_t *next)
{
	if (bulk->index != *next)
		s->fault = "a part of it is missing";
	*next = bulk->index + 1;
}

static void take_nodes(struct told_heap *s, struct clr_bulk *bulk)
{
	struct clr_heap_node n;
	uint64_t first = s->nodes.n ? vec_last(&s->nodes).first + vec_last(&s->nodes).edges : 0;
	count(s, bulk, &s->next_node);
	while (clr_bulk_node(bulk, &n)) {
		if (!n.object || n.object & 7 || n.size > SIZE_MAX_BYTES || n.edges > UINT32_MAX) {
			s->fault = "an object in it makes no sense";
			return;
		}
		vec_push(&s->nodes, ((struct node){ .object = n.object,
						    .units = (uint32_t)MAX((n.size + 7) / 8, (uint64_t)1),
						    .type = type_index(s, n.type),
						    .edges = (uint32_t)n.edges,
						    .first = first }));
		first += n.edges;
	}
}

static void take_edges(struct told_heap *s, struct clr_bulk *bulk)
{
	uint64_t object;
	count(s, bulk, &s->next_edge);
	while (clr_bulk_edge(bulk, &object))
		vec_push(&s->edges, object);
}

static void take_roots(struct told_heap *s, struct clr_bulk *bulk)
{
	struct clr_heap_root root;
	while (clr_bulk_root(bulk, &root))
		if (root.object && !(root.flags & CLR_ROOT_WEAK))
			vec_push(&s->roots, root);
}

static void take_links(struct told_heap *s, struct clr_bulk *bulk)
{
	struct clr_heap_link link;
	while (clr_bulk_link(bulk, &link))
		if (link.key && link.value)
			vec_push(&s->links, link);
}

static void take_statics(struct told_heap *s, struct clr_bulk *bulk)
{
	struct clr_heap_static v;
	while (clr_bulk_static(bulk, &v))
		if (v.object)
			vec_push(&s->statics, ((struct told_static){ v.object, keep_text(s, v.field), v.of_thread }));
}

void told_heap_event(struct told_heap *s, const struct nettrace_event *event)
{
	struct clr_bulk bulk = { 0 };
	enum clr_event kind = clr_event(event);
	s->events++;
	if (kind >= CLR_BULK_TYPE && kind <= CLR_BULK_STATIC)
		clr_bulk_open(event, &bulk);
	switch (kind) {
	case CLR_SUSPEND_BEGIN:
		s->suspended_ns = event->time;
		break;
	case CLR_RESTART_END:
		/* The longest: other collections may come before and after. */
		if (s->suspended_ns && event->time > s->suspended_ns)
			s->pause_ns = MAX(s->pause_ns, event->time - s->suspended_ns);
		s->suspended_ns = 0;
		break;
	case CLR_MODULE_LOAD:
		take_module(s, event);
		break;
	case CLR_BULK_TYPE:
		take_types(s, &bulk);
		break;
	case CLR_BULK_ROOT:
		take_roots(s, &bulk);
		break;
	case CLR_BULK_LINK:
		take_links(s, &bulk);
		break;
	case CLR_BULK_NODE:
		take_nodes(s, &bulk);
		break;
	case CLR_BULK_EDGE:
		take_edges(s, &bulk);
		break;
	case CLR_BULK_STATIC:
		take_statics(s, &bulk);
		break;
	default:
		break;
	}
	if (bulk.damaged)
		s->fault = "an event in it is damaged";
}

/* ---- as a graph ---- */

static int by_address(const void *a, const void *b)
{
	const struct node *x = a, *y = b;
	return CMP(x->object, y->object);
}

/* All of it there, and apart? */
static struct err *check(struct told_heap *s)
{
	uint64_t edges = 0;
	if (s->fault)
		return err_new(ERR_BAD_DATA, "what the runtime told of its heap is not whole: %s", s->fault);
	if (!s->nodes.n)
		return err_new(ERR_BAD_DATA, "the runtime told nothing of its heap");
	if (s->nodes.n >= GRAPH_NONE)
		return err_new(ERR_UNSUPPORTED, "the heap has too many objects");
	vec_each(n, &s->nodes)
		edges += n->edges;
	if (edges != s->edges.n)
		return err_new(ERR_BAD_DATA, "what the runtime told of its heap is not whole: %s of %s references",
			       fmt_count(s->edges.n).s, fmt_count(edges).s);
	vec_sort(&s->nodes, by_address);
	for (size_t i = 1; i < s->nodes.n; i++) {
		uint64_t room = (s->nodes.v[i].object - s->nodes.v[i - 1].object) / 8;
		if (s->nodes.v[i - 1].units > room)
			return err_new(ERR_BAD_DATA, "what the runtime told of its heap makes no sense at 0x%llx",
				       (unsigned long long)s->nodes.v[i].object);
	}
	return NULL;
}

/* "Dictionary`2[[System.Int32],[Shop.Order]]": the event names the generic and what it was made for apart. */
static void type_name(const struct told_heap *s, uint64_t id, unsigned depth, struct buf *out)
{
	const uint64_t *at = map_u64_get(&s->type_of, id);
	const struct told_type *t = at ? &s->types.v[*at - 1] : NULL;
	if (!t || !t->name)
		return;
	bool array = t->flags & CLR_HEAP_TYPE_ARRAY, generic = t->n_params && !strchr(t->name, '[');
	if (array && t->n_params == 1 && !str_ends(t->name, "]") && depth < TYPE_DEPTH) {
		type_name(s, t->params[0], depth + 1, out);
		buf_str(out, "[]");
		return;
	}
	buf_str(out, t->name);
	for (uint32_t i = 0; generic && !array && i < t->n_params && depth < TYPE_DEPTH; i++) {
		if (out->len > NAME_MAX_BYTES)
			return;
		buf_str(out, i ? ",[" : "[[");
		type_name(s, t->params[i], depth + 1, out);
		buf_str(out, i + 1 == t->n_params ? "]]" : "]");
	}
}

static uint8_t type_kind(const struct told_type *t)
{
	if (t->flags & CLR_HEAP_TYPE_ARRAY)
		return GRAPH_ARRAY;
	return str_eq(t->name, "System.String") ? GRAPH_STRING : GRAPH_OBJECT;
}

static void write_regions(const struct told_heap *s, struct heapgraph_writer *w)
{
	struct graph_region region = { .generation = GRAPH_ANYWHERE };
	vec_each(n, &s->nodes) {
		if (region.end && n->object - region.end > REGION_GAP) {
			region.committed = region.end;
			heapgraph_write_region(w, &region);
			region.end = 0;
		}
		if (!region.end)
			region.start = n->object;
		region.end = n->object + (uint64_t)n->units * 8;
	}
	region.committed = region.end;
	heapgraph_write_region(w, &region);
}

static const struct {
	uint8_t kind;
	uint32_t flag;
	enum graph_root as;
	const char *name;
} root_names[] = {
	{ CLR_ROOT_STACK, 0, GRAPH_STACK, "" },
	{ CLR_ROOT_FINALIZER, 0, GRAPH_FINALIZER, "finalizer queue" },
	{ CLR_ROOT_HANDLE, CLR_ROOT_PINNED, GRAPH_HANDLE, "pinned handles" },
	{ CLR_ROOT_HANDLE, CLR_ROOT_REF_COUNTED, GRAPH_HANDLE, "reference-counted handles" },
	{ CLR_ROOT_HANDLE, 0, GRAPH_HANDLE, "strong handles" },
	{ CLR_ROOT_SIZED, 0, GRAPH_HANDLE, "sized handles" },
	{ CLR_ROOT_OLDER, 0, GRAPH_HANDLE, "older objects" },
	{ CLR_ROOT_OVERFLOW, 0, GRAPH_HANDLE, "other roots" },
};

static size_t root_name(const struct clr_heap_root *root)
{
	size_t i = 0;
	while (i + 1 < ARRAY_SIZE(root_names) &&
	       (root_names[i].kind != root->kind || (root->flags & root_names[i].flag) != root_names[i].flag))
		i++;
	return i;
}

static void write_roots(const struct told_heap *s, struct heapgraph_writer *w)
{
	VEC(uint64_t) objects = { 0 };
	/* The class that has the field is not reported: the type is that of what it refers to. */
	vec_each(v, &s->statics)
		heapgraph_write_root(w, v->of_thread ? GRAPH_THREAD_STATIC : GRAPH_STATIC, v->field, "", &v->object, 1);
	for (size_t i = 0; i < ARRAY_SIZE(root_names); i++) {
		vec_clear(&objects);
		vec_each(r, &s->roots)
			if (root_name(r) == i)
				vec_push(&objects, r->object);
		if (objects.n)
			heapgraph_write_root(w, root_names[i].as, root_names[i].name, "", objects.v, objects.n);
	}
	vec_free(&objects);
	vec_each(link, &s->links)
		heapgraph_write_link(w, link->key, link->value);
}

/* Static fields live in arrays that handles hold. They are roots by name: what such an array refers to besides is the
 * runtime's. */
static void write_objects(const struct told_heap *s, struct heapgraph_writer *w, struct graph_facts *facts)
{
	CLEANUP(map_u64_free) struct map_u64 handles = { 0 }, fields = { 0 };
	vec_each(r, &s->roots)
		if (r->kind == CLR_ROOT_HANDLE)
			*map_u64_put(&handles, r->object, NULL) = 1;
	vec_each(v, &s->statics)
		*map_u64_put(&fields, v->object, NULL) = 1;
	vec_each(n, &s->nodes) {
		const struct told_type *t = &s->types.v[n->type];
		bool table = type_kind(t) == GRAPH_ARRAY && map_u64_get(&handles, n->object);
		heapgraph_write_object(w, n->object, (uint64_t)n->units * 8, n->type,
				       &(struct graph_type){ .kind = type_kind(t), .variable = true });
		for (uint64_t i = n->first; i < n->first + n->edges; i++)
			if (!table || !map_u64_get(&fields, s->edges.v[i]))
				heapgraph_write_refs(w, &s->edges.v[i], 1);
		facts->objects++;
		facts->bytes += (uint64_t)n->units * 8;
	}
	heapgraph_end_objects(w);
}

static void write_types(const struct told_heap *s, struct heapgraph_writer *w)
{
	size_t n, pos = 0;
	uint64_t id, index;
	const uint32_t *order = heapgraph_type_order(w, &n);
	uint64_t *ids = mem_zalloc((s->types.n + 1) * sizeof(*ids));
	while (map_u64_next(&s->type_of, &pos, &id, &index))
		ids[index - 1] = id;
	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_free) struct buf name = { 0 };
		const uint64_t *module = map_u64_get(&s->module_of, s->types.v[order[i]].module);
		type_name(s, ids[order[i]], 0, &name);
		heapgraph_write_type(w, &(struct graph_type){ .name = buf_cstr(&name),
							      .module = module ? s->modules.v[*module - 1] : "",
							      .kind = type_kind(&s->types.v[order[i]]),
							      .variable = true });
	}
	mem_free(ids);
}

struct err *told_heap_write(struct told_heap *s, struct buf *out)
{
	struct graph_facts facts = { .n_heaps = 1 };
	TRY(check(s));
	CLEANUP(heapgraph_writer_freep) struct heapgraph_writer *w = heapgraph_writer_new(out);
	write_regions(s, w);
	write_roots(s, w);
	write_objects(s, w, &facts);
	write_types(s, w);
	heapgraph_write_facts(w, &facts);
	return NULL;
}

/* ---- receiving ---- */

/* The second session. Whenever a session begins or ends the runtime applies the keywords of all sessions again, and
 * while this one exists that causes a collection. From .NET 10 on it can be stopped without one, so it is stopped
 * first. Before, one more collection follows whichever is stopped first; without a receiver it is a short one. */
struct trigger {
	int fd, stop_fd;
	bool answered, ended, goes_last;
	uint64_t id;
};
#define STOPS_IN_PEACE 10 /* the first such version */

struct heap_listening {
	struct exam *exam;
	struct told_heap *heap;
	struct trigger trigger;
	uint64_t bytes, last_byte_ns;
	size_t shown; /* objects */
};

static void on_event(void *user, const struct nettrace_event *event)
{
	struct heap_listening *l = user;
	told_heap_event(l->heap, event);
}

static void on_bytes(void *user, const void *data UNUSED, size_t len)
{
	struct heap_listening *l = user;
	l->bytes += len;
	l->last_byte_ns = clock_mono_ns();
	if (l->heap->nodes.n > l->shown + PROGRESS_OBJECTS) {
		l->shown = l->heap->nodes.n;
		exam_progress(l->exam, -1, "the runtime tells of its heap: %s objects", fmt_count(l->shown).s);
	}
}

static struct err *trigger_stop(struct trigger *t, const char *socket)
{
	return ipc_trace_stop(socket, t->id, deadline_in_ms(OPEN_TIMEOUT_MS), &t->stop_fd);
}

/* Its answer comes when the collection is over; once it is stopped it is read to its end. */
static struct err *trigger_step(struct trigger *t, const char *socket)
{
	char waste[4096];
	if (!t->answered) {
		TRY(ipc_trace_answer(t->fd, deadline_in_ms(OPEN_TIMEOUT_MS), &t->id));
		t->answered = true;
		return t->goes_last ? NULL : trigger_stop(t, socket);
	}
	ssize_t n = recv(t->fd, waste, sizeof(waste), MSG_DONTWAIT);
	t->ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
	return NULL;
}

/* The receiving session has ended, or is not read any more; the other one must not stay. */
static struct err *trigger_end(struct trigger *t, const char *socket)
{
	struct deadline deadline = deadline_in_ms(SILENCE_TIMEOUT_MS);
	while (!t->ended) {
		TRY(fd_wait(t->fd, POLLIN, deadline));
		TRY(trigger_step(t, socket));
		if (t->answered && t->stop_fd < 0)
			TRY(trigger_stop(t, socket));
	}
	return NULL;
}

static struct err *pump(struct heap_listening *l, struct eventpipe_session *session)
{
	bool ended = false;
	struct trigger *t = &l->trigger;
	const char *socket = l->exam->patient->target.socket;
	l->last_byte_ns = clock_mono_ns();
	while (!ended) {
		struct pollfd fds[] = { { .fd = eventpipe_fd(session), .events = POLLIN },
					{ .fd = l->exam->cancel_fd, .events = POLLIN },
					{ .fd = t->ended ? -1 : t->fd, .events = POLLIN } };
		if (poll(fds, ARRAY_SIZE(fds), 1000) < 0 && errno != EINTR)
			return err_errno(errno, "poll");
		if (fds[1].revents)
			return err_new(ERR_CANCELLED, "cancelled while the runtime told of its heap");
		if (fds[2].revents)
			TRY(trigger_step(t, socket));
		if (t->goes_last ? t->answered : t->ended)
			TRY(eventpipe_stop(session, deadline_in_ms(OPEN_TIMEOUT_MS)));
		TRY(eventpipe_pump(session, &ended));
		if (!ended && clock_mono_ns() - l->last_byte_ns > SILENCE_TIMEOUT_MS * NS_PER_MS)
			return err_new(ERR_TIMEOUT, "the runtime fell silent while it told of its heap");
	}
	return NULL;
}

/* If we are killed, a session ends when the runtime fails to write to it: a counter each second makes it write. */
static const struct ipc_provider tells[] = {
	{ .name = CLR_PROVIDER, .keywords = CLR_GC | CLR_TYPE | CLR_HEAP_DUMP | CLR_HEAP_TYPE_NAMES, .level = 5 },
};
static const struct ipc_provider collects[] = {
	{ .name = CLR_PROVIDER, .keywords = CLR_HEAP_COLLECT, .level = 4 },
	{ .name = "System.Runtime", .keywords = 0, .level = 4, .args = "EventCounterIntervalSec=1" },
};

static struct err *listen_once(struct exam *exam, uint32_t buffer_mb, struct told_heap *heap, uint64_t *ret_lost,
			       uint64_t *ret_bytes)
{
	struct ipc_trace_config listen_to = {
		.buffer_mb = buffer_mb, .rundown = CLR_LOADER, .providers = tells, .n_providers = ARRAY_SIZE(tells)
	};
	struct ipc_trace_config collect = { .buffer_mb = 1,
					    .providers = collects,
					    .n_providers = ARRAY_SIZE(collects) };
	struct nettrace_options options = { .unordered = true, .no_stacks = true };
	struct heap_listening l = { .exam = exam, .heap = heap, .trigger = { .fd = -1, .stop_fd = -1 } };
	struct eventpipe_sink sink = { .callbacks = { .event = on_event }, .bytes = on_bytes, .user = &l };
	CLEANUP(eventpipe_freep) struct eventpipe_session *session = NULL;
	struct deadline deadline = deadline_in_ms(OPEN_TIMEOUT_MS);
	const char *socket = exam->patient->target.socket;
	TRY(settle_wait(socket, &collect, exam->cancel_fd));
	TRY(eventpipe_open(socket, &listen_to, &options, &sink, deadline, &session));
	TRY(ipc_trace_ask(socket, &collect, deadline, &l.trigger.fd));
	l.trigger.goes_last = exam_runtime_major(exam) < STOPS_IN_PEACE;
	struct err *err = pump(&l, session);
	/* Whatever happened: the collection cannot be called off, but the session that asked for it can be ended. */
	struct err *late = trigger_end(&l.trigger, socket);
	if (!err)
		err = late;
	else
		err_ignore(late);
	fd_closep(&l.trigger.fd);
	fd_closep(&l.trigger.stop_fd);
	TRY(err);
	if (!eventpipe_whole(session))
		return err_new(ERR_IO, "the process ended while its runtime told of its heap");
	const struct nettrace_stats *stats = nettrace_reader_stats(eventpipe_reader(session));
	*ret_lost = stats->lost + stats->orphans;
	*ret_bytes = l.bytes;
	return NULL;
}

/* ---- is it allowed? ---- */

static bool private_bytes(const struct target *t, uint64_t *ret)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	char path[64];
	unsigned long long resident, shared;
	if (!t->pid)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)t->pid);
	struct err *err = file_read(path, 4096, &text);
	bool known = !err && sscanf(buf_cstr(&text), "%*u %llu %llu", &resident, &shared) == 2 && resident >= shared;
	err_free(err);
	*ret = known ? (resident - shared) * 4096 : 0;
	return known;
}

/* The process is stopped for a whole collection and the report: much longer than for a copy. */
static struct err *allowed(const struct exam *exam)
{
	uint64_t bytes, limit_ms = (uint64_t)params_int(exam->params, "max_pause_ms");
	if (!private_bytes(&exam->patient->target, &bytes)) {
		if (!params_is_default(exam->params, "max_pause_ms"))
			return NULL;
		return err_new(ERR_UNSUPPORTED,
			       "by events the process stands still while its runtime tells of its heap, "
			       "and how long cannot be said from here; max_pause_ms=10000 allows it");
	}
	if (!limit_ms)
		limit_ms = image_default_pause_ms(bytes);
	uint64_t ms = MAX(bytes * MS_PER_MB >> 20, (uint64_t)1);
	uint64_t enough_ms = (ms / 1000 + 1) * 1000;
	if (ms <= limit_ms)
		return NULL;
	return err_new(
		ERR_UNSUPPORTED,
		"by events the process would stand still for up to %s while its runtime tells of its heap; the limit "
		"is %llu ms, and max_pause_ms=%llu allows it",
		fmt_duration_ns(ms * NS_PER_MS).s, (unsigned long long)limit_ms, (unsigned long long)enough_ms);
}

struct err *heap_snapshot(struct exam *exam, struct buf *out, struct image_exam_facts *facts)
{
	size_t before = out->len;
	struct err *refused = allowed(exam);
	if (refused)
		return exam->way_reason ? err_wrap(refused, "by image: %s", exam->way_reason) : refused;
	for (uint32_t attempt = 1;; attempt++) {
		CLEANUP(told_heap_freep) struct told_heap *s = told_heap_new();
		uint64_t lost = 0, bytes = 0;
		exam_progress(exam, -1, "the runtime collects and tells of its heap");
		*facts = (struct image_exam_facts){ .events = true,
						    .again = exam_runtime_major(exam) < STOPS_IN_PEACE,
						    .at_ns = clock_mono_ns(),
						    .at_unix_ns = clock_real_ns(),
						    .attempts = attempt };
		TRY(listen_once(exam, FIRST_BUFFER_MB << (attempt - 1), s, &lost, &bytes));
		facts->pause_ns = s->pause_ns;
		facts->life_ns = clock_mono_ns() - facts->at_ns;
		facts->bytes = bytes;
		struct err *err =
			lost ? err_new(ERR_IO, "the runtime lost %s of its heap", fmt_plural(lost, "event", "events").s)
			     : told_heap_write(s, out);
		if (!err)
			return NULL;
		out->len = before;
		if (attempt == ATTEMPTS)
			return err_wrap(err, "%u attempts", ATTEMPTS);
		exam_log(exam, "%s; once more", err_text(err));
		err_free(err);
	}
}
