/* Takes images by our library in the target, for the end-to-end tests; says what they cost, as one JSON object a line.
 * Built with places at which it can be made to die (fault.c).
 *
 *   attach_probe PID [--times N] [--send-dac] [--fault STEP] [--max-pause MS] [--max-life MS] [--library FILE]
 *                [--unseen]   as if only its socket were visible */
#include "attach/attach.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "ipc/patient.h"
#include <stdio.h>
#include <stdlib.h>

struct wishes {
	struct attach_options options;
	uint64_t times;
	bool unseen;
};

static struct wishes parse(int argc, char **argv)
{
	struct wishes w = { .times = 1, .options.max_pause_ms = 10000 };
	for (int i = 0; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "0";
		if (str_eq(argv[i], "--times"))
			w.times = strtoull(value, NULL, 10);
		else if (str_eq(argv[i], "--fault"))
			w.options.fault = (uint32_t)strtoul(value, NULL, 10);
		else if (str_eq(argv[i], "--max-pause"))
			w.options.max_pause_ms = strtoull(value, NULL, 10);
		else if (str_eq(argv[i], "--max-life"))
			w.options.max_life_ms = strtoull(value, NULL, 10);
		else if (str_eq(argv[i], "--library"))
			w.options.library = value;
		else if (str_eq(argv[i], "--send-dac"))
			w.options.send_dac = true;
		else if (str_eq(argv[i], "--unseen"))
			w.unseen = true;
	}
	return w;
}

static uint64_t bytes_of(const struct image *img)
{
	size_t n;
	uint64_t bytes = 0;
	const struct image_piece *p = image_pieces(img, &n);
	for (size_t i = 0; i < n; i++)
		bytes += p[i].fd == IMAGE_FD_ZERO ? 0 : p[i].end - p[i].start;
	return bytes;
}

static void say(const struct image *img, const struct attach_facts *f)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, false);
	size_t threads, modules;
	image_threads(img, &threads);
	image_modules(img, &modules);
	jsonw_object(&w, NULL);
	jsonw_u64(&w, "pauseNs", f->pause_ns);
	jsonw_u64(&w, "suspendNs", f->suspend_ns);
	jsonw_u64(&w, "saveNs", f->save_ns);
	jsonw_u64(&w, "cloneNs", f->clone_ns);
	jsonw_u64(&w, "resumeNs", f->resume_ns);
	jsonw_u64(&w, "attachNs", f->attach_ns);
	jsonw_u64(&w, "streamNs", f->stream_ns);
	jsonw_u64(&w, "wholeNs", f->whole_ns);
	jsonw_u64(&w, "attempts", f->attempts);
	jsonw_u64(&w, "saved", f->saved_bytes);
	jsonw_u64(&w, "left", f->left_bytes);
	jsonw_u64(&w, "bytes", bytes_of(img));
	jsonw_u64(&w, "threads", threads);
	jsonw_u64(&w, "modules", modules);
	jsonw_bool(&w, "dac", image_file_named(img, "libmscordaccore.so") >= 0);
	jsonw_object_end(&w);
	puts(buf_cstr(&out));
	fflush(stdout);
}

static struct err *run(const char *spec, const struct wishes *w)
{
	CLEANUP(patient_fini) struct patient p = { 0 };
	TRY(patient_find(spec, 2000, &p));
	if (w->unseen)
		p.target.pid = 0;
	for (uint64_t i = 0; i < w->times; i++) {
		CLEANUP(image_closep) struct image *img = NULL;
		struct attach_facts facts;
		TRY(attach_image(&p, &w->options, &facts, &img));
		say(img, &facts);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	struct wishes w = parse(argc - 2, argv + 2);
	struct err *err = run(argv[1], &w);
	if (err)
		fprintf(stderr, "%s: %s\n", err_kind_name(err_kind(err)), err_text(err));
	int code = err ? 1 : 0;
	err_free(err);
	return code;
}
