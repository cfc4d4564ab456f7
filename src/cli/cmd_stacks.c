/* drdotnet stacks: the stack of every managed thread of a process or a core file. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/command.h"
#include "eventpipe/methods.h"
#include "exam/image_exam.h"
#include "threads/thread_snapshot.h"
#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS 2000
#define NAME_COLUMNS 200
#define MAX_LINE_COLUMN 70

/* One thread, and what could be learnt about it. */
struct thread_view {
	struct dac_stack stack;
	VEC(struct pdb_line) lines; /* one for each frame; file NULL = not known */
	struct dac_exception exception;
	bool has_exception;
	struct err *failure; /* why it has no stack */
};

struct cmd_stacks {
	const char *source; /* what was looked at, for the heading */
	struct image_exam look;
	struct dac_threads threads;
	VEC(struct thread_view) seen; /* one for each thread */
};

static void stacks_fini(struct cmd_stacks *s)
{
	vec_each(seen, &s->seen) {
		dac_stack_free(&seen->stack);
		vec_free(&seen->lines);
		err_free(seen->failure);
	}
	vec_free(&s->seen);
	dac_threads_free(&s->threads);
	image_exam_fini(&s->look);
}

/* ---- asking ---- */

static struct err *learn_methods(struct cmd_stacks *s)
{
	struct dac_addresses methods = { 0 };
	vec_each(seen, &s->seen)
		vec_each(f, &seen->stack)
			if (f->method)
				vec_push(&methods, f->method);
	struct err *err = dac_learn_methods(s->look.dac, methods.v, methods.n);
	dac_addresses_free(&methods);
	return err;
}

static void find_lines(struct cmd_stacks *s)
{
	vec_each(seen, &s->seen)
		vec_each(f, &seen->stack) {
			struct pdb_line *line = vec_add(&seen->lines);
			if (f->kind || !dac_line(s->look.lines, f->method, f->il_offset, line))
				*line = (struct pdb_line){ 0 };
		}
}

static bool has_stack(const struct dac_thread *t)
{
	return t->os_id && !(t->state & (DAC_THREAD_DEAD | DAC_THREAD_UNSTARTED));
}

static struct err *ask(struct cmd_stacks *s)
{
	const struct dac_modules *modules;
	size_t wanted = 0, failed = 0;
	TRY(dac_threads(s->look.dac, &s->threads));
	dac_learn_all_stacks(s->look.dac, &s->threads, false);
	vec_each(t, &s->threads) {
		struct thread_view seen = { 0 };
		if (has_stack(t)) {
			wanted++;
			seen.failure = dac_stack(s->look.dac, t->os_id, &seen.stack);
			failed += seen.failure != NULL;
		}
		if (t->exception) {
			CLEANUP(err_freep) struct err *err = dac_exception(s->look.dac, t->exception, &seen.exception);
			seen.has_exception = !err;
		}
		vec_push(&s->seen, seen);
	}
	if (wanted && failed == wanted)
		return STEAL(s->seen.v[0].failure);
	TRY(learn_methods(s));
	/* Without these a stack is still a stack. */
	err_ignore(dac_name_threads(s->look.dac, &s->threads));
	err_ignore(dac_modules(s->look.dac, &modules));
	find_lines(s);
	return NULL;
}

/* ---- words ---- */

/* "Shop.Orders.Place", as its author knows it; "" when the frame has no method. */
static void show_method(const struct cmd_stacks *s, const struct dac_frame *f, struct buf *out)
{
	const struct dac_method *m = f->method ? dac_method(s->look.dac, f->method) : NULL;
	if (!m || str_empty(m->name))
		return;
	CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 }, shown = { 0 };
	dac_split_name(m->name, &space, &member);
	method_show(buf_cstr(&space), buf_cstr(&member), &shown);
	str_add_visible(out, buf_cstr(&shown), shown.len, NAME_COLUMNS);
}

static const char *state_word(const struct dac_thread *t, size_t i)
{
	switch (i) {
	case 0:
		return t->finalizer ? "finalizer" : NULL;
	case 1:
		return t->state & DAC_THREAD_POOL ? "pool" : NULL;
	case 2:
		return t->state & DAC_THREAD_BACKGROUND ? "background" : NULL;
	case 3:
		return t->state & DAC_THREAD_WAITING ? "waiting" : NULL;
	case 4:
		return t->cooperative ? "in managed code" : NULL;
	case 5:
		return t->state & DAC_THREAD_UNSTARTED ? "not started" : NULL;
	case 6:
		return t->state & DAC_THREAD_DEAD || !t->os_id ? "ended" : NULL;
	default:
		return NULL;
	}
}
#define STATE_WORDS 7

