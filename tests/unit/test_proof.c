/* An all-clear needs proof: what every profiler of the registry says of streams that carry nothing, live and replayed. */

#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam/proof.h"
#include "exam_fixture.h"
#include "fake_runtime.h"
#include "profilers/registry.h"
#include "sampling/sampling_parts.h"
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* --- streams --- */

/* What the runtime writes when a session ends: the only event of a process in which nothing happens. */
static void add_last_event(struct build_nettrace *b)
{
	build_nettrace_meta(b, &(struct nettrace_meta){ .id = 1,
							.event_id = 1,
							.provider = "Microsoft-DotNETCore-EventPipe",
							.name = "ProcessInfo",
							.version = 1 });
	build_nettrace_event(b,
			     &(struct build_event){ .meta_id = 1, .sequence = 1, .capture_thread = 7, .time = 5000 });
}

static void quiet(struct buf *out, bool event, bool end)
{
	struct build_nettrace b = { 0 };
	build_nettrace_begin(&b, 4);
	if (event)
		add_last_event(&b);
	if (end)
		build_nettrace_end(&b);
	else
		build_nettrace_flush(&b);
	buf_add(out, b.out.data, b.out.len);
	build_nettrace_free(&b);
}

static void nothing(struct buf *out UNUSED)
{
}

static void zeros(struct buf *out)
{
	static const char zero[4096];
	buf_add(out, zero, sizeof(zero));
}

static void garbage(struct buf *out)
{
	uint32_t x = 1;
	for (size_t i = 0; i < 4096; i++) {
		x = x * 1664525 + 1013904223;
		buf_char(out, (char)(x >> 24));
	}
}

static void header(struct buf *out)
{
	quiet(out, false, false);
}

static void header_and_end(struct buf *out)
{
	quiet(out, false, true);
}

static void header_and_zeros(struct buf *out)
{
	quiet(out, false, false);
	zeros(out);
}

/* It ends within the block that has the event. */
static void cut(struct buf *out)
{
	quiet(out, true, false);
	out->len -= 3;
}

static void (*const dead[])(struct buf *) = { nothing, zeros, garbage, header, header_and_end, header_and_zeros, cut };

static void alive(struct buf *out)
{
	quiet(out, true, true);
}

/* --- examinations --- */

struct trial {
	char dir[64], socket[80], folder[80];
	struct patient patient;
	struct params *params;
	struct exam exam;
	struct report *report;
	struct err *err;
};

static void conclude(struct trial *t)
{
	t->report = report_new();
	t->err = exam_run(&t->exam);
	if (!t->err)
		assert_ok(exam_analyse(&t->exam, t->report));
}

static void begin(struct trial *t, const struct profiler *p, int release)
{
	*t = (struct trial){ .params = params_new(p) };
	unit_temp_dir(t->dir, sizeof(t->dir));
	snprintf(t->socket, sizeof(t->socket), "%s/s", t->dir);
	snprintf(t->folder, sizeof(t->folder), "%s/recording", t->dir);
	assert_ok(dir_make(t->folder, 0700));
	t->patient.answered = true;
	assert_ok(target_find_pid(getpid(), &t->patient.target));
	mem_free(t->patient.target.socket);
	t->patient.target.socket = mem_strdup(t->socket);
	t->patient.info.runtime_version = mem_printf("%d.0.1", release);
	if (p->word)
		assert_ok(params_set(t->params, p->word, "Shop"));
	t->exam = (struct exam){ .profiler = p, .params = t->params, .patient = &t->patient, .way = WAY_EVENTS };
}

static void end(struct trial *t)
{
	exam_fini(&t->exam);
	report_free(t->report);
	params_free(t->params);
	err_free(t->err);
	patient_fini(&t->patient);
	assert_ok(dir_remove(t->dir));
}

/* Asked to stop as soon as it begins: whatever comes of a stream, the window is short. */
static void live(struct trial *t, const struct profiler *p, int release, void (*say)(struct buf *), bool hangs_up)
{
	CLEANUP(buf_free) struct buf stream = { 0 };
	begin(t, p, release);
	say(&stream);
	struct fake_runtime *f = fake_runtime_start(t->socket, (struct fake_config){ .release = release,
										     .stream = stream.data,
										     .stream_len = stream.len,
										     .hangs_up = hangs_up });
	CLOSE_FD int cancelled = eventfd(1, EFD_CLOEXEC);
	assert_ok(recording_create(t->folder, 0, &t->exam.recording));
	t->exam.cancel_fd = cancelled;
	conclude(t);
	fake_runtime_stop(f);
	assert_ok(recording_seal(t->exam.recording));
	recording_free(t->exam.recording);
	t->exam.recording = NULL;
}

