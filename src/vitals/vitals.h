#pragma once
/* The vital signs of one process: numbers that can be read from the kernel or received from the runtime at any time
 * without stopping the process.
 *
 * A signal has an id, a unit, where it comes from, and what was measured of it over the window: the mean, the least, the
 * most, the first and the last value, and the values themselves. A signal without a value says why there is none. One
 * collection of them for all users: kernel_signs.h reads the kernel's files, runtime_signs.h receives the runtime's
 * counters and events; both add their values here. Knows no rule and no report. For one thread at a time. */

#include "base/json.h"
#include "base/vec.h"

enum vital_unit {
	VITAL_RATIO,
	VITAL_CORES,
	VITAL_BYTES,
	VITAL_BYTES_PER_SECOND,
	VITAL_PER_SECOND,
	VITAL_COUNT,
	VITAL_NS,
	VITAL_THREADS, /* how many threads were in that state, on average over the window */
};

enum vital_source { VITAL_OF_PROC, VITAL_OF_CGROUP, VITAL_OF_COUNTERS, VITAL_OF_EVENTS };

/* X(name, id, what it is, unit, source), in the order in which lists show them. Recordings keep the ids. */
#define VITALS(X)                                                                                                      \
	X(CPU, "cpu", "CPU used", CORES, PROC)                                                                         \
	X(CPU_USABLE, "cpu-usable", "CPU it may use", CORES, PROC)                                                     \
	X(CPU_RATIO, "cpu-ratio", "CPU used of what it may use", RATIO, PROC)                                          \
	X(CPU_THREAD, "cpu-thread", "CPU that the busiest thread used or waited for", CORES, PROC)                     \
	X(CPU_WAITING, "cpu-waiting", "threads that could run and had no CPU", THREADS, PROC)                          \
	X(CPU_SWITCHES, "cpu-switches", "context switches", PER_SECOND, PROC)                                          \
	X(THREADS, "threads", "threads", COUNT, PROC)                                                                  \
	X(THREADS_NEW, "threads-new", "threads at the end that were not there at the beginning", COUNT, PROC)          \
	X(THREADS_DISK, "threads-disk", "threads that wait in the kernel for a device", COUNT, PROC)                   \
	X(RSS, "rss", "resident memory", BYTES, PROC)                                                                  \
	X(RSS_ANON, "rss-anon", "resident memory that is no file", BYTES, PROC)                                        \
	X(RSS_FILE, "rss-file", "resident memory of files", BYTES, PROC)                                               \
	X(RSS_SHMEM, "rss-shmem", "resident shared memory", BYTES, PROC)                                               \
	X(SWAP, "swap", "memory swapped out", BYTES, PROC)                                                             \
	X(FDS, "fds", "open descriptors", COUNT, PROC)                                                                 \
	X(FDS_LIMIT, "fds-limit", "descriptors it may open", COUNT, PROC)                                              \
	X(FDS_SOCKETS, "fds-sockets", "sockets", COUNT, PROC)                                                          \
	X(FDS_PIPES, "fds-pipes", "pipes", COUNT, PROC)                                                                \
	X(FDS_FILES, "fds-files", "files and devices", COUNT, PROC)                                                    \
	X(FDS_INOTIFY, "fds-inotify", "watchers of files (inotify)", COUNT, PROC)                                      \
	X(INOTIFY_LIMIT, "inotify-limit", "inotify watchers that a user may have", COUNT, PROC)                        \
	X(SOCKETS_ESTABLISHED, "sockets-established", "connections", COUNT, PROC)                                      \
	X(SOCKETS_CLOSE_WAIT, "sockets-close-wait", "connections that the other side has closed", COUNT, PROC)         \
	X(SOCKETS_TIME_WAIT, "sockets-time-wait", "closed connections that still hold a port", COUNT, PROC)            \
	X(SOCKETS_BACKLOG, "sockets-backlog", "connections that nobody has accepted yet", COUNT, PROC)                 \
	X(THROTTLED, "throttled", "periods in which the CPU limit was used up", RATIO, CGROUP)                         \
	X(THROTTLED_TIME, "throttled-time", "time that threads stood still for the CPU limit", THREADS, CGROUP)        \
	X(MEMORY_USED, "memory-used", "memory that counts against its limit", BYTES, CGROUP)                           \
	X(MEMORY_LIMIT, "memory-limit", "memory limit", BYTES, CGROUP)                                                 \
	X(MEMORY_PRESSURE, "memory-pressure", "time in which somebody waited for memory", RATIO, CGROUP)               \
	X(MEMORY_KILLS, "memory-kills", "processes of its group killed for lack of memory so far", COUNT, CGROUP)      \
	X(PIDS, "pids", "threads and processes in its group", COUNT, CGROUP)                                           \
	X(PIDS_LIMIT, "pids-limit", "threads and processes its group may have", COUNT, CGROUP)                         \
	X(HEAP, "heap", "managed heap", BYTES, COUNTERS)                                                               \
	X(HEAP_COMMITTED, "heap-committed", "memory committed by the GC", BYTES, COUNTERS)                             \
	X(ALLOCATED, "allocated", "allocation", BYTES_PER_SECOND, COUNTERS)                                            \
	X(FRAGMENTED, "fragmented", "holes in the heap", RATIO, COUNTERS)                                              \
	X(GC_COUNTER, "gc-counter", "time in GC between the last two collections", RATIO, COUNTERS)                    \
	X(EXCEPTIONS, "exceptions", "exceptions", PER_SECOND, COUNTERS)                                                \
	X(CONTENTIONS, "contentions", "lock contentions", PER_SECOND, COUNTERS)                                        \
	X(POOL_THREADS, "pool-threads", "pool threads", COUNT, COUNTERS)                                               \
	X(POOL_QUEUE, "pool-queue", "work items that wait for a pool thread", COUNT, COUNTERS)                         \
	X(POOL_DONE, "pool-done", "work items done", PER_SECOND, COUNTERS)                                             \
	X(TIMERS, "timers", "active timers", COUNT, COUNTERS)                                                          \
	X(ASSEMBLIES, "assemblies", "loaded assemblies", COUNT, COUNTERS)                                              \
	X(JITTED, "jitted", "methods compiled", PER_SECOND, COUNTERS)                                                  \
	X(REQUESTS, "requests", "requests served", PER_SECOND, COUNTERS)                                               \
	X(REQUESTS_NOW, "requests-now", "requests in flight", COUNT, COUNTERS)                                         \
	X(REQUESTS_FAILED, "requests-failed", "requests that failed, since the start", COUNT, COUNTERS)                \
	X(KESTREL_CONNECTIONS, "kestrel-connections", "connections of the web server", COUNT, COUNTERS)                \
	X(KESTREL_QUEUE, "kestrel-queue", "connections or requests that the web server has queued", COUNT, COUNTERS)   \
	X(HTTP_OUT, "http-out", "HTTP requests sent", PER_SECOND, COUNTERS)                                            \
	X(HTTP_OUT_NOW, "http-out-now", "HTTP requests sent that have no answer yet", COUNT, COUNTERS)                 \
	X(HTTP_OUT_FAILED, "http-out-failed", "HTTP requests sent that failed", PER_SECOND, COUNTERS)                  \
	X(HTTP_OUT_QUEUE, "http-out-queue", "wait of HTTP requests for a connection", NS, COUNTERS)                    \
	X(CONNECTED, "connected", "connections opened to others", PER_SECOND, COUNTERS)                                \
	X(DNS, "dns", "time of a name lookup", NS, COUNTERS)                                                           \
	X(DB_BUSY, "db-busy", "database connections in use", COUNT, COUNTERS)                                          \
	X(DB_IDLE, "db-idle", "database connections that are free", COUNT, COUNTERS)                                   \
	X(GCS, "gcs", "collections", PER_SECOND, EVENTS)                                                               \
	X(GCS_FULL, "gcs-full", "full collections", PER_SECOND, EVENTS)                                                \
	X(GCS_INDUCED, "gcs-induced", "collections that code asked for", COUNT, EVENTS)                                \
	X(GC_PAUSED, "gc-paused", "time in which the GC stopped everything", RATIO, EVENTS)                            \
	X(GC_LONGEST, "gc-longest", "longest stop", NS, EVENTS)                                                        \
	X(HEAP_OLD, "heap-old", "old and large objects after a collection", BYTES, EVENTS)                             \
	X(LOCK_WAITING, "lock-waiting", "threads that wait for a lock", THREADS, EVENTS)                               \
	X(LOCK_LONGEST, "lock-longest", "longest wait for a lock", NS, EVENTS)                                         \
	X(POOL_STARVED, "pool-starved", "times that the pool grew because its threads were blocked", COUNT, EVENTS)

