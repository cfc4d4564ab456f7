#include "sampling/perf_samples.h"
#include "base/fd.h"
#include "base/str.h"
#include "sampling/code_files.h"
#include "sampling/sampling.h"
#include "symbols/debug_file.h"
#include "symbols/demangle.h"
#include "symbols/elffile.h"
#include "symbols/space.h"
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define FILE_BYTES_MAX ((size_t)1 << 30)
#define FRAMES_MAX 8192
#define MAPS_MAX 200000

/* A file that is mapped; by its name in the recording. */
struct perf_object {
	char *path;
	const char *name;
	struct elf *elf, *debug; /* elf NULL: not there, or another build */
	int kind;		 /* of our own symbol files; -1 */
};
struct perf_mapping {
	uint32_t pid;
	uint64_t start, end, offset;
	uint32_t object; /* UINT32_MAX: memory without a file */
};
struct process {
	uint32_t pid;
	struct methods *methods; /* NULL until asked for */
};

struct perf_reading {
	const char *dir;
	struct samples *samples;
	struct perf_samples_facts *facts;
	VEC(struct perf_object) objects;
	struct strtab object_index;
	VEC(struct perf_mapping) maps;
	VEC(struct process) processes;
	struct kernel *kernel;
	bool kernel_is_here;
	struct map_u64 known; /* hash of pid and address -> frame + 1; cleared when mappings change */
	uint32_t frames[FRAMES_MAX];
	struct buf text;
};

/* --- files --- */

/* Our own symbol files lie beside the perf.data, wherever that is now. */
static int own_kind(const char *path)
{
	for (int k = 0; k <= FRAME_OTHER; k++) {
		CLEANUP(mem_freep) char *end = mem_printf("/symbols/%s.elf", frame_kind_ids[k]);
		if (str_ends(path, end))
			return k;
	}
	return -1;
}

static struct elf *open_elf(const char *path, const char *build_id)
{
	struct elf *elf = NULL;
	CLOSE_FD int fd = file_open_regular(path, O_RDONLY);
	if (fd < 0)
		return NULL;
	struct err *err = elf_open(fd, &elf);
	if (err) {
		err_free(err);
		return NULL;
	}
	/* Another build would give wrong names, which is worse than none. */
	if (*build_id && !str_eq(elf_build_id(elf), build_id)) {
		elf_free(elf);
		return NULL;
	}
	return elf;
}

static void build_id_text(const struct perf_item *m, char text[41])
{
	text[0] = 0;
	for (size_t i = 0; i < m->build_id_len; i++)
		snprintf(text + 2 * i, 3, "%02x", m->build_id[i]);
}

static uint32_t object_of(struct perf_reading *g, const struct perf_item *m)
{
	/* "//anon", "[heap]", "/memfd:doublemapper (deleted)" */
	if (!m->text_len || m->text[0] != '/' || !strncmp(m->text, "//", MIN(m->text_len, (size_t)2)) ||
	    (m->text_len > 7 && !memcmp(m->text, "/memfd:", 7)))
		return UINT32_MAX;
	uint32_t id = strtab_add(&g->object_index, m->text, m->text_len);
	if (id < g->objects.n)
		return id;
	struct perf_object o = { .path = mem_strndup(m->text, m->text_len) };
	char build_id[41];
	build_id_text(m, build_id);
	o.name = strrchr(o.path, '/') + 1;
	o.kind = own_kind(o.path);
	g->facts->own |= o.kind >= 0;
	CLEANUP(mem_freep) char *beside = o.kind >= 0 ? mem_printf("%s/symbols/%s", g->dir, o.name) : NULL;
	o.elf = open_elf(beside ? beside : o.path, build_id);
	if (o.elf && o.kind < 0)
		o.debug = debug_file_find("", o.path, o.elf);
	vec_push(&g->objects, o);
	return id;
}

/* --- what happened before --- */

static void on_mmap(struct perf_reading *g, const struct perf_item *m)
{
	if (m->pid == UINT32_MAX || g->maps.n >= MAPS_MAX || m->size > UINT64_MAX - m->start)
		return;
	vec_push(&g->maps, ((struct perf_mapping){ m->pid, m->start, m->start + m->size, m->offset, object_of(g, m) }));
	map_u64_clear(&g->known);
}

