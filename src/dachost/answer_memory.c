/* Which memory a small dump needs: what the library itself lists for one, and all that it has read so far for the
 * answers to earlier questions. */

#include "base/vec.h"
#include "dachost/data_target.h"
#include "dachost/host.h"
#include <string.h>

/* As the runtime's own dump program asks for a small one: data segments, handles, thread information. */
#define DUMP_FLAGS 0x1005u
#define MAX_REGIONS (4u << 20)

static struct clr_regions_callback callback;
static VEC(struct wire_dac_range) regions;

static com_hr callback_query(struct clr_regions_callback *self, const struct com_guid *iid, void **ret)
{
	static const struct com_guid faces[] = { COM_IID_UNKNOWN, COM_IID_CLR_REGIONS_CALLBACK };
	*ret = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(faces); i++)
		if (!memcmp(iid, &faces[i], sizeof(*iid)))
			*ret = self;
	return *ret ? COM_OK : COM_E_NOINTERFACE;
}

static uint32_t callback_count(struct clr_regions_callback *self)
{
	(void)self;
	return 1;
}

static com_hr take_region(struct clr_regions_callback *self, uint64_t address, uint32_t size)
{
	(void)self;
	if (regions.n >= MAX_REGIONS)
		return COM_E_FAIL;
	vec_push(&regions, ((struct wire_dac_range){ address, size }));
	return COM_OK;
}

com_hr answer_memory(struct host *h, const struct host_question *q, struct host_answer *a)
{
	static const struct clr_regions_callback_vtbl vtbl = { callback_query, callback_count, callback_count,
							       take_region };
	struct clr_regions *lister = NULL;
	(void)q;
	callback.vtbl = &vtbl;
	vec_clear(&regions);
	com_hr hr = COM_CALL(h->process, QueryInterface, &(struct com_guid)COM_IID_CLR_REGIONS, (void **)&lister);
	if (hr >= 0 && lister)
		hr = COM_CALL(lister, EnumMemoryRegions, &callback, DUMP_FLAGS, 0);
	COM_RELEASE(lister);
	/* It may end early over something damaged: what it listed until then counts, and so does what was read. */
	vec_each(r, &regions)
		answer_add(a, r, sizeof(*r));
	size_t n;
	const struct data_target_read *reads = data_target_reads(&n);
	for (size_t i = 0; i < n; i++) {
		struct wire_dac_range r = { reads[i].start, reads[i].end - reads[i].start };
		answer_add(a, &r, sizeof(r));
	}
	return hr < 0 && !regions.n ? hr : COM_OK;
}

/* The library knows the word in which the collector counts itself in and out; it does not report it, but it reads it
 * when it is asked whether the heap is consistent. */
com_hr answer_busy_word(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct data_target_read reads[64];
	struct dacp_gc_heap heap = { 0 };
	(void)q;
	memory_forget(&h->memory);
	COM_CALL(h->process, Flush);
	data_target_trace(reads, ARRAY_SIZE(reads));
	com_hr hr = COM_CALL(h->sos, GetGCHeapData, &heap);
	size_t n = data_target_trace(NULL, 0), found = 0;
	struct wire_dac_range word = { 0 };
	/* It reads a few 32-bit words; while the heap is in order only the counter is 0. More than one: not to be told.
	 */
	for (size_t i = 0; hr >= 0 && heap.structures_valid && i < n; i++) {
		uint32_t value = 1;
		if (reads[i].end - reads[i].start != sizeof(value) ||
		    memory_read(&h->memory, reads[i].start, &value, sizeof(value)) != sizeof(value) || value)
			continue;
		found += word.start != reads[i].start;
		word = (struct wire_dac_range){ reads[i].start, sizeof(value) };
	}
	if (found == 1)
		answer_add(a, &word, sizeof(word));
	return hr;
}
