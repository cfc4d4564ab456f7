#include "unit.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "build_core.h"
#include "dac/internal.h"
#include "fakes/acts.h"
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* ---- decoding ---- */

static void put(struct buf *b, const void *record, size_t len, const char *text)
{
	buf_add(b, record, len);
	buf_str(b, text);
}

/* One well-formed answer of each kind, as large as matters. */
static void build(enum wire_dac_kind kind, struct buf *b)
{
	struct wire_dac_runtime runtime = { .string_type = 7, .server_gc = 1, .n_heaps = 2, .heap_valid = 1 };
	struct wire_dac_thread thread = { .address = 0x1000, .managed_id = 4, .os_id = 77, .state = 0x200 };
	struct wire_dac_frame inner = { .ip = 1, .sp = 2, .frame = 3, .text_len = 16 };
	struct wire_dac_frame outer = { .ip = 4, .sp = 5, .method = 6, .il_offset = 9, .flags = WIRE_DAC_FRAME_CUT };
	struct wire_dac_frame lost = { .ip = 0x99, .flags = WIRE_DAC_FRAME_LOST };
	struct wire_dac_method method = { .desc = 6, .module = 8, .token = 0x06000001, .text_len = 10 };
	struct wire_dac_type type = { .type = 9, .known = 1, .base_size = 24, .text_len = 4 };
	struct wire_dac_field field = { .offset = 8, .element_type = 0xE, .text_len = 5 };
	struct wire_dac_module module = { .address = 8, .text_len = 7 };
	struct wire_dac_heap heap = { .heap = 1, .n_generations = 5, .n_fill_pointers = 7 };
	struct wire_dac_segment segment = { .mem = 0x10000, .allocated = 0x20000, .generation = 2 };
	struct wire_dac_handle handle = { .handle = 1, .object = 2, .type = DAC_HANDLE_PINNED, .strong = 1 };
	struct wire_dac_ref ref = { .slot = 1, .object = 2, .flags = DAC_REF_INTERIOR };
	struct wire_dac_code code = { .start = 100, .size = 50, .jit_type = 2 };
	struct wire_dac_il il = { .start = 100, .end = 110, .il_offset = 3 };
	struct wire_dac_sync sync = { .object = 5, .held = 1, .waiting = 3 };
	struct wire_dac_exception exception = { .type = 9, .message = 0x77, .hresult = -5 };
	uint64_t address = 42;
	switch (kind) {
	case WIRE_DAC_RUNTIME:
		put(b, &runtime, sizeof(runtime), "");
		break;
	case WIRE_DAC_THREADS:
		put(b, &thread, sizeof(thread), "");
		put(b, &thread, sizeof(thread), "");
		break;
	case WIRE_DAC_STACK:
		put(b, &inner, sizeof(inner), "InlinedCallFrame");
		put(b, &outer, sizeof(outer), "");
		put(b, &lost, sizeof(lost), "");
		break;
	case WIRE_DAC_METHODS:
		put(b, &method, sizeof(method), "Shop.Run()");
		break;
	case WIRE_DAC_TYPES:
		put(b, &type, sizeof(type), "Shop");
		break;
	case WIRE_DAC_FIELDS:
		put(b, &field, sizeof(field), "_name");
		break;
	case WIRE_DAC_MODULES:
		put(b, &module, sizeof(module), "/a.dll\n");
		break;
	case WIRE_DAC_MODULE_TYPES:
	case WIRE_DAC_TOKEN:
		put(b, &address, sizeof(address), "");
		break;
	case WIRE_DAC_HEAPS:
		put(b, &heap, sizeof(heap), "");
		break;
	case WIRE_DAC_SEGMENTS:
		put(b, &segment, sizeof(segment), "");
		break;
	case WIRE_DAC_HANDLES:
		put(b, &handle, sizeof(handle), "");
		break;
	case WIRE_DAC_STACK_REFS:
		put(b, &ref, sizeof(ref), "");
		break;
	case WIRE_DAC_STACKS:
	case WIRE_DAC_STACKS_REFS:
		put(b, &(struct wire_dac_part){ .value = 7, .length = 6 }, sizeof(struct wire_dac_part), "answer");
		put(b, &(struct wire_dac_part){ .value = 8 }, sizeof(struct wire_dac_part), "");
		break;
	case WIRE_DAC_IL_MAP:
		put(b, &code, sizeof(code), "");
		put(b, &il, sizeof(il), "");
		break;
	case WIRE_DAC_SYNC_BLOCKS:
		put(b, &sync, sizeof(sync), "");
		break;
	case WIRE_DAC_STATICS:
	case WIRE_DAC_THREAD_STATICS:
		put(b, &(struct wire_dac_statics){ .type = 9, .gc = 10, .non_gc = 11 }, sizeof(struct wire_dac_statics),
		    "");
		break;
	case WIRE_DAC_OBJECTS:
		put(b, &(struct wire_dac_object){ .object = 9, .type = 10, .size = 24 }, sizeof(struct wire_dac_object),
		    "");
		break;
	case WIRE_DAC_TYPE_METHODS:
		put(b, &(struct wire_dac_type_method){ .desc = 9, .token = 10, .text_len = 4 },
		    sizeof(struct wire_dac_type_method), "name");
		break;
	case WIRE_DAC_VARIABLES:
		put(b, &(struct wire_dac_variable){ .sp = 9, .value = 10, .text_len = 4 },
		    sizeof(struct wire_dac_variable), "name");
		break;
	case WIRE_DAC_BUSY_WORD:
	case WIRE_DAC_MEMORY:
	case WIRE_DAC_LOADER_HEAPS:
	case WIRE_DAC_IL:
	case WIRE_DAC_CODE_RANGES:
		put(b, &(struct wire_dac_range){ .start = 9, .size = 10 }, sizeof(struct wire_dac_range), "");
		break;
	case WIRE_DAC_VERSIONS:
		put(b, &(struct wire_dac_version){ .code = 9, .tier = 4 }, sizeof(struct wire_dac_version), "");
		break;
	case WIRE_DAC_CLAUSES:
		put(b, &(struct wire_dac_clause){ .try_end = 9, .start = 10, .kind = 3, .text_len = 4 },
		    sizeof(struct wire_dac_clause), "name");
		break;
	case WIRE_DAC_TOKEN_NAMES:
		put(b, &(struct wire_dac_token){ .token = 0x06000001, .text_len = 4 }, sizeof(struct wire_dac_token),
		    "name");
		break;
	case WIRE_DAC_IL_AT:
		put(b, &(struct wire_dac_il_at){ .address = 9, .module = 10, .token = 11 },
		    sizeof(struct wire_dac_il_at), "");
		break;
	case WIRE_DAC_CODE_IN:
	case WIRE_DAC_MODULE_CODE:
		put(b, &(struct wire_dac_code){ .start = 9, .method = 10, .size = 11 }, sizeof(struct wire_dac_code),
		    "");
		break;
	case WIRE_DAC_NAMED_HEAPS:
		put(b, &(struct wire_dac_named_heap){ .bytes = 9, .text_len = 4 }, sizeof(struct wire_dac_named_heap),
		    "name");
		break;
	case WIRE_DAC_EXCEPTION:
		put(b, &exception, sizeof(exception), "");
		break;
	default:
		break;
	}
}

