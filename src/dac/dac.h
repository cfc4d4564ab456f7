#pragma once
/* What the runtime knows about an image: threads, stacks, names, types, the heap's outline, handles, locks. Asked of
 * the runtime's own data-access library, which runs in drdotnet-dachost, a process without rights.
 *
 * That library is code from the target's file system: every answer may be missing, late or false. One that crashes or
 * takes too long costs that answer (ERR_IO, ERR_TIMEOUT); the helper is started again for the next question, a few
 * times. Answers are checked for their shape; their content is untrusted: addresses are addresses of the image, nothing
 * more.
 *
 * The image must outlive the dac. Texts are valid until dac_close, lists until they are freed. Not for threads. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/vec.h"
#include "image/image.h"
#include "symbols/cache.h"

/* ---- which runtime, which library ---- */

struct dac_runtime {
	const char *path; /* libcoreclr.so, or the program of a single-file application, as the process saw it */
	uint64_t base;
	bool single_file;
	char version[48]; /* "10.0.12", or "" when it does not say */
	char build[128];  /* "10.0.1226.42308 @Commit: 95017c...", which its data-access library repeats; or "" */
	uint8_t build_id[IMAGE_BUILD_ID_MAX];
	size_t build_id_len;			  /* 0 = not known */
	uint8_t dac_build_id[IMAGE_BUILD_ID_MAX]; /* of the library that fits: single-file applications say it */
	size_t dac_build_id_len;
};
/* ERR_NOT_FOUND: the image holds no .NET runtime (text says what it holds instead where that is known). */
struct err *dac_find_runtime(const struct image *img, struct dac_runtime *ret) MUST_USE;

struct dac_options {
	const char *root;    /* what paths of the image are relative to: "/proc/1234/root"; NULL = "/" */
	const char *library; /* the data-access library itself; NULL = found beside the runtime, among the symbols that
			      * were fetched, or in packs */
	int library_fd;	     /* the same, open, from the process itself; 0 = none */
	const char *packs;   /* folder of runtime packs; NULL = $DRDOTNET_RUNTIME_PACKS, if any */
	const char *helper;  /* NULL = $DRDOTNET_DACHOST, else drdotnet-dachost beside this program */
	uint64_t answer_ms;  /* time limit of one answer; 0 = DAC_ANSWER_MS */
	struct deadline deadline; /* of all answers; at_ns 0 = none */
	uint64_t memory_bytes;	  /* the helper's limit; 0 = DAC_MEMORY_BYTES */
};
#define DAC_ANSWER_MS 20000
#define DAC_MEMORY_BYTES ((uint64_t)4 << 30)
#define DAC_LIBRARY "libmscordaccore.so"
/* Opens the library that fits the runtime. ERR_NOT_FOUND names the file that would help. */
struct err *dac_find_library(const struct dac_runtime *runtime, const struct dac_options *options, int *ret_fd,
			     char **ret_path) MUST_USE;

/* The file that would help, by its key on symbol servers; false when not enough is known of the runtime. */
bool dac_library_symbol(const struct dac_runtime *runtime, struct symbol_file *ret);

struct target;
/* Are our helper and a library for this living process there? Looks at the files that it runs, before the process is stopped. NULL too
 * when these cannot be read: the image will tell. *ret_fix (unless ret_fix is NULL): what would help, with an error. */
struct err *dac_check_target(const struct target *target, const struct dac_options *options, const char **ret_fix)
	MUST_USE;
/* The library that is missing; false when there is one, or the process's files cannot be read. */
bool dac_target_lacks(const struct target *target, struct symbol_file *ret);

/* ---- the connection ---- */

struct dac;
/* options may be NULL. ERR_NOT_FOUND: no runtime or no library for it; ERR_UNSUPPORTED: the library cannot be loaded
 * here or does not fit (text says which file would help). */
struct err *dac_open(const struct image *img, const struct dac_options *options, struct dac **ret) MUST_USE;
void dac_close(struct dac *d);
DEFINE_CLEANUP(dac_close, struct dac *)
const struct dac_runtime *dac_runtime(const struct dac *d);
const struct image *dac_image(const struct dac *d);
/* How often the helper had to be started again. */
unsigned dac_restarts(const struct dac *d);

/* ---- answers ---- */

