#include "inspect/inspect.h"
#include "base/fd.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include "heap/drain.h"
#include "inspect/internal.h"
#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_STRING 60
#define SHOWN_NAME 160

/* ---- opening ---- */

struct err *inspect_open(struct image_exam *look, const char *source, struct inspect **ret)
{
	struct inspect *in = mem_zalloc(sizeof(*in));
	in->look = *look;
	*look = (struct image_exam){ 0 };
	in->source = mem_strdup(source);
	in->cancel_fd = -1;
	*ret = in;
	return NULL;
}

struct err *inspect_open_core(const char *path, struct inspect **ret)
{
	struct image_exam look = { 0 };
	TRY(image_exam_of_core(path, &look));
	struct whose_names *whose = image_exam_own_code(&look);
	look.whose = whose;
	TRY(inspect_open(&look, path, ret));
	(*ret)->whose = whose;
	return NULL;
}

void inspect_close(struct inspect *in)
{
	if (!in)
		return;
	heapgraph_free(in->graph);
	heap_outline_free(&in->outline);
	heap_close(in->heap);
	dac_threads_free(&in->threads);
	image_exam_fini(&in->look);
	whose_names_free(in->whose);
	mem_free(in->source);
	mem_free(in);
}

void inspect_set_cancel(struct inspect *in, int fd)
{
	in->cancel_fd = fd;
}

struct err *inspect_go_on(const struct inspect *in)
{
	struct pollfd p = { .fd = in->cancel_fd, .events = POLLIN };
	return in->cancel_fd >= 0 && poll(&p, 1, 0) > 0 ? err_new(ERR_CANCELLED, "stopped") : NULL;
}

struct err *inspect_threads(struct inspect *in, const struct dac_threads **ret)
{
	if (!in->has_threads) {
		TRY(dac_threads(in->look.dac, &in->threads));
		err_ignore(dac_name_threads(in->look.dac, &in->threads));
		in->has_threads = true;
	}
	*ret = &in->threads;
	return NULL;
}

struct err *inspect_heap(struct inspect *in, struct heap **ret)
{
	if (!in->heap)
		TRY(heap_open(in->look.image, in->look.dac, &in->heap));
	*ret = in->heap;
	return NULL;
}

/* A small dump lists its regions but holds only a few pages of them. */
#define PROBES 16
static bool has_bytes(const struct inspect *in, const struct heap_outline *o)
{
	size_t asked = 0, there = 0;
	for (size_t i = 0; i < o->regions.n; i++) {
		uint64_t start = o->regions.v[i].start, step = (o->regions.v[i].end - start) / PROBES;
		char byte;
		for (size_t k = 0; step && k < PROBES; k++, asked++)
			there += image_read_all(in->look.image, start + k * step, &byte, 1);
	}
	return asked && there * 10 >= asked * 9;
}

static struct err *make_outline(struct inspect *in)
{
	struct dac_facts facts;
	struct dac_heaps heaps = { 0 };
	struct dac_segments segments = { 0 };
	const struct dac_threads *threads;
	TRY(dac_facts(in->look.dac, &facts));
	TRY(inspect_threads(in, &threads));
	struct err *err = dac_heaps(in->look.dac, &heaps);
	if (!err)
		err = dac_segments(in->look.dac, &segments);
	if (!err)
		err = heap_outline_make(&facts, &heaps, &segments, threads, &in->outline);
	dac_heaps_free(&heaps);
	dac_segments_free(&segments);
	return err;
}

struct err *inspect_outline(struct inspect *in, const struct heap_outline **ret)
{
	if (!in->has_outline) {
		struct err *err = make_outline(in);
		if (err || !has_bytes(in, &in->outline)) {
			heap_outline_free(&in->outline);
			CLEANUP(mem_freep) char *why = err ? mem_printf(" (%s)", err_text(err)) : mem_strdup("");
			err_free(err);
			return err_new(ERR_NOT_FOUND,
				       "the managed heap is not in this image%s: it is good for info, threads, stacks, "
				       "exceptions and modules",
				       why);
		}
		in->has_outline = true;
	}
	*ret = &in->outline;
	return NULL;
}

static bool on_drained(void *user, double ratio)
{
	(void)ratio;
	struct err *err = inspect_go_on(user);
	err_free(err);
	return !err;
}