/* Why a stack ends too early, NULL when it does not. The caller frees. */
static char *lost_reason(const struct cmd_stacks *s, const struct dac_stack *stack)
{
	if (!stack->lost)
		return NULL;
	const struct image_mapping *m = stack->missing ? image_mapping_at(s->look.image, stack->missing) : NULL;
	if (m && !str_empty(m->path))
		return mem_printf("pages of '%s' are not in the image", m->path);
	return stack->missing ? mem_printf("memory at 0x%llx is not in the image", (unsigned long long)stack->missing)
			      : mem_strdup("memory is not in the image");
}

/* ---- text ---- */

static void add_heading(struct buf *out, const struct dac_thread *t)
{
	buf_printf(out, "\nthread %u", t->managed_id);
	if (!str_empty(t->name)) {
		buf_str(out, " \"");
		str_add_visible(out, t->name, strlen(t->name), 60);
		buf_char(out, '"');
	}
	if (t->os_id)
		buf_printf(out, " · tid %u", t->os_id);
	for (size_t i = 0; i < STATE_WORDS; i++)
		if (state_word(t, i))
			buf_printf(out, " · %s", state_word(t, i));
	buf_char(out, '\n');
}

static void add_exception(struct buf *out, const struct dac_exception *e)
{
	CLEANUP(buf_free) struct buf type = { 0 };
	type_show(e->type_name, &type);
	buf_str(out, "    ! ");
	str_add_visible(out, buf_cstr(&type), type.len, NAME_COLUMNS);
	if (e->message) {
		buf_str(out, ": ");
		str_add_visible(out, e->message, strlen(e->message), NAME_COLUMNS);
	}
	buf_char(out, '\n');
}

/* Where the source lines of a stack stand: behind the widest name that has one, within reason. */
static size_t line_column(const struct cmd_stacks *s, const struct thread_view *seen)
{
	size_t width = 0;
	for (size_t i = 0; i < seen->stack.n; i++) {
		CLEANUP(buf_free) struct buf name = { 0 };
		if (!seen->lines.v[i].file || !thread_snapshot_keeps_frame(&seen->stack, i))
			continue;
		show_method(s, &seen->stack.v[i], &name);
		width = MAX(width, utf8_width(buf_cstr(&name)));
	}
	return MIN(width, (size_t)MAX_LINE_COLUMN);
}

static void add_stack(struct buf *out, const struct cmd_stacks *s, const struct thread_view *seen)
{
	if (seen->failure) {
		buf_str(out, "    (its stack could not be read: ");
		str_add_visible(out, err_text(seen->failure), strlen(err_text(seen->failure)), 0);
		buf_str(out, ")\n");
		return;
	}
	size_t shown = 0, width = line_column(s, seen);
	for (size_t i = 0; i < seen->stack.n; i++) {
		if (!thread_snapshot_keeps_frame(&seen->stack, i))
			continue;
		size_t start = out->len;
		buf_str(out, "    ");
		show_method(s, &seen->stack.v[i], out);
		if (out->len == start + 4)
			buf_printf(out, "(code at 0x%llx)", (unsigned long long)seen->stack.v[i].ip);
		if (seen->lines.v[i].file) {
			size_t used = utf8_width(out->data + start + 4);
			buf_repeat(out, " ", used < width ? width - used + 2 : 2);
			dac_line_add(out, &seen->lines.v[i]);
		}
		buf_char(out, '\n');
		shown++;
	}
	CLEANUP(mem_freep) char *reason = lost_reason(s, &seen->stack);
	if (reason) {
		buf_str(out, "    (and more, which cannot be read: ");
		str_add_visible(out, reason, strlen(reason), 0);
		buf_str(out, ")\n");
	} else if (!shown) {
		buf_str(out, "    (no managed frames)\n");
	}
	if (seen->stack.cut)
		buf_str(out, "    (and more)\n");
}

static void print_text(const struct cmd_stacks *s)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	size_t living = 0, ended = 0;
	vec_each(t, &s->threads)
		*(has_stack(t) ? &living : &ended) += 1;
	str_add_visible(&out, s->source, strlen(s->source), 0);
	buf_printf(&out, ": %s", fmt_plural(living, "managed thread", "managed threads").s);
	if (dac_runtime(s->look.dac)->version[0])
		buf_printf(&out, ", .NET %s", dac_runtime(s->look.dac)->version);
	if (!s->look.facts.core)
		buf_printf(&out, "; paused for %s", fmt_duration_ns(s->look.facts.pause_ns).s);
	buf_char(&out, '\n');
	for (size_t i = 0; i < s->threads.n; i++) {
		if (!has_stack(&s->threads.v[i]))
			continue;
		add_heading(&out, &s->threads.v[i]);
		if (s->seen.v[i].has_exception)
			add_exception(&out, &s->seen.v[i].exception);
		add_stack(&out, s, &s->seen.v[i]);
	}
	if (ended)
		buf_printf(&out, "\n%s not started or ended\n", fmt_plural(ended, "thread", "threads").s);
	if (s->look.facts.unproven)
		buf_str(&out, "\nassemblies are not in the core and were read from disk; nothing proves that they are "
			      "of the same "
			      "build\n");
	size_t at = 0;
	for (const char *why; (why = dac_lines_refused(s->look.lines, &at));) {
		buf_str(&out, "\nno source lines: ");
		str_add_visible(&out, why, strlen(why), 0);
		buf_char(&out, '\n');
	}
	fwrite(out.data, 1, out.len, stdout);
}

