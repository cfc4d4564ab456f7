#pragma once
/* The protocol between drdotnet and its library in a target (src/agent).
 *
 * The configuration is part of the AttachProfiler command. The library then connects to a socket in the folder it was
 * loaded from; each connection begins with a hello that repeats the token. The first connection is the control line:
 * notes of the library, in one direction; when drdotnet closes it, the library ends what it does and leaves. The copy
 * of the process makes a second connection and sends its image (wire/image.h). Both sides are of one build and one
 * machine: little-endian, versioned, checked nevertheless.
 *
 * While the library samples, the control line has two directions: drdotnet sends requests, and gets an answer to some
 * of them between the notes. */

#include <stdint.h>

#define WIRE_AGENT_MAGIC "drdnagt"
#define WIRE_AGENT_VERSION 3
#define WIRE_AGENT_LIBRARY "agent.so" /* the names in the folder */
#define WIRE_AGENT_SOCKET "s"
#define WIRE_AGENT_FOLDER_MAX 1024
#define WIRE_AGENT_STACK_MAX 65528

enum wire_agent_mode { WIRE_AGENT_IMAGE = 1, WIRE_AGENT_CPU };
enum {				/* flags */
       WIRE_AGENT_SEND_DAC = 1, /* send libmscordaccore.so, we cannot see it */
       WIRE_AGENT_UNREAD = 2,	/* a seccomp filter, if there is one, was not read: see wire/calls.h */
       WIRE_AGENT_PLAIN = 4,	/* one was read, and allows the calls of CALLS_PLAIN only */
};

struct wire_agent_config {
	char magic[8];
	uint32_t version, size; /* of this structure */
	uint32_t mode, flags;
	uint32_t suspend_ms;   /* the runtime must be suspended by then */
	uint32_t life_ms;      /* of all it does */
	uint32_t silence_ms;   /* we must take what is sent within */
	uint32_t fault;	       /* tests only: the step at which the copy fails */
	uint64_t max_pause_ns; /* refuse when it is predicted to be longer */
	uint32_t period_us;    /* of CPU time between samples of a thread */
	uint32_t stack_bytes;  /* copied with each */
	uint8_t token[16];
	char folder[WIRE_AGENT_FOLDER_MAX]; /* as the target sees it, NUL-terminated */
};
_Static_assert(sizeof(struct wire_agent_config) == 72 + WIRE_AGENT_FOLDER_MAX, "no holes");

enum wire_agent_line { WIRE_AGENT_CONTROL = 1, WIRE_AGENT_COPY };
struct wire_agent_hello {
	char magic[8];
	uint32_t version, line;
	uint8_t token[16];
	int32_t pid; /* as it knows itself */
	uint32_t reserved;
};
_Static_assert(sizeof(struct wire_agent_hello) == 40, "no holes");

enum wire_agent_kind {
	WIRE_AGENT_REFUSED = 1, /* nothing was done; why, code */
	WIRE_AGENT_COPIED,	/* the pause is over; values */
	WIRE_AGENT_ENDED,	/* the copy has ended with this status in code */
	WIRE_AGENT_LEAVING,	/* the last note */
	WIRE_AGENT_STARTED,	/* samples are taken from now on */
	WIRE_AGENT_SAMPLE,	/* code: bytes that follow: struct wire_agent_sample and a piece of the stack */
	WIRE_AGENT_THREAD,	/* code: bytes that follow: struct wire_agent_thread */
	WIRE_AGENT_SAMPLED,	/* sampling is over; values by enum wire_agent_cpu_value */
	WIRE_AGENT_ANSWER,	/* to WIRE_AGENT_OPEN and _READ: with a descriptor, or an errno in code */
	WIRE_AGENT_BYTES,	/* code: bytes that follow: a piece of what was asked for, before the answer */
};
enum wire_agent_why {
	WIRE_AGENT_OK,
	WIRE_AGENT_PAUSE_TOO_LONG, /* values[WIRE_AGENT_PAUSE_NS] is the prediction */
	WIRE_AGENT_NO_SUSPEND,	   /* code: the runtime's answer */
	WIRE_AGENT_NO_MEMORY,	   /* code: errno */
	WIRE_AGENT_NO_PROC,	   /* /proc/self cannot be read; code: errno */
	WIRE_AGENT_NO_CLONE,	   /* code: errno */
	WIRE_AGENT_HOST_GONE,
	WIRE_AGENT_NO_TIMER, /* code: errno */
	WIRE_AGENT_UNBURIED, /* an earlier copy could not be reaped, so another could not be either */
};
/* How a copy ends that could not do its work: its exit code. */
enum wire_agent_exit {
	WIRE_AGENT_EXIT_OK,
	WIRE_AGENT_EXIT_ORPHAN = 10,
	WIRE_AGENT_EXIT_DESCRIPTORS, /* neither close_range nor unshare */
	WIRE_AGENT_EXIT_CONNECT,
	WIRE_AGENT_EXIT_PROC,
	WIRE_AGENT_EXIT_SEND,
	WIRE_AGENT_EXIT_UNBURIED, /* its end could not be waited for; not a status of the kernel */
};