static void decode_and_look(void **state)
{
	(void)state;
	struct strtab texts = { 0 };
	struct buf b = { 0 };
	struct dac_facts facts;
	struct dac_stack stack = { 0 };
	struct dac_code code = { 0 };
	struct dac_exception exception;
	uint64_t message;
	build(WIRE_DAC_RUNTIME, &b);
	assert_true(decode_facts(&b, &facts));
	assert_true(facts.server_gc && facts.heap_valid && facts.n_heaps == 2 && facts.string_type == 7);
	buf_clear(&b);
	build(WIRE_DAC_STACK, &b);
	assert_true(decode_stack(&b, &texts, &stack));
	assert_int_equal(stack.n, 2);
	assert_string_equal(stack.v[0].kind, "InlinedCallFrame");
	assert_null(stack.v[1].kind);
	assert_int_equal(stack.v[1].il_offset, 9);
	assert_true(stack.cut && stack.lost && stack.missing == 0x99);
	buf_clear(&b);
	build(WIRE_DAC_IL_MAP, &b);
	assert_true(decode_code(&b, &code));
	assert_true(code.precompiled && code.start == 100 && code.n == 1 && code.v[0].il_offset == 3);
	buf_clear(&b);
	build(WIRE_DAC_EXCEPTION, &b);
	assert_true(decode_exception(&b, &exception, &message));
	assert_true(message == 0x77 && exception.hresult == -5 && exception.type == 9);
	dac_stack_free(&stack);
	dac_code_free(&code);
	strtab_free(&texts);
	buf_free(&b);
}

