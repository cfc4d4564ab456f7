/* Reads the end of a process from its core. */

#include "base/fd.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include "profilers/crash.h"
#include "symbols/demangle.h"
#include "symbols/elffile.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MAX_FRAMES 60	  /* kept of one stack, after repetitions are folded */
#define MAX_PERIOD 12	  /* of a recursion, in methods */
#define MIN_REPEATED 4	  /* times that are folded */
#define MAX_EXCEPTIONS 20 /* of one chain */
#define MAX_TEXT 4000
#define SCAN_BYTES (1u << 20)

/* ---- frames ---- */

static void add_frame(struct jsonw *w, struct image_exam *look, const struct dac_frame *f, size_t times, size_t run)
{
	const struct dac_method *m = dac_method(look->dac, f->method);
	CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 }, shown = { 0 };
	struct pdb_line line = { 0 };
	if (m && !str_empty(m->name)) {
		dac_split_name(m->name, &space, &member);
		method_show(buf_cstr(&space), buf_cstr(&member), &shown);
	} else {
		buf_printf(&shown, "(code at 0x%llx)", (unsigned long long)f->ip);
	}
	bool known = !f->kind && dac_line(look->lines, f->method, f->il_offset, &line);
	jsonw_object(w, NULL);
	jsonw_str(w, "name", buf_cstr(&shown));
	jsonw_str(w, "file", known ? line.file : NULL);
	jsonw_u64(w, "line", known ? line.line : 0);
	jsonw_bool(w, "framework", method_is_framework(look->whose, buf_cstr(&space)));
	jsonw_u64(w, "times", times);
	jsonw_u64(w, "run", run);
	jsonw_object_end(w);
}

/* How often the next `period` methods come again right behind themselves. */
static size_t repeats(const struct dac_frame *v, size_t n, size_t period)
{
	size_t i = period;
	while (i < n && v[i].method == v[i - period].method)
		i++;
	return i / period;
}

static bool is_shown(const struct dac_stack *stack, size_t i)
{
	const struct dac_frame *f = &stack->v[i];
	if (!f->kind)
		return true;
	bool below = i + 1 < stack->n && stack->v[i + 1].method == f->method;
	bool above = i > 0 && stack->v[i - 1].method == f->method;
	return f->method && !below && !above;
}

/* Innermost first; a recursion once, with how often. */
static void add_frames(struct jsonw *w, struct image_exam *look, const struct dac_stack *stack)
{
	struct dac_stack v = { 0 };
	for (size_t i = 0; i < stack->n; i++)
		if (is_shown(stack, i))
			vec_push(&v, stack->v[i]);
	jsonw_array(w, "frames");
	size_t kept = 0;
	for (size_t i = 0; i < v.n && kept < MAX_FRAMES;) {
		size_t times = 1, run = 1;
		for (size_t period = 1; period <= MAX_PERIOD && period <= v.n - i && times < MIN_REPEATED; period++) {
			times = repeats(v.v + i, v.n - i, period);
			run = period;
		}
		if (times < MIN_REPEATED)
			times = run = 1;
		/* The second time round: the innermost call may have been stopped before its first line. */
		for (size_t k = 0; k < run; k++, kept++)
			add_frame(w, look, &v.v[i + k + (times > 1 ? run : 0)], k ? 1 : times, k ? 1 : run);
		i += times * run;
	}
	jsonw_array_end(w);
	jsonw_bool(w, "cut", kept >= MAX_FRAMES || stack->cut);
	jsonw_u64(w, "deep", v.n);
	vec_free(&v);
}

/* ---- exceptions ---- */

static void add_text(struct jsonw *w, const char *key, const char *text)
{
	if (text)
		jsonw_strn(w, key, text, strnlen(text, MAX_TEXT));
	else
		jsonw_null(w, key);
}

static void add_type(struct jsonw *w, const char *name)
{
	CLEANUP(buf_free) struct buf shown = { 0 };
	type_show(name, &shown);
	jsonw_str(w, "type", buf_cstr(&shown));
}

