/* What a thread does, told by the framework's own methods between the user's code and the kernel, else by the system
 * call it is in. */

#include "base/fmt.h"
#include "base/str.h"
#include "threads/seen.h"
#include <string.h>

/* A method whose name begins so, above the user's own code, means that. The first rule of the table that fits any such
 * frame decides: what is built of other waits stands before them. */
static const struct {
	const char *starts;
	enum doing doing;
} rules[] = {
	{ "System.Threading.LowLevelLifoSemaphore.", DOING_IDLE },
	{ "System.Threading.PortableThreadPool.GateThread.", DOING_IDLE },
	{ "System.Threading.PortableThreadPool.WaitThread.", DOING_IDLE },
	{ "System.Threading.TimerQueue.TimerThread", DOING_IDLE },
	{ "System.Net.Sockets.SocketAsyncEngine.EventLoop", DOING_IDLE },
	{ "System.IO.FileSystemWatcher.RunningInstance.", DOING_IDLE },
	{ "System.Diagnostics.Tracing.", DOING_IDLE },
	{ "System.Diagnostics.Process.WaitForExit", DOING_CHILD },
	{ "System.Diagnostics.ProcessWaitState.", DOING_CHILD },
	{ "System.Runtime.CompilerServices.InitHelpers.", DOING_INIT },
	{ "System.Collections.Concurrent.BlockingCollection*.TryAdd", DOING_ROOM },
	{ "System.Collections.Concurrent.BlockingCollection*.Add", DOING_ROOM },
	{ "System.Collections.Concurrent.BlockingCollection", DOING_QUEUE },
	{ "System.Threading.Channels.", DOING_QUEUE },
	{ "System.Threading.Tasks.Task.Wait", DOING_TASK },
	{ "System.Threading.Tasks.Task.InternalWait", DOING_TASK },
	{ "System.Threading.Tasks.Task.SpinThenBlockingWait", DOING_TASK },
	/* A blocking call waits for the thread that polls all sockets. */
	{ "System.Net.Sockets.SocketAsyncContext.", DOING_SOCKET },
	{ "System.Threading.Barrier.", DOING_MEETING },
	{ "System.Threading.CountdownEvent.", DOING_MEETING },
	{ "System.Threading.ReaderWriterLock", DOING_RWLOCK },
	{ "System.Threading.SemaphoreSlim.", DOING_SEMAPHORE },
	{ "System.Threading.Semaphore.", DOING_SEMAPHORE },
	{ "System.Threading.ManualResetEventSlim.Wait", DOING_EVENT },
	{ "System.Threading.Lock.", DOING_LOCK },
	{ "System.Threading.Monitor.Wait", DOING_PULSE },
	{ "System.Threading.Monitor.ObjWait", DOING_PULSE },
	{ "System.Threading.Monitor.", DOING_LOCK },
	{ "System.Threading.Thread.Join", DOING_JOIN },
	{ "System.Threading.Thread.Sleep", DOING_SLEEP },
	{ "System.Threading.WaitHandle.", DOING_EVENT },
	{ "System.Net.Dns.", DOING_NAME },
	{ "System.Net.NameResolutionPal.", DOING_NAME },
	{ "System.Net.Sockets.", DOING_SOCKET },
	{ "System.IO.Pipes.", DOING_PIPE },
	{ "System.ConsolePal.", DOING_CONSOLE },
	{ "System.IO.ConsoleStream.", DOING_CONSOLE },
	{ "System.IO.RandomAccess.", DOING_FILE },
	{ "System.IO.FileStream.", DOING_FILE },
	{ "System.IO.Strategies.", DOING_FILE },
	{ "System.IO.File.", DOING_FILE },
	{ "System.IO.FileSystem.", DOING_FILE },
	{ "System.IO.Enumeration.", DOING_FILE },
};