enum vital_id {
#define VITAL_ENUM(name, id, label, unit, source) VITALS_##name,
	VITALS(VITAL_ENUM)
#undef VITAL_ENUM
		VITALS_N
};

struct vital_info {
	const char *id, *label;
	enum vital_unit unit;
	enum vital_source source;
};
extern const struct vital_info vital_infos[VITALS_N];
const char *vital_source_name(enum vital_source source); /* "/proc", "cgroup" ... */

#define VITAL_POINTS_MAX 600
struct vital_point {
	uint64_t at_ns; /* monotonic */
	double value;
};

struct vital {
	double sum, min, max, first, last;
	uint32_t n;  /* values so far; 0 = not available */
	char *why;   /* why it is not available; NULL = nobody has looked for it */
	bool absent; /* it was seen that there is nothing to measure: no limit is set, no web server runs ... */
	VEC(struct vital_point) points;
};

/* A thread that used much CPU, or waited long for one. */
struct vitals_thread {
	int tid;
	char name[16];	     /* as the kernel has it; not trusted */
	double cpu, waiting; /* cores that it used, and that it waited for, on average over the window */
	double wants;	     /* cpu; for a thread that computes without a break, cpu + waiting */
};
#define VITALS_THREADS_MAX 8

struct vitals {
	struct vital of[VITALS_N];
	struct vitals_thread threads[VITALS_THREADS_MAX]; /* busiest first */
	size_t n_threads;
	uint64_t start_ns, end_ns;
};

