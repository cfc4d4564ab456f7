/* Core files that are kept in the home's folder `cores`: taken of a process on request, or put there by a user who may
 * write there. Names in requests are plain names, and only of files that are there. */

#include "server/api.h"
#include "server/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define NAME_BYTES_MAX 120
#define LIST_MAX 1000
#define PAUSE_MS 100
#define PAUSE_MS_MAX 60000

struct core_file {
	char *name;
	struct stat st;
};
typedef VEC(struct core_file) core_files;

static char *folder_of(const struct request *r)
{
	return mem_printf("%s/cores", r->server->home);
}

bool api_core_name(const char *name)
{
	size_t n = 0;
	while (isalnum((unsigned char)name[n]) || (name[n] && strchr("._-+", name[n])))
		n++;
	return n && !name[n] && n <= NAME_BYTES_MAX && name[0] != '.';
}

static struct err *no_core(const char *name)
{
	return err_new(ERR_NOT_FOUND, "No core file found with name '%s'", name);
}

struct err *api_core_open(const struct request *r, const char *name, char **ret_path, int *ret_fd)
{
	CLEANUP(mem_freep) char *folder = folder_of(r), *path = mem_printf("%s/%s", folder, name);
	struct stat st;
	if (!api_core_name(name))
		return no_core(name);
	CLOSE_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return no_core(name);
	if (ret_path)
		*ret_path = STEAL(path);
	*ret_fd = fd_steal(&fd);
	return NULL;
}

/* ---- lists ---- */

static int newest_first(const void *a, const void *b)
{
	const struct core_file *x = a, *y = b;
	return x->st.st_mtime != y->st.st_mtime ? (x->st.st_mtime < y->st.st_mtime) - (x->st.st_mtime > y->st.st_mtime)
						: strcmp(x->name, y->name);
}

static void read_folder(const char *path, core_files *ret)
{
	DIR *d = opendir(path);
	for (struct dirent *e; d && ret->n < LIST_MAX && (e = readdir(d));) {
		struct stat st;
		/* What is still being written has another name. */
		if (!api_core_name(e->d_name) || str_ends(e->d_name, ".partial") ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		struct core_file file = { mem_strdup(e->d_name), st };
		vec_push(ret, file);
	}
	if (d)
		closedir(d);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), newest_first);
}

static void core_json(struct jsonw *w, const char *name, const struct stat *st)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "name", name);
	jsonw_i64(w, "bytes", st->st_size);
	jsonw_i64(w, "diskBytes", (int64_t)st->st_blocks * 512);
	jsonw_str(w, "written", fmt_time_iso((int64_t)st->st_mtime * NS_PER_S).s);
	jsonw_i64(w, "writtenUnixMs", (int64_t)st->st_mtime * 1000);
	jsonw_object_end(w);
}

struct err *api_cores(struct request *r)
{
	CLEANUP(mem_freep) char *folder = folder_of(r);
	core_files files = { 0 };
	read_folder(folder, &files);
	struct jsonw w = respond_json(r, 200);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "folder", folder);
	jsonw_array(&w, "files");
	vec_each(f, &files) {
		core_json(&w, f->name, &f->st);
		mem_free(f->name);
	}
	jsonw_array_end(&w);
	jsonw_object_end(&w);
	vec_free(&files);
	return NULL;
}

/* ---- taking one ---- */

struct core_order {
	int pid;
	const char *type;
	int64_t pause_ms;
};

static struct err *read_order(const json_t *body, struct core_order *ret)
{
	const json_t *pid = json_object_get(body, "processId"), *pause = json_object_get(body, "maxPauseMs");
	*ret = (struct core_order){ .pid = (int)json_get_int(body, "processId", 0),
				    .type = json_get_str(body, "type", "full"),
				    .pause_ms = json_get_int(body, "maxPauseMs", PAUSE_MS) };
	if (!json_is_integer(pid) || json_integer_value(pid) < 1 || json_integer_value(pid) > INT32_MAX)
		return err_new(ERR_USAGE, "'processId' must be the id of a process (GET /api/processes)");
	if (!str_eq(ret->type, "full") && !str_eq(ret->type, "heap") && !str_eq(ret->type, "mini"))
		return err_new(ERR_USAGE, "'type' takes full, heap or mini, not '%s'", ret->type);
	if (pause && (!json_is_integer(pause) || ret->pause_ms < 1 || ret->pause_ms > PAUSE_MS_MAX))
		return err_new(ERR_USAGE, "'maxPauseMs' takes a whole number from 1 to %d", PAUSE_MS_MAX);
	return NULL;
}

