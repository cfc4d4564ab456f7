/* info, threads, stacks, exceptions, modules, stack-objects. */

#include "base/fmt.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include "inspect/internal.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MAX_CHAIN 20
#define MESSAGE_CHARS 400

static bool has_stack(const struct dac_thread *t)
{
	return t->os_id && !(t->state & (DAC_THREAD_DEAD | DAC_THREAD_UNSTARTED));
}

/* ---- info ---- */

static void add_fact(struct answer *a, const char *name, const char *fmt, ...) PRINTF(3, 4);
static void add_fact(struct answer *a, const char *name, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *text = mem_vprintf(fmt, ap);
	va_end(ap);
	ANSWER_ROW(a, C_TEXT(name), C_TEXT(text));
}

static void add_heap_facts(struct inspect *in, struct answer *a)
{
	struct dac_facts facts;
	const struct heap_outline *o;
	CLEANUP(err_freep) struct err *err = dac_facts(in->look.dac, &facts);
	if (err)
		return;
	add_fact(a, "collector", "%s, %s%s", facts.server_gc ? "server" : "workstation",
		 fmt_plural(facts.n_heaps ? facts.n_heaps : 1, "heap", "heaps").s,
		 facts.heap_valid ? "" : "; a collection was at work: the heap is in disorder");
	err = inspect_outline(in, &o);
	uint64_t bytes = 0;
	for (size_t i = 0; !err && i < o->regions.n; i++)
		bytes += o->regions.v[i].end - o->regions.v[i].start;
	if (err)
		add_fact(a, "managed heap", "not in this image");
	else
		add_fact(a, "managed heap", "%s in %s", fmt_bytes(bytes).s,
			 fmt_plural(o->regions.n, "region", "regions").s);
}

struct err *inspect_info(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct dac_threads *threads;
	const struct dac_runtime *runtime = dac_runtime(in->look.dac);
	struct image_signal s;
	size_t n_os, living = 0;
	(void)words, (void)n;
	TRY(inspect_threads(in, &threads));
	image_threads(in->look.image, &n_os);
	vec_each(t, threads)
		living += has_stack(t);
	answer_table(a, NULL, "fact", "value");
	answer_plain(a);
	add_fact(a, "source", "%s", in->source);
	add_fact(a, "process", "%d", (int)image_pid(in->look.image));
	add_fact(a, "runtime", ".NET %s%s", runtime->version[0] ? runtime->version : "(version not known)",
		 runtime->single_file ? ", a single-file application" : "");
	if (in->look.facts.core)
		add_fact(a, "core", "%s, written %s%s", fmt_bytes(in->look.facts.bytes).s,
			 fmt_time_utc(in->look.facts.at_unix_ns).s, in->look.facts.missing ? "; it is cut short" : "");
	if (in->look.facts.unproven)
		add_fact(a, "assemblies",
			 "read from disk: not in the core; nothing proves that they are of the same build");
	if (image_signal(in->look.image, &s) && s.number != SIGSTOP)
		add_fact(a, "died of", "SIG%s on the thread with tid %d",
			 sigabbrev_np(s.number) ? sigabbrev_np(s.number) : "?", (int)s.tid);
	add_fact(a, "threads", "%zu managed, %zu in all", living, n_os);
	add_heap_facts(in, a);
	return NULL;
}

/* ---- threads ---- */

static void add_state(const struct dac_thread *t, struct buf *out)
{
	const char *const words[] = {
		t->finalizer ? "finalizer" : NULL,
		t->state & DAC_THREAD_POOL ? "pool" : NULL,
		t->state & DAC_THREAD_BACKGROUND ? "background" : NULL,
		t->state & DAC_THREAD_WAITING ? "waiting" : NULL,
		t->cooperative ? "in managed code" : NULL,
		t->state & DAC_THREAD_UNSTARTED ? "not started" : NULL,
		t->state & DAC_THREAD_DEAD || !t->os_id ? "ended" : NULL,
	};
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i])
			buf_printf(out, "%s%s", out->len ? ", " : "", words[i]);
}

