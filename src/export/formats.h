#pragma once
/* A sealed profile as a file that other programs open. */

#include "base/vec.h"
#include "export/out.h"
#include "export/profile.h"

enum export_format {
	EXPORT_FOLDED,	   /* "thread;frame;frame COUNT" lines: flame graph scripts, inferno */
	EXPORT_SPEEDSCOPE, /* speedscope.app */
	EXPORT_CHROMIUM,   /* Trace Event Format: chrome://tracing, Perfetto */
	EXPORT_PPROF,	   /* profile.pb.gz: go tool pprof, Pyroscope, Grafana */
	EXPORT_FORMATS,
};
struct export_info {
	const char *name;     /* of what was profiled: "Shop.Api (1234)" */
	const char *program;  /* that writes the file: "drdotnet 1.2.3.4" */
	const char *event;    /* what a sample is: "samples", "exceptions" */
	uint64_t pid;	      /* 0 = not known */
	int64_t unix_ns;      /* wall clock when the profile starts; 0 = not known */
	uint64_t interval_ns; /* between samples; 0 = not known */
};
/* "folded", "speedscope" ...; NULL behind the last. */
const char *export_format_name(enum export_format format);
/* By the end of a file's name: .folded, .speedscope.json, .chromium.json, .pb.gz ...; false when it does not tell. */
bool export_format_of(const char *path, enum export_format *ret);
/* Gzip comes from the format: pass it to out_init. */
bool export_format_gzip(enum export_format format);
/* Writes into out; the caller finishes it. */
struct err *export_write(enum export_format format, const struct profile *p, const struct export_info *info,
			 struct out *out) MUST_USE;

/* One for each; private to export. */
struct err *folded_write(const struct profile *p, struct out *out) MUST_USE;
struct err *speedscope_write(const struct profile *p, const struct export_info *info, struct out *out) MUST_USE;
struct err *chromium_write(const struct profile *p, const struct export_info *info, struct out *out) MUST_USE;
struct err *pprof_write(const struct profile *p, const struct export_info *info, struct out *out) MUST_USE;

/* A thread's samples as frames that open and close: the samples of a time profile follow each other, and what two of
 * them have in common stays open in between. Private to export. */
struct spans {
	const struct profile *profile;
	void *user;
	/* depth counts from 0; frames close leaf first. */
	void (*open)(void *user, uint32_t frame, uint64_t at_ns);
	void (*close)(void *user, uint32_t frame, uint64_t opened_ns, uint64_t at_ns);
	struct profile_path path, next;
	VEC(uint64_t) opened;
	uint32_t node;
	uint64_t end_ns;
};
struct err *spans_read(struct spans *s, uint32_t thread) MUST_USE;
void spans_fini(struct spans *s);