/* Numbers of x86-64. */
static const struct {
	int32_t call;
	enum doing doing;
	const char *words; /* of one thread; NULL = as the doing says */
	const char *many;
} calls[] = {
	{ 0, DOING_CALL, "reads (read)", "read (read)" },
	{ 1, DOING_CALL, "writes (write)", "write (write)" },
	/* Memory, clocks and the like: none of them waits. */
	{ 9, DOING_RUNS, NULL, NULL },
	{ 10, DOING_RUNS, NULL, NULL },
	{ 11, DOING_RUNS, NULL, NULL },
	{ 12, DOING_RUNS, NULL, NULL },
	{ 24, DOING_RUNS, NULL, NULL },
	{ 28, DOING_RUNS, NULL, NULL },
	{ 39, DOING_RUNS, NULL, NULL },
	{ 96, DOING_RUNS, NULL, NULL },
	{ 98, DOING_RUNS, NULL, NULL },
	{ 186, DOING_RUNS, NULL, NULL },
	{ 228, DOING_RUNS, NULL, NULL },
	{ 234, DOING_RUNS, NULL, NULL },
	{ 324, DOING_RUNS, NULL, NULL },
	{ 7, DOING_CALL, "waits for file descriptors (poll)", "wait for file descriptors (poll)" },
	{ 17, DOING_FILE, NULL, NULL },
	{ 18, DOING_FILE, NULL, NULL },
	{ 23, DOING_CALL, "waits for file descriptors (select)", "wait for file descriptors (select)" },
	{ 35, DOING_SLEEP, NULL, NULL },
	{ 42, DOING_SOCKET, NULL, NULL },
	{ 43, DOING_SOCKET, NULL, NULL },
	{ 44, DOING_SOCKET, NULL, NULL },
	{ 45, DOING_SOCKET, NULL, NULL },
	{ 46, DOING_SOCKET, NULL, NULL },
	{ 47, DOING_SOCKET, NULL, NULL },
	{ 61, DOING_CHILD, NULL, NULL },
	{ 72, DOING_FILE, NULL, NULL },
	{ 73, DOING_FILE, NULL, NULL },
	{ 74, DOING_FILE, NULL, NULL },
	{ 75, DOING_FILE, NULL, NULL },
	{ 202, DOING_CALL, "waits in native code (futex)", "wait in native code (futex)" },
	{ 230, DOING_SLEEP, NULL, NULL },
	{ 232, DOING_CALL, "waits for file descriptors (epoll)", "wait for file descriptors (epoll)" },
	{ 247, DOING_CHILD, NULL, NULL },
	{ 270, DOING_CALL, "waits for file descriptors (select)", "wait for file descriptors (select)" },
	{ 271, DOING_CALL, "waits for file descriptors (poll)", "wait for file descriptors (poll)" },
	{ 281, DOING_CALL, "waits for file descriptors (epoll)", "wait for file descriptors (epoll)" },
	{ 288, DOING_SOCKET, NULL, NULL },
};
#define RESTARTED_CALL 219 /* the kernel goes on with one that was interrupted, and which it is is not known */

static const struct {
	const char *one, *many;
} words[DOING_COUNT] = {
	[DOING_RUNS] = { "runs", "run" },
	[DOING_LOCK] = { "waits for a lock", "wait for a lock" },
	[DOING_PULSE] = { "waits to be pulsed (Monitor.Wait)", "wait to be pulsed (Monitor.Wait)" },
	[DOING_SEMAPHORE] = { "waits for a semaphore", "wait for a semaphore" },
	[DOING_RWLOCK] = { "waits for a reader-writer lock", "wait for a reader-writer lock" },
	[DOING_TASK] = { "blocks on a task", "block on a task" },
	[DOING_QUEUE] = { "waits for an item of a queue", "wait for an item of a queue" },
	[DOING_ROOM] = { "waits for room in a queue", "wait for room in a queue" },
	[DOING_INIT] = { "waits for a static constructor", "wait for a static constructor" },
	[DOING_EVENT] = { "waits for an event", "wait for an event" },
	[DOING_MEETING] = { "waits for others (barrier)", "wait for others (barrier)" },
	[DOING_JOIN] = { "waits for a thread's end", "wait for a thread's end" },
	[DOING_SLEEP] = { "sleeps", "sleep" },
	[DOING_SOCKET] = { "waits for a socket", "wait for a socket" },
	[DOING_FILE] = { "reads or writes a file", "read or write files" },
	[DOING_PIPE] = { "waits for a pipe", "wait for a pipe" },
	[DOING_CONSOLE] = { "reads the console", "read the console" },
	[DOING_CHILD] = { "waits for a child process", "wait for a child process" },
	[DOING_NAME] = { "looks up a host name", "look up a host name" },
	[DOING_CALL] = { "is in a system call", "are in a system call" },
	[DOING_NATIVE] = { "is outside of managed code", "are outside of managed code" },
	[DOING_IDLE] = { "is idle", "are idle" },
};

