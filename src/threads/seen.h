#pragma once
/* Threads as one look saw them: who each is, where it stands, what it does there.
 *
 * Out of an image (drain, then take), or built by whoever knows threads from elsewhere (seen_add_*). Kept in the
 * recording; everything in it may be hostile. Bounded: deep stacks keep their innermost frames. */

#include "base/cursor.h"
#include "base/map.h"
#include "base/vec.h"
#include "exam/look.h"

#define SEEN_VERSION 2
#define SEEN_NONE UINT32_MAX
/* For seen_thread.call, beside numbers of system calls. */
#define SEEN_RUNS (-1)	  /* in none: it ran, or could have run */
#define SEEN_UNKNOWN (-2) /* nobody says */

struct seen_method {
	const char *name; /* as its author knows it */
	bool framework;	  /* the platform's own, or made by it */
};

/* What it has run so far, see target_thread; UINT64_MAX = not known. */
struct seen_times {
	uint64_t cpu_ns, turns;
};

struct seen_thread {
	uint32_t managed_id;
	uint32_t os_id; /* as the process itself sees it; 0 = not known */
	uint32_t state; /* DAC_THREAD_... */
	bool cooperative, finalizer;
	bool cut, lost;			 /* the stack has more frames than are kept; than could be read */
	const char *name;		 /* Thread.Name, or NULL */
	const char *os_name;		 /* as the kernel knows it, or "" */
	const char *exception;		 /* type and message of the one it is throwing, or NULL */
	int32_t call;			 /* the system call it is in, or SEEN_RUNS, SEEN_UNKNOWN */
	const char *native;		 /* of native code: "libfoo.so foo_wait", or NULL */
	uint32_t first, n;		 /* of frames, innermost first */
	struct seen_times before, after; /* the look, which itself makes it run */
	uint32_t waits_for;		 /* thing, or SEEN_NONE: nothing, or nobody knows what */
};

/* Something that threads wait for. */
enum thing_kind {
	THING_MONITOR,	 /* any object, by lock or Monitor */
	THING_LOCK,	 /* System.Threading.Lock */
	THING_SEMAPHORE, /* SemaphoreSlim */
	THING_RWLOCK,	 /* ReaderWriterLockSlim */
	THING_TASK,
	THING_THREAD, /* the end of one */
	THING_INIT,   /* the end of a type's static constructor; the address is none */
	THING_OTHER,  /* an event, a queue: who will signal it nobody can know */
	THING_KINDS,
};
/* For seen_thing.more, of tasks that need a thread to go on. */
#define SEEN_NOT_BEGUN "no thread runs it yet"
#define SEEN_NEXT_PART "its next part waits to be run"
struct seen_thing {
	uint64_t address;
	enum thing_kind kind;
	const char *type;  /* as its author knows it */
	const char *name;  /* the field that holds it, the async method of a task; NULL = none found */
	const char *more;  /* what else is known of it, for when nobody has it: "no thread runs it yet"; or NULL */
	bool guessed;	   /* who has it is not written down anywhere: its holder keeps it at hand and is blocked */
	bool posted;	   /* a task whose next part probably waits for the very thread that waits for the task */
	bool taken;	   /* a semaphore with so many places, and none is left; nobody knows who has them */
	uint32_t first, n; /* in holders: threads that have it, run it or are it */
	uint32_t next;	   /* of a task that waits itself: for what; SEEN_NONE = nothing that is known */
};

struct seen {
	struct strtab strings;
	VEC(struct seen_method) methods;
	struct map_u64 by_name; /* string -> method + 1 */
	VEC(uint32_t) frames;	/* methods */
	VEC(uint32_t) lines;	/* of frames: string, or SEEN_NONE */
	VEC(struct seen_thread) threads;
	VEC(struct seen_thing) things;
	VEC(uint32_t) holders; /* threads */
	uint32_t ended;	       /* threads that are not there any more, or not yet */
};

struct seen *seen_new(void);
void seen_free(struct seen *s);
DEFINE_CLEANUP(seen_free, struct seen *)

uint32_t seen_method(struct seen *s, const char *name, bool framework);
/* The frames of the thread that is added next. */
void seen_add_frame(struct seen *s, uint32_t method);
/* The same with its source line, "Stock.cs:29"; NULL or "" = not known. */
void seen_add_frame_at(struct seen *s, uint32_t method, const char *line);
/* Takes the frames added since the last one; texts are copied. */
void seen_add_thread(struct seen *s, const struct seen_thread *thread);

/* A thing with the holders added since the last one (s->holders); texts are copied. */
uint32_t seen_add_thing(struct seen *s, const struct seen_thing *thing);
/* "Shop.Bank.Ledger.Savings.Gate", "the task of Shop.Bank.Checkout.ConfirmAsync", "a SemaphoreSlim": no two of them
 * alike. */
void seen_thing_words(const struct seen *s, const struct seen_thing *thing, struct buf *out);

/* The same with short names, for a cell. */
void seen_thing_brief(const struct seen *s, const struct seen_thing *thing, struct buf *out);
/* Of a thing that stands for all that are alike (seen_thing_classes): "tasks of Shop.Orders.LoadAsync"; the same as
 * above when there is but one. */
