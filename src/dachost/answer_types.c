/* Types, their fields, and the modules they come from. */

#include "dachost/host.h"
#include <string.h>

#define MAX_FIELDS 20000
#define MAX_DOMAINS 64
#define MAX_ASSEMBLIES 65536
#define MAX_MODULES 64

static com_char text[HOST_NAME_MAX];

static void type_of(struct host *h, uint64_t address, struct wire_dac_type *t)
{
	struct dacp_method_table data = { 0 };
	struct dacp_mt_fields fields = { 0 };
	t->type = address;
	if (COM_CALL(h->sos, GetMethodTableData, address, &data) < 0)
		return;
	t->known = 1;
	t->module = data.module;
	t->parent = data.parent;
	t->canonical = data.canonical;
	t->base_size = data.base_size;
	t->component_size = data.component_size;
	t->token = data.typedef_token;
	t->attributes = data.attributes;
	t->contains_pointers = data.contains_pointers;
	t->shared = data.shared;
	t->dynamic = data.dynamic;
	/* The type of gaps, which no module defines; further questions about it crash on .NET 8. */
	if (data.is_free)
		return;
	struct dacp_collectible collectible = { 0 };
	if (h->sos6 && COM_CALL(h->sos6, GetMethodTableCollectibleData, address, &collectible) >= 0 &&
	    collectible.collectible && collectible.loader_handle)
		t->loader = memory_u64(&h->memory, collectible.loader_handle);
	if (COM_CALL(h->sos, GetMethodTableFieldData, address, &fields) >= 0) {
		t->n_instance = fields.n_instance;
		t->n_static = fields.n_static;
		t->n_thread_static = fields.n_thread_static;
	}
}

com_hr answer_types(struct host *h, const struct host_question *q, struct host_answer *a)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	for (size_t i = 0; i < q->n; i++) {
		struct wire_dac_type t = { 0 };
		uint32_t needed = 0;
		type_of(h, q->values[i], &t);
		buf_clear(&name);
		memset(text, 0, sizeof(text));
		if (t.known && COM_CALL(h->sos, GetMethodTableName, t.type, HOST_NAME_MAX, text, &needed) >= 0)
			host_utf8(text, HOST_NAME_MAX, &name);
		t.text_len = (uint32_t)name.len;
		answer_add(a, &t, sizeof(t));
		answer_text(a, name.data, name.len);
	}
	return COM_OK;
}

struct metadata_import *host_metadata(struct host *h, uint64_t module)
{
	struct xclr_module *m = NULL;
	void *import = NULL;
	if (COM_CALL(h->sos, GetModule, module, &m) < 0 || !m)
		return NULL;
	if (COM_CALL(m, QueryInterface, &(struct com_guid)COM_IID_METADATA_IMPORT, &import) < 0)
		import = NULL;
	COM_RELEASE(m);
	return import;
}

static void field_name(struct metadata_import *metadata, uint32_t token, struct buf *name)
{
	uint32_t class_token, length, attributes, signature_length, element_type, constant_length;
	const uint8_t *signature;
	const void *constant;
	buf_clear(name);
	memset(text, 0, sizeof(text));
	if (metadata &&
	    COM_CALL(metadata, GetFieldProps, token, &class_token, text, HOST_NAME_MAX, &length, &attributes,
		     &signature, &signature_length, &element_type, &constant, &constant_length) >= 0)
		host_utf8(text, HOST_NAME_MAX, name);
}

/* How many descriptions a type has of its own: the count of instance fields includes the parent's. */
static com_hr own_fields(struct host *h, uint64_t type, uint64_t *ret_first, uint32_t *ret_n)
{
	struct dacp_method_table data = { 0 };
	struct dacp_mt_fields own = { 0 }, inherited = { 0 };
	com_hr hr = COM_CALL(h->sos, GetMethodTableData, type, &data);
	if (hr >= 0)
		hr = COM_CALL(h->sos, GetMethodTableFieldData, type, &own);
	if (hr < 0)
		return hr;
	if (data.parent && COM_CALL(h->sos, GetMethodTableFieldData, data.parent, &inherited) < 0)
		inherited.n_instance = 0;
	uint32_t instance = 0;
	if (own.n_instance > inherited.n_instance)
		instance = (uint32_t)own.n_instance - inherited.n_instance;
	*ret_first = own.first;
	*ret_n = instance + own.n_static;
	return COM_OK;
}

com_hr answer_fields(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct dacp_method_table data = { 0 };
	uint64_t address = 0;
	uint32_t n = 0;
	com_hr hr = own_fields(h, q->values[0], &address, &n);
	if (hr >= 0)
		hr = COM_CALL(h->sos, GetMethodTableData, q->values[0], &data);
	if (hr < 0)
		return hr;
	struct metadata_import *metadata = host_metadata(h, data.module);
	CLEANUP(buf_free) struct buf name = { 0 };
	for (uint32_t i = 0; address && i < n && i < MAX_FIELDS; i++) {
		struct dacp_field_desc field = { 0 };
		if (COM_CALL(h->sos, GetFieldDescData, address, &field) < 0)
			break;
		field_name(metadata, field.token, &name);
		struct wire_dac_field f = {
			.type = field.type,
			.enclosing = field.enclosing,
			.element_type = field.element_type,
			.token = field.token,
			.offset = field.offset,
			.is_static = field.is_static,
			.is_thread_static = field.is_thread_local,
			.text_len = (uint32_t)name.len,
		};
		answer_add(a, &f, sizeof(f));
		answer_text(a, name.data, name.len);
		address = field.next;
	}
	COM_RELEASE(metadata);
	return COM_OK;
}

