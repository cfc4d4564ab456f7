#pragma once
/* Two hash maps and an interning table. Open addressing, grow at 3/4, no removal but clear. Not for threads.
 *
 * Keys come from hostile processes: string hashes are seeded per process. */

#include "base/base.h"

/* u64 -> u64. Any key is allowed. */
struct map_u64 {
	struct map_u64_slot *slots;
	size_t n, cap;
};
/* The value's place, or NULL. Valid until the next put. */
uint64_t *map_u64_get(const struct map_u64 *m, uint64_t key);
/* The value's place, new ones are 0 and *ret_new (may be NULL) is set. */
uint64_t *map_u64_put(struct map_u64 *m, uint64_t key, bool *ret_new);
void map_u64_clear(struct map_u64 *m);
void map_u64_free(struct map_u64 *m);
/* Iterates: *pos starts at 0; false at the end. */
bool map_u64_next(const struct map_u64 *m, size_t *pos, uint64_t *ret_key, uint64_t *ret_value);

/* Strings (any bytes) to dense ids from 0, in order of first use. Holds its own copies. */
struct strtab {
	struct strtab_entry *entries; /* by id */
	uint32_t *slots;	      /* id + 1, 0 = empty */
	size_t n, cap, entries_cap;
	size_t bytes;
};
#define STRTAB_NONE UINT32_MAX
uint32_t strtab_add(struct strtab *t, const char *s, size_t len);
uint32_t strtab_add_cstr(struct strtab *t, const char *s);
/* STRTAB_NONE when absent. */
uint32_t strtab_find(const struct strtab *t, const char *s, size_t len);
/* NUL-terminated; valid until free. */
const char *strtab_get(const struct strtab *t, uint32_t id);
size_t strtab_len(const struct strtab *t, uint32_t id);
void strtab_free(struct strtab *t);

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed);
/* A seed of this process, not known outside. */
uint64_t hash_seed(void);
uint64_t hash_u64(uint64_t x);
