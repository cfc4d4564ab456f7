/* The part, little endian; a string is its u32 length and its bytes:
 *
 *   u32 n methods       string name, u8 framework
 *   u32 n lines         string "File.cs:12"
 *   u32 n threads       u32 managed id, u32 os id, u32 state, u8 flags, i32 system call,
 *                       string name, os name, exception, native,
 *                       u64 cpu ns and turns before the look, the same after it, u32 wait object,
 *                       u32 n frames: u32 method, u32 line + 1 (0 = none)
 *   u32 n wait objects  u64 address, u8 kind, u8 guessed | taken << 1 | posted << 2, u32 next,
 *                       string type, name, more, u32 n holders: u32 thread
 *   u32 ended */

#include "threads/thread_snapshot.h"
#include "threads/endpoints.h"
#include "threads/regexes.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include "heap/walk.h"
#include "target/threads.h"
#include <string.h>

#define THREADS_MAX 100000u
#define METHODS_MAX 1000000u
#define FRAMES_MAX 300u
#define THINGS_MAX 100000u
#define TEXT_MAX 1000u
#define MESSAGE_CHARS 300

enum { FLAG_COOPERATIVE = 1, FLAG_FINALIZER = 2, FLAG_CUT = 4, FLAG_LOST = 8, FLAG_NAME = 16, FLAG_EXCEPTION = 32 };

struct thread_snapshot *thread_snapshot_new(void)
{
	struct thread_snapshot *s = mem_zalloc(sizeof(*s));
	s->unfinalized = UINT64_MAX;
	return s;
}

void thread_snapshot_free(struct thread_snapshot *s)
{
	if (!s)
		return;
	strtab_free(&s->strings);
	vec_free(&s->methods);
	map_u64_free(&s->by_name);
	vec_free(&s->frames);
	vec_free(&s->lines);
	vec_free(&s->threads);
	vec_free(&s->things);
	vec_free(&s->holders);
	mem_free(s);
}

static const char *keep(struct thread_snapshot *s, const char *text)
{
	return text ? strtab_get(&s->strings, strtab_add(&s->strings, text, strnlen(text, TEXT_MAX))) : NULL;
}

uint32_t thread_snapshot_method(struct thread_snapshot *s, const char *name, bool framework)
{
	bool new;
	uint32_t id = strtab_add(&s->strings, name, strnlen(name, TEXT_MAX));
	uint64_t *place = map_u64_put(&s->by_name, ((uint64_t)id << 1) | framework, &new);
	if (new) {
		*place = s->methods.n;
		vec_push(&s->methods,
			 ((struct snapshot_method){ .name = strtab_get(&s->strings, id), .framework = framework }));
	}
	return (uint32_t)*place;
}

void thread_snapshot_add_frame(struct thread_snapshot *s, uint32_t method)
{
	thread_snapshot_add_frame_at(s, method, NULL);
}

void thread_snapshot_add_frame_at(struct thread_snapshot *s, uint32_t method, const char *line)
{
	vec_push(&s->frames, method);
	vec_push(&s->lines, str_empty(line) ? SNAPSHOT_NONE : strtab_add(&s->strings, line, strnlen(line, TEXT_MAX)));
}

const char *snapshot_line(const struct thread_snapshot *s, const struct snapshot_thread *t, size_t i)
{
	uint32_t line = s->lines.v[t->first + i];
	return line == SNAPSHOT_NONE ? NULL : strtab_get(&s->strings, line);
}

void thread_snapshot_add_thread(struct thread_snapshot *s, const struct snapshot_thread *thread)
{
	struct snapshot_thread t = *thread;
	t.first = s->threads.n ? vec_last(&s->threads).first + vec_last(&s->threads).n : 0;
	t.n = (uint32_t)s->frames.n - t.first;
	if (t.n > FRAMES_MAX) {
		t.n = FRAMES_MAX;
		s->frames.n = s->lines.n = t.first + FRAMES_MAX;
		t.cut = true;
	}
	t.name = str_empty(t.name) ? NULL : keep(s, t.name);
	t.os_name = keep(s, t.os_name ? t.os_name : "");
	t.exception = keep(s, t.exception);
	t.native = str_empty(t.native) ? NULL : keep(s, t.native);
	vec_push(&s->threads, t);
}

