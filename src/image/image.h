#pragma once
/* The memory of a process at one instant, its threads with registers, its modules with build ids: one interface over
 * four sources.
 *
 *   core file    image_open_core       of createdump, gdb or the kernel; damaged ones as far as they go
 *   snapshot     image_take_snapshot   a copy of a living process, taken in a pause of milliseconds (snapshot.md)
 *   live stop    image_stop            the process itself, stopped for a very short time
 *   stream       image_open_stream     records over a pipe or in a file (wire/image.h)
 *
 * An image is a table of pieces: address ranges, each backed by a range of one of a few descriptors. With the table and
 * the descriptors the image can be read by pread alone; that is how a sandboxed helper gets it.
 *
 * Knows nothing of .NET but the name of its runtime library. Everything in an image is untrusted: paths are names, not
 * places to open; counts and addresses are checked. Pointers that it returns are valid until image_close. Not for
 * threads, but image_read may be called from several at once. */

#include "base/base.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/vec.h"

struct target;
struct image;

/* ---- what an image holds ---- */

enum image_source { IMAGE_CORE, IMAGE_SNAPSHOT, IMAGE_LIVE, IMAGE_STREAM };

/* General registers of x86-64 in the kernel's order (NT_PRSTATUS, PTRACE_GETREGS). */
struct image_regs {
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax;
	uint64_t rip, cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs;
};

struct image_thread {
	pid_t tid;     /* as the process itself knows it */
	char name[16]; /* "" when not known */
	bool has_regs, has_fp;
	struct image_regs regs;
	uint8_t fp[512]; /* FXSAVE */
};

enum { IMAGE_READ = 1, IMAGE_WRITE = 2, IMAGE_EXEC = 4 };
/* An address range of the process, whether or not its bytes are in the image. */
struct image_mapping {
	uint64_t start, end;
	uint64_t offset; /* in its file */
	uint8_t prot;	 /* IMAGE_READ ...; of core files only what they record */
	bool shared;
	const char *path; /* as the process saw it; "" = anonymous; "[stack]", "/memfd:..." as in /proc/PID/maps */
};

#define IMAGE_BUILD_ID_MAX 32
/* An ELF file mapped with its headers. */
struct image_module {
	const char *path;
	uint64_t base, end; /* end of the last mapping that belongs to it */
	uint8_t build_id[IMAGE_BUILD_ID_MAX];
	size_t build_id_len; /* 0 = none, or not readable */
};

/* Where the bytes of an address range are. Sorted by address, never overlapping. */
#define IMAGE_FD_ZERO UINT32_MAX
struct image_piece {
	uint64_t start, end;
	uint32_t fd;	 /* index into image_fds; IMAGE_FD_ZERO = all zero */
	uint64_t offset; /* of start in that descriptor */
};

enum image_source image_source(const struct image *img);
/* The process it was taken of, as it knows itself; 0 when not known. */
pid_t image_pid(const struct image *img);
/* Reads up to len bytes; *ret_got gets how many could be read from addr on, without a gap. Never fails: a hole is a
 * short read. */
void image_read(const struct image *img, uint64_t addr, void *buf, size_t len, size_t *ret_got);
/* All or false. */
bool image_read_all(const struct image *img, uint64_t addr, void *buf, size_t len);

const struct image_thread *image_threads(const struct image *img, size_t *ret_n);
const struct image_mapping *image_mappings(const struct image *img, size_t *ret_n);
/* The mapping that holds the address, or NULL. */
const struct image_mapping *image_mapping_at(const struct image *img, uint64_t addr);
const struct image_module *image_modules(const struct image *img, size_t *ret_n);
/* By file name ("libcoreclr.so"), the first; NULL when there is none. */
const struct image_module *image_module_named(const struct image *img, const char *file);
/* The build id of an open ELF file; returns its length, 0 = none. */
size_t image_file_build_id(int fd, uint8_t ret[IMAGE_BUILD_ID_MAX]);
/* A file that was sent with the image because it might not be readable from here, by its file name
 * ("libmscordaccore.so"): open for reading, owned by the image; -1 = none. */
int image_file_named(const struct image *img, const char *file);
const void *image_auxv(const struct image *img, size_t *ret_len);

const struct image_piece *image_pieces(const struct image *img, size_t *ret_n);
/* Descriptors that pieces refer to, open for reading; the image owns them. */
const int *image_fds(const struct image *img, size_t *ret_n);

/* The copy of a snapshot is killed and reaped; a stopped process continues. NULL is fine. */
void image_close(struct image *img);
DEFINE_CLEANUP(image_close, struct image *)

/* ---- core files ---- */

