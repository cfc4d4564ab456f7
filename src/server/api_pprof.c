/* /debug/pprof: what `go tool pprof http://...` asks for. The CPU profile is a session of cpu-hotpaths, so it has
 * native and kernel frames and is kept like any other. */

#include "server/api.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "export/formats.h"
#include "version.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDED_BYTES_MAX ((size_t)256 << 20)
#define FRAMES_MAX 4096

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
	CLEANUP(hub_order_freep) struct hub_order *order = mem_zalloc(sizeof(*order));
	char guid[STORE_GUID_LEN + 1];
	TRY(profiler_find(profiler, &order->profiler));
	order->params = params_new(order->profiler);
	if (seconds)
		TRY(params_set(order->params, "duration_seconds", seconds));
	TRY(choose_patient(r, &order->patient));
	log_line(r->server->log, LOG_INFO, "audit: %s starts %s on %s (%d) by pprof", r->client, profiler,
		 patient_name(&order->patient), order->patient.target.id);
	TRY(hub_submit(r->server->hub, STEAL(order), guid));
	r->params[0] = arena_strdup(&r->arena, guid);
	return hub_wait(r->server->hub, guid, r) ? NULL : err_new(ERR_IO, "session %s was over too soon", guid);
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

static struct err *write_pprof(struct request *r, const struct store_row *row, struct buf *folded)
{
	CLEANUP(profile_freep) struct profile *p = profile_new(store_sessions_dir(r->server->store), PROFILE_NS);
	json_t *parameters = NULL;
	uint64_t interval_ms = 10, time_ns = 0;
	err_ignore(json_parse(row->parameters, strlen(row->parameters), 65536, &parameters));
	str_to_u64(json_get_str(parameters, "time_interval_ms", "10"), &interval_ms);
	json_decref(parameters);
	char *rest = folded->data;
	for (char *line; rest && (line = strsep(&rest, "\n"));)
		add_line(p, line, interval_ms * 1000000, &time_ns);
	TRY(profile_seal(p, name_nothing, NULL));
	CLEANUP(mem_freep) char *name = mem_printf("%s (%lld)", row->process, (long long)row->target_id);
	struct export_info info = { .name = name,
				    .program = "drdotnet " DRDOTNET_VERSION,
				    .event = "cpu",
				    .pid = (uint64_t)row->target_id,
				    .unix_ns = row->started_ns,
				    .interval_ns = interval_ms * 1000000 };
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
	respond_header(r, "Content-Disposition", "attachment; filename=\"profile.pb.gz\"");
	r->response.fd_bytes = (uint64_t)MAX(size, (off_t)0);
	r->response.fd = fd_steal(&fd);
	return NULL;
}

static struct err *answer(struct request *r)
{
	struct store_row row;
	CLEANUP(buf_free) struct buf folded = { 0 };
	TRY(api_row(r, r->params[0], &row));
	CLEANUP(mem_freep) char *dir = store_session_dir(r->server->store, row.guid);
	CLEANUP(mem_freep) char *path = mem_printf("%s/folded_stacks.out", dir);
	struct err *err = row.error ? err_new(ERR_IO, "%s", row.error) : file_read(path, FOLDED_BYTES_MAX, &folded);
	if (!err || err_kind(err) == ERR_NOT_FOUND) {
		/* A process that did nothing has an empty profile. */
		err_free(err);
		err = write_pprof(r, &row, &folded);
	}
	respond_headerf(r, "X-Drdotnet-Session", "%s", row.guid);
	store_row_fini(&row);
	return err;
}

struct err *api_pprof_profile(struct request *r)
{
	if (r->round)
		return answer(r);
	uint64_t seconds;
	char text[24];
	TRY(request_query_u64(r, "seconds", 1, 3600, 30, &seconds));
	snprintf(text, sizeof(text), "%llu", (unsigned long long)seconds);
	return begin(r, "cpu-hotpaths", text);
}

struct err *api_pprof_heap(struct request *r)
{
	(void)r;
	return err_new(ERR_UNSUPPORTED, "heap profiles in this form are not made yet: start the profiler heap-stats or "
					"gc-survivors by POST /api/sessions instead");
}