uint32_t thread_snapshot_add_wait_object(struct thread_snapshot *s, const struct wait_object *thing)
{
	struct wait_object t = *thing;
	t.first = s->things.n ? vec_last(&s->things).first + vec_last(&s->things).n : 0;
	t.n = (uint32_t)s->holders.n - t.first;
	t.type = keep(s, t.type ? t.type : "");
	t.name = str_empty(t.name) ? NULL : keep(s, t.name);
	t.more = str_empty(t.more) ? NULL : keep(s, t.more);
	vec_push(&s->things, t);
	return (uint32_t)s->things.n - 1;
}

bool snapshot_runs_exclusive(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(snapshot_frame(s, t, i)->name,
			   "System.Threading.Tasks.ConcurrentExclusiveSchedulerPair.ProcessExclusiveTasks"))
			return true;
	return false;
}

size_t snapshot_site(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (!snapshot_frame(s, t, i)->framework)
			return i;
	for (size_t i = 0; i < t->n; i++)
		if (method_is_compiled(snapshot_frame(s, t, i)->name))
			return i;
	return t->n;
}

/* ---- out of an image ---- */

/* A frame of the runtime itself says something only by a method that no managed frame repeats. */
bool thread_snapshot_keeps_frame(const struct dac_stack *stack, size_t i)
{
	const struct dac_frame *f = &stack->v[i];
	if (!f->kind)
		return true;
	if (!f->method)
		return false;
	bool below = i + 1 < stack->n && stack->v[i + 1].method == f->method;
	bool above = i > 0 && stack->v[i - 1].method == f->method;
	return !below && !above;
}

/* What is known of a method beside its name. line is filled for the place to refer to. */
static struct method_origin place_of(const struct image_exam *look, const struct endpoints *endpoints,
				     const struct dac_method *m, const char *space, const char *member,
				     struct buf *line)
{
	struct method_origin place = { .route = endpoints_route(endpoints, m->module, m->token) };
	struct pdb_line at;
	if (!place.route)
		place.route = endpoints_route_named(endpoints, space, member);
	if (method_is_lambda(space, member) && dac_line(look->lines, m->desc, 0, &at)) {
		dac_line_add(line, &at);
		place.line = buf_cstr(line);
	}
	return place;
}

static uint32_t method_of(struct thread_snapshot *s, const struct image_exam *look, const struct endpoints *endpoints,
			  const struct dac_frame *f)
{
	const struct dac_method *m = f->method ? dac_method(look->dac, f->method) : NULL;
	const char *handler = endpoints_calls(endpoints, f->method);
	if (handler)
		return thread_snapshot_method(s, handler, false);
	if (!m || str_empty(m->name))
		return thread_snapshot_method(s, "[code without a name]", true);
	CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 }, shown = { 0 }, line = { 0 };
	dac_split_name(m->name, &space, &member);
	bool made = m->dynamic || !space.len || str_eq(buf_cstr(&space), "ILStubClass") ||
		    str_eq(buf_cstr(&space), "dynamicClass") || str_ends(buf_cstr(&member), "__PInvoke");
	bool framework = made || method_is_framework(look->whose, buf_cstr(&space));
	struct method_origin place = { 0 };
	if (!framework)
		place = place_of(look, endpoints, m, buf_cstr(&space), buf_cstr(&member), &line);
	method_show_at(buf_cstr(&space), buf_cstr(&member), &place, &shown);
	return thread_snapshot_method(s, buf_cstr(&shown), framework);
}

#define UNFINALIZED_TAG 0x514E4946u /* "FINQ" */
#define RESTART_CALL 219

/* A wait that was interrupted continues as restart_syscall; the code before the instruction pointer has the number of
 * the original call: mov eax, N; syscall. */
static int32_t restarted_call(const struct image *image, uint64_t rip)
{
	uint8_t code[7];
	int32_t call;
	if (!image_read_all(image, rip - sizeof(code), code, sizeof(code)) || code[0] != 0xb8 || code[5] != 0x0f ||
	    code[6] != 0x05)
		return RESTART_CALL;
	memcpy(&call, code + 1, sizeof(call));
	return call;
}

/* What the kernel said of it at that instant. */
static void ask_kernel(const struct image *image, uint32_t os_id, struct snapshot_thread *t)
{
	size_t n;
	const struct image_thread *threads = image_threads(image, &n);
	t->call = SNAPSHOT_UNKNOWN;
	for (size_t i = 0; i < n; i++) {
		if ((uint32_t)threads[i].tid != os_id)
			continue;
		t->os_name = threads[i].name;
		if (threads[i].has_regs) {
			int64_t call = (int64_t)threads[i].regs.orig_rax;
			t->call = call >= 0 && call < 1000 ? (int32_t)call : SNAPSHOT_RUNS;
			if (t->call == RESTART_CALL)
				t->call = restarted_call(image, threads[i].regs.rip);
		}
		return;
	}
}