/* ---- modules ---- */

static void add_module(struct host *h, uint64_t address, struct host_answer *a, struct buf *name)
{
	struct dacp_module_data data = { 0 };
	uint32_t needed = 0;
	if (COM_CALL(h->sos, GetModuleData, address, &data) < 0)
		return;
	buf_clear(name);
	memset(text, 0, sizeof(text));
	if (COM_CALL(h->sos, GetPEFileName, data.pe_assembly, HOST_NAME_MAX, text, &needed) >= 0)
		host_utf8(text, HOST_NAME_MAX, name);
	struct wire_dac_module m = {
		.address = address,
		.assembly = data.assembly,
		.il_base = data.il_base,
		.metadata = data.metadata,
		.metadata_size = data.metadata_size,
		.loader_allocator = data.loader_allocator,
		.module_index = data.module_index,
		.is_reflection = data.is_reflection,
		.text_len = (uint32_t)name->len,
	};
	answer_add(a, &m, sizeof(m));
	answer_text(a, name->data, name->len);
}

static void domain_modules(struct host *h, uint64_t domain, struct host_answer *a, struct buf *name)
{
	static uint64_t assemblies[MAX_ASSEMBLIES];
	int32_t n = 0;
	if (COM_CALL(h->sos, GetAssemblyList, domain, MAX_ASSEMBLIES, assemblies, &n) < 0)
		return;
	for (int32_t i = 0; i < n && i < MAX_ASSEMBLIES; i++) {
		uint64_t modules[MAX_MODULES];
		uint32_t found = 0;
		if (COM_CALL(h->sos, GetAssemblyModuleList, assemblies[i], MAX_MODULES, modules, &found) < 0)
			continue;
		for (uint32_t k = 0; k < found && k < MAX_MODULES; k++)
			add_module(h, modules[k], a, name);
	}
}

com_hr answer_modules(struct host *h, const struct host_question *q, struct host_answer *a)
{
	(void)q;
	uint64_t domains[MAX_DOMAINS];
	uint32_t n = 0;
	com_hr hr = COM_CALL(h->sos, GetAppDomainList, MAX_DOMAINS, domains, &n);
	if (hr < 0)
		return hr;
	CLEANUP(buf_free) struct buf name = { 0 };
	for (uint32_t i = 0; i < n && i < MAX_DOMAINS; i++)
		domain_modules(h, domains[i], a, &name);
	return COM_OK;
}

static void on_module_type(uint32_t index, uint64_t type, void *user)
{
	(void)index;
	answer_add(user, &type, sizeof(type));
}

com_hr answer_module_types(struct host *h, const struct host_question *q, struct host_answer *a)
{
	dacp_module_map_fn on_type = on_module_type;
	return COM_CALL(h->sos, TraverseModuleMap, 0, q->values[0], (void *)on_type, a);
}

/* ---- methods of a type ---- */

#define MAX_METHODS 20000

static void add_type_method(struct host *h, struct metadata_import *metadata, uint64_t module, uint32_t token,
			    struct buf *name, struct host_answer *a)
{
	uint32_t class_token, length, attributes, signature_length, rva, flags, needed = 0;
	const uint8_t *signature;
	struct dacp_method_desc data = { 0 };
	struct wire_dac_type_method m = { .token = token };
	buf_clear(name);
	memset(text, 0, sizeof(text));
	if (COM_CALL(metadata, GetMethodProps, token, &class_token, text, HOST_NAME_MAX, &length, &attributes,
		     &signature, &signature_length, &rva, &flags) >= 0)
		host_utf8(text, HOST_NAME_MAX, name);
	if (COM_CALL(h->sos, GetMethodDescFromToken, module, token, &m.desc) < 0)
		m.desc = 0;
	if (m.desc && COM_CALL(h->sos, GetMethodDescData, m.desc, 0, &data, 0, NULL, &needed) >= 0 && data.has_native)
		m.code = data.native_code;
	m.text_len = (uint32_t)name->len;
	answer_add(a, &m, sizeof(m));
	answer_text(a, name->data, name->len);
}

com_hr answer_type_methods(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct dacp_method_table data = { 0 };
	CLEANUP(buf_free) struct buf name = { 0 };
	void *list = NULL;
	uint32_t tokens[64], got;
	size_t all = 0;
	com_hr hr = COM_CALL(h->sos, GetMethodTableData, q->values[0], &data);
	if (hr < 0)
		return hr;
	struct metadata_import *metadata = host_metadata(h, data.module);
	if (!metadata)
		return COM_E_FAIL;
	do {
		got = 0;
		hr = COM_CALL(metadata, EnumMethods, &list, data.typedef_token, tokens, ARRAY_SIZE(tokens), &got);
		for (uint32_t i = 0; hr >= 0 && i < got && i < ARRAY_SIZE(tokens); i++)
			add_type_method(h, metadata, data.module, tokens[i], &name, a);
		all += got;
	} while (hr == COM_OK && got && all < MAX_METHODS);
	if (list)
		metadata->vtbl->CloseEnum(metadata, list);
	COM_RELEASE(metadata);
	return hr < 0 ? hr : COM_OK;
}