/* "Shop.Api-4211-20261115-031500.core" */
static char *new_name(const struct patient *p)
{
	char name[64], when[32];
	time_t now = (time_t)(clock_real_ns() / NS_PER_S);
	struct tm tm;
	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
	str_copy(name, sizeof(name), patient_name(p));
	for (char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-')
			*c = '_';
	return mem_printf("%s%s-%d-%s.core", name[0] == '.' ? "_" : "", name, p->target.id, when);
}

static void on_ready(void *user)
{
	request_unpark(user);
}

static struct err *begin(struct request *r)
{
	CLEANUP(json_decrefp) json_t *body = NULL;
	CLEANUP(patient_fini) struct patient p = { 0 };
	CLEANUP(mem_freep) char *folder = folder_of(r);
	struct core_order o;
	char id[16], pause[32];
	TRY(request_body(r, &body));
	TRY(read_order(body, &o));
	snprintf(id, sizeof(id), "%d", o.pid);
	snprintf(pause, sizeof(pause), "%lldms", (long long)o.pause_ms);
	TRY(api_find_patient(id, &p));
	TRY(dir_make(folder, 0700));
	CLEANUP(mem_freep) char *name = new_name(&p), *path = mem_printf("%s/%s", folder, name);
	struct child_order order = { .argv = child_words("dump", "collect", id, "--type", o.type, "-o", path,
							 "--max-pause", pause, "--quiet", NULL),
				     .client_fd = r->connection_fd,
				     .ready = on_ready,
				     .user = r };
	r->params[0] = arena_strdup(&r->arena, name); /* for the next round */
	log_line(r->server->log, LOG_INFO, "audit: %s takes a core file of %s (%s): %s", r->client, patient_name(&p),
		 id, name);
	return api_start_child(r, &order);
}

struct err *api_core_take(struct request *r)
{
	if (!r->round)
		return begin(r);
	if (!child_ended(r->child)) {
		request_park(r);
		child_on_end(r->child, on_ready, r);
		return NULL;
	}
	CLOSE_FD int fd = -1;
	struct stat st;
	TRY(child_error(r->child));
	TRY(api_core_open(r, r->params[0], NULL, &fd));
	if (fstat(fd, &st) < 0)
		return err_errno(errno, "'%s'", r->params[0]);
	respond_headerf(r, "Location", "/api/cores/%s", r->params[0]);
	struct jsonw w = respond_json(r, 201);
	core_json(&w, r->params[0], &st);
	return NULL;
}

/* ---- one of them ---- */

struct err *api_core(struct request *r)
{
	CLOSE_FD int fd = -1;
	struct stat st;
	TRY(api_core_open(r, r->params[0], NULL, &fd));
	if (fstat(fd, &st) < 0)
		return err_errno(errno, "'%s'", r->params[0]);
	log_line(r->server->log, LOG_INFO, "audit: %s fetches the core file %s", r->client, r->params[0]);
	respond(r, 200, "application/octet-stream");
	respond_headerf(r, "Content-Disposition", "attachment; filename=\"%s\"", r->params[0]);
	respond_header(r, "Cache-Control", "no-store");
	r->response.fd_bytes = (uint64_t)st.st_size;
	r->response.fd = fd_steal(&fd);
	return NULL;
}

struct err *api_core_delete(struct request *r)
{
	CLOSE_FD int fd = -1;
	CLEANUP(mem_freep) char *path = NULL;
	TRY(api_core_open(r, r->params[0], &path, &fd));
	if (!path || unlink(path) < 0)
		return err_errno(errno, "delete '%s'", r->params[0]);
	log_line(r->server->log, LOG_INFO, "audit: %s deletes the core file %s", r->client, r->params[0]);
	respond(r, 204, NULL);
	return NULL;
}
