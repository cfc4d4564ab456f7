#pragma once
/* The protocol between drdotnet-dachost and its client. Both are of one build, but the version is checked: a helper
 * left over from another install must not be used. Includes nothing of ours.
 *
 * dachost starts with these descriptors and no others:
 *   3      a stream socket: requests in, replies out
 *   4      the setup, a read-only memory file: wire_dac_setup, pieces, threads
 *   5      the data-access library, open for reading
 *   6...   what the pieces refer to
 *
 * It sends first, WIRE_DAC_HELLO. Then each request gets one answer: one or more replies with the same id, the last
 * flagged. The bodies of an answer's replies are one run of bytes: records of the kind asked for, each followed by its
 * text (text_len bytes of UTF-8). A failed answer has WIRE_DAC_FAILED, the HRESULT, and a text for a body. Addresses are
 * those of the image. Little-endian, no padding that is not named. */

#include <stdint.h>

#define WIRE_DAC_VERSION 5u
#define WIRE_DAC_MAGIC 0x43414444u /* "DDAC" */

enum { WIRE_DAC_FD_SOCKET = 3, WIRE_DAC_FD_SETUP, WIRE_DAC_FD_LIBRARY, WIRE_DAC_FD_IMAGE };

/* ---- setup ---- */

#define WIRE_DAC_MAX_FDS 256u
#define WIRE_DAC_MAX_PIECES (4u << 20)
#define WIRE_DAC_MAX_THREADS (1u << 20)
#define WIRE_DAC_ZERO_FD UINT32_MAX

struct wire_dac_setup {
	uint32_t magic, version;
	uint64_t runtime_base;
	uint32_t n_fds, n_pieces, n_threads, cpu_seconds;
	uint64_t memory_bytes; /* address space it may have */
};
struct wire_dac_piece { /* sorted, not overlapping */
	uint64_t start, end, offset;
	uint32_t fd; /* 0 = WIRE_DAC_FD_IMAGE, or WIRE_DAC_ZERO_FD */
	uint32_t zero;
};
struct wire_dac_regs {
	uint32_t tid, has_regs;
	uint64_t regs[27]; /* the kernel's order: r15 ... gs */
	uint8_t fxsave[512];
};

/* ---- messages ---- */

enum wire_dac_kind {
	WIRE_DAC_HELLO = 1,	 /* wire_dac_hello + text */
	WIRE_DAC_RUNTIME,	 /* wire_dac_runtime */
	WIRE_DAC_THREADS,	 /* wire_dac_thread ... */
	WIRE_DAC_STACK,		 /* asks {u64 OS thread id}; wire_dac_frame + name of an explicit frame ... */
	WIRE_DAC_METHODS,	 /* asks u64 method descriptions; wire_dac_method + name ..., in that order */
	WIRE_DAC_TYPES,		 /* asks u64 method tables; wire_dac_type + name ..., in that order */
	WIRE_DAC_FIELDS,	 /* asks {u64 method table}; its own fields, not inherited: wire_dac_field + name ... */
	WIRE_DAC_MODULES,	 /* wire_dac_module + file name ... */
	WIRE_DAC_MODULE_TYPES,	 /* asks {u64 module}; u64 method tables of its type definitions */
	WIRE_DAC_HEAPS,		 /* wire_dac_heap ... */
	WIRE_DAC_SEGMENTS,	 /* wire_dac_segment ... */
	WIRE_DAC_HANDLES,	 /* wire_dac_handle ... */
	WIRE_DAC_STACK_REFS,	 /* asks {u64 OS thread id}; wire_dac_ref ... */
	WIRE_DAC_IL_MAP,	 /* asks {u64 code address}; wire_dac_code, then wire_dac_il ... */
	WIRE_DAC_SYNC_BLOCKS,	 /* wire_dac_sync ... */
	WIRE_DAC_EXCEPTION,	 /* asks {u64 object}; wire_dac_exception */
	WIRE_DAC_STATICS,	 /* asks u64 method tables; wire_dac_statics ..., in that order */
	WIRE_DAC_THREAD_STATICS, /* asks {u64 thread}, u64 method tables; wire_dac_statics ..., in their order */
	WIRE_DAC_LOADER_HEAPS,	 /* asks {u64 loader allocator}; wire_dac_range ... where its method tables lie */
	WIRE_DAC_MEMORY,	 /* wire_dac_range ...: what a small dump must hold to be asked all of this again */
	WIRE_DAC_OBJECTS,	 /* asks u64 objects; wire_dac_object ..., in that order */
	WIRE_DAC_VARIABLES,	 /* asks {u64 OS thread id}; wire_dac_variable + name ..., frame by frame */
	WIRE_DAC_BUSY_WORD,	 /* wire_dac_range, or none: the word that says whether a collection is at work */
	WIRE_DAC_TYPE_METHODS,	 /* asks {u64 method table}; those it declares: wire_dac_type_method + name ... */
	WIRE_DAC_STACKS,	 /* asks u64 OS thread ids; wire_dac_part + what WIRE_DAC_STACK answers ... */
	WIRE_DAC_STACKS_REFS,	 /* asks u64 OS thread ids; wire_dac_part + what WIRE_DAC_STACK_REFS answers ... */
	WIRE_DAC_VERSIONS,	 /* asks {u64 method description}; wire_dac_version ..., one for each code it has */
	WIRE_DAC_CLAUSES,	 /* asks {u64 code address}; wire_dac_clause + what it catches ... */
	WIRE_DAC_TOKEN,		 /* asks {u64 module, u64 token}; {u64 method table or description}, or nothing */
	WIRE_DAC_TOKEN_NAMES,	 /* asks {u64 module}, u64 tokens; wire_dac_token + name ..., in that order */
	WIRE_DAC_IL,		 /* asks {u64 method description}; wire_dac_range: where its IL is, size 0; or none */
	WIRE_DAC_NAMED_HEAPS,	 /* asks {u64 loader allocator, or 0 = code}; wire_dac_named_heap + name ... */
	WIRE_DAC_CODE_RANGES,	 /* wire_dac_range ...: where code is that was compiled at run time */
	WIRE_DAC_CODE_IN, /* asks {u64 start, u64 end}; wire_dac_code ...: the methods compiled into that range */
	WIRE_DAC_IL_AT,	  /* asks u64 code addresses; wire_dac_il_at ..., in that order */
	/* asks {u64 module, u64 token of a method, u64 how many from there}; wire_dac_code ...: those with
	 * precompiled code.
	 * Fails behind the last. */
	WIRE_DAC_MODULE_CODE,
	WIRE_DAC_KINDS
};

