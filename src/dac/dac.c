#include "base/fd.h"
#include "base/str.h"
#include "dac/internal.h"
#include "target/target.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Questions about many items are asked in portions, so that a hostile count costs little and a crash costs one portion.
 */
#define BUSY_WORD_MS 2000
/* While a collection runs the word cannot be distinguished from others: it is looked for again between two of them. */
#define BUSY_WORD_AGAIN_MS 500
#define BUSY_WORD_STEP_MS 3
#define PORTION 4096
#define THREADS_PORTION 64
#define PARTS_BYTES_MAX ((size_t)256 << 20)

struct dac {
	const struct image *image;
	struct dac_runtime runtime;
	struct helper *helper;
	struct strtab texts;
	struct method_list methods;
	struct type_list types;
	struct map_u64 method_index, type_index, module_index; /* address to index + 1 */
	struct dac_modules modules;
	bool has_modules;
	struct parts stacks, refs; /* asked for many at once, by OS thread id */
	char *library;
};

/* ---- the connection ---- */

struct err *dac_open(const struct image *img, const struct dac_options *options, struct dac **ret)
{
	static const struct dac_options none = { 0 };
	options = options ? options : &none;
	CLEANUP(dac_closep) struct dac *d = mem_zalloc(sizeof(*d));
	d->image = img;
	TRY(helper_check(options->helper));
	TRY(dac_find_runtime(img, &d->runtime));
	CLOSE_FD int library = -1;
	TRY(dac_find_library(&d->runtime, options, &library, &d->library));
	struct helper_start start = {
		.image = img,
		.runtime_base = d->runtime.base,
		.library_fd = library,
		.program = options->helper,
		.answer_ms = options->answer_ms ? options->answer_ms : DAC_ANSWER_MS,
		.deadline = options->deadline,
		.memory_bytes = options->memory_bytes ? options->memory_bytes : DAC_MEMORY_BYTES,
	};
	enum wire_dac_stage stage;
	struct err *err = helper_new(&start, &d->helper, &stage);
	if (err && stage == WIRE_DAC_REFUSED)
		return err_wrap(err, "'%s' for .NET %s", d->library, d->runtime.version);
	if (err)
		return err_wrap(err, "'%s'", d->library);
	*ret = STEAL(d);
	return NULL;
}

void dac_close(struct dac *d)
{
	if (!d)
		return;
	helper_free(d->helper);
	strtab_free(&d->texts);
	vec_free(&d->methods);
	vec_free(&d->types);
	vec_free(&d->modules);
	parts_free(&d->stacks);
	parts_free(&d->refs);
	map_u64_free(&d->method_index);
	map_u64_free(&d->type_index);
	map_u64_free(&d->module_index);
	mem_free(d->library);
	mem_free(d);
}

const struct dac_runtime *dac_runtime(const struct dac *d)
{
	return &d->runtime;
}

const struct image *dac_image(const struct dac *d)
{
	return d->image;
}

unsigned dac_restarts(const struct dac *d)
{
	return helper_restarts(d->helper);
}

static struct err *misshapen(void)
{
	return err_new(ERR_BAD_DATA, "the data-access library: the answer is not one");
}

/* Asks, decodes into list, frees it when that fails. */
#define ANSWER(d, kind, values, n, decoded, list_free, ret)                                                            \
	do {                                                                                                           \
		CLEANUP(buf_free) struct buf in_ = { 0 };                                                              \
		memset(ret, 0, sizeof(*(ret)));                                                                        \
		TRY(helper_ask((d)->helper, kind, values, n, &in_));                                                   \
		if (decoded)                                                                                           \
			return NULL;                                                                                   \
		list_free(ret);                                                                                        \
		return misshapen();                                                                                    \
	} while (0)
#define NO_FREE(x) (void)(x)

struct err *dac_facts(struct dac *d, struct dac_facts *ret)
{
	ANSWER(d, WIRE_DAC_RUNTIME, NULL, 0, decode_facts(&in_, ret), NO_FREE, ret);
}

