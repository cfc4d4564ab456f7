#pragma once
/* The stacks of a trace as a profile: stack samples by thread where the trace has them, else every event that came with
 * a stack. Frames are managed code only: the runtime's event stacks hold no native frames. */

#include "eventpipe/methods.h"
#include "export/profile.h"
#include "trace/source.h"

struct trace_samples {
	struct trace_source source;
	struct profile *profile; /* sealed */
	bool cpu;		 /* samples of all threads; else counted events */
	uint64_t unnamed;	 /* addresses without a method */
	uint64_t interval_ns;	 /* the usual time between samples, 0 = not known */
	uint64_t first_ticks;
	size_t methods;
};
struct trace_samples_options {
	const struct trace_ids *ids; /* NULL = all */
	const char *event;	     /* stacks of this event instead ("GCAllocationTick", "ExceptionThrown"); NULL = the
			      samples of all threads */
	const char *spool_dir;
};
struct err *trace_samples(const char *path, const struct trace_samples_options *options, struct trace_samples *ret)
	MUST_USE;
void trace_samples_fini(struct trace_samples *s);

/* The same, fed by a caller that reads the trace itself. */
struct trace_sampler;
struct trace_sampler *trace_sampler_new(const struct trace_samples_options *options);
void trace_sampler_free(struct trace_sampler *s);
DEFINE_CLEANUP(trace_sampler_free, struct trace_sampler *)
void trace_sampler_header(struct trace_sampler *s, const struct nettrace_header *header);
void trace_sampler_event(struct trace_sampler *s, const struct nettrace_event *event);
/* Everything but source; the sampler has nothing any more. */
struct err *trace_sampler_finish(struct trace_sampler *s, struct trace_samples *ret) MUST_USE;
/* The name of a place for readers: "Shop.Orders.Place", "[unknown 0x7f..]". */
enum frame_kind trace_frame_name(struct methods *methods, uint64_t address, struct buf *out);