static void add_exceptions(struct jsonw *w, struct image_exam *look, uint64_t object)
{
	struct dac_exception e;
	jsonw_array(w, "exceptions");
	for (size_t i = 0; object && i < MAX_EXCEPTIONS; i++, object = e.inner) {
		CLEANUP(err_freep) struct err *err = dac_exception(look->dac, object, &e);
		struct dac_stack stack = { 0 };
		if (err)
			break;
		err_ignore(dac_exception_stack(look->dac, &e, &stack));
		jsonw_object(w, NULL);
		add_type(w, e.type_name);
		add_text(w, "message", e.message);
		jsonw_i64(w, "hresult", e.hresult);
		add_frames(w, look, &stack);
		jsonw_object_end(w);
		dac_stack_free(&stack);
	}
	jsonw_array_end(w);
}

static void add_others(struct jsonw *w, struct image_exam *look, const struct dac_threads *threads,
		       const struct dac_thread *dead)
{
	jsonw_array(w, "others");
	vec_each(t, threads) {
		struct dac_exception e;
		CLEANUP(err_freep) struct err *err = NULL;
		if (t == dead || !t->exception || (err = dac_exception(look->dac, t->exception, &e)))
			continue;
		jsonw_object(w, NULL);
		jsonw_u64(w, "thread", t->managed_id);
		jsonw_str(w, "name", t->name);
		add_type(w, e.type_name);
		add_text(w, "message", e.message);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
}

/* ---- Environment.FailFast ---- */

static bool is_fail_fast(struct image_exam *look, const struct dac_frame *f)
{
	const struct dac_method *m = f->method ? dac_method(look->dac, f->method) : NULL;
	return m && str_starts(m->name, "System.Environment.FailFast(");
}

static bool read_string(struct image_exam *look, uint64_t object, uint64_t string_type, struct buf *out)
{
	uint64_t type;
	uint32_t n;
	uint8_t units[2 * MAX_TEXT];
	if (!image_read_all(look->image, object, &type, sizeof(type)) || (type & ~(uint64_t)7) != string_type ||
	    !image_read_all(look->image, object + 8, &n, sizeof(n)) || !n)
		return false;
	n = MIN(n, (uint32_t)MAX_TEXT);
	if (!image_read_all(look->image, object + 12, units, (size_t)n * 2))
		return false;
	utf16_add(out, units, n);
	return true;
}

/* Its message is no longer of use to the code, so nothing keeps it alive; but its frames still hold it, or the address
 * of its first character, which went to native code. */
#define FIRST_CHARACTER 12
#define FRAME_ROOM 256
static void add_fail_fast(struct jsonw *w, struct image_exam *look, const struct dac_stack *stack)
{
	struct dac_facts facts;
	CLEANUP(buf_free) struct buf text = { 0 };
	uint64_t from = stack->n ? stack->v[0].sp : 0, to = 0, word;
	for (size_t i = 0; i < stack->n; i++) {
		const struct dac_frame *f = &stack->v[i];
		if (!is_fail_fast(look, f))
			continue;
		/* An explicit frame stands among the runtime's own variables. */
		from = f->frame ? MIN(from, f->frame - FRAME_ROOM) : MIN(from, f->sp);
		to = i + 1 < stack->n ? stack->v[i + 1].sp : f->sp;
	}
	CLEANUP(err_freep) struct err *err = to ? dac_facts(look->dac, &facts) : NULL;
	if (to && !err && to - from < SCAN_BYTES)
		for (uint64_t at = from; at < to && !text.len && image_read_all(look->image, at, &word, 8); at += 8)
			if (!read_string(look, word, facts.string_type, &text))
				read_string(look, word - FIRST_CHARACTER, facts.string_type, &text);
	add_text(w, "failfast", to ? buf_cstr(&text) : NULL);
}

/* ---- where the signal struck ---- */

/* The kernel puts a frame on the stack of the thread that it interrupts: ucontext (304 bytes), then the signal's facts
 * again, by which it is found. The core was written from inside the handler. */
#define UCONTEXT_BYTES 304
#define UCONTEXT_RIP (40 + 16 * 8)
static uint64_t interrupted_at(const struct image_exam *look, const struct image_signal *s, uint64_t rsp)
{
	const struct image_mapping *stack = image_mapping_at(look->image, rsp);
	size_t want = stack ? (size_t)MIN(stack->end - rsp, (uint64_t)SCAN_BYTES) : 0, got = 0;
	CLEANUP(mem_freep) uint8_t *bytes = mem_alloc(want + 1);
	image_read(look->image, rsp, bytes, want, &got);
	for (size_t at = UCONTEXT_BYTES; at + 24 <= got; at += 8) {
		int32_t head[3];
		uint64_t address, rip;
		memcpy(head, bytes + at, sizeof(head));
		memcpy(&address, bytes + at + 16, sizeof(address));
		if (head[0] != s->number || head[2] != s->code || address != s->address)
			continue;
		memcpy(&rip, bytes + at - UCONTEXT_BYTES + UCONTEXT_RIP, sizeof(rip));
		const struct image_mapping *code = image_mapping_at(look->image, rip);
		if (code)
			return rip;
	}
	return 0;
}

static bool function_name(const struct image_exam *look, const struct image_mapping *m, uint64_t ip, struct buf *out)
{
	size_t n;
	const struct image_module *all = image_modules(look->image, &n), *module = NULL;
	for (size_t i = 0; i < n; i++)
		if (str_eq(all[i].path, m->path))
			module = &all[i];
	CLOSE_FD int fd = module && module->build_id_len ? file_open_below(NULL, m->path, O_RDONLY) : -1;
	uint8_t id[IMAGE_BUILD_ID_MAX];
	if (fd < 0 || image_file_build_id(fd, id) != module->build_id_len ||
	    memcmp(id, module->build_id, module->build_id_len))
		return false;
	CLEANUP(elf_freep) struct elf *elf = NULL;
	CLEANUP(err_freep) struct err *err = elf_open(fd, &elf);
	uint64_t va;
	const char *symbol = !err && elf_va(elf, m->offset + (ip - m->start), &va) ? elf_symbol(elf, NULL, va) : NULL;
	if (symbol)
		demangle_add(out, symbol);
	return symbol;
}

static void add_native(struct jsonw *w, struct image_exam *look, const struct image_signal *s)
{
	size_t n;
	const struct image_thread *threads = image_threads(look->image, &n);
	uint64_t ip = 0;
	for (size_t i = 0; i < n; i++) {
		if (threads[i].tid != s->tid || !threads[i].has_regs)
			continue;
		ip = interrupted_at(look, s, threads[i].regs.rsp);
		ip = ip ? ip : threads[i].regs.rip;
	}
	const struct image_mapping *m = ip ? image_mapping_at(look->image, ip) : NULL;
	/* Managed code has no file with ELF headers. */
	if (!m || m->path[0] != '/' || str_ends(m->path, ".dll") || str_starts(m->path, "/memfd:")) {
		jsonw_null(w, "native");
		return;
	}
	CLEANUP(buf_free) struct buf name = { 0 };
	const char *slash = strrchr(m->path, '/');
	jsonw_object(w, "native");
	jsonw_str(w, "function", function_name(look, m, ip, &name) ? buf_cstr(&name) : NULL);
	jsonw_str(w, "module", slash + 1);
	jsonw_object_end(w);
}

static void add_signal(struct jsonw *w, struct image_exam *look, bool there, const struct image_signal *s)
{
	char address[20];
	if (!there) {
		jsonw_null(w, "signal");
		jsonw_null(w, "native");
		return;
	}
	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)s->address);
	jsonw_object(w, "signal");
	jsonw_i64(w, "number", s->number);
	jsonw_i64(w, "code", s->code);
	jsonw_str(w, "address", address);
	jsonw_i64(w, "tid", s->tid);
	jsonw_object_end(w);
	add_native(w, look, s);
}

