#include "exam/image_exam.h"
#include "exam/own_code.h"
#include "attach/attach.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "model/gcdump.h"
#include "exam/profiler.h"
#include "exam/shared_looks.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PART_BYTES_MAX ((size_t)512 << 20)
#define HEAP_ATTEMPTS 5
#define HEAP_RETRY_MS 20
#define STOP_ATTEMPTS 4
#define STOP_RETRY_MS 250
/* A busy machine stops threads later than foreseen. A look in passing, whose limit is small and which is tried once, is
 * given so many times its limit. */
#define PASSING_STOP 3

static const char part_magic[8] = "DRLOOK\0";

/* ---- one look ---- */

struct err *image_exam_of_patient(const struct patient *p, struct image_limits *limits, struct image_exam *ret)
{
	CLEANUP(mem_freep) char *root = mem_printf("/proc/%d/root", (int)p->target.pid);
	struct dac_options dac_options = { .root = root };
	struct image_exam look = { .target = &p->target };
	if (p->answered)
		limits->cookie = p->info.cookie;
	/* No process is stopped for a library that is not there. */
	TRY(dac_check_target(&p->target, NULL, NULL));
	/* Attempts that failed have made its threads run: the first one's list is the true one. */
	look.before = ret->before;
	if (!look.before.n)
		err_ignore(target_threads(&p->target, &look.before));
	struct err *err = image_take_snapshot(&p->target, limits, &look.image);
	if (err && err_kind(err) == ERR_BUSY && limits->busy_word) {
		/* The process collects without a pause: taken as it is; profilers that need the heap see that it is
		 * inconsistent. */
		err_free(err);
		limits->busy_word = 0;
		err = image_take_snapshot(&p->target, limits, &look.image);
	}
	look.facts.at_ns = clock_mono_ns();
	look.facts.at_unix_ns = clock_real_ns();
	if (!err)
		err = dac_open(look.image, &dac_options, &look.dac);
	ret->before = look.before;
	if (err) {
		look.before = (struct target_threads){ 0 };
		image_exam_fini(&look);
		return err;
	}
	look.lines = dac_lines_new(look.dac, look.image, root);
	*ret = look;
	return NULL;
}

static uint64_t image_bytes(const struct image *img)
{
	size_t n;
	uint64_t bytes = 0;
	const struct image_piece *p = image_pieces(img, &n);
	for (size_t i = 0; i < n; i++)
		bytes += p[i].fd == IMAGE_FD_ZERO ? 0 : p[i].end - p[i].start;
	return bytes;
}

struct err *image_exam_by_agent_check(const struct patient *p, const struct image_limits *limits, const char **ret_fix)
{
	struct image_forecast forecast;
	struct err *err = image_forecast_inside(&p->target, limits, &forecast);
	*ret_fix = err ? forecast.fix : NULL;
	return err;
}

struct err *image_exam_by_agent(const struct patient *p, const struct image_limits *limits, struct image_exam *ret)
{
	CLEANUP(mem_freep)
	char *root = p->target.pid && !p->target.no_access ? mem_printf("/proc/%d/root", (int)p->target.pid) : NULL;
	struct attach_options options = { .max_life_ms = limits->max_life_ms,
					  .turn_ms = limits->turn_ms,
					  .cancel_fd = limits->cancel_fd,
					  .send_dac = !root };
	struct dac_options dac_options = { .root = root };
	struct attach_facts facts;
	struct image_exam look = { .facts.agent = true };
	struct image_forecast forecast;
	TRY(image_forecast_inside(&p->target, limits, &forecast));
	options.max_pause_ms = forecast.max_pause_ms;
	if (root) {
		struct err *err = dac_check_target(&p->target, NULL, NULL);
		options.send_dac = err && err_kind(err) == ERR_DENIED;
		if (err && !options.send_dac)
			return err;
		err_free(err);
	}
	look.facts.at_ns = clock_mono_ns();
	look.facts.at_unix_ns = clock_real_ns();
	TRY(attach_image(p, &options, &facts, &look.image));
	look.facts.pause_ns = facts.pause_ns;
	look.facts.limit_ns = options.max_pause_ms * NS_PER_MS;
	look.facts.life_ns = facts.stream_ns;
	look.facts.missing = facts.left_bytes;
	look.facts.attempts = facts.attempts;
	look.facts.bytes = image_bytes(look.image);
	int sent = image_file_named(look.image, DAC_LIBRARY);
	dac_options.library_fd = MAX(sent, 0);
	struct err *err = dac_open(look.image, &dac_options, &look.dac);
	if (err) {
		image_exam_fini(&look);
		return err;
	}
	look.lines = dac_lines_new(look.dac, look.image, root);
	*ret = look;
	return NULL;
}