#define WIRE_DAC_MAX_REQUEST (1u << 20)
#define WIRE_DAC_MAX_REPLY (256u << 10) /* of one reply; an answer has many */

struct wire_dac_request {
	uint32_t length; /* of the body */
	uint32_t kind;
	uint32_t id;
	uint32_t zero;
};
enum { WIRE_DAC_END = 1, WIRE_DAC_FAILED = 2 };
struct wire_dac_reply {
	uint32_t length;
	uint16_t kind, flags;
	uint32_t id;
	int32_t hr;
};

/* How far the start came. */
enum wire_dac_stage {
	WIRE_DAC_READY,
	WIRE_DAC_BAD_SETUP,
	WIRE_DAC_NO_SANDBOX,	/* rights could not be dropped: nothing was loaded */
	WIRE_DAC_NEEDS_LIBRARY, /* text = its name */
	WIRE_DAC_NOT_LOADABLE,	/* text = what the loader says */
	WIRE_DAC_NOT_A_DAC,	/* it loads, but lacks the exports */
	WIRE_DAC_REFUSED,	/* it does not fit the runtime: hr */
};
struct wire_dac_hello {
	uint32_t version, stage;
	int32_t hr;
	uint32_t text_len;
};

struct wire_dac_runtime {
	uint64_t array_type, string_type, object_type, exception_type, free_type;
	uint64_t finalizer_thread, gc_thread;
	uint64_t global_alloc_ptr, global_alloc_limit; /* 0 before .NET 8 */
	uint32_t interfaces;			       /* bit n = numbered interface n is there */
	int32_t breaking_version;
	uint32_t server_gc, heap_valid, n_heaps, max_generation; /* heap_valid 0 = a collection is at work */
	uint32_t n_threads, n_dead;
};
struct wire_dac_thread {
	uint64_t address, alloc_ptr, alloc_limit, frame, exception; /* exception: the object, or 0 */
	uint32_t managed_id, os_id, state, cooperative;
};
enum {
	WIRE_DAC_FRAME_CUT = 1,	 /* the stack continues below this frame, but the walk was ended */
	WIRE_DAC_FRAME_LOST = 2, /* no frame: the walk failed here; ip = the address that could not be read, or 0 */
};
#define WIRE_DAC_NO_IL (-1)
struct wire_dac_frame {
	uint64_t ip, sp;
	uint64_t frame;	 /* address of the runtime's explicit frame; 0 = a frame of managed code */
	uint64_t method; /* description; 0 = none known */
	uint64_t code_start;
	int32_t il_offset;
	uint32_t native_offset, flags, text_len;
};
struct wire_dac_method {
	uint64_t desc, type, module;
	uint32_t token, dynamic, known, text_len; /* known 0 = it could not be read */
};
struct wire_dac_type {
	uint64_t type, module, parent, canonical;
	uint64_t loader; /* object that its instances keep alive, when it can be unloaded; or 0 */
	uint32_t base_size, component_size, token, attributes;
	uint32_t contains_pointers, shared, dynamic, known;
	uint32_t n_instance, n_static, n_thread_static, text_len;
};
struct wire_dac_field {
	uint64_t type, enclosing;
	uint32_t element_type, token, offset, is_static, is_thread_static, text_len;
};
struct wire_dac_module {
	uint64_t address, assembly, il_base, metadata, metadata_size, loader_allocator, module_index;
	uint32_t is_reflection, text_len;
};
#define WIRE_DAC_MAX_GENERATIONS 8u
struct wire_dac_heap {
	uint64_t heap, alloc_allocated, ephemeral_segment, low, high;
	uint32_t n_generations, n_fill_pointers;
	struct {
		uint64_t start_segment, alloc_start, alloc_ptr, alloc_limit;
	} generations[WIRE_DAC_MAX_GENERATIONS];
	uint64_t fill_pointers[WIRE_DAC_MAX_GENERATIONS];
};
struct wire_dac_segment {
	uint64_t address, heap, mem, allocated, committed, reserved, used, flags;
	uint32_t generation, heap_index; /* generation of the chain it hangs in */
};
struct wire_dac_handle {
	uint64_t handle, object, secondary;
	uint32_t type, strong, ref_count, zero;
};
struct wire_dac_ref {
	uint64_t slot, object, source, stack_pointer;
	uint32_t flags, source_type, has_register;
	int32_t reg, offset;
	uint32_t zero;
};
struct wire_dac_part { /* of an answer to many questions at once; those that failed have none */
	uint64_t value;
	uint64_t length;
};
struct wire_dac_code {
	uint64_t start, method;
	uint32_t size, jit_type;
};
struct wire_dac_il_at {
	uint64_t address, module;
	uint32_t token; /* 0 = not known */
	int32_t il_offset;
};
struct wire_dac_il {
	uint64_t start, end;
	int32_t il_offset;
	uint32_t type;
};
struct wire_dac_sync {
	uint64_t object, sync_block, holding_thread;
	uint32_t index, held, recursion, waiting;
};
struct wire_dac_statics { /* where a type's static fields begin; 0 = not there (yet) */
	uint64_t type, gc, non_gc;
};
struct wire_dac_object {
	uint64_t object, type, size; /* type 0 = no object there */
};
struct wire_dac_range {
	uint64_t start, size;
};
struct wire_dac_type_method {
	uint64_t desc, code; /* 0 = not loaded, not compiled */
	uint32_t token, text_len;
};
struct wire_dac_variable {
	uint64_t sp;				   /* of its frame */
	uint64_t value;				   /* its first bytes */
	uint64_t address;			   /* where it is; 0 = in a register, or not known */
	uint32_t size, flags;			   /* flags in the library's words */
	uint32_t index, is_local, known, text_len; /* known 0: it is not to be had at this place in the code */
};
struct wire_dac_version {
	uint64_t code;
	uint32_t tier, zero; /* tier in the library's words */
};
struct wire_dac_clause { /* offsets are from the code's start */
	uint64_t try_start, try_end, start, end;
	uint32_t kind, any, zero, text_len; /* kind in the library's words; any: it catches everything */
};
struct wire_dac_token {
	uint32_t token, text_len;
};
struct wire_dac_named_heap {
	uint64_t bytes; /* of memory that it has */
	uint32_t blocks, text_len;
};
struct wire_dac_exception {
	uint64_t type, message, inner, stack_trace;
	int32_t hresult;
	uint32_t zero;
};

