#pragma once
/* Call frame information of native code (.eh_frame): for an address, how to find the caller's frame and registers.
 *
 * Knows the tables and their instructions, no process and no registers: values come through the reader's callbacks.
 * Everything in a table is hostile; damage reads as "no rule". */

#include "symbols/elffile.h"

#define CFI_REGISTERS 17 /* DWARF numbers of x86-64: 0..15, 16 = return address */

enum cfi_kind {
	CFI_SAME,
	CFI_UNDEFINED,
	CFI_AT,	     /* saved at CFA + value */
	CFI_IS,	     /* is CFA + value */
	CFI_IN,	     /* is in register `value` */
	CFI_AT_EXPR, /* saved where the expression says */
	CFI_IS_EXPR, /* is what the expression says */
};
struct cfi_rule {
	uint8_t kind;
	uint32_t len; /* of the expression */
	int64_t value;
	const uint8_t *expr;
};
struct cfi_row {
	struct cfi_rule cfa; /* CFI_IN: register in `len`, offset in `value`; CFI_IS_EXPR */
	struct cfi_rule regs[CFI_REGISTERS];
	bool signal; /* the caller was interrupted, it did not call */
};
/* False when no table covers the address or the table is damaged. */
bool cfi_find(const struct elf *elf, uint64_t va, struct cfi_row *ret);

struct cfi_values {
	bool (*reg)(void *user, unsigned dwarf, uint64_t *ret);
	bool (*read)(void *user, uint64_t address, void *out, size_t len);
	void *user;
};
/* Runs an expression; `cfa` is pushed first where the rule wants it (NULL = not). */
bool cfi_eval(const struct cfi_rule *rule, const struct cfi_values *values, const uint64_t *cfa, uint64_t *ret);