/* ---- the heap ---- */

static void add_heap(struct jsonw *w, struct image_exam *look)
{
	struct dac_facts facts;
	struct dac_segments segments = { 0 };
	uint64_t bytes = 0, committed = 0;
	CLEANUP(err_freep) struct err *err = dac_facts(look->dac, &facts);
	if (!err)
		err = dac_segments(look->dac, &segments);
	if (err) {
		jsonw_null(w, "heap");
		return;
	}
	vec_each(s, &segments) {
		bytes += s->allocated > s->mem ? s->allocated - s->mem : 0;
		committed += s->committed > s->mem ? s->committed - s->mem : 0;
	}
	dac_segments_free(&segments);
	jsonw_object(w, "heap");
	jsonw_bool(w, "valid", facts.heap_valid);
	jsonw_bool(w, "server", facts.server_gc);
	jsonw_u64(w, "bytes", bytes);
	jsonw_u64(w, "committed", committed);
	jsonw_object_end(w);
}

/* ---- all of it ---- */

/* The thread that got the signal. A living process has none; then a thread that throws is the best choice. */
static const struct dac_thread *find_dead(const struct dac_threads *threads, bool died, const struct image_signal *s)
{
	const struct dac_thread *throwing = NULL;
	vec_each(t, threads) {
		if (died && t->os_id == (uint32_t)s->tid)
			return t;
		if (t->exception && !throwing)
			throwing = t;
	}
	return throwing;
}