/* How many records it gave; -1 = refused. */
static int decode_any(enum wire_dac_kind kind, const struct buf *in)
{
	struct strtab texts = { 0 };
	struct dac_facts facts;
	struct dac_exception exception;
	struct dac_threads threads = { 0 };
	struct dac_stack stack = { 0 };
	struct method_list methods = { 0 };
	struct type_list types = { 0 };
	struct dac_fields fields = { 0 };
	struct dac_modules modules = { 0 };
	struct dac_addresses addresses = { 0 };
	struct dac_heaps heaps = { 0 };
	struct dac_segments segments = { 0 };
	struct dac_handles handles = { 0 };
	struct dac_refs refs = { 0 };
	struct dac_code code = { 0 };
	struct dac_syncs syncs = { 0 };
	struct dac_statics_list statics = { 0 };
	struct dac_ranges ranges = { 0 };
	struct dac_variables variables = { 0 };
	struct dac_type_methods type_methods = { 0 };
	struct dac_objects objects = { 0 };
	struct dac_versions versions = { 0 };
	struct dac_clauses clauses = { 0 };
	struct dac_token_names token_names = { 0 };
	struct dac_named_heaps named_heaps = { 0 };
	struct dac_code_list code_list = { 0 };
	struct dac_il_places il_places = { 0 };
	struct parts parts = { 0 };
	uint64_t message;
	bool ok = false;
	size_t n = 1;
#define KIND(k, call, list)                                                                                            \
	case k:                                                                                                        \
		ok = call;                                                                                             \
		n = (list).n;                                                                                          \
		vec_free(&(list));                                                                                     \
		break
	switch (kind) {
	case WIRE_DAC_STACKS:
	case WIRE_DAC_STACKS_REFS:
		ok = decode_parts(in, &parts);
		n = parts.spans.n;
		parts_free(&parts);
		break;
	case WIRE_DAC_RUNTIME:
		ok = decode_facts(in, &facts);
		break;
	case WIRE_DAC_EXCEPTION:
		ok = decode_exception(in, &exception, &message);
		break;
		KIND(WIRE_DAC_THREADS, decode_threads(in, &threads), threads);
		KIND(WIRE_DAC_STACK, decode_stack(in, &texts, &stack), stack);
		KIND(WIRE_DAC_METHODS, decode_methods(in, &texts, &methods), methods);
		KIND(WIRE_DAC_TYPES, decode_types(in, &texts, &types), types);
		KIND(WIRE_DAC_FIELDS, decode_fields(in, &texts, &fields), fields);
		KIND(WIRE_DAC_MODULES, decode_modules(in, &texts, &modules), modules);
		KIND(WIRE_DAC_MODULE_TYPES, decode_addresses(in, &addresses), addresses);
		KIND(WIRE_DAC_HEAPS, decode_heaps(in, &heaps), heaps);
		KIND(WIRE_DAC_SEGMENTS, decode_segments(in, &segments), segments);
		KIND(WIRE_DAC_HANDLES, decode_handles(in, &handles), handles);
		KIND(WIRE_DAC_STACK_REFS, decode_refs(in, &refs), refs);
		KIND(WIRE_DAC_IL_MAP, decode_code(in, &code), code);
		KIND(WIRE_DAC_SYNC_BLOCKS, decode_syncs(in, &syncs), syncs);
		KIND(WIRE_DAC_STATICS, decode_statics(in, &statics), statics);
		KIND(WIRE_DAC_THREAD_STATICS, decode_statics(in, &statics), statics);
		KIND(WIRE_DAC_OBJECTS, decode_objects(in, &objects), objects);
		KIND(WIRE_DAC_LOADER_HEAPS, decode_ranges(in, &ranges), ranges);
		KIND(WIRE_DAC_TYPE_METHODS, decode_type_methods(in, &texts, &type_methods), type_methods);
		KIND(WIRE_DAC_VARIABLES, decode_variables(in, &texts, &variables), variables);
		KIND(WIRE_DAC_BUSY_WORD, decode_ranges(in, &ranges), ranges);
		KIND(WIRE_DAC_MEMORY, decode_ranges(in, &ranges), ranges);
		KIND(WIRE_DAC_IL, decode_ranges(in, &ranges), ranges);
		KIND(WIRE_DAC_TOKEN, decode_addresses(in, &addresses), addresses);
		KIND(WIRE_DAC_VERSIONS, decode_versions(in, &versions), versions);
		KIND(WIRE_DAC_CLAUSES, decode_clauses(in, &texts, &clauses), clauses);
		KIND(WIRE_DAC_TOKEN_NAMES, decode_token_names(in, &texts, &token_names), token_names);
		KIND(WIRE_DAC_CODE_RANGES, decode_ranges(in, &ranges), ranges);
		KIND(WIRE_DAC_IL_AT, decode_il_places(in, &il_places), il_places);
		KIND(WIRE_DAC_CODE_IN, decode_code_list(in, &code_list), code_list);
		KIND(WIRE_DAC_MODULE_CODE, decode_code_list(in, &code_list), code_list);
		KIND(WIRE_DAC_NAMED_HEAPS, decode_named_heaps(in, &texts, &named_heaps), named_heaps);
	default:
		break;
	}
	strtab_free(&texts);
	return ok ? (int)n : -1;
}

