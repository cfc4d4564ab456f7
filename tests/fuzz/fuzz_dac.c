/* Answers of the helper: the first byte is the question, the rest what came back. */

#include "dac/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void names(const struct method_list *methods)
{
	vec_each(m, methods) {
		CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 };
		dac_split_name(m->name, &space, &member);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	struct buf in = { 0 };
	buf_add(&in, data + 1, size - 1);
	struct strtab texts = { 0 };
	struct dac_facts facts;
	struct dac_exception exception;
	struct parts parts = { 0 };
	uint64_t message;
#define LIST(kind, type, call, look)                                                                                   \
	case kind: {                                                                                                   \
		struct type list = { 0 };                                                                              \
		(void)call;                                                                                            \
		look;                                                                                                  \
		vec_free(&list);                                                                                       \
		break;                                                                                                 \
	}
	switch (data[0] % WIRE_DAC_KINDS) {
	case WIRE_DAC_RUNTIME:
		(void)decode_facts(&in, &facts);
		break;
	case WIRE_DAC_STACKS:
	case WIRE_DAC_STACKS_REFS:
		(void)decode_parts(&in, &parts);
		break;
	case WIRE_DAC_EXCEPTION:
		(void)decode_exception(&in, &exception, &message);
		break;
		LIST(WIRE_DAC_THREADS, dac_threads, decode_threads(&in, &list), )
		LIST(WIRE_DAC_STACK, dac_stack, decode_stack(&in, &texts, &list), )
		LIST(WIRE_DAC_METHODS, method_list, decode_methods(&in, &texts, &list), names(&list))
		LIST(WIRE_DAC_TYPES, type_list, decode_types(&in, &texts, &list), )
		LIST(WIRE_DAC_FIELDS, dac_fields, decode_fields(&in, &texts, &list), )
		LIST(WIRE_DAC_MODULES, dac_modules, decode_modules(&in, &texts, &list), )
		LIST(WIRE_DAC_MODULE_TYPES, dac_addresses, decode_addresses(&in, &list), )
		LIST(WIRE_DAC_HEAPS, dac_heaps, decode_heaps(&in, &list), )
		LIST(WIRE_DAC_SEGMENTS, dac_segments, decode_segments(&in, &list), )
		LIST(WIRE_DAC_HANDLES, dac_handles, decode_handles(&in, &list), )
		LIST(WIRE_DAC_STACK_REFS, dac_refs, decode_refs(&in, &list), )
		LIST(WIRE_DAC_IL_MAP, dac_code, decode_code(&in, &list), )
		LIST(WIRE_DAC_SYNC_BLOCKS, dac_syncs, decode_syncs(&in, &list), )
		LIST(WIRE_DAC_STATICS, dac_statics_list, decode_statics(&in, &list), )
		LIST(WIRE_DAC_OBJECTS, dac_objects, decode_objects(&in, &list), )
		LIST(WIRE_DAC_LOADER_HEAPS, dac_ranges, decode_ranges(&in, &list), )
		LIST(WIRE_DAC_VERSIONS, dac_versions, decode_versions(&in, &list), )
		LIST(WIRE_DAC_CLAUSES, dac_clauses, decode_clauses(&in, &texts, &list), )
		LIST(WIRE_DAC_TOKEN_NAMES, dac_token_names, decode_token_names(&in, &texts, &list), )
		LIST(WIRE_DAC_IL_AT, dac_il_places, decode_il_places(&in, &list), )
		LIST(WIRE_DAC_CODE_IN, dac_code_list, decode_code_list(&in, &list), )
		LIST(WIRE_DAC_NAMED_HEAPS, dac_named_heaps, decode_named_heaps(&in, &texts, &list), )
	default:
		break;
	}
	parts_free(&parts);
	strtab_free(&texts);
	buf_free(&in);
	return 0;
}
