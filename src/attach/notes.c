#include "attach/notes.h"
#include <string.h>

#define COMPACT_AT 4096
/* Beyond this we are too slow, and what comes is dropped. */
#define QUEUE_BYTES_MAX ((size_t)256 << 20)

/* A sample or a thread with what came behind its note. */
struct note_item {
	uint64_t time_ns; /* 0: at once */
	uint32_t kind;
	size_t len;
	uint8_t *bytes;
};

static bool is_payload(uint32_t kind)
{
	return kind == WIRE_AGENT_SAMPLE || kind == WIRE_AGENT_THREAD || kind == WIRE_AGENT_BYTES;
}

static bool is_sound(const struct wire_agent_note *n)
{
	size_t len = (size_t)n->code;
	if (n->kind == WIRE_AGENT_THREAD)
		return len == sizeof(struct wire_agent_thread);
	if (n->kind == WIRE_AGENT_SAMPLE)
		return len >= sizeof(struct wire_agent_sample) &&
		       len <= sizeof(struct wire_agent_sample) + WIRE_AGENT_STACK_MAX;
	if (n->kind == WIRE_AGENT_BYTES)
		return len > 0 && len <= WIRE_AGENT_BYTES_MAX;
	return n->kind == WIRE_AGENT_REFUSED || n->kind == WIRE_AGENT_STARTED || n->kind == WIRE_AGENT_SAMPLED ||
	       n->kind == WIRE_AGENT_ANSWER || n->kind == WIRE_AGENT_LEAVING;
}

/* Of memory, with what the allocator adds. */
static size_t cost(size_t len)
{
	return len + sizeof(struct note_item) + 16;
}

static void queue(struct notes *n, const struct wire_agent_note *note, const uint8_t *bytes)
{
	struct wire_agent_sample s;
	size_t len = (size_t)note->code;
	if (n->queued_bytes + cost(len) > QUEUE_BYTES_MAX) {
		n->overflow++;
		return;
	}
	struct note_item i = { .kind = note->kind, .len = len, .bytes = mem_alloc(len) };
	memcpy(i.bytes, bytes, len);
	if (note->kind == WIRE_AGENT_SAMPLE) {
		memcpy(&s, bytes, sizeof(s));
		i.time_ns = s.time_ns;
	}
	n->queued_bytes += cost(len);
	vec_push(&n->queue, i);
}

static void take(struct notes *n, const struct wire_agent_note *note, const uint8_t *bytes)
{
	switch (note->kind) {
	case WIRE_AGENT_SAMPLE:
	case WIRE_AGENT_THREAD:
		queue(n, note, bytes);
		break;
	case WIRE_AGENT_BYTES:
		if (n->bytes.len + (size_t)note->code <= QUEUE_BYTES_MAX)
			buf_add(&n->bytes, bytes, (size_t)note->code);
		break;
	case WIRE_AGENT_REFUSED:
		n->refusal = *note;
		break;
	case WIRE_AGENT_STARTED:
		n->started = true;
		break;
	case WIRE_AGENT_SAMPLED:
		n->stopped = true;
		n->result = *note;
		break;
	case WIRE_AGENT_ANSWER:
		n->answered = true;
		n->answer = note->code;
		break;
	default: /* WIRE_AGENT_LEAVING */
		n->left = true;
	}
}

void notes_add(struct notes *n, const void *bytes, size_t len)
{
	struct wire_agent_note note;
	size_t at = 0;
	buf_add(&n->in, bytes, len);
	while (!n->nonsense && n->in.len - at >= sizeof(note)) {
		const uint8_t *p = (const uint8_t *)n->in.data + at;
		memcpy(&note, p, sizeof(note));
		size_t more = is_payload(note.kind) ? (size_t)note.code : 0;
		n->nonsense = !is_sound(&note);
		if (n->nonsense || n->in.len - at - sizeof(note) < more)
			break;
		take(n, &note, p + sizeof(note));
		at += sizeof(note) + more;
	}
	buf_consume(&n->in, n->nonsense ? n->in.len : at);
}

static void give_sample(const struct note_item *i, const struct attach_cpu_sink *sink)
{
	struct wire_agent_sample s;
	memcpy(&s, i->bytes, sizeof(s));
	struct attach_sample given = { .tid = (uint32_t)s.tid,
				       .time_ns = s.time_ns,
				       .cpu_ns = s.cpu_ns,
				       .ip = s.ip,
				       .stack = i->bytes + sizeof(s),
				       .stack_len = i->len - sizeof(s) };
	given.full = given.stack_len >= s.asked;
	memcpy(given.regs, s.regs, sizeof(given.regs));
	sink->sample(sink->user, &given);
}

static void give_thread(const struct note_item *i, const struct attach_cpu_sink *sink)
{
	struct wire_agent_thread t;
	memcpy(&t, i->bytes, sizeof(t));
	struct attach_thread given = {
		.tid = (uint32_t)t.tid, .last = t.last, .cpu_ns = t.cpu_ns, .delay_ns = t.delay_ns
	};
	memcpy(given.name, t.name, sizeof(t.name));
	sink->thread(sink->user, &given);
}

void notes_give(struct notes *n, uint64_t until_ns, const struct attach_cpu_sink *sink)
{
	for (; n->at < n->queue.n && n->queue.v[n->at].time_ns < until_ns; n->at++) {
		struct note_item i = n->queue.v[n->at];
		n->queue.v[n->at].bytes = NULL;
		if (i.kind == WIRE_AGENT_SAMPLE)
			give_sample(&i, sink);
		else
			give_thread(&i, sink);
		n->queued_bytes -= cost(i.len);
		mem_free(i.bytes);
	}
	if (n->at == n->queue.n || n->at >= COMPACT_AT) {
		n->queue.n -= n->at;
		if (n->queue.n)
			memmove(n->queue.v, n->queue.v + n->at, n->queue.n * sizeof(*n->queue.v));
		n->at = 0;
	}
}

void notes_fini(struct notes *n)
{
	vec_each(i, &n->queue)
		mem_free(i->bytes);
	vec_free(&n->queue);
	buf_free(&n->in);
	buf_free(&n->bytes);
}