static void parts_are_found(void **state)
{
	(void)state;
	CLEANUP(buf_free) struct buf in = { 0 };
	CLEANUP(parts_free) struct parts parts = { 0 };
	struct buf view;
	build(WIRE_DAC_STACKS, &in);
	assert_true(decode_parts(&in, &parts));
	assert_true(parts_find(&parts, 7, &view));
	assert_int_equal(view.len, 6);
	assert_memory_equal(view.data, "answer", 6);
	assert_true(parts_find(&parts, 8, &view));
	assert_int_equal(view.len, 0);
	assert_false(parts_find(&parts, 9, &view));
}

/* Cut anywhere but between records, an answer is refused; with any byte changed it is refused or decoded, no more. */
static void decode_hostile(void **state)
{
	(void)state;
	for (int kind = WIRE_DAC_RUNTIME; kind < WIRE_DAC_KINDS; kind++) {
		struct buf whole = { 0 };
		build(kind, &whole);
		assert_true(whole.len > 0);
		int n = decode_any(kind, &whole);
		assert_true(n > 0);
		int refused = 0;
		for (size_t len = 0; len < whole.len; len++) {
			struct buf part = { .data = mem_dup(whole.data, len ? len : 1), .len = len };
			int got = decode_any(kind, &part);
			assert_true(got <= n);
			refused += got < 0;
			mem_free(part.data);
		}
		assert_true(refused >= (int)whole.len - 3);
		for (size_t i = 0; i < whole.len; i++)
			for (int value = 0; value < 256; value += 51) {
				char saved = whole.data[i];
				whole.data[i] = (char)value;
				decode_any(kind, &whole);
				whole.data[i] = saved;
			}
		assert_int_equal(decode_any(kind, &whole), n);
		buf_free(&whole);
	}
}

static void split(const char *name, const char *space, const char *member)
{
	struct buf s = { 0 }, m = { 0 };
	dac_split_name(name, &s, &m);
	assert_string_equal(buf_cstr(&s), space);
	assert_string_equal(buf_cstr(&m), member);
	buf_free(&s);
	buf_free(&m);
}

