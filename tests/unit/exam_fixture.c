#include "unit.h"

#include "base/fd.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam_fixture.h"
#include "profilers/registry.h"
#include <unistd.h>

void fixture_window(struct recording *r, uint64_t length_ns)
{
	json_t *window = json_pack("{s:I, s:I, s:I}", "start_unix_ns", (json_int_t)1794712329000000000, "start_ns",
				   (json_int_t)WINDOW_START, "end_ns", (json_int_t)(WINDOW_START + length_ns));
	recording_set_fact(r, "window", window);
	json_decref(window);
}

void fixture_part(struct recording *r, const char *name, struct build_nettrace *b)
{
	struct recording_part *part;
	assert_ok(recording_part_new(r, name, "nettrace", &part));
	recording_part_write(part, b->out.data, b->out.len);
	recording_part_close(part, true);
	build_nettrace_free(b);
}

const struct fixture_bursts fixture_bursts[FIXTURE_BURSTS] = {
	{ .ms = { { 100, 200 }, { 600, 700 } }, .n = 2, .heard = 20, .stand_for = 100 },
	{ .ms = { { 100, 200 } }, .n = 1, .heard = 10, .stand_for = 100 }, /* the window ended before the next */
	{ .ms = { { 0, 500 } }, .n = 0, .heard = 50, .stand_for = 50 },
};

void fixture_begin(struct fixture *f)
{
	*f = (struct fixture){ 0 };
	unit_temp_dir(f->dir, sizeof(f->dir));
	assert_ok(recording_create(f->dir, 0, &f->recording));
}

static void set_bursts(struct recording *r, const char *stream, const struct fixture_bursts *bursts)
{
	json_t *list = json_array(), *fact = json_object();
	uint64_t open_ms = bursts->n ? 0 : bursts->ms[0][1];
	for (size_t i = 0; i < bursts->n; i++) {
		const uint64_t *ms = bursts->ms[i];
		open_ms += ms[1] - ms[0];
		json_array_append_new(list, json_pack("[I, I]", (json_int_t)(WINDOW_START + ms[0] * MS),
						      (json_int_t)(WINDOW_START + ms[1] * MS)));
	}
	json_object_set_new(fact, "open_ns", json_integer((json_int_t)(open_ms * MS)));
	json_object_set_new(fact, "opened", json_integer(bursts->n ? (json_int_t)bursts->n : 1));
	if (bursts->n)
		json_object_set(fact, "bursts", list);
	CLEANUP(mem_freep) char *key = mem_printf("stream-%s", stream);
	recording_set_fact(r, key, fact);
	json_decref(list);
	json_decref(fact);
}

void fixture_begin_bursts(struct fixture *f, const struct fixture_bursts *bursts, const char *stream,
			  void (*begin)(struct build_nettrace *b),
			  void (*event)(struct build_nettrace *b, uint64_t at_ns))
{
	uint64_t beyond = bursts->n ? 50 : 0;
	fixture_begin(f);
	f->patient.info.runtime_version = mem_strdup("8.0.31");
	fixture_window(f->recording, 1000 * MS);
	set_bursts(f->recording, stream, bursts);
	for (size_t part = 0; part < MAX(bursts->n, (size_t)1); part++) {
		struct build_nettrace b = { 0 };
		begin(&b);
		for (uint64_t at = bursts->ms[part][0] - beyond; at < bursts->ms[part][1] + beyond; at += 10)
			event(&b, (at + 5) * MS);
		build_nettrace_end(&b);
		CLEANUP(mem_freep) char *name = mem_printf("%s-%zu.nettrace", stream, part);
		fixture_part(f->recording, name, &b);
	}
}

void fixture_examine(struct fixture *f, const char *profiler)
{
	assert_ok(recording_seal(f->recording));
	recording_free(f->recording);
	assert_ok(recording_open(f->dir, &f->recording));
	const struct profiler *p = NULL;
	assert_ok(profiler_find(profiler, &p));
	f->params = params_new(p);
	if (f->param_key)
		assert_ok(params_set(f->params, f->param_key, f->param_value));
	f->patient.target.id = 4211;
	f->patient.info.entry_assembly =
		f->patient.info.entry_assembly ? f->patient.info.entry_assembly : mem_strdup("Shop.Api");
	f->exam = (struct exam){ .profiler = p,
				 .params = f->params,
				 .patient = &f->patient,
				 .way = f->way ? f->way : WAY_EVENTS,
				 .recording = f->recording,
				 .replay = true,
				 .cancel_fd = -1 };
	assert_ok(exam_run(&f->exam));
	f->report = report_new();
	assert_ok(exam_analyse(&f->exam, f->report));
}