static void replay(struct trial *t)
{
	const struct profiler *p = t->exam.profiler;
	exam_fini(&t->exam);
	report_free(t->report);
	t->exam = (struct exam){ .profiler = p,
				 .params = t->params,
				 .patient = &t->patient,
				 .way = WAY_EVENTS,
				 .replay = true,
				 .cancel_fd = -1 };
	assert_ok(recording_open(t->folder, &t->exam.recording));
	conclude(t);
	recording_free(t->exam.recording);
}

/* diagnose has many instruments; without events it still judges what /proc says (test_diagnose.c). */
static bool has_events(const struct profiler *p)
{
	if (str_eq(p->id, "diagnose"))
		return false;
	for (const enum way *w = p->ways; *w; w++) {
		if (*w == WAY_EVENTS)
			return true;
	}
	return false;
}

/* No verdict of any kind, and no number that nobody measured. */
static void check_unseen(const struct trial *t, const char *how, size_t stream)
{
	if (t->err)
		return; /* it failed, and says so */
	if (!str_eq(report_finding(t->report), FINDING_NOT_SEEN))
		fail_msg("%s, %s stream %zu: %s", t->exam.profiler->id, how, stream, report_finding(t->report));
	assert_true(report_health(t->report) == REPORT_WARN);
	assert_non_null(t->exam.partial);
	assert_true(fixture_says(t->report, "Could not be seen: "));
	json_t *j = fixture_json(t->report);
	assert_int_equal(json_array_size(json_object_get(j, "figures")), 0);
	assert_int_equal(json_array_size(json_object_get(j, "blocks")), 0);
	assert_non_null(json_get_str(json_object_get(j, "facts"), "partial", NULL));
	json_decref(j);
}

static void a_stream_that_carries_nothing_is_no_all_clear(void **state UNUSED)
{
	size_t n, examined = 0;
	const struct profiler *const *all = profiler_all(&n);
	for (size_t i = 0; i < n * ARRAY_SIZE(dead) * 4; i++) {
		const struct profiler *p = all[i % n];
		size_t stream = i / n % ARRAY_SIZE(dead), variant = i / n / ARRAY_SIZE(dead);
		struct trial t;
		if (!has_events(p))
			continue;
		live(&t, p, variant & 1 ? 8 : 10, dead[stream], variant & 2);
		check_unseen(&t, variant & 2 ? "ended" : "stopped", stream);
		examined++;
		if (!t.err) {
			replay(&t);
			check_unseen(&t, "replayed", stream);
		}
		end(&t);
	}
	assert_true(examined > 10 * 4 * ARRAY_SIZE(dead));
}

/* Of these the runtime's own sampler or its whole heap is wanted, which are never silent. */
static bool never_silent(const struct profiler *p)
{
	static const char *const ids[] = { "cpu-hotpaths", "merged-call-stacks", "gc-survivors", "heap-stats" };
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		if (str_eq(ids[i], p->id))
			return true;
	}
	return false;
}

static void a_quiet_process_is_well_and_the_report_says_why(void **state UNUSED)
{
	size_t n, examined = 0;
	const struct profiler *const *all = profiler_all(&n);
	for (size_t i = 0; i < n * 2; i++) {
		const struct profiler *p = all[i % n];
		struct trial t;
		if (!has_events(p))
			continue;
		live(&t, p, i < n ? 8 : 10, alive, false);
		if (never_silent(p)) {
			check_unseen(&t, "stopped", 0);
			end(&t);
			continue;
		}
		for (int again = 0; again < 2; again++) {
			assert_ok(t.err);
			if (report_health(t.report) != REPORT_OK)
				fail_msg("%s: %s", p->id, report_finding(t.report));
			assert_true(fixture_says(t.report, "so the instrument worked"));
			assert_null(t.exam.unproven);
			if (!again)
				replay(&t);
		}
		examined++;
		end(&t);
	}
	assert_true(examined >= 16);
}