static void names_are_split(void **state)
{
	(void)state;
	split("Shop.Orders.Place(System.String, Int32)", "Shop.Orders", "Place");
	split("Shop.Orders..ctor(System.String)", "Shop.Orders", ".ctor");
	split("Shop.Orders..cctor()", "Shop.Orders", ".cctor");
	split("Shop.Orders+<>c.<Place>b__0_1(System.String)", "Shop.Orders+<>c", "<Place>b__0_1");
	split("Shop.Orders+<Shop.IPlace.Run>d__3.MoveNext()", "Shop.Orders+<Shop.IPlace.Run>d__3", "MoveNext");
	split("Program.<Main>$(System.String[])", "Program", "<Main>$");
	split("A.List`1[[System.__Canon, System.Private.CoreLib]].Add(System.__Canon)",
	      "A.List`1[[System.__Canon, System.Private.CoreLib]]", "Add");
	split("A.B.Map[[System.Int32, System.Private.CoreLib]](Int32)", "A.B",
	      "Map[[System.Int32, System.Private.CoreLib]]");
	split("dynamicClass.lambda_method1(System.Object)", "dynamicClass", "lambda_method1");
	split("Plain()", "", "Plain");
	split("", "", "");
	split("a.b.>>>.]](", "a.b.>>>", "]]");
	split("...(", "..", "");
}

/* ---- the helper ---- */

#define RUNTIME_BASE 0x20000
#define RUNTIME_OFFSET (ACT_OFFSET + 4096)

/* The smallest core file: a thread, a page whose first word is the act, and the first page of a runtime. */
static struct image *make_image(enum act act)
{
	struct buf notes = { 0 };
	uint8_t status[336] = { 0 }, page[4096] = { 0 }, runtime[BUILD_ELF_LEN];
	uint32_t tid = 1234, number = act;
	struct {
		uint64_t count, page_bytes, start, end, offset;
		char name[24];
	} files = { 1, 4096, RUNTIME_BASE, RUNTIME_BASE + 4096, 0, "/x/libcoreclr.so" };
	memcpy(status + 32, &tid, sizeof(tid));
	memcpy(page, &number, sizeof(number));
	build_elf(runtime, (const uint8_t *)"12345678901234567890", 20);
	build_note(&notes, NT_PRSTATUS, status, sizeof(status));
	build_note(&notes, NT_FILE, &files, sizeof(files));
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr segments[3];
	} file = {
		.head = { .e_ident = { 0x7F, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			  .e_type = ET_CORE,
			  .e_machine = EM_X86_64,
			  .e_version = EV_CURRENT,
			  .e_phoff = sizeof(Elf64_Ehdr),
			  .e_ehsize = sizeof(Elf64_Ehdr),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 3 },
		.segments = { { .p_type = PT_NOTE, .p_offset = sizeof(file), .p_filesz = notes.len },
			      { .p_type = PT_LOAD,
				.p_flags = PF_R | PF_W,
				.p_offset = ACT_OFFSET,
				.p_vaddr = 0x10000,
				.p_filesz = 4096,
				.p_memsz = 4096 },
			      { .p_type = PT_LOAD,
				.p_flags = PF_R,
				.p_offset = RUNTIME_OFFSET,
				.p_vaddr = RUNTIME_BASE,
				.p_filesz = 4096,
				.p_memsz = 4096 } },
	};
	int fd = memfd_create("core", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &file, sizeof(file), 0), sizeof(file));
	assert_int_equal(pwrite(fd, notes.data, notes.len, sizeof(file)), notes.len);
	assert_int_equal(pwrite(fd, page, sizeof(page), ACT_OFFSET), sizeof(page));
	assert_int_equal(pwrite(fd, runtime, sizeof(runtime), RUNTIME_OFFSET), sizeof(runtime));
	struct image *img = NULL;
	assert_ok(image_open_core_fd(fd, "core", NULL, NULL, &img));
	buf_free(&notes);
	return img;
}

struct stage {
	struct image *image;
	struct helper *helper;
	struct err *err;
	enum wire_dac_stage stage;
};

