#pragma once
/* Source lines of frames: a method and its IL offset in, file and line out, by the PDB of its assembly.
 *
 * Only a PDB of the very build that the image runs is used; refused ones can be asked for. The dac must outlive it; its
 * image is read only by the first question about an assembly. Not for threads. */

#include "dac/dac.h"
#include "symbols/pdb.h"

struct dac_lines;
/* Files are below root: "/proc/1234/root"; NULL = "/". */
struct dac_lines *dac_lines_new(struct dac *d, const struct image *img, const char *root);
void dac_lines_free(struct dac_lines *l);
DEFINE_CLEANUP(dac_lines_free, struct dac_lines *)

/* The method must have been learnt. Texts live until dac_lines_free. */
bool dac_line(struct dac_lines *l, uint64_t method, int32_t il_offset, struct pdb_line *ret);
/* The PDB of a module; NULL: none that fits. */
struct pdb *dac_lines_pdb(struct dac_lines *l, uint64_t module);
/* "Orders.cs:12" */
void dac_line_add(struct buf *out, const struct pdb_line *line);
/* What was refused, in words; NULL at the end. *i begins at 0. */
const char *dac_lines_refused(const struct dac_lines *l, size_t *i);
