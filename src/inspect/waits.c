/* locks, tasks: what is waited for, read from the objects. */

#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include "inspect/internal.h"
#include "threads/async_chains.h"
#include <stdio.h>
#include <string.h>

#define GO_ON_EVERY 65536
#define SHOWN_CHAINS 20

/* ---- locks ---- */

static const struct dac_thread *thread_by(const struct dac_threads *all, uint64_t address, uint32_t managed_id,
					  uint32_t os_id)
{
	vec_each(t, all)
		if ((address && t->address == address) || (managed_id && t->managed_id == managed_id) ||
		    (os_id && t->os_id == os_id))
			return t;
	return NULL;
}

static void add_lock(struct inspect *in, const char *kind, uint64_t object, const struct dac_thread *owner,
		     uint32_t times, struct cell waiting, struct answer *a)
{
	CLEANUP(buf_free) struct buf what = { 0 }, who = { 0 };
	inspect_add_ref(in, object, &what);
	if (owner)
		inspect_add_thread(owner, &who);
	else
		buf_str(&who, "(a thread that is gone)");
	ANSWER_ROW(a, C_TEXT(kind), C_TEXT(buf_cstr(&who)), C_COUNT(times), waiting, C_TEXT(buf_cstr(&what)));
}

static void add_new_lock(struct inspect *in, const struct dac_threads *threads, uint64_t object, struct answer *a)
{
	struct heap_value v;
	int64_t owner = 0, times = 0, state = 0;
	if (!heap_object(in->heap, object, &v) || !heap_get_int(in->heap, v, "_owningThreadId", &owner) || !owner)
		return;
	(void)heap_get_int(in->heap, v, "_recursionCount", &times);
	(void)heap_get_int(in->heap, v, "_state", &state);
	/* Waiters are counted in units of 128. */
	add_lock(in, "Lock", object, thread_by(threads, 0, 0, (uint32_t)owner), (uint32_t)times + 1,
		 C_COUNT((uint64_t)(uint32_t)state / 0x80), a);
}

/* Locks that were never fought for leave no trace but in the object itself: all of them are looked at. */
static struct err *find_quiet_locks(struct inspect *in, const struct dac_threads *threads, uint64_t *ret,
				    struct answer *a)
{
	const struct heap_outline *outline;
	struct heap *heap;
	struct heap_found found;
	TRY(inspect_outline(in, &outline));
	TRY(inspect_heap(in, &heap));
	CLEANUP(heap_walk_freep) struct heap_walk *walk = heap_walk_new(heap, outline);
	for (size_t i = 0; heap_walk_next(walk, &found); i++) {
		struct heap_header h;
		if (i % GO_ON_EVERY == 0)
			TRY(inspect_go_on(in));
		if (found.type->kind == HEAP_FREE)
			continue;
		if (heap_header(heap, found.address, &h) && h.thin_owner) {
			add_lock(in, "monitor", found.address, thread_by(threads, 0, h.thin_owner, 0), h.recursion + 1,
				 C_COUNT(0), a);
			*ret += 1;
		}
		if (str_eq(found.type->name, "System.Threading.Lock"))
			add_new_lock(in, threads, found.address, a);
	}
	return NULL;
}

struct err *inspect_locks(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct dac_threads *threads;
	struct dac_syncs syncs = { 0 };
	struct heap *heap;
	uint64_t quiet = 0;
	(void)words, (void)n;
	TRY(inspect_threads(in, &threads));
	TRY(inspect_heap(in, &heap));
	TRY_WRAP(dac_syncs(in->look.dac, &syncs), "the list of locks is not in this image");
	answer_table(a, NULL, "kind", "held by", "times", "waiting", "object");
	vec_each(s, &syncs)
		if (s->held || s->waiting)
			add_lock(in, "monitor", s->object, thread_by(threads, s->holding_thread, 0, 0), s->recursion,
				 C_COUNT(s->waiting), a);
	dac_syncs_free(&syncs);
	return find_quiet_locks(in, threads, &quiet, a);
}

/* ---- tasks ---- */

struct chain_group {
	const struct heap_type *machine;
	int64_t state;
	uint64_t n, first;
};
VEC_TYPE(chain_groups, struct chain_group);

#define TASK_DONE 0x01600000 /* ran to its end, faulted, cancelled */