static size_t call_index(int32_t call)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].call == call)
			return i;
	return ARRAY_SIZE(calls);
}

/* Threads that the runtime made for itself and that run no managed method. Core files do not keep their names. */
static bool is_runtime_own(const struct seen_thread *t)
{
	bool nameless = !*t->os_name && !t->name && t->state & DAC_THREAD_BACKGROUND;
	return t->finalizer || nameless || str_starts(t->os_name, ".NET ");
}

/* A worker of the pool between two pieces of work: it looks for the next one. */
static bool looks_for_work(const struct seen *s, const struct seen_thread *t)
{
	static const char *const machinery[] = { "System.Threading.PortableThreadPool.", "System.Threading.LowLevel",
						 "System.Threading.ThreadPoolWorkQueue.",
						 "System.Threading.Thread.StartCallback" };
	for (size_t i = 0; i < t->n; i++) {
		bool part = false;
		for (size_t k = 0; k < ARRAY_SIZE(machinery); k++)
			part |= str_starts(seen_frame(s, t, i)->name, machinery[k]);
		if (!part)
			return false;
	}
	return t->n > 0;
}

/* A star stands for anything. */
static bool fits(const char *name, const char *rule)
{
	const char *star = strchr(rule, '*');
	return star ? !strncmp(name, rule, (size_t)(star - rule)) && strstr(name, star + 1) : str_starts(name, rule);
}

enum doing seen_doing(const struct seen *s, const struct seen_thread *t)
{
	size_t own = seen_site(s, t), call = call_index(t->call);
	if (looks_for_work(s, t))
		return DOING_IDLE;
	if (t->call == SEEN_RUNS && t->n)
		return DOING_RUNS;
	if (t->call == SEEN_UNKNOWN && t->cooperative)
		return DOING_RUNS;
	for (size_t r = 0; r < ARRAY_SIZE(rules); r++)
		for (size_t i = 0; i < own; i++)
			if (fits(seen_frame(s, t, i)->name, rules[r].starts))
				return rules[r].doing;
	if (!t->n && is_runtime_own(t))
		return DOING_IDLE;
	if (call < ARRAY_SIZE(calls))
		return calls[call].doing;
	return t->call >= 0 && t->call != RESTARTED_CALL ? DOING_CALL : DOING_NATIVE;
}

void doing_words(enum doing doing, const struct seen_thread *t, bool several, struct buf *out)
{
	size_t call = doing == DOING_CALL ? call_index(t->call) : ARRAY_SIZE(calls);
	if (call < ARRAY_SIZE(calls) && calls[call].words)
		buf_str(out, several ? calls[call].many : calls[call].words);
	else
		buf_str(out, several ? words[doing].many : words[doing].one);
	if (t->native)
		buf_printf(out, ": %s", t->native);
}

bool doing_is_blocked(enum doing doing)
{
	return doing >= DOING_LOCK && doing <= DOING_JOIN;
}

bool doing_keeps_worker(enum doing doing)
{
	return doing_is_blocked(doing) || doing == DOING_SOCKET;
}

void seen_thread_brief(const struct seen_thread *t, struct buf *out)
{
	/* The runtime's name for a worker is that of all of them. */
	if (t->name && !str_starts(t->name, ".NET "))
		buf_printf(out, "'%s'", t->name);
	else if (t->state & DAC_THREAD_POOL)
		buf_printf(out, "pool thread %u", t->managed_id);
	else
		buf_printf(out, "thread %u", t->managed_id ? t->managed_id : t->os_id);
}

void seen_thread_words(const struct seen_thread *t, struct buf *out)
{
	seen_thread_brief(t, out);
	if (t->os_id)
		buf_printf(out, " (tid %u)", t->os_id);
}