/* Asked alone what was not learnt with others: also one of a portion that the library did not survive. */
struct err *dac_stack(struct dac *d, uint32_t os_id, struct dac_stack *ret)
{
	uint64_t value = os_id;
	struct buf view;
	if (!parts_find(&d->stacks, value, &view))
		ANSWER(d, WIRE_DAC_STACK, &value, 1, decode_stack(&in_, &d->texts, ret), dac_stack_free, ret);
	*ret = (struct dac_stack){ 0 };
	if (decode_stack(&view, &d->texts, ret))
		return NULL;
	dac_stack_free(ret);
	return misshapen();
}

struct err *dac_stack_refs(struct dac *d, uint32_t os_id, struct dac_refs *ret)
{
	uint64_t value = os_id;
	struct buf view;
	if (!parts_find(&d->refs, value, &view))
		ANSWER(d, WIRE_DAC_STACK_REFS, &value, 1, decode_refs(&in_, ret), dac_refs_free, ret);
	*ret = (struct dac_refs){ 0 };
	if (decode_refs(&view, ret))
		return NULL;
	dac_refs_free(ret);
	return misshapen();
}

static void learn_parts(struct dac *d, enum wire_dac_kind kind, const uint32_t *os_ids, size_t n, struct parts *ret)
{
	uint64_t portion[THREADS_PORTION];
	for (size_t i = 0; i < n && ret->bytes.len < PARTS_BYTES_MAX;) {
		CLEANUP(buf_free) struct buf in = { 0 };
		size_t k = 0;
		for (; i < n && k < THREADS_PORTION; i++)
			if (os_ids[i] && !map_u64_get(&ret->index, os_ids[i]))
				portion[k++] = os_ids[i];
		struct err *err = k ? helper_ask(d->helper, kind, portion, k, &in) : NULL;
		if (!err)
			decode_parts(&in, ret);
		err_free(err);
	}
}

void dac_learn_stack_refs(struct dac *d, const uint32_t *os_ids, size_t n)
{
	learn_parts(d, WIRE_DAC_STACKS_REFS, os_ids, n, &d->refs);
}

void dac_learn_all_stacks(struct dac *d, const struct dac_threads *threads, bool refs)
{
	VEC(uint32_t) ids = { 0 };
	vec_each(t, threads)
		if (t->os_id && !(t->state & (DAC_THREAD_DEAD | DAC_THREAD_UNSTARTED)))
			vec_push(&ids, t->os_id);
	learn_parts(d, WIRE_DAC_STACKS, ids.v, ids.n, &d->stacks);
	if (refs)
		dac_learn_stack_refs(d, ids.v, ids.n);
	vec_free(&ids);
}

struct err *dac_fields(struct dac *d, uint64_t type, struct dac_fields *ret)
{
	ANSWER(d, WIRE_DAC_FIELDS, &type, 1, decode_fields(&in_, &d->texts, ret), dac_fields_free, ret);
}

struct err *dac_module_types(struct dac *d, uint64_t module, struct dac_addresses *ret)
{
	ANSWER(d, WIRE_DAC_MODULE_TYPES, &module, 1, decode_addresses(&in_, ret), dac_addresses_free, ret);
}

struct err *dac_heaps(struct dac *d, struct dac_heaps *ret)
{
	ANSWER(d, WIRE_DAC_HEAPS, NULL, 0, decode_heaps(&in_, ret), dac_heaps_free, ret);
}

struct err *dac_segments(struct dac *d, struct dac_segments *ret)
{
	ANSWER(d, WIRE_DAC_SEGMENTS, NULL, 0, decode_segments(&in_, ret), dac_segments_free, ret);
}

struct err *dac_handles(struct dac *d, struct dac_handles *ret)
{
	ANSWER(d, WIRE_DAC_HANDLES, NULL, 0, decode_handles(&in_, ret), dac_handles_free, ret);
}

struct err *dac_code(struct dac *d, uint64_t ip, struct dac_code *ret)
{
	ANSWER(d, WIRE_DAC_IL_MAP, &ip, 1, decode_code(&in_, ret), dac_code_free, ret);
}

