/* A method's code: its versions, its exception handlers, where its IL is, and the names of tokens. */

#include "dachost/host.h"
#include <string.h>

#define MAX_VERSIONS 256
#define MAX_CLAUSES 4096
#define MAX_DEPTH 8	  /* of types inside of types */
#define MAX_ARGUMENTS 32u /* of a generic type */

static com_char text[HOST_NAME_MAX];

com_hr answer_versions(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct dacp_version versions[MAX_VERSIONS];
	int32_t n = 0;
	if (!h->sos5)
		return COM_E_NOTIMPL;
	com_hr hr = COM_CALL(h->sos5, GetTieredVersions, q->values[0], 0, versions, MAX_VERSIONS, &n);
	for (int32_t i = 0; hr >= 0 && i < n && i < MAX_VERSIONS; i++) {
		struct wire_dac_version v = { .code = versions[i].code, .tier = versions[i].tier };
		answer_add(a, &v, sizeof(v));
	}
	return hr;
}

/* ---- all code in a range ---- */

#define CODE_STEP 16u /* code and what stands before it begin at such places */
#define CODE_MAX (1u << 20)

/* The next place from `at` on that is not zero: much of a block is not used yet. */
static uint64_t next_used(const struct memory *m, uint64_t at, uint64_t end)
{
	static uint8_t bytes[4096];
	while (at < end) {
		size_t want = MIN(sizeof(bytes) - at % sizeof(bytes), end - at), got = memory_read(m, at, bytes, want);
		for (size_t i = 0; i < got; i++)
			if (bytes[i])
				return at + i;
		at += want; /* a page that cannot be read is not used either */
	}
	return end;
}

static void add_code(const struct dacp_code_header *header, struct host_answer *a)
{
	struct wire_dac_code code = {
		.start = header->start, .method = header->desc, .size = header->size, .jit_type = header->jit_type
	};
	answer_add(a, &code, sizeof(code));
}

com_hr answer_code_in(struct host *h, const struct host_question *q, struct host_answer *a)
{
	uint64_t at = q->values[0], end = q->values[1];
	for (size_t n = 0; n < CODE_MAX && (at = next_used(&h->memory, at, end)) < end;) {
		struct dacp_code_header header = { 0 };
		at -= at % CODE_STEP;
		/* Behind a method's end the library still finds that method. */
		if (COM_CALL(h->sos, GetCodeHeaderData, at, &header) < 0 || header.jit_type != 1 || at < header.start ||
		    at - header.start >= header.size) {
			at += CODE_STEP;
			continue;
		}
		add_code(&header, a);
		at = (header.start + header.size + CODE_STEP - 1) / CODE_STEP * CODE_STEP;
		n++;
	}
	return COM_OK;
}

/* Method by method: to ask for the method at an address is slow where there is none. */
com_hr answer_module_code(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct metadata_import *metadata = host_metadata(h, q->values[0]);
	uint32_t parent, length, attributes, signature_length, rva, flags;
	const uint8_t *signature;
	if (!metadata)
		return COM_E_FAIL;
	uint32_t first = (uint32_t)q->values[1];
	com_hr hr = COM_CALL(metadata, GetMethodProps, first, &parent, text, HOST_NAME_MAX, &length, &attributes,
			     &signature, &signature_length, &rva, &flags);
	COM_RELEASE(metadata);
	for (uint32_t token = first; hr >= 0 && token - first < q->values[2]; token++) {
		struct dacp_method_desc data = { 0 };
		struct dacp_code_header header = { 0 };
		uint64_t desc = 0;
		uint32_t needed = 0;
		if (COM_CALL(h->sos, GetMethodDescFromToken, q->values[0], token, &desc) < 0 || !desc ||
		    COM_CALL(h->sos, GetMethodDescData, desc, 0, &data, 0, NULL, &needed) < 0 || !data.has_native)
			continue;
		if (COM_CALL(h->sos, GetCodeHeaderData, data.native_code, &header) >= 0 && header.jit_type == 2)
			add_code(&header, a);
	}
	return hr;
}

/* ---- what tokens stand for ---- */

enum { TYPE_REF = 0x01, TYPE_DEF = 0x02, FIELD = 0x04, METHOD = 0x06, MEMBER_REF = 0x0A, TYPE_SPEC = 0x1B };
enum { ASSEMBLY = 0x20, METHOD_SPEC = 0x2B, USER_STRING = 0x70 };

