/* Two tables of nodes. While samples come, a node is a place under a parent, found by the hash of its whole stack or,
 * for a new stack, frame by frame. Sealing names the places and merges nodes that have got the same name under the same
 * parent; `merged` leads from the first table to the second.
 *
 * The spool: chunks of CHUNK samples, each of one thread; a thread knows where its chunks lie. */

#include "export/profile.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/vec.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 512
/* Above every user address. */
#define NAMED_PLACE ((uint64_t)0xff << 56)

struct raw_node {
	uint64_t place;
	uint32_t parent;
};

struct thread {
	uint64_t id;
	char *name;
	VEC(uint64_t) chunks; /* numbers of full chunks in the spool */
	struct profile_sample *open;
	size_t n_open;
	uint64_t last_ns;
};

struct profile {
	enum profile_unit unit;
	char *spool_dir;
	int spool;
	uint64_t n_chunks;
	struct err *err;

	VEC(struct raw_node) raw;
	struct map_u64 by_stack;    /* hash of the places -> raw node */
	struct map_u64 by_raw_edge; /* hash of parent and place -> raw node */
	struct strtab named;	    /* places known by name */
	VEC(uint8_t) named_kinds;

	struct strtab frames;
	VEC(uint8_t) kinds;
	VEC(struct profile_node) nodes;
	uint32_t *merged;

	VEC(struct thread) threads;
	struct map_u64 by_thread_id;
	uint64_t n_samples, n_cut, start_ns, end_ns;
	uint32_t full_stack; /* 0 while there is room */
};

struct profile *profile_new(const char *spool_dir, enum profile_unit unit)
{
	struct profile *p = mem_zalloc(sizeof(*p));
	p->unit = unit;
	p->spool_dir = mem_strdup(spool_dir);
	p->spool = -1;
	p->start_ns = UINT64_MAX;
	vec_push(&p->raw, ((struct raw_node){ 0 }));
	return p;
}

void profile_free(struct profile *p)
{
	if (!p)
		return;
	vec_each(t, &p->threads) {
		mem_free(t->name);
		mem_free(t->open);
		vec_free(&t->chunks);
	}
	vec_free(&p->threads);
	fd_closep(&p->spool);
	err_free(p->err);
	vec_free(&p->raw);
	map_u64_free(&p->by_stack);
	map_u64_free(&p->by_raw_edge);
	map_u64_free(&p->by_thread_id);
	strtab_free(&p->named);
	vec_free(&p->named_kinds);
	strtab_free(&p->frames);
	vec_free(&p->kinds);
	vec_free(&p->nodes);
	mem_free(p->merged);
	mem_free(p->spool_dir);
	mem_free(p);
}

uint64_t profile_place(struct profile *p, const char *name, enum frame_kind kind)
{
	uint32_t id = strtab_add_cstr(&p->named, name);
	if (id == p->named_kinds.n)
		vec_push(&p->named_kinds, (uint8_t)kind);
	return NAMED_PLACE | id;
}

static bool is_stack(const struct profile *p, uint32_t node, const uint64_t *places, size_t n)
{
	for (size_t i = 0; i < n; i++, node = p->raw.v[node].parent) {
		if (!node || p->raw.v[node].place != places[i])
			return false;
	}
	return !node;
}

/* The child of parent at place; 0 when there is no room for it. Different edges with one hash are told apart by trying
 * the next one. */
static uint32_t child(struct profile *p, uint32_t parent, uint64_t place)
{
	for (uint64_t key = hash_u64(place ^ hash_u64(parent));; key = hash_u64(key + 1)) {
		bool new;
		uint64_t *at = map_u64_put(&p->by_raw_edge, key, &new);
		if (new) {
			*at = p->raw.n;
			vec_push(&p->raw, ((struct raw_node){ place, parent }));
			return (uint32_t)*at;
		}
		if (p->raw.v[*at].parent == parent && p->raw.v[*at].place == place)
			return (uint32_t)*at;
	}
}

uint32_t profile_stack(struct profile *p, const uint64_t *places, size_t n)
{
	if (!n)
		return 0;
	uint64_t key = hash_bytes(places, n * sizeof(*places), 0);
	const uint64_t *known = map_u64_get(&p->by_stack, key);
	if (known && is_stack(p, (uint32_t)*known, places, n))
		return (uint32_t)*known;
	if (p->raw.n + n > PROFILE_NODES_MAX) {
		if (!p->full_stack)
			p->full_stack = child(p, 0, profile_place(p, "[more different stacks than fit]", FRAME_OTHER));
		return p->full_stack;
	}
	uint32_t node = 0;
	for (size_t i = n; i-- > 0;)
		node = child(p, node, places[i]);
	if (!known)
		*map_u64_put(&p->by_stack, key, NULL) = node;
	return node;
}