struct err *dac_code_in(struct dac *d, uint64_t start, uint64_t end, struct buf *in)
{
	return helper_ask(d->helper, WIRE_DAC_CODE_IN, (uint64_t[]){ start, end }, 2, in);
}

struct err *dac_module_code(struct dac *d, uint64_t module, uint32_t first, uint32_t n, struct buf *in)
{
	return helper_ask(d->helper, WIRE_DAC_MODULE_CODE, (uint64_t[]){ module, first, n }, 3, in);
}

struct err *dac_code_ranges(struct dac *d, struct dac_ranges *ret)
{
	ANSWER(d, WIRE_DAC_CODE_RANGES, NULL, 0, decode_ranges(&in_, ret), dac_ranges_free, ret);
}

struct err *dac_il_places(struct dac *d, const uint64_t *addresses, size_t n, struct dac_il_places *ret)
{
	if (n > PORTION)
		return err_new(ERR_USAGE, "at most %d addresses can be asked for at once", PORTION);
	ANSWER(d, WIRE_DAC_IL_AT, addresses, n, decode_il_places(&in_, ret) && ret->n == n, dac_il_places_free, ret);
}

struct err *dac_loader_heaps(struct dac *d, uint64_t loader_allocator, struct dac_ranges *ret)
{
	ANSWER(d, WIRE_DAC_LOADER_HEAPS, &loader_allocator, 1, decode_ranges(&in_, ret), dac_ranges_free, ret);
}

struct err *dac_named_heaps(struct dac *d, uint64_t loader_allocator, struct dac_named_heaps *ret)
{
	ANSWER(d, WIRE_DAC_NAMED_HEAPS, &loader_allocator, 1, decode_named_heaps(&in_, &d->texts, ret),
	       dac_named_heaps_free, ret);
}

struct err *dac_versions(struct dac *d, uint64_t method, struct dac_versions *ret)
{
	ANSWER(d, WIRE_DAC_VERSIONS, &method, 1, decode_versions(&in_, ret), dac_versions_free, ret);
}

struct err *dac_clauses(struct dac *d, uint64_t ip, struct dac_clauses *ret)
{
	ANSWER(d, WIRE_DAC_CLAUSES, &ip, 1, decode_clauses(&in_, &d->texts, ret), dac_clauses_free, ret);
}

static struct err *ask_il(struct dac *d, uint64_t method, struct dac_ranges *ret)
{
	ANSWER(d, WIRE_DAC_IL, &method, 1, decode_ranges(&in_, ret), dac_ranges_free, ret);
}

struct err *dac_il_address(struct dac *d, uint64_t method, uint64_t *ret)
{
	struct dac_ranges found = { 0 };
	TRY(ask_il(d, method, &found));
	*ret = found.n ? found.v[0].start : 0;
	dac_ranges_free(&found);
	return NULL;
}

static struct err *ask_token(struct dac *d, const uint64_t *values, struct dac_addresses *ret)
{
	ANSWER(d, WIRE_DAC_TOKEN, values, 2, decode_addresses(&in_, ret), dac_addresses_free, ret);
}

struct err *dac_token(struct dac *d, uint64_t module, uint32_t token, uint64_t *ret)
{
	struct dac_addresses found = { 0 };
	TRY(ask_token(d, (uint64_t[]){ module, token }, &found));
	*ret = found.n ? found.v[0] : 0;
	dac_addresses_free(&found);
	return NULL;
}

static struct err *ask_token_names(struct dac *d, const uint64_t *values, size_t n, struct dac_token_names *ret)
{
	ANSWER(d, WIRE_DAC_TOKEN_NAMES, values, n, decode_token_names(&in_, &d->texts, ret) && ret->n == n - 1,
	       dac_token_names_free, ret);
}

