#pragma once
/* All threads of a process at one instant: who each is, where it stands, what it does there, and what it waits for.
 *
 * Comes out of an image (thread_snapshot_drain, then thread_snapshot_take), or is built by code that knows threads from
 * elsewhere (thread_snapshot_add_*). It is kept in the recording, so everything in it may be hostile. Bounded: of deep
 * stacks the innermost frames are kept. */

#include "base/cursor.h"
#include "base/map.h"
#include "base/vec.h"
#include "exam/image_exam.h"

#define THREAD_SNAPSHOT_VERSION 2
#define SNAPSHOT_NONE UINT32_MAX
/* For snapshot_thread.call, beside the numbers of system calls. */
#define SNAPSHOT_RUNS (-1)     /* in no system call: it ran, or could have run */
#define SNAPSHOT_UNKNOWN (-2)  /* not known */
#define SNAPSHOT_MAIN_THREAD 1 /* managed id */

struct snapshot_method {
	const char *name; /* as its author knows it */
	bool framework;	  /* the platform's own, or made by it */
};

/* What a thread has run so far, as struct target_thread has it; UINT64_MAX = not known. */
struct snapshot_times {
	uint64_t cpu_ns, turns;
};

struct snapshot_thread {
	uint32_t managed_id;
	uint32_t os_id; /* as the process itself sees it; 0 = not known */
	uint32_t state; /* DAC_THREAD_... */
	bool cooperative, finalizer;
	bool cut, lost;			     /* more frames than are kept; than could be read */
	const char *name;		     /* Thread.Name, or NULL */
	const char *os_name;		     /* as the kernel knows it, or "" */
	const char *exception;		     /* type and message of the one it is throwing, or NULL */
	int32_t call;			     /* the system call it is in, or SNAPSHOT_RUNS, SNAPSHOT_UNKNOWN */
	const char *native;		     /* of native code: "libfoo.so foo_wait", or NULL */
	uint32_t first, n;		     /* of frames, innermost first */
	struct snapshot_times before, after; /* before and after the look, which itself makes a thread run */
	uint32_t waits_for;		     /* index in things, or SNAPSHOT_NONE: nothing, or not known */
};

/* Something that threads wait for: a wait object. */
enum wait_object_kind {
	WAIT_OBJECT_MONITOR,   /* any object, by lock or Monitor */
	WAIT_OBJECT_LOCK,      /* System.Threading.Lock */
	WAIT_OBJECT_SEMAPHORE, /* SemaphoreSlim */
	WAIT_OBJECT_RWLOCK,    /* ReaderWriterLockSlim */
	WAIT_OBJECT_TASK,
	WAIT_OBJECT_THREAD, /* the end of one */
	WAIT_OBJECT_INIT,   /* a type's static constructor to end; there is no object, address is a key */
	WAIT_OBJECT_OTHER,  /* an event, a queue: which thread will signal it cannot be known */
	WAIT_OBJECT_KINDS,
};
/* For wait_object.type: a delay that ends by itself. */
#define WAIT_OBJECT_TIMER "timer"
/* For wait_object.more, of tasks that need a thread to continue. */
#define WAIT_OBJECT_NOT_BEGUN "no thread runs it yet"
#define WAIT_OBJECT_NEXT_PART "its next part waits to be run"
struct wait_object {
	uint64_t address;
	enum wait_object_kind kind;
	const char *type;  /* as its author knows it */
	const char *name;  /* the field that holds it, the async method of a task; NULL = none found */
	const char *more;  /* what else is known, shown when no holder is known: "no thread runs it yet"; or NULL */
	bool guessed;	   /* the holder is a guess: it refers to the object in its own code, and is blocked */
	bool posted;	   /* a task whose next part probably waits for the very thread that waits for the task */
	bool taken;	   /* a semaphore that lets no more pass; who has entered it is not recorded */
	uint32_t first, n; /* in holders: threads that own it, run it or are it */
	uint32_t next;	   /* of a task that awaits another: its index; SNAPSHOT_NONE = not known */
};

struct thread_snapshot {
	struct strtab strings;
	VEC(struct snapshot_method) methods;
	struct map_u64 by_name; /* string -> method + 1 */
	VEC(uint32_t) frames;	/* methods */
	VEC(uint32_t) lines;	/* of frames: string, or SNAPSHOT_NONE */
	VEC(struct snapshot_thread) threads;
	VEC(struct wait_object) things;
	VEC(uint32_t) holders; /* threads */
	uint32_t ended;	       /* threads that have ended or not started */
	uint64_t unfinalized;  /* objects that wait for their finalizers; UINT64_MAX = not known */
};