#define WIRE_SIZE_(type, size) _Static_assert(sizeof(struct type) == (size), #type)
WIRE_SIZE_(wire_dac_setup, 40);
WIRE_SIZE_(wire_dac_piece, 32);
WIRE_SIZE_(wire_dac_regs, 736);
WIRE_SIZE_(wire_dac_request, 16);
WIRE_SIZE_(wire_dac_reply, 16);
WIRE_SIZE_(wire_dac_hello, 16);
WIRE_SIZE_(wire_dac_runtime, 104);
WIRE_SIZE_(wire_dac_thread, 56);
WIRE_SIZE_(wire_dac_frame, 56);
WIRE_SIZE_(wire_dac_method, 40);
WIRE_SIZE_(wire_dac_type, 88);
WIRE_SIZE_(wire_dac_field, 40);
WIRE_SIZE_(wire_dac_module, 64);
WIRE_SIZE_(wire_dac_heap, 368);
WIRE_SIZE_(wire_dac_segment, 72);
WIRE_SIZE_(wire_dac_handle, 40);
WIRE_SIZE_(wire_dac_ref, 56);
WIRE_SIZE_(wire_dac_code, 24);
WIRE_SIZE_(wire_dac_il, 24);
WIRE_SIZE_(wire_dac_il_at, 24);
WIRE_SIZE_(wire_dac_sync, 40);
WIRE_SIZE_(wire_dac_exception, 40);
WIRE_SIZE_(wire_dac_type_method, 24);
WIRE_SIZE_(wire_dac_variable, 48);
WIRE_SIZE_(wire_dac_version, 16);
WIRE_SIZE_(wire_dac_clause, 48);
WIRE_SIZE_(wire_dac_token, 8);
WIRE_SIZE_(wire_dac_named_heap, 16);
WIRE_SIZE_(wire_dac_statics, 24);
WIRE_SIZE_(wire_dac_range, 16);
WIRE_SIZE_(wire_dac_object, 24);
