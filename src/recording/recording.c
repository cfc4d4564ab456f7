#include "recording/internal.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define NAME_MAX_LEN 64
#define CHUNK_BYTES ((size_t)256 << 10)

bool recording_name_ok(const char *name)
{
	size_t len = strlen(name);
	/* A letter or digit first: neither hidden, nor "..", nor an option to a tool. */
	return len >= 1 && len <= NAME_MAX_LEN && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == len &&
	       name[0] != '.' && name[0] != '-' && strcmp(name, RECORDING_MANIFEST) != 0;
}

static struct recording *alloc(const char *dir)
{
	struct recording *r = mem_zalloc(sizeof(*r));
	r->dir = mem_strdup(dir);
	r->dir_fd = -1;
	r->facts = json_object();
	return r;
}

static struct recording_part *part_alloc(struct recording *r, const char *name, const char *kind)
{
	struct recording_part *p = mem_alloc(sizeof(*p));
	*p = (struct recording_part){ .recording = r, .name = mem_strdup(name), .kind = mem_strdup(kind), .fd = -1 };
	return p;
}

static void part_free(struct recording_part *p)
{
	if (!p)
		return;
	fd_closep(&p->fd);
	mem_free(p->name);
	mem_free(p->kind);
	mem_free(p);
}

struct recording_part *recording_add_part(struct recording *r, const char *name, const char *kind)
{
	strtab_add_cstr(&r->names, name);
	struct recording_part *p = part_alloc(r, name, kind);
	vec_push(&r->parts, p); /* NOLINT(bugprone-sizeof-expression): pointers are meant, callers hold them */
	return p;
}

struct recording_part *recording_find_part(const struct recording *r, const char *name)
{
	uint32_t i = strtab_find(&r->names, name, strlen(name));
	return i == STRTAB_NONE ? NULL : r->parts.v[i];
}

static void free_parts(struct recording *r)
{
	vec_each(p, &r->parts)
		part_free(*p);
	vec_free(&r->parts);
	part_free(r->spill);
	r->spill = NULL;
	strtab_free(&r->names);
}

static bool is_inside(const struct recording *r, const struct recording_part *p)
{
	return str_starts(p->name, r->prefix);
}

static void unlink_part(struct recording *r, struct recording_part *p)
{
	if (!p->kept)
		return;
	unlinkat(r->dir_fd, p->name, 0);
	r->kept_bytes -= MIN(r->kept_bytes, p->bytes);
	recording_part_close(p, false);
	p->kept = false;
}

/* Names of parts stay taken, so what follows has another prefix. */
static void clear_inside(struct recording *r)
{
	vec_each(p, &r->outer->parts)
		if (is_inside(r, *p))
			unlink_part(r->outer, *p);
	r->cleared++;
	CLEANUP(mem_freep) char *name = mem_strndup(r->prefix, strcspn(r->prefix, "."));
	mem_free(r->prefix);
	r->prefix = mem_printf("%s.%u.", name, r->cleared);
	json_object_set_new(r->facts, "prefix", json_string(r->prefix));
}

void recording_clear(struct recording *r)
{
	if (r->outer) {
		clear_inside(r);
		return;
	}
	vec_each(p, &r->parts)
		if ((*p)->kept)
			unlinkat(r->dir_fd, (*p)->name, 0);
	free_parts(r);
	r->kept_bytes = 0;
}

void recording_free(struct recording *r)
{
	if (!r)
		return;
	mem_free(r->prefix);
	free_parts(r);
	fd_closep(&r->dir_fd);
	json_decref(r->facts);
	mem_free(r->drop_reason);
	mem_free(r->dir);
	mem_free(r);
}

