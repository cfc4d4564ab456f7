/* The part, little endian:
 *
 *   u32 version of the thread snapshot, its bytes     see threads/thread_snapshot.c
 *   u32 n requests: u32 os id, u32 length, endpoint   at most one a thread
 *   u32 n threads that stood still: u32 os id */

#include "knowledge/knowledge.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/str.h"
#include "exam/profiler.h"
#include "exam/shared_looks.h"
#include "target/threads.h"
#include <string.h>

#define PART "knowledge"
#define MAPS_MAX ((size_t)64 << 20)
#define KNOWLEDGE_VERSION 1
#define REQUESTS_MAX 100000u
#define ENDPOINT_MAX 1000u
#define STILL_MAX 1000000u

/* ---- the part ---- */

/* The stop itself makes each thread run: they are compared with what they were right before it. */
static void drain_still(const struct target_threads *then, const struct target_threads *now, struct buf *out)
{
	CLEANUP(buf_free) struct buf list = { 0 };
	struct map_u64 turns = { 0 }; /* tid -> turns + 1 */
	vec_each(t, then)
		*map_u64_put(&turns, (uint64_t)t->tid, NULL) = t->turns == UINT64_MAX ? 0 : t->turns + 1;
	vec_each(t, now) {
		const uint64_t *had = map_u64_get(&turns, (uint64_t)t->tid);
		if (had && *had && t->turns == *had - 1)
			buf_u32(&list, (uint32_t)t->tid);
	}
	buf_u32(out, (uint32_t)(list.len / sizeof(uint32_t)));
	buf_add(out, list.data, list.len);
	map_u64_free(&turns);
}

static struct err *drain(void *user, struct image_exam *look, struct buf *out)
{
	const struct knowledge *k = user;
	buf_u32(out, THREAD_SNAPSHOT_VERSION);
	TRY(thread_snapshot_drain(NULL, look, out));
	in_flight_drain(look, out);
	drain_still(&k->before, &look->before, out);
	return NULL;
}

static void get_request(struct knowledge *k, struct cursor *in)
{
	size_t len;
	uint32_t os_id = cursor_u32(in);
	const char *text = cursor_text(in, ENDPOINT_MAX, &len);
	if (!cursor_ok(in) || !len)
		return;
	const char *endpoint = strtab_get(&k->strings, strtab_add(&k->strings, text, len));
	vec_push(&k->requests, ((struct knowledge_request){ .os_id = os_id, .endpoint = endpoint }));
}

static struct err *take(void *user, struct cursor *in)
{
	struct knowledge *k = user;
	uint32_t version = cursor_u32(in);
	if (version != THREAD_SNAPSHOT_VERSION)
		return err_new(ERR_UNSUPPORTED, "threads of format %u, this version of drdotnet reads %u", version,
			       THREAD_SNAPSHOT_VERSION);
	TRY(thread_snapshot_take(&k->threads, in));
	uint32_t n = cursor_u32(in);
	in->bad |= n > REQUESTS_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++)
		get_request(k, in);
	n = cursor_u32(in);
	in->bad |= n > STILL_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++)
		map_u64_put(&k->still, cursor_u32(in), NULL);
	return cursor_ok(in) ? NULL : err_new(ERR_BAD_DATA, "the recording's list of requests is damaged");
}

/* Of earlier programs: threads alone. */
static struct err *take_older(void *user, struct cursor *in)
{
	return thread_snapshot_take(&((struct knowledge *)user)->threads, in);
}

/* ---- the look ---- */

/* Is the web server's library mapped? Of a program in a single file that is not seen. */
static bool serves_requests(const struct target *t)
{
	CLEANUP(buf_free) struct buf maps = { .limit = MAPS_MAX };
	return t->pid && file_text(&maps, "/proc/%d/maps", (int)t->pid) &&
	       strstr(buf_cstr(&maps), "/Microsoft.AspNetCore.Server.Kestrel.Core.dll");
}

