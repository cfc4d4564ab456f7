/* manifest.json:
 *
 *   { "format": 1, "facts": {...}, "dropped": "why" | null,
 *     "parts": [ { "name", "kind", "bytes", "crc32", "whole", "kept" } ... ],
 *     "crc32": "sum of all the rest, written compactly with sorted keys" }
 *
 * The sum makes a flipped digit in a fact as visible as one in a part: a report must not show what was not measured. */

#include "recording/internal.h"
#include "base/fd.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

uint32_t recording_manifest_sum(const json_t *manifest)
{
	char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	uint32_t sum = text ? (uint32_t)crc32_z(0, (const Bytef *)text, strlen(text)) : 0;
	free(text);
	return sum;
}

static json_t *sum_text(uint32_t sum)
{
	char text[9];
	snprintf(text, sizeof(text), "%08x", sum);
	return json_string(text);
}

static bool parse_sum(const char *text, uint32_t *ret)
{
	if (!text || strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8)
		return false;
	*ret = (uint32_t)strtoul(text, NULL, 16);
	return true;
}

static json_t *build(const struct recording *r)
{
	json_t *parts = json_array();
	for (size_t i = 0; i < r->parts.n; i++) {
		const struct recording_part *p = r->parts.v[i];
		json_t *o = json_object();
		json_object_set_new(o, "name", json_string(p->name));
		json_object_set_new(o, "kind", json_string(p->kind));
		json_object_set_new(o, "bytes", json_integer((json_int_t)p->bytes));
		json_object_set_new(o, "crc32", sum_text(p->sum));
		json_object_set_new(o, "whole", json_boolean(p->whole));
		json_object_set_new(o, "kept", json_boolean(p->kept));
		json_array_append_new(parts, o);
	}
	json_t *m = json_object();
	json_object_set_new(m, "format", json_integer(RECORDING_FORMAT));
	json_object_set(m, "facts", r->facts);
	json_object_set_new(m, "dropped", r->drop_reason ? json_string(r->drop_reason) : json_null());
	json_object_set_new(m, "parts", parts);
	json_object_set_new(m, "crc32", sum_text(recording_manifest_sum(m)));
	return m;
}

static struct err *write_file(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(errno, "write " RECORDING_MANIFEST);
		text += n;
		len -= (size_t)n;
	}
	return NULL;
}

struct err *recording_manifest_write(struct recording *r)
{
	static const char temp[] = RECORDING_MANIFEST ".tmp";
	json_t *m = build(r);
	char *text = json_dumps(m, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	json_decref(m);
	if (!text || strlen(text) > RECORDING_MANIFEST_MAX) {
		free(text);
		return err_new(ERR_BAD_DATA, "the facts of recording '%s' do not fit a manifest", r->dir);
	}
	CLOSE_FD int fd = openat(r->dir_fd, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct err *err = fd < 0 ? err_errno(errno, "create " RECORDING_MANIFEST) : write_file(fd, text, strlen(text));
	free(text);
	if (!err && renameat(r->dir_fd, temp, r->dir_fd, RECORDING_MANIFEST) < 0)
		err = err_errno(errno, "rename " RECORDING_MANIFEST);
	if (err)
		unlinkat(r->dir_fd, temp, 0);
	return err ? err_wrap(err, "recording '%s'", r->dir) : NULL;
}

static struct err *read_text(struct recording *r, struct buf *out)
{
	/* O_NONBLOCK: a fifo in its place must not hold us. */
	CLOSE_FD int fd = openat(r->dir_fd, RECORDING_MANIFEST, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_new(ERR_NOT_FOUND, "no " RECORDING_MANIFEST " in it: no recording, or an unfinished one");
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(errno, RECORDING_MANIFEST);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > RECORDING_MANIFEST_MAX)
		return err_new(ERR_BAD_DATA, RECORDING_MANIFEST " is no file of at most %zu bytes",
			       RECORDING_MANIFEST_MAX);
	char *room = buf_room(out, (size_t)st.st_size);
	ssize_t n;
	while ((n = read(fd, room + out->len, (size_t)st.st_size - out->len)) != 0) {
		if (n < 0 && errno != EINTR)
			return err_errno(errno, "read " RECORDING_MANIFEST);
		if (n > 0)
			out->len += (size_t)n;
	}
	return NULL;
}

static struct err *read_part(struct recording *r, const json_t *o)
{
	const char *name = json_get_str(o, "name", NULL), *kind = json_get_str(o, "kind", NULL);
	int64_t bytes = json_get_int(o, "bytes", -1);
	uint32_t sum;
	if (!name || !recording_name_ok(name) || recording_find_part(r, name))
		return err_new(ERR_BAD_DATA, "a part has no name of its own that could be one");
	if (!kind || !recording_name_ok(kind) || !parse_sum(json_get_str(o, "crc32", NULL), &sum))
		return err_new(ERR_BAD_DATA, "part '%s' has no kind or no sum", name);
	if (bytes < 0 || (uint64_t)bytes > RECORDING_PART_BYTES_MAX)
		return err_new(ERR_BAD_DATA, "part '%s' has no possible size", name);
	struct recording_part *p = recording_add_part(r, name, kind);
	p->bytes = (uint64_t)bytes;
	p->sum = sum;
	p->whole = json_get_bool(o, "whole", false);
	p->kept = json_get_bool(o, "kept", false);
	return NULL;
}

static struct err *read_fields(struct recording *r, json_t *m)
{
	if (!json_is_object(m))
		return err_new(ERR_BAD_DATA, "not an object");
	int64_t format = json_get_int(m, "format", 0);
	if (format > RECORDING_FORMAT)
		return err_new(ERR_UNSUPPORTED, "format %lld is newer than this program, which knows up to %d",
			       (long long)format, RECORDING_FORMAT);
	uint32_t sum;
	bool has_sum = parse_sum(json_get_str(m, "crc32", NULL), &sum);
	json_object_del(m, "crc32");
	if (format < 1 || !has_sum || sum != recording_manifest_sum(m))
		return err_new(ERR_BAD_DATA, "damaged: its sum differs");
	json_t *facts = json_object_get(m, "facts"), *parts = json_object_get(m, "parts");
	if (!json_is_object(facts) || !json_is_array(parts) || json_array_size(parts) > RECORDING_PARTS_MAX)
		return err_new(ERR_BAD_DATA, "no facts, or not 0 to %d parts", RECORDING_PARTS_MAX);
	json_decref(r->facts);
	r->facts = json_incref(facts);
	const char *dropped = json_get_str(m, "dropped", NULL);
	r->drop_reason = dropped ? mem_strdup(dropped) : NULL;
	for (size_t i = 0; i < json_array_size(parts); i++)
		TRY(read_part(r, json_array_get(parts, i)));
	return NULL;
}

struct err *recording_manifest_read(struct recording *r)
{
	struct buf text = { .limit = RECORDING_MANIFEST_MAX + 1 };
	json_t *m = NULL;
	struct err *err = read_text(r, &text);
	if (!err)
		err = json_parse(buf_cstr(&text), text.len, RECORDING_MANIFEST_MAX, &m);
	buf_free(&text);
	if (!err)
		err = read_fields(r, m);
	json_decref(m);
	return err;
}