struct image_core_options {
	/* Pages that a core leaves out may come from the files on disk: always only where the file's build id is that
	 * of the memory. Prefix of the paths in the core ("" = as they stand); NULL = never. */
	const char *files_root;
	/* Pages of assemblies too. They have no build id: it is only checked that the file did not change after the
	 * core was written, and that what the core has of it looks alike. facts.unproven_bytes says how much that is.
	 */
	bool assemblies;
	/* Where else the library of that build may be, when it is not at its path: open for reading, or -1. It is
	 * checked like the others. NULL = nowhere. */
	int (*find_library)(const char *path, const uint8_t *build_id, size_t build_id_len);
};
struct image_core_facts {
	bool truncated;		 /* shorter than its headers say */
	uint64_t missing_bytes;	 /* of its segments, for that reason */
	uint64_t file_bytes;	 /* taken from files on disk */
	uint64_t unproven_bytes; /* of these: from assemblies that may be of another build */
	uint64_t overlap_bytes;	 /* claimed by two segments; the first one is used */
};
/* No core: ERR_BAD_DATA. Of another architecture: ERR_UNSUPPORTED. options and ret_facts may be NULL. */
struct err *image_open_core(const char *path, const struct image_core_options *options,
			    struct image_core_facts *ret_facts, struct image **ret) MUST_USE;
/* The same over an open file, which the image takes over; name is for messages. */
struct err *image_open_core_fd(int fd, const char *name, const struct image_core_options *options,
			       struct image_core_facts *ret_facts, struct image **ret) MUST_USE;

/* The signal that ended a process. */
struct image_signal {
	int number, code;
	uint64_t address; /* of SIGSEGV, SIGBUS, SIGILL and SIGFPE: the address accessed or executed; else the sender */
	pid_t tid;	  /* the thread that got it */
};
/* False when the core does not record one: it was written of a living process. */
bool image_signal(const struct image *img, struct image_signal *ret);

struct image_progress {
	/* May be NULL. Bytes written and to be written in all; false = stop. */
	bool (*on)(void *user, uint64_t done, uint64_t whole);
	void *user;
};
struct image_core_written {
	uint64_t bytes;	       /* of memory */
	uint64_t disk_bytes;   /* that the file takes */
	uint64_t unread_bytes; /* that could not be read and are zero in the file */
};
/* Writes a standard core file: everything readable, holes where memory was never used. Written as PATH.partial, synced,
 * renamed: complete or not there. Room on the disk is checked first. */
struct err *image_write_core(struct image *img, const char *path, const struct image_progress *progress,
			     struct image_core_written *ret) MUST_USE;

/* What goes into a core file. */
enum image_core_kind {
	IMAGE_CORE_FULL, /* everything readable */
	IMAGE_CORE_HEAP, /* all but pages that lie unchanged in files on disk; those of assemblies and the runtime stay
			  */
	IMAGE_CORE_MINI, /* stacks, changed data of the loaded files, and the ranges given */
};
struct image_range {
	uint64_t start, size;
};
struct image_core_content {
	enum image_core_kind kind;
	const struct image_range *ranges; /* of a mini: in any order, may overlap, may be nowhere */
	size_t n_ranges;
};
/* content NULL = full. */
struct err *image_write_core_of(struct image *img, const char *path, const struct image_core_content *content,
				const struct image_progress *progress, struct image_core_written *ret) MUST_USE;
VEC_TYPE(image_ranges, struct image_range);
/* From now on all that is read is noted there; NULL ends it. Not while several threads read. */
void image_watch_reads(struct image *img, struct image_ranges *into);

/* ---- a living process ---- */

struct image_limits {
	/* Refused when the pause is predicted to be longer, and undone before it is longer; 0 = image_default_pause_ms(). */
	uint64_t max_pause_ms;
	/* All threads must stand still by then; 0 = max_pause_ms. Longer than that: it is undone only then. */
	uint64_t stop_ms;
	uint64_t max_life_ms; /* of the copy; 0 = IMAGE_MAX_LIFE_MS */
	/* A 32-bit word of the process that is not 0 while its heap is inconsistent (a collection runs): read when all
	 * threads are stopped; 0 = none known. */
	uint64_t busy_word;
	/* The identity of the process, for the lock: the runtime's cookie. NULL = pid and start time. */
	const uint8_t *cookie;
	int cancel_fd;	  /* readable once cancelled; 0 or less = none */
	uint64_t turn_ms; /* how long to wait for another examination of the process; 0 = not at all */
};
#define IMAGE_MAX_PAUSE_MS 100
/* The longest pause where none is named: IMAGE_MAX_PAUSE_MS; of a large process, whose own full collections stop it for
 * longer than that, 40 ms for each GB of private memory. Never more than 500 ms: a probe of Kubernetes waits 1 s. */
uint64_t image_default_pause_ms(uint64_t private_bytes);
#define IMAGE_MAX_LIFE_MS 120000

