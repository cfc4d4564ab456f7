#pragma once
/* The part that one look into memory leaves in the recording of a profiler of another way (knowledge/knowledge.c). */

#include "base/str.h"
#include "exam_fixture.h"
#include "knowledge/knowledge.h"
#include <string.h>

#define KNOWLEDGE_FUTEX 202

/* Adds a thread with these frames, innermost first, ended by NULL; names that begin with "Shop." are the user's. */
static inline uint32_t knowledge_built_thread(struct thread_snapshot *s, uint32_t os_id, const char *name, int32_t call,
					      const char *const *frames)
{
	for (; *frames; frames++)
		thread_snapshot_add_frame_at(s, thread_snapshot_method(s, *frames, !str_starts(*frames, "Shop.")),
					     str_starts(*frames, "Shop.") ? "Yard.cs:29" : NULL);
	struct snapshot_thread t = { .managed_id = os_id,
				     .os_id = os_id,
				     .name = name,
				     .call = call,
				     .before = { UINT64_MAX, UINT64_MAX },
				     .after = { UINT64_MAX, UINT64_MAX },
				     .waits_for = SNAPSHOT_NONE };
	thread_snapshot_add_thread(s, &t);
	return (uint32_t)s->threads.n - 1;
}
#define BUILT_FRAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

struct knowledge_built {
	struct thread_snapshot *threads;
	const struct knowledge_request *requests;
	const uint32_t *still;
	size_t n_requests, n_still;
};

static inline void knowledge_built_bytes(const struct knowledge_built *k, struct buf *out)
{
	buf_add(out, "DRLOOK\0", 8);
	buf_u32(out, 1);
	buf_u32(out, THREAD_SNAPSHOT_VERSION);
	thread_snapshot_write(k->threads, out);
	buf_u32(out, (uint32_t)k->n_requests);
	for (size_t i = 0; i < k->n_requests; i++) {
		buf_u32(out, k->requests[i].os_id);
		buf_text(out, k->requests[i].endpoint, strlen(k->requests[i].endpoint));
	}
	buf_u32(out, (uint32_t)k->n_still);
	for (size_t i = 0; i < k->n_still; i++)
		buf_u32(out, k->still[i]);
}

static inline void knowledge_built_keep(struct recording *r, const void *bytes, size_t len)
{
	struct recording_part *part;
	assert_ok(recording_part_new(r, "knowledge", "look", &part));
	recording_part_write(part, bytes, len);
	recording_part_close(part, true);
}