void seen_class_words(const struct seen *s, uint32_t thing, bool brief, struct buf *out);
/* The last two parts of a name: the field and what it is a field of. */
const char *name_brief(const char *name);
/* Of every thing the first one of the same kind, type and name, which are alike to a reader; the caller frees
 * (mem_free). */
uint32_t *seen_thing_classes(const struct seen *s);
/* What a task waits for in the end, through the tasks it awaits; itself when it is run by somebody. */
const struct seen_thing *seen_chain_end(const struct seen *s, const struct seen_thing *thing);
/* What a thread does and, where it is known, for what it waits and who has that: "waits for Shop.Stock._lock, held by
 * 'checkout' (tid 4230)". */
enum {
	WORDS_SEVERAL = 1, /* about several threads */
	WORDS_BRIEF = 2,   /* short names, for a cell */
	WORDS_ALIKE = 4,   /* each for another thing of that name */
};
void seen_waits_words(const struct seen *s, const struct seen_thread *t, unsigned flags, struct buf *out);

/* For struct look_part: user is a struct seen **, which take() fills. */
struct err *seen_drain(void *user, struct look *look, struct buf *out) MUST_USE;
struct err *seen_take(void *user, struct cursor *in) MUST_USE;
void seen_write(const struct seen *s, struct buf *out);

struct seen_raw {
	struct look *look;
	const struct dac_threads *threads;
	const struct dac_stack *stacks; /* one for each of threads */
	const uint32_t *origin;		/* of a seen thread: its index there */
};
/* Native code that threads are in, where nothing else tells what they do: of living processes. */
void seen_find_native(struct seen *s, const struct look *look);
/* Is that frame of a stack one of the seen thread's? */
bool seen_keeps_frame(const struct dac_stack *stack, size_t i);
/* What blocked threads wait for and who has it, out of memory. What cannot be found is left out. */
void seen_find_things(struct seen *s, const struct seen_raw *raw);

static inline const struct seen_method *seen_frame(const struct seen *s, const struct seen_thread *t, size_t i)
{
	return &s->methods.v[s->frames.v[t->first + i]];
}
/* Its source line; NULL = not known. */
const char *seen_line(const struct seen *s, const struct seen_thread *t, size_t i);
/* Does it run a task of a ConcurrentExclusiveSchedulerPair that may not run beside others? */
bool seen_runs_exclusive(const struct seen *s, const struct seen_thread *t);
/* The innermost frame of the user's own code; t->n when there is none. */
size_t seen_site(const struct seen *s, const struct seen_thread *t);

/* ---- what a thread does ---- */

enum doing {
	DOING_RUNS,
	DOING_LOCK,  /* waits to enter a Monitor or a Lock */
	DOING_PULSE, /* Monitor.Wait */
	DOING_SEMAPHORE,
	DOING_RWLOCK,
	DOING_TASK,    /* blocks on a task: .Result, .Wait() */
	DOING_QUEUE,   /* for an item of a BlockingCollection */
	DOING_ROOM,    /* for room in a BlockingCollection */
	DOING_INIT,    /* for a type's static constructor to end */
	DOING_EVENT,   /* an event, a handle */
	DOING_MEETING, /* Barrier, CountdownEvent */
	DOING_JOIN,    /* for another thread's end */
	DOING_SLEEP,
	DOING_SOCKET,
	DOING_FILE,
	DOING_PIPE,
	DOING_CONSOLE,
	DOING_CHILD,  /* for a child process */
	DOING_NAME,   /* a host name to be looked up */
	DOING_CALL,   /* in a system call that only its number tells of */
	DOING_NATIVE, /* outside of managed code, nobody knows where */
	DOING_IDLE,   /* the runtime's own, with nothing to do */
	DOING_COUNT,
};
enum doing seen_doing(const struct seen *s, const struct seen_thread *t);
/* "waits for a lock", "reads from a socket", "runs", ...: as a sentence about one or several threads goes on. */
void doing_words(enum doing doing, const struct seen_thread *t, bool several, struct buf *out);
/* Waits for another thread of the process to act, as opposed to the world outside or the clock. */
/* Does it keep a worker of the pool from its work, though an asynchronous form exists? */
bool doing_keeps_worker(enum doing doing);
bool doing_is_blocked(enum doing doing);
/* It did not run between two looks; false as well when nobody knows. */
static inline bool seen_stood_still(const struct seen_thread *then, const struct seen_thread *now)
{
	return then->after.turns != UINT64_MAX && then->after.turns == now->before.turns;
}
/* "'checkout' (tid 4230)" or "thread 7 (tid 4230)". */
void seen_thread_words(const struct seen_thread *t, struct buf *out);
/* "'checkout'" or "thread 7". */
void seen_thread_brief(const struct seen_thread *t, struct buf *out);

/* ---- without an image ---- */

/* The same out of the runtime's own sampler, which stops all threads for a moment a few times: names and stacks, but
 * neither system calls nor what lies in memory. ret_lost: events that were lost. */
struct err *seen_by_events(struct exam *exam, struct seen **ret, uint64_t *ret_lost) MUST_USE;