/* What the snapshot cost the process, measured. */
struct image_cost {
	uint64_t predicted_ns; /* before it was stopped */
	uint64_t pause_ns;     /* from the first thread's stop to the last one's start; the longest of all attempts */
	uint64_t limit_ns;     /* what was promised of it */
	uint64_t saved_bytes;  /* of shared mappings, copied during the pause */
	uint64_t left_bytes;   /* of shared mappings that were too large to copy: not in the image */
	uint64_t copied_bytes; /* of memory no longer shared with the copy when last looked at: copy-on-write */
	uint64_t lifetime_ns;  /* of the copy, so far or in all */
	size_t threads;
	unsigned attempts;	 /* attempts until one succeeded */
	unsigned reaped;	 /* copies of earlier, killed runs that were found and reaped */
	char carrier[16];	 /* name of the thread that made the copy */
	const char *lost_reason; /* why the copy was dropped early, or NULL */
};

/* Determined before the process is stopped. */
struct image_forecast {
	uint64_t rss_bytes, anon_bytes;
	uint64_t pause_ns;
	uint64_t max_pause_ms; /* the limit that it was compared with */
	uint64_t need_bytes;   /* memory that must be free while the copy lives */
	uint64_t room_bytes;   /* what is free in its cgroup and on the machine; UINT64_MAX = no limit */
	const char *fix;       /* refused: what would help, in words; NULL = nothing to be done */
};
/* Reads only. ERR_UNSUPPORTED, ERR_BUSY, ERR_DENIED or ERR_IO with the reason when a snapshot would be refused. */
struct err *image_forecast(const struct target *target, const struct image_limits *limits, struct image_forecast *ret)
	MUST_USE;

/* The same for a copy that the agent inside the process makes: only the reasons that forbid any copy are checked.
 * Needs no rights; NULL too where nothing of the process can be seen. */
struct err *image_forecast_inside(const struct target *target, const struct image_limits *limits,
				  struct image_forecast *ret) MUST_USE;

/* ---- seccomp ---- */

/* What is known of the seccomp filters of all its threads without stopping it. */
enum image_filter {
	IMAGE_FILTER_NONE,
	IMAGE_FILTER_READABLE, /* image_prove() will know */
	IMAGE_FILTER_HIDDEN,   /* there is one, and we may not read it */
	IMAGE_FILTER_UNSEEN,   /* the process cannot be seen from here */
};
enum image_filter image_filter(const struct target *target);
/* Reads the filters of all threads, each of which is stopped for an instant, and runs them for every call of the uses
 * (enum calls_use, wire/calls.h). *ret gets the first of the n combinations of uses that is allowed. ERR_UNSUPPORTED:
 * none is; the text names the call that forbids the first. ERR_DENIED: they cannot be read. */
struct err *image_prove(const struct target *target, const unsigned *uses, size_t n, size_t *ret) MUST_USE;

/* The pause alone, whether or not a snapshot would be refused; 0 = the process has ended. */
uint64_t image_predict_pause(const struct target *target);

/* Copies and the agent exclude each other. Waits until no other examination of the process runs; returns at once if
 * none does. ERR_BUSY names the holder when the time is up, ERR_CANCELLED. Does not take the lock: another one may
 * begin first. */
struct image_turn {
	const uint8_t *cookie; /* as in struct image_limits */
	struct deadline deadline;
	int cancel_fd; /* as there */
	void (*waiting)(void *user,
			pid_t holder); /* called once, before it waits; -1: a holder that we cannot see. May be NULL */
	void *user;
};
struct err *image_wait_turn(const struct target *target, const struct image_turn *turn, bool *ret_waited) MUST_USE;

/* A copy of the process as it was at one instant. Whatever happens to us, the process lives on. ERR_BUSY: it is being
 * examined or debugged. ERR_UNSUPPORTED: it cannot be copied (the text says why). ERR_TIMEOUT: its threads did not stop
 * in time; it continues unchanged. limits may be NULL. */
struct err *image_take_snapshot(const struct target *target, const struct image_limits *limits, struct image **ret)
	MUST_USE;
/* Stops the process itself: registers and stacks only, for at most hold_ms, after which reads fail. */
struct err *image_stop(const struct target *target, const struct image_limits *limits, uint64_t hold_ms,
		       struct image **ret) MUST_USE;
/* The process while it runs, not stopped: good only for memory that does not change. No threads. */
struct err *image_peek(const struct target *target, struct image **ret) MUST_USE;
/* Of a snapshot or a live stop, up to now. */
struct image_cost image_cost(struct image *img);
/* False once the copy is gone (the process ended, memory became short, the copy lived too long), or the core file was
 * truncated: what was read since may be short. To be asked after reading. */
bool image_whole(struct image *img, const char **ret_reason);
/* The copy is killed and reaped now; what was read stays known, memory reads fail from here on. */
void image_drop(struct image *img);

/* ---- streams ---- */

struct image_stream_limits {
	uint64_t max_bytes;  /* of memory; 0 = 1 TB */
	const char *spool;   /* folder for an unnamed file that takes what comes over a pipe */
	uint64_t timeout_ms; /* without data; 0 = 10 s */
};
/* Reads to the end record. A file that can be read twice is not copied. fd is taken over. */
struct err *image_open_stream(int fd, const struct image_stream_limits *limits, struct image **ret) MUST_USE;