struct err *dac_token_names(struct dac *d, uint64_t module, const uint32_t *tokens, size_t n,
			    struct dac_token_names *ret)
{
	if (n >= PORTION)
		return err_new(ERR_USAGE, "at most %d tokens can be asked for at once", PORTION - 1);
	VEC(uint64_t) values = { 0 };
	vec_push(&values, module);
	for (size_t i = 0; i < n; i++)
		vec_push(&values, tokens[i]);
	struct err *err = ask_token_names(d, values.v, values.n, ret);
	vec_free(&values);
	return err;
}

struct err *dac_type_methods(struct dac *d, uint64_t type, struct dac_type_methods *ret)
{
	ANSWER(d, WIRE_DAC_TYPE_METHODS, &type, 1, decode_type_methods(&in_, &d->texts, ret), dac_type_methods_free,
	       ret);
}

struct err *dac_variables(struct dac *d, uint32_t os_id, struct dac_variables *ret)
{
	uint64_t id = os_id;
	ANSWER(d, WIRE_DAC_VARIABLES, &id, 1, decode_variables(&in_, &d->texts, ret), dac_variables_free, ret);
}

static struct err *ask_busy_word(struct dac *d, struct dac_ranges *ret)
{
	ANSWER(d, WIRE_DAC_BUSY_WORD, NULL, 0, decode_ranges(&in_, ret), dac_ranges_free, ret);
}

uint64_t dac_busy_word(const struct target *target)
{
	CLEANUP(image_closep) struct image *img = NULL;
	CLEANUP(dac_closep) struct dac *d = NULL;
	CLEANUP(mem_freep) char *root = mem_printf("/proc/%d/root", (int)target->pid);
	struct dac_options options = { .root = root, .answer_ms = BUSY_WORD_MS };
	struct dac_ranges found = { 0 };
	CLEANUP(err_freep) struct err *err = image_peek(target, &img);
	if (!err)
		err = dac_open(img, &options, &d);
	struct deadline last = deadline_in_ms(BUSY_WORD_AGAIN_MS);
	uint64_t word = 0;
	while (!err && !word) {
		err = ask_busy_word(d, &found);
		word = !err && found.n == 1 && found.v[0].size == sizeof(uint32_t) ? found.v[0].start : 0;
		dac_ranges_free(&found);
		if (deadline_passed(last))
			break;
		/* There is no notification when a collection ends. */
		if (!word)
			poll(NULL, 0, BUSY_WORD_STEP_MS);
	}
	return word;
}

struct err *dac_memory(struct dac *d, struct dac_ranges *ret)
{
	ANSWER(d, WIRE_DAC_MEMORY, NULL, 0, decode_ranges(&in_, ret), dac_ranges_free, ret);
}

struct err *dac_objects(struct dac *d, const uint64_t *objects, size_t n, struct dac_objects *ret)
{
	if (n > PORTION)
		return err_new(ERR_USAGE, "at most %d objects can be asked for at once", PORTION);
	ANSWER(d, WIRE_DAC_OBJECTS, objects, n, decode_objects(&in_, ret) && ret->n == n, dac_objects_free, ret);
}

struct err *dac_syncs(struct dac *d, struct dac_syncs *ret)
{
	ANSWER(d, WIRE_DAC_SYNC_BLOCKS, NULL, 0, decode_syncs(&in_, ret), dac_syncs_free, ret);
}

#define DEFINE_FREE(name, type)                                                                                        \
	void name(struct type *list)                                                                                   \
	{                                                                                                              \
		vec_free(list);                                                                                        \
	}
DEFINE_FREE(dac_threads_free, dac_threads)
DEFINE_FREE(dac_stack_free, dac_stack)
DEFINE_FREE(dac_fields_free, dac_fields)
DEFINE_FREE(dac_addresses_free, dac_addresses)
DEFINE_FREE(dac_heaps_free, dac_heaps)
DEFINE_FREE(dac_segments_free, dac_segments)
DEFINE_FREE(dac_handles_free, dac_handles)
DEFINE_FREE(dac_refs_free, dac_refs)
DEFINE_FREE(dac_code_free, dac_code)
DEFINE_FREE(dac_code_list_free, dac_code_list)
DEFINE_FREE(dac_il_places_free, dac_il_places)
DEFINE_FREE(dac_syncs_free, dac_syncs)
DEFINE_FREE(dac_statics_free, dac_statics_list)
DEFINE_FREE(dac_ranges_free, dac_ranges)
DEFINE_FREE(dac_variables_free, dac_variables)
DEFINE_FREE(dac_type_methods_free, dac_type_methods)
DEFINE_FREE(dac_versions_free, dac_versions)
DEFINE_FREE(dac_clauses_free, dac_clauses)
DEFINE_FREE(dac_token_names_free, dac_token_names)
DEFINE_FREE(dac_named_heaps_free, dac_named_heaps)
DEFINE_FREE(dac_objects_free, dac_objects)