static bool is_shown(const struct dac_stack *stack, size_t i, bool all)
{
	const struct dac_frame *f = &stack->v[i];
	if (all || !f->kind)
		return true;
	bool below = i + 1 < stack->n && stack->v[i + 1].method == f->method;
	bool above = i > 0 && stack->v[i - 1].method == f->method;
	return f->method && !below && !above;
}

static struct err *learn(struct inspect *in, const struct dac_stack *stack)
{
	struct dac_addresses methods = { 0 };
	vec_each(f, stack)
		if (f->method)
			vec_push(&methods, f->method);
	struct err *err = dac_learn_methods(in->look.dac, methods.v, methods.n);
	dac_addresses_free(&methods);
	return err;
}

static bool is_own(struct inspect *in, const struct dac_frame *f)
{
	const struct dac_method *m = f->method ? dac_method(in->look.dac, f->method) : NULL;
	CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 };
	if (!m || str_empty(m->name))
		return false;
	dac_split_name(m->name, &space, &member);
	return !method_is_framework(in->look.whose, buf_cstr(&space));
}

static void add_where(struct inspect *in, const struct dac_frame *f, struct buf *method, struct buf *line)
{
	struct pdb_line l;
	inspect_add_method(in, f->method, method);
	if (!method->len && f->kind)
		buf_printf(method, "[%s]", f->kind);
	else if (!method->len)
		buf_printf(method, "(code at 0x%llx)", (unsigned long long)f->ip);
	if (!f->kind && dac_line(in->look.lines, f->method, f->il_offset, &l))
		dac_line_add(line, &l);
}

/* The innermost frame of the author's own code, else the innermost with a name. */
static void add_site(struct inspect *in, const struct dac_thread *t, struct buf *out)
{
	struct dac_stack stack = { 0 };
	CLEANUP(buf_free) struct buf line = { 0 };
	struct err *err = has_stack(t) ? dac_stack(in->look.dac, t->os_id, &stack) : NULL;
	if (!err)
		err = learn(in, &stack);
	const struct dac_frame *site = NULL;
	vec_each(f, &stack) {
		if (!site && f->method)
			site = f;
		if (is_own(in, f)) {
			site = f;
			break;
		}
	}
	if (!err && site)
		add_where(in, site, out, &line);
	if (line.len)
		buf_printf(out, " (%s)", buf_cstr(&line));
	err_free(err);
	dac_stack_free(&stack);
}

struct err *inspect_list_threads(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct dac_threads *threads;
	(void)words, (void)n;
	TRY(inspect_threads(in, &threads));
	answer_table(a, NULL, "id", "tid", "name", "state", "exception", "where");
	vec_each(t, threads) {
		CLEANUP(buf_free) struct buf state = { 0 }, type = { 0 }, where = { 0 };
		char id[16], tid[16];
		struct dac_exception e;
		CLEANUP(err_freep)
		struct err *err = t->exception ? dac_exception(in->look.dac, t->exception, &e) : NULL;
		if (t->exception && !err)
			type_show(e.type_name, &type);
		add_state(t, &state);
		add_site(in, t, &where);
		snprintf(id, sizeof(id), "%u", t->managed_id);
		snprintf(tid, sizeof(tid), "%u", t->os_id);
		ANSWER_ROW(a, C_TEXT(id), t->os_id ? C_TEXT(tid) : C_NONE, C_TEXT(t->name), C_TEXT(buf_cstr(&state)),
			   type.len ? C_TEXT(buf_cstr(&type)) : C_NONE, C_TEXT(buf_cstr(&where)));
		TRY(inspect_go_on(in));
	}
	return NULL;
}

/* ---- stacks ---- */