static void describe_exception(struct dac *dac, const struct dac_thread *t, struct buf *out)
{
	struct dac_exception e = { 0 };
	CLEANUP(err_freep) struct err *err = dac_exception(dac, t->exception, &e);
	if (err || str_empty(e.type_name))
		return;
	type_show(e.type_name, out);
	if (e.message) {
		buf_str(out, ": ");
		str_add_message(out, e.message, MESSAGE_CHARS);
	}
}

/* Many threads are at the same addresses: the name and line of each is determined once. */
struct frame_places {
	struct map_u64 methods; /* description -> seen method */
	struct map_u64 lines;	/* description and IL offset -> line, in strings */
	struct strtab strings;
	struct endpoints *endpoints; /* NULL = none */
};

static void frame_places_free(struct frame_places *p)
{
	endpoints_free(p->endpoints);
	map_u64_free(&p->methods);
	map_u64_free(&p->lines);
	strtab_free(&p->strings);
}

static const char *place_line(struct frame_places *p, struct image_exam *look, const struct dac_frame *f)
{
	struct pdb_line line;
	bool new;
	if (f->kind || !f->method || f->il_offset < 0)
		return "";
	uint64_t *place = map_u64_put(&p->lines, hash_u64(f->method) ^ (uint64_t)f->il_offset, &new);
	if (new) {
		CLEANUP(buf_free) struct buf text = { 0 };
		if (dac_line(look->lines, f->method, f->il_offset, &line))
			dac_line_add(&text, &line);
		*place = strtab_add(&p->strings, buf_cstr(&text), text.len);
	}
	return strtab_get(&p->strings, (uint32_t)*place);
}

static void add_frame(struct thread_snapshot *s, struct frame_places *p, struct image_exam *look,
		      const struct dac_frame *f)
{
	bool new;
	uint64_t *place = map_u64_put(&p->methods, f->method, &new);
	if (new)
		*place = method_of(s, look, p->endpoints, f);
	uint32_t method = (uint32_t)*place;
	/* What was compiled to call a handler goes by the handler, which may have a frame of its own. */
	uint32_t first = s->threads.n ? vec_last(&s->threads).first + vec_last(&s->threads).n : 0;
	if (s->frames.n > first && vec_last(&s->frames) == method && endpoints_calls(p->endpoints, f->method))
		return;
	thread_snapshot_add_frame_at(s, method, place_line(p, look, f));
}

/* A stack of nothing but nameless code is that of a thread the runtime made for itself. */
static bool is_told(struct dac *dac, const struct dac_stack *stack)
{
	vec_each(f, stack) {
		const struct dac_method *m = f->method ? dac_method(dac, f->method) : NULL;
		if (m && !str_empty(m->name))
			return true;
	}
	return false;
}

static void take_thread(struct thread_snapshot *s, struct frame_places *p, struct image_exam *look,
			const struct dac_thread *t, const struct dac_stack *stack)
{
	CLEANUP(buf_free) struct buf exception = { 0 };
	struct snapshot_thread thread = { .managed_id = t->managed_id,
					  .os_id = t->os_id,
					  .state = t->state,
					  .cooperative = t->cooperative,
					  .finalizer = t->finalizer,
					  .name = t->name,
					  .cut = stack->cut,
					  .lost = stack->lost };
	ask_kernel(look->image, t->os_id, &thread);
	size_t n = is_told(look->dac, stack) ? MIN(stack->n, (size_t)FRAMES_MAX * 2) : 0;
	for (size_t i = 0; i < n; i++)
		if (thread_snapshot_keeps_frame(stack, i))
			add_frame(s, p, look, &stack->v[i]);
	if (t->exception)
		describe_exception(look->dac, t, &exception);
	thread.before = thread.after = (struct snapshot_times){ UINT64_MAX, UINT64_MAX };
	thread.waits_for = SNAPSHOT_NONE;
	thread.exception = exception.len ? buf_cstr(&exception) : NULL;
	thread_snapshot_add_thread(s, &thread);
}

struct drained {
	struct dac_threads threads;
	VEC(struct dac_stack) stacks; /* one for each thread */
	VEC(uint32_t) origin;	      /* of a seen thread: its index in threads */
};