enum wire_agent_value {
	WIRE_AGENT_PAUSE_NS,
	WIRE_AGENT_SUSPEND_NS,
	WIRE_AGENT_SAVE_NS,
	WIRE_AGENT_CLONE_NS,
	WIRE_AGENT_RESUME_NS,
	WIRE_AGENT_SAVED_BYTES,
	WIRE_AGENT_LEFT_BYTES, /* of the runtime's shared pages that did not fit */
	WIRE_AGENT_ATTEMPTS,
	WIRE_AGENT_RSS_BYTES,
	WIRE_AGENT_VALUES,
};
struct wire_agent_note {
	uint32_t kind, why;
	int32_t code;
	uint32_t reserved;
	uint64_t values[WIRE_AGENT_VALUES];
};
_Static_assert(sizeof(struct wire_agent_note) == 16 + 8 * WIRE_AGENT_VALUES, "no holes");

/* ---- while it samples ---- */

enum wire_agent_cpu_value {
	WIRE_AGENT_HANDLER_NS, /* of all samples */
	WIRE_AGENT_HANDLER_MAX_NS,
	WIRE_AGENT_HANDLED,
	WIRE_AGENT_DROPPED,    /* did not fit into the queue */
	WIRE_AGENT_CPU_NS,     /* of the process meanwhile */
	WIRE_AGENT_OWN_CPU_NS, /* of the library's own thread */
	WIRE_AGENT_TIMERS,
	WIRE_AGENT_UNTIMED, /* threads without a timer: they block the signal, or there are too many */
	WIRE_AGENT_CHAINED, /* the signal was in use, its handler still gets what is not ours */
	WIRE_AGENT_CPU_VALUES,
};
_Static_assert((int)WIRE_AGENT_CPU_VALUES <= (int)WIRE_AGENT_VALUES, "they fit into a note");

struct wire_agent_sample {
	int32_t tid; /* as the process knows it */
	uint32_t stack_len, asked;
	uint32_t reserved;
	uint64_t time_ns;  /* monotonic */
	uint64_t cpu_ns;   /* of the thread since its last sample, by its own clock */
	uint64_t regs[16]; /* as instructions number them */
	uint64_t ip;
};
_Static_assert(sizeof(struct wire_agent_sample) == 168, "no holes");

/* When a thread is first seen, and when sampling has ended. */
struct wire_agent_thread {
	int32_t tid;
	uint32_t last;
	uint64_t cpu_ns, delay_ns; /* on a CPU, and able to run without one, since it began */
	char name[16];
};
_Static_assert(sizeof(struct wire_agent_thread) == 40, "no holes");

enum wire_agent_ask {
	WIRE_AGENT_OPEN =
		1, /* len bytes of a path follow; answered with all of its bytes where only plain calls are made */
	WIRE_AGENT_READ,  /* struct wire_agent_range follows: memory */
	WIRE_AGENT_STACK, /* len: bytes to copy from now on */
	WIRE_AGENT_STOP,  /* sampling; files can still be asked for */
	WIRE_AGENT_LEAVE,
};
#define WIRE_AGENT_BYTES_MAX 65536 /* in a piece */
struct wire_agent_range {
	uint64_t addr, len; /* len at most that of a piece */
};
struct wire_agent_request {
	uint32_t kind, len;
};
_Static_assert(sizeof(struct wire_agent_request) == 8, "no holes");
