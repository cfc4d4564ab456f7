/* The heap of a real process that stands still, against what glibc's malloc_info and the process itself say of it. */
#include "unit.h"

#include "base/str.h"
#include "malloc/allocator.h"
#include "malloc/arenas.h"
#include "target/target.h"
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SAID_MAX ((size_t)1 << 20)

struct said {
	char text[SAID_MAX];
	pid_t pid;
	int input; /* the process ends when it is closed */
};

static void begin(struct said *s)
{
	int in[2], out[2];
	size_t len = 0;
	assert_int_equal(pipe(in) | pipe(out), 0);
	s->pid = fork();
	if (!s->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		execl(getenv("CHUNKS"), "chunks", (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	s->input = in[1];
	for (ssize_t n = 1; n > 0 && !strstr(s->text, "READY"); len += (size_t)n) {
		n = read(out[0], s->text + len, sizeof(s->text) - 1 - len);
		assert_true(n > 0);
		s->text[len + (size_t)n] = 0;
	}
	close(out[0]);
}

static void end(struct said *s)
{
	int status;
	close(s->input);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* `<total type="rest" count="5" size="99"/>`: of the whole process, behind the last arena. */
static struct malloc_sum total(const struct said *s, const char *type)
{
	const char *at = strstr(s->text, "</heap>"), *next;
	char head[64];
	unsigned long long count, size;
	while ((next = strstr(at + 1, "</heap>")))
		at = next;
	snprintf(head, sizeof(head), "<total type=\"%s\" count=\"", type);
	at = strstr(at, head);
	assert_non_null(at);
	assert_int_equal(sscanf(at + strlen(head), "%llu\" size=\"%llu\"", &count, &size), 2);
	return (struct malloc_sum){ count, size };
}

static uint64_t system_now(const struct said *s)
{
	const char *at = s->text, *next;
	while ((next = strstr(at + 1, "<system type=\"current\" size=\"")))
		at = next;
	return strtoull(strchr(at, '=') + strlen("=\"current\" size=\""), NULL, 10);
}

static void look_at(const struct said *s, struct malloc_look *ret)
{
	const struct malloc_ask ask = { 0 };
	struct target target = { 0 };
	CLEANUP(image_closep) struct image *img = NULL;
	assert_ok(target_find_pid(s->pid, &target));
	assert_ok(image_peek(&target, &img));
	malloc_look(img, &ask, ret);
	target_fini(&target);
}

static struct malloc_sum sum_of(const struct malloc_look *look, enum malloc_state state)
{
	struct malloc_sum sum = { 0 };
	vec_each(a, &look->arenas) {
		sum.chunks += a->state[state].chunks;
		sum.bytes += a->state[state].bytes;
	}
	return sum;
}

#define OF_LIBC 8 /* chunks of one size, or in caches, that libc itself may have */
/* Of four threads: seven, as many as a cache takes, of 528 and 96 bytes, and the only one of 48. */
#define IN_CACHES (4 * (7 + 7 + 1))

static void as_glibc_says(void **state UNUSED)
{
	struct said *s = calloc(1, sizeof(*s));
	struct malloc_look look;
	uint64_t system = 0;
	begin(s);
	look_at(s, &look);
	assert_null(look.doubt);
	assert_true(look.arenas.n > 1);
	vec_each(a, &look.arenas) {
		if (a->doubt)
			fail_msg("arena %lx: %s", (unsigned long)a->at, a->doubt);
		system += a->system;
	}
	assert_int_equal(system, system_now(s));
	/* It counts what waits in threads' caches as used, each arena's top as free, and takes the flag in the size of a
	 * free chunk (the one before is used) for a byte of it. */
	struct malloc_sum rest = total(s, "rest"), fast = total(s, "fast"), mapped = total(s, "mmap");
	struct malloc_sum unused = sum_of(&look, MALLOC_FREE), top = sum_of(&look, MALLOC_TOP);
	assert_int_equal(unused.chunks + top.chunks, rest.chunks);
	assert_int_equal(unused.bytes + unused.chunks + top.bytes, rest.bytes);
	assert_true(fast.chunks > 0);
	assert_in_range(sum_of(&look, MALLOC_CACHED).chunks - fast.chunks, IN_CACHES, IN_CACHES + OF_LIBC);
	assert_true(look.mapped.known && look.mapped.found);
	assert_int_equal(look.mapped.sum.chunks, mapped.chunks);
	assert_int_equal(look.mapped.sum.bytes, mapped.bytes);
	assert_int_equal(look.ranges.n, mapped.chunks);
	assert_int_equal(look.lists_unread, 0);
	malloc_look_free(&look);
	end(s);
	free(s);
}

static void as_the_process_says(void **state UNUSED)
{
	struct said *s = calloc(1, sizeof(*s));
	struct malloc_look look;
	unsigned sizes = 0;
	begin(s);
	look_at(s, &look);
	for (const char *at = s->text; (at = strstr(at, "size ")) == s->text || (at && at[-1] == '\n'); at++) {
		unsigned long long size, chunks, seen = 0;
		assert_int_equal(sscanf(at, "size %llu %llu", &size, &chunks), 2);
		vec_each(c, &look.sizes)
			seen += c->size == size ? c->chunks : 0;
		assert_in_range(seen, chunks, chunks + OF_LIBC);
		sizes++;
	}
	assert_int_equal(sizes, 5);
	malloc_look_free(&look);
	end(s);
	free(s);
}

static void its_allocator_is_glibc(void **state UNUSED)
{
	static const char *const itself[] = { "chunks", NULL };
	struct said *s = calloc(1, sizeof(*s));
	struct target target = { 0 };
	struct image *img;
	begin(s);
	assert_ok(target_find_pid(s->pid, &target));
	assert_ok(image_peek(&target, &img));
	struct malloc_allocator a = malloc_allocator_of(img, itself);
	assert_int_equal(a.kind, MALLOC_GLIBC);
	image_close(img);
	target_fini(&target);
	end(s);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_glibc_says),
		cmocka_unit_test(as_the_process_says),
		cmocka_unit_test(its_allocator_is_glibc),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