static struct err *ask_threads(struct dac *d, struct dac_threads *ret)
{
	ANSWER(d, WIRE_DAC_THREADS, NULL, 0, decode_threads(&in_, ret), dac_threads_free, ret);
}

struct err *dac_threads(struct dac *d, struct dac_threads *ret)
{
	struct dac_facts facts;
	TRY(dac_facts(d, &facts));
	TRY(ask_threads(d, ret));
	vec_each(t, ret)
		t->finalizer = t->address == facts.finalizer_thread;
	return NULL;
}

/* ---- what is remembered ---- */

typedef struct err *(*ask_fn)(struct dac *d, const uint64_t *values, size_t n);

/* One that kills the library must not take the others with it: the portion is halved until it stands alone, and then
 * left out. */
static struct err *ask_halving(struct dac *d, const uint64_t *values, size_t n, ask_fn ask)
{
	struct err *err = ask(d, values, n);
	if (!err || err_kind(err) != ERR_IO)
		return err;
	err_free(err);
	if (n == 1)
		return NULL;
	TRY(ask_halving(d, values, n / 2, ask));
	return ask_halving(d, values + n / 2, n - n / 2, ask);
}

/* Asks in portions for those that are not in the index. */
static struct err *learn(struct dac *d, const struct map_u64 *index, const uint64_t *values, size_t n, ask_fn ask)
{
	uint64_t portion[PORTION];
	size_t k = 0;
	struct err *err = NULL;
	CLEANUP(map_u64_free) struct map_u64 asked = { 0 };
	for (size_t i = 0; i < n && !err; i++) {
		bool fresh;
		if (!values[i] || map_u64_get(index, values[i]))
			continue;
		map_u64_put(&asked, values[i], &fresh);
		if (fresh)
			portion[k++] = values[i];
		if (k == PORTION) {
			err = ask_halving(d, portion, k, ask);
			k = 0;
		}
	}
	return !err && k ? ask_halving(d, portion, k, ask) : err;
}

static struct err *ask_methods(struct dac *d, const uint64_t *values, size_t n)
{
	CLEANUP(buf_free) struct buf in = { 0 };
	size_t before = d->methods.n;
	TRY(helper_ask(d->helper, WIRE_DAC_METHODS, values, n, &in));
	if (!decode_methods(&in, &d->texts, &d->methods)) {
		d->methods.n = before;
		return misshapen();
	}
	for (size_t i = before; i < d->methods.n; i++)
		*map_u64_put(&d->method_index, d->methods.v[i].desc, NULL) = i + 1;
	return NULL;
}

static struct err *ask_types(struct dac *d, const uint64_t *values, size_t n)
{
	CLEANUP(buf_free) struct buf in = { 0 };
	size_t before = d->types.n;
	TRY(helper_ask(d->helper, WIRE_DAC_TYPES, values, n, &in));
	if (!decode_types(&in, &d->texts, &d->types)) {
		d->types.n = before;
		return misshapen();
	}
	for (size_t i = before; i < d->types.n; i++)
		*map_u64_put(&d->type_index, d->types.v[i].type, NULL) = i + 1;
	return NULL;
}

struct err *dac_learn_methods(struct dac *d, const uint64_t *descs, size_t n)
{
	return learn(d, &d->method_index, descs, n, ask_methods);
}

