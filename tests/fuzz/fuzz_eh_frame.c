/* Any bytes as the programs of one function in .eh_frame (byte 0: length of the CIE's), and the same bytes as the
 * runtime's unwind data for managed code and as code. */

#include "build_elf.h"
#include "sampler/cfi.h"
#include "sampler/managed_x64.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool reg(void *user, unsigned dwarf, uint64_t *ret)
{
	(void)user;
	*ret = dwarf * 4096;
	return dwarf <= 16;
}

static bool read_some(void *user, uint64_t at, void *out, size_t len)
{
	(void)user;
	memset(out, (int)at, len);
	return at % 5 != 0;
}

static bool read_word(void *user, uint64_t at, uint64_t *ret)
{
	return read_some(user, at, ret, sizeof(*ret));
}

static void native(const uint8_t *data, size_t size)
{
	struct buf eh = { 0 }, out = { 0 };
	size_t first = size ? data[0] % size : 0;
	size_t cie = build_cie(&eh, "zR", data, first);
	size_t fde = build_fde(&eh, BUILD_ELF_EH, cie, 0x1000, 0x100, data + first, size - first);
	build_elf(&(struct build_elf){ .eh_frame = eh.data,
				       .eh_frame_len = eh.len,
				       .index = &(struct build_elf_fde){ 0x1000, fde },
				       .n_index = 1 },
		  &out);
	struct elf *e;
	size_t len = out.len;
	if (elf_from_bytes(buf_steal(&out), len, &e))
		abort();
	struct cfi_values values = { reg, read_some, NULL };
	for (uint64_t va = 0x1000; va < 0x1100; va += 0x20) {
		struct cfi_row row;
		uint64_t v, cfa = 5;
		if (!cfi_find(e, va, &row))
			continue;
		if (row.cfa.kind == CFI_IS_EXPR)
			cfi_eval(&row.cfa, &values, NULL, &v);
		for (size_t i = 0; i < CFI_REGISTERS; i++)
			if (row.regs[i].kind >= CFI_AT_EXPR)
				cfi_eval(&row.regs[i], &values, &cfa, &v);
	}
	elf_free(e);
	buf_free(&eh);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 4096)
		return 0;
	native(data, size);
	struct managed_unwind info;
	struct managed_frame f = { 0 };
	if (managed_unwind_parse(data, size, &info))
		for (uint64_t into = 0; into < 64; into += 7)
			managed_apply(&info, into, read_word, NULL, &f);
	managed_epilogue(data, size, read_word, NULL, &f);
	managed_prologue(data, size, size, read_word, NULL, &f);
	return 0;
}