static void add_frames(struct inspect *in, const struct dac_stack *stack, bool all, struct answer *a)
{
	for (size_t i = 0; i < stack->n; i++) {
		CLEANUP(buf_free) struct buf method = { 0 }, line = { 0 };
		if (!is_shown(stack, i, all))
			continue;
		add_where(in, &stack->v[i], &method, &line);
		ANSWER_ROW(a, C_TEXT(buf_cstr(&method)), line.len ? C_TEXT(buf_cstr(&line)) : C_NONE,
			   all ? C_ADDRESS(stack->v[i].ip) : C_NONE);
	}
}

static struct err *add_stack(struct inspect *in, const struct dac_thread *t, bool all, struct answer *a)
{
	struct dac_stack stack = { 0 };
	CLEANUP(buf_free) struct buf title = { 0 };
	inspect_add_thread(t, &title);
	buf_printf(&title, " (tid %u)", t->os_id);
	answer_table(a, buf_cstr(&title), "method", "line", "address");
	answer_plain(a);
	CLEANUP(err_freep) struct err *failure = dac_stack(in->look.dac, t->os_id, &stack);
	struct err *err = learn(in, &stack);
	if (!err)
		add_frames(in, &stack, all, a);
	if (failure || stack.lost)
		ANSWER_ROW(a, C_TEXT(failure ? err_text(failure) : "(and more, which is not in the image)"), C_NONE,
			   C_NONE);
	dac_stack_free(&stack);
	return err;
}

struct err *inspect_stacks(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct dac_threads *threads;
	const struct dac_thread *one = NULL;
	bool all = n && str_eq(words[0], "--all");
	TRY(inspect_threads(in, &threads));
	if (n && !all)
		TRY(inspect_thread(in, words[0], &one));
	if (one && !has_stack(one))
		return err_new(ERR_NOT_FOUND, "thread %u has no stack: it has ended, or not begun", one->managed_id);
	vec_each(t, threads) {
		TRY(inspect_go_on(in));
		if (has_stack(t) && (!one || t == one))
			TRY(add_stack(in, t, all, a));
	}
	size_t at = 0;
	for (const char *why; (why = dac_lines_refused(in->look.lines, &at));) {
		CLEANUP(buf_free) struct buf shown = { 0 };
		str_add_visible(&shown, why, strlen(why), MESSAGE_CHARS);
		answer_line(a, "no source lines: %s", buf_cstr(&shown));
	}
	return NULL;
}

/* ---- exceptions ---- */

static struct err *add_exception(struct inspect *in, uint64_t object, const char *where, struct answer *a)
{
	struct dac_exception e;
	for (size_t i = 0; object && i < MAX_CHAIN; i++, object = e.inner) {
		CLEANUP(buf_free) struct buf title = { 0 }, type = { 0 };
		struct dac_stack stack = { 0 };
		TRY(dac_exception(in->look.dac, object, &e));
		type_show(e.type_name, &type);
		buf_str(&title, i ? "caused by " : "");
		str_add_visible(&title, buf_cstr(&type), type.len, MESSAGE_CHARS);
		if (e.message) {
			buf_str(&title, ": ");
			str_add_visible(&title, e.message, strlen(e.message), MESSAGE_CHARS);
		}
		buf_printf(&title, " (0x%llx%s%s)", (unsigned long long)object, i || !*where ? "" : ", ",
			   i ? "" : where);
		answer_table(a, buf_cstr(&title), "method", "line", "address");
		answer_plain(a);
		TRY(dac_exception_stack(in->look.dac, &e, &stack));
		add_frames(in, &stack, false, a);
		dac_stack_free(&stack);
	}
	return NULL;
}

static bool is_exception(struct heap *h, const struct heap_type *type)
{
	for (size_t i = 0; type && i < 64; i++) {
		if (type->address == heap_facts(h)->exception_type)
			return true;
		type = type->parent ? heap_type(h, type->parent) : NULL;
	}
	return false;
}

