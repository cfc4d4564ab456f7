#pragma once
/* A portable PDB: the source file and line of an IL offset in a method, and the names of local variables.
 *
 * It is beside the assembly, inside it or in the cache, and is used only when its id is the one that the assembly
 * names. Knows no process: the caller says where the assembly is. Safe for hostile input. Texts are valid until
 * pdb_free. Not for threads. */

#include "base/buf.h"
#include "base/err.h"
#include "symbols/cache.h"
#include "symbols/pe.h"

struct pdb;

#define PDB_ID_BYTES 20
/* Over bytes that it takes (mem_free). ERR_BAD_DATA: no portable PDB. want_id may be NULL; another id: ERR_NOT_FOUND.
 */
struct err *pdb_from_bytes(void *bytes, size_t len, const uint8_t *want_id, struct pdb **ret) MUST_USE;
/* The PDB of an assembly, whose path is relative to root ("/proc/1234/root"; NULL = "/"). The headers of the assembly
 * as a process or core holds it, where they are known, must be of the same build, or one of that build is in the cache;
 * NULL = not known. An assembly inside a single-file program is not a file; its PDB may be where it would be for a
 * file, and the runtime may know the first 16 bytes of its id. ERR_NOT_FOUND says what is missing or of another build.
 */
struct pdb_assembly {
	const char *root, *path;
	const void *headers;
	size_t headers_len;
	const uint8_t *guid; /* or NULL */
};
struct err *pdb_open(const struct pdb_assembly *assembly, struct pdb **ret) MUST_USE;
void pdb_free(struct pdb *p);
DEFINE_CLEANUP(pdb_free, struct pdb *)
const uint8_t *pdb_id(const struct pdb *p);
/* The PDB that an assembly names; false when it names none, or has it inside. */
bool pdb_of_assembly(const struct pe *pe, struct symbol_file *ret);
enum pdb_state {
	PDB_UNKNOWN, /* there is no such assembly to ask */
	PDB_NONE,    /* it names none that could be found */
	PDB_HERE,
	PDB_MISSING, /* *ret is what would help */
};
enum pdb_state pdb_state(const struct pdb_assembly *assembly, struct symbol_file *ret);

struct pdb_line {
	const char *file; /* as the compiler knew it */
	uint32_t line, column;
	uint32_t il_offset; /* where this line begins */
};
/* The line that the IL offset of a method (token 0x06......) belongs to. Code without a source line belongs to the line
 * before it. False when there is none. */
bool pdb_line(struct pdb *p, uint32_t method, uint32_t il_offset, struct pdb_line *ret);
/* The line of the await at which a state machine's MoveNext waits: await numbers count from 0, as <>1__state does. */
bool pdb_await(struct pdb *p, uint32_t move_next, uint32_t await, struct pdb_line *ret);
/* The method that the author wrote as async or as an iterator, of which this is the MoveNext; 0 = none. */
uint32_t pdb_kickoff(struct pdb *p, uint32_t move_next);
/* The name of a local variable by its slot at that place; NULL = it has none there. */
const char *pdb_local(struct pdb *p, uint32_t method, uint32_t il_offset, uint32_t slot);

/* ---- many assemblies ---- */

struct pdbs;
/* Files are below root (NULL = "/"). */
struct pdbs *pdbs_new(const char *root);
void pdbs_free(struct pdbs *all);
DEFINE_CLEANUP(pdbs_free, struct pdbs *)
/* Opened once, then remembered. NULL: there is none that fits; *ret_why (may be NULL) says so. */
struct pdb *pdbs_get(struct pdbs *all, const char *assembly, const void *headers, size_t headers_len,
		     const char **ret_why);
/* The same where the runtime told which PDB it is: 16 bytes. */
struct pdb *pdbs_get_told(struct pdbs *all, const char *assembly, const uint8_t *guid);
/* Assemblies whose PDB was there but was not of their build, in words; NULL at the end. *i begins at 0. */
const char *pdbs_refused(const struct pdbs *all, size_t *i);
