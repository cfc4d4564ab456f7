/* /debug/pprof: what `go tool pprof http://...` asks for. The CPU profile is a session of cpu-hotpaths, so it has
 * native and kernel frames and is kept like any other; the heap profile is one of gc-survivors, whose stacks lead from
 * the holder to what is held. */

#include "server/api.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "export/formats.h"
#include "profilers/registry.h"
#include "version.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDED_BYTES_MAX ((size_t)256 << 20)
#define FRAMES_MAX 4096
#define REPORT_BYTES_MAX ((size_t)64 << 20)

/* The only process there is, when none is named. */
static struct err *choose_patient(struct request *r, struct patient *ret)
{
	const char *pid = request_query(r, "pid");
	if (!str_empty(pid))
		return api_find_patient(pid, ret);
	struct patient_list list = { 0 };
	TRY(patient_find_all(FIND_TIMEOUT_MS, &list));
	struct err *err = NULL;
	if (list.n == 1) {
		*ret = list.v[0];
		list.n = 0;
	} else {
		err = err_new(ERR_USAGE,
			      "%zu .NET processes are seen: say which with ?pid= (GET /api/processes lists them)",
			      list.n);
	}
	patient_list_free(&list);
	return err;
}

static struct err *begin(struct request *r, const char *profiler, const char *seconds)
{
	CLEANUP(scheduler_order_freep) struct scheduler_order *order = mem_zalloc(sizeof(*order));
	char guid[STORE_GUID_LEN + 1];
	TRY(profiler_find(profiler, &order->profiler));
	order->params = params_new(order->profiler);
	if (seconds)
		TRY(params_set(order->params, "duration_seconds", seconds));
	TRY(choose_patient(r, &order->patient));
	log_line(r->server->log, LOG_INFO, "audit: %s starts %s on %s (%d) by pprof", r->client, profiler,
		 patient_name(&order->patient), order->patient.target.id);
	TRY(scheduler_submit(r->server->hub, STEAL(order), guid));
	r->params[0] = arena_strdup(&r->arena, guid);
	return scheduler_wait(r->server->hub, guid, r) ? NULL : err_new(ERR_IO, "session %s was over too soon", guid);
}

/* One line: "root;...;leaf COUNT". */
static void add_line(struct profile *p, char *line, uint64_t interval_ns, uint64_t *time_ns)
{
	char *count_text = strrchr(line, ' ');
	uint64_t count, places[FRAMES_MAX];
	size_t n = 0;
	if (!count_text || !str_to_u64(count_text + 1, &count))
		return;
	*count_text = '\0';
	for (char *end = count_text; end > line && n < FRAMES_MAX;) {
		char *start = end;
		while (start > line && start[-1] != ';')
			start--;
		*end = '\0';
		places[n++] = profile_place(p, start, FRAME_CODE);
		end = start > line ? start - 1 : start;
	}
	struct profile_sample sample = { .time_ns = *time_ns,
					 .weight = count * interval_ns,
					 .stack = profile_stack(p, places, n),
					 .count = (uint32_t)MIN(count, (uint64_t)UINT32_MAX) };
	profile_sample(p, profile_thread(p, 0), sample);
	*time_ns += sample.weight + 1;
}

static enum frame_kind name_nothing(void *user, uint64_t place, struct buf *out)
{
	(void)user;
	(void)place;
	buf_str(out, "?");
	return FRAME_CODE;
}