/* Of a core that was written elsewhere: what 'symbols fetch' brought. */
static int find_fetched(const char *path, const uint8_t *build_id, size_t len)
{
	struct symbol_file file;
	return symbol_of_build(SYMBOL_LIBRARY, path, build_id, len, &file) ? symbol_cache_open(&file) : -1;
}

struct err *image_exam_of_core(const char *path, struct image_exam *ret)
{
	struct image_core_options options = { .files_root = "", .assemblies = true, .find_library = find_fetched };
	struct image_core_facts facts;
	struct image_exam look = { .facts = { .core = true } };
	struct stat st;
	TRY(image_open_core(path, &options, &facts, &look.image));
	struct err *err = dac_open(look.image, NULL, &look.dac);
	if (err) {
		struct err *lost = image_exam_whole(&look);
		image_exam_fini(&look);
		err_free(lost ? err : NULL);
		return err_wrap(lost ? lost : err, "'%s'", path);
	}
	if (stat(path, &st) == 0) {
		look.facts.at_unix_ns = timespec_ns(st.st_mtim);
		look.facts.bytes = (uint64_t)st.st_size;
	}
	look.facts.missing = facts.missing_bytes;
	look.facts.unproven = facts.unproven_bytes;
	look.lines = dac_lines_new(look.dac, look.image, NULL);
	*ret = look;
	return NULL;
}

struct err *image_exam_whole(const struct image_exam *look)
{
	const char *reason = NULL;
	if (!look->image || image_whole(look->image, &reason))
		return NULL;
	return look->facts.core ? err_new(ERR_IO, "%s", reason)
				: err_new(ERR_IO, "the copy was lost while it was read: %s", reason);
}

struct err *image_exam_end(struct image_exam *look)
{
	if (look->ended)
		return NULL;
	look->ended = true;
	look->facts.dac_deaths = dac_restarts(look->dac);
	struct err *err = image_exam_whole(look);
	if (look->facts.core || look->facts.agent)
		return err;
	image_drop(look->image);
	struct image_cost cost = image_cost(look->image);
	look->facts.pause_ns = cost.pause_ns;
	look->facts.limit_ns = cost.limit_ns;
	look->facts.life_ns = cost.lifetime_ns;
	look->facts.copied = cost.copied_bytes;
	look->facts.missing = cost.left_bytes;
	look->facts.attempts = cost.attempts;
	return err;
}

void image_exam_fini(struct image_exam *look)
{
	vec_free(&look->before);
	buf_free(&look->threads);
	dac_lines_free(look->lines);
	dac_close(look->dac);
	image_close(look->image);
	*look = (struct image_exam){ 0 };
}

/* ---- .gcdump files ---- */

#define GCDUMP_MAX ((size_t)2 << 30)

static bool is_gcdump(const char *path)
{
	char head[256];
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd >= 0 ? read(fd, head, sizeof(head)) : -1;
	return n > 0 && gcdump_is(head, (size_t)n);
}

static struct err *gcdump_patient(const char *path, struct patient *ret)
{
	CLEANUP(buf_free) struct buf file = { .limit = GCDUMP_MAX };
	CLEANUP(gcdump_facts_fini) struct gcdump_facts facts = { 0 };
	const char *slash = strrchr(path, '/');
	TRY(file_read(path, GCDUMP_MAX, &file));
	TRY_WRAP(gcdump_read(file.data, file.len, &facts, NULL), "'%s'", path);
	*ret = (struct patient){ .answered = true };
	ret->target.id = facts.pid;
	ret->target.cpu_ratio = -1;
	ret->target.name = mem_strdup(slash ? slash + 1 : path);
	ret->info.entry_assembly = facts.process ? mem_strdup(facts.process) : NULL;
	return NULL;
}