/* By type; the runtime keeps a few preallocated ones, which were never thrown. */
static struct err *count_exceptions(struct inspect *in, struct answer *a)
{
	const struct heap_outline *outline;
	struct heap *heap;
	struct heap_found found;
	CLEANUP(map_u64_free) struct map_u64 counts = { 0 }, first = { 0 }, verdicts = { 0 };
	CLEANUP(err_freep) struct err *none = inspect_outline(in, &outline);
	if (none)
		return NULL;
	TRY(inspect_heap(in, &heap));
	CLEANUP(heap_walk_freep) struct heap_walk *walk = heap_walk_new(heap, outline);
	for (size_t i = 0; heap_walk_next(walk, &found); i++) {
		bool fresh;
		uint64_t *verdict = map_u64_put(&verdicts, found.type->address, &fresh);
		if (fresh)
			*verdict = is_exception(heap, found.type);
		if (*verdict) {
			*map_u64_put(&counts, found.type->address, NULL) += 1;
			*map_u64_put(&first, found.type->address, NULL) = found.address;
		}
		if (i % 65536 == 0)
			TRY(inspect_go_on(in));
	}
	answer_table(a, "On the heap", "count", "type", "last");
	size_t at = 0;
	for (uint64_t type, n; map_u64_next(&counts, &at, &type, &n);) {
		CLEANUP(buf_free) struct buf name = { 0 };
		inspect_add_type(in, heap_type(heap, type), &name);
		ANSWER_ROW(a, C_COUNT(n), C_TEXT(buf_cstr(&name)), C_ADDRESS(*map_u64_get(&first, type)));
	}
	return NULL;
}

struct err *inspect_exceptions(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct dac_threads *threads;
	struct heap *heap;
	uint64_t object;
	if (n) {
		TRY(inspect_object(in, words[0], &object));
		TRY(inspect_heap(in, &heap));
		if (!is_exception(heap, heap_type_of(heap, object)))
			return err_new(ERR_USAGE, "0x%llx is no exception", (unsigned long long)object);
		return add_exception(in, object, "", a);
	}
	size_t thrown = 0;
	TRY(inspect_threads(in, &threads));
	vec_each(t, threads) {
		CLEANUP(buf_free) struct buf where = { 0 };
		if (!t->exception)
			continue;
		inspect_add_thread(t, &where);
		TRY(add_exception(in, t->exception, buf_cstr(&where), a));
		thrown++;
	}
	if (!thrown)
		answer_line(a, "no thread throws an exception");
	return count_exceptions(in, a);
}

/* ---- modules ---- */

struct err *inspect_modules(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct dac_modules *managed;
	size_t n_native;
	(void)words, (void)n;
	TRY(dac_modules(in->look.dac, &managed));
	answer_table(a, "Assemblies", "address", "base", "source lines", "path");
	vec_each(m, managed)
		ANSWER_ROW(a, C_ADDRESS(m->address), m->il_base ? C_ADDRESS(m->il_base) : C_NONE,
			   C_TEXT(dac_lines_pdb(in->look.lines, m->address) ? "yes" : "no"),
			   C_TEXT(*m->path ? m->path : "(in memory only)"));
	const struct image_module *native = image_modules(in->look.image, &n_native);
	answer_table(a, "Libraries", "base", "build id", "path");
	for (size_t i = 0; i < n_native; i++) {
		char id[2 * IMAGE_BUILD_ID_MAX + 1] = "";
		for (size_t k = 0; k < native[i].build_id_len; k++)
			snprintf(id + 2 * k, 3, "%02x", native[i].build_id[k]);
		ANSWER_ROW(a, C_ADDRESS(native[i].base), C_TEXT(id), C_TEXT(native[i].path));
	}
	return NULL;
}

/* ---- stack-objects ---- */