/* Sends it; the profile has all its samples. */
static struct err *send_profile(struct request *r, const struct store_row *row, struct profile *p, const char *event,
				uint64_t interval_ns, const char *file)
{
	TRY(profile_seal(p, name_nothing, NULL));
	CLEANUP(mem_freep) char *name = mem_printf("%s (%lld)", row->process, (long long)row->target_id);
	struct export_info info = { .name = name,
				    .program = "drdotnet " DRDOTNET_VERSION,
				    .event = event,
				    .pid = (uint64_t)row->target_id,
				    .unix_ns = row->started_ns,
				    .interval_ns = interval_ns };
	CLOSE_FD int fd = open(store_sessions_dir(r->server->store), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(errno, "make a temporary file");
	struct out out;
	out_init(&out, fd, export_format_gzip(EXPORT_PPROF));
	struct err *err = export_write(EXPORT_PPROF, p, &info, &out);
	struct err *end = out_finish(&out);
	if (err) {
		err_ignore(end);
		return err;
	}
	TRY(end);
	off_t size = lseek(fd, 0, SEEK_END);
	respond(r, 200, "application/octet-stream");
	respond_headerf(r, "Content-Disposition", "attachment; filename=\"%s.pb.gz\"", file);
	r->response.fd_bytes = (uint64_t)MAX(size, (off_t)0);
	r->response.fd = fd_steal(&fd);
	return NULL;
}

static struct err *send_cpu(struct request *r, const struct store_row *row, struct buf *folded)
{
	CLEANUP(profile_freep) struct profile *p = profile_new(store_sessions_dir(r->server->store), PROFILE_NS);
	json_t *parameters = NULL;
	uint64_t interval_ms = 10, time_ns = 0;
	err_ignore(json_parse(row->parameters, strlen(row->parameters), 65536, &parameters));
	str_to_u64(json_get_str(parameters, "time_interval_ms", "10"), &interval_ms);
	json_decref(parameters);
	char *rest = folded->data;
	for (char *line; rest && (line = strsep(&rest, "\n"));)
		add_line(p, line, interval_ms * NS_PER_MS, &time_ns);
	return send_profile(r, row, p, "cpu", interval_ms * NS_PER_MS, "profile");
}

/* The row of a session that is over, and a file of it; none is NULL in *ret_text. */
static struct err *session_file(struct request *r, const char *name, size_t max, struct store_row *ret_row,
				struct buf *ret_text)
{
	TRY(api_row(r, r->params[0], ret_row));
	respond_headerf(r, "X-Drdotnet-Session", "%s", ret_row->guid);
	if (ret_row->error)
		return err_new(ERR_IO, "%s", ret_row->error);
	CLEANUP(mem_freep) char *dir = store_session_dir(r->server->store, ret_row->guid);
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	return file_read(path, max, ret_text);
}

static struct err *answer_cpu(struct request *r)
{
	struct store_row row = { 0 };
	CLEANUP(buf_free) struct buf folded = { 0 };
	struct err *err = session_file(r, "folded_stacks.out", FOLDED_BYTES_MAX, &row, &folded);
	if (err && err_kind(err) == ERR_NOT_FOUND && row.guid[0]) {
		/* A process that did nothing has an empty profile. */
		err_free(err);
		err = NULL;
	}
	if (!err)
		err = send_cpu(r, &row, &folded);
	store_row_fini(&row);
	return err;
}

/* ---- the heap ---- */

/* A row of the tree that says who keeps what, on the way down to the one at hand. */
struct level {
	uint64_t place;
	double bytes, objects; /* of it, less what the rows below have */
};
struct levels {
	struct level v[FRAMES_MAX];
	size_t n;
	uint64_t time_ns;
};

static void end_level(struct profile *p, struct levels *l)
{
	uint64_t places[FRAMES_MAX];
	for (size_t i = 0; i < l->n; i++)
		places[i] = l->v[l->n - 1 - i].place;
	const struct level *leaf = &l->v[l->n - 1];
	double objects = MIN(MAX(leaf->objects, 0.0), (double)UINT32_MAX);
	if (leaf->bytes >= 1)
		profile_sample(p, profile_thread(p, 0),
			       (struct profile_sample){ .time_ns = l->time_ns++,
							.weight = (uint64_t)leaf->bytes,
							.stack = profile_stack(p, places, l->n),
							.count = (uint32_t)objects });
	l->n--;
}

static void add_row(struct profile *p, struct levels *l, const json_t *cells, size_t depth)
{
	const json_t *name = json_array_get(cells, 0), *bytes = json_array_get(cells, 2);
	const char *text = json_string_value(json_is_object(name) ? json_object_get(name, "value") : name);
	double objects = json_number_value(json_array_get(cells, 1));
	while (l->n > depth)
		end_level(p, l);
	if (l->n == FRAMES_MAX || l->n < depth)
		return;
	/* What a holder keeps is told with all that is below it, what is below only with itself. */
	if (l->n) {
		l->v[l->n - 1].bytes -= json_number_value(bytes);
		l->v[0].objects -= objects;
	}
	l->v[l->n++] =
		(struct level){ profile_place(p, text ? text : "?", FRAME_CODE), json_number_value(bytes), objects };
}

static const json_t *find_tree(const json_t *report)
{
	const json_t *blocks = json_object_get(report, "blocks");
	for (size_t i = 0; i < json_array_size(blocks); i++) {
		const json_t *block = json_array_get(blocks, i);
		const json_t *column = json_array_get(json_object_get(block, "columns"), 2);
		if (str_eq(json_get_str(block, "block", ""), "tree") && json_get_bool(column, "area", false))
			return block;
	}
	return NULL;
}

static struct err *send_heap(struct request *r, const struct store_row *row, const struct buf *text)
{
	CLEANUP(profile_freep) struct profile *p = profile_new(store_sessions_dir(r->server->store), PROFILE_BYTES);
	CLEANUP(mem_freep) struct levels *levels = mem_zalloc(sizeof(*levels));
	CLEANUP(json_decrefp) json_t *report = NULL;
	TRY(json_parse(text->data, text->len, REPORT_BYTES_MAX, &report));
	const json_t *tree = find_tree(report), *rows = json_object_get(tree, "rows");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *line = json_array_get(rows, i);
		add_row(p, levels, json_object_get(line, "cells"), (size_t)MAX(json_get_int(line, "depth", 0), 0));
	}
	if (json_object_get(tree, "rest"))
		add_row(p, levels, json_object_get(tree, "rest"), 0);
	while (levels->n)
		end_level(p, levels);
	return send_profile(r, row, p, "heap", 0, "heap");
}

static struct err *answer_heap(struct request *r)
{
	struct store_row row = { 0 };
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = session_file(r, "report.json", REPORT_BYTES_MAX, &row, &text);
	if (!err)
		err = send_heap(r, &row, &text);
	store_row_fini(&row);
	return err;
}

struct err *api_pprof_profile(struct request *r)
{
	if (r->round)
		return answer_cpu(r);
	uint64_t seconds;
	char text[24];
	TRY(request_query_u64(r, "seconds", 1, 3600, 30, &seconds));
	snprintf(text, sizeof(text), "%llu", (unsigned long long)seconds);
	return begin(r, "cpu-hotpaths", text);
}

struct err *api_pprof_heap(struct request *r)
{
	return r->round ? answer_heap(r) : begin(r, "gc-survivors", NULL);
}
