/* What clients send: the body of an order, addresses, Accept, and command lines that are masked. */

#include "base/str.h"
#include "base/vec.h"
#include "server/api.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_body(const char *text, size_t size)
{
	struct request *r = request_new(NULL);
	struct scheduler_order *order = mem_zalloc(sizeof(*order));
	json_t *body = NULL;
	int pid = 0;
	vec_push(&r->headers, ((struct pair){ "Content-Type", "application/json" }));
	buf_add(&r->body, text, size);
	struct err *err = request_json(r, &body);
	if (!err)
		err = api_order_read(body, order, &pid);
	/* An order that is taken is whole. */
	if (!err && (!order->profiler || !order->params || pid < 1))
		abort();
	if (err)
		respond_error(r, err);
	err_free(err);
	json_decref(body);
	scheduler_order_free(order);
	request_free(r);
}

static void try_address(const char *text)
{
	struct request *r = request_new(NULL);
	unsigned allowed;
	char guid[STORE_GUID_LEN + 1];
	r->method = METHOD_GET;
	r->path = text;
	routes_find(r, &allowed);
	vec_push(&r->headers, ((struct pair){ "Accept", text }));
	request_accepts_any(r, "application/json");
	struct err *err = api_guid(text, guid);
	if (!err && !store_guid_ok(guid))
		abort();
	err_free(err);
	request_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(mem_freep) char *text = mem_strndup((const char *)data, size);
	CLEANUP(buf_free) struct buf masked = { 0 };
	if (size > 65536)
		return 0;
	try_body((const char *)data, size);
	try_address(text);
	mask_secrets(&masked, text);
	return 0;
}
