#include "trace/jsonl.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "nettrace/fields.h"
#include "trace/samples.h"
#include <stdio.h>

#define PAYLOAD_BYTES ((size_t)16 << 10) /* of JSON, for one event */

struct jsonl_lines {
	const struct trace_ids *ids;
	struct methods *methods;
	struct nettrace_header header;
	struct out *out;
	struct buf text;
};

static void on_method(void *user, const struct nettrace_event *event)
{
	methods_event(user, event);
}

static void on_header(void *user, const struct nettrace_header *header)
{
	((struct jsonl_lines *)user)->header = *header;
}

static void on_meta(void *user, struct nettrace_meta *meta)
{
	(void)user;
	clr_describe(meta);
}

static void add_time(struct jsonw *w, const struct jsonl_lines *l, uint64_t ticks)
{
	int64_t ns = trace_unix_ns(&l->header, ticks);
	char text[64];
	struct fmt_text iso = fmt_time_iso(ns);
	/* To the nanosecond: events are closer to each other than a millisecond. */
	snprintf(text, sizeof(text), "%.19s.%09lldZ", iso.s, (long long)(ns < 0 ? 0 : ns % NS_PER_S));
	jsonw_str(w, "time", text);
}

static void add_guid(struct jsonw *w, const char *key, const uint8_t *g)
{
	char text[40];
	if (!g)
		return;
	snprintf(text, sizeof(text), "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", g[3], g[2],
		 g[1], g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
	jsonw_str(w, key, text);
}

static void add_stack(struct jsonw *w, struct jsonl_lines *l, const struct nettrace_event *event)
{
	if (!event->n_frames)
		return;
	jsonw_array(w, "stack");
	for (size_t i = 0; i < event->n_frames; i++) {
		buf_clear(&l->text);
		trace_frame_name(l->methods, nettrace_event_frame(event, i) - (i ? 1 : 0), &l->text);
		jsonw_strn(w, NULL, buf_cstr(&l->text), l->text.len);
	}
	jsonw_array_end(w);
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct jsonl_lines *l = user;
	const struct nettrace_meta *meta = event->meta;
	if (out_failed(l->out) || (l->ids && !trace_ids_take(l->ids, meta->provider, meta->event_id)))
		return;
	struct jsonw w = jsonw_make(&l->out->buf, false);
	jsonw_object(&w, NULL);
	add_time(&w, l, event->time);
	jsonw_str(&w, "provider", meta->provider);
	jsonw_u64(&w, "id", meta->event_id);
	jsonw_str(&w, "event", str_empty(meta->name) ? NULL : meta->name);
	if (event->process_id && event->process_id != l->header.pid)
		jsonw_u64(&w, "process", event->process_id);
	jsonw_u64(&w, "thread", event->thread_id);
	add_guid(&w, "activity", event->activity_id);
	add_guid(&w, "relatedActivity", event->related_activity_id);
	if (event->payload_size)
		nettrace_event_json(event, &w, "payload", PAYLOAD_BYTES);
	add_stack(&w, l, event);
	jsonw_object_end(&w);
	buf_char(&l->out->buf, '\n');
	out_turn(l->out);
}

static struct err *read_names(const char *path, struct methods *methods)
{
	static const struct nettrace_callbacks callbacks = { .event = on_method };
	static const struct nettrace_options unordered = { .unordered = true };
	struct trace_source source;
	TRY(trace_read(path, &unordered, &callbacks, methods, &source));
	trace_source_fini(&source);
	return NULL;
}

struct err *trace_jsonl(const char *path, const struct trace_ids *ids, struct out *out, struct trace_source *ret)
{
	static const struct nettrace_callbacks callbacks = { .header = on_header, .meta = on_meta, .event = on_event };
	static const struct nettrace_options ordered = { 0 };
	CLEANUP(methods_freep) struct methods *methods = methods_new();
	struct jsonl_lines l = { .ids = ids, .methods = methods, .out = out };
	if (!str_eq(path, "-"))
		TRY(read_names(path, methods));
	struct err *err = trace_read(path, &ordered, &callbacks, &l, ret);
	buf_free(&l.text);
	return err;
}