struct err *inspect_stack_objects(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct dac_thread *t;
	struct dac_refs refs = { 0 };
	struct heap *heap;
	(void)n;
	TRY(inspect_thread(in, words[0], &t));
	TRY(inspect_heap(in, &heap));
	if (!has_stack(t))
		return err_new(ERR_NOT_FOUND, "thread %u has no stack: it has ended, or not begun", t->managed_id);
	TRY(dac_stack_refs(in->look.dac, t->os_id, &refs));
	answer_table(a, NULL, "slot", "object", "what");
	vec_each(r, &refs) {
		CLEANUP(buf_free) struct buf what = { 0 };
		if (r->flags & DAC_REF_INTERIOR)
			buf_str(&what, "(into an object)");
		else
			inspect_add_ref(in, r->object, &what);
		ANSWER_ROW(a, r->slot ? C_ADDRESS(r->slot) : C_TEXT("register"), C_ADDRESS(r->object),
			   C_TEXT(buf_cstr(&what)));
	}
	dac_refs_free(&refs);
	return NULL;
}

/* ---- locals ---- */

static void add_variable(struct inspect *in, const struct dac_frame *f, const struct dac_variable *v, struct answer *a)
{
	const struct dac_method *m = dac_method(in->look.dac, f->method);
	struct pdb *pdb = m ? dac_lines_pdb(in->look.lines, m->module) : NULL;
	const char *name = v->is_local && pdb && f->il_offset >= 0
				   ? pdb_local(pdb, m->token, (uint32_t)f->il_offset, v->index)
				   : v->name;
	CLEANUP(buf_free) struct buf value = { 0 };
	CLEANUP(mem_freep) char *number = mem_printf("%s %u", v->is_local ? "local" : "argument", v->index);
	if (v->flags & DAC_VARIABLE_OBJECT && v->size == 8)
		inspect_add_ref(in, v->value, &value);
	else if (v->flags & DAC_VARIABLE_STRUCT || v->size > 8)
		buf_printf(&value, "structure at 0x%llx, %u bytes", (unsigned long long)v->address, v->size);
	else
		buf_printf(&value, "%lld (0x%llx)", (long long)v->value, (unsigned long long)v->value);
	ANSWER_ROW(a, C_TEXT(str_empty(name) ? number : name), C_TEXT(v->is_local ? "local" : "argument"),
		   C_TEXT(buf_cstr(&value)));
}

/* Those of one frame; returns how many are not to be had. */
static size_t add_variables(struct inspect *in, const struct dac_frame *f, const struct dac_variables *all,
			    struct answer *a)
{
	CLEANUP(buf_free) struct buf method = { 0 }, line = { 0 };
	size_t unknown = 0, known = 0;
	add_where(in, f, &method, &line);
	if (line.len)
		buf_printf(&method, " (%s)", buf_cstr(&line));
	vec_each(v, all) {
		if (v->sp != f->sp)
			continue;
		unknown += !v->known;
		if (!v->known)
			continue;
		if (!known++) {
			answer_table(a, buf_cstr(&method), "name", "kind", "value");
			answer_plain(a);
		}
		add_variable(in, f, v, a);
	}
	return unknown;
}

struct err *inspect_locals(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct dac_thread *t;
	struct dac_stack stack = { 0 };
	struct dac_variables variables = { 0 };
	size_t unknown = 0;
	(void)n;
	TRY(inspect_thread(in, words[0], &t));
	if (!has_stack(t))
		return err_new(ERR_NOT_FOUND, "thread %u has no stack: it has ended, or not begun", t->managed_id);
	struct err *err = dac_stack(in->look.dac, t->os_id, &stack);
	if (!err)
		err = learn(in, &stack);
	if (!err)
		err = dac_variables(in->look.dac, t->os_id, &variables);
	for (size_t i = 0; !err && i < stack.n; i++) {
		if (!stack.v[i].kind)
			unknown += add_variables(in, &stack.v[i], &variables, a);
	}
	if (!err && unknown)
		answer_line(a, "%s not to be had: optimised code keeps a variable only as long as it needs it",
			    fmt_plural(unknown, "variable is", "variables are").s);
	dac_variables_free(&variables);
	dac_stack_free(&stack);
	return err;
}
