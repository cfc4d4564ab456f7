/* requests: HTTP requests that are being handled (Kestrel) and those that were sent and not answered (HttpClient), read
 * from the objects that represent them. */

#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "inspect/internal.h"
#include <string.h>

#define GO_ON_EVERY 65536
#define SHOWN 30
#define SHOWN_TEXT 120
#define GROUPS_MAX 10000
#define PARENTS_MAX 8
#define TASK_DONE 0x01600000 /* ran to its end, faulted, cancelled */

/* Requests that are alike. Texts are interned: the same text is the same pointer. */
struct alike {
	bool incoming;
	const char *state, *method, *where, *path;
	uint64_t n, one, begun_ns; /* begun_ns: the first that is known; 0 = of none */
};
struct requests {
	struct inspect *in;
	struct strtab texts;
	struct map_u64 index; /* what makes them alike -> place in v + 1 */
	struct map_u64 sent;  /* request -> SENT_... */
	VEC(uint8_t) kinds;   /* by index of type: TYPE_... */
	VEC(struct alike) v;
	uint64_t incoming, outgoing, left_out;
};

static void requests_free(struct requests *r)
{
	strtab_free(&r->texts);
	map_u64_free(&r->index);
	map_u64_free(&r->sent);
	vec_free(&r->kinds);
	vec_free(&r->v);
}

static const char *text_of(struct requests *r, const char *text, size_t len)
{
	return strtab_get(&r->texts, strtab_add(&r->texts, text, len));
}

static void add(struct requests *r, const struct alike *one)
{
	const void *key[] = { one->incoming ? r : NULL, one->state, one->method, one->where };
	bool new;
	*(one->incoming ? &r->incoming : &r->outgoing) += 1;
	uint64_t *place = map_u64_put(&r->index, hash_bytes(key, sizeof(key), 0), &new);
	if (new && r->v.n < GROUPS_MAX) {
		vec_push(&r->v, *one);
		*place = r->v.n;
		return;
	}
	struct alike *same = *place ? &r->v.v[*place - 1] : NULL;
	if (!same) {
		r->left_out++;
		return;
	}
	same->n++;
	if (one->begun_ns && (!same->begun_ns || one->begun_ns < same->begun_ns)) {
		same->begun_ns = one->begun_ns;
		same->one = one->one;
		same->path = one->path;
	}
}

static const char *string_field(struct requests *r, struct heap_value v, const char *field)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	(void)heap_get_string(r->in->heap, v, field, SHOWN_TEXT * 4, &text);
	return text_of(r, text.len ? text.data : "", text.len);
}

/* ---- being handled ---- */

/* How far Kestrel has come with a request. */
enum { STATUS_APP_STARTED = 3, STATUS_HEADERS_COMMITTED, STATUS_HEADERS_FLUSHED };

/* Recorded only while metrics, logs or activities are enabled. */
static uint64_t begun_at(struct requests *r, struct heap_value v)
{
	static const char container[] =
		"<Microsoft.AspNetCore.Hosting.Server.Abstractions.IHostContextContainer<TContext>."
		"HostContext>k__BackingField";
	struct heap_value context;
	int64_t ticks = 0;
	if (heap_get_object(r->in->heap, v, container, &context))
		(void)heap_get_int(r->in->heap, context, "<StartTimestamp>k__BackingField", &ticks);
	return ticks > 0 ? (uint64_t)ticks : 0;
}

static void add_incoming(struct requests *r, uint64_t object)
{
	static const char *const states[] = { "running", "running, its client is gone", "answering",
					      "answering, its client is gone" };
	struct heap_value v, endpoint;
	int64_t status = 0, aborted = 0;
	if (!heap_object(r->in->heap, object, &v) ||
	    !heap_get_int(r->in->heap, v, "_requestProcessingStatus", &status) || status < STATUS_APP_STARTED ||
	    status > STATUS_HEADERS_FLUSHED)
		return;
	(void)heap_get_int(r->in->heap, v, "_connectionAborted", &aborted);
	struct alike one = { .incoming = true, .n = 1, .one = object, .begun_ns = begun_at(r, v) };
	one.state = states[(status > STATUS_APP_STARTED ? 2 : 0) + (aborted ? 1 : 0)];
	one.method = string_field(r, v, "_methodText");
	one.path = string_field(r, v, "<RawTarget>k__BackingField");
	one.where = heap_get_object(r->in->heap, v, "_endpoint", &endpoint)
			    ? string_field(r, endpoint, "<DisplayName>k__BackingField")
			    : "";
	if (!*one.where)
		one.where = string_field(r, v, "<Path>k__BackingField");
	add(r, &one);
}