/* ---- JSON ---- */

static void add_address(struct jsonw *w, const char *key, uint64_t address)
{
	char text[20];
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)address);
	jsonw_str(w, key, text);
}

static void add_json_frame(struct jsonw *w, const struct cmd_stacks *s, const struct dac_frame *f,
			   const struct pdb_line *line)
{
	const struct dac_method *m = f->method ? dac_method(s->look.dac, f->method) : NULL;
	const struct dac_module *module = m ? dac_module(s->look.dac, m->module) : NULL;
	CLEANUP(buf_free) struct buf shown = { 0 };
	show_method(s, f, &shown);
	jsonw_object(w, NULL);
	jsonw_str(w, "name", shown.len ? buf_cstr(&shown) : NULL);
	jsonw_str(w, "method", m ? m->name : NULL);
	jsonw_str(w, "module", module ? module->path : NULL);
	if (m)
		jsonw_u64(w, "token", m->token);
	else
		jsonw_null(w, "token");
	jsonw_str(w, "frame", f->kind);
	add_address(w, "ip", f->ip);
	add_address(w, "sp", f->sp);
	if (f->il_offset >= 0)
		jsonw_i64(w, "ilOffset", f->il_offset);
	else
		jsonw_null(w, "ilOffset");
	if (f->native_offset)
		jsonw_u64(w, "nativeOffset", f->native_offset);
	else
		jsonw_null(w, "nativeOffset");
	jsonw_str(w, "file", line->file);
	if (line->file)
		jsonw_u64(w, "line", line->line);
	else
		jsonw_null(w, "line");
	jsonw_object_end(w);
}

static void add_json_thread(struct jsonw *w, const struct cmd_stacks *s, size_t i)
{
	const struct dac_thread *t = &s->threads.v[i];
	const struct thread_view *seen = &s->seen.v[i];
	jsonw_object(w, NULL);
	jsonw_u64(w, "managedId", t->managed_id);
	if (t->os_id)
		jsonw_u64(w, "osId", t->os_id);
	else
		jsonw_null(w, "osId");
	jsonw_str(w, "name", t->name);
	jsonw_array(w, "state");
	for (size_t k = 0; k < STATE_WORDS; k++)
		if (state_word(t, k))
			jsonw_str(w, NULL, state_word(t, k));
	jsonw_array_end(w);
	if (seen->has_exception) {
		jsonw_object(w, "exception");
		jsonw_str(w, "type", seen->exception.type_name);
		jsonw_str(w, "message", seen->exception.message);
		jsonw_object_end(w);
	} else {
		jsonw_null(w, "exception");
	}
	jsonw_str(w, "failure", seen->failure ? err_text(seen->failure) : NULL);
	CLEANUP(mem_freep) char *reason = lost_reason(s, &seen->stack);
	jsonw_str(w, "incomplete", reason);
	jsonw_array(w, "frames");
	for (size_t k = 0; k < seen->stack.n; k++)
		add_json_frame(w, s, &seen->stack.v[k], &seen->lines.v[k]);
	jsonw_array_end(w);
	jsonw_object_end(w);
}

static void print_json(const struct cmd_stacks *s)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, true);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "source", s->source);
	jsonw_str(&w, "runtime", dac_runtime(s->look.dac)->version);
	if (!s->look.facts.core)
		jsonw_num(&w, "pauseMs", (double)s->look.facts.pause_ns / NS_PER_MS);
	else
		jsonw_null(&w, "pauseMs");
	jsonw_array(&w, "noSourceLines");
	size_t at = 0;
	for (const char *why; (why = dac_lines_refused(s->look.lines, &at));)
		jsonw_str(&w, NULL, why);
	jsonw_array_end(&w);
	jsonw_array(&w, "threads");
	for (size_t i = 0; i < s->threads.n; i++)
		add_json_thread(&w, s, i);
	jsonw_array_end(&w);
	jsonw_object_end(&w);
	buf_char(&out, '\n');
	fwrite(out.data, 1, out.len, stdout);
}

/* ---- the command ---- */

