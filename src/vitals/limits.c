#include "vitals/limits.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "target/connections.h"
#include "target/cpus.h"
#include "target/descriptors.h"
#include "target/proc.h"
#include "target/threads.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PEERS_MAX 65536
#define MAPS_BYTES_MAX ((size_t)64 << 20)

static const char *const ids[LIMITS_NUMBERS_N] = {
#define LIMITS_ID(name, id) [LIMITS_##name] = (id),
	LIMITS_NUMBERS(LIMITS_ID)
#undef LIMITS_ID
};

/* The number behind a key of "MemTotal:  24105 kB", or that a file begins with; LIMITS_NONE without. */
static uint64_t number_at(const char *text, const char *key)
{
	const char *p = key ? strstr(text, key) : text;
	p = p ? p + (key ? strlen(key) : 0) : "";
	p += strspn(p, " \t");
	return *p >= '0' && *p <= '9' ? strtoull(p, NULL, 10) : LIMITS_NONE;
}

static uint64_t setting(const char *proc, const char *name)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	return file_text(&text, "%s/sys/%s", proc, name) ? number_at(buf_cstr(&text), NULL) : LIMITS_NONE;
}

static uint64_t kilobytes(const char *text, const char *key)
{
	uint64_t n = number_at(text, key);
	return n == LIMITS_NONE || n > LIMITS_NONE / 1024 ? LIMITS_NONE : n * 1024;
}

/* ---- the process ---- */

static void look_at_process(const char *proc, const struct target *t, struct limits_look *l)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct target_cpus cpus = target_cpus(proc, t->pid);
	l->of[LIMITS_CPUS_MACHINE] = cpus.machine;
	l->of[LIMITS_CPUS_ALLOWED] = cpus.allowed;
	l->of[LIMITS_FDS] = descriptors_count(proc, t->pid);
	if (!target_cpu_ns(t, &l->of[LIMITS_CPU_NS]))
		l->of[LIMITS_CPU_NS] = LIMITS_NONE;
	if (file_text(&text, "%s/%d/limits", proc, (int)t->pid)) {
		proc_parse_limit(buf_cstr(&text), "Max open files", &l->of[LIMITS_FDS_LIMIT]);
		proc_parse_limit(buf_cstr(&text), "Max processes", &l->of[LIMITS_USER_THREADS_LIMIT]);
	}
	buf_clear(&text);
	if (file_text(&text, "%s/%d/status", proc, (int)t->pid))
		l->of[LIMITS_RSS] = kilobytes(buf_cstr(&text), "\nVmRSS:");
}

/* Root and those with CAP_SYS_RESOURCE have no limit of threads: the kernel does not ask for it. */
static bool is_exempt(const char *proc, pid_t pid)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct proc_status s;
	return !file_text(&text, "%s/%d/status", proc, (int)pid) || !proc_parse_status(buf_cstr(&text), text.len, &s) ||
	       s.uid == 0 || (s.cap_effective & (1u << 24));
}

/* What all processes of its user have together. */
static void look_at_user(const char *proc, const struct target *t, struct limits_look *l)
{
	uint64_t threads = 0;
	DIR *dir = is_exempt(proc, t->pid) ? NULL : opendir(proc);
	for (const struct dirent *e; dir && (e = readdir(dir));) {
		CLEANUP(buf_free) struct buf text = { 0 };
		struct stat st;
		if (e->d_name[0] < '0' || e->d_name[0] > '9' || fstatat(dirfd(dir), e->d_name, &st, 0) < 0 ||
		    st.st_uid != t->uid || !file_text(&text, "%s/%s/status", proc, e->d_name))
			continue;
		uint64_t n = number_at(buf_cstr(&text), "\nThreads:");
		threads += n == LIMITS_NONE ? 0 : n;
	}
	if (dir) {
		closedir(dir);
		l->of[LIMITS_USER_THREADS] = threads;
	}
	l->of[LIMITS_INOTIFY_LIMIT] = setting(proc, "fs/inotify/max_user_instances");
	if (!descriptors_inotify_of_user(proc, t->uid, &l->of[LIMITS_INOTIFY]))
		l->of[LIMITS_INOTIFY] = LIMITS_NONE;
}

/* A reading of maps holds up the process's own changes of its memory for moments: only where it was asked for. */
static void look_at_maps(const char *proc, pid_t pid, struct limits_look *l)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/maps", proc, (int)pid);
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(err_freep) struct err *err = file_read(path, MAPS_BYTES_MAX, &text);
	l->of[LIMITS_MAPS_LIMIT] = setting(proc, "vm/max_map_count");
	if (err || !text.len)
		return;
	l->of[LIMITS_MAPS] = 0;
	for (const char *p = buf_cstr(&text); (p = strchr(p, '\n')); p++)
		l->of[LIMITS_MAPS]++;
}

/* ---- ports ---- */

/* A port can be used at once for several remote ends, so what runs out are the ports towards one of them. */
struct port_count {
	uint16_t first, last;
	uint64_t time_wait;
	struct map_u64 listening; /* local ports */
	struct map_u64 ends;	  /* hash of a remote end -> connections */
	uint64_t most;
	struct connection_end most_to;
};

static void note_listening(void *user, const struct connection *c)
{
	struct port_count *p = user;
	if (c->state == CONNECTION_LISTEN)
		*map_u64_put(&p->listening, c->local.port, NULL) = 1;
}