/* ---- sent ---- */

enum {
	SENT_ON_CONNECTION = 1, /* it went out on one */
	SENT_CURRENT = 2,	/* and that one carries it still */
	SENT_AWAITED = 4,	/* the answer is awaited */
};

/* "http://shop:8080" of an address; the rest is its path. */
static size_t authority(const char *uri)
{
	const char *host = strstr(uri, "://");
	return host ? (size_t)(host - uri) + 3 + strcspn(host + 3, "/?#") : 0;
}

static void add_outgoing(struct requests *r, uint64_t request, uint64_t flags)
{
	struct heap_value v, method, uri;
	if (!heap_object(r->in->heap, request, &v))
		return;
	struct alike one = { .n = 1, .one = request };
	one.state = !(flags & SENT_AWAITED)	 ? "on a connection"
		    : flags & SENT_ON_CONNECTION ? "waits for the answer"
						 : "waits for a connection";
	one.method = heap_get_object(r->in->heap, v, "_method", &method) ? string_field(r, method, "_method") : "";
	const char *all = heap_get_object(r->in->heap, v, "_requestUri", &uri) ? string_field(r, uri, "_string") : "";
	one.where = text_of(r, all, authority(all));
	one.path = all + authority(all);
	add(r, &one);
}

static void note(struct requests *r, struct heap_value v, const char *field, uint64_t flags)
{
	uint64_t request;
	if (heap_get_ref(r->in->heap, v, field, &request) && request)
		*map_u64_put(&r->sent, request, NULL) |= flags;
}

/* HTTP/1.1: a connection carries one request at a time, from the first byte sent to the last byte read. */
static void note_connection(struct requests *r, uint64_t object)
{
	struct heap_value v;
	int64_t closed = 0;
	if (!heap_object(r->in->heap, object, &v))
		return;
	(void)heap_get_int(r->in->heap, v, "_disposed", &closed);
	if (!closed)
		note(r, v, "_currentRequest", SENT_ON_CONNECTION | SENT_CURRENT);
}

/* HTTP/2 and 3: a stream remembers its request for ever, so it only says that one went out. */
static void note_stream(struct requests *r, uint64_t object)
{
	struct heap_value v;
	if (heap_object(r->in->heap, object, &v))
		note(r, v, "_request", SENT_ON_CONNECTION);
}

/* The async method that every request goes through, until its answer begins. */
static void note_sender(struct requests *r, uint64_t object)
{
	struct heap_value box, machine;
	int64_t flags = 0;
	if (heap_object(r->in->heap, object, &box) && heap_get_int(r->in->heap, box, "m_stateFlags", &flags) &&
	    !(flags & TASK_DONE) &&
	    (heap_get_struct(r->in->heap, box, "StateMachine", &machine) ||
	     heap_get_object(r->in->heap, box, "StateMachine", &machine)))
		note(r, machine, "request", SENT_AWAITED);
}

/* ---- the walk ---- */

enum { TYPE_NEW, TYPE_OTHER, TYPE_INCOMING, TYPE_CONNECTION, TYPE_STREAM, TYPE_SENDER };

static bool is_incoming(struct requests *r, const struct heap_type *type)
{
	if (!str_starts(type->name, "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http"))
		return false;
	for (size_t i = 0; type && i < PARENTS_MAX; i++) {
		if (str_eq(type->name, "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http.HttpProtocol"))
			return true;
		type = type->parent ? heap_type(r->in->heap, type->parent) : NULL;
	}
	return false;
}