struct dac_facts {
	uint64_t array_type, string_type, object_type, exception_type, free_type;
	uint64_t finalizer_thread, gc_thread;
	uint64_t global_alloc_ptr, global_alloc_limit;
	bool server_gc;
	bool heap_valid; /* false: a collection was running, the heap is inconsistent */
	uint32_t n_heaps, max_generation;
};
struct err *dac_facts(struct dac *d, struct dac_facts *ret) MUST_USE;

enum { /* of dac_thread.state */
       DAC_THREAD_BACKGROUND = 0x200,
       DAC_THREAD_UNSTARTED = 0x400,
       DAC_THREAD_DEAD = 0x800,
       DAC_THREAD_POOL = 0x01000000,
       DAC_THREAD_WAITING = 0x02000000,
};
struct dac_thread {
	uint64_t address, alloc_ptr, alloc_limit;
	uint64_t exception; /* object of the exception it last threw and has not yet handled, or 0 */
	uint32_t managed_id;
	uint32_t os_id; /* as the process itself sees it; 0 = it has ended */
	uint32_t state;
	bool cooperative; /* it runs managed code, or may access the heap */
	bool finalizer;
	const char *name; /* Thread.Name; NULL = none, or dac_name_threads was not called */
};
VEC_TYPE(dac_threads, struct dac_thread);
struct err *dac_threads(struct dac *d, struct dac_threads *ret) MUST_USE;
void dac_threads_free(struct dac_threads *threads);
/* Looks the managed names up, through the handles that hold the Thread objects. */
struct err *dac_name_threads(struct dac *d, struct dac_threads *threads) MUST_USE;

struct dac_frame {
	uint64_t ip, sp;
	uint64_t frame;		/* address of the runtime's explicit frame, 0 for managed code */
	const char *kind;	/* "InlinedCallFrame"; NULL for managed code */
	uint64_t method;	/* for dac_method; 0 = none */
	int32_t il_offset;	/* negative = not known */
	uint32_t native_offset; /* of ip in its method's code */
};
struct dac_stack { /* a VEC, innermost frame first */
	struct dac_frame *v;
	size_t n, cap;
	bool cut;	  /* there were more frames than we take */
	bool lost;	  /* there are more frames, but the image lacks what is needed to find them */
	uint64_t missing; /* then: an address that it lacks, or 0 */
};
struct err *dac_stack(struct dac *d, uint32_t os_id, struct dac_stack *ret) MUST_USE;
void dac_stack_free(struct dac_stack *stack);

struct dac_method {
	uint64_t desc, type, module;
	uint32_t token;
	bool dynamic;	  /* made at run time: no metadata */
	const char *name; /* with its type and signature, in the runtime's words; "" = could not be read */
};
/* Asks for many at once and keeps them; then dac_method finds each without asking. A method on which the library
 * crashes is left out. */
struct err *dac_learn_methods(struct dac *d, const uint64_t *descs, size_t n) MUST_USE;
/* NULL when it was not learnt. */
const struct dac_method *dac_method(const struct dac *d, uint64_t desc);
/* "Shop.Orders+<Place>d__1.MoveNext()" into "Shop.Orders+<Place>d__1" and "MoveNext": for method_show(). */
void dac_split_name(const char *name, struct buf *ret_space, struct buf *ret_member);

struct dac_type {
	uint64_t type, module, parent;
	uint32_t base_size, component_size, token;
	uint32_t n_instance, n_static, n_thread_static;
	uint64_t loader; /* object that its instances keep alive, when the type can be unloaded; or 0 */
	bool contains_pointers;
	bool known;	  /* false: no method table there */
	const char *name; /* in the runtime's words */
};
struct err *dac_learn_types(struct dac *d, const uint64_t *types, size_t n) MUST_USE;
const struct dac_type *dac_type(const struct dac *d, uint64_t type);

struct dac_type_method {
	uint64_t desc; /* for dac_learn_methods; 0 = not loaded */
	uint64_t code; /* 0 = not compiled */
	uint32_t token;
	const char *name; /* of the method alone: "MoveNext" */
};
VEC_TYPE(dac_type_methods, struct dac_type_method);
/* Those that a type declares itself. Of generic types code is that of one instantiation, if any. */
struct err *dac_type_methods(struct dac *d, uint64_t type, struct dac_type_methods *ret) MUST_USE;
void dac_type_methods_free(struct dac_type_methods *methods);