static void count_port(void *user, const struct connection *c)
{
	struct port_count *p = user;
	p->time_wait += c->state == CONNECTION_TIME_WAIT;
	if (c->state == CONNECTION_LISTEN || !c->remote.port || c->local.port < p->first || c->local.port > p->last ||
	    map_u64_get(&p->listening, c->local.port))
		return;
	uint64_t key = hash_bytes(c->remote.address, sizeof(c->remote.address), hash_seed() + c->remote.port);
	if (p->ends.n >= PEERS_MAX && !map_u64_get(&p->ends, key))
		return;
	uint64_t n = ++*map_u64_put(&p->ends, key, NULL);
	if (n > p->most) {
		p->most = n;
		p->most_to = c->remote;
	}
}

static void look_at_ports(const char *proc, pid_t pid, struct limits_look *l)
{
	struct port_count p = { 0 };
	bool known = connections_ports(proc, pid, &p.first, &p.last), read = false;
	for (enum connection_family f = CONNECTION_TCP; f <= CONNECTION_TCP6; f++)
		connections_each(proc, pid, f, note_listening, &p);
	for (enum connection_family f = CONNECTION_TCP; f <= CONNECTION_TCP6; f++)
		read |= connections_each(proc, pid, f, count_port, &p);
	if (read)
		l->of[LIMITS_TIME_WAIT] = p.time_wait;
	if (read && known) {
		l->of[LIMITS_PORTS] = p.most;
		l->of[LIMITS_PORTS_LIMIT] = (uint64_t)(p.last - p.first) + 1;
	}
	if (p.most)
		str_copy(l->ports_to, sizeof(l->ports_to), connection_end_text(&p.most_to).s);
	map_u64_free(&p.listening);
	map_u64_free(&p.ends);
}

/* ---- the machine ---- */

static void look_at_machine(const char *proc, struct limits_look *l)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	unsigned long long used, unused, most, threads;
	if (file_text(&text, "%s/meminfo", proc)) {
		uint64_t total = kilobytes(buf_cstr(&text), "MemTotal:");
		uint64_t available = kilobytes(buf_cstr(&text), "MemAvailable:");
		if (total != LIMITS_NONE && available <= total) {
			l->of[LIMITS_RAM] = total - available;
			l->of[LIMITS_RAM_LIMIT] = total;
		}
		l->of[LIMITS_HUGE] = kilobytes(buf_cstr(&text), "AnonHugePages:");
	}
	buf_clear(&text);
	if (file_text(&text, "%s/sys/fs/file-nr", proc) &&
	    sscanf(buf_cstr(&text), "%llu %llu %llu", &used, &unused, &most) == 3) {
		l->of[LIMITS_FILES] = used - MIN(unused, used);
		l->of[LIMITS_FILES_LIMIT] = most;
	}
	buf_clear(&text);
	if (file_text(&text, "%s/loadavg", proc) && sscanf(buf_cstr(&text), "%*s %*s %*s %*u/%llu", &threads) == 1)
		l->of[LIMITS_THREADS] = threads;
	l->of[LIMITS_THREADS_LIMIT] = MIN(setting(proc, "kernel/threads-max"), setting(proc, "kernel/pid_max"));
}

void limits_look(const char *proc, const struct target *t, bool whole, struct limits_look *ret)
{
	*ret = (struct limits_look){ .at_ns = clock_mono_ns() };
	for (size_t i = 0; i < LIMITS_NUMBERS_N; i++)
		ret->of[i] = LIMITS_NONE;
	for (enum group_kind kind = 0; kind < GROUP_KINDS; kind++)
		groups_add(&ret->groups, proc, t->pid, kind);
	look_at_process(proc, t, ret);
	look_at_machine(proc, ret);
	if (!whole)
		return;
	look_at_user(proc, t, ret);
	look_at_maps(proc, t->pid, ret);
	look_at_ports(proc, t->pid, ret);
}

void limits_look_fini(struct limits_look *l)
{
	groups_fini(&l->groups);
}

void limits_looks_free(struct limits_looks *looks)
{
	vec_each(l, looks)
		limits_look_fini(l);
	vec_free(looks);
}

/* ---- in a recording ---- */

json_t *limits_looks_json(const struct limits_looks *looks)
{
	json_t *list = json_array();
	vec_each(l, looks) {
		json_t *of = json_object();
		for (size_t i = 0; i < LIMITS_NUMBERS_N; i++)
			if (l->of[i] != LIMITS_NONE)
				json_object_set_new(of, ids[i], json_integer((json_int_t)l->of[i]));
		json_array_append_new(list, json_pack("{s:I, s:o, s:o, s:s}", "at_ns", (json_int_t)l->at_ns, "of", of,
						      "groups", groups_json(&l->groups), "ports_to", l->ports_to));
	}
	return list;
}

struct err *limits_looks_from_json(const json_t *json, struct limits_looks *ret)
{
	if (!json_is_array(json))
		return err_new(ERR_BAD_DATA, "the recording has no limits");
	for (size_t i = 0; i < MIN(json_array_size(json), (size_t)LIMITS_LOOKS_MAX); i++) {
		const json_t *o = json_array_get(json, i), *of = json_object_get(o, "of");
		struct limits_look l = { .at_ns = (uint64_t)MAX(json_get_int(o, "at_ns", 0), 0) };
		for (size_t k = 0; k < LIMITS_NUMBERS_N; k++) {
			int64_t n = json_get_int(of, ids[k], -1);
			l.of[k] = n < 0 ? LIMITS_NONE : (uint64_t)n;
		}
		str_copy(l.ports_to, sizeof(l.ports_to), json_get_str(o, "ports_to", ""));
		groups_from_json(json_object_get(o, "groups"), &l.groups);
		vec_push(ret, l);
	}
	return NULL;
}
