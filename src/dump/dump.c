#include "dump/dump.h"
#include "attach/attach.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "dac/dac.h"
#include "dump/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define MINI_BYTES ((uint64_t)64 << 20)

static const char *const type_names[] = { "mini", "heap", "full" };

const char *dump_type_name(enum dump_type type)
{
	return type_names[type];
}

struct err *dump_type_parse(const char *word, enum dump_type *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(type_names); i++) {
		if (!str_eq(word, type_names[i]))
			continue;
		*ret = (enum dump_type)i;
		return NULL;
	}
	return err_new(ERR_USAGE, "a dump is of type mini, heap or full, not '%s'", word);
}

/* ---- room ---- */

uint64_t dump_estimate(const struct patient *p, enum dump_type type)
{
	return type == DUMP_MINI ? MIN(p->target.rss_bytes, MINI_BYTES) : p->target.rss_bytes;
}

struct err *dump_check_room(int folder, const char *name, uint64_t need)
{
	struct statvfs fs;
	if (fstatvfs(folder, &fs) < 0)
		return err_errno(errno, "'%s'", name);
	uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (need > room)
		return err_new(ERR_IO, "the dump needs about %s, and the disk of '%s' has %s left", fmt_bytes(need).s,
			       name, fmt_bytes(room).s);
	return NULL;
}

static struct err *check_path(const struct patient *p, const struct dump_order *o)
{
	TRY(file_check_regular(o->path));
	CLEANUP(mem_freep) char *folder = file_folder(o->path);
	CLOSE_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || access(folder, W_OK | X_OK) < 0)
		return err_errno(errno, "'%s' cannot be written into", folder);
	return dump_check_room(fd, folder, dump_estimate(p, o->type));
}

struct err *dump_check(const struct patient *p, const struct dump_order *o, uint64_t *ret_ns)
{
	struct image_forecast forecast;
	*ret_ns = 0;
	TRY(check_path(p, o));
	if (o->by_runtime)
		return p->target.socket && p->answered
			       ? NULL
			       : err_new(ERR_UNSUPPORTED,
					 "its runtime does not answer, so it cannot be asked to write one; without "
					 "--by-runtime it is taken from a copy");
	if (o->agent) {
		TRY(attach_check(p, NULL));
		TRY(image_forecast_inside(&p->target, &o->limits, &forecast));
		*ret_ns = forecast.pause_ns;
		return NULL;
	}
	if (o->type == DUMP_MINI)
		TRY_WRAP(dac_check_target(&p->target, NULL, NULL),
			 "what a mini dump needs can only be told by the runtime's library");
	TRY(image_forecast(&p->target, &o->limits, &forecast));
	*ret_ns = forecast.pause_ns;
	return NULL;
}

/* ---- from a copy ---- */

/* Asks the questions that a reader of a small dump will ask, so that the memory needed for the answers is known. */
static void ask_around(struct dac *dac)
{
	struct dac_threads threads = { 0 };
	struct dac_addresses methods = { 0 };
	struct dac_facts facts;
	struct dac_exception exception;
	const struct dac_modules *modules;
	err_ignore(dac_facts(dac, &facts));
	err_ignore(dac_modules(dac, &modules));
	err_ignore(dac_threads(dac, &threads));
	err_ignore(dac_name_threads(dac, &threads));
	vec_each(t, &threads) {
		struct dac_stack stack = { 0 };
		for (uint64_t object = t->exception, depth = 0; object && depth < 32; depth++) {
			struct err *err = dac_exception(dac, object, &exception);
			object = err ? 0 : exception.inner;
			err_free(err);
		}
		if (t->os_id)
			err_ignore(dac_stack(dac, t->os_id, &stack));
		vec_each(f, &stack)
			if (f->method)
				vec_push(&methods, f->method);
		dac_stack_free(&stack);
	}
	err_ignore(dac_learn_methods(dac, methods.v, methods.n));
	dac_addresses_free(&methods);
	dac_threads_free(&threads);
}

/* The headers of assemblies tell which build they are of. */
static void read_headers(struct image *img, struct dac *dac)
{
	const struct dac_modules *modules;
	struct err *err = dac_modules(dac, &modules);
	if (err) {
		err_free(err);
		return;
	}
	vec_each(m, modules) {
		char page[1024];
		size_t got;
		image_read(img, m->il_base, page, sizeof(page), &got);
	}
}

