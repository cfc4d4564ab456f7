/* Samples and what came of the sampling, as a part and a fact of the recording. */

#include "base/json.h"
#include "sampling/sampling.h"
#include <stdio.h>

#define PART "samples.bin"
#define PART_BYTES_MAX ((size_t)256 << 20)

void sampling_save(struct exam *exam, const struct samples *samples, const struct sampling_facts *f)
{
	if (!exam->recording)
		return;
	struct recording_part *part;
	struct err *err = recording_part_new(exam->recording, PART, "samples", &part);
	if (err) {
		exam_log(exam, "the samples are not kept: %s", err_text(err));
		err_free(err);
		return;
	}
	CLEANUP(buf_free) struct buf bytes = { .limit = PART_BYTES_MAX };
	samples_write(samples, &bytes);
	recording_part_write(part, bytes.data, bytes.len);
	recording_part_close(part, !bytes.overflow);
	json_t *ends = json_array();
	for (size_t i = 0; i < UNWIND_ENDS; i++)
		json_array_append_new(ends, json_integer((json_int_t)f->ends[i]));
	json_t *fact = json_object();
	const struct {
		const char *key;
		bool value;
	} flags[] = { { "kernel", f->kernel },		{ "kernel_names", f->kernel_names },
		      { "per_cpu", f->per_cpu },	{ "named", f->named },
		      { "from_files", f->from_files },	{ "by_events", f->by_events },
		      { "by_agent", f->by_agent },	{ "shared_signal", f->shared_signal },
		      { "short_lived", f->short_lived } };
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = { { "period", f->period },
			{ "stack_bytes", f->stack_bytes },
			{ "cpus", f->cpus },
			{ "threads", f->threads },
			{ "samples", f->samples },
			{ "lost", f->lost },
			{ "throttled", f->throttled },
			{ "guessed", f->guessed },
			{ "switches", f->switches },
			{ "waits", f->waits },
			{ "waits_with_stack", f->waits_with_stack },
			{ "unseen_ns", f->unseen_ns },
			{ "listened_ns", f->listened_ns },
			{ "delay_ns", f->delay_ns },
			{ "cpu_ns", f->cpu_ns },
			{ "runs", f->runs },
			{ "handled", f->handled },
			{ "handler_ns", f->handler_ns },
			{ "handler_max_ns", f->handler_max_ns },
			{ "untimed", f->untimed },
			{ "started_ns", f->started_ns },
			{ "collections", f->collections },
			{ "induced", f->induced } };
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		json_object_set_new(fact, flags[i].key, json_boolean(flags[i].value));
	/* What is not known is UINT64_MAX here and -1 there. */
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		json_object_set_new(fact, numbers[i].key, json_integer((json_int_t)numbers[i].value));
	json_object_set_new(fact, "ends", ends);
	json_object_set_new(fact, "started", json_string(f->started));
	recording_set_fact(exam->recording, "sampling", fact);
	json_decref(fact);
}

static struct err *take_chunk(void *user, const void *data, size_t len)
{
	buf_add(user, data, len);
	return NULL;
}

static uint64_t fact_u64(const json_t *fact, const char *key)
{
	int64_t v = json_get_int(fact, key, 0);
	return v < 0 ? UINT64_MAX : (uint64_t)v;
}

struct err *recorded_samples(struct recording *recording, struct samples **ret, struct sampling_facts *facts)
{
	CLEANUP(buf_free) struct buf bytes = { .limit = PART_BYTES_MAX };
	TRY(recording_part_read(recording, PART, take_chunk, &bytes));
	TRY(samples_read(bytes.data, bytes.len, ret));
	const json_t *f = recording_fact(recording, "sampling"), *ends = json_object_get(f, "ends");
	*facts = (struct sampling_facts){
		.kernel = json_get_bool(f, "kernel", false),
		.kernel_names = json_get_bool(f, "kernel_names", false),
		.per_cpu = json_get_bool(f, "per_cpu", false),
		.named = json_get_bool(f, "named", false),
		.from_files = json_get_bool(f, "from_files", false),
		.by_events = json_get_bool(f, "by_events", false),
		.by_agent = json_get_bool(f, "by_agent", false),
		.shared_signal = json_get_bool(f, "shared_signal", false),
		.period = fact_u64(f, "period"),
		.stack_bytes = (uint32_t)fact_u64(f, "stack_bytes"),
		.cpus = (uint32_t)fact_u64(f, "cpus"),
		.threads = (uint32_t)fact_u64(f, "threads"),
		.samples = fact_u64(f, "samples"),
		.lost = fact_u64(f, "lost"),
		.throttled = fact_u64(f, "throttled"),
		.guessed = fact_u64(f, "guessed"),
		.switches = fact_u64(f, "switches"),
		.waits = fact_u64(f, "waits"),
		.waits_with_stack = fact_u64(f, "waits_with_stack"),
		.listened_ns = fact_u64(f, "listened_ns"),
		.unseen_ns = fact_u64(f, "unseen_ns"),
		.delay_ns = fact_u64(f, "delay_ns"),
		.cpu_ns = fact_u64(f, "cpu_ns"),
		.runs = fact_u64(f, "runs"),
		.handled = fact_u64(f, "handled"),
		.handler_ns = fact_u64(f, "handler_ns"),
		.handler_max_ns = fact_u64(f, "handler_max_ns"),
		.untimed = fact_u64(f, "untimed"),
		.short_lived = json_get_bool(f, "short_lived", false),
		.started_ns = fact_u64(f, "started_ns"),
		.collections = fact_u64(f, "collections"),
		.induced = fact_u64(f, "induced"),
	};
	snprintf(facts->started, sizeof(facts->started), "%s", json_get_str(f, "started", ""));
	for (size_t i = 0; i < UNWIND_ENDS; i++) {
		json_int_t n = json_integer_value(json_array_get(ends, i));
		facts->ends[i] = n > 0 ? (uint64_t)n : 0;
	}
	return NULL;
}
