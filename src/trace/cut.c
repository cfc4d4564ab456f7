#include "trace/cut.h"
#include <string.h>

#define START_BYTES 32
#define TRACE_BYTES 48
#define HEAD_BYTES 15 /* 05 05 01, version, lowest reader, length of the name */
#define NAME_BYTES_MAX 64
#define OBJECT_BYTES_MAX ((size_t)64 << 20)

#define TAG_END 1
#define TAG_BEGIN 5
#define TAG_DONE 6

static struct err *bad(const struct cutter *c)
{
	return err_new(ERR_BAD_DATA, "nettrace offset %llu: no object begins here", (unsigned long long)c->whole);
}

static enum cut_kind kind_of(const uint8_t *name, size_t len)
{
	static const struct {
		const char *name;
		enum cut_kind kind;
	} kinds[] = {
		{ "Trace", CUT_TRACE },	      { "MetadataBlock", CUT_METADATA }, { "StackBlock", CUT_STACKS },
		{ "EventBlock", CUT_EVENTS }, { "SPBlock", CUT_SEQUENCE },
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strlen(kinds[i].name) == len && !memcmp(kinds[i].name, name, len))
			return kinds[i].kind;
	}
	return CUT_OTHER;
}

static struct err *take_start(struct cutter *c, const uint8_t *p, size_t avail, size_t *ret_need, struct cut_object *o)
{
	uint32_t kind;
	*ret_need = 12;
	if (avail < 12)
		return NULL;
	memcpy(&kind, p + 8, 4);
	if (memcmp(p, "Nettrace", 8) != 0)
		return bad(c);
	if (kind != 20) {
		c->other = true;
		return NULL;
	}
	*ret_need = START_BYTES;
	*o = (struct cut_object){ .kind = CUT_START, .head = p, .head_len = START_BYTES };
	return NULL;
}

/* How long the object at p is, as far as it can be told: then *ret_need is more than there is. */
static struct err *take_object(struct cutter *c, const uint8_t *p, size_t avail, size_t *ret_need, struct cut_object *o)
{
	if (!c->started)
		return take_start(c, p, avail, ret_need, o);
	*ret_need = 1;
	if (p[0] == TAG_END) {
		*o = (struct cut_object){ .kind = CUT_END, .head = p, .head_len = 1 };
		return NULL;
	}
	if (p[0] != TAG_BEGIN)
		return bad(c);
	*ret_need = HEAD_BYTES;
	if (avail < HEAD_BYTES)
		return NULL;
	uint32_t name_len, size;
	memcpy(&name_len, p + 11, 4);
	if (name_len > NAME_BYTES_MAX)
		return bad(c);
	size_t head = HEAD_BYTES + name_len + 1;
	*ret_need = head + 4;
	if (avail < *ret_need)
		return NULL;
	enum cut_kind kind = kind_of(p + HEAD_BYTES, name_len);
	if (kind == CUT_TRACE) {
		*ret_need = head + TRACE_BYTES + 1;
		*o = (struct cut_object){ .kind = kind, .head = p, .head_len = *ret_need };
		return NULL;
	}
	memcpy(&size, p + head, 4);
	if (size > OBJECT_BYTES_MAX)
		return err_new(ERR_BAD_DATA, "nettrace offset %llu: an object of %u bytes",
			       (unsigned long long)c->whole, size);
	size_t pad = -(c->whole + head + 4) & 3;
	*ret_need = head + 4 + pad + size + 1;
	*o = (struct cut_object){
		.kind = kind, .head = p, .head_len = head, .body = p + head + 4 + pad, .body_len = size
	};
	return NULL;
}

static struct err *take_all(struct cutter *c, const uint8_t *p, size_t len, size_t *ret_used,
			    void (*object)(void *user, const struct cut_object *o), void *user)
{
	size_t used = 0;
	while (used < len && !c->ended && !c->other) {
		size_t need = 0;
		struct cut_object o = { 0 };
		TRY(take_object(c, p + used, len - used, &need, &o));
		if (c->other || need > len - used)
			break;
		if (o.body && o.body[o.body_len] != TAG_DONE)
			return bad(c);
		object(user, &o);
		c->started = true;
		c->ended = o.kind == CUT_END;
		used += need;
		c->whole += need;
	}
	*ret_used = used;
	return NULL;
}

struct err *cutter_feed(struct cutter *c, const void *data, size_t len,
			void (*object)(void *user, const struct cut_object *o), void *user)
{
	size_t used = 0;
	if (c->ended || c->other)
		return NULL;
	c->in.limit = 2 * OBJECT_BYTES_MAX;
	if (!c->in.len) {
		TRY(take_all(c, data, len, &used, object, user));
		buf_add(&c->in, (const char *)data + used, len - used);
	} else {
		buf_add(&c->in, data, len);
		TRY(take_all(c, (const uint8_t *)c->in.data, c->in.len, &used, object, user));
		buf_consume(&c->in, used);
	}
	if (c->in.overflow)
		return bad(c);
	if (c->other || c->ended)
		buf_free(&c->in);
	return NULL;
}

void cutter_fini(struct cutter *c)
{
	buf_free(&c->in);
	*c = (struct cutter){ 0 };
}

void cut_write(struct buf *out, uint64_t offset, const struct cut_object *o)
{
	static const char zeros[4];
	size_t start = out->len;
	buf_add(out, o->head, o->head_len);
	if (!o->body)
		return;
	buf_u32(out, (uint32_t)o->body_len);
	buf_add(out, zeros, -(offset + out->len - start) & 3);
	buf_add(out, o->body, o->body_len);
	buf_char(out, TAG_DONE);
}