struct dac_field {
	uint64_t type; /* method table of its type, when known */
	uint32_t element_type, token, offset;
	bool is_static, is_thread_static;
	const char *name;
};
VEC_TYPE(dac_fields, struct dac_field);
/* Those it declares itself. */
struct err *dac_fields(struct dac *d, uint64_t type, struct dac_fields *ret) MUST_USE;
void dac_fields_free(struct dac_fields *fields);

struct dac_module {
	uint64_t address, assembly, il_base, metadata, metadata_size, loader_allocator, module_index;
	bool reflection;
	const char *path; /* "" = in memory only */
};
VEC_TYPE(dac_modules, struct dac_module);
/* Asked once, then remembered; owned by the dac. */
struct err *dac_modules(struct dac *d, const struct dac_modules **ret) MUST_USE;
/* Of an address; NULL when not listed. Call dac_modules first. */
const struct dac_module *dac_module(const struct dac *d, uint64_t address);
VEC_TYPE(dac_addresses, uint64_t);
/* Method tables of all types that a module defines and that are loaded. */
struct err *dac_module_types(struct dac *d, uint64_t module, struct dac_addresses *ret) MUST_USE;
void dac_addresses_free(struct dac_addresses *list);

/* Where a type's static fields begin: references and structures (which are boxed) from gc on, the rest from non_gc on.
 * 0 = the runtime has not made room for them (yet). */
struct dac_statics {
	uint64_t type, gc, non_gc;
};
VEC_TYPE(dac_statics_list, struct dac_statics);
/* Of many types, in their order; thread 0 = plain statics, else those of that thread (dac_thread.address). */
struct err *dac_statics(struct dac *d, uint64_t thread, const uint64_t *types, size_t n, struct dac_statics_list *ret)
	MUST_USE;
void dac_statics_free(struct dac_statics_list *list);

struct dac_range {
	uint64_t start, size;
};
VEC_TYPE(dac_ranges, struct dac_range);
/* Memory in which a loader allocator (dac_module.loader_allocator) keeps its method tables. */
struct err *dac_loader_heaps(struct dac *d, uint64_t loader_allocator, struct dac_ranges *ret) MUST_USE;
void dac_ranges_free(struct dac_ranges *ranges);
/* For image_limits.busy_word: the word in which the collector of a living process counts itself in and out. Found while
 * the process runs, without stopping it. 0 = could not be found. */
uint64_t dac_busy_word(const struct target *target);
/* The memory that is needed to answer all questions asked so far once more, and what the library lists for a small
 * dump. Overlapping, in no order. */
struct err *dac_memory(struct dac *d, struct dac_ranges *ret) MUST_USE;

#define DAC_MAX_GENERATIONS 8
struct dac_heap {
	uint64_t heap, alloc_allocated, ephemeral_segment, low, high;
	uint32_t n_generations, n_fill_pointers;
	struct {
		uint64_t start_segment, alloc_start, alloc_ptr, alloc_limit;
	} generations[DAC_MAX_GENERATIONS]; /* 0, 1, 2, large, pinned */
	uint64_t fill_pointers[DAC_MAX_GENERATIONS];
};
VEC_TYPE(dac_heaps, struct dac_heap);
struct err *dac_heaps(struct dac *d, struct dac_heaps *ret) MUST_USE;
void dac_heaps_free(struct dac_heaps *heaps);

struct dac_segment {
	uint64_t address, heap, mem, allocated, committed, reserved, used, flags;
	uint32_t generation; /* of the chain it is in: without regions the young ones are the end of 2's */
	uint32_t heap_index;
};
VEC_TYPE(dac_segments, struct dac_segment);
struct err *dac_segments(struct dac *d, struct dac_segments *ret) MUST_USE;
void dac_segments_free(struct dac_segments *segments);

struct dac_object {
	uint64_t object, type, size; /* type 0 = no object there */
};
VEC_TYPE(dac_objects, struct dac_object);
/* Many at once, in their order. Slow: for checking what was read by other means. */
struct err *dac_objects(struct dac *d, const uint64_t *objects, size_t n, struct dac_objects *ret) MUST_USE;
void dac_objects_free(struct dac_objects *objects);

