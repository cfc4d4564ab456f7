/* What a thread does: decided by the framework's methods between the user's code and the kernel, else by the system
 * call it is in. */

#include "base/fmt.h"
#include "base/str.h"
#include "threads/thread_snapshot.h"
#include <string.h>

/* A frame above the user's own code whose name begins so means that activity. The first rule of the table that fits any
 * such frame decides: waits that are built on other waits come before them. */
static const struct {
	const char *starts;
	enum activity doing;
} rules[] = {
	{ "System.Threading.LowLevelLifoSemaphore.", ACTIVITY_IDLE },
	{ "System.Threading.PortableThreadPool.GateThread.", ACTIVITY_IDLE },
	{ "System.Threading.PortableThreadPool.WaitThread.", ACTIVITY_IDLE },
	{ "System.Threading.TimerQueue.TimerThread", ACTIVITY_IDLE },
	{ "System.Net.Sockets.SocketAsyncEngine.EventLoop", ACTIVITY_IDLE },
	{ "System.IO.FileSystemWatcher.RunningInstance.", ACTIVITY_IDLE },
	{ "System.Diagnostics.Tracing.", ACTIVITY_IDLE },
	{ "System.Diagnostics.Process.WaitForExit", ACTIVITY_CHILD },
	{ "System.Diagnostics.ProcessWaitState.", ACTIVITY_CHILD },
	{ "System.Runtime.CompilerServices.InitHelpers.", ACTIVITY_INIT },
	{ "System.Collections.Concurrent.BlockingCollection*.TryAdd", ACTIVITY_ROOM },
	{ "System.Collections.Concurrent.BlockingCollection*.Add", ACTIVITY_ROOM },
	{ "System.Collections.Concurrent.BlockingCollection", ACTIVITY_QUEUE },
	{ "System.Threading.Channels.", ACTIVITY_QUEUE },
	{ "System.Threading.Tasks.Task.Wait", ACTIVITY_TASK },
	{ "System.Threading.Tasks.Task.InternalWait", ACTIVITY_TASK },
	{ "System.Threading.Tasks.Task.SpinThenBlockingWait", ACTIVITY_TASK },
	/* A blocking call waits for the thread that polls all sockets. */
	{ "System.Net.Sockets.SocketAsyncContext.", ACTIVITY_SOCKET },
	{ "System.Threading.Barrier.", ACTIVITY_MEETING },
	{ "System.Threading.CountdownEvent.", ACTIVITY_MEETING },
	{ "System.Threading.ReaderWriterLock", ACTIVITY_RWLOCK },
	{ "System.Threading.SemaphoreSlim.", ACTIVITY_SEMAPHORE },
	{ "System.Threading.Semaphore.", ACTIVITY_SEMAPHORE },
	{ "System.Threading.ManualResetEventSlim.Wait", ACTIVITY_EVENT },
	{ "System.Threading.Lock.", ACTIVITY_LOCK },
	{ "System.Threading.Monitor.Wait", ACTIVITY_PULSE },
	{ "System.Threading.Monitor.ObjWait", ACTIVITY_PULSE },
	{ "System.Threading.Monitor.", ACTIVITY_LOCK },
	{ "System.Threading.Thread.Join", ACTIVITY_JOIN },
	{ "System.Threading.Thread.Sleep", ACTIVITY_SLEEP },
	{ "System.Threading.WaitHandle.", ACTIVITY_EVENT },
	{ "System.Net.Dns.", ACTIVITY_NAME },
	{ "System.Net.NameResolutionPal.", ACTIVITY_NAME },
	{ "System.Net.Sockets.", ACTIVITY_SOCKET },
	{ "System.IO.Pipes.", ACTIVITY_PIPE },
	{ "System.ConsolePal.", ACTIVITY_CONSOLE },
	{ "System.IO.ConsoleStream.", ACTIVITY_CONSOLE },
	{ "System.IO.RandomAccess.", ACTIVITY_FILE },
	{ "System.IO.FileStream.", ACTIVITY_FILE },
	{ "System.IO.Strategies.", ACTIVITY_FILE },
	{ "System.IO.File.", ACTIVITY_FILE },
	{ "System.IO.FileSystem.", ACTIVITY_FILE },
	{ "System.IO.Enumeration.", ACTIVITY_FILE },
};