static struct err *drain_gcdump(const struct exam *exam, struct image_exam_part *part, struct buf *out)
{
	CLEANUP(buf_free) struct buf file = { .limit = GCDUMP_MAX };
	struct stat st;
	if (!part->drain_gcdump)
		return err_new(ERR_UNSUPPORTED,
			       "'%s' is a .gcdump file, which knows objects and references but not what is in them; "
			       "heap-stats and gc-survivors can work with that",
			       exam->core);
	TRY(file_read(exam->core, GCDUMP_MAX, &file));
	TRY_WRAP(part->drain_gcdump(part->user, file.data, file.len, out), "'%s'", exam->core);
	part->facts = (struct image_exam_facts){ .core = true, .gcdump = true, .bytes = file.len };
	if (stat(exam->core, &st) == 0)
		part->facts.at_unix_ns = timespec_ns(st.st_mtim);
	return NULL;
}

/* The runtime loads its own library first and the program's assembly next. */
static const char *entry_assembly(struct dac *dac)
{
	const struct dac_modules *modules;
	struct err *err = dac_modules(dac, &modules);
	if (err) {
		err_free(err);
		return NULL;
	}
	vec_each(m, modules) {
		const char *slash = strrchr(m->path, '/'), *file = slash ? slash + 1 : m->path;
		if (*file && !str_eq(file, "System.Private.CoreLib.dll"))
			return m->path;
	}
	return NULL;
}

struct whose_names *image_exam_own_code(struct image_exam *core)
{
	const char *path = entry_assembly(core->dac);
	return path ? own_code_of_core(path) : NULL;
}

struct err *image_exam_core_patient(const char *path, struct patient *ret)
{
	struct image_exam look = { 0 };
	if (is_gcdump(path))
		return gcdump_patient(path, ret);
	TRY(image_exam_of_core(path, &look));
	const char *entry = entry_assembly(look.dac), *version = dac_runtime(look.dac)->version;
	const char *slash = strrchr(path, '/'), *last = entry ? strrchr(entry, '/') : NULL;
	const char *file = last ? last + 1 : entry;
	*ret = (struct patient){ .answered = true };
	ret->target.id = image_pid(look.image);
	ret->target.cpu_ratio = -1;
	ret->target.name = mem_strdup(slash ? slash + 1 : path);
	ret->info.runtime_version = *version ? mem_strdup(version) : NULL;
	if (file)
		ret->info.entry_assembly =
			mem_strndup(file, strlen(file) - (str_ends(file, ".dll") ? strlen(".dll") : 0));
	image_exam_fini(&look);
	return NULL;
}

/* ---- keeping ---- */

static const struct {
	const char *key;
	size_t offset;
} kept[] = {
	{ "at_ns", offsetof(struct image_exam_facts, at_ns) },
	{ "pause_ns", offsetof(struct image_exam_facts, pause_ns) },
	{ "limit_ns", offsetof(struct image_exam_facts, limit_ns) },
	{ "life_ns", offsetof(struct image_exam_facts, life_ns) },
	{ "copied", offsetof(struct image_exam_facts, copied) },
	{ "unproven", offsetof(struct image_exam_facts, unproven) },
	{ "missing", offsetof(struct image_exam_facts, missing) },
	{ "bytes", offsetof(struct image_exam_facts, bytes) },
};

static void keep_facts(struct exam *exam, const struct image_exam_part *part)
{
	CLEANUP(mem_freep) char *key = mem_printf("look-%s", part->name);
	json_t *fact = json_object();
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		uint64_t value;
		memcpy(&value, (const char *)&part->facts + kept[i].offset, sizeof(value));
		json_object_set_new(fact, kept[i].key, json_integer((json_int_t)value));
	}
	json_object_set_new(fact, "core", json_boolean(part->facts.core));
	json_object_set_new(fact, "gcdump", json_boolean(part->facts.gcdump));
	json_object_set_new(fact, "agent", json_boolean(part->facts.agent));
	json_object_set_new(fact, "events", json_boolean(part->facts.events));
	json_object_set_new(fact, "again", json_boolean(part->facts.again));
	json_object_set_new(fact, "at_unix_ns", json_integer((json_int_t)part->facts.at_unix_ns));
	json_object_set_new(fact, "attempts", json_integer(part->facts.attempts));
	json_object_set_new(fact, "dac_deaths", json_integer(part->facts.dac_deaths));
	recording_set_fact(exam->recording, key, fact);
	json_decref(fact);
}