static struct stage begin(enum act act, uint64_t answer_ms)
{
	struct stage s = { .image = make_image(act) };
	const char *library = getenv("FAKE_DAC");
	assert_non_null(library);
	CLOSE_FD int fd = open(library, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	struct helper_start start = { .image = s.image,
				      .runtime_base = 0x10000,
				      .library_fd = fd,
				      .answer_ms = answer_ms,
				      .memory_bytes = (uint64_t)1 << 30 };
	s.err = helper_new(&start, &s.helper, &s.stage);
	return s;
}

static void end(struct stage *s)
{
	helper_free(s->helper);
	image_close(s->image);
	err_free(s->err);
	/* Whatever it was, it is gone and buried. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

#define LONG_MS 20000
#define SHORT_MS 300

static void assert_text(const struct err *err, const char *part)
{
	if (!strstr(err_text(err), part))
		fail_msg("'%s' does not say '%s'", err_text(err), part);
}

/* The kernel's word on every forbidden thing that a library may ask for by mistake: no, and nothing happened. */
static void probes_find_nothing_open(void **state)
{
	(void)state;
	static const enum act probes[] = { ACT_PROBE_FILES, ACT_PROBE_DESCRIPTORS, ACT_PROBE_RIGHTS, ACT_PROBE_CODE,
					   ACT_PROBE_MEMORY };
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		struct stage s = begin(probes[i], LONG_MS);
		assert_non_null(s.err);
		if (s.stage != WIRE_DAC_REFUSED)
			fail_msg("act %d: %s", probes[i], err_text(s.err));
		assert_text(s.err, "0xa0000");
		assert_null(strstr(err_text(s.err), "0xa000ffff"));
		end(&s);
	}
}

static void misdeeds_end_it(void **state)
{
	(void)state;
	static const enum act acts[] = { ACT_FORK, ACT_CLONE, ACT_EXEC, ACT_CONNECT, ACT_KILL, ACT_PTRACE, ACT_X32 };
	uint64_t value = 1;
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		struct stage s = begin(acts[i], LONG_MS);
		struct buf answer = { 0 };
		assert_ok(s.err);
		struct err *err = helper_ask(s.helper, WIRE_DAC_THREADS, NULL, 0, &answer);
		assert_non_null(err);
		assert_int_equal(err_kind(err), ERR_IO);
		assert_text(err, "forbidden");
		err_free(err);
		/* The next question finds a new one. */
		buf_clear(&answer);
		assert_ok(helper_ask(s.helper, WIRE_DAC_METHODS, &value, 1, &answer));
		assert_int_equal(helper_restarts(s.helper), 1);
		buf_free(&answer);
		end(&s);
	}
}

static void constructors_are_inside_too(void **state)
{
	(void)state;
	struct stage fork_at_load = begin(ACT_LOAD_FORK, LONG_MS);
	assert_non_null(fork_at_load.err);
	assert_text(fork_at_load.err, "forbidden");
	end(&fork_at_load);
	struct stage open_at_load = begin(ACT_LOAD_OPEN, LONG_MS);
	assert_non_null(open_at_load.err);
	assert_text(open_at_load.err, "signal 10");
	end(&open_at_load);
	struct stage own_handler = begin(ACT_PROBE_SIGNALS, LONG_MS);
	assert_non_null(own_handler.err);
	assert_text(own_handler.err, "forbidden");
	end(&own_handler);
}

static void crash_costs_one_answer(void **state)
{
	(void)state;
	static const enum act acts[] = { ACT_CRASH, ACT_ABORT };
	uint64_t value = 1;
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		struct stage s = begin(acts[i], LONG_MS);
		struct buf answer = { 0 };
		assert_ok(s.err);
		for (unsigned round = 1; round <= 3; round++) {
			struct err *err = helper_ask(s.helper, WIRE_DAC_THREADS, NULL, 0, &answer);
			assert_non_null(err);
			assert_int_equal(err_kind(err), ERR_IO);
			assert_text(err, "crashed");
			err_free(err);
			buf_clear(&answer);
			assert_ok(helper_ask(s.helper, WIRE_DAC_METHODS, &value, 1, &answer));
			buf_clear(&answer);
			assert_int_equal(helper_restarts(s.helper), round);
		}
		buf_free(&answer);
		end(&s);
	}
}