/* only_to: see struct heap_drain. */
static struct err *make_graph(struct inspect *in, uint64_t only_to, struct heapgraph **ret)
{
	const struct heap_outline *outline;
	struct heap *heap;
	CLEANUP(buf_free) struct buf bytes = { .limit = (size_t)16 << 30 };
	struct heap_drain drain = { .on_progress = on_drained, .user = in, .only_to = only_to };
	TRY(inspect_outline(in, &outline));
	TRY(inspect_heap(in, &heap));
	TRY(heap_drain(heap, in->look.dac, &drain, &bytes));
	struct cursor c = cursor_make(bytes.data, bytes.len);
	return heapgraph_read(&c, ret);
}

struct err *inspect_way(struct inspect *in, uint64_t object, struct heapgraph **ret)
{
	return make_graph(in, object, ret);
}

struct err *inspect_graph(struct inspect *in, struct heapgraph **ret)
{
	if (!in->graph)
		TRY(make_graph(in, 0, &in->graph));
	*ret = in->graph;
	heapgraph_dominate(*ret);
	return NULL;
}

/* ---- words ---- */

struct err *inspect_split(const char *line, struct inspect_words *ret)
{
	char *out = ret->text;
	ret->n = 0;
	if (strlen(line) >= sizeof(ret->text))
		return err_new(ERR_USAGE, "that line is too long");
	for (;;) {
		while (isspace((unsigned char)*line))
			line++;
		if (!*line)
			return NULL;
		if (ret->n == INSPECT_MAX_WORDS)
			return err_new(ERR_USAGE, "at most %d words make a command", INSPECT_MAX_WORDS);
		ret->v[ret->n++] = out;
		for (char quote = 0; *line && (quote || !isspace((unsigned char)*line)); line++) {
			if (quote ? *line == quote : *line == '\'' || *line == '"')
				quote = quote ? 0 : *line;
			else
				*out++ = *line;
			if (quote && !line[1])
				return err_new(ERR_USAGE, "the quote %c has no end", quote);
		}
		*out++ = '\0';
	}
}