static void token_name(struct metadata_import *m, uint32_t token, unsigned depth, struct buf *out);

static void add_name(const com_char *units, size_t n, struct buf *out)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	host_utf8(units, n, &name);
	buf_add(out, name.data, name.len);
}

static void add_text(struct buf *out)
{
	add_name(text, HOST_NAME_MAX, out);
}

struct signature {
	const uint8_t *at, *end;
};

static uint32_t take_byte(struct signature *s)
{
	return s->at < s->end ? *s->at++ : 0;
}

/* A number of one, two or four bytes, the length in its first bits. */
static uint32_t take_number(struct signature *s)
{
	uint32_t b = take_byte(s);
	if (!(b & 0x80))
		return b;
	if (!(b & 0x40))
		return (b & 0x3f) << 8 | take_byte(s);
	b = (b & 0x1f) << 8 | take_byte(s);
	b = b << 8 | take_byte(s);
	return b << 8 | take_byte(s);
}

static uint32_t take_type_token(struct signature *s)
{
	static const uint32_t tables[] = { TYPE_DEF, TYPE_REF, TYPE_SPEC, TYPE_SPEC };
	uint32_t coded = take_number(s);
	return tables[coded & 3] << 24 | coded >> 2;
}

static void type_name(struct metadata_import *m, struct signature *s, unsigned depth, struct buf *out)
{
	static const char *const plain[] = {
		[0x01] = "void",  [0x02] = "bool",   [0x03] = "char",	[0x04] = "sbyte",  [0x05] = "byte",
		[0x06] = "short", [0x07] = "ushort", [0x08] = "int",	[0x09] = "uint",   [0x0A] = "long",
		[0x0B] = "ulong", [0x0C] = "float",  [0x0D] = "double", [0x0E] = "string", [0x16] = "typedref",
		[0x18] = "nint",  [0x19] = "nuint",  [0x1C] = "object"
	};
	uint32_t kind = take_byte(s);
	if (depth > MAX_DEPTH)
		return;
	if (kind < ARRAY_SIZE(plain) && plain[kind]) {
		buf_str(out, plain[kind]);
	} else if (kind == 0x11 || kind == 0x12) { /* a structure, a class */
		token_name(m, take_type_token(s), depth + 1, out);
	} else if (kind == 0x13 || kind == 0x1E) { /* a parameter of the type, of the method */
		buf_printf(out, kind == 0x13 ? "!%u" : "!!%u", take_number(s));
	} else if (kind == 0x0F || kind == 0x10 || kind == 0x1D) { /* pointer, reference, array */
		type_name(m, s, depth + 1, out);
		buf_str(out, kind == 0x0F ? "*" : kind == 0x10 ? "&" : "[]");
	} else if (kind == 0x15) { /* generic */
		type_name(m, s, depth + 1, out);
		uint32_t n = take_number(s);
		for (uint32_t i = 0; i < n && i < MAX_ARGUMENTS; i++) {
			buf_char(out, i ? ',' : '<');
			type_name(m, s, depth + 1, out);
		}
		buf_char(out, '>');
	} else {
		buf_char(out, '?');
	}
}

static void type_spec_name(struct metadata_import *m, uint32_t token, unsigned depth, struct buf *out)
{
	const uint8_t *bytes = NULL;
	uint32_t n = 0;
	if (COM_CALL(m, GetTypeSpecFromToken, token, &bytes, &n) < 0 || !bytes)
		return;
	struct signature s = { bytes, bytes + n };
	type_name(m, &s, depth, out);
}

static void type_def_name(struct metadata_import *m, uint32_t token, unsigned depth, struct buf *out)
{
	uint32_t length, flags, extends, enclosing = 0;
	if (COM_CALL(m, GetNestedClassProps, token, &enclosing) >= 0 && enclosing >> 24 == TYPE_DEF) {
		token_name(m, enclosing, depth + 1, out);
		buf_char(out, '+');
	}
	memset(text, 0, sizeof(text));
	if (COM_CALL(m, GetTypeDefProps, token, text, HOST_NAME_MAX, &length, &flags, &extends) >= 0)
		add_text(out);
}