/* But not for ever. */
static void it_is_not_asked_for_ever(void **state)
{
	(void)state;
	struct stage s = begin(ACT_CRASH, LONG_MS);
	struct buf answer = { 0 };
	assert_ok(s.err);
	for (int i = 0; i < 33; i++) {
		assert_err(helper_ask(s.helper, WIRE_DAC_THREADS, NULL, 0, &answer), ERR_IO);
		buf_clear(&answer);
	}
	struct err *err = helper_ask(s.helper, WIRE_DAC_METHODS, NULL, 0, &answer);
	assert_non_null(err);
	assert_text(err, "not asked again");
	err_free(err);
	buf_free(&answer);
	end(&s);
}

static void hang_costs_one_answer(void **state)
{
	(void)state;
	static const enum act acts[] = { ACT_SPIN, ACT_READ, ACT_FLOOD };
	uint64_t value = 1;
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		struct stage s = begin(acts[i], SHORT_MS);
		struct buf answer = { 0 };
		/* On a busy machine the start itself may take longer than this test allows an answer. */
		if (s.err && err_kind(s.err) == ERR_TIMEOUT) {
			end(&s);
			s = begin(acts[i], SHORT_MS * 20);
		}
		assert_ok(s.err);
		struct err *err = helper_ask(s.helper, WIRE_DAC_THREADS, NULL, 0, &answer);
		assert_non_null(err);
		/* A flood may also end by its length. */
		assert_true(err_kind(err) == ERR_TIMEOUT || (acts[i] == ACT_FLOOD && err_kind(err) == ERR_BAD_DATA));
		err_free(err);
		buf_free(&answer);
		answer = (struct buf){ 0 };
		assert_ok(helper_ask(s.helper, WIRE_DAC_METHODS, &value, 1, &answer));
		buf_free(&answer);
		end(&s);
	}
}

static void garbage_is_refused(void **state)
{
	(void)state;
	struct stage s = begin(ACT_GARBAGE, LONG_MS);
	struct buf answer = { 0 };
	assert_ok(s.err);
	assert_err(helper_ask(s.helper, WIRE_DAC_THREADS, NULL, 0, &answer), ERR_BAD_DATA);
	buf_free(&answer);
	end(&s);
}

static void questions_are_answered(void **state)
{
	(void)state;
	struct stage s = begin(ACT_NONE, LONG_MS);
	struct buf answer = { 0 };
	struct dac_facts facts;
	struct method_list methods = { 0 };
	struct strtab texts = { 0 };
	assert_ok(s.err);
	assert_ok(helper_ask(s.helper, WIRE_DAC_RUNTIME, NULL, 0, &answer));
	assert_true(decode_facts(&answer, &facts));
	assert_int_equal(facts.string_type, FAKE_STRING_TYPE);
	/* More records than one reply holds. */
	uint64_t values[8000];
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		values[i] = i + 1;
	buf_clear(&answer);
	assert_ok(helper_ask(s.helper, WIRE_DAC_METHODS, values, ARRAY_SIZE(values), &answer));
	assert_true(answer.len > WIRE_DAC_MAX_REPLY);
	assert_true(decode_methods(&answer, &texts, &methods));
	assert_int_equal(methods.n, ARRAY_SIZE(values));
	assert_int_equal(methods.v[7999].desc, 8000);
	/* What it cannot answer it says so, and lives. */
	buf_clear(&answer);
	assert_err(helper_ask(s.helper, WIRE_DAC_HEAPS, NULL, 0, &answer), ERR_BAD_DATA);
	buf_clear(&answer);
	assert_err(helper_ask(s.helper, WIRE_DAC_STACK, values, 2, &answer), ERR_BAD_DATA);
	assert_int_equal(helper_restarts(s.helper), 0);
	vec_free(&methods);
	strtab_free(&texts);
	buf_free(&answer);
	end(&s);
}