static struct err *find_mini_ranges(const struct patient *p, struct image *img, struct image_ranges *ret)
{
	bool visible = p->target.pid && !p->target.no_access;
	CLEANUP(mem_freep) char *root = visible ? mem_printf("/proc/%d/root", (int)p->target.pid) : NULL;
	/* Our library sends the runtime's along where we cannot see it. */
	struct dac_options options = { .root = root, .library_fd = MAX(image_file_named(img, DAC_LIBRARY), 0) };
	CLEANUP(dac_closep) struct dac *dac = NULL;
	struct dac_ranges memory = { 0 };
	image_watch_reads(img, ret);
	struct err *err = dac_open(img, &options, &dac);
	if (!err) {
		ask_around(dac);
		read_headers(img, dac);
		err = dac_memory(dac, &memory);
	}
	image_watch_reads(img, NULL);
	vec_each(r, &memory)
		vec_push(ret, ((struct image_range){ r->start, r->size }));
	dac_ranges_free(&memory);
	return err;
}

static bool on_written(void *user, uint64_t done, uint64_t whole)
{
	const struct dump_order *o = user;
	return !o->on || o->on(o->user, whole ? (double)done / (double)whole : -1, "writing");
}

static struct err *take_copy(const struct patient *p, struct dump_order *o, struct image **ret)
{
	/* A dump taken during a collection holds a heap in disorder: better a moment later. */
	if (o->type != DUMP_MINI)
		o->limits.busy_word = dac_busy_word(&p->target);
	struct err *busy = image_take_snapshot(&p->target, &o->limits, ret);
	if (busy && (err_kind(busy) != ERR_BUSY || !o->limits.busy_word))
		return busy;
	if (busy) {
		err_free(busy);
		o->limits.busy_word = 0;
		TRY(image_take_snapshot(&p->target, &o->limits, ret));
	}
	return NULL;
}

static struct err *copy_collect(const struct patient *p, struct dump_order *o, struct dump_result *ret)
{
	CLEANUP(image_closep) struct image *img = NULL;
	CLEANUP(mem_freep) char *folder = file_folder(o->path);
	struct image_ranges ranges = { 0 };
	struct image_core_written written;
	static const enum image_core_kind kinds[] = { IMAGE_CORE_MINI, IMAGE_CORE_HEAP, IMAGE_CORE_FULL };
	struct image_forecast forecast = { 0 };
	if (o->agent)
		TRY(image_forecast_inside(&p->target, &o->limits, &forecast));
	struct attach_options options = { .max_pause_ms = forecast.max_pause_ms,
					  .send_dac = o->type == DUMP_MINI,
					  .spool = folder };
	struct attach_facts facts = { 0 };
	TRY(o->agent ? attach_image(p, &options, &facts, &img) : take_copy(p, o, &img));
	struct err *err = o->type == DUMP_MINI ? find_mini_ranges(p, img, &ranges) : NULL;
	struct image_core_content content = { kinds[o->type], ranges.v, ranges.n };
	struct image_progress progress = { on_written, o };
	if (!err)
		err = image_write_core_of(img, o->path, &content, &progress, &written);
	vec_free(&ranges);
	if (err)
		return err;
	ret->cost = o->agent ? (struct image_cost){ .pause_ns = facts.pause_ns,
						    .limit_ns = options.max_pause_ms * NS_PER_MS,
						    .lifetime_ns = facts.stream_ns,
						    .left_bytes = facts.left_bytes }
			     : image_cost(img);
	ret->held_ns = ret->cost.pause_ns;
	ret->bytes = written.bytes;
	ret->disk_bytes = written.disk_bytes;
	ret->unread_bytes = written.unread_bytes;
	return NULL;
}

struct err *dump_collect(const struct patient *p, const struct dump_order *order, struct dump_result *ret)
{
	struct dump_order o = *order;
	*ret = (struct dump_result){ .by_runtime = o.by_runtime };
	return o.by_runtime ? runtime_collect(p, &o, ret) : copy_collect(p, &o, ret);
}
