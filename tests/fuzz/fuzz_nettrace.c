/* Any bytes as a nettrace stream, in chunks that follow from the bytes themselves; every event is looked at closely. */

#include "base/map.h"
#include "nettrace/fields.h"
#include "nettrace/nettrace.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_event(void *user, const struct nettrace_event *event)
{
	uint64_t *sum = user;
	for (size_t i = 0; i < event->n_frames; i++)
		*sum += nettrace_event_frame(event, i);
	*sum = hash_bytes(event->payload, event->payload_size, *sum);
	if (event->activity_id)
		*sum += event->activity_id[15];
	if (event->related_activity_id)
		*sum += event->related_activity_id[15];
	struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, false);
	nettrace_event_json(event, &w, NULL, 500);
	if (out.len > 2000)
		abort();
	buf_free(&out);
}

static void run(const uint8_t *data, size_t size, bool unordered)
{
	uint64_t sum = 0, seed = hash_bytes(data, MIN(size, (size_t)64), size);
	struct nettrace_reader *r = nettrace_reader_new(&(struct nettrace_options){ .unordered = unordered,
										    .max_reorder_bytes = 64 << 10,
										    .max_block_bytes = 1 << 20,
										    .max_meta_bytes = 64 << 10 },
							&(struct nettrace_callbacks){ .event = on_event }, &sum);
	struct err *err = NULL;
	size_t at = 0;
	while (at < size && !err) {
		seed = hash_u64(seed + 1);
		size_t n = MIN(size - at, seed % 8 ? seed % 300 + 1 : size);
		/* Its own memory, so that reading beyond the chunk is seen. */
		uint8_t *chunk = mem_dup(data + at, n);
		err = nettrace_reader_feed(r, chunk, n);
		mem_free(chunk);
		at += n;
	}
	if (!err)
		err = nettrace_reader_finish(r);
	err_free(err);
	nettrace_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	run(data, size, false);
	run(data, size, true);
	return 0;
}
