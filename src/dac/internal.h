#pragma once
/* The inside of the client, for the files of this module. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "dac/dac.h"
#include "wire/dac.h"

/* ---- helper.c: the process and its protocol ---- */

struct helper;
struct helper_start {
	const struct image *image;
	uint64_t runtime_base;
	int library_fd; /* stays the caller's */
	const char *program;
	uint64_t answer_ms, memory_bytes;
	struct deadline deadline; /* at_ns 0 = none */
};
/* The failed start's stage is in *ret_stage (WIRE_DAC_READY otherwise), for words that help. */
/* Is its program there? `given` as in struct helper_start. */
struct err *helper_check(const char *given) MUST_USE;
struct err *helper_new(const struct helper_start *start, struct helper **ret, enum wire_dac_stage *ret_stage) MUST_USE;
void helper_free(struct helper *h);
DEFINE_CLEANUP(helper_free, struct helper *)
/* One question. The helper is started again first when the last answer was its end. */
struct err *helper_ask(struct helper *h, enum wire_dac_kind kind, const uint64_t *values, size_t n, struct buf *ret)
	MUST_USE;
unsigned helper_restarts(const struct helper *h);

/* ---- decode.c: bytes to lists; pure ---- */

/* Texts go into the table. False: not what the wire says. Lists are appended to. */
bool decode_facts(const struct buf *in, struct dac_facts *ret);
bool decode_threads(const struct buf *in, struct dac_threads *ret);
bool decode_stack(const struct buf *in, struct strtab *texts, struct dac_stack *ret);
bool decode_fields(const struct buf *in, struct strtab *texts, struct dac_fields *ret);
bool decode_modules(const struct buf *in, struct strtab *texts, struct dac_modules *ret);
bool decode_addresses(const struct buf *in, struct dac_addresses *ret);
bool decode_heaps(const struct buf *in, struct dac_heaps *ret);
bool decode_segments(const struct buf *in, struct dac_segments *ret);
bool decode_handles(const struct buf *in, struct dac_handles *ret);
bool decode_refs(const struct buf *in, struct dac_refs *ret);
/* Where compiled code may be, and the answers about a part of it and about a module. */
struct err *dac_code_in(struct dac *d, uint64_t start, uint64_t end, struct buf *in) MUST_USE;
struct err *dac_module_code(struct dac *d, uint64_t module, uint32_t first, uint32_t n, struct buf *in) MUST_USE;
struct err *dac_code_ranges(struct dac *d, struct dac_ranges *ret) MUST_USE;
bool decode_code(const struct buf *in, struct dac_code *ret);
bool decode_il_places(const struct buf *in, struct dac_il_places *ret);
bool decode_code_list(const struct buf *in, struct dac_code_list *ret);
bool decode_statics(const struct buf *in, struct dac_statics_list *ret);
bool decode_objects(const struct buf *in, struct dac_objects *ret);
bool decode_type_methods(const struct buf *in, struct strtab *texts, struct dac_type_methods *ret);
bool decode_variables(const struct buf *in, struct strtab *texts, struct dac_variables *ret);
bool decode_ranges(const struct buf *in, struct dac_ranges *ret);
bool decode_versions(const struct buf *in, struct dac_versions *ret);
bool decode_clauses(const struct buf *in, struct strtab *texts, struct dac_clauses *ret);
bool decode_token_names(const struct buf *in, struct strtab *texts, struct dac_token_names *ret);
bool decode_named_heaps(const struct buf *in, struct strtab *texts, struct dac_named_heaps *ret);
bool decode_syncs(const struct buf *in, struct dac_syncs *ret);
/* message of *ret is the address of the string object, in *ret_message. */
bool decode_exception(const struct buf *in, struct dac_exception *ret, uint64_t *ret_message);

/* Answers to many questions at once, each as if asked alone. */
struct part_span {
	size_t at, len;
};
struct parts {
	struct buf bytes;
	struct map_u64 index; /* what was asked about, to its place in spans + 1 */
	VEC(struct part_span) spans;
};
/* Takes over the bytes of parts that are whole. */
bool decode_parts(const struct buf *in, struct parts *ret);
/* The answer to this one, as a view; false when there is none. */
bool parts_find(const struct parts *parts, uint64_t value, struct buf *ret_view);
void parts_free(struct parts *parts);

VEC_TYPE(method_list, struct dac_method);
VEC_TYPE(type_list, struct dac_type);
bool decode_methods(const struct buf *in, struct strtab *texts, struct method_list *ret);
bool decode_types(const struct buf *in, struct strtab *texts, struct type_list *ret);
