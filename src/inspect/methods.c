/* Which method is meant: by an address in its code, by name, or by its token. */

#include "base/str.h"
#include "inspect/internal.h"
#include <string.h>

struct err *inspect_token(struct inspect *in, const char *word, enum inspect_table table, uint64_t *ret)
{
	const struct dac_modules *modules;
	const char *mark = strchr(word, '!');
	CLEANUP(mem_freep) char *file = mem_strndup(word, mark ? (size_t)(mark - word) : strlen(word));
	CLEANUP(buf_free) struct buf shown = { 0 };
	uint64_t token;
	if (!mark)
		return err_new(ERR_USAGE, "a token is written Shop.dll!06000012");
	TRY(inspect_address(mark + 1, &token));
	if (token >> 24 != table)
		return err_new(ERR_USAGE, "a %s has a token such as %02x000012, not %s",
			       table == INSPECT_TYPE ? "type" : "method", table, mark + 1);
	TRY(dac_modules(in->look.dac, &modules));
	str_add_visible(&shown, file, strlen(file), 100);
	vec_each(m, modules) {
		const char *slash = strrchr(m->path, '/');
		if (!str_eq(slash ? slash + 1 : m->path, file))
			continue;
		TRY(dac_token(in->look.dac, m->address, (uint32_t)token, ret));
		if (*ret)
			return NULL;
		return err_new(ERR_NOT_FOUND, "nothing that %s calls %08llx is loaded", buf_cstr(&shown),
			       (unsigned long long)token);
	}
	return err_new(ERR_NOT_FOUND, "no assembly is called '%s'; 'modules' lists them", buf_cstr(&shown));
}

/* An address in the newest code of a method; 0 = it has none. */
static uint64_t code_of(struct inspect *in, uint64_t method)
{
	struct dac_versions versions = { 0 };
	uint64_t code = 0;
	err_ignore(dac_versions(in->look.dac, method, &versions));
	vec_each(v, &versions)
		code = v->code ? v->code : code;
	dac_versions_free(&versions);
	return code;
}

/* Of overloads the first that is compiled, else the first. */
static void choose(const struct dac_type_methods *methods, const char *name, struct method_place *ret)
{
	vec_each(m, methods)
		if (str_eq(m->name, name) && m->desc && (!ret->method || (!ret->ip && m->code)))
			*ret = (struct method_place){ .method = m->desc, .ip = m->code };
}

/* "Shop.Orders.Place": a method of a loaded type. */
static struct err *find_by_type(struct inspect *in, const char *word, struct method_place *ret)
{
	struct dac_addresses types = { 0 };
	struct heap *heap;
	const char *dot = strrchr(word, '.');
	/* ".ctor" and ".cctor" begin with one themselves. */
	if (dot && dot > word && dot[-1] == '.')
		dot--;
	CLEANUP(mem_freep) char *type = dot && dot > word ? mem_strndup(word, (size_t)(dot - word)) : NULL;
	TRY(inspect_heap(in, &heap));
	struct err *err = type ? inspect_find_types(in, type, &types) : NULL;
	for (size_t i = 0; !err && i < types.n && !ret->ip; i++) {
		struct dac_type_methods methods = { 0 };
		err_ignore(dac_type_methods(in->look.dac, types.v[i], &methods));
		choose(&methods, dot + 1, ret);
		dac_type_methods_free(&methods);
	}
	dac_addresses_free(&types);
	if (err || ret->method)
		return err;
	CLEANUP(buf_free) struct buf shown = { 0 };
	str_add_visible(&shown, word, strlen(word), 100);
	return err_new(ERR_NOT_FOUND, "no loaded type has a method '%s'; give Type.Method, or an address in its code",
		       buf_cstr(&shown));
}

/* One that some thread is in. */
static bool find_in_stack(struct inspect *in, const struct dac_thread *t, const char *word, struct method_place *ret)
{
	struct dac_stack stack = { 0 };
	CLEANUP(err_freep) struct err *err = t->os_id ? dac_stack(in->look.dac, t->os_id, &stack) : NULL;
	bool found = false;
	for (size_t i = 0; !err && i < stack.n && !found; i++) {
		const struct dac_frame *f = &stack.v[i];
		CLEANUP(buf_free) struct buf name = { 0 };
		if (f->kind || !f->method)
			continue;
		if (!dac_method(in->look.dac, f->method))
			err = dac_learn_methods(in->look.dac, &f->method, 1);
		inspect_add_method(in, f->method, &name);
		found = name.len && inspect_type_fits(buf_cstr(&name), word);
		if (found)
			*ret = (struct method_place){ .method = f->method, .ip = f->ip };
	}
	dac_stack_free(&stack);
	return found;
}

struct err *inspect_find_method(struct inspect *in, const char *word, struct method_place *ret)
{
	const struct dac_threads *threads;
	uint64_t address = 0;
	*ret = (struct method_place){ 0 };
	CLEANUP(err_freep) struct err *no_address = inspect_address(word, &address);
	if (!no_address) {
		struct dac_code code = { 0 };
		CLEANUP(err_freep) struct err *err = dac_code(in->look.dac, address, &code);
		*ret = (struct method_place){ .method = err ? 0 : code.method, .ip = address };
		dac_code_free(&code);
		return ret->method ? NULL
				   : err_new(ERR_NOT_FOUND,
					     "no managed code is at 0x%llx; 'stacks --all' shows addresses of code",
					     (unsigned long long)address);
	}
	if (strchr(word, '!')) {
		TRY(inspect_token(in, word, INSPECT_METHOD, &ret->method));
		ret->ip = code_of(in, ret->method);
		return NULL;
	}
	TRY(inspect_threads(in, &threads));
	vec_each(t, threads)
		if (find_in_stack(in, t, word, ret))
			return NULL;
	return find_by_type(in, word, ret);
}