static void drained_fini(struct drained *d)
{
	vec_each(stack, &d->stacks)
		dac_stack_free(stack);
	vec_free(&d->stacks);
	vec_free(&d->origin);
	dac_threads_free(&d->threads);
}

static bool is_there(const struct dac_thread *t)
{
	return t->os_id && !(t->state & (DAC_THREAD_DEAD | DAC_THREAD_UNSTARTED));
}

static struct err *read_stacks(struct dac *dac, struct drained *d)
{
	struct dac_addresses methods = { 0 };
	CLEANUP(err_freep) struct err *first = NULL;
	size_t wanted = 0, failed = 0;
	dac_learn_all_stacks(dac, &d->threads, false);
	vec_each(t, &d->threads) {
		struct dac_stack stack = { 0 };
		struct err *err = is_there(t) ? dac_stack(dac, t->os_id, &stack) : NULL;
		wanted += is_there(t);
		failed += err != NULL;
		stack.lost |= err != NULL;
		if (first)
			err_free(err);
		else
			first = err;
		vec_each(f, &stack)
			if (f->method)
				vec_push(&methods, f->method);
		vec_push(&d->stacks, stack);
	}
	struct err *err = wanted && failed == wanted ? STEAL(first) : dac_learn_methods(dac, methods.v, methods.n);
	dac_addresses_free(&methods);
	return err;
}

static void add_times(struct thread_snapshot *s, const struct target_threads *list, bool after)
{
	struct map_u64 by_tid = { 0 };
	for (size_t i = 0; i < list->n; i++)
		*map_u64_put(&by_tid, (uint64_t)list->v[i].tid, NULL) = i + 1;
	vec_each(t, &s->threads) {
		const uint64_t *index = map_u64_get(&by_tid, t->os_id);
		if (!index)
			continue;
		const struct target_thread *from = &list->v[*index - 1];
		*(after ? &t->after : &t->before) = (struct snapshot_times){ from->cpu_ns, from->turns };
	}
	map_u64_free(&by_tid);
}

/* What each thread has run, by the kernel's clock. Last of all: every thread must have continued after the stop. */
static void ask_times(struct thread_snapshot *s, const struct image_exam *look)
{
	struct target_threads now = { 0 };
	if (look->target)
		err_ignore(target_threads(look->target, &now));
	add_times(s, &look->before, false);
	add_times(s, &now, true);
	vec_free(&now);
}

/* Is a request being handled, as far as stacks say? Only then the heap is searched for what it is. */
static bool serves_requests(struct dac *dac, const struct drained *d)
{
	vec_each(stack, &d->stacks)
		vec_each(f, stack) {
			const struct dac_method *m = f->method ? dac_method(dac, f->method) : NULL;
			if (m && str_starts(m->name, "Microsoft.AspNetCore.Routing."))
				return true;
		}
	return false;
}

static void count_unfinalized(struct thread_snapshot *s, struct dac *dac)
{
	struct dac_heaps heaps = { 0 };
	struct err *err = dac_heaps(dac, &heaps);
	s->unfinalized = 0;
	vec_each(h, &heaps)
		s->unfinalized += heap_ready_range(h).size / 8;
	if (err)
		s->unfinalized = UINT64_MAX;
	dac_heaps_free(&heaps);
	err_free(err);
}

struct err *thread_snapshot_drain(void *user, struct image_exam *look, struct buf *out)
{
	(void)user;
	if (look->threads.len) {
		buf_add(out, look->threads.data, look->threads.len);
		return NULL;
	}
	CLEANUP(drained_fini) struct drained d = { 0 };
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
	CLEANUP(frame_places_free) struct frame_places places = { 0 };
	TRY(dac_threads(look->dac, &d.threads));
	if (!d.threads.n)
		return err_new(ERR_BAD_DATA, "the runtime's list of threads is empty, as that of no living process is");
	TRY(read_stacks(look->dac, &d));
	err_ignore(dac_name_threads(look->dac, &d.threads));
	if (serves_requests(look->dac, &d))
		places.endpoints = endpoints_find(look);
	for (size_t i = 0; i < d.threads.n && s->threads.n < THREADS_MAX; i++) {
		if (!is_there(&d.threads.v[i])) {
			s->ended++;
			continue;
		}
		take_thread(s, &places, look, &d.threads.v[i], &d.stacks.v[i]);
		vec_push(&d.origin, (uint32_t)i);
	}
	struct snapshot_source source = { look, &d.threads, d.stacks.v, d.origin.v };
	thread_snapshot_find_wait_objects(s, &source);
	thread_snapshot_find_patterns(s, &source);
	thread_snapshot_find_native(s, look);
	count_unfinalized(s, look->dac);
	ask_times(s, look);
	thread_snapshot_write(s, &look->threads);
	buf_add(out, look->threads.data, look->threads.len);
	return NULL;
}

