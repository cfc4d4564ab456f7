/* Any bytes as an ELF file: its names, its unwind tables, at many addresses; and as a PE file. */

#include "sampler/cfi.h"
#include "symbols/pe.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool reg(void *user, unsigned dwarf, uint64_t *ret)
{
	(void)user;
	*ret = dwarf * 4096;
	return dwarf <= 16;
}

static bool read_zero(void *user, uint64_t at, void *out, size_t len)
{
	(void)user;
	memset(out, (int)at, len);
	return at % 3 != 0;
}

static void use_rules(const struct elf *e, uint64_t va)
{
	struct cfi_row row;
	struct cfi_values values = { reg, read_zero, NULL };
	uint64_t v, cfa = va;
	if (!cfi_find(e, va, &row))
		return;
	if (row.cfa.kind == CFI_IS_EXPR)
		cfi_eval(&row.cfa, &values, NULL, &v);
	for (size_t i = 0; i < CFI_REGISTERS; i++)
		if (row.regs[i].kind >= CFI_AT_EXPR)
			cfi_eval(&row.regs[i], &values, &cfa, &v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf *e = NULL;
	struct err *err = elf_from_bytes(mem_dup(data, size ? size : 1), size, &e);
	if (!err) {
		elf_debug_link(e);
		for (uint64_t va = 0; va < 0x4000; va += 0x40) {
			size_t len;
			elf_at(e, va, &len);
			elf_symbol(e, NULL, va);
			use_rules(e, va);
		}
	}
	err_free(err);
	elf_free(e);
	struct pe pe;
	struct pe_function fn;
	if (pe_parse(data, size, &pe))
		for (uint32_t rva = 0; rva < 0x4000; rva += 0x10)
			pe_function(&pe, rva, &fn);
	return 0;
}