static void type_ref_name(struct metadata_import *m, uint32_t token, unsigned depth, struct buf *out)
{
	uint32_t scope = 0, length;
	com_char name[256] = { 0 };
	if (COM_CALL(m, GetTypeRefProps, token, &scope, name, ARRAY_SIZE(name) - 1, &length) < 0)
		return;
	if (scope >> 24 == TYPE_REF && scope != token) {
		token_name(m, scope, depth + 1, out);
		buf_char(out, '+');
	}
	add_name(name, ARRAY_SIZE(name), out);
}

/* A member with the type it belongs to. */
static void member_name(struct metadata_import *m, uint32_t token, unsigned depth, struct buf *out)
{
	uint32_t parent = 0, length, a, b, c, d;
	const uint8_t *signature;
	const void *constant;
	com_char name[512] = { 0 };
	uint32_t room = ARRAY_SIZE(name) - 1;
	com_hr hr = token >> 24 == METHOD ? COM_CALL(m, GetMethodProps, token, &parent, name, room, &length, &a,
						     &signature, &b, &c, &d)
		    : token >> 24 == FIELD
			    ? COM_CALL(m, GetFieldProps, token, &parent, name, room, &length, &a, &signature, &b, &c,
				       &constant, &d)
			    : COM_CALL(m, GetMemberRefProps, token, &parent, name, room, &length, &signature, &b);
	if (hr < 0)
		return;
	size_t before = out->len;
	token_name(m, parent, depth + 1, out);
	if (out->len > before)
		buf_char(out, '.');
	add_name(name, ARRAY_SIZE(name), out);
}

static void method_spec_name(struct metadata_import *m, uint32_t token, unsigned depth, struct buf *out)
{
	void *found = NULL;
	uint32_t method = 0, n = 0;
	const uint8_t *bytes = NULL;
	if (COM_CALL(m, QueryInterface, &(struct com_guid)COM_IID_METADATA_IMPORT2, &found) < 0 || !found)
		return;
	struct metadata_import *two = found;
	if (COM_CALL(two, GetMethodSpecProps, token, &method, &bytes, &n) >= 0 && method >> 24 != METHOD_SPEC) {
		token_name(m, method, depth + 1, out);
		struct signature s = { bytes, bytes ? bytes + n : NULL };
		(void)take_byte(&s); /* says that it is one */
		uint32_t arguments = take_number(&s);
		for (uint32_t i = 0; i < arguments && i < MAX_ARGUMENTS; i++) {
			buf_char(out, i ? ',' : '<');
			type_name(m, &s, depth + 1, out);
		}
		buf_char(out, '>');
	}
	COM_RELEASE(two);
}

static void string_text(struct metadata_import *m, uint32_t token, struct buf *out)
{
	uint32_t length = 0;
	memset(text, 0, sizeof(text));
	if (COM_CALL(m, GetUserString, token, text, HOST_NAME_MAX - 1, &length) < 0)
		return;
	buf_char(out, '"');
	text[length < HOST_NAME_MAX ? length : HOST_NAME_MAX - 1] = 0;
	add_text(out);
	buf_char(out, '"');
}

static void assembly_name(struct metadata_import *m, uint32_t token, struct buf *out)
{
	void *found = NULL;
	if (COM_CALL(m, QueryInterface, &(struct com_guid)COM_IID_METADATA_ASSEMBLY_IMPORT, &found) < 0 || !found)
		return;
	struct metadata_assembly_import *assemblies = found;
	const void *key;
	uint32_t key_length, hash, length, flags;
	memset(text, 0, sizeof(text));
	if (COM_CALL(assemblies, GetAssemblyProps, token, &key, &key_length, &hash, text, HOST_NAME_MAX - 1, &length,
		     NULL, &flags) >= 0)
		add_text(out);
	COM_RELEASE(assemblies);
}

static void token_name(struct metadata_import *m, uint32_t token, unsigned depth, struct buf *out)
{
	if (depth > MAX_DEPTH)
		return;
	switch (token >> 24) {
	case TYPE_DEF:
		type_def_name(m, token, depth, out);
		break;
	case TYPE_REF:
		type_ref_name(m, token, depth, out);
		break;
	case TYPE_SPEC:
		type_spec_name(m, token, depth, out);
		break;
	case FIELD:
	case METHOD:
	case MEMBER_REF:
		member_name(m, token, depth, out);
		break;
	case METHOD_SPEC:
		method_spec_name(m, token, depth, out);
		break;
	case ASSEMBLY:
		assembly_name(m, token, out);
		break;
	case USER_STRING:
		string_text(m, token, out);
		break;
	default:
		break;
	}
}