/* Numbers of x86-64. */
static const struct {
	int32_t call;
	enum activity doing;
	const char *words; /* of one thread; NULL = as the doing says */
	const char *many;
} calls[] = {
	{ 0, ACTIVITY_CALL, "reads (read)", "read (read)" },
	{ 1, ACTIVITY_CALL, "writes (write)", "write (write)" },
	/* Memory, clocks and the like: none of them waits. */
	{ 9, ACTIVITY_RUNS, NULL, NULL },
	{ 10, ACTIVITY_RUNS, NULL, NULL },
	{ 11, ACTIVITY_RUNS, NULL, NULL },
	{ 12, ACTIVITY_RUNS, NULL, NULL },
	{ 24, ACTIVITY_RUNS, NULL, NULL },
	{ 28, ACTIVITY_RUNS, NULL, NULL },
	{ 39, ACTIVITY_RUNS, NULL, NULL },
	{ 96, ACTIVITY_RUNS, NULL, NULL },
	{ 98, ACTIVITY_RUNS, NULL, NULL },
	{ 186, ACTIVITY_RUNS, NULL, NULL },
	{ 228, ACTIVITY_RUNS, NULL, NULL },
	{ 234, ACTIVITY_RUNS, NULL, NULL },
	{ 324, ACTIVITY_RUNS, NULL, NULL },
	{ 7, ACTIVITY_CALL, "waits for file descriptors (poll)", "wait for file descriptors (poll)" },
	{ 17, ACTIVITY_FILE, NULL, NULL },
	{ 18, ACTIVITY_FILE, NULL, NULL },
	{ 23, ACTIVITY_CALL, "waits for file descriptors (select)", "wait for file descriptors (select)" },
	{ 35, ACTIVITY_SLEEP, NULL, NULL },
	{ 42, ACTIVITY_SOCKET, NULL, NULL },
	{ 43, ACTIVITY_SOCKET, NULL, NULL },
	{ 44, ACTIVITY_SOCKET, NULL, NULL },
	{ 45, ACTIVITY_SOCKET, NULL, NULL },
	{ 46, ACTIVITY_SOCKET, NULL, NULL },
	{ 47, ACTIVITY_SOCKET, NULL, NULL },
	{ 61, ACTIVITY_CHILD, NULL, NULL },
	{ 72, ACTIVITY_FILE, NULL, NULL },
	{ 73, ACTIVITY_FILE, NULL, NULL },
	{ 74, ACTIVITY_FILE, NULL, NULL },
	{ 75, ACTIVITY_FILE, NULL, NULL },
	{ 202, ACTIVITY_CALL, "waits in native code (futex)", "wait in native code (futex)" },
	{ 230, ACTIVITY_SLEEP, NULL, NULL },
	{ 232, ACTIVITY_CALL, "waits for file descriptors (epoll)", "wait for file descriptors (epoll)" },
	{ 247, ACTIVITY_CHILD, NULL, NULL },
	{ 270, ACTIVITY_CALL, "waits for file descriptors (select)", "wait for file descriptors (select)" },
	{ 271, ACTIVITY_CALL, "waits for file descriptors (poll)", "wait for file descriptors (poll)" },
	{ 281, ACTIVITY_CALL, "waits for file descriptors (epoll)", "wait for file descriptors (epoll)" },
	{ 288, ACTIVITY_SOCKET, NULL, NULL },
};
#define RESTARTED_CALL 219 /* the kernel continues an interrupted call; which one is not known */