static struct err *ask_and_end(struct cmd_stacks *s)
{
	struct err *err = ask(s), *lost = image_exam_end(&s->look);
	if (lost)
		err_free(err);
	return lost ? lost : err;
}

static struct err *open_core(const char *path, struct cmd_stacks *s)
{
	TRY(image_exam_of_core(path, &s->look));
	s->source = path;
	return ask_and_end(s);
}

/* The image when it is open, else the agent. */
static struct err *look_in(const struct patient *p, enum way way, struct image_limits *limits, struct image_exam *ret)
{
	struct way_check ways[WAY_COUNT] = { 0 };
	if (way == WAY_AUTO)
		patient_check(p, TIMEOUT_MS, ways);
	bool agent = way == WAY_AUTO && ways[WAY_AGENT].open;
	if (agent && !ways[WAY_IMAGE].open)
		way = WAY_AGENT;
	for (size_t i = 0; i < WAY_COUNT; i++)
		way_check_fini(&ways[i]);
	if (way == WAY_AGENT)
		return image_exam_by_agent(p, limits, ret);
	struct err *err = image_exam_of_patient(p, limits, ret);
	/* What a seccomp filter forbids to us it may allow to our library. */
	if (!err || !agent || image_filter(&p->target) == IMAGE_FILTER_NONE ||
	    (err_kind(err) != ERR_UNSUPPORTED && err_kind(err) != ERR_DENIED))
		return err;
	err_free(err);
	return image_exam_by_agent(p, limits, ret);
}

static struct err *look(const struct patient *p, enum way way, struct image_limits *limits, struct cmd_stacks *s)
{
	TRY(look_in(p, way, limits, &s->look));
	return ask_and_end(s);
}

static struct err *open_target(const struct args *args, struct patient *p, struct cmd_stacks *s)
{
	struct image_limits limits = { 0 };
	enum way way = WAY_AUTO;
	const char *pause = args_value(args, "--max-pause");
	if (pause &&
	    (!str_to_duration_ms(pause, &limits.max_pause_ms) || !limits.max_pause_ms || limits.max_pause_ms > 60000))
		return err_new(ERR_USAGE, "--max-pause takes a time such as 50ms or 1s, at most 60s, not '%s'", pause);
	TRY(patient_look(args->words[0], TIMEOUT_MS, p));
	if (args_value(args, "--way"))
		TRY(way_parse(args_value(args, "--way"), &way));
	if (way != WAY_AUTO && way != WAY_IMAGE && way != WAY_AGENT)
		return err_new(ERR_USAGE, "stacks are taken by image or by agent, not by %s", way_name(way));
	TRY_WRAP(look(p, way, &limits, s), "no stacks of %s (%d)", patient_name(p), p->target.id);
	return NULL;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	const char *core = args_value(args, "--core");
	if (!core == !args->n_words)
		return err_new(ERR_USAGE, "'drdotnet stacks' needs a TARGET or --core FILE");
	CLEANUP(stacks_fini) struct cmd_stacks s = { 0 };
	CLEANUP(patient_fini) struct patient p = { 0 };
	CLEANUP(mem_freep) char *source = NULL;
	if (core) {
		TRY(open_core(core, &s));
	} else {
		TRY(open_target(args, &p, &s));
		s.source = source = mem_printf("%s (%d)", patient_name(&p), p.target.id);
	}
	if (args_has(args, "--json"))
		print_json(&s);
	else
		print_text(&s);
	return NULL;
}

static const struct option options[] = {
	{ .name = "--core", .value = "FILE", .help = "look into a core file instead of a process" },
	{ .name = "--max-pause",
	  .value = "TIME",
	  .help = "refuse when it would stand still for longer (100ms; of a large process 40ms a GB)" },
	{ .name = "--way",
	  .value = "WAY",
	  .help = "image (a copy from outside) or agent (our library in the process)" },
	{ .name = "--json", .help = "print an object with every thread and every frame" },
	{ 0 },
};

const struct command cmd_stacks = {
	.name = "stacks",
	.words = "TARGET | --core FILE",
	.summary = "Print the stack of every managed thread of a process or a core file.",
	.example = "drdotnet stacks 1234              where every thread is now\n"
		   "drdotnet stacks --core core.4711  ... or was when the core was written\n",
	.details = "A running process is held for the few milliseconds that a copy of it takes; everything is read "
		   "from the "
		   "copy. The runtime's own libmscordaccore.so is needed: it lies beside libcoreclr.so, or else in a "
		   "folder "
		   "of runtime packs that DRDOTNET_RUNTIME_PACKS names. It runs in a process without rights.\n\n"
		   "Source lines come from portable PDBs, beside the assemblies or inside of them, if they are of the "
		   "very build that runs.",
	.options = options,
	.max_words = 1,
	.remote = true,
	.run = run,
};
