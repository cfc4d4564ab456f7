/* nettrace_counts FILE: our reader's answer to what tests/oracle/traceevent prints, in the same JSON. */

#include "base/fd.h"
#include "base/json.h"
#include "base/map.h"
#include "base/vec.h"
#include "nettrace/nettrace.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kind {
	const char *name;
	uint64_t count, bytes;
};

struct counts {
	struct strtab names;
	VEC(struct kind) kinds; /* by id of names */
	uint64_t events, disorder, last;
};

static void on_meta(void *user, struct nettrace_meta *meta)
{
	struct counts *c = user;
	CLEANUP(mem_freep) char *name = mem_printf("%s/%u", meta->provider, meta->event_id);
	uint32_t id = strtab_add_cstr(&c->names, name);
	if (id == c->kinds.n)
		vec_push(&c->kinds, ((struct kind){ .name = strtab_get(&c->names, id) }));
	meta->user = id;
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct counts *c = user;
	struct kind *kind = &c->kinds.v[event->meta->user];
	kind->count++;
	kind->bytes += event->payload_size;
	c->events++;
	c->disorder += event->time < c->last;
	c->last = event->time;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct kind *)a)->name, ((const struct kind *)b)->name);
}

static void print(struct counts *c, uint64_t lost)
{
	struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, true);
	vec_sort(&c->kinds, by_name);
	jsonw_object(&w, NULL);
	jsonw_u64(&w, "events", c->events);
	jsonw_u64(&w, "lost", lost);
	jsonw_u64(&w, "disorder", c->disorder);
	jsonw_object(&w, "kinds");
	vec_each(kind, &c->kinds) {
		if (!kind->count)
			continue;
		jsonw_object(&w, kind->name);
		jsonw_u64(&w, "count", kind->count);
		jsonw_u64(&w, "bytes", kind->bytes);
		jsonw_object_end(&w);
	}
	jsonw_object_end(&w);
	jsonw_object_end(&w);
	printf("%s\n", buf_cstr(&out));
	buf_free(&out);
}

static struct err *count(const char *path)
{
	struct counts c = { 0 };
	static uint8_t chunk[64 << 10];
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(errno, "'%s'", path);
	CLEANUP(nettrace_reader_freep)
	struct nettrace_reader *r =
		nettrace_reader_new(NULL, &(struct nettrace_callbacks){ .meta = on_meta, .event = on_event }, &c);
	ssize_t n;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		TRY(nettrace_reader_feed(r, chunk, (size_t)n));
	TRY(nettrace_reader_finish(r));
	print(&c, nettrace_reader_stats(r)->lost);
	vec_free(&c.kinds);
	strtab_free(&c.names);
	return NULL;
}

int main(int argc, char **argv)
{
	CLEANUP(err_freep)
	struct err *err = argc == 2 ? count(argv[1]) : err_new(ERR_USAGE, "usage: nettrace_counts FILE");
	if (err)
		fprintf(stderr, "nettrace_counts: %s\n", err_text(err));
	return err ? 1 : 0;
}