/* ---- as bytes ---- */

static void put_text(struct buf *out, const char *text)
{
	buf_text(out, text, text ? strlen(text) : 0);
}

static uint8_t flags_of(const struct snapshot_thread *t)
{
	return (uint8_t)((t->cooperative ? FLAG_COOPERATIVE : 0) | (t->finalizer ? FLAG_FINALIZER : 0) |
			 (t->cut ? FLAG_CUT : 0) | (t->lost ? FLAG_LOST : 0) | (t->name ? FLAG_NAME : 0) |
			 (t->exception ? FLAG_EXCEPTION : 0));
}

static void write_things(const struct thread_snapshot *s, struct buf *out)
{
	buf_u32(out, (uint32_t)s->things.n);
	vec_each(t, &s->things) {
		buf_u64(out, t->address);
		buf_char(out, (char)t->kind);
		buf_char(out, (char)(t->guessed | t->taken << 1 | t->posted << 2));
		buf_u32(out, t->next);
		put_text(out, t->type);
		put_text(out, t->name);
		put_text(out, t->more);
		buf_u32(out, t->n);
		for (uint32_t i = 0; i < t->n; i++)
			buf_u32(out, s->holders.v[t->first + i]);
	}
}

/* Each once; ret_index: string -> its number from 1. */
static void write_lines(const struct thread_snapshot *s, struct map_u64 *ret_index, struct buf *out)
{
	VEC(uint32_t) list = { 0 };
	vec_each(line, &s->lines) {
		bool new;
		uint64_t *place = *line == SNAPSHOT_NONE ? NULL : map_u64_put(ret_index, *line, &new);
		if (place && new) {
			vec_push(&list, *line);
			*place = list.n;
		}
	}
	buf_u32(out, (uint32_t)list.n);
	vec_each(line, &list)
		put_text(out, strtab_get(&s->strings, *line));
	vec_free(&list);
}

void thread_snapshot_write(const struct thread_snapshot *s, struct buf *out)
{
	buf_u32(out, (uint32_t)s->methods.n);
	vec_each(m, &s->methods) {
		put_text(out, m->name);
		buf_char(out, m->framework);
	}
	struct map_u64 line_index = { 0 };
	write_lines(s, &line_index, out);
	buf_u32(out, (uint32_t)s->threads.n);
	vec_each(t, &s->threads) {
		buf_u32(out, t->managed_id);
		buf_u32(out, t->os_id);
		buf_u32(out, t->state);
		buf_char(out, (char)flags_of(t));
		buf_u32(out, (uint32_t)t->call);
		put_text(out, t->name);
		put_text(out, t->os_name);
		put_text(out, t->exception);
		put_text(out, t->native);
		buf_add(out, &t->before, sizeof(t->before));
		buf_add(out, &t->after, sizeof(t->after));
		buf_u32(out, t->waits_for);
		buf_u32(out, t->n);
		for (uint32_t i = 0; i < t->n; i++) {
			const uint64_t *line = map_u64_get(&line_index, s->lines.v[t->first + i]);
			buf_u32(out, s->frames.v[t->first + i]);
			buf_u32(out, line ? (uint32_t)*line : 0);
		}
	}
	map_u64_free(&line_index);
	write_things(s, out);
	buf_u32(out, s->ended);
	if (s->unfinalized != UINT64_MAX) {
		buf_u32(out, UNFINALIZED_TAG);
		buf_u64(out, s->unfinalized);
	}
}

/* The text, terminated, in the strings of s; "" when there is none. */
static const char *get_text(struct thread_snapshot *s, struct cursor *in)
{
	size_t len;
	const char *text = cursor_text(in, TEXT_MAX, &len);
	return text ? strtab_get(&s->strings, strtab_add(&s->strings, text, len)) : "";
}

/* What frames refer to by number. */
struct tables {
	VEC(uint32_t) methods;
	VEC(const char *) lines;
};

