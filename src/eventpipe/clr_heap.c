#include "eventpipe/clr_heap.h"

void clr_bulk_open(const struct nettrace_event *event, struct clr_bulk *ret)
{
	enum clr_event kind = clr_event(event);
	struct cursor c = cursor_make(event->payload, event->payload_size);
	bool indexed = kind != CLR_BULK_TYPE && kind != CLR_BULK_STATIC;
	*ret = (struct clr_bulk){ .index = indexed ? cursor_u32(&c) : 0 };
	ret->left = cursor_u32(&c);
	if (kind == CLR_BULK_STATIC)
		(void)cursor_u64(&c);
	(void)cursor_u16(&c);
	ret->damaged = !cursor_ok(&c);
	ret->in = c;
}

static bool begin(struct clr_bulk *b)
{
	if (b->damaged || !b->left)
		return false;
	b->left--;
	return true;
}

static bool end(struct clr_bulk *b)
{
	b->damaged = !cursor_ok(&b->in);
	return !b->damaged;
}

bool clr_bulk_type(struct clr_bulk *b, struct clr_heap_type *ret)
{
	if (!begin(b))
		return false;
	ret->id = cursor_u64(&b->in);
	ret->module = cursor_u64(&b->in);
	ret->token = cursor_u32(&b->in);
	ret->flags = cursor_u32(&b->in);
	(void)cursor_u8(&b->in);
	ret->name = cursor_utf16z(&b->in);
	ret->n_params = cursor_u32(&b->in);
	ret->params = cursor_take(&b->in, (size_t)ret->n_params * sizeof(uint64_t));
	return end(b);
}

bool clr_bulk_root(struct clr_bulk *b, struct clr_heap_root *ret)
{
	if (!begin(b))
		return false;
	ret->object = cursor_u64(&b->in);
	ret->kind = cursor_u8(&b->in);
	ret->flags = cursor_u32(&b->in);
	(void)cursor_u64(&b->in);
	return end(b);
}

bool clr_bulk_link(struct clr_bulk *b, struct clr_heap_link *ret)
{
	if (!begin(b))
		return false;
	ret->key = cursor_u64(&b->in);
	ret->value = cursor_u64(&b->in);
	(void)cursor_u64(&b->in);
	return end(b);
}

bool clr_bulk_node(struct clr_bulk *b, struct clr_heap_node *ret)
{
	if (!begin(b))
		return false;
	ret->object = cursor_u64(&b->in);
	ret->size = cursor_u64(&b->in);
	ret->type = cursor_u64(&b->in);
	ret->edges = cursor_u64(&b->in);
	return end(b);
}

bool clr_bulk_edge(struct clr_bulk *b, uint64_t *ret_object)
{
	if (!begin(b))
		return false;
	*ret_object = cursor_u64(&b->in);
	(void)cursor_u32(&b->in);
	return end(b);
}

bool clr_bulk_static(struct clr_bulk *b, struct clr_heap_static *ret)
{
	if (!begin(b))
		return false;
	(void)cursor_u64(&b->in);
	ret->object = cursor_u64(&b->in);
	ret->type = cursor_u64(&b->in);
	ret->of_thread = cursor_u32(&b->in) & 1;
	ret->field = cursor_utf16z(&b->in);
	return end(b);
}