uint32_t profile_thread(struct profile *p, uint64_t id)
{
	bool new;
	uint64_t *at = map_u64_put(&p->by_thread_id, id, &new);
	if (new) {
		*at = p->threads.n;
		vec_push(&p->threads, ((struct thread){ .id = id }));
	}
	return (uint32_t)*at;
}

void profile_thread_name(struct profile *p, uint32_t thread, const char *name)
{
	struct thread *t = &p->threads.v[thread];
	mem_free(t->name);
	t->name = mem_strdup(name);
}

static struct err *open_spool(struct profile *p)
{
	p->spool = open(p->spool_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (p->spool >= 0)
		return NULL;
	/* Not every file system has files without a name. */
	CLEANUP(mem_freep) char *path = mem_printf("%s/.drdotnet-XXXXXX", p->spool_dir);
	p->spool = mkostemp(path, O_CLOEXEC);
	if (p->spool < 0)
		return err_errno(errno, "cannot make a temporary file in '%s'", p->spool_dir);
	unlink(path);
	return NULL;
}

static struct err *write_chunk(struct profile *p, struct thread *t)
{
	if (p->spool < 0)
		TRY(open_spool(p));
	const char *data = (const char *)t->open;
	size_t len = CHUNK * sizeof(*t->open);
	off_t at = (off_t)(p->n_chunks * len);
	for (size_t done = 0; done < len;) {
		ssize_t n = pwrite(p->spool, data + done, len - done, at + (off_t)done);
		if (n < 0 && errno != EINTR)
			return err_errno(errno, "cannot write a temporary file in '%s'", p->spool_dir);
		done += n > 0 ? (size_t)n : 0;
	}
	vec_push(&t->chunks, p->n_chunks++);
	t->n_open = 0;
	return NULL;
}

void profile_sample(struct profile *p, uint32_t thread, struct profile_sample sample)
{
	struct thread *t = &p->threads.v[thread];
	if (p->err)
		return;
	if (!t->open)
		t->open = mem_array(CHUNK, sizeof(*t->open));
	/* A lying clock must not make a lying picture. */
	sample.time_ns = MAX(sample.time_ns, t->last_ns);
	sample.count = MAX(sample.count, 1u);
	t->last_ns = sample.time_ns;
	p->n_samples += sample.count;
	p->n_cut += sample.stack && sample.stack == p->full_stack;
	p->start_ns = MIN(p->start_ns, sample.time_ns);
	uint64_t length = p->unit == PROFILE_NS ? sample.weight : 0;
	p->end_ns = MAX(p->end_ns, sample.time_ns + MIN(length, UINT64_MAX - sample.time_ns));
	struct profile_sample *before = t->n_open ? &t->open[t->n_open - 1] : NULL;
	if (before && p->unit == PROFILE_NS && before->stack == sample.stack &&
	    before->time_ns + before->weight == sample.time_ns && before->count < UINT32_MAX / 2) {
		before->weight += sample.weight;
		before->count += sample.count;
		return;
	}
	if (t->n_open == CHUNK && (p->err = write_chunk(p, t)))
		return;
	t->open[t->n_open++] = sample;
}

struct naming {
	enum frame_kind (*name)(void *user, uint64_t place, struct buf *out);
	void *user;
	struct map_u64 frames; /* place -> frame */
	struct buf text;
};

static uint32_t frame_of(struct profile *p, struct naming *n, uint64_t place)
{
	bool new;
	uint64_t *at = map_u64_put(&n->frames, place, &new);
	if (!new)
		return (uint32_t)*at;
	buf_clear(&n->text);
	enum frame_kind kind;
	uint64_t named = place & ~NAMED_PLACE;
	if ((place & NAMED_PLACE) == NAMED_PLACE && named < p->named.n) {
		buf_str(&n->text, strtab_get(&p->named, (uint32_t)named));
		kind = p->named_kinds.v[named];
	} else {
		kind = n->name(n->user, place, &n->text);
	}
	uint32_t frame = strtab_add(&p->frames, buf_cstr(&n->text), n->text.len);
	if (frame == p->kinds.n)
		vec_push(&p->kinds, (uint8_t)kind);
	*at = frame;
	return frame;
}

static uint32_t merge(struct profile *p, struct map_u64 *edges, uint32_t parent, uint32_t frame)
{
	bool new;
	uint64_t *at = map_u64_put(edges, (uint64_t)parent << 32 | frame, &new);
	if (new) {
		*at = p->nodes.n;
		vec_push(&p->nodes, ((struct profile_node){ parent, frame }));
	}
	return (uint32_t)*at;
}

struct err *profile_seal(struct profile *p, enum frame_kind (*name)(void *user, uint64_t place, struct buf *out),
			 void *user)
{
	if (p->err)
		return STEAL(p->err);
	struct naming naming = { .name = name, .user = user };
	struct map_u64 edges = { 0 };
	p->merged = mem_array(p->raw.n, sizeof(*p->merged));
	vec_push(&p->nodes, ((struct profile_node){ 0 }));
	p->merged[0] = 0;
	for (size_t i = 1; i < p->raw.n; i++) {
		uint32_t frame = frame_of(p, &naming, p->raw.v[i].place);
		p->merged[i] = merge(p, &edges, p->merged[p->raw.v[i].parent], frame);
	}
	map_u64_free(&naming.frames);
	buf_free(&naming.text);
	map_u64_free(&edges);
	map_u64_free(&p->by_stack);
	map_u64_free(&p->by_raw_edge);
	vec_each(t, &p->threads) {
		if (!t->name)
			t->name = mem_printf("Thread %llu", (unsigned long long)t->id);
	}
	return NULL;
}

enum profile_unit profile_unit(const struct profile *p)
{
	return p->unit;
}

size_t profile_n_frames(const struct profile *p)
{
	return p->kinds.n;
}

const char *profile_frame(const struct profile *p, uint32_t frame)
{
	return strtab_get(&p->frames, frame);
}

enum frame_kind profile_frame_kind(const struct profile *p, uint32_t frame)
{
	return p->kinds.v[frame];
}

struct profile_node profile_node(const struct profile *p, uint32_t node)
{
	return p->nodes.v[node];
}

void profile_path(const struct profile *p, uint32_t node, struct profile_path *ret)
{
	vec_clear(ret);
	for (; node; node = p->nodes.v[node].parent)
		vec_push(ret, p->nodes.v[node].frame);
	for (size_t i = 0; i < ret->n / 2; i++) {
		uint32_t other = ret->v[ret->n - 1 - i];
		ret->v[ret->n - 1 - i] = ret->v[i];
		ret->v[i] = other;
	}
}

size_t profile_n_threads(const struct profile *p)
{
	return p->threads.n;
}

const char *profile_thread_text(const struct profile *p, uint32_t thread)
{
	return p->threads.v[thread].name;
}

uint64_t profile_thread_id(const struct profile *p, uint32_t thread)
{
	return p->threads.v[thread].id;
}

uint64_t profile_start_ns(const struct profile *p)
{
	return p->n_samples ? p->start_ns : 0;
}

uint64_t profile_end_ns(const struct profile *p)
{
	return p->end_ns;
}

uint64_t profile_n_samples(const struct profile *p)
{
	return p->n_samples;
}

uint64_t profile_cut(const struct profile *p)
{
	return p->n_cut;
}

static struct err *read_chunk(const struct profile *p, uint64_t chunk, struct profile_sample *ret)
{
	size_t len = CHUNK * sizeof(*ret);
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(p->spool, (char *)ret + done, len - done, (off_t)(chunk * len + done));
		if (n == 0 || (n < 0 && errno != EINTR))
			return err_errno(n ? errno : EIO, "cannot read a temporary file in '%s'", p->spool_dir);
		done += n > 0 ? (size_t)n : 0;
	}
	return NULL;
}

