/* A method that is not compiled yet, or may be compiled better later, is called through a stub:
 *
 *   ff 25 <d>      jmp [rip + d]         the code's address there, the method's own 8 bytes behind it
 *   4c 8b 15 <d>   mov r10, [rip + d]    the method's own there */

#include "memory/delegates.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include <string.h>

/* The method whose code is at ip; 0 = none. */
static uint64_t method_at(struct dac *dac, uint64_t ip)
{
	struct dac_code code = { 0 };
	CLEANUP(err_freep) struct err *err = dac_code(dac, ip, &code);
	uint64_t method = err ? 0 : code.method;
	dac_code_free(&code);
	return method;
}

/* What stands beside a stub's target is a method only if it is such a stub: the runtime's library does not survive
 * questions about anything else, so it is taken only where one method is asked for. */
static uint64_t through_stub(struct dac *dac, const struct image *image, uint64_t ip, bool compiled)
{
	uint8_t code[7];
	int32_t distance;
	uint64_t target = 0, method = 0;
	if (!image_read_all(image, ip, code, sizeof(code)))
		return 0;
	if (code[0] == 0xff && code[1] == 0x25) {
		memcpy(&distance, code + 2, sizeof(distance));
		uint64_t slot = ip + 6 + (uint64_t)(int64_t)distance;
		if (image_read_all(image, slot, &target, sizeof(target)) && (method = method_at(dac, target)))
			return method;
		return !compiled && image_read_all(image, slot + 8, &method, sizeof(method)) ? method : 0;
	}
	if (!compiled && code[0] == 0x4c && code[1] == 0x8b && code[2] == 0x15) {
		memcpy(&distance, code + 3, sizeof(distance));
		return image_read_all(image, ip + 7 + (uint64_t)(int64_t)distance, &method, sizeof(method)) ? method
													    : 0;
	}
	return 0;
}

static uint64_t code_method(struct dac *dac, const struct image *image, uint64_t ip, bool compiled)
{
	uint64_t method = method_at(dac, ip);
	return method ? method : through_stub(dac, image, ip, compiled);
}

static uint64_t code_of(struct heap *h, struct heap_value delegate)
{
	int64_t ip = 0;
	/* Static methods are called through one word more. */
	if (!heap_get_int(h, delegate, "_methodPtrAux", &ip) || !ip)
		(void)heap_get_int(h, delegate, "_methodPtr", &ip);
	return (uint64_t)ip;
}

uint64_t delegate_method(struct heap *h, struct dac *dac, const struct image *image, struct heap_value delegate,
			 bool compiled)
{
	uint64_t ip = code_of(h, delegate);
	return ip && dac ? code_method(dac, image, ip, compiled) : 0;
}

bool code_show(struct dac *dac, const struct image *image, uint64_t ip, struct buf *out)
{
	CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 };
	uint64_t method = code_method(dac, image, ip, false);
	if (!method)
		return false;
	if (!dac_method(dac, method))
		err_ignore(dac_learn_methods(dac, &method, 1));
	const struct dac_method *m = dac_method(dac, method);
	if (!m || str_empty(m->name))
		return false;
	dac_split_name(m->name, &space, &member);
	method_show(buf_cstr(&space), buf_cstr(&member), out);
	return true;
}

bool delegate_show(struct heap *h, struct dac *dac, const struct image *image, struct heap_value delegate,
		   struct buf *out)
{
	uint64_t ip = code_of(h, delegate);
	return ip && dac && code_show(dac, image, ip, out);
}
