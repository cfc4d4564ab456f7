#pragma once
/* The address space of one process: what is mapped where, the files behind it, names of native code.
 *
 * Reads /proc/PID/maps when asked for an address it does not know (at most every 50 ms) and opens files through the
 * process's own root. Knows nothing of managed code. Not for threads. */

#include "base/buf.h"
#include "base/filemap.h"
#include "symbols/elffile.h"
#include "symbols/pe.h"

struct space;
/* pid 0 is a space without a process: everything is unknown. */
struct space *space_new(pid_t pid);
/* A process that /proc does not show us: a helper reads its memory and opens files as the process sees them, its own
 * /proc/self/maps among them. */
struct space_source {
	bool (*read)(void *user, uint64_t address, void *out, size_t len);
	int (*open)(void *user, const char *path); /* a descriptor of ours, or -1 */
	void *user;
};
struct space *space_new_from(const struct space_source *source);
void space_free(struct space *s);
DEFINE_CLEANUP(space_free, struct space *)

/* Reads the maps now instead of at the next question. */
void space_look(struct space *s);

/* A file that is mapped, or an assembly inside of a single-file program: "/app/shop/System.Linq.dll" in "/app/shop". */
struct space_object {
	char *path;	  /* as the process sees it */
	const char *name; /* its last part */
	struct elf *elf, *debug;
	struct pe *pe;
	struct filemap file;		 /* behind pe */
	uint64_t part_offset, part_size; /* where it lies in the program's file; size 0: it is a file of its own */
	bool opened;
	bool shrunk; /* it was truncated while we read it: nothing in it has a name any more */
};
struct space_map {
	uint64_t start, end;
	uint64_t offset; /* in the object; pages before its beginning have large ones */
	bool exec;
	struct space_object *object; /* NULL: memory without a file (the JIT's, the heap) */
};
/* NULL when nothing is mapped there. Valid until the next call. */
const struct space_map *space_find(struct space *s, uint64_t address);
/* Opens the file behind the mapping at the first call. */
struct space_object *space_open(struct space *s, const struct space_map *map);
/* Memory of the process; false when it cannot be read. */
bool space_read(struct space *s, uint64_t address, void *out, size_t len);

/* The function at a native address, demangled; appends nothing and returns false when it has no name. */
bool space_symbol(struct space *s, const struct space_map *map, uint64_t address, struct buf *out);
/* Files seen so far, for their build ids. */
size_t space_n_objects(const struct space *s);
const struct space_object *space_object(const struct space *s, size_t i);

/* Names of kernel functions, read once from /proc/kallsyms. */
struct kernel;
struct kernel *kernel_new(void);
void kernel_free(struct kernel *k);
DEFINE_CLEANUP(kernel_free, struct kernel *)
/* NULL when hidden from us or unknown. */
const char *kernel_symbol(struct kernel *k, uint64_t address);