struct thread_snapshot *thread_snapshot_new(void);
void thread_snapshot_free(struct thread_snapshot *s);
DEFINE_CLEANUP(thread_snapshot_free, struct thread_snapshot *)

uint32_t thread_snapshot_method(struct thread_snapshot *s, const char *name, bool framework);
/* Adds a frame to the thread that is added next; innermost first. */
void thread_snapshot_add_frame(struct thread_snapshot *s, uint32_t method);
/* The same with its source line, "Stock.cs:29"; NULL or "" = not known. */
void thread_snapshot_add_frame_at(struct thread_snapshot *s, uint32_t method, const char *line);
/* Adds a thread with the frames added since the last one; texts are copied. */
void thread_snapshot_add_thread(struct thread_snapshot *s, const struct snapshot_thread *thread);

/* Adds a wait object with the holders that were pushed to s->holders since the last one; texts are copied. */
uint32_t thread_snapshot_add_wait_object(struct thread_snapshot *s, const struct wait_object *thing);
/* "Shop.Bank.Ledger.Savings.Gate", "the task of Shop.Bank.Checkout.ConfirmAsync", "a SemaphoreSlim": no two of them
 * alike. */
void wait_object_words(const struct thread_snapshot *s, const struct wait_object *thing, struct buf *out);

/* The same with short names, for a cell. */
void wait_object_brief(const struct thread_snapshot *s, const struct wait_object *thing, struct buf *out);
/* Of a wait object that represents all that are alike (wait_object_classes): "tasks of Shop.Orders.LoadAsync"; the same
 * as wait_object_words() when there is only one. */
void wait_object_class_words(const struct thread_snapshot *s, uint32_t thing, bool brief, struct buf *out);
/* The last two parts of a name: the field and what it is a field of. */
const char *name_brief(const char *name);
/* For each wait object the index of the first one with the same kind, type and name; a reader cannot tell these apart.
 * The caller frees (mem_free). */
uint32_t *wait_object_classes(const struct thread_snapshot *s);
/* What a task waits for in the end, through the tasks it awaits; the task itself when a thread runs it. */
const struct wait_object *wait_object_chain_end(const struct thread_snapshot *s, const struct wait_object *thing);
/* What a thread does and, where known, for what it waits and who has that: "waits for Shop.Stock._lock, held by
 * 'checkout' (tid 4230)". */
enum {
	WORDS_SEVERAL = 1, /* about several threads */
	WORDS_BRIEF = 2,   /* short names, for a cell */
	WORDS_ALIKE = 4,   /* each of the threads waits for another object of that name */
};
void snapshot_waits_words(const struct thread_snapshot *s, const struct snapshot_thread *t, unsigned flags,
			  struct buf *out);

/* For struct image_exam_part: user is a struct thread_snapshot **, which take() fills. */
struct err *thread_snapshot_drain(void *user, struct image_exam *look, struct buf *out) MUST_USE;
struct err *thread_snapshot_take(void *user, struct cursor *in) MUST_USE;
void thread_snapshot_write(const struct thread_snapshot *s, struct buf *out);

struct snapshot_source {
	struct image_exam *look;
	const struct dac_threads *threads;
	const struct dac_stack *stacks; /* one for each of threads */
	const uint32_t *origin;		/* of a thread of the snapshot: its index there */
};
/* Finds the native functions that threads are in, where nothing else tells what they do. Of living processes only. */
void thread_snapshot_find_native(struct thread_snapshot *s, const struct image_exam *look);
/* Is that frame of a stack also a frame of the snapshot? */
bool thread_snapshot_keeps_frame(const struct dac_stack *stack, size_t i);
/* Finds what blocked threads wait for and who has it, in memory. What cannot be found is left out. */
void thread_snapshot_find_wait_objects(struct thread_snapshot *s, const struct snapshot_source *raw);
/* The thread that runs the static constructor another one waits for: of the type whose method that one is in, or (unless
 * only_exact) the only one that runs any. The type is the first ret_len bytes of ret_type. */
uint32_t snapshot_find_init(const struct thread_snapshot *s, uint32_t thread, bool only_exact, const char **ret_type,
			    size_t *ret_len);