static struct err *open_dir(struct recording *r)
{
	r->dir_fd = open(r->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return r->dir_fd < 0 ? err_errno(errno, "'%s'", r->dir) : NULL;
}

struct err *recording_create(const char *dir, uint64_t max_bytes, struct recording **ret)
{
	CLEANUP(recording_freep) struct recording *r = alloc(dir);
	r->max_bytes = MIN(max_bytes ? max_bytes : RECORDING_BYTES_DEFAULT, RECORDING_PART_BYTES_MAX);
	TRY(dir_make(dir, 0700));
	TRY(open_dir(r));
	if (faccessat(r->dir_fd, RECORDING_MANIFEST, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_new(ERR_BUSY, "'%s' holds a recording already", dir);
	*ret = STEAL(r);
	return NULL;
}

struct recording *recording_inside(struct recording *r, const char *name)
{
	struct recording *in = mem_zalloc(sizeof(*in));
	CLEANUP(mem_freep) char *key = mem_printf("inside-%s", name);
	in->outer = r;
	in->dir_fd = -1;
	json_t *facts = json_object_get(r->facts, key);
	const char *prefix = json_get_str(facts, "prefix", NULL);
	in->prefix = prefix ? mem_strdup(prefix) : mem_printf("%s.", name);
	in->facts = json_is_object(facts) ? json_incref(facts) : json_object();
	if (!r->sealed && !facts)
		json_object_set(r->facts, key, in->facts);
	return in;
}

void recording_set_fact(struct recording *r, const char *key, json_t *value)
{
	if (!recording_sealed(r) && value)
		json_object_set(r->facts, key, value);
}

const json_t *recording_fact(const struct recording *r, const char *key)
{
	return json_object_get(r->facts, key);
}

static void drop(struct recording_part *p, const char *fmt, ...) PRINTF(2, 3);
static void drop(struct recording_part *p, const char *fmt, ...)
{
	struct recording *r = p->recording;
	if (p->kept) {
		unlinkat(r->dir_fd, p->name, 0);
		r->kept_bytes -= MIN(r->kept_bytes, p->bytes);
	}
	fd_closep(&p->fd);
	p->kept = false;
	if (r->drop_reason)
		return;
	va_list ap;
	va_start(ap, fmt);
	r->drop_reason = mem_vprintf(fmt, ap);
	va_end(ap);
}

static bool is_full(int errnum)
{
	return errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
}

struct err *recording_part_new(struct recording *r, const char *name, const char *kind, struct recording_part **ret)
{
	if (r->outer) {
		CLEANUP(mem_freep) char *whole = mem_printf("%s%s", r->prefix, name);
		return recording_part_new(r->outer, whole, kind, ret);
	}
	if (!recording_name_ok(name) || !recording_name_ok(kind))
		return err_new(ERR_USAGE, "'%s' of kind '%s' is no name for a part of a recording", name, kind);
	if (r->sealed || recording_find_part(r, name))
		return err_new(ERR_USAGE, "recording '%s' takes no part '%s' (any more)", r->dir, name);
	if (r->parts.n >= RECORDING_PARTS_MAX) {
		r->spill = r->spill ? r->spill : part_alloc(r, "spill", "none");
		drop(r->spill, "more than the %d parts a recording may have", RECORDING_PARTS_MAX);
		*ret = r->spill;
		return NULL;
	}
	int fd = openat(r->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && !is_full(errno))
		return err_errno(errno, "create '%s/%s'", r->dir, name);
	int errnum = errno;
	struct recording_part *p = recording_add_part(r, name, kind);
	p->fd = fd;
	p->open = true;
	p->kept = fd >= 0;
	if (fd < 0)
		drop(p, "%s", strerror(errnum));
	*ret = p;
	return NULL;
}

static bool write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

void recording_part_write(struct recording_part *p, const void *data, size_t len)
{
	struct recording *r = p->recording;
	if (!p->open || !len)
		return;
	if (p->kept && r->kept_bytes + len > r->max_bytes)
		drop(p, "more than the %s a recording may have", fmt_bytes(r->max_bytes).s);
	if (p->kept && !write_all(p->fd, data, len))
		drop(p, "%s", strerror(errno));
	p->bytes += len;
	if (!p->kept)
		return;
	r->kept_bytes += len;
	p->sum = (uint32_t)crc32_z(p->sum, data, len);
}

void recording_part_close(struct recording_part *p, bool whole)
{
	if (!p->open)
		return;
	p->open = false;
	p->whole = whole;
	fd_closep(&p->fd);
}

struct err *recording_seal(struct recording *r)
{
	if (r->sealed)
		return NULL;
	vec_each(p, &r->parts) {
		recording_part_close(*p, false);
		if (!(*p)->kept)
			(*p)->sum = 0;
	}
	TRY(recording_manifest_write(r));
	r->sealed = true;
	return NULL;
}

const char *recording_drop_reason(const struct recording *r)
{
	return r->outer ? recording_drop_reason(r->outer) : r->drop_reason;
}

bool recording_sealed(const struct recording *r)
{
	return r->outer ? recording_sealed(r->outer) : r->sealed;
}

uint64_t recording_kept_bytes(const struct recording *r)
{
	return r->kept_bytes;
}

/* Reads up to `bytes` from the start; stops early at the end of the file or at the first error. */
static struct err *read_range(int fd, uint64_t bytes, struct err *(*chunk)(void *, const void *, size_t), void *user)
{
	CLEANUP(mem_freep) void *room = mem_alloc(CHUNK_BYTES);
	for (uint64_t at = 0; at < bytes;) {
		ssize_t n = pread(fd, room, MIN(CHUNK_BYTES, bytes - at), (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(errno, "read");
		if (n == 0)
			break;
		TRY(chunk(user, room, (size_t)n));
		at += (uint64_t)n;
	}
	return NULL;
}

static struct err *add_to_sum(void *user, const void *data, size_t len)
{
	uint32_t *sum = user;
	*sum = (uint32_t)crc32_z(*sum, data, len);
	return NULL;
}

/* Opened anew for each reading: there may be more parts than a process may have files open. */
static struct err *open_part(struct recording *r, const struct recording_part *p, int *ret_fd, uint64_t *ret_bytes)
{
	CLOSE_FD int fd = openat(r->dir_fd, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_new(ERR_BAD_DATA, "part '%s' of recording '%s' is missing", p->name, r->dir);
	*ret_fd = fd_steal(&fd);
	*ret_bytes = (uint64_t)st.st_size;
	return NULL;
}

static bool part_is_whole(struct recording *r, const struct recording_part *p)
{
	CLOSE_FD int fd = -1;
	uint64_t bytes = 0;
	uint32_t sum = 0;
	struct err *err = open_part(r, p, &fd, &bytes);
	if (!err && bytes == p->bytes)
		err = read_range(fd, bytes, add_to_sum, &sum);
	bool whole = !err && bytes == p->bytes && sum == p->sum;
	err_ignore(err);
	return whole;
}

struct err *recording_open(const char *dir, struct recording **ret)
{
	CLEANUP(recording_freep) struct recording *r = alloc(dir);
	TRY_WRAP(open_dir(r), "recording");
	TRY_WRAP(recording_manifest_read(r), "recording '%s'", dir);
	r->sealed = true;
	for (size_t i = 0; i < r->parts.n; i++) {
		struct recording_part *p = r->parts.v[i];
		if (!p->kept)
			continue;
		r->kept_bytes += p->bytes;
		p->damaged = !part_is_whole(r, p);
	}
	*ret = STEAL(r);
	return NULL;
}

size_t recording_n_parts(const struct recording *r)
{
	size_t n = 0;
	if (!r->outer)
		return r->parts.n;
	vec_each(p, &r->outer->parts)
		n += is_inside(r, *p);
	return n;
}

/* The i-th of one inside of another, in that one's numbers. */
static size_t outer_index(const struct recording *r, size_t i)
{
	size_t at = 0;
	while (!is_inside(r, r->outer->parts.v[at]) || i--)
		at++;
	return at;
}

struct recording_part_info recording_part_info(const struct recording *r, size_t i)
{
	if (r->outer) {
		struct recording_part_info info = recording_part_info(r->outer, outer_index(r, i));
		info.name += strlen(r->prefix);
		return info;
	}
	const struct recording_part *p = r->parts.v[i];
	return (struct recording_part_info){ .name = p->name,
					     .kind = p->kind,
					     .bytes = p->bytes,
					     .whole = p->whole,
					     .kept = p->kept,
					     .damaged = p->damaged };
}

struct err *recording_part_read(struct recording *r, const char *name,
				struct err *(*chunk)(void *user, const void *data, size_t len), void *user)
{
	if (r->outer) {
		CLEANUP(mem_freep) char *whole = mem_printf("%s%s", r->prefix, name);
		return recording_part_read(r->outer, whole, chunk, user);
	}
	struct recording_part *p = recording_find_part(r, name);
	if (!p)
		return err_new(ERR_NOT_FOUND, "recording '%s' has no part '%s'", r->dir, name);
	if (!p->kept)
		return err_new(ERR_NOT_FOUND, "part '%s' of recording '%s' was not kept: %s", name, r->dir,
			       r->drop_reason ? r->drop_reason : "no reason is known");
	CLOSE_FD int fd = -1;
	uint64_t bytes = 0;
	TRY(open_part(r, p, &fd, &bytes));
	return read_range(fd, p->bytes, chunk, user);
}