struct err *inspect_address(const char *word, uint64_t *ret)
{
	const char *digits = str_starts(word, "0x") || str_starts(word, "0X") ? word + 2 : word;
	size_t n = strspn(digits, "0123456789abcdefABCDEF");
	if (!n || digits[n] || n > 16)
		return err_new(ERR_USAGE, "an address is a hexadecimal number such as 7f12a0004018, not '%s'", word);
	*ret = 0;
	for (size_t i = 0; i < n; i++) {
		int c = tolower((unsigned char)digits[i]);
		*ret = *ret << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return NULL;
}

struct err *inspect_thread(struct inspect *in, const char *word, const struct dac_thread **ret)
{
	const struct dac_threads *all;
	uint64_t number = 0;
	bool tid = str_starts(word, "tid:");
	bool is_number = str_to_u64(tid ? word + 4 : word, &number);
	TRY(inspect_threads(in, &all));
	vec_each(t, all) {
		bool fits = is_number ? (tid ? t->os_id : t->managed_id) == number : str_eq(t->name, word);
		if (!fits)
			continue;
		*ret = t;
		return NULL;
	}
	return err_new(ERR_NOT_FOUND,
		       "no managed thread '%s'; 'threads' lists them by id (or give tid:NUMBER, or a name)", word);
}

bool inspect_object_around(struct inspect *in, const struct heap_region *region, uint64_t address,
			   struct heap_found *ret)
{
	struct heap_outline one = in->outline;
	memset(&one.regions, 0, sizeof(one.regions));
	vec_push(&one.regions, *region);
	struct heap_walk *walk = heap_walk_new(in->heap, &one);
	bool found = false;
	while (!found && heap_walk_next(walk, ret))
		found = address >= ret->address && address - ret->address < ret->size;
	heap_walk_free(walk);
	vec_free(&one.regions);
	return found;
}

static struct err *say_what_is_there(struct inspect *in, uint64_t address)
{
	const struct image_mapping *m = image_mapping_at(in->look.image, address);
	char byte;
	if (!image_read_all(in->look.image, address, &byte, 1))
		return err_new(ERR_NOT_FOUND,
			       m ? "the memory at 0x%llx is not in this image" : "there is no memory at 0x%llx",
			       (unsigned long long)address);
	if (m && !str_empty(m->path)) {
		CLEANUP(buf_free) struct buf path = { 0 };
		str_add_visible(&path, m->path, strlen(m->path), SHOWN_NAME);
		return err_new(ERR_NOT_FOUND, "0x%llx is memory of %s, not of the managed heap",
			       (unsigned long long)address, buf_cstr(&path));
	}
	return err_new(ERR_NOT_FOUND, "0x%llx is not in the managed heap", (unsigned long long)address);
}

struct err *inspect_object(struct inspect *in, const char *word, uint64_t *ret)
{
	const struct heap_outline *outline = NULL;
	struct heap *heap = NULL;
	struct heap_found found;
	TRY(inspect_address(word, ret));
	TRY(inspect_heap(in, &heap));
	TRY(inspect_outline(in, &outline));
	const struct heap_region *region = heap_region_at(outline, *ret);
	if (!region)
		return say_what_is_there(in, *ret);
	if (!inspect_object_around(in, region, *ret, &found))
		return err_new(ERR_NOT_FOUND, "nothing is at 0x%llx: its part of the heap is not in use, or damaged",
			       (unsigned long long)*ret);
	if (found.type->kind == HEAP_FREE)
		return err_new(ERR_NOT_FOUND, "0x%llx is in a gap of the heap: no object is there, or none any more",
			       (unsigned long long)*ret);
	if (found.address == *ret)
		return NULL;
	CLEANUP(buf_free) struct buf type = { 0 };
	inspect_add_type(in, found.type, &type);
	return err_new(ERR_NOT_FOUND, "0x%llx is inside of an object: %s at 0x%llx, %llu bytes in",
		       (unsigned long long)*ret, buf_cstr(&type), (unsigned long long)found.address,
		       (unsigned long long)(*ret - found.address));
}

bool inspect_type_fits(const char *shown, const char *wanted)
{
	size_t n = strlen(wanted);
	if (n > 1 && wanted[0] == '*' && wanted[n - 1] == '*') {
		CLEANUP(mem_freep) char *part = mem_strndup(wanted + 1, n - 2);
		return str_contains_nocase(shown, part);
	}
	if (str_eq(shown, wanted))
		return true;
	size_t len = strlen(shown);
	return len > n && (shown[len - n - 1] == '.' || shown[len - n - 1] == '+') && str_ends(shown, wanted);
}

/* ---- words for things ---- */

void inspect_add_type(struct inspect *in, const struct heap_type *type, struct buf *out)
{
	(void)in;
	CLEANUP(buf_free) struct buf shown = { 0 };
	type_show(type->name, &shown);
	str_add_visible(out, shown.len ? buf_cstr(&shown) : "(type without a name)", shown.len ? shown.len : 21,
			SHOWN_NAME);
}

void inspect_add_method(struct inspect *in, uint64_t method, struct buf *out)
{
	const struct dac_method *m = method ? dac_method(in->look.dac, method) : NULL;
	CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 }, shown = { 0 };
	if (!m || str_empty(m->name))
		return;
	dac_split_name(m->name, &space, &member);
	method_show(buf_cstr(&space), buf_cstr(&member), &shown);
	str_add_visible(out, buf_cstr(&shown), shown.len, SHOWN_NAME);
}

void inspect_add_thread(const struct dac_thread *t, struct buf *out)
{
	buf_printf(out, "thread %u", t->managed_id);
	if (str_empty(t->name))
		return;
	buf_str(out, " '");
	str_add_visible(out, t->name, strlen(t->name), SHOWN_STRING);
	buf_char(out, '\'');
}

void inspect_add_ref(struct inspect *in, uint64_t object, struct buf *out)
{
	struct heap *heap;
	CLEANUP(err_freep) struct err *err = inspect_heap(in, &heap);
	const struct heap_type *type = err || !object ? NULL : heap_type_of(heap, object);
	CLEANUP(buf_free) struct buf text = { 0 };
	uint32_t units = 0;
	if (!object) {
		buf_str(out, "null");
	} else if (!type) {
		buf_printf(out, "0x%llx (not readable)", (unsigned long long)object);
	} else if (type->kind == HEAP_STRING && heap_string(heap, object, SHOWN_STRING, &text, &units)) {
		buf_char(out, '"');
		str_add_visible(out, buf_cstr(&text), text.len, SHOWN_STRING);
		buf_str(out, units > SHOWN_STRING ? "…\"" : "\"");
		buf_printf(out, " 0x%llx", (unsigned long long)object);
	} else {
		inspect_add_type(in, type, out);
		buf_printf(out, " 0x%llx", (unsigned long long)object);
	}
}

