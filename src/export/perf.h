#pragma once
/* A sealed profile as linux-perf knows it: perf.data and the text of `perf script`.
 *
 * perf.data is a real one, but its addresses are ours: every frame has one, in a mapping for each kind of code, and the
 * mapping's file (an ELF file with symbols and no code) gives the name. So managed, native and kernel frames have their
 * names on any machine, with the symbol files in the folder that the data names. */

#include "export/out.h"
#include "export/profile.h"

/* Above the widest frame's address; the mapping of kind k starts at (k + 1) * this. */
#define PERF_KIND_SPAN (1ull << 40)
#define PERF_FRAME_SPAN 16

struct perf_info {
	uint32_t pid;
	const char *process;	 /* its name */
	const char *event;	 /* "cpu-clock" */
	const char *symbols_dir; /* absolute: where perf is to look for the symbol files, "your-code.elf" ... */
	uint64_t period_ns;
};

/* "comm pid/tid time: period event:" and a line for each frame: what speedscope, FlameScope and the flame graph scripts
 * read. In order of time. */
struct err *perf_script_write(const struct profile *p, const struct perf_info *info, struct out *out) MUST_USE;
/* In order of time. Needs the symbol files beside it. */
struct err *perf_data_write(const struct profile *p, const struct perf_info *info, struct out *out) MUST_USE;
/* The symbols of one kind of frames; false when there are none of it. */
bool perf_symbols_write(const struct profile *p, enum frame_kind kind, struct buf *out);
