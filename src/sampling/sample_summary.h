#pragma once
/* Samples summed up: methods with and without what they call, call trees both ways, threads, subsystems, and whose code
 * a sample belongs to. What CPU and off-CPU reports are made of. */

#include "sampling/samples.h"

struct summary_method {
	uint32_t frame;
	uint64_t self, total; /* total: counted once a stack, however often it recurs */
};
/* The user's own method that is nearest to the leaf, with all that happens below it. */
struct summary_site {
	uint32_t frame;	 /* UINT32_MAX: stacks without any of the user's code */
	uint32_t caller; /* the user's method that most often calls it, UINT32_MAX without */
	uint32_t
		below; /* the leaf under it that is most often there, or the nearest to it that has a name; = frame when
			    itself */
	uint32_t
		called; /* what with a name it calls most; without the user's code, what of the framework it is in; UINT32_MAX:
			    nothing */
	uint64_t weight, caller_weight, below_weight, called_weight;
};

struct sample_summary {
	const struct samples *samples;
	uint64_t weight, count;
	uint64_t by_kind[FRAME_OTHER + 1];  /* by subsystem */
	VEC(struct summary_method) methods; /* by self, largest first */
	VEC(struct summary_site) sites;	    /* largest first */
	uint64_t *threads;		    /* weight by thread index */
	uint32_t *stack_node;		    /* by stack: where it ends in `down`; 0 = not taken */
	struct calltree *down, *up;	    /* from the root; from the leaf */
};

/* Takes the samples whose kind is in the mask (bit = kind). */
struct sample_summary *sample_summary_new(const struct samples *samples, uint64_t kinds);
void sample_summary_free(struct sample_summary *h);
DEFINE_CLEANUP(sample_summary_free, struct sample_summary *)
/* "root;caller;leaf count" lines, the common input of flame graph tools; count = weight / unit. */
void sample_summary_folded(const struct sample_summary *h, uint64_t unit, struct buf *out);
