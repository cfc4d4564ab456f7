/* The blocks only version 6 has, and its trace block. Strings are a varint length and UTF-8.
 *
 *	Trace		SYSTEMTIME, u64 sync time, u64 ticks per second, u32 pointer size, u32 n, n x { str key, str
 *value }
 *	Thread		rows: u16 size, varint index, options: u8 kind, 1 str name, 2 varint pid, 3 varint tid, 4 str
 *str RemoveThread	rows: varint index, varint last sequence number LabelList	u32 first id, u32 n, n lists of
 *labels: u8 kind, value; the kind of the last has bit 7 set
 */

#include "nettrace/internal.h"
#include "base/str.h"

static void set_property(struct nettrace_header *h, struct cursor key, struct cursor value)
{
	static const struct {
		const char *key;
		size_t offset;
	} known[] = {
		{ "ProcessId", offsetof(struct nettrace_header, pid) },
		{ "HardwareThreadCount", offsetof(struct nettrace_header, n_cpus) },
		{ "ExpectedCPUSamplingRate", offsetof(struct nettrace_header, sampling_rate) },
	};
	char text[16];
	uint64_t number;
	if (cursor_left(&value) >= sizeof(text))
		return;
	memcpy(text, value.p, cursor_left(&value));
	text[cursor_left(&value)] = '\0';
	if (!str_to_u64(text, &number) || number > UINT32_MAX)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (cursor_left(&key) == strlen(known[i].key) && !memcmp(key.p, known[i].key, cursor_left(&key)))
			*(uint32_t *)(void *)((char *)h + known[i].offset) = (uint32_t)number;
	}
}

struct err *nettrace_v6_trace(struct nettrace_reader *r, const uint8_t *body, size_t len)
{
	struct cursor c = cursor_make(body, len);
	TRY(nettrace_set_header(r, &c));
	uint32_t n = cursor_u32(&c);
	for (uint32_t i = 0; i < n && cursor_ok(&c); i++) {
		struct cursor key = nettrace_string(&c), value = nettrace_string(&c);
		if (cursor_ok(&c))
			set_property(&r->header, key, value);
	}
	if (!cursor_ok(&c))
		return nettrace_bad(r, c.p, "expected %u properties of the trace", n);
	return NULL;
}

static struct err *thread_row(struct nettrace_reader *r, const uint8_t *row, size_t size)
{
	struct cursor c = cursor_make(row, size);
	uint64_t index = cursor_varu64(&c), pid = 0, tid = 0;
	bool known = true;
	while (known && cursor_ok(&c) && cursor_left(&c)) {
		switch (cursor_u8(&c)) {
		case 1:
			nettrace_string(&c);
			break;
		case 2:
			pid = cursor_varu64(&c);
			break;
		case 3:
			tid = cursor_varu64(&c);
			break;
		case 4:
			nettrace_string(&c);
			nettrace_string(&c);
			break;
		default: /* of a later version; its length is unknown */
			known = false;
		}
	}
	if (!cursor_ok(&c))
		return nettrace_bad(r, row, "expected a thread, found a row that ends early");
	struct nettrace_thread *thread = nettrace_thread_get(r, index);
	if (!thread)
		return nettrace_bad(r, row, "expected at most %zu threads", NETTRACE_MAX_THREADS);
	thread->tid = tid;
	thread->pid = pid <= UINT32_MAX ? (uint32_t)pid : 0;
	return NULL;
}

struct err *nettrace_v6_threads(struct nettrace_reader *r, const uint8_t *body, size_t len)
{
	struct cursor c = cursor_make(body, len);
	while (cursor_left(&c)) {
		size_t size = cursor_u16(&c);
		const uint8_t *row = cursor_take(&c, size);
		if (!row)
			return nettrace_bad(r, c.p, "expected a thread, found a row that passes the end of its block");
		TRY(thread_row(r, row, size));
	}
	return NULL;
}

struct err *nettrace_v6_remove_threads(struct nettrace_reader *r, const uint8_t *body, size_t len)
{
	struct cursor c = cursor_make(body, len);
	while (cursor_left(&c)) {
		uint64_t index = cursor_varu64(&c);
		uint32_t last = cursor_varu32(&c);
		if (!cursor_ok(&c))
			return nettrace_bad(r, c.p, "expected a thread index and its last sequence number");
		struct nettrace_thread *thread = nettrace_thread_find(r, index);
		if (!thread)
			continue;
		nettrace_count_lost(r, thread, last - thread->last);
		nettrace_thread_remove(r, thread);
	}
	return NULL;
}

/* False after the last label of a list. */
static bool read_label(struct cursor *c, struct nettrace_labels *labels)
{
	uint8_t kind = cursor_u8(c);
	switch (kind & 0x7f) {
	case 1:
		labels->activity_id = cursor_take(c, 16);
		break;
	case 2:
		labels->related_activity_id = cursor_take(c, 16);
		break;
	case 3: /* trace id */
		cursor_take(c, 16);
		break;
	case 4: /* span id */
	case 8: /* keywords */
		cursor_take(c, 8);
		break;
	case 5:
		nettrace_string(c);
		nettrace_string(c);
		break;
	case 6:
		nettrace_string(c);
		cursor_varu64(c);
		break;
	case 7:	 /* opcode */
	case 9:	 /* level */
	case 10: /* version */
		cursor_u8(c);
		break;
	default:
		c->bad = true;
	}
	return cursor_ok(c) && !(kind & 0x80);
}

struct err *nettrace_v6_labels(struct nettrace_reader *r, const uint8_t *body, size_t len)
{
	struct cursor c = cursor_make(arena_dup(&r->tables, body, len), len);
	const uint8_t *copy = c.p;
	uint32_t id = cursor_u32(&c), count = cursor_u32(&c);
	for (uint32_t i = 0; i < count; i++, id++) {
		struct nettrace_labels labels = { 0 };
		while (read_label(&c, &labels))
			;
		if (!cursor_ok(&c))
			return nettrace_bad(r, body + (c.p - copy), "expected label list %u of %u", i + 1, count);
		nettrace_idtab_add(&r->label_ids, id, r->labels.n);
		vec_push(&r->labels, labels);
	}
	return nettrace_tables_check(r);
}
