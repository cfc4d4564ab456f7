/* What a recording keeps of async operations, and of threads that have ended. */

#include "threads/async_chains.h"
#include "threads/kept_threads.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(async_chains_freep) struct async_chains *c = NULL;
	CLEANUP(kept_threads_free) struct kept_threads kept = { 0 };
	CLEANUP(buf_free) struct buf out = { 0 };
	struct cursor in = cursor_make(data, size);
	err_ignore(async_chains_take(&c, &in));
	in = cursor_make(data, size);
	err_ignore(kept_threads_take(&kept, &in));
	if (!c)
		return 0;
	CLEANUP(async_seen_free) struct async_seen seen = { 0 };
	async_seen_add(&seen, c);
	vec_each(chain, &c->v) {
		async_chain_awaits_words(chain, &out);
		async_chain_is_own(c, chain);
		async_chain_unmoved(c, chain, &seen);
	}
	async_chains_write(c, &out);
	return 0;
}