enum dac_handle_type {
	DAC_HANDLE_WEAK_SHORT,
	DAC_HANDLE_WEAK_LONG,
	DAC_HANDLE_STRONG,
	DAC_HANDLE_PINNED,
	DAC_HANDLE_VARIABLE,
	DAC_HANDLE_REF_COUNTED,
	DAC_HANDLE_DEPENDENT,
	DAC_HANDLE_ASYNC_PINNED,
	DAC_HANDLE_SIZED_REF,
	DAC_HANDLE_WEAK_NATIVE,
};
struct dac_handle {
	uint64_t handle, object, secondary; /* secondary: what a dependent handle keeps alive */
	uint32_t type, ref_count;
	bool strong;
};
VEC_TYPE(dac_handles, struct dac_handle);
struct err *dac_handles(struct dac *d, struct dac_handles *ret) MUST_USE;
void dac_handles_free(struct dac_handles *handles);

enum { DAC_REF_INTERIOR = 1, DAC_REF_PINNED = 2 };
struct dac_ref {
	uint64_t slot, object; /* slot 0: it is in a register */
	uint64_t source;       /* the code address or explicit frame that holds it */
	uint64_t stack_pointer;
	uint32_t flags;
};
VEC_TYPE(dac_refs, struct dac_ref);
/* What a thread's stack keeps alive. */
struct err *dac_stack_refs(struct dac *d, uint32_t os_id, struct dac_refs *ret) MUST_USE;
/* Asks for what many threads keep alive at once and keeps it; then dac_stack_refs need not ask. What could not be read
 * is asked for again when it is needed. */
void dac_learn_stack_refs(struct dac *d, const uint32_t *os_ids, size_t n);
/* The same for the stacks of all of these threads that have one, and if wanted for what they keep alive. */
void dac_learn_all_stacks(struct dac *d, const struct dac_threads *threads, bool refs);
void dac_refs_free(struct dac_refs *refs);

struct dac_variable {
	uint64_t sp;	  /* of its frame: dac_frame.sp */
	uint64_t value;	  /* its bytes, when it has at most 8 */
	uint64_t address; /* where it is, or 0 */
	uint32_t size, flags, index;
	bool is_local;	  /* not an argument */
	bool known;	  /* false: the compiler did not record its location at this point of the code */
	const char *name; /* of arguments; "" = not known */
};
/* Flags: a number; a structure; an object. */
enum { DAC_VARIABLE_PRIMITIVE = 1, DAC_VARIABLE_STRUCT = 2, DAC_VARIABLE_OBJECT = 4 | 8 | 16 };
VEC_TYPE(dac_variables, struct dac_variable);
/* Arguments and local variables of all managed frames of a thread. Optimised code has few. */
struct err *dac_variables(struct dac *d, uint32_t os_id, struct dac_variables *ret) MUST_USE;
void dac_variables_free(struct dac_variables *variables);

struct dac_il {
	uint64_t start, end;
	int32_t il_offset; /* negative: prologue, epilogue, none */
};
struct dac_code {
	uint64_t start, method;
	uint32_t size;
	bool precompiled;
	struct dac_il *v; /* a VEC */
	size_t n, cap;
};
/* The code around an address and what of it came from which IL. */
struct err *dac_code(struct dac *d, uint64_t ip, struct dac_code *ret) MUST_USE;
void dac_code_free(struct dac_code *code);

struct dac_listed_code {
	uint64_t start, method;
	uint32_t size;
};
VEC_TYPE(dac_code_list, struct dac_listed_code);
/* All code that was compiled at run time and is still there, in no order; precompiled code is not listed. Of a process
 * that runs meanwhile (image_peek) what comes and goes may be missing or wrong. */
struct err *dac_code_list(struct dac *d, struct dac_code_list *ret) MUST_USE;
/* The same for the code of a module that was compiled ahead of time: of the methods that were called by now, but for
 * instances of generic ones. Appends. */
struct err *dac_precompiled_list(struct dac *d, const struct dac_module *module, struct dac_code_list *ret) MUST_USE;
void dac_code_list_free(struct dac_code_list *list);

struct dac_il_place {
	uint64_t address, module;
	uint32_t token;	   /* of its method; 0 = not known */
	int32_t il_offset; /* negative = not known */
};
VEC_TYPE(dac_il_places, struct dac_il_place);
/* Which IL the code at these addresses came from, in their order. Unlike dac_code's map this is right for all code of a
 * method, not only for its first. */