static inline const struct snapshot_method *snapshot_frame(const struct thread_snapshot *s,
							   const struct snapshot_thread *t, size_t i)
{
	return &s->methods.v[s->frames.v[t->first + i]];
}
/* Its source line; NULL = not known. */
const char *snapshot_line(const struct thread_snapshot *s, const struct snapshot_thread *t, size_t i);
/* Does the thread run a task of a ConcurrentExclusiveSchedulerPair that excludes others? */
bool snapshot_runs_exclusive(const struct thread_snapshot *s, const struct snapshot_thread *t);
/* The innermost frame of the user's own code; t->n when there is none. */
size_t snapshot_site(const struct thread_snapshot *s, const struct snapshot_thread *t);

/* ---- what a thread does ---- */

enum activity {
	ACTIVITY_RUNS,
	ACTIVITY_LOCK,	/* waits to enter a Monitor or a Lock */
	ACTIVITY_PULSE, /* Monitor.Wait */
	ACTIVITY_SEMAPHORE,
	ACTIVITY_RWLOCK,
	ACTIVITY_TASK,	  /* blocks on a task: .Result, .Wait() */
	ACTIVITY_QUEUE,	  /* for an item of a BlockingCollection */
	ACTIVITY_ROOM,	  /* for room in a BlockingCollection */
	ACTIVITY_INIT,	  /* for a type's static constructor to end */
	ACTIVITY_EVENT,	  /* an event, a handle */
	ACTIVITY_MEETING, /* Barrier, CountdownEvent */
	ACTIVITY_JOIN,	  /* for another thread's end */
	ACTIVITY_SLEEP,
	ACTIVITY_SOCKET,
	ACTIVITY_FILE,
	ACTIVITY_PIPE,
	ACTIVITY_CONSOLE,
	ACTIVITY_CHILD,	 /* for a child process */
	ACTIVITY_NAME,	 /* a host name to be looked up */
	ACTIVITY_CALL,	 /* in a system call of which only the number is known */
	ACTIVITY_NATIVE, /* outside of managed code; where is not known */
	ACTIVITY_IDLE,	 /* a thread of the runtime or of the pool, without work */
	ACTIVITY_COUNT,
};
enum activity snapshot_activity(const struct thread_snapshot *s, const struct snapshot_thread *t);
/* "waits for a lock", "reads from a socket", "runs", ...: as a sentence about one or several threads goes on. */
void activity_words(enum activity doing, const struct snapshot_thread *t, bool several, struct buf *out);
/* Does such a wait keep a worker of the pool from its work, though an asynchronous form of it exists? */
bool activity_keeps_worker(enum activity doing);
/* Does it wait for another thread of the process to act, as opposed to the world outside or the clock? */
bool activity_is_blocked(enum activity doing);
/* It did not run between two looks; false also when that is not known. */
static inline bool snapshot_stood_still(const struct snapshot_thread *then, const struct snapshot_thread *now)
{
	return then->after.turns != UINT64_MAX && then->after.turns == now->before.turns;
}
/* "'checkout' (tid 4230)", "thread 7 (tid 4230)", or "the finalizer thread (tid 4230)". */
void snapshot_thread_words(const struct snapshot_thread *t, struct buf *out);
/* "'checkout'", "thread 7", or "the finalizer thread". */
void snapshot_thread_brief(const struct snapshot_thread *t, struct buf *out);

/* ---- the finalizer thread ---- */

/* It, while it runs code of the user's own: a finalizer. NULL = it does not, or is not known. */
const struct snapshot_thread *snapshot_finalizer(const struct thread_snapshot *s);
/* "The finalizer thread waits for an event in Shop.Connection.Flush, and 1,000 objects wait for it."; the text before
 * comes first, and nothing when it does not run such code. */
void snapshot_finalizer_say(const struct thread_snapshot *s, const char *before, struct rich *v);

/* ---- the console logger ---- */

/* How many threads wait for room in its queue, and one of them. */
uint32_t snapshot_logger_waits(const struct thread_snapshot *s, const struct snapshot_thread **ret_one);

/* ---- without an image ---- */

/* The same from the runtime's own sampler, which suspends all threads for a moment a few times: names and stacks, but
 * neither system calls nor anything from memory. ret_lost: number of events that were lost. */
struct err *thread_snapshot_by_events(struct exam *exam, struct thread_snapshot **ret, uint64_t *ret_lost) MUST_USE;
