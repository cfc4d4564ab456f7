#pragma once
/* Files that belong to a build and are kept apart from it: debug files, libraries, assemblies, PDBs and data-access
 * libraries, named by what identifies the build. `drdotnet symbols fetch` puts them into a folder, where everything
 * that needs one finds it.
 *
 * The folder, <home>/symbols, is laid out by the keys of the Simple Symbol Query Protocol, so that it may itself be
 * served. Nothing here uses the network. A file is checked when it is put in and when it is taken out: it must be of
 * exactly that build. */

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
/* Names are untrusted: false for what is not a plain file name or not an id. path may have folders in front, with
 * either kind of slash. */
bool symbol_of_elf(enum symbol_kind kind, const char *path, const char *build_id, struct symbol_file *ret);
bool symbol_of_pdb(const char *path, const uint8_t guid[16], struct symbol_file *ret);
bool symbol_of_assembly(const char *path, uint32_t stamp, uint32_t image_size, struct symbol_file *ret);
/* The build id as bytes. */
bool symbol_of_build(enum symbol_kind kind, const char *path, const uint8_t *id, size_t len, struct symbol_file *ret);

/* "_.debug/elf-buildid-sym-18…85/_.debug" */
void symbol_key(const struct symbol_file *f, struct buf *out);
/* "buildid/18…85/debuginfo": the path on a debuginfod server; false when such servers do not have this kind of file. */
bool symbol_debuginfod_path(const struct symbol_file *f, struct buf *out);

/* Is this file the one? ERR_BAD_DATA says what it is instead. */
struct err *symbol_check(const struct symbol_file *f, int fd) MUST_USE;

struct err *symbol_cache_path(char **ret) MUST_USE;
/* The file in the cache, checked; -1 when there is none. */
int symbol_cache_open(const struct symbol_file *f);
/* A new file in the cache under a temporary name. The caller frees the path. */
struct err *symbol_cache_begin(int *ret_fd, char **ret_path) MUST_USE;
/* Checks what was written and renames it to its final name; removes it when it is not the wanted file. */
struct err *symbol_cache_keep(const struct symbol_file *f, int fd, const char *path) MUST_USE;