/* Of a stream of the runtime's own events the session may live and the events be off. */
static void a_session_that_lives_is_not_enough(void **state UNUSED)
{
	static const struct {
		struct events_stream stream;
		bool proven;
	} cases[] = {
		{ { .heard = 1 }, true }, /* of that runtime nothing else is sure to come */
		{ { .heard = 1, .beat_ns = 1 }, false },
		{ { .heard = 2, .beat_ns = 1, .beats = 1 }, true },
		{ { .heard = 2, .beat_ns = 1, .events = 1 }, true },
		{ { .heard = 1, .certain = true }, false },
		{ { .heard = 2, .certain = true, .events = 1 }, true },
		{ { .optional = true }, true },
		{ { .beside = &cases[0].stream }, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct exam exam = { 0 };
		exam_prove_streams(&exam, &cases[i].stream, 1);
		assert_true((exam.unproven == NULL) == cases[i].proven);
		exam_fini(&exam);
	}
	static const uint32_t ids[] = { 35 };
	struct proof_beat asked;
	struct ipc_provider own = { .name = CLR_PROVIDER, .keywords = CLR_GC, .level = 4 };
	struct events_stream s = { .providers = &own, .n_providers = 1 };
	assert_true(proof_ask_beat(&s, &asked) && asked.providers->keywords == (CLR_GC | 0x800) &&
		    !asked.providers->n_only_ids);
	own.only_ids = ids;
	own.n_only_ids = 1;
	assert_true(proof_ask_beat(&s, &asked) && asked.providers->n_only_ids == 2 &&
		    asked.providers->only_ids[1] == 85);
	own.keywords = 0x10000; /* it comes with these */
	assert_true(proof_ask_beat(&s, &asked) && asked.providers->keywords == own.keywords);
	own.level = 3; /* it does not come below 4 */
	assert_false(proof_ask_beat(&s, &asked));
	own = (struct ipc_provider){ .name = "Shop", .level = 5 };
	assert_false(proof_ask_beat(&s, &asked));
	struct ipc_provider both[] = { { .name = CLR_PROVIDER, .keywords = CLR_GC | 0x10000, .level = 5 }, own };
	s = (struct events_stream){ .providers = both, .n_providers = 2 };
	assert_true(proof_ask_beat(&s, &asked) && !strcmp(asked.providers[1].name, "Shop"));
	both[0].keywords = CLR_GC; /* of several nothing is asked for beside */
	assert_false(proof_ask_beat(&s, &asked));
}

/* --- a window that cannot begin --- */

/* How many of its requests are to stop a session. */
static size_t count_stops(struct fake_runtime *f)
{
	CLEANUP(buf_free) struct buf all = fake_runtime_requests(f);
	size_t n = 0;
	for (size_t at = 0; at + 20 <= all.len;) {
		const uint8_t *head = (const uint8_t *)all.data + at;
		n += head[16] == 2 && head[17] == 1;
		at += (size_t)(head[14] | head[15] << 8);
	}
	return n;
}

static struct err *refuse(void *user UNUSED)
{
	return err_new(ERR_DENIED, "not permitted");
}

static void no_event(void *user UNUSED, const struct nettrace_event *event UNUSED)
{
}

/* A session that is only closed ends some time later, in the middle of what is done next. */
static void streams_are_ended_before_another_way_is_tried(void **state UNUSED)
{
	static const struct ipc_provider provider = { .name = "Shop", .level = 4 };
	CLEANUP(buf_free) struct buf stream = { 0 };
	struct trial t;
	const struct profiler *p;
	assert_ok(profiler_find("off-cpu", &p));
	begin(&t, p, 10);
	alive(&stream);
	struct fake_runtime *f = fake_runtime_start(
		t.socket, (struct fake_config){ .release = 10, .stream = stream.data, .stream_len = stream.len });
	struct events_stream streams[2];
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
		streams[i] = (struct events_stream){
			.name = i ? "one" : "two", .providers = &provider, .n_providers = 1, .event = no_event
		};
	struct events_beside beside = { .start = refuse };
	t.exam.cancel_fd = -1;
	assert_err(exam_events_beside(&t.exam, streams, ARRAY_SIZE(streams), 1000, &beside), ERR_DENIED);
	/* What was sent is read by a thread of the fake's. */
	for (struct deadline d = deadline_in_ms(10000); count_stops(f) < 2 && !deadline_passed(d);)
		sched_yield();
	assert_int_equal(count_stops(f), 2);
	assert_null(t.exam.partial);
	fake_runtime_stop(f);
	end(&t);
}

/* --- samples --- */

struct sampled {
	uint64_t process_ns, thread_ns; /* by the kernel's clocks; UINT64_MAX = not known */
	size_t samples;			/* of 10 ms */
	bool proven, blind;
};

static void samples_are_compared_with_the_kernels_clock(void **state UNUSED)
{
	static const struct sampled cases[] = {
		{ 1000 * MS, 1000 * MS, 100, true, false }, /* as it should be */
		{ 1000 * MS, 1000 * MS, 50, true, false },  /* some were lost */
		{ 1000 * MS, 1000 * MS, 0, false, true },
		{ 1000 * MS, 1000 * MS, 3, false, false },
		{ 0, 0, 0, true, false },		/* it really was idle */
		{ 30 * MS, 15 * MS, 0, true, false },	/* too little for a sample */
		{ 1000 * MS, 10 * MS, 0, true, false }, /* used by threads that have ended: reported otherwise */
		{ 10 * MS, 1000 * MS, 0, true, false }, /* the threads' clocks were read late */
		{ UINT64_MAX, UINT64_MAX, 0, false, true },
		{ UINT64_MAX, UINT64_MAX, 1, true, false },
		{ UINT64_MAX, 1000 * MS, 0, false, true },
		{ 1000 * MS, UINT64_MAX, 0, false, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct sampled *c = &cases[i];
		struct samples *s = samples_new();
		struct exam exam = { 0 };
		struct sampling_facts facts = { .period = 10 * MS, .cpu_ns = c->process_ns };
		bool new;
		uint32_t thread = samples_thread(s, 7, &new), frame = samples_frame(s, "f", NULL, FRAME_CODE);
		uint32_t stack = samples_stack(s, &frame, 1, UNWIND_ROOT, false);
		s->threads.v[thread].cpu_ns = c->thread_ns;
		for (size_t k = 0; k < c->samples; k++)
			samples_add(s, k, thread, stack, 10 * MS, 0);
		sampling_prove(&exam, SAMPLER_CPU, s, &facts);
		if ((exam.proof != NULL) != c->proven || (exam.unproven == NULL) != c->proven ||
		    (exam.blind == REPORT_INFO) != c->blind)
			fail_msg("case %zu: %s, %s", i, exam.proof ? exam.proof : "-",
				 exam.unproven ? exam.unproven : "-");
		assert_true((exam.partial == NULL) == c->proven);
		exam_fini(&exam);
		samples_free(s);
	}
}

static void switches_are_compared_with_the_kernels_count(void **state UNUSED)
{
	static const struct {
		uint64_t switches, runs;
		bool proven;
	} cases[] = { { 10, 10, true }, { 10, 0, true }, { 0, 0, true }, { 0, 3, true }, { 0, 500, false } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct exam exam = { 0 };
		struct sampling_facts facts = { .switches = cases[i].switches, .runs = cases[i].runs };
		sampling_prove(&exam, SAMPLER_SWITCHES, NULL, &facts);
		assert_true((exam.proof != NULL) == cases[i].proven && (exam.unproven == NULL) == cases[i].proven);
		exam_fini(&exam);
	}
}

/* What was found stays found; only verdicts that are made of nothing are replaced. */
static void what_was_seen_stays(void **state UNUSED)
{
	const struct profiler *p;
	assert_ok(profiler_find("merged-call-stacks", &p));
	for (int i = 0; i < 12; i++) {
		enum report_health health = (enum report_health)(i % 4), blind = (enum report_health)(i / 4);
		bool replaced = health <= blind;
		struct exam exam = { .profiler = p, .way = WAY_EVENTS };
		struct report *r = report_new();
		rich_text(report_verdict(r, health, "found"), "Found.");
		report_figure(r, "Threads", V_COUNT(1), NULL);
		exam_unproven(&exam, blind, "the first reason");
		exam_unproven(&exam, REPORT_OK, "another one");
		exam_prove_report(&exam, r);
		assert_string_equal(report_finding(r), replaced ? FINDING_NOT_SEEN : "found");
		assert_string_equal(exam.partial, "the first reason");
		assert_true(fixture_says(r, "the first reason") == replaced);
		assert_true(fixture_says(r, "--way image") == replaced);
		report_free(r);
		exam_fini(&exam);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_that_carries_nothing_is_no_all_clear),
		cmocka_unit_test(a_quiet_process_is_well_and_the_report_says_why),
		cmocka_unit_test(a_session_that_lives_is_not_enough),
		cmocka_unit_test(streams_are_ended_before_another_way_is_tried),
		cmocka_unit_test(samples_are_compared_with_the_kernels_clock),
		cmocka_unit_test(switches_are_compared_with_the_kernels_count),
		cmocka_unit_test(what_was_seen_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