static void get_frame(struct thread_snapshot *s, struct cursor *in, const struct tables *tables)
{
	uint32_t method = cursor_u32(in), line;
	line = cursor_u32(in);
	in->bad |= method >= tables->methods.n || line > tables->lines.n;
	if (cursor_ok(in))
		thread_snapshot_add_frame_at(s, tables->methods.v[method], line ? tables->lines.v[line - 1] : NULL);
}

static void get_thread(struct thread_snapshot *s, struct cursor *in, const struct tables *tables)
{
	struct snapshot_thread t = { .managed_id = cursor_u32(in) };
	t.os_id = cursor_u32(in);
	t.state = cursor_u32(in);
	uint8_t flags = cursor_u8(in);
	t.cooperative = flags & FLAG_COOPERATIVE;
	t.finalizer = flags & FLAG_FINALIZER;
	t.cut = flags & FLAG_CUT;
	t.lost = flags & FLAG_LOST;
	t.call = cursor_i32(in);
	t.name = get_text(s, in);
	t.os_name = get_text(s, in);
	t.exception = get_text(s, in);
	t.native = get_text(s, in);
	t.name = flags & FLAG_NAME ? t.name : NULL;
	t.exception = flags & FLAG_EXCEPTION ? t.exception : NULL;
	t.before.cpu_ns = cursor_u64(in);
	t.before.turns = cursor_u64(in);
	t.after.cpu_ns = cursor_u64(in);
	t.after.turns = cursor_u64(in);
	t.waits_for = cursor_u32(in);
	uint32_t n = cursor_u32(in);
	in->bad |= n > FRAMES_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++)
		get_frame(s, in, tables);
	if (cursor_ok(in))
		thread_snapshot_add_thread(s, &t);
}

static void get_thing(struct thread_snapshot *s, struct cursor *in)
{
	struct wait_object t = { .address = cursor_u64(in) };
	uint8_t kind = cursor_u8(in);
	uint8_t flags = cursor_u8(in);
	t.guessed = flags & 1;
	t.taken = flags & 2;
	t.posted = flags & 4;
	t.next = cursor_u32(in);
	t.type = get_text(s, in);
	t.name = get_text(s, in);
	t.more = get_text(s, in);
	uint32_t n = cursor_u32(in);
	in->bad |= kind >= WAIT_OBJECT_KINDS || n > s->threads.n;
	t.kind = kind;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++) {
		vec_push(&s->holders, cursor_u32(in));
		in->bad |= vec_last(&s->holders) >= s->threads.n;
	}
	if (cursor_ok(in))
		thread_snapshot_add_wait_object(s, &t);
}

/* Wait objects may refer to later ones: checked when all are read. */
static bool references_ok(const struct thread_snapshot *s)
{
	vec_each(t, &s->threads)
		if (t->waits_for != SNAPSHOT_NONE && t->waits_for >= s->things.n)
			return false;
	vec_each(t, &s->things)
		if (t->next != SNAPSHOT_NONE && t->next >= s->things.n)
			return false;
	return true;
}

/* Recordings of older versions have none; others have their own bytes behind. */
static void get_unfinalized(struct thread_snapshot *s, struct cursor *in)
{
	struct cursor at = *in;
	if (!cursor_ok(in) || cursor_left(in) < 12 || cursor_u32(&at) != UNFINALIZED_TAG)
		return;
	s->unfinalized = cursor_u64(&at);
	*in = at;
}

struct err *thread_snapshot_take(void *user, struct cursor *in)
{
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
	struct tables tables = { 0 };
	uint32_t n = cursor_u32(in);
	in->bad |= n > METHODS_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++) {
		const char *name = get_text(s, in);
		vec_push(&tables.methods, thread_snapshot_method(s, name, cursor_u8(in)));
	}
	n = cursor_u32(in);
	in->bad |= n > METHODS_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++)
		vec_push(&tables.lines, get_text(s, in));
	n = cursor_u32(in);
	in->bad |= n > THREADS_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++)
		get_thread(s, in, &tables);
	n = cursor_u32(in);
	in->bad |= n > THINGS_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++)
		get_thing(s, in);
	s->ended = cursor_u32(in);
	get_unfinalized(s, in);
	vec_free(&tables.methods);
	vec_free(&tables.lines);
	if (!cursor_ok(in) || !references_ok(s))
		return err_new(ERR_BAD_DATA, "the recording's list of threads is damaged");
	thread_snapshot_free(*(struct thread_snapshot **)user);
	*(struct thread_snapshot **)user = STEAL(s);
	return NULL;
}