static const struct {
	const char *one, *many;
} words[ACTIVITY_COUNT] = {
	[ACTIVITY_RUNS] = { "runs", "run" },
	[ACTIVITY_LOCK] = { "waits for a lock", "wait for a lock" },
	[ACTIVITY_PULSE] = { "waits to be pulsed (Monitor.Wait)", "wait to be pulsed (Monitor.Wait)" },
	[ACTIVITY_SEMAPHORE] = { "waits for a semaphore", "wait for a semaphore" },
	[ACTIVITY_RWLOCK] = { "waits for a reader-writer lock", "wait for a reader-writer lock" },
	[ACTIVITY_TASK] = { "blocks on a task", "block on a task" },
	[ACTIVITY_QUEUE] = { "waits for an item of a queue", "wait for an item of a queue" },
	[ACTIVITY_ROOM] = { "waits for room in a queue", "wait for room in a queue" },
	[ACTIVITY_INIT] = { "waits for a static constructor", "wait for a static constructor" },
	[ACTIVITY_EVENT] = { "waits for an event", "wait for an event" },
	[ACTIVITY_MEETING] = { "waits for others (barrier)", "wait for others (barrier)" },
	[ACTIVITY_JOIN] = { "waits for a thread's end", "wait for a thread's end" },
	[ACTIVITY_SLEEP] = { "sleeps", "sleep" },
	[ACTIVITY_SOCKET] = { "waits for a socket", "wait for a socket" },
	[ACTIVITY_FILE] = { "reads or writes a file", "read or write files" },
	[ACTIVITY_PIPE] = { "waits for a pipe", "wait for a pipe" },
	[ACTIVITY_CONSOLE] = { "reads the console", "read the console" },
	[ACTIVITY_CHILD] = { "waits for a child process", "wait for a child process" },
	[ACTIVITY_NAME] = { "looks up a host name", "look up a host name" },
	[ACTIVITY_CALL] = { "is in a system call", "are in a system call" },
	[ACTIVITY_NATIVE] = { "is outside of managed code", "are outside of managed code" },
	[ACTIVITY_IDLE] = { "is idle", "are idle" },
};

static size_t call_index(int32_t call)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].call == call)
			return i;
	return ARRAY_SIZE(calls);
}

/* Threads that the runtime made for itself and that run no managed method. Core files do not keep their names. */
static bool is_runtime_own(const struct snapshot_thread *t)
{
	bool nameless = !*t->os_name && !t->name && t->state & DAC_THREAD_BACKGROUND;
	return t->finalizer || nameless || str_starts(t->os_name, ".NET ");
}

/* A worker of the pool between two pieces of work: it looks for the next one. */
static bool looks_for_work(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	static const char *const machinery[] = { "System.Threading.PortableThreadPool.", "System.Threading.LowLevel",
						 "System.Threading.ThreadPoolWorkQueue.",
						 "System.Threading.Thread.StartCallback" };
	for (size_t i = 0; i < t->n; i++) {
		bool part = false;
		for (size_t k = 0; k < ARRAY_SIZE(machinery); k++)
			part |= str_starts(snapshot_frame(s, t, i)->name, machinery[k]);
		if (!part)
			return false;
	}
	return t->n > 0;
}

/* A star matches anything. */
static bool fits(const char *name, const char *rule)
{
	const char *star = strchr(rule, '*');
	return star ? !strncmp(name, rule, (size_t)(star - rule)) && strstr(name, star + 1) : str_starts(name, rule);
}

/* A thread of the platform or of a library, such as the queue of a logger: without any of the user's code on its stack
 * it waits for work. A wait for a lock or a task is another matter, and so is a worker of the pool, which others miss. */
static bool waits_for_work(const struct thread_snapshot *s, const struct snapshot_thread *t, enum activity doing)
{
	bool work = doing == ACTIVITY_PULSE || doing == ACTIVITY_EVENT || doing == ACTIVITY_QUEUE ||
		    doing == ACTIVITY_SEMAPHORE || doing == ACTIVITY_SLEEP;
	return work && t->state & DAC_THREAD_BACKGROUND && !(t->state & DAC_THREAD_POOL) && snapshot_site(s, t) == t->n;
}