static void on_fork(struct perf_reading *g, const struct perf_item *f)
{
	if (f->pid == f->ppid)
		return;
	for (size_t i = 0, n = g->maps.n; i < n && g->maps.n < MAPS_MAX; i++) {
		struct perf_mapping m = g->maps.v[i];
		if (m.pid != f->ppid)
			continue;
		m.pid = f->pid;
		vec_push(&g->maps, m);
	}
}

static void on_comm(struct perf_reading *g, const struct perf_item *c)
{
	bool new;
	uint32_t thread = samples_thread(g->samples, c->tid, &new);
	samples_thread_name(g->samples, thread, c->text, c->text_len);
	if (c->pid != c->tid)
		return;
	for (size_t i = 0; c->exec && i < g->maps.n; i++) {
		if (g->maps.v[i].pid == c->pid)
			g->maps.v[i].end = 0;
	}
	if (c->exec)
		map_u64_clear(&g->known);
	if (!*g->facts->process)
		snprintf(g->facts->process, sizeof(g->facts->process), "%.*s", (int)c->text_len, c->text);
}

/* --- names --- */

static struct methods *methods_of(struct perf_reading *g, uint32_t pid)
{
	vec_each(p, &g->processes) {
		if (p->pid == pid)
			return p->methods;
	}
	struct process p = { pid, methods_new() };
	if (!code_file_map(g->dir, pid, p.methods))
		code_file_map("/tmp", pid, p.methods);
	vec_push(&g->processes, p);
	return p.methods;
}

static uint32_t managed_frame(struct perf_reading *g, uint32_t pid, uint64_t ip)
{
	const struct method *m = methods_find(methods_of(g, pid), ip);
	if (!m) {
		g->facts->unnamed++;
		return samples_frame(g->samples, "[code without a name]", NULL, FRAME_OTHER);
	}
	buf_clear(&g->text);
	method_show(m->space, m->name, &g->text);
	return samples_frame(g->samples, buf_cstr(&g->text), NULL, method_kind(NULL, m->space));
}

static uint32_t object_frame(struct perf_reading *g, const struct perf_mapping *m, uint64_t ip)
{
	struct perf_object *o = &g->objects.v[m->object];
	uint64_t va;
	const char *symbol =
		o->elf && elf_va(o->elf, ip - m->start + m->offset, &va) ? elf_symbol(o->elf, o->debug, va) : NULL;
	buf_clear(&g->text);
	if (symbol && o->kind >= 0)
		buf_str(&g->text, symbol);
	else if (symbol)
		demangle_add(&g->text, symbol);
	else
		buf_printf(&g->text, "[%s]", o->name);
	g->facts->unnamed += !symbol;
	enum frame_kind kind = o->kind >= 0 ? (enum frame_kind)o->kind : native_code_kind(o->name);
	return samples_frame(g->samples, buf_cstr(&g->text), o->kind >= 0 ? NULL : o->name, kind);
}

/* The JIT's memory has no file; precompiled code lies in a .dll. */
static bool is_managed(struct perf_reading *g, const struct perf_mapping *m, uint32_t pid, uint64_t ip)
{
	if (m->object == UINT32_MAX)
		return true;
	return str_ends(g->objects.v[m->object].path, ".dll") && methods_find(methods_of(g, pid), ip);
}

static uint32_t user_frame(struct perf_reading *g, uint32_t pid, uint64_t ip)
{
	for (size_t i = g->maps.n; i-- > 0;) {
		const struct perf_mapping *m = &g->maps.v[i];
		if (m->pid == pid && ip >= m->start && ip < m->end)
			return is_managed(g, m, pid, ip) ? managed_frame(g, pid, ip) : object_frame(g, m, ip);
	}
	return managed_frame(g, pid, ip);
}

static uint32_t kernel_frame(struct perf_reading *g, uint64_t ip)
{
	const char *name = g->kernel_is_here ? kernel_symbol(g->kernel, ip) : NULL;
	g->facts->unnamed += !name;
	return samples_frame(g->samples, name ? name : "[kernel]", "kernel", FRAME_KERNEL);
}