struct err *dac_learn_types(struct dac *d, const uint64_t *types, size_t n)
{
	return learn(d, &d->type_index, types, n, ask_types);
}

const struct dac_method *dac_method(const struct dac *d, uint64_t desc)
{
	const uint64_t *at = map_u64_get(&d->method_index, desc);
	return at ? &d->methods.v[*at - 1] : NULL;
}

const struct dac_type *dac_type(const struct dac *d, uint64_t type)
{
	const uint64_t *at = map_u64_get(&d->type_index, type);
	return at ? &d->types.v[*at - 1] : NULL;
}

/* One portion; its answer has a record for each type, in order. */
static struct err *ask_statics(struct dac *d, uint64_t thread, const uint64_t *types, size_t n,
			       struct dac_statics_list *ret)
{
	CLEANUP(buf_free) struct buf in = { 0 };
	uint64_t values[PORTION + 1] = { thread };
	size_t before = ret->n, lead = thread ? 1 : 0;
	memcpy(values + lead, types, n * sizeof(*types));
	TRY(helper_ask(d->helper, thread ? WIRE_DAC_THREAD_STATICS : WIRE_DAC_STATICS, values, lead + n, &in));
	bool fits = decode_statics(&in, ret) && ret->n - before == n;
	for (size_t i = 0; fits && i < n; i++)
		fits = ret->v[before + i].type == types[i];
	return fits ? NULL : misshapen();
}

/* As ask_halving: a type on which the library crashes costs that type only. A thread is not worth so many crashes: if
 * it is the cause, every type of it fails. */
static struct err *statics_halving(struct dac *d, uint64_t thread, const uint64_t *types, size_t n,
				   struct dac_statics_list *ret)
{
	size_t before = ret->n;
	struct err *err = ask_statics(d, thread, types, n, ret);
	if (!err || err_kind(err) != ERR_IO || thread)
		return err;
	err_free(err);
	ret->n = before;
	if (n == 1) {
		vec_push(ret, ((struct dac_statics){ .type = types[0] }));
		return NULL;
	}
	TRY(statics_halving(d, thread, types, n / 2, ret));
	return statics_halving(d, thread, types + n / 2, n - n / 2, ret);
}

struct err *dac_statics(struct dac *d, uint64_t thread, const uint64_t *types, size_t n, struct dac_statics_list *ret)
{
	struct err *err = NULL;
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < n && !err; i += PORTION)
		err = statics_halving(d, thread, types + i, MIN(n - i, (size_t)PORTION), ret);
	if (err)
		dac_statics_free(ret);
	return err;
}

static struct err *ask_modules(struct dac *d)
{
	struct dac_modules *ret = &d->modules;
	ANSWER(d, WIRE_DAC_MODULES, NULL, 0, decode_modules(&in_, &d->texts, ret), vec_free, ret);
}

struct err *dac_modules(struct dac *d, const struct dac_modules **ret)
{
	if (!d->has_modules) {
		TRY(ask_modules(d));
		for (size_t i = 0; i < d->modules.n; i++)
			*map_u64_put(&d->module_index, d->modules.v[i].address, NULL) = i + 1;
		d->has_modules = true;
	}
	*ret = &d->modules;
	return NULL;
}

const struct dac_module *dac_module(const struct dac *d, uint64_t address)
{
	const uint64_t *at = map_u64_get(&d->module_index, address);
	return at ? &d->modules.v[*at - 1] : NULL;
}

/* ---- objects ---- */

#define STRING_MAX 65536
/* A managed string: its length in units at 8, the units at 12. NULL when it is not in the image. */
static const char *read_string(struct dac *d, uint64_t object)
{
	uint32_t n;
	if (!object || !image_read_all(d->image, object + 8, &n, sizeof(n)))
		return NULL;
	n = MIN(n, (uint32_t)STRING_MAX);
	CLEANUP(mem_freep) uint8_t *units = mem_alloc((size_t)n * 2 + 1);
	if (!image_read_all(d->image, object + 12, units, (size_t)n * 2))
		return NULL;
	CLEANUP(buf_free) struct buf text = { 0 };
	utf16_add(&text, units, n);
	return strtab_get(&d->texts, strtab_add(&d->texts, buf_cstr(&text), text.len));
}