static struct err *add_thread(struct jsonw *w, struct image_exam *look, const struct dac_thread *t)
{
	struct dac_stack stack = { 0 };
	struct dac_addresses methods = { 0 };
	CLEANUP(err_freep) struct err *failure = t->os_id ? dac_stack(look->dac, t->os_id, &stack) : NULL;
	vec_each(f, &stack)
		vec_push(&methods, f->method);
	struct err *err = dac_learn_methods(look->dac, methods.v, methods.n);
	dac_addresses_free(&methods);
	jsonw_object(w, "thread");
	jsonw_u64(w, "id", t->managed_id);
	jsonw_u64(w, "tid", t->os_id);
	jsonw_str(w, "name", t->name);
	add_frames(w, look, &stack);
	jsonw_bool(w, "lost", stack.lost || failure);
	jsonw_bool(w, "deeper", stack.cut);
	jsonw_object_end(w);
	add_fail_fast(w, look, &stack);
	dac_stack_free(&stack);
	return err;
}

/* gdb notes the SIGSTOP by which it held a living process. */
static bool is_deadly(int number)
{
	return number != SIGSTOP && number != SIGTSTP && number != SIGCONT && number != SIGCHLD;
}

static size_t count_living(const struct dac_threads *threads)
{
	size_t n = 0;
	vec_each(t, threads)
		n += t->os_id && !(t->state & (DAC_THREAD_DEAD | DAC_THREAD_UNSTARTED));
	return n;
}

struct err *crash_drain(void *user, struct image_exam *look, struct buf *out)
{
	struct dac_threads threads = { 0 };
	struct image_signal s = { 0 };
	struct jsonw w = jsonw_make(out, false);
	(void)user;
	TRY(dac_threads(look->dac, &threads));
	err_ignore(dac_name_threads(look->dac, &threads));
	bool died = image_signal(look->image, &s) && is_deadly(s.number);
	const struct dac_thread *dead = find_dead(&threads, died, &s);
	struct err *err = NULL;
	jsonw_object(&w, NULL);
	add_signal(&w, look, died, &s);
	if (dead)
		err = add_thread(&w, look, dead);
	add_exceptions(&w, look, dead ? dead->exception : 0);
	add_others(&w, look, &threads, dead);
	add_heap(&w, look);
	jsonw_u64(&w, "threads", count_living(&threads));
	jsonw_array(&w, "noLines");
	size_t at = 0;
	for (const char *why; (why = dac_lines_refused(look->lines, &at));)
		jsonw_str(&w, NULL, why);
	jsonw_array_end(&w);
	jsonw_object_end(&w);
	dac_threads_free(&threads);
	return err;
}
