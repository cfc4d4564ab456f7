#pragma once
/* Files that belong to a build and are kept apart from it: debug files, libraries, assemblies, PDBs and data-access
 * libraries, named by what identifies the build. `drdotnet symbols fetch` puts them into a folder, and whoever looks
 * for one finds it there.
 *
 * The folder, <home>/symbols, is laid out by the keys of the Simple Symbol Query Protocol, so that it may itself be
 * served. Nothing here speaks with anyone. What goes in, and what comes out again, is checked: it must be of exactly
 * that build. */

#include "base/buf.h"
#include "base/err.h"

enum symbol_kind {
	SYMBOL_DEBUG,	/* an ELF file with the symbols that a stripped one lacks */
	SYMBOL_LIBRARY, /* the ELF file itself */
	SYMBOL_DAC,	/* the data-access library, by the build id of the runtime that it understands */
	SYMBOL_PDB,	/* portable */
	SYMBOL_ASSEMBLY,
	SYMBOL_KINDS
};
/* "debug file", "library" ...; as --only takes it: "debug", "library" ... */
const char *symbol_kind_show(enum symbol_kind kind);
const char *symbol_kind_word(enum symbol_kind kind);

struct symbol_file {
	enum symbol_kind kind;
	char name[128]; /* "libcoreclr.so", in lower case; of a debug file the name of the stripped one */
	char id[80];	/* as it stands in the key, without its prefix */
};
/* Names come from others: false for what is no plain file name or no id. path may have folders in front, of either
 * kind of slash. */
bool symbol_of_elf(enum symbol_kind kind, const char *path, const char *build_id, struct symbol_file *ret);
bool symbol_of_pdb(const char *path, const uint8_t guid[16], struct symbol_file *ret);
bool symbol_of_assembly(const char *path, uint32_t stamp, uint32_t image_size, struct symbol_file *ret);
/* The build id as bytes. */
bool symbol_of_build(enum symbol_kind kind, const char *path, const uint8_t *id, size_t len, struct symbol_file *ret);

/* "_.debug/elf-buildid-sym-18…85/_.debug" */
void symbol_key(const struct symbol_file *f, struct buf *out);
/* "buildid/18…85/debuginfo": what a debuginfod server has it under; false when it would not have it. */
bool symbol_debuginfod_path(const struct symbol_file *f, struct buf *out);

/* Is this file the one? ERR_BAD_DATA says what it is instead. */
struct err *symbol_check(const struct symbol_file *f, int fd) MUST_USE;

struct err *symbol_cache_path(char **ret) MUST_USE;
/* The file in the cache, checked; -1 when there is none. */
int symbol_cache_open(const struct symbol_file *f);
/* A new file in the cache, that nobody finds yet. The caller frees the path. */
struct err *symbol_cache_begin(int *ret_fd, char **ret_path) MUST_USE;
/* Checks what was written and gives it its name; the file is gone when it does not fit. */
struct err *symbol_cache_keep(const struct symbol_file *f, int fd, const char *path) MUST_USE;