/* Why there must be none, before anything is asked of the process; NULL = it may be. */
static char *forbidden(const struct exam *exam, const struct knowledge_wanted *wanted)
{
	if (params_bool(exam->params, "no_look"))
		return mem_strdup("switched off (--no-look)");
	if (exam->core)
		return mem_strdup("there is no living process");
	if (exam->cancelled || exam->partial)
		return mem_strdup("the window was cut short");
	if (wanted->nothing)
		return mem_strdup(wanted->nothing);
	if (wanted->requests && !serves_requests(&exam->patient->target))
		return mem_strdup("it serves no HTTP requests that could be named");
	return NULL;
}

static uint64_t pause_limit(const struct exam *exam)
{
	return (uint64_t)params_int(exam->params, "look_pause_ms");
}

static struct image_exam_part part_of(const struct exam *exam, struct knowledge *k)
{
	return (struct image_exam_part){ .name = PART,
					 .version = KNOWLEDGE_VERSION,
					 .beside = true,
					 .passing = true,
					 .max_pause_ms = pause_limit(exam),
					 .drain = drain,
					 .take = take,
					 .user = k };
}

static void save_why(const struct exam *exam, const struct knowledge *k)
{
	if (!exam->recording)
		return;
	json_t *fact = json_pack("{s:b, s:s}", "looked", k->threads != NULL, "why_not", k->why_not ? k->why_not : "");
	recording_set_fact(exam->recording, PART, fact);
	json_decref(fact);
}

static void make_index(struct knowledge *k)
{
	for (uint32_t i = 0; k->threads && i < k->threads->threads.n; i++)
		*map_u64_put(&k->by_os_id, k->threads->threads.v[i].os_id, NULL) = i + 1;
	for (size_t i = 0; i < k->requests.n; i++) {
		uint32_t thread = knowledge_thread(k, k->requests.v[i].os_id);
		if (thread != SNAPSHOT_NONE)
			*map_u64_put(&k->endpoints, thread, NULL) = i + 1;
	}
}

static void on_looked(void *user, const struct image_exam_facts *facts, struct err *failed)
{
	struct knowledge *k = user;
	struct exam *exam = k->exam;
	if (failed) {
		knowledge_fini(k);
		k->why_not = mem_strdup(err_text(failed));
		exam_log(exam, "no look into memory: %s", err_text(failed));
		err_free(failed);
	} else {
		k->facts = *facts;
	}
	save_why(exam, k);
	make_index(k);
}

static void look_live(struct exam *exam, const struct knowledge_wanted *wanted, struct knowledge *k)
{
	struct image_exam_part part = part_of(exam, k);
	char *why_not = forbidden(exam, wanted);
	if (why_not) {
		k->why_not = why_not;
		save_why(exam, k);
		return;
	}
	k->exam = exam;
	if (exam->looks) {
		shared_looks_put_off(exam->looks, exam, &part, on_looked);
		return;
	}
	CLEANUP(mem_freep) char *fix = NULL;
	struct err *err = exam_image_check_within(exam, part.max_pause_ms, &fix);
	if (!err)
		err = exam_image(exam, &part);
	on_looked(k, &part.facts, err);
}

static void recall(struct exam *exam, const char *older, struct knowledge *k)
{
	struct image_exam_part part = part_of(exam, k);
	const char *why_not = json_get_str(recording_fact(exam->recording, PART), "why_not", NULL);
	if (!exam_image_again(exam, 0, PART)) {
		part.name = older;
		part.version = THREAD_SNAPSHOT_VERSION;
		part.take = take_older;
	}
	k->older = part.take == take_older;
	struct err *err = part.name && exam_image_again(exam, 0, part.name) ? exam_image(exam, &part) : NULL;
	if (err)
		knowledge_fini(k);
	k->facts = part.facts;
	k->why_not = err ? mem_strdup(err_text(err)) : str_empty(why_not) ? NULL : mem_strdup(why_not);
	err_free(err);
}

void knowledge_look(struct exam *exam, const struct knowledge_wanted *wanted, struct knowledge *k)
{
	if (!exam->replay) {
		look_live(exam, wanted, k);
		return;
	}
	recall(exam, wanted->older, k);
	make_index(k);
}