static uint32_t frame_of(struct perf_reading *g, uint32_t pid, uint64_t ip, bool kernel)
{
	bool new;
	uint64_t key = hash_u64(ip) ^ pid ^ (uint64_t)kernel << 63;
	uint64_t *place = map_u64_put(&g->known, key, &new);
	g->facts->frames++;
	if (!new &&*place)
		return (uint32_t)(*place - 1);
	uint32_t frame = kernel ? kernel_frame(g, ip) : user_frame(g, pid, ip);
	*map_u64_put(&g->known, key, NULL) = frame + 1ull;
	return frame;
}

static void on_sample(struct perf_reading *g, const struct perf_item *s)
{
	bool kernel = s->kernel, new;
	size_t n = 0;
	if (!g->facts->pid)
		g->facts->pid = s->pid;
	for (size_t i = 0; i < s->n_chain && n < FRAMES_MAX; i++) {
		uint64_t ip = perf_item_ip(s, i, &kernel);
		/* All but the first are return addresses: the call is just before. */
		if (ip)
			g->frames[n] = frame_of(g, s->pid, ip - (n ? 1 : 0), kernel), n++;
	}
	if (!n && s->ip)
		g->frames[n++] = frame_of(g, s->pid, s->ip, s->kernel);
	if (!n)
		return;
	uint32_t thread = samples_thread(g->samples, s->tid, &new);
	uint32_t stack = samples_stack(g->samples, g->frames, n, UNWIND_ROOT, false);
	samples_add(g->samples, (s->time - MIN(s->time, g->facts->file.start)) / 1000, thread, stack,
		    g->facts->timed ? MIN(s->period, (uint64_t)1 << 40) : 1, 0);
}

static void on_item(void *user, const struct perf_item *item)
{
	static void (*const on[])(struct perf_reading *, const struct perf_item *) = { on_comm, on_fork, on_mmap,
										       on_sample };
	on[item->kind](user, item);
}

/* Recorded on this machine and since it was started? Then the kernel lies where it lay. */
static bool same_kernel(const struct perf_file_facts *f)
{
	struct utsname u;
	return uname(&u) == 0 && str_eq(u.release, f->release) && str_eq(u.nodename, f->hostname);
}

static void reading_fini(struct perf_reading *g)
{
	vec_each(o, &g->objects) {
		mem_free(o->path);
		elf_free(o->elf);
		elf_free(o->debug);
	}
	vec_each(p, &g->processes)
		methods_free(p->methods);
	vec_free(&g->objects);
	vec_free(&g->maps);
	vec_free(&g->processes);
	strtab_free(&g->object_index);
	kernel_free(g->kernel);
	map_u64_free(&g->known);
	samples_free(g->samples);
	buf_free(&g->text);
	mem_free(g);
}

static void ignore_item(void *user UNUSED, const struct perf_item *item UNUSED)
{
}

static struct err *read_all(const char *dir, const void *bytes, size_t len, struct samples **ret,
			    struct perf_samples_facts *facts)
{
	/* The header's facts about the machine are needed for the first name. */
	TRY(perf_file_read(bytes, len, ignore_item, NULL, &facts->file));
	facts->timed = facts->file.type == PERF_TYPE_SOFTWARE && facts->file.config <= PERF_COUNT_SW_TASK_CLOCK;
	struct perf_reading *g = mem_zalloc(sizeof(*g));
	g->dir = dir;
	g->facts = facts;
	g->samples = samples_new();
	g->kernel = kernel_new();
	g->kernel_is_here = same_kernel(&facts->file);
	struct perf_file_facts again;
	struct err *err = perf_file_read(bytes, len, on_item, g, &again);
	if (!err)
		*ret = STEAL(g->samples);
	reading_fini(g);
	return err;
}

struct err *perf_samples_read(const char *dir, struct samples **ret, struct perf_samples_facts *facts)
{
	*facts = (struct perf_samples_facts){ 0 };
	CLEANUP(mem_freep) char *path = mem_printf("%s/perf.data", dir);
	CLEANUP(buf_free) struct buf bytes = { .limit = FILE_BYTES_MAX + 65536 };
	/* A copy, not a mapping: the file may be truncated while we read. */
	TRY(file_read(path, FILE_BYTES_MAX, &bytes));
	TRY_WRAP(read_all(dir, buf_cstr(&bytes), bytes.len, ret, facts), "'%s'", path);
	return NULL;
}