static void no_library_is_an_error(void **state)
{
	(void)state;
	struct image *img = make_image(ACT_NONE);
	struct helper *h = NULL;
	enum wire_dac_stage stage;
	CLOSE_FD int text = memfd_create("text", MFD_CLOEXEC);
	assert_int_equal(write(text, "not an ELF file", 15), 15);
	struct helper_start start = { .image = img, .library_fd = text, .answer_ms = LONG_MS, .memory_bytes = 1 << 30 };
	assert_err(helper_new(&start, &h, &stage), ERR_UNSUPPORTED);
	assert_int_equal(stage, WIRE_DAC_NOT_LOADABLE);
	/* A library, but not this one. */
	CLOSE_FD int other = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	start.library_fd = other;
	struct err *err = helper_new(&start, &h, &stage);
	assert_non_null(err);
	err_free(err);
	start.program = "/nonexistent/drdotnet-dachost";
	assert_err(helper_new(&start, &h, &stage), ERR_NOT_FOUND);
	image_close(img);
}

static void image_without_runtime(void **state)
{
	(void)state;
	struct buf core = { 0 };
	struct image *img = NULL;
	struct dac *d = NULL;
	struct core_thread thread = { .tid = 5 };
	build_core(&core, &(struct core_spec){ .pid = 5, .command = "sleep", .threads = &thread, .n_threads = 1 });
	assert_ok(image_open_core_fd(build_file(core.data, core.len), "core", NULL, NULL, &img));
	assert_err(dac_open(img, NULL, &d), ERR_NOT_FOUND);
	image_close(img);
	buf_free(&core);
}

/* A name that kills the library is left out, its neighbours are not. */
static void one_bad_name_costs_itself(void **state)
{
	(void)state;
	struct image *img = make_image(ACT_NAME_CRASH);
	struct dac *d = NULL;
	uint64_t descs[100];
	for (size_t i = 0; i < ARRAY_SIZE(descs); i++)
		descs[i] = i + 1;
	descs[37] = DEADLY_METHOD;
	assert_ok(dac_open(img, &(struct dac_options){ .library = getenv("FAKE_DAC") }, &d));
	assert_int_equal(dac_runtime(d)->base, RUNTIME_BASE);
	assert_ok(dac_learn_methods(d, descs, ARRAY_SIZE(descs)));
	for (size_t i = 0; i < ARRAY_SIZE(descs); i++)
		assert_true((dac_method(d, descs[i]) != NULL) == (i != 37));
	assert_string_equal(dac_method(d, 1)->name, "F()");
	assert_true(dac_restarts(d) > 0);
	dac_close(d);
	image_close(img);
}

static void missing_library_is_named(void **state)
{
	(void)state;
	struct dac_runtime runtime = { .path = "/opt/app/libcoreclr.so", .version = "10.0.12", .build_id_len = 20 };
	int fd = -1;
	char *path = NULL;
	struct dac_options options = { .root = "/nonexistent", .packs = "/nonexistent" };
	struct err *err = dac_find_library(&runtime, &options, &fd, &path);
	assert_non_null(err);
	assert_int_equal(err_kind(err), ERR_NOT_FOUND);
	assert_text(err, "/opt/app/libmscordaccore.so");
	assert_text(err, "10.0.12");
	assert_text(err, "DRDOTNET_RUNTIME_PACKS");
	err_free(err);
	runtime = (struct dac_runtime){
		.path = "/opt/app/shop", .single_file = true, .dac_build_id_len = 2, .dac_build_id = { 0xAB, 0xCD }
	};
	err = dac_find_library(&runtime, &options, &fd, &path);
	assert_non_null(err);
	assert_text(err, "single-file");
	assert_text(err, "abcd");
	err_free(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decode_and_look),
		cmocka_unit_test(parts_are_found),
		cmocka_unit_test(decode_hostile),
		cmocka_unit_test(names_are_split),
		cmocka_unit_test(questions_are_answered),
		cmocka_unit_test(probes_find_nothing_open),
		cmocka_unit_test(misdeeds_end_it),
		cmocka_unit_test(constructors_are_inside_too),
		cmocka_unit_test(crash_costs_one_answer),
		cmocka_unit_test(it_is_not_asked_for_ever),
		cmocka_unit_test(hang_costs_one_answer),
		cmocka_unit_test(garbage_is_refused),
		cmocka_unit_test(no_library_is_an_error),
		cmocka_unit_test(image_without_runtime),
		cmocka_unit_test(one_bad_name_costs_itself),
		cmocka_unit_test(missing_library_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