static uint64_t type_of_object(const struct dac *d, uint64_t object)
{
	uint64_t type;
	return object && image_read_all(d->image, object, &type, sizeof(type)) ? type & ~(uint64_t)7 : 0;
}

struct err *dac_exception(struct dac *d, uint64_t object, struct dac_exception *ret)
{
	CLEANUP(buf_free) struct buf in = { 0 };
	uint64_t message = 0;
	TRY(helper_ask(d->helper, WIRE_DAC_EXCEPTION, &object, 1, &in));
	if (!decode_exception(&in, ret, &message))
		return misshapen();
	TRY(dac_learn_types(d, &ret->type, 1));
	const struct dac_type *type = dac_type(d, ret->type);
	ret->type_name = type ? type->name : "";
	ret->message = read_string(d, message);
	return NULL;
}

/* ---- names of threads ---- */

struct thread_layout {
	uint64_t type;
	uint32_t name, id;
};

static struct err *thread_layout(struct dac *d, const struct dac_handles *handles, struct thread_layout *ret)
{
	struct dac_addresses types = { 0 };
	vec_each(h, handles) {
		uint64_t type = type_of_object(d, h->object);
		if (type)
			vec_push(&types, type);
	}
	struct err *err = dac_learn_types(d, types.v, types.n);
	for (size_t i = 0; !err && i < types.n && !ret->type; i++) {
		const struct dac_type *type = dac_type(d, types.v[i]);
		if (type && str_eq(type->name, "System.Threading.Thread"))
			ret->type = type->type;
	}
	dac_addresses_free(&types);
	if (err || !ret->type)
		return err;
	struct dac_fields fields;
	TRY(dac_fields(d, ret->type, &fields));
	vec_each(f, &fields) {
		if (str_eq(f->name, "_name"))
			ret->name = f->offset + 8; /* behind the method table */
		else if (str_eq(f->name, "_managedThreadId"))
			ret->id = f->offset + 8;
	}
	dac_fields_free(&fields);
	return NULL;
}

static void name_one(struct dac *d, const struct thread_layout *layout, uint64_t object, struct dac_threads *threads)
{
	uint32_t id;
	uint64_t name;
	if (type_of_object(d, object) != layout->type ||
	    !image_read_all(d->image, object + layout->id, &id, sizeof(id)) ||
	    !image_read_all(d->image, object + layout->name, &name, sizeof(name)) || !name)
		return;
	vec_each(t, threads)
		if (t->managed_id == id && !t->name)
			t->name = read_string(d, name);
}

struct err *dac_name_threads(struct dac *d, struct dac_threads *threads)
{
	struct dac_handles handles;
	struct thread_layout layout = { 0 };
	TRY(dac_handles(d, &handles));
	struct err *err = thread_layout(d, &handles, &layout);
	if (!err && layout.type && layout.name && layout.id)
		vec_each(h, &handles)
			name_one(d, &layout, h->object, threads);
	dac_handles_free(&handles);
	return err;
}

/* ---- names of methods ---- */

/* The end of the name without its signature, and its last dot outside brackets; ".ctor" keeps its own. */
void dac_split_name(const char *name, struct buf *ret_space, struct buf *ret_member)
{
	int depth = 0;
	const char *dot = NULL, *end = NULL;
	for (const char *p = name; *p && !end; p++) {
		if (*p == '[' || *p == '<')
			depth++;
		else if ((*p == ']' || *p == '>') && depth > 0)
			depth--;
		else if (*p == '(' && !depth)
			end = p;
		else if (*p == '.' && !depth && !(dot && dot == p - 1))
			dot = p;
	}
	if (!end)
		end = name + strlen(name);
	if (dot) {
		buf_add(ret_space, name, (size_t)(dot - name));
		dot++;
	}
	buf_add(ret_member, dot ? dot : name, (size_t)(end - (dot ? dot : name)));
}
