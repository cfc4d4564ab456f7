/* Native code below managed threads: unwound from registers and stack of the image, named by the symbols of the files.
 */

#include "base/str.h"
#include "threads/thread_snapshot.h"
#include "sampler/unwind.h"
#include <string.h>

#define STACK_BYTES (64u << 10)
#define THREADS_MAX 200 /* that are unwound */
#define NAME_MAX_CHARS 60

static const struct image_thread *image_thread(const struct image *image, uint32_t os_id)
{
	size_t n;
	const struct image_thread *all = image_threads(image, &n);
	for (size_t i = 0; i < n; i++)
		if ((uint32_t)all[i].tid == os_id && all[i].has_regs)
			return &all[i];
	return NULL;
}

static struct unwind_regs registers(const struct image_regs *r)
{
	return (struct unwind_regs){ .r = { r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi, r->r8,
					    r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15 },
				     .ip = r->rip };
}

/* Libraries whose frames only pass calls on. */
static bool is_plumbing(const char *file)
{
	static const char *const names[] = { "libc.so", "libc-", "ld-linux", "libpthread", "libcoreclr.so", "[vdso]" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_starts(file, names[i]))
			return true;
	return false;
}

/* "libfoo.so foo_wait" of the innermost frame that is not plumbing and has a name, before managed code begins; else the
 * library alone. */
static void name_frames(struct space *space, const struct unwound *u, struct buf *out)
{
	for (size_t i = 0; i < u->n; i++) {
		uint64_t ip = unwound_exact(u, i) ? u->ips[i] : u->ips[i] - 1;
		const struct space_map *map = space_find(space, ip);
		struct space_object *object = map && map->object ? space_open(space, map) : NULL;
		/* The JIT's memory and assemblies: managed. */
		if (!object || !object->elf)
			return;
		if (is_plumbing(object->name))
			continue;
		CLEANUP(buf_free) struct buf symbol = { 0 };
		if (!out->len)
			str_add_visible(out, object->name, strlen(object->name), NAME_MAX_CHARS);
		if (!space_symbol(space, map, ip, &symbol))
			continue;
		buf_clear(out);
		str_add_visible(out, object->name, strlen(object->name), NAME_MAX_CHARS);
		buf_char(out, ' ');
		str_add_visible(out, buf_cstr(&symbol), symbol.len, NAME_MAX_CHARS);
		return;
	}
}

/* The user's own code called it, without frames of the platform between that would say more. */
static bool helps(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	enum activity doing = snapshot_activity(s, t);
	size_t site = snapshot_site(s, t);
	return t->n && site < t->n && site <= 1 && t->waits_for == SNAPSHOT_NONE && doing != ACTIVITY_RUNS &&
	       doing != ACTIVITY_IDLE && !activity_is_blocked(doing);
}

static bool no_method(void *user, uint64_t address, struct unwind_method *ret)
{
	(void)user, (void)address, (void)ret;
	return false;
}

void thread_snapshot_find_native(struct thread_snapshot *s, const struct image_exam *look)
{
	CLEANUP(space_freep) struct space *space = NULL;
	CLEANUP(unwinder_freep) struct unwinder *unwinder = NULL;
	CLEANUP(mem_freep) uint8_t *stack = NULL;
	CLEANUP(mem_freep) struct unwound *found = NULL;
	size_t done = 0;
	vec_each(t, &s->threads) {
		const struct image_thread *thread = image_thread(look->image, t->os_id);
		if (!look->target || !thread || !helps(s, t) || done++ >= THREADS_MAX)
			continue;
		if (!space) {
			space = space_new(look->target->pid);
			unwinder = unwinder_new(space, no_method, NULL);
			stack = mem_alloc(STACK_BYTES);
			found = mem_zalloc(sizeof(*found));
		}
		struct unwind_regs regs = registers(&thread->regs);
		struct unwind_stack bytes = { .sp = thread->regs.rsp, .bytes = stack };
		image_read(look->image, bytes.sp, stack, STACK_BYTES, &bytes.n);
		bytes.full = bytes.n == STACK_BYTES;
		unwind(unwinder, &regs, &bytes, found);
		CLEANUP(buf_free) struct buf name = { 0 };
		name_frames(space, found, &name);
		if (name.len)
			t->native = strtab_get(&s->strings, strtab_add(&s->strings, name.data, name.len));
	}
}