static void recall_facts(const struct exam *exam, struct image_exam_part *part)
{
	CLEANUP(mem_freep) char *key = mem_printf("look-%s", part->name);
	const json_t *fact = recording_fact(exam->recording, key);
	part->facts = (struct image_exam_facts){ .core = json_get_bool(fact, "core", false),
						 .gcdump = json_get_bool(fact, "gcdump", false) };
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		uint64_t value = (uint64_t)MAX(json_get_int(fact, kept[i].key, 0), 0);
		memcpy((char *)&part->facts + kept[i].offset, &value, sizeof(value));
	}
	part->facts.agent = json_get_bool(fact, "agent", false);
	part->facts.events = json_get_bool(fact, "events", false);
	part->facts.again = json_get_bool(fact, "again", false);
	part->facts.at_unix_ns = json_get_int(fact, "at_unix_ns", 0);
	part->facts.attempts = (uint32_t)json_get_int(fact, "attempts", 0);
	part->facts.dac_deaths = (uint32_t)json_get_int(fact, "dac_deaths", 0);
}

static void keep(struct exam *exam, const struct image_exam_part *part, const struct buf *bytes)
{
	struct recording_part *p;
	if (!exam->recording)
		return;
	struct err *err = recording_part_new(exam->recording, part->name, "look", &p);
	if (err) {
		exam_log(exam, "what was seen is not kept: %s", err_text(err));
		err_free(err);
		return;
	}
	recording_part_write(p, bytes->data, bytes->len);
	recording_part_close(p, true);
	keep_facts(exam, part);
}

/* ---- looks of an exam ---- */

static uint64_t max_pause_ms(const struct exam *exam)
{
	return profiler_param(exam->profiler, "max_pause_ms") ? (uint64_t)params_int(exam->params, "max_pause_ms") : 0;
}

/* Before the process is stopped: what will it cost? */
static void announce(struct exam *exam)
{
	const struct target *t = &exam->patient->target;
	uint64_t pause_ns = t->pid ? image_predict_pause(t) : 0;
	if (pause_ns)
		exam_progress(exam, -1, "taking a copy of its memory: it will stand still for about %s",
			      fmt_duration_ns(pause_ns).s);
	else
		exam_progress(exam, -1, "taking a copy of its memory");
}

/* A process that did not stop in time continues unchanged, and may stop in time a moment later. */
static struct err *open_look(struct exam *exam, const struct image_exam_part *part, struct image_exam *ret)
{
	struct image_limits limits = { .max_pause_ms = part->max_pause_ms ? part->max_pause_ms : max_pause_ms(exam),
				       .cancel_fd = exam->cancel_fd,
				       .turn_ms = part->passing ? 0 : EXAM_TURN_MS };
	if (exam->core) {
		TRY(image_exam_of_core(exam->core, ret));
		if (!exam->whose)
			own_code_use(exam, image_exam_own_code(ret));
		return NULL;
	}
	if (part->passing)
		limits.stop_ms = PASSING_STOP * limits.max_pause_ms;
	if (part->heap)
		limits.busy_word = dac_busy_word(&exam->patient->target);
	announce(exam);
	if (exam->way == WAY_AGENT && !part->passing)
		return image_exam_by_agent(exam->patient, &limits, ret);
	for (unsigned attempt = 1;; attempt++) {
		struct err *err = image_exam_of_patient(exam->patient, &limits, ret);
		if (!err || err_kind(err) != ERR_TIMEOUT || attempt == STOP_ATTEMPTS || part->passing)
			return err;
		exam_log(exam, "%s; once more", err_text(err));
		err_free(err);
		if (exam_wait_ms(exam, STOP_RETRY_MS))
			return err_new(ERR_CANCELLED, "cancelled before it stood still");
	}
}

