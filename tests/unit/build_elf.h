#pragma once
/* Writes small ELF files: one loaded segment over the whole file (addresses are offsets), symbols, unwind tables. */

#include "base/buf.h"

#define BUILD_ELF_STUBS 0x2000
#define BUILD_ELF_TEXT 0x1000 /* where code would be; the file is padded up to there and a page beyond */

struct build_elf_symbol {
	const char *name;
	uint64_t value, size;
	enum { BUILD_FUNCTION, BUILD_DATA, BUILD_STUB } kind; /* of the last the section is .plt */
};
struct build_elf {
	const struct build_elf_symbol *symbols;
	size_t n_symbols;
	bool dynamic;	/* in .dynsym, not .symtab */
	size_t n_stubs; /* .plt, at BUILD_ELF_STUBS: a header, then one for each of the first symbols, and room for one
			   more */
	const void *build_id;
	size_t build_id_len;
	const char *debug_link;
	const void *eh_frame; /* .eh_frame as it is; without an index unless there are functions below */
	size_t eh_frame_len;
	const struct build_elf_fde {
		uint64_t function, offset; /* of its FDE in eh_frame */
	} * index;
	size_t n_index;
};
void build_elf(const struct build_elf *b, struct buf *out);

/* .eh_frame: a CIE, then FDEs. Offsets returned are those of the record. */
size_t build_cie(struct buf *eh, const char *augmentation, const void *program, size_t len);
/* pcrel|sdata4 start: eh_va is where eh_frame will lie. */
size_t build_fde(struct buf *eh, uint64_t eh_va, size_t cie, uint64_t start, uint32_t size, const void *program,
		 size_t len);
/* Where build_elf puts .eh_frame. */
#define BUILD_ELF_EH 0x3000
