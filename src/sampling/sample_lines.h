#pragma once
/* Source lines of CPU samples: the leaf's address in a method of the user's own, the runtime's map from native code to
 * IL, and the portable PDB beside the assembly.
 *
 * Only the leaf: callers are in the call tree already. Bounded; what does not fit is left out. */

#include "base/vec.h"
#include "eventpipe/clr.h"
#include "eventpipe/methods.h"
#include "exam/exam.h"
#include "sampling/samples.h"

struct sample_lines;
/* whose is the caller's; NULL = not known. */
struct sample_lines *sample_lines_new(const struct whose_names *whose);
void sample_lines_free(struct sample_lines *l);
DEFINE_CLEANUP(sample_lines_free, struct sample_lines *)
/* A sample whose leaf is in that method. frame is of the samples. */
void sample_lines_hit(struct sample_lines *l, const struct method *method, uint64_t address, uint32_t frame,
		      uint64_t weight);

struct sample_line {
	uint32_t frame, line;
	char *file; /* its last part */
	uint64_t weight;
};
VEC_TYPE(sample_line_list, struct sample_line); /* heaviest first */
void sample_line_list_free(struct sample_line_list *list);
/* Takes the runtime's events of methods, modules and IL maps: a rundown of these keywords, then new ones. */
#define SAMPLE_LINES_KEYWORDS (CLR_JIT | CLR_NGEN | CLR_LOADER | CLR_IL_MAP)
void sample_lines_event(struct sample_lines *l, const struct nettrace_event *event);
/* The lines of all hits. None where there is no PDB of that build. */
void sample_lines_resolve(struct sample_lines *l, struct exam *exam, struct sample_line_list *ret);
/* Kept with the recording as a fact. */
void sample_lines_save(const struct sample_line_list *list, const struct samples *samples, struct exam *exam);
void sample_lines_load(const struct exam *exam, struct samples *samples, struct sample_line_list *ret);