void fixture_end(struct fixture *f)
{
	exam_fini(&f->exam);
	report_free(f->report);
	params_free(f->params);
	patient_fini(&f->patient);
	recording_free(f->recording);
	assert_ok(dir_remove(f->dir));
}

json_t *fixture_json(const struct report *r)
{
	struct buf out = { 0 };
	report_render_json(r, &out);
	json_t *j = NULL;
	assert_ok(json_parse(buf_cstr(&out), out.len, 1 << 24, &j));
	buf_free(&out);
	return j;
}

double fixture_figure(const struct report *r, const char *label)
{
	json_t *j = fixture_json(r), *each;
	size_t i;
	double value = -1;
	json_array_foreach(json_object_get(j, "figures"), i, each)
	{
		if (str_eq(json_get_str(each, "label", ""), label))
			value = json_get_num(each, "value", -1);
	}
	json_decref(j);
	assert_true(value >= 0);
	return value;
}

const json_t *fixture_rows(const json_t *report, const char *title)
{
	const json_t *each;
	size_t i;
	json_array_foreach(json_object_get(report, "blocks"), i, each)
	{
		if (str_eq(json_get_str(each, "title", ""), title))
			return json_object_get(each, "rows");
	}
	return NULL;
}

bool fixture_says(const struct report *r, const char *words)
{
	struct buf text = { 0 }, flat = { 0 };
	report_render_text(r, &(struct report_text_style){ 0 }, &text);
	for (const char *p = buf_cstr(&text); *p; p++) {
		bool blank = *p == ' ' || *p == '\n';
		if (!blank || (flat.len && buf_cstr(&flat)[flat.len - 1] != ' '))
			buf_char(&flat, blank ? ' ' : *p);
	}
	bool says = strstr(buf_cstr(&flat), words) != NULL;
	buf_free(&text);
	buf_free(&flat);
	return says;
}

void fixture_expect(const struct report *r, const char *finding, enum report_health health, const char *words)
{
	assert_string_equal(report_finding(r), finding);
	assert_int_equal(report_health(r), health);
	if (!fixture_says(r, words))
		fail_msg("does not say '%s'", words);
}

void fixture_names(struct build_nettrace *b, const struct fixture_method *methods, size_t n)
{
	build_nettrace_begin(b, 4);
	build_nettrace_meta(
		b, &(struct nettrace_meta){
			   .id = 1, .event_id = 144, .provider = CLR_RUNDOWN_PROVIDER, .name = "", .version = 1 });
	for (uint32_t i = 0; i < n; i++) {
		struct buf payload = { 0 };
		build_u64(&payload, i);
		build_u64(&payload, 0);
		build_u64(&payload, methods[i].start);
		build_u32(&payload, 0x100);
		build_u32(&payload, 0);
		build_u32(&payload, 0);
		build_utf16z(&payload, methods[i].space);
		build_utf16z(&payload, methods[i].name);
		build_utf16z(&payload, "");
		build_u16(&payload, 0);
		build_nettrace_event(b, &(struct build_event){ .meta_id = 1,
							       .sequence = i + 1,
							       .capture_thread = 7,
							       .time = WINDOW_START + 20000 * MS,
							       .payload = payload.data,
							       .payload_size = payload.len });
		buf_free(&payload);
	}
	build_nettrace_end(b);
}

void fixture_stream(struct build_nettrace *b, const uint32_t *event_ids, size_t n)
{
	build_nettrace_begin(b, 4);
	for (size_t i = 0; i < n; i++)
		build_nettrace_meta(b, &(struct nettrace_meta){ .id = event_ids[i],
								.event_id = event_ids[i],
								.provider = CLR_PROVIDER,
								.name = "",
								.version = 1 });
}

void fixture_event(struct build_nettrace *b, uint32_t event_id, uint64_t at_ns, uint64_t thread, uint32_t stack,
		   const struct buf *payload)
{
	build_nettrace_event(b, &(struct build_event){ .meta_id = event_id,
						       .sequence = b->last.sequence + 1,
						       .capture_thread = thread,
						       .stack_id = stack,
						       .time = WINDOW_START + at_ns,
						       .payload = payload->data,
						       .payload_size = payload->len });
}

void fixture_end_stream(struct build_nettrace *b)
{
	uint64_t time = MAX(b->last.time, (uint64_t)WINDOW_START);
	build_nettrace_meta(b, &(struct nettrace_meta){ .id = 60000,
							.event_id = 1,
							.provider = "Microsoft-DotNETCore-EventPipe",
							.name = "ProcessInfo",
							.version = 1 });
	build_nettrace_event(
		b, &(struct build_event){ .meta_id = 60000, .sequence = 1, .capture_thread = 65535, .time = time });
	build_nettrace_end(b);
}