static void add_number(enum heap_element element, const uint8_t *bytes, struct buf *out)
{
	uint64_t u = 0;
	float f;
	double d;
	memcpy(&u, bytes, 8);
	switch (element) {
	case HEAP_BOOLEAN:
		buf_str(out, (uint8_t)u ? "true" : "false");
		break;
	case HEAP_CHAR: {
		CLEANUP(buf_free) struct buf text = { 0 };
		utf16_add(&text, bytes, 1);
		buf_char(out, '\'');
		str_add_visible(out, buf_cstr(&text), text.len, 8);
		buf_str(out, "'");
		break;
	}
	case HEAP_I1:
		buf_printf(out, "%d", (int8_t)u);
		break;
	case HEAP_U1:
		buf_printf(out, "%u", (uint8_t)u);
		break;
	case HEAP_I2:
		buf_printf(out, "%d", (int16_t)u);
		break;
	case HEAP_U2:
		buf_printf(out, "%u", (uint16_t)u);
		break;
	case HEAP_I4:
		buf_printf(out, "%d", (int32_t)u);
		break;
	case HEAP_U4:
		buf_printf(out, "%u", (uint32_t)u);
		break;
	case HEAP_I8:
	case HEAP_NATIVE_INT:
		buf_printf(out, "%lld", (long long)u);
		break;
	case HEAP_U8:
	case HEAP_NATIVE_UINT:
		buf_printf(out, "%llu", (unsigned long long)u);
		break;
	case HEAP_R4:
		memcpy(&f, bytes, sizeof(f));
		buf_printf(out, "%.9g", (double)f);
		break;
	case HEAP_R8:
		memcpy(&d, bytes, sizeof(d));
		buf_printf(out, "%.17g", d);
		break;
	default:
		buf_printf(out, "0x%llx", (unsigned long long)u);
	}
}

/* The numbers of a small structure, in order; deeper ones are only named. */
static void add_struct(struct inspect *in, const struct heap_type *type, uint64_t at, struct buf *out)
{
	struct heap_fields fields = heap_fields(in->heap, type);
	size_t shown = 0;
	buf_char(out, '{');
	for (size_t i = 0; i < fields.n && shown < 6; i++) {
		const struct heap_field *f = &fields.v[i];
		if (f->is_static)
			continue;
		buf_str(out, shown++ ? ", " : " ");
		str_add_visible(out, f->name, strlen(f->name), SHOWN_STRING);
		buf_str(out, ": ");
		if (f->element == HEAP_STRUCT)
			buf_str(out, "{…}");
		else
			inspect_add_value(in, f, at + f->offset, out);
	}
	buf_str(out, " }");
}

void inspect_add_value(struct inspect *in, const struct heap_field *field, uint64_t at, struct buf *out)
{
	uint8_t bytes[8] = { 0 };
	size_t got;
	uint64_t object;
	image_read(in->look.image, at, bytes, sizeof(bytes), &got);
	if (!got) {
		buf_str(out, "(not in the image)");
	} else if (field->element == HEAP_CLASS) {
		memcpy(&object, bytes, sizeof(object));
		inspect_add_ref(in, object, out);
	} else if (field->element == HEAP_STRUCT) {
		const struct heap_type *type = field->type ? heap_type(in->heap, field->type) : NULL;
		if (type)
			add_struct(in, type, at, out);
		else
			buf_str(out, "{…}");
	} else {
		add_number(field->element, bytes, out);
	}
}

/* ---- the table ---- */

static struct err *inspect_help(struct inspect *in, const char *const *words, size_t n, struct answer *a);

