#pragma once
/* One ELF file (64 bit, little endian): where its code is, the names of its functions, its unwind tables. Every offset
 * in it is hostile and checked where it is used.
 *
 * Knows no process. The file is mapped, not copied; pointers into it are valid as long as the struct elf. */

#include "base/err.h"

struct elf;

/* Takes a regular file of at most 4 GB. The descriptor stays the caller's. When the file is truncated later, it reads
 * as empty: no names either. */
struct err *elf_open(int fd, struct elf **ret) MUST_USE;
/* Takes over the bytes (mem_free). */
struct err *elf_from_bytes(void *bytes, size_t len, struct elf **ret) MUST_USE;
void elf_free(struct elf *e);
DEFINE_CLEANUP(elf_free, struct elf *)

/* It was truncated, and reading noticed that. */
bool elf_shrunk(const struct elf *e);

/* The virtual address that the byte at this file offset is linked to; false outside of what is loaded. */
bool elf_va(const struct elf *e, uint64_t offset, uint64_t *ret_va);
/* The bytes from a virtual address to the end of its segment in the file; NULL when there are none. */
const uint8_t *elf_at(const struct elf *e, uint64_t va, size_t *ret_len);
/* .eh_frame_hdr, found by its program header; NULL without. */
const uint8_t *elf_unwind_index(const struct elf *e, uint64_t *ret_va, size_t *ret_len);

/* The build id as hexadecimal text, "" without. */
const char *elf_build_id(const struct elf *e);
/* What .gnu_debuglink names: a plain file name, or NULL. */
const char *elf_debug_link(const struct elf *e);
bool elf_has_symtab(const struct elf *e);

/* Functions by address: from .symtab, .dynsym, .gnu_debugdata, and from `more` (a debug file of the same build, may be
 * NULL, stays the caller's and must live as long). Built at the first call. NULL when no function covers the address.
 * A stub for a function of another file has that one's name and ELF_STUB. */
#define ELF_STUB "@plt"
const char *elf_symbol(struct elf *e, struct elf *more, uint64_t va);