void vitals_fini(struct vitals *v);
/* Adds one value; infinities and NAN are ignored. */
void vitals_add(struct vitals *v, enum vital_id id, uint64_t at_ns, double value);
/* Sets the one value of the whole window up to at_ns; it replaces an earlier one. */
void vitals_total(struct vitals *v, enum vital_id id, uint64_t at_ns, double value);
/* Says why a signal has no value. The first reason stays. */
void vitals_lack(struct vitals *v, enum vital_id id, const char *why);
/* It was seen that there is nothing to measure: "no memory limit is set". */
void vitals_absent(struct vitals *v, enum vital_id id, const char *why);
/* The same as vitals_lack() for all of a source that have no value and no reason. */
void vitals_lack_source(struct vitals *v, enum vital_source source, const char *why);
bool vitals_has(const struct vitals *v, enum vital_id id);
double vitals_mean(const struct vitals *v, enum vital_id id); /* NAN without */
/* Change per second from the first value to the last; NAN with fewer than two. */
double vitals_slope(const struct vitals *v, enum vital_id id);

/* What was read from the kernel, for a recording: the signals of /proc and cgroup, the threads and the window. What is
 * read back may be damaged or hostile. */
json_t *vitals_json(const struct vitals *v);
struct err *vitals_from_json(const json_t *json, struct vitals *ret) MUST_USE;
