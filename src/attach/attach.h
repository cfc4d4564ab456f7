#pragma once
/* Our library in a target (src/agent): puts it where the target's runtime can load it, has it loaded, receives what it
 * sends, and makes sure that nothing stays behind.
 *
 * Needs the diagnostics socket and a folder that both processes can use; no right beyond that. The library leaves by
 * itself when its work is done, when our connection closes (also by our being killed), or when its time is up. What it
 * sends is treated as hostile. */

#include "base/err.h"
#include "image/image.h"

struct patient;

struct attach_options {
	const char *library;   /* NULL = $DRDOTNET_AGENT, else libdrdotnet-agent.so beside this program */
	const char *spool;     /* folder for an unnamed file that takes the image; NULL = $TMPDIR or /tmp */
	uint64_t max_pause_ms; /* refused when it is predicted to be longer; 0 = IMAGE_MAX_PAUSE_MS */
	uint64_t max_life_ms;  /* of the library in the target; 0 = IMAGE_MAX_LIFE_MS */
	bool send_dac;	       /* the data-access library comes with the image: we cannot see the target's files */
	uint64_t patience_ms;  /* for each of its answers; 0 = 10 s */
	uint64_t turn_ms;      /* how long to wait for another examination of the target; 0 = not at all */
	int cancel_fd;	       /* then: readable once cancelled; 0 or less = none */
	uint32_t fault;	       /* for tests: a step at which the copy fails; needs a library built for it */
};

/* What it cost the target, measured inside the target; and how long it took in all. */
struct attach_facts {
	uint64_t pause_ns, suspend_ns, save_ns, clone_ns, resume_ns;
	uint64_t saved_bytes, left_bytes;
	uint64_t attach_ns; /* from our command to the runtime's answer */
	uint64_t stream_ns; /* from the copy's first byte to its last */
	uint64_t whole_ns;
	uint32_t attempts; /* at suspending */
};

/* Reads only: is there a library to load, and a folder to load it from? */
struct err *attach_check(const struct patient *p, const struct attach_options *options) MUST_USE;
/* The process as it was at one instant, all managed threads at a safe point. ret_facts is filled in even when it fails.
 * ERR_BUSY: another profiler is loaded (and which). ERR_UNSUPPORTED, ERR_DENIED, ERR_TIMEOUT say what prevents it. The
 * process continues in any case. */
struct err *attach_image(const struct patient *p, const struct attach_options *options, struct attach_facts *ret_facts,
			 struct image **ret) MUST_USE;