static uint8_t kind_of(struct requests *r, const struct heap_type *type)
{
	while (r->kinds.n <= type->index)
		vec_push(&r->kinds, TYPE_NEW);
	if (r->kinds.v[type->index] != TYPE_NEW)
		return r->kinds.v[type->index];
	bool box = strstr(type->name, "AsyncStateMachineBox`1[[");
	uint8_t kind = type->kind != HEAP_OBJECT			      ? TYPE_OTHER
		       : str_eq(type->name, "System.Net.Http.HttpConnection") ? TYPE_CONNECTION
		       : str_eq(type->name, "System.Net.Http.Http2Connection+Http2Stream") ||
				       str_eq(type->name, "System.Net.Http.Http3RequestStream")
			       ? TYPE_STREAM
		       : box && strstr(type->name, "<SendWithVersionDetectionAndRetryAsync>") ? TYPE_SENDER
		       : is_incoming(r, type)						      ? TYPE_INCOMING
											      : TYPE_OTHER;
	/* Asking for parents may have made the list longer. */
	r->kinds.v[type->index] = kind;
	return kind;
}

static struct err *find(struct requests *r)
{
	const struct heap_outline *outline;
	struct heap *heap;
	struct heap_found found;
	TRY(inspect_outline(r->in, &outline));
	TRY(inspect_heap(r->in, &heap));
	CLEANUP(heap_walk_freep) struct heap_walk *walk = heap_walk_new(heap, outline);
	for (size_t i = 0; heap_walk_next(walk, &found); i++) {
		if (i % GO_ON_EVERY == 0)
			TRY(inspect_go_on(r->in));
		switch (kind_of(r, found.type)) {
		case TYPE_INCOMING:
			add_incoming(r, found.address);
			break;
		case TYPE_CONNECTION:
			note_connection(r, found.address);
			break;
		case TYPE_STREAM:
			note_stream(r, found.address);
			break;
		case TYPE_SENDER:
			note_sender(r, found.address);
			break;
		default:
			break;
		}
	}
	uint64_t request, flags;
	for (size_t pos = 0; map_u64_next(&r->sent, &pos, &request, &flags);)
		if (flags & (SENT_CURRENT | SENT_AWAITED))
			add_outgoing(r, request, flags);
	return NULL;
}

/* ---- the answer ---- */

static int most_first(const void *a, const void *b)
{
	const struct alike *x = a, *y = b;
	return CMP(y->n, x->n) ?: CMP(x->one, y->one);
}

static void show(struct requests *r, bool incoming, struct answer *a)
{
	size_t shown = 0;
	uint64_t now = r->in->look.facts.at_ns, rest = 0;
	if (incoming)
		answer_table(a, "Being handled", "requests", "state", "longest", "method", "endpoint", "one of them",
			     "its path");
	else
		answer_table(a, "Sent", "requests", "state", "method", "to", "one of them", "its path");
	vec_each(one, &r->v) {
		if (one->incoming != incoming)
			continue;
		if (shown++ >= SHOWN) {
			rest += one->n;
			continue;
		}
		struct cell age = C_NONE;
		struct fmt_text text;
		if (now && one->begun_ns && one->begun_ns <= now) {
			text = fmt_duration_ns(now - one->begun_ns);
			age = C_TEXT(text.s);
		}
		if (incoming)
			ANSWER_ROW(a, C_COUNT(one->n), C_TEXT(one->state), age, C_TEXT(one->method), C_TEXT(one->where),
				   C_ADDRESS(one->one), C_TEXT(one->path));
		else
			ANSWER_ROW(a, C_COUNT(one->n), C_TEXT(one->state), C_TEXT(one->method), C_TEXT(one->where),
				   C_ADDRESS(one->one), C_TEXT(one->path));
	}
	if (rest)
		answer_line(a, "%s more", fmt_count(rest).s);
}

struct err *inspect_requests(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	CLEANUP(requests_free) struct requests r = { .in = in };
	(void)words, (void)n;
	TRY(find(&r));
	vec_sort(&r.v, most_first);
	if (r.incoming)
		show(&r, true, a);
	if (r.outgoing)
		show(&r, false, a);
	answer_line(a, "%s being handled, %s sent and not done", fmt_plural(r.incoming, "request is", "requests are").s,
		    fmt_plural(r.outgoing, "was", "were").s);
	if (r.left_out)
		answer_line(a, "%s more than can be told apart", fmt_count(r.left_out).s);
	return NULL;
}