void knowledge_begin(const struct exam *exam, struct knowledge *k)
{
	if (!exam->replay && exam->patient->target.pid && !params_bool(exam->params, "no_look"))
		err_ignore(target_threads(&exam->patient->target, &k->before));
}

void knowledge_fini(struct knowledge *k)
{
	thread_snapshot_free(k->threads);
	mem_free(k->why_not);
	strtab_free(&k->strings);
	vec_free(&k->requests);
	map_u64_free(&k->by_os_id);
	map_u64_free(&k->endpoints);
	map_u64_free(&k->still);
	vec_free(&k->before);
	*k = (struct knowledge){ 0 };
}

void knowledge_how(const struct knowledge *k, struct report *report)
{
	static const char label[] = "One look into memory";
	if (k->threads) {
		CLEANUP(mem_freep)
		char *life =
			mem_printf("paused for a copy of its memory, read for %s", fmt_duration_ns(k->facts.life_ns).s);
		report_how(report, label, V_NS(k->facts.pause_ns), life);
	} else if (k->why_not) {
		report_how(report, label, V_TEXT("none"), k->why_not);
	}
}

/* ---- threads ---- */

uint32_t knowledge_thread(const struct knowledge *k, uint64_t os_id)
{
	const uint64_t *index = os_id ? map_u64_get(&k->by_os_id, os_id) : NULL;
	return index ? (uint32_t)(*index - 1) : SNAPSHOT_NONE;
}

bool knowledge_stood_still(const struct knowledge *k, uint32_t thread)
{
	return map_u64_get(&k->still, k->threads->threads.v[thread].os_id) != NULL;
}

const char *knowledge_endpoint(const struct knowledge *k, uint32_t thread)
{
	const uint64_t *index = map_u64_get(&k->endpoints, thread);
	return index ? k->requests.v[*index - 1].endpoint : NULL;
}

static bool has_method(const struct thread_snapshot *s, const struct snapshot_thread *t, uint32_t method)
{
	for (size_t i = 0; i < t->n; i++)
		if (s->frames.v[t->first + i] == method)
			return true;
	return false;
}

const char *knowledge_endpoint_of_method(const struct knowledge *k, const char *method)
{
	const struct thread_snapshot *s = k->threads;
	const char *all = NULL;
	uint64_t thread, request;
	for (uint32_t m = 0; s && m < s->methods.n; m++) {
		if (!str_eq(s->methods.v[m].name, method))
			continue;
		for (size_t pos = 0; map_u64_next(&k->endpoints, &pos, &thread, &request);) {
			const char *endpoint = k->requests.v[request - 1].endpoint;
			if (!has_method(s, &s->threads.v[thread], m))
				continue;
			if (all && all != endpoint)
				return NULL;
			all = endpoint;
		}
	}
	return all;
}

void knowledge_add_serving(const struct knowledge *k, const char *method, struct rich *text)
{
	const char *endpoint = knowledge_endpoint_of_method(k, method);
	if (!endpoint)
		return;
	rich_text(text, ", seen serving ");
	rich_code(text, endpoint);
}

void knowledge_add_serving_line(const struct knowledge *k, const char *method, struct report_row *row)
{
	const char *endpoint = knowledge_endpoint_of_method(k, method);
	if (endpoint)
		report_row_line(row, VALUE_CODE, endpoint, "seen serving");
}

const char *knowledge_common_endpoint(const struct knowledge *k, const uint32_t *threads, size_t n)
{
	struct map_u64 counts = { 0 }; /* interned text -> how many */
	const char *most = NULL;
	size_t best = 0;
	for (size_t i = 0; i < n; i++) {
		const char *endpoint = knowledge_endpoint(k, threads[i]);
		uint64_t times = endpoint ? ++*map_u64_put(&counts, (uintptr_t)endpoint, NULL) : 0;
		if (times > best) {
			best = times;
			most = endpoint;
		}
	}
	map_u64_free(&counts);
	return best * 2 > n ? most : NULL;
}