static enum activity by_rules(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	size_t own = snapshot_site(s, t);
	for (size_t r = 0; r < ARRAY_SIZE(rules); r++)
		for (size_t i = 0; i < own; i++)
			if (fits(snapshot_frame(s, t, i)->name, rules[r].starts))
				return rules[r].doing;
	return ACTIVITY_COUNT;
}

enum activity snapshot_activity(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	size_t call = call_index(t->call);
	if (looks_for_work(s, t))
		return ACTIVITY_IDLE;
	/* By the kernel's word, also where its frames could not be read. */
	if (t->call == SNAPSHOT_RUNS)
		return ACTIVITY_RUNS;
	if (t->call == SNAPSHOT_UNKNOWN && t->cooperative)
		return ACTIVITY_RUNS;
	enum activity doing = by_rules(s, t);
	if (doing != ACTIVITY_COUNT)
		return waits_for_work(s, t, doing) ? ACTIVITY_IDLE : doing;
	if (!t->n && is_runtime_own(t))
		return ACTIVITY_IDLE;
	if (call < ARRAY_SIZE(calls))
		return calls[call].doing;
	return t->call >= 0 && t->call != RESTARTED_CALL ? ACTIVITY_CALL : ACTIVITY_NATIVE;
}

void activity_words(enum activity doing, const struct snapshot_thread *t, bool several, struct buf *out)
{
	size_t call = doing == ACTIVITY_CALL ? call_index(t->call) : ARRAY_SIZE(calls);
	if (call < ARRAY_SIZE(calls) && calls[call].words)
		buf_str(out, several ? calls[call].many : calls[call].words);
	else
		buf_str(out, several ? words[doing].many : words[doing].one);
	if (t->native)
		buf_printf(out, ": %s", t->native);
}

bool activity_is_blocked(enum activity doing)
{
	return doing >= ACTIVITY_LOCK && doing <= ACTIVITY_JOIN;
}

bool activity_keeps_worker(enum activity doing)
{
	return activity_is_blocked(doing) || doing == ACTIVITY_SOCKET;
}

/* A thread that the runtime made for one purpose and that runs managed code; NULL: it is none. The kernel keeps 15 characters of a name. */
static const char *role_of(const struct snapshot_thread *t)
{
	static const struct {
		const char *name, *role;
	} roles[] = {
		{ ".NET Finalizer", "the finalizer thread" },
		{ ".NET SigHandler", "the thread for signals" },
		{ ".NET Timer", "the timer thread" },
		{ ".NET Sockets", "a thread for socket events" },
		{ ".NET TP Gate", "the pool's gate thread" },
		{ ".NET Tiered Com", "the thread for tiered compilation" },
	};
	/* One without managed code stands among the runtime's own, which are only counted. */
	if (!t->n)
		return NULL;
	if (t->finalizer)
		return roles[0].role;
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (str_starts(t->name ? t->name : t->os_name ? t->os_name : "", roles[i].name))
			return roles[i].role;
	return NULL;
}

void snapshot_thread_brief(const struct snapshot_thread *t, struct buf *out)
{
	const char *role = role_of(t);
	if (role) {
		buf_str(out, role);
		return;
	}
	/* The runtime's name for a worker is that of all of them. */
	if (t->name && !str_starts(t->name, ".NET "))
		buf_printf(out, "'%s'", t->name);
	else if (t->state & DAC_THREAD_POOL)
		buf_printf(out, "pool thread %u", t->managed_id);
	else
		buf_printf(out, "thread %u", t->managed_id ? t->managed_id : t->os_id);
}

void snapshot_thread_words(const struct snapshot_thread *t, struct buf *out)
{
	snapshot_thread_brief(t, out);
	if (t->os_id)
		buf_printf(out, " (tid %u)", t->os_id);
}
