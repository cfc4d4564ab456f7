/* Takes images for the end-to-end tests and says what they are, as JSON on standard output. Built with places at which
 * it can be made to die (fault.c).
 *
 *   image_probe snapshot PID [--hold MS] [--max-pause MS] [--busy-word HEX] [--times N] [--read]
 *               [--write-on-enter FILE]
 *   image_probe stop PID [--hold MS]
 *   image_probe core FILE
 *   image_probe forecast PID [--max-pause MS] */
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "image/image.h"
#include "target/target.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct wishes {
	uint64_t hold_ms, times;
	bool read;
	const char *core; /* write one when a line comes in */
	struct image_limits limits;
};

static struct wishes parse(int argc, char **argv)
{
	struct wishes w = { .times = 1, .limits.max_pause_ms = 5000 };
	for (int i = 0; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "0";
		if (str_eq(argv[i], "--hold"))
			w.hold_ms = strtoull(value, NULL, 10);
		else if (str_eq(argv[i], "--max-pause"))
			w.limits.max_pause_ms = strtoull(value, NULL, 10);
		else if (str_eq(argv[i], "--max-life"))
			w.limits.max_life_ms = strtoull(value, NULL, 10);
		else if (str_eq(argv[i], "--stop"))
			w.limits.stop_ms = strtoull(value, NULL, 10);
		else if (str_eq(argv[i], "--busy-word"))
			w.limits.busy_word = strtoull(value, NULL, 16);
		else if (str_eq(argv[i], "--times"))
			w.times = strtoull(value, NULL, 10);
		else if (str_eq(argv[i], "--write-on-enter"))
			w.core = value;
		else if (str_eq(argv[i], "--read"))
			w.read = true;
	}
	return w;
}

/* Drains it once, as those who use an image do. */
static uint64_t drain(const struct image *img, uint64_t *ret_sum)
{
	static uint64_t block[1 << 17];
	size_t n;
	uint64_t bytes = 0;
	const struct image_piece *p = image_pieces(img, &n);
	for (size_t i = 0; i < n; i++) {
		for (uint64_t at = p[i].start; at < p[i].end;) {
			size_t got;
			size_t want = (size_t)MIN(p[i].end - at, (uint64_t)sizeof(block));
			image_read(img, at, block, want, &got);
			if (!got)
				break;
			for (size_t k = 0; k < got / 8; k++)
				*ret_sum = *ret_sum * 31 + block[k];
			bytes += got;
			at += got;
		}
	}
	return bytes;
}

static void add_regs(struct jsonw *w, const struct image_thread *t)
{
	jsonw_object(w, NULL);
	jsonw_i64(w, "tid", t->tid);
	jsonw_str(w, "name", t->name);
	jsonw_u64(w, "rip", t->regs.rip);
	jsonw_u64(w, "rsp", t->regs.rsp);
	jsonw_object_end(w);
}

static void say(struct image *img, uint64_t read_bytes, uint64_t sum)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, false);
	struct image_cost c = image_cost(img);
	const char *lost;
	size_t n;
	jsonw_object(&w, NULL);
	jsonw_bool(&w, "whole", image_whole(img, &lost));
	jsonw_str(&w, "lost", lost);
	jsonw_i64(&w, "pid", image_pid(img));
	jsonw_u64(&w, "predicted_ns", c.predicted_ns);
	jsonw_u64(&w, "pause_ns", c.pause_ns);
	jsonw_u64(&w, "saved_bytes", c.saved_bytes);
	jsonw_u64(&w, "left_bytes", c.left_bytes);
	jsonw_u64(&w, "copied_bytes", c.copied_bytes);
	jsonw_u64(&w, "lifetime_ns", c.lifetime_ns);
	jsonw_u64(&w, "attempts", c.attempts);
	jsonw_u64(&w, "reaped", c.reaped);
	jsonw_str(&w, "carrier", c.carrier);
	image_mappings(img, &n);
	jsonw_u64(&w, "mappings", n);
	image_pieces(img, &n);
	jsonw_u64(&w, "pieces", n);
	image_modules(img, &n);
	jsonw_u64(&w, "modules", n);
	jsonw_u64(&w, "read_bytes", read_bytes);
	jsonw_u64(&w, "sum", sum);
	jsonw_bool(&w, "runtime", image_module_named(img, "libcoreclr.so") != NULL);
	jsonw_array(&w, "threads");
	const struct image_thread *t = image_threads(img, &n);
	for (size_t i = 0; i < n; i++)
		add_regs(&w, &t[i]);
	jsonw_array_end(&w);
	jsonw_object_end(&w);
	printf("%s\n", buf_cstr(&out));
	fflush(stdout);
}

static struct err *take(const char *what, const char *of, const struct wishes *w)
{
	CLEANUP(image_closep) struct image *img = NULL;
	CLEANUP(target_fini) struct target t = { 0 };
	if (str_eq(what, "core")) {
		TRY(image_open_core(of, NULL, NULL, &img));
	} else {
		TRY(target_find_pid((pid_t)atoi(of), &t));
		if (str_eq(what, "stop"))
			TRY(image_stop(&t, &w->limits, w->hold_ms ? w->hold_ms : 50, &img));
		else
			TRY(image_take_snapshot(&t, &w->limits, &img));
	}
	uint64_t sum = 0, bytes = w->read ? drain(img, &sum) : 0;
	/* A line when the image stands, another when it is done: the test may act in between. */
	if (w->hold_ms) {
		say(img, bytes, sum);
		struct pollfd p = { .fd = w->core ? 0 : -1, .events = POLLIN };
		poll(&p, 1, (int)w->hold_ms);
	}
	if (w->core)
		TRY(image_write_core(img, w->core, NULL, NULL));
	image_drop(img);
	say(img, bytes, sum);
	return NULL;
}

static struct err *forecast(const char *of, const struct wishes *w)
{
	CLEANUP(target_fini) struct target t = { 0 };
	struct image_forecast f;
	TRY(target_find_pid((pid_t)atoi(of), &t));
	struct err *err = image_forecast(&t, &w->limits, &f);
	printf("{\"pause_ns\": %llu, \"need_bytes\": %llu, \"anon_bytes\": %llu}\n", (unsigned long long)f.pause_ns,
	       (unsigned long long)f.need_bytes, (unsigned long long)f.anon_bytes);
	return err;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	struct wishes w = parse(argc - 3, argv + 3);
	struct err *err = NULL;
	for (uint64_t i = 0; i < w.times && !err; i++)
		err = str_eq(argv[1], "forecast") ? forecast(argv[2], &w) : take(argv[1], argv[2], &w);
	if (!err)
		return 0;
	fprintf(stderr, "%s: %s\n", err_kind_name(err_kind(err)), err_text(err));
	err_free(err);
	return 1;
}