static const struct inspect_command commands[] = {
	{ "info", "", "what this is: process, runtime, collector, how it ended", 0, 0, inspect_info },
	{ "threads", "", "managed threads: id, system id, name, state, where", 0, 0, inspect_list_threads },
	{ "stacks", "[THREAD | --all]", "stacks with source lines; --all: the runtime's own frames too", 0, 1,
	  inspect_stacks },
	{ "exceptions", "[ADDRESS]", "exceptions in flight and on the heap, with inner ones and stacks", 0, 1,
	  inspect_exceptions },
	{ "heap", "[stat | type NAME | generation G]", "objects by type, those of one type, of a generation", 0, 2,
	  inspect_heap_stat },
	{ "object", "ADDRESS [TYPE]", "an object: fields by name, elements, text; TYPE: a structure there", 1, 2,
	  inspect_show_object },
	{ "roots", "ADDRESS", "who keeps it alive: the shortest way from a root", 1, 1, inspect_roots },
	{ "referrers", "ADDRESS", "objects that refer to it, and in which field", 1, 1, inspect_referrers },
	{ "retained", "ADDRESS", "what would go with it, and what holds it alone", 1, 1, inspect_retained },
	{ "locks", "", "locks that are held, by whom, and how many wait", 0, 0, inspect_locks },
	{ "tasks", "", "async methods that are not done: where each awaits, and for what", 0, 0, inspect_tasks },
	{ "requests", "", "HTTP requests: being handled, and sent but not answered", 0, 0, inspect_requests },
	{ "pool", "", "the thread pool: threads, limits, work that waits", 0, 0, inspect_pool },
	{ "timers", "", "timers: due, period, what they call", 0, 0, inspect_timers },
	{ "modules", "", "assemblies and libraries", 0, 0, inspect_modules },
	{ "handles", "[KIND]", "handles by kind, or those of one kind", 0, 1, inspect_handles },
	{ "finalizers", "", "objects with a finalizer, by type, and those that wait for it", 0, 0, inspect_finalizers },
	{ "gcheap", "", "the collector's heaps, generation by generation", 0, 0, inspect_gcheap },
	{ "loader", "", "the runtime's memory for types, stubs and code, by what it is for", 0, 0, inspect_loader },
	{ "stack-objects", "THREAD", "objects that a thread's stack keeps alive", 1, 1, inspect_stack_objects },
	{ "locals", "THREAD", "arguments and local variables by name, frame by frame", 1, 1, inspect_locals },
	{ "type", "NAME | TOKEN", "a type: size, base, fields, static values; TOKEN is Shop.dll!02000012", 1, 1,
	  inspect_type },
	{ "method", "ADDRESS | NAME | TOKEN", "a method's code: versions, handlers, IL map, instructions", 1, 1,
	  inspect_method },
	{ "il", "ADDRESS | NAME | TOKEN", "a method as it was compiled: IL with names and source lines", 1, 1,
	  inspect_il },
	{ "verify-heap", "", "walks the whole heap and says whether it makes sense", 0, 0, inspect_verify_heap },
	{ "find-string", "TEXT", "strings that contain it", 1, 1, inspect_find_string },
	{ "where", "ADDRESS", "what an address is: object, code, stack, type, mapping", 1, 1, inspect_where },
	{ "memory", "ADDRESS [BYTES]", "bytes from there on", 1, 2, inspect_memory },
	{ "registers", "THREAD", "registers of a thread", 1, 1, inspect_registers },
	{ "help", "[COMMAND]", "this list, or one command", 0, 1, inspect_help },
};

const struct inspect_command *inspect_commands(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(commands);
	return commands;
}

static const struct inspect_command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (str_eq(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static struct err *unknown(const char *name)
{
	CLEANUP(buf_free) struct buf known = { 0 }, shown = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		buf_printf(&known, "%s%s", i ? ", " : "", commands[i].name);
	str_add_visible(&shown, name, strlen(name), SHOWN_STRING);
	return err_new(ERR_USAGE, "no command is called '%s'; there are %s", buf_cstr(&shown), buf_cstr(&known));
}

static struct err *inspect_help(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	(void)in;
	const struct inspect_command *one = n ? find_command(words[0]) : NULL;
	if (n && !one)
		return unknown(words[0]);
	answer_table(a, NULL, "command", "what it tells");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (one && one != &commands[i])
			continue;
		CLEANUP(mem_freep) char *usage = mem_printf("%s %s", commands[i].name, commands[i].words);
		ANSWER_ROW(a, C_TEXT(usage), C_TEXT(commands[i].summary));
	}
	return NULL;
}

struct err *inspect_run(struct inspect *in, const char *line, struct answer *ret)
{
	struct inspect_words words = { 0 };
	TRY(inspect_split(line, &words));
	if (!words.n)
		return NULL;
	const struct inspect_command *c = find_command(words.v[0]);
	if (!c)
		return unknown(words.v[0]);
	if (words.n - 1 < c->min_words || words.n - 1 > c->max_words)
		return err_new(ERR_USAGE, "%s %s", c->name, *c->words ? c->words : "takes no further words");
	struct err *err = c->run(in, words.v + 1, words.n - 1, ret), *lost = image_exam_whole(&in->look);
	if (lost)
		err_free(err);
	return lost ? lost : err;
}
