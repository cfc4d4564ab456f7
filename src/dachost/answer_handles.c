/* Handles. A server's collector has a table of them for each processor; the library walks as many as there are heaps
 * now, which since the collector adapts their number (by default from .NET 9 on) are fewer. Handles in the other tables
 * would be missing, and what they hold would count as garbage. So the library is made to believe in more heaps while it
 * walks.
 *
 * Nothing of the layout is assumed that cannot be tried: the number of heaps is the word that changes the library's
 * answer, the array of tables is where it reads once more when there is one heap more, and the first words of every
 * table, which say what each kind of handle is like, are the same. */

#include "dachost/data_target.h"
#include "dachost/host.h"
#include <string.h>

#define MAX_TABLES 1024
#define MAX_TRACE 8192
#define ALIKE 32 /* bytes at the start of each table */
#define RARE_KIND 8u

struct handle_trace {
	struct data_target_read v[MAX_TRACE];
	size_t n;
};
static struct handle_trace before, after;

/* Calls what reads the number of heaps. */
static uint32_t heap_count(struct host *h, struct handle_trace *t)
{
	struct dacp_gc_heap heap = { 0 };
	COM_CALL(h->process, Flush);
	if (t)
		data_target_trace(t->v, MAX_TRACE);
	com_hr hr = COM_CALL(h->sos, GetGCHeapData, &heap);
	if (t)
		t->n = data_target_trace(NULL, 0);
	return hr >= 0 && heap.server ? heap.heap_count : 0;
}

/* Where the number of heaps is kept; 0 = it cannot be told, or there is one heap for all. */
static uint64_t find_count(struct host *h, uint32_t *ret_count)
{
	uint32_t count = heap_count(h, &before);
	uint64_t found = 0;
	for (size_t i = 0; count && count < MAX_TABLES && i < before.n && !found; i++) {
		uint32_t value = 0;
		if (before.v[i].end - before.v[i].start != sizeof(value) ||
		    memory_read(&h->memory, before.v[i].start, &value, sizeof(value)) != sizeof(value) ||
		    value != count)
			continue;
		data_target_pretend(before.v[i].start, count + 1);
		if (heap_count(h, NULL) == count + 1)
			found = before.v[i].start;
		data_target_pretend(0, 0);
	}
	*ret_count = count;
	return found;
}

/* A walk over a kind of which there is hardly one: it reads the tables, and little in them. */
static bool trace_walk(struct host *h, struct handle_trace *t)
{
	struct sos_handle_enum *handles = NULL;
	struct dacp_handle one;
	uint32_t kind = RARE_KIND, got = 0;
	COM_CALL(h->process, Flush);
	data_target_trace(t->v, MAX_TRACE);
	com_hr hr = COM_CALL(h->sos, GetHandleEnumForTypes, &kind, 1, &handles);
	if (hr >= 0 && handles)
		COM_CALL(handles, Next, 1, &one, &got);
	t->n = data_target_trace(NULL, 0);
	COM_RELEASE(handles);
	return hr >= 0 && t->n < MAX_TRACE;
}

static bool was_read(const struct handle_trace *t, const struct data_target_read *read)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].start == read->start)
			return true;
	return false;
}

/* The slot of the first table that is left out. */
static uint64_t find_slot(struct host *h, uint64_t count_at, uint32_t count)
{
	uint64_t slot = 0;
	if (!trace_walk(h, &before))
		return 0;
	data_target_pretend(count_at, count + 1);
	/* It may well fail on what is not a table: only the addresses it reads matter. */
	trace_walk(h, &after);
	data_target_pretend(0, 0);
	for (size_t i = 0; i < after.n && !slot; i++)
		if (after.v[i].end - after.v[i].start == sizeof(uint64_t) && !was_read(&before, &after.v[i]))
			slot = after.v[i].start;
	return slot;
}

static uint32_t count_tables(struct host *h, uint64_t slot, uint32_t count)
{
	uint8_t first[ALIKE], other[ALIKE];
	uint64_t known = memory_u64(&h->memory, slot - sizeof(uint64_t));
	uint32_t n = count;
	if (!known || memory_read(&h->memory, known, first, ALIKE) != ALIKE)
		return count;
	for (uint64_t table; n < MAX_TABLES; n++, slot += sizeof(uint64_t)) {
		table = memory_u64(&h->memory, slot);
		if (!table || table == known || memory_read(&h->memory, table, other, ALIKE) != ALIKE ||
		    memcmp(first, other, ALIKE) != 0)
			break;
	}
	return n;
}

/* Until data_target_pretend(0, 0) the library sees as many heaps as there are tables. */
static void see_all_tables(struct host *h)
{
	uint32_t count;
	uint64_t count_at = find_count(h, &count), slot = count_at ? find_slot(h, count_at, count) : 0;
	uint32_t tables = slot ? count_tables(h, slot, count) : count;
	if (tables > count)
		data_target_pretend(count_at, tables);
	COM_CALL(h->process, Flush);
}

com_hr answer_handles(struct host *h, const struct host_question *q, struct host_answer *a)
{
	(void)q;
	struct sos_handle_enum *handles = NULL;
	struct dacp_gc_heap heap = { 0 };
	bool server = COM_CALL(h->sos, GetGCHeapData, &heap) >= 0 && heap.server;
	if (server)
		see_all_tables(h);
	com_hr hr = COM_CALL(h->sos, GetHandleEnum, &handles);
	static struct dacp_handle batch[1024];
	uint32_t got;
	do {
		got = 0;
		hr = hr < 0 || !handles ? hr : COM_CALL(handles, Next, ARRAY_SIZE(batch), batch, &got);
		for (uint32_t i = 0; hr >= 0 && i < got && i < ARRAY_SIZE(batch); i++) {
			struct wire_dac_handle r = {
				.handle = batch[i].handle,
				.object = memory_u64(&h->memory, batch[i].handle),
				.secondary = batch[i].secondary,
				.type = batch[i].type,
				.strong = batch[i].strong,
				.ref_count = batch[i].ref_count,
			};
			answer_add(a, &r, sizeof(r));
		}
	} while (hr >= 0 && got == ARRAY_SIZE(batch));
	bool none = hr >= 0 && !handles;
	COM_RELEASE(handles);
	if (server) {
		data_target_pretend(0, 0);
		COM_CALL(h->process, Flush);
	}
	return none ? COM_E_FAIL : hr < 0 ? hr : COM_OK;
}