static struct err *drain(struct exam *exam, struct image_exam_part *part, struct buf *out)
{
	if (exam->core && is_gcdump(exam->core))
		return drain_gcdump(exam, part, out);
	if (exam->way == WAY_EVENTS && part->drain_events)
		return part->drain_events(part->user, exam, out, &part->facts);
	if (exam->gentle && !exam->core)
		return err_new(ERR_DENIED, "a look would stop the process, which 'gentle' forbids");
	CLEANUP(image_exam_fini) struct image_exam look = { 0 };
	size_t begin = out->len;
	for (unsigned attempt = 1;; attempt++) {
		struct dac_facts facts = { .heap_valid = true };
		out->len = begin;
		TRY(open_look(exam, part, &look));
		look.whose = exam->whose;
		struct err *err = part->heap ? dac_facts(look.dac, &facts) : NULL;
		bool again = !err && !facts.heap_valid && !look.facts.core && attempt < HEAP_ATTEMPTS;
		exam_progress(exam, -1, "reading");
		/* Threads first, which change: the others read of them more than of the heap. */
		if (exam->leads && !again)
			shared_looks_drain(exam->looks, &look);
		if (!err && !again)
			err = part->drain(part->user, &look, out);
		/* A lost copy explains whatever else went wrong. */
		struct err *lost = image_exam_end(&look);
		if (lost) {
			err_free(err);
			err = lost;
		}
		uint64_t earlier_ns = attempt > 1 ? part->facts.pause_ns : 0;
		part->facts = look.facts;
		part->facts.pause_ns = MAX(part->facts.pause_ns, earlier_ns);
		/* What the process maps at that very moment may be missing: another look has it. */
		if (err && err_kind(err) == ERR_BAD_DATA && !look.facts.core && attempt == 1) {
			again = true;
			err_free(STEAL(err));
		}
		if (exam->leads && !again)
			shared_looks_taken(exam->looks, &look.facts, exam->way, !lost);
		if (err || !again)
			return err;
		struct target_threads before = look.before;
		look.before = (struct target_threads){ 0 };
		image_exam_fini(&look);
		look.before = before;
		if (exam_wait_ms(exam, HEAP_RETRY_MS))
			return err_new(ERR_CANCELLED, "cancelled while it waited for another look");
	}
}

static struct err *take(const struct image_exam_part *part, const struct buf *bytes)
{
	struct cursor in = cursor_make(bytes->data, bytes->len);
	const void *magic = cursor_take(&in, sizeof(part_magic));
	uint32_t version = cursor_u32(&in);
	if (!cursor_ok(&in) || memcmp(magic, part_magic, sizeof(part_magic)) != 0)
		return err_new(ERR_BAD_DATA, "the recording's part '%s' is not what a look leaves", part->name);
	if (version != part->version)
		return err_new(ERR_UNSUPPORTED,
			       "the recording's part '%s' has format %u, this version of drdotnet reads %u", part->name,
			       version, part->version);
	/* What it returns is an error of its own. */
	/* cppcheck-suppress returnDanglingLifetime */
	return part->take(part->user, &in);
}

static void note_window(struct exam *exam, const struct image_exam_facts *facts)
{
	if (!exam->start_unix_ns) {
		exam->start_unix_ns = facts->at_unix_ns;
		exam->start_ns = facts->at_ns;
	}
	exam->end_ns = MAX(exam->end_ns, facts->at_ns);
	exam_keep_window(exam);
}

void image_exam_part_begin(const struct image_exam_part *part, struct buf *bytes)
{
	bytes->limit = PART_BYTES_MAX;
	buf_add(bytes, part_magic, sizeof(part_magic));
	buf_u32(bytes, part->version);
}

struct err *image_exam_part_end(struct exam *exam, struct image_exam_part *part, const struct buf *bytes)
{
	keep(exam, part, bytes);
	if (!part->beside)
		note_window(exam, &part->facts);
	return take(part, bytes);
}

static struct err *look_live(struct exam *exam, struct image_exam_part *part)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	const struct buf *shared = shared_looks_part(exam->looks, exam->profiler, part->name, &part->facts);
	if (shared)
		return image_exam_part_end(exam, part, shared);
	image_exam_part_begin(part, &bytes);
	TRY(drain(exam, part, &bytes));
	if (bytes.overflow)
		return err_new(ERR_UNSUPPORTED, "there is more to see than a look may keep (%s)",
			       fmt_bytes(PART_BYTES_MAX).s);
	return image_exam_part_end(exam, part, &bytes);
}

static struct err *take_chunk(void *user, const void *data, size_t len)
{
	buf_add(user, data, len);
	return NULL;
}

static struct recording_part_info part_of(const struct exam *exam, const char *name)
{
	for (size_t i = 0; i < recording_n_parts(exam->recording); i++) {
		struct recording_part_info info = recording_part_info(exam->recording, i);
		if (str_eq(info.name, name))
			return info;
	}
	return (struct recording_part_info){ 0 };
}