static void take_task(struct inspect *in, uint64_t object, struct chain_groups *groups)
{
	struct heap_value box, machine;
	int64_t flags = 0, state = -1;
	if (!heap_object(in->heap, object, &box) || !heap_get_int(in->heap, box, "m_stateFlags", &flags) ||
	    flags & TASK_DONE)
		return;
	/* A structure in Release builds, an object in Debug builds. */
	if (!heap_get_struct(in->heap, box, "StateMachine", &machine) &&
	    !heap_get_object(in->heap, box, "StateMachine", &machine))
		return;
	(void)heap_get_int(in->heap, machine, "<>1__state", &state);
	vec_each(g, groups)
		if (g->machine == machine.type && g->state == state) {
			g->n++;
			return;
		}
	vec_push(groups, ((struct chain_group){ machine.type, state, 1, object }));
}

static int by_count(const void *a, const void *b)
{
	const struct chain_group *x = a, *y = b;
	return CMP(y->n, x->n);
}

/* The source line of an await: the state is its number, the PDB knows where in MoveNext it stands. */
static void add_await(struct inspect *in, const struct chain_group *g, struct buf *out)
{
	struct dac_type_methods methods = { 0 };
	struct pdb *pdb = g->state >= 0 ? dac_lines_pdb(in->look.lines, g->machine->module) : NULL;
	if (pdb)
		err_ignore(dac_type_methods(in->look.dac, g->machine->address, &methods));
	vec_each(m, &methods) {
		struct pdb_line line;
		if (str_eq(m->name, "MoveNext") && pdb_await(pdb, m->token, (uint32_t)g->state, &line))
			dac_line_add(out, &line);
	}
	dac_type_methods_free(&methods);
}

/* Who awaits whom, and what they wait for in the end. */
static struct err *add_chains(struct inspect *in, struct answer *a)
{
	CLEANUP(async_chains_freep) struct async_chains *c = NULL;
	CLEANUP(buf_free) struct buf bytes = { 0 };
	TRY(async_chains_drain(NULL, &in->look, &bytes));
	struct cursor cursor = cursor_make(bytes.data, bytes.len);
	TRY(async_chains_take(&c, &cursor));
	for (size_t i = 0; i < c->v.n && i < SHOWN_CHAINS; i++) {
		const struct async_chain *chain = &c->v.v[i];
		CLEANUP(buf_free) struct buf title = { 0 }, shown = { 0 };
		buf_printf(&title, "%s ", fmt_plural(chain->count, "operation awaits", "operations await").s);
		async_chain_awaits_words(chain, &title);
		str_add_visible(&shown, buf_cstr(&title), title.len, 300);
		answer_table(a, buf_cstr(&shown), "async method", "at");
		answer_plain(a);
		for (uint32_t k = 0; k < chain->n; k++) {
			const struct async_chain_step *step = &c->steps.v[chain->first + k];
			ANSWER_ROW(a, C_TEXT(c->methods.v[step->method].name), C_TEXT(step->line));
		}
	}
	if (c->v.n > SHOWN_CHAINS)
		answer_line(a, "%s more kinds of chains", fmt_count(c->v.n - SHOWN_CHAINS).s);
	return NULL;
}

struct err *inspect_tasks(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_outline *outline;
	struct heap *heap;
	struct heap_found found;
	struct chain_groups groups = { 0 };
	uint64_t all = 0;
	(void)words, (void)n;
	TRY(inspect_outline(in, &outline));
	TRY(inspect_heap(in, &heap));
	CLEANUP(heap_walk_freep) struct heap_walk *walk = heap_walk_new(heap, outline);
	struct err *err = NULL;
	for (size_t i = 0; !err && heap_walk_next(walk, &found); i++) {
		if (strstr(found.type->name, "AsyncStateMachineBox`1"))
			take_task(in, found.address, &groups);
		if (i % GO_ON_EVERY == 0)
			err = inspect_go_on(in);
	}
	vec_sort(&groups, by_count);
	answer_table(a, NULL, "tasks", "await", "at", "one of them", "async method");
	vec_each(g, &groups) {
		CLEANUP(buf_free) struct buf name = { 0 }, at = { 0 };
		char state[24];
		add_await(in, g, &at);
		all += g->n;
		if (g->state >= 0)
			snprintf(state, sizeof(state), "%lld", (long long)g->state);
		else
			str_copy(state, sizeof(state), "running");
		inspect_add_type(in, g->machine, &name);
		ANSWER_ROW(a, C_COUNT(g->n), C_TEXT(state), C_TEXT(buf_cstr(&at)), C_ADDRESS(g->first),
			   C_TEXT(buf_cstr(&name)));
	}
	answer_line(a, "%s not done; awaits count from 0 in the order of the source",
		    fmt_plural(all, "async method", "async methods").s);
	vec_free(&groups);
	return err ? err : add_chains(in, a);
}
