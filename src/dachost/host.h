#pragma once
/* The inside of dachost: the loaded library's interfaces, and the answer that is being written. */

#include "base/buf.h"
#include "com/dac.h"
#include "com/metadata.h"
#include "dachost/memory.h"

struct host {
	struct memory memory;
	struct xclr_process *process;
	struct sos *sos;
	struct sos2 *sos2; /* those that a runtime lacks are NULL */
	struct sos5 *sos5;
	struct sos6 *sos6;
	struct sos8 *sos8;
	struct sos9 *sos9;
	struct sos12 *sos12;
	struct sos13 *sos13;
	struct sos14 *sos14;
	uint32_t interfaces; /* bit n: numbered interface n */
};

struct host_answer {
	int fd;
	uint32_t kind, id;
	bool part; /* of a greater one: nothing is sent */
	struct buf out;
};

/* A record and its text (may be NULL). Sends what has piled up. */
void answer_add(struct host_answer *a, const void *record, size_t len);
void answer_text(struct host_answer *a, const char *text, size_t len);

/* A request's body. */
struct host_question {
	const uint64_t *values;
	size_t n;
};
/* Carries out one request and writes its records; what it returns decides how the answer ends. */
typedef com_hr (*answer_fn)(struct host *h, const struct host_question *q, struct host_answer *a);

com_hr answer_runtime(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_threads(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_stack(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_stacks(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_stacks_refs(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_stack_refs(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_il_map(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_il_at(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_methods(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_types(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_fields(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_modules(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_module_types(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_heaps(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_segments(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_handles(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_sync_blocks(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_memory(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_variables(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_busy_word(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_type_methods(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_exception(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_objects(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_statics(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_thread_statics(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_loader_heaps(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_named_heaps(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_code_ranges(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_code_in(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_module_code(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_versions(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_clauses(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_token(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_token_names(struct host *h, const struct host_question *q, struct host_answer *a);
com_hr answer_il(struct host *h, const struct host_question *q, struct host_answer *a);

/* A thread's stack, frame by frame. *ret may be closed whatever the result is. */
struct stack_walk {
	struct xclr_task *task;
	struct xclr_walk *walk;
};
com_hr walk_open(struct host *h, uint64_t tid, struct stack_walk *ret);
void walk_close(struct stack_walk *w);
/* The registers at the frame; false without one: a thread that has not reached managed code yet, or has left it, has
 * none at all, and the library calls that a success. */
bool walk_context(struct xclr_walk *walk, struct dacp_context *ret);
/* Where the runtime's own frame is, 0 when it is a method's. */
uint64_t walk_explicit(struct xclr_walk *walk);

/* NULL when the module's metadata cannot be read. */
struct metadata_import *host_metadata(struct host *h, uint64_t module);

#define HOST_NAME_MAX 4096
/* UTF-16 up to its NUL (at most n units), as UTF-8; out is cleared first. */
void host_utf8(const com_char *name, size_t n, struct buf *out);