struct err *profile_read(const struct profile *p, uint32_t thread,
			 void (*sample)(void *user, const struct profile_sample *s), void *user)
{
	const struct thread *t = &p->threads.v[thread];
	struct profile_sample chunk[CHUNK];
	for (size_t c = 0; c <= t->chunks.n; c++) {
		size_t n = c < t->chunks.n ? CHUNK : t->n_open;
		if (c < t->chunks.n)
			TRY(read_chunk(p, t->chunks.v[c], chunk));
		else if (n)
			memcpy(chunk, t->open, n * sizeof(*chunk));
		for (size_t i = 0; i < n; i++) {
			chunk[i].stack = p->merged[chunk[i].stack];
			sample(user, &chunk[i]);
		}
	}
	return NULL;
}

struct profile_summing {
	uint32_t thread;
	struct map_u64 index; /* node -> place in sums */
	struct profile_sums *sums;
};

static void add_to_sum(void *user, const struct profile_sample *s)
{
	struct profile_summing *x = user;
	bool new;
	uint64_t *at = map_u64_put(&x->index, s->stack, &new);
	if (new) {
		*at = x->sums->n;
		vec_push(x->sums, ((struct profile_sum){ .thread = x->thread, .node = s->stack }));
	}
	x->sums->v[*at].count += s->count;
	x->sums->v[*at].weight += s->weight;
}

struct err *profile_sum(const struct profile *p, struct profile_sums *ret)
{
	struct err *err = NULL;
	struct profile_summing x = { .sums = ret };
	for (; x.thread < p->threads.n && !err; x.thread++) {
		map_u64_clear(&x.index);
		err = profile_read(p, x.thread, add_to_sum, &x);
	}
	map_u64_free(&x.index);
	return err;
}