com_hr answer_token_names(struct host *h, const struct host_question *q, struct host_answer *a)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	struct metadata_import *metadata = q->n ? host_metadata(h, q->values[0]) : NULL;
	if (!metadata)
		return COM_E_FAIL;
	for (size_t i = 1; i < q->n; i++) {
		struct wire_dac_token t = { .token = (uint32_t)q->values[i] };
		buf_clear(&name);
		token_name(metadata, t.token, 0, &name);
		t.text_len = (uint32_t)name.len;
		answer_add(a, &t, sizeof(t));
		answer_text(a, name.data, name.len);
	}
	COM_RELEASE(metadata);
	return COM_OK;
}

com_hr answer_token(struct host *h, const struct host_question *q, struct host_answer *a)
{
	uint64_t found = 0;
	com_hr hr = COM_CALL(h->sos, GetMethodDescFromToken, q->values[0], (uint32_t)q->values[1], &found);
	if (hr >= 0 && found)
		answer_add(a, &found, sizeof(found));
	return COM_OK;
}

/* ---- exception handlers ---- */

struct clauses {
	struct host *h;
	struct host_answer *a;
	struct buf name;
	size_t n;
};

static void caught_name(struct clauses *c, const struct dacp_clause *clause)
{
	uint32_t needed = 0;
	buf_clear(&c->name);
	if (!clause->module && clause->type) {
		memset(text, 0, sizeof(text));
		if (COM_CALL(c->h->sos, GetMethodTableName, clause->type, HOST_NAME_MAX, text, &needed) >= 0)
			add_text(&c->name);
		return;
	}
	struct metadata_import *metadata = clause->module ? host_metadata(c->h, clause->module) : NULL;
	if (metadata)
		token_name(metadata, clause->token, 0, &c->name);
	COM_RELEASE(metadata);
}

static com_bool on_clause(uint32_t index, uint32_t n, struct dacp_clause *clause, void *user)
{
	struct clauses *c = user;
	(void)index, (void)n;
	buf_clear(&c->name);
	if (clause->kind == 3 && !clause->catches_all)
		caught_name(c, clause);
	struct wire_dac_clause out = {
		.try_start = clause->try_start,
		.try_end = clause->try_end,
		.start = clause->start,
		.end = clause->end,
		.kind = clause->kind,
		.any = clause->catches_all,
		.text_len = (uint32_t)c->name.len,
	};
	answer_add(c->a, &out, sizeof(out));
	answer_text(c->a, c->name.data, c->name.len);
	return ++c->n < MAX_CLAUSES;
}

com_hr answer_clauses(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct clauses c = { .h = h, .a = a };
	dacp_clause_fn callback = on_clause;
	com_hr hr = COM_CALL(h->sos, TraverseEHInfo, q->values[0], (void *)callback, &c);
	buf_free(&c.name);
	/* It says no when there are none. */
	return hr < 0 && c.n ? hr : COM_OK;
}

/* ---- IL ---- */

com_hr answer_il(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct dacp_method_desc data = { 0 };
	uint32_t needed = 0, parent, length, attributes, signature_length, rva = 0, flags;
	const uint8_t *signature;
	uint64_t il = 0;
	com_hr hr = COM_CALL(h->sos, GetMethodDescData, q->values[0], 0, &data, 0, NULL, &needed);
	if (hr < 0)
		return hr;
	struct metadata_import *metadata = data.dynamic ? NULL : host_metadata(h, data.module);
	if (!metadata)
		return COM_OK;
	hr = COM_CALL(metadata, GetMethodProps, data.token, &parent, text, HOST_NAME_MAX, &length, &attributes,
		      &signature, &signature_length, &rva, &flags);
	if (hr >= 0 && rva && COM_CALL(h->sos, GetILForModule, data.module, rva, &il) >= 0 && il) {
		struct wire_dac_range r = { .start = il };
		answer_add(a, &r, sizeof(r));
	}
	COM_RELEASE(metadata);
	return COM_OK;
}