struct err *dac_il_places(struct dac *d, const uint64_t *addresses, size_t n, struct dac_il_places *ret) MUST_USE;
void dac_il_places_free(struct dac_il_places *places);

enum dac_tier { /* how its code was made */
		DAC_TIER_UNKNOWN,
		DAC_TIER_MINIMAL, /* for debuggers */
		DAC_TIER_OPTIMIZED,
		DAC_TIER_QUICK,
		DAC_TIER_1,
		DAC_TIER_AHEAD, /* ReadyToRun */
		DAC_TIER_OSR,	/* replaced the quick one while that ran */
		DAC_TIER_QUICK_COUNTS,
		DAC_TIER_1_COUNTS,
};
struct dac_version {
	uint64_t code;
	enum dac_tier tier;
};
VEC_TYPE(dac_versions, struct dac_version);
/* All code that a method has, the oldest first. */
struct err *dac_versions(struct dac *d, uint64_t method, struct dac_versions *ret) MUST_USE;
void dac_versions_free(struct dac_versions *versions);

enum dac_clause_kind { DAC_CLAUSE_FAULT, DAC_CLAUSE_FINALLY, DAC_CLAUSE_FILTER, DAC_CLAUSE_CATCH };
struct dac_clause { /* offsets are from the code's start */
	uint64_t try_start, try_end, start, end;
	enum dac_clause_kind kind;
	bool any;	     /* it catches everything */
	const char *catches; /* in the runtime's words; "" = not known, or it does not catch by type */
};
VEC_TYPE(dac_clauses, struct dac_clause);
/* Exception handlers of the code around an address, the innermost first. */
struct err *dac_clauses(struct dac *d, uint64_t ip, struct dac_clauses *ret) MUST_USE;
void dac_clauses_free(struct dac_clauses *clauses);

/* Where a method's IL begins, with its header; *ret 0 = it has none. */
struct err *dac_il_address(struct dac *d, uint64_t method, uint64_t *ret) MUST_USE;
/* The method description or method table of a module's token; *ret 0 = not loaded. */
struct err *dac_token(struct dac *d, uint64_t module, uint32_t token, uint64_t *ret) MUST_USE;
#define DAC_ASSEMBLY_TOKEN 0x20000001u /* of the assembly that a module belongs to */
struct dac_token_name {
	uint32_t token;
	const char *name; /* of a string: its text in quotes; "" = not known */
};
VEC_TYPE(dac_token_names, struct dac_token_name);
/* What tokens of a module are called, in their order. */
struct err *dac_token_names(struct dac *d, uint64_t module, const uint32_t *tokens, size_t n,
			    struct dac_token_names *ret) MUST_USE;
void dac_token_names_free(struct dac_token_names *names);

struct dac_named_heap {
	uint64_t bytes;
	uint32_t blocks;
	const char *name;
};
VEC_TYPE(dac_named_heaps, struct dac_named_heap);
/* Memory of a loader allocator by what it is for; 0 = compiled code of all. */
struct err *dac_named_heaps(struct dac *d, uint64_t loader_allocator, struct dac_named_heaps *ret) MUST_USE;
void dac_named_heaps_free(struct dac_named_heaps *heaps);

struct dac_sync {
	uint64_t object, holding_thread; /* address of the thread, 0 = free */
	uint32_t index, recursion, waiting;
	bool held;
};
VEC_TYPE(dac_syncs, struct dac_sync);
struct err *dac_syncs(struct dac *d, struct dac_syncs *ret) MUST_USE;
void dac_syncs_free(struct dac_syncs *syncs);

struct dac_exception {
	uint64_t type, inner, stack_trace;
	int32_t hresult;
	const char *type_name; /* in the runtime's words; "" = not known */
	const char *message;   /* NULL = none, or not in the image */
};
struct err *dac_exception(struct dac *d, uint64_t object, struct dac_exception *ret) MUST_USE;
/* The stack trace of an exception: where it was thrown first, then its callers, as far as the exception was passed up.
 * Frames have ip, sp, method and il_offset; methods are learnt. Empty when it was never thrown or its stack is not in
 * the image. */
struct err *dac_exception_stack(struct dac *d, const struct dac_exception *exception, struct dac_stack *ret) MUST_USE;