static struct err *look_replay(struct exam *exam, struct image_exam_part *part)
{
	CLEANUP(buf_free) struct buf bytes = { .limit = PART_BYTES_MAX };
	if (!part->beside)
		TRY(exam_recall_window(exam));
	/* One wrong byte may still make sense, and then the report would lie. */
	if (part_of(exam, part->name).damaged)
		return err_new(ERR_BAD_DATA, "the recording's part '%s' was cut short or changed since it was written",
			       part->name);
	TRY(recording_part_read(exam->recording, part->name, take_chunk, &bytes));
	recall_facts(exam, part);
	return take(part, &bytes);
}

struct err *exam_image(struct exam *exam, struct image_exam_part *part)
{
	return exam->replay ? look_replay(exam, part) : look_live(exam, part);
}

bool exam_image_again(struct exam *exam, uint64_t wait_ms, const char *part)
{
	CLOSE_FD int pidfd = -1;
	if (exam->replay)
		return part_of(exam, part).kept;
	if (exam->core)
		return false;
	struct image_exam_facts shared;
	if (shared_looks_part(exam->looks, exam->profiler, part, &shared))
		return true;
	err_ignore(target_pidfd(&exam->patient->target, &pidfd));
	uint64_t from_ns = clock_mono_ns();
	struct deadline deadline = deadline_in_ms(wait_ms);
	while (!deadline_passed(deadline)) {
		struct pollfd fds[] = { { .fd = exam->cancel_fd, .events = POLLIN },
					{ .fd = pidfd, .events = POLLIN } };
		int tick_ms = MIN(deadline_poll_ms(deadline), 200);
		if (poll(fds, ARRAY_SIZE(fds), tick_ms) < 0 && errno != EINTR)
			break;
		if (fds[0].revents & POLLIN) {
			exam->cancelled = true;
			exam_cut(exam, "cancelled before the second look");
		} else if (fds[1].revents & POLLIN) {
			exam_cut(exam, "the process ended before the second look");
		}
		if (exam->partial) {
			exam_keep_window(exam);
			return false;
		}
		exam_progress(exam, (double)(clock_mono_ns() - from_ns) / (double)(wait_ms * NS_PER_MS),
			      "waiting for the next look");
	}
	return true;
}

struct err *exam_image_twice(struct exam *exam, struct image_exam_part parts[2], size_t *ret_n)
{
	TRY(exam_image(exam, &parts[0]));
	*ret_n = 1 + exam_image_next(exam, &parts[1]);
	return NULL;
}

bool exam_image_next(struct exam *exam, struct image_exam_part *part)
{
	if (!exam_image_again(exam, (uint64_t)params_int(exam->params, "interval") * 1000, part->name))
		return false;
	struct err *err = exam_image(exam, part);
	if (err) {
		exam_cut(exam, "the second look failed: %s", err_text(err));
		exam_keep_window(exam);
	}
	bool taken = !err;
	err_free(err);
	return taken;
}

struct err *exam_image_check(const struct exam *exam, char **ret_fix)
{
	return exam_image_check_within(exam, max_pause_ms(exam), ret_fix);
}

struct err *exam_image_check_within(const struct exam *exam, uint64_t max_pause_ms, char **ret_fix)
{
	const struct patient *p = exam->patient;
	struct image_limits limits = { .max_pause_ms = max_pause_ms,
				       .cookie = p && p->answered ? p->info.cookie : NULL };
	struct image_forecast forecast = { 0 };
	*ret_fix = NULL;
	if (exam->core)
		return NULL;
	const char *fix;
	struct err *err = dac_check_target(&exam->patient->target, NULL, &fix);
	if (err) {
		*ret_fix = mem_strdup(fix);
		return err;
	}
	err = image_forecast(&exam->patient->target, &limits, &forecast);
	if (err && forecast.fix)
		*ret_fix = mem_strdup(forecast.fix);
	return err;
}

struct err *exam_agent_check(const struct exam *exam, const char **ret_fix)
{
	const struct patient *p = exam->patient;
	const struct image_limits limits = { .max_pause_ms = max_pause_ms(exam),
					     .cookie = p->answered ? p->info.cookie : NULL };
	return image_exam_by_agent_check(exam->patient, &limits, ret_fix);
}
