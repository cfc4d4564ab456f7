#include "base/map.h"
#include <string.h>
#include <sys/random.h>
#include <time.h>

struct map_u64_slot {
	uint64_t key, value;
	bool used;
};

struct strtab_entry {
	char *s;
	size_t len;
	uint64_t hash;
};

uint64_t hash_u64(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	x ^= x >> 33;
	return x;
}

/* The two halves of a product, folded: one multiplication mixes eight bytes. */
static uint64_t fold(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t h = seed ^ (len * 0x9e3779b97f4a7c15ULL);
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t word;
		memcpy(&word, p, 8);
		h = fold(h ^ word, 0xa0761d6478bd642fULL) + 0x9e3779b97f4a7c15ULL;
	}
	uint64_t tail = 0;
	if (len)
		memcpy(&tail, p, len);
	return hash_u64(h ^ tail);
}

uint64_t hash_seed(void)
{
	static uint64_t seed;
	if (!seed) {
		if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
			seed = hash_u64((uint64_t)time(NULL));
		seed |= 1;
	}
	return seed;
}

static size_t slot_of(const struct map_u64 *m, uint64_t key)
{
	size_t i = hash_u64(key ^ hash_seed()) & (m->cap - 1);
	while (m->slots[i].used && m->slots[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return i;
}

static void map_u64_grow(struct map_u64 *m)
{
	struct map_u64 bigger = { .cap = m->cap ? m->cap * 2 : 16, .n = m->n };
	bigger.slots = mem_array(bigger.cap, sizeof(*bigger.slots));
	memset(bigger.slots, 0, bigger.cap * sizeof(*bigger.slots));
	for (size_t i = 0; i < m->cap; i++) {
		if (m->slots[i].used)
			bigger.slots[slot_of(&bigger, m->slots[i].key)] = m->slots[i];
	}
	mem_free(m->slots);
	*m = bigger;
}

uint64_t *map_u64_get(const struct map_u64 *m, uint64_t key)
{
	if (!m->n)
		return NULL;
	struct map_u64_slot *slot = &m->slots[slot_of(m, key)];
	return slot->used ? &slot->value : NULL;
}

uint64_t *map_u64_put(struct map_u64 *m, uint64_t key, bool *ret_new)
{
	if ((m->n + 1) * 4 > m->cap * 3)
		map_u64_grow(m);
	struct map_u64_slot *slot = &m->slots[slot_of(m, key)];
	if (ret_new)
		*ret_new = !slot->used;
	if (!slot->used) {
		*slot = (struct map_u64_slot){ .key = key, .used = true };
		m->n++;
	}
	return &slot->value;
}

void map_u64_clear(struct map_u64 *m)
{
	if (m->slots)
		memset(m->slots, 0, m->cap * sizeof(*m->slots));
	m->n = 0;
}

void map_u64_free(struct map_u64 *m)
{
	mem_free(m->slots);
	*m = (struct map_u64){ 0 };
}

bool map_u64_next(const struct map_u64 *m, size_t *pos, uint64_t *ret_key, uint64_t *ret_value)
{
	for (; *pos < m->cap; (*pos)++) {
		if (!m->slots[*pos].used)
			continue;
		*ret_key = m->slots[*pos].key;
		*ret_value = m->slots[*pos].value;
		(*pos)++;
		return true;
	}
	return false;
}

/* The slot that holds the string, or the empty one where it belongs. */
static size_t strtab_slot(const struct strtab *t, const char *s, size_t len, uint64_t hash)
{
	size_t i = hash & (t->cap - 1);
	for (; t->slots[i]; i = (i + 1) & (t->cap - 1)) {
		const struct strtab_entry *e = &t->entries[t->slots[i] - 1];
		if (e->hash == hash && e->len == len && (!len || !memcmp(e->s, s, len)))
			break;
	}
	return i;
}

static void strtab_grow(struct strtab *t)
{
	mem_free(t->slots);
	t->cap = t->cap ? t->cap * 2 : 64;
	t->slots = mem_array(t->cap, sizeof(*t->slots));
	memset(t->slots, 0, t->cap * sizeof(*t->slots));
	for (size_t id = 0; id < t->n; id++) {
		const struct strtab_entry *e = &t->entries[id];
		t->slots[strtab_slot(t, e->s, e->len, e->hash)] = (uint32_t)id + 1;
	}
}

uint32_t strtab_add(struct strtab *t, const char *s, size_t len)
{
	if ((t->n + 1) * 4 > t->cap * 3)
		strtab_grow(t);
	uint64_t hash = hash_bytes(s, len, hash_seed());
	size_t i = strtab_slot(t, s, len, hash);
	if (t->slots[i])
		return t->slots[i] - 1;
	if (t->n == t->entries_cap) {
		t->entries_cap = t->entries_cap ? t->entries_cap * 2 : 64;
		t->entries = mem_realloc_array(t->entries, t->entries_cap, sizeof(*t->entries));
	}
	char *copy = mem_alloc(len + 1);
	if (len)
		memcpy(copy, s, len);
	copy[len] = '\0';
	t->entries[t->n] = (struct strtab_entry){ .s = copy, .len = len, .hash = hash };
	t->bytes += len + 1;
	t->slots[i] = (uint32_t)++t->n;
	return (uint32_t)t->n - 1;
}

uint32_t strtab_add_cstr(struct strtab *t, const char *s)
{
	return strtab_add(t, s, strlen(s));
}

uint32_t strtab_find(const struct strtab *t, const char *s, size_t len)
{
	if (!t->n)
		return STRTAB_NONE;
	size_t i = strtab_slot(t, s, len, hash_bytes(s, len, hash_seed()));
	return t->slots[i] ? t->slots[i] - 1 : STRTAB_NONE;
}

const char *strtab_get(const struct strtab *t, uint32_t id)
{
	return t->entries[id].s;
}

size_t strtab_len(const struct strtab *t, uint32_t id)
{
	return t->entries[id].len;
}

void strtab_free(struct strtab *t)
{
	for (size_t i = 0; i < t->n; i++)
		mem_free(t->entries[i].s);
	mem_free(t->entries);
	mem_free(t->slots);
	*t = (struct strtab){ 0 };
}
