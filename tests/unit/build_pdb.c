#include "build_pdb.h"
#include "build_bytes.h"
#include <assert.h>
#include <string.h>
#include <zlib.h>

static void compressed(struct buf *b, uint32_t v)
{
	if (v < 0x80) {
		put(b, v, 1);
	} else if (v < 0x4000) {
		put(b, v >> 8 | 0x80, 1);
		put(b, v & 0xff, 1);
	} else {
		put(b, v >> 24 | 0xc0, 1);
		put(b, v >> 16 & 0xff, 1);
		put(b, v >> 8 & 0xff, 1);
		put(b, v & 0xff, 1);
	}
}

static void compressed_signed(struct buf *b, int32_t v)
{
	if (v >= -0x40 && v < 0x40)
		compressed(b, ((uint32_t)v & 0x3f) << 1 | (v < 0));
	else if (v >= -0x2000 && v < 0x2000) {
		uint32_t u = ((uint32_t)v & 0x1fff) << 1 | (v < 0);
		put(b, u >> 8 | 0x80, 1);
		put(b, u & 0xff, 1);
	} else {
		uint32_t u = ((uint32_t)v & 0xfffffff) << 1 | (v < 0);
		put(b, u >> 24 | 0xc0, 1);
		put(b, u >> 16 & 0xff, 1);
		put(b, u >> 8 & 0xff, 1);
		put(b, u & 0xff, 1);
	}
}

/* All heaps and tables of one file. */
struct making {
	const struct build_pdb *b;
	struct buf strings, blobs, documents, methods, scopes, variables, machines, custom;
	uint32_t n_scopes, n_variables, n_machines, n_custom;
};

static uint32_t add_blob(struct making *m, const struct buf *bytes)
{
	uint32_t at = (uint32_t)m->blobs.len;
	compressed(&m->blobs, (uint32_t)bytes->len);
	buf_add(&m->blobs, bytes->data, bytes->len);
	return at;
}

static void put_heap(struct making *m, struct buf *out, uint32_t v)
{
	put(out, v, m->b->wide ? 4 : 2);
}

static bool wide_methods(const struct build_pdb *b)
{
	return b->n_methods >= 65536;
}

static void add_document(struct making *m, const char *path)
{
	struct buf name = { 0 };
	buf_char(&name, '/');
	for (const char *p = path;; p++) {
		size_t len = strcspn(p, "/");
		struct buf part = { 0 };
		buf_add(&part, p, len);
		compressed(&name, len ? add_blob(m, &part) : 0);
		buf_free(&part);
		p += len;
		if (!*p)
			break;
	}
	put_heap(m, &m->documents, add_blob(m, &name));
	put_heap(m, &m->documents, 0);
	put_heap(m, &m->documents, 0);
	put_heap(m, &m->documents, 0);
	buf_free(&name);
}

static uint32_t add_points(struct making *m, const struct build_pdb_method *method)
{
	struct buf s = { 0 };
	uint32_t il = 0, line = 0, column = 0, document = method->document;
	bool visible = false;
	compressed(&s, 0);
	for (size_t i = 0; i < method->n_points; i++) {
		const struct build_pdb_point *p = &method->points[i];
		if (p->document && p->document != document) {
			if (i)
				compressed(&s, 0);
			compressed(&s, p->document);
			document = p->document;
		}
		compressed(&s, p->il - il);
		il = p->il;
		compressed(&s, 0);
		if (!p->line) {
			compressed(&s, 0);
			continue;
		}
		compressed(&s, 7);
		if (visible) {
			compressed_signed(&s, (int32_t)(p->line - line));
			compressed_signed(&s, (int32_t)(p->column - column));
		} else {
			compressed(&s, p->line);
			compressed(&s, p->column);
		}
		visible = true;
		line = p->line;
		column = p->column;
	}
	uint32_t at = add_blob(m, &s);
	buf_free(&s);
	return at;
}

static void add_locals(struct making *m, uint32_t row, const struct build_pdb_method *method)
{
	for (size_t i = 0; i < method->n_locals; i++) {
		const struct build_pdb_local *l = &method->locals[i];
		put(&m->scopes, row, wide_methods(m->b) ? 4 : 2);
		put(&m->scopes, 0, 2);
		put(&m->scopes, m->n_variables + 1, 2);
		put(&m->scopes, 1, 2);
		put(&m->scopes, l->il, 4);
		put(&m->scopes, l->len, 4);
		m->n_scopes++;
		put(&m->variables, 0, 2);
		put(&m->variables, l->slot, 2);
		put_heap(m, &m->variables, (uint32_t)m->strings.len);
		buf_add(&m->strings, l->name, strlen(l->name) + 1);
		m->n_variables++;
	}
}

static void add_state_machine(struct making *m, uint32_t row, const struct build_pdb_method *method)
{
	put(&m->machines, row, wide_methods(m->b) ? 4 : 2);
	put(&m->machines, method->kickoff, wide_methods(m->b) ? 4 : 2);
	m->n_machines++;
	struct buf info = { 0 };
	put(&info, 0, 4);
	for (size_t i = 0; i < method->n_awaits; i++) {
		put(&info, method->awaits[i], 4);
		put(&info, method->awaits[i] + 5, 4);
		compressed(&info, row);
	}
	bool wide = m->b->assembly_rows >= 2048 || m->b->n_methods >= 2048;
	put(&m->custom, row << 5, wide ? 4 : 2);
	put_heap(m, &m->custom, 1);
	put_heap(m, &m->custom, add_blob(m, &info));
	m->n_custom++;
	buf_free(&info);
}

static void add_tables(struct making *m, struct buf *out)
{
	const struct build_pdb *b = m->b;
	put(out, 0, 6);
	put(out, b->wide ? 7 : 0, 1);
	put(out, 1, 1);
	put(out, (uint64_t)0xcf << 48, 8);
	put(out, 0, 8);
	put(out, b->n_documents, 4);
	put(out, b->n_methods, 4);
	put(out, m->n_scopes, 4);
	put(out, m->n_variables, 4);
	put(out, m->n_machines, 4);
	put(out, m->n_custom, 4);
	const struct buf *tables[] = {
		&m->documents, &m->methods, &m->scopes, &m->variables, &m->machines, &m->custom
	};
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		buf_add(out, tables[i]->data, tables[i]->len);
	pad(out);
}

static void add_streams(const struct buf *streams, size_t n, struct buf *out)
{
	static const char *const names[] = { "#Pdb", "#~", "#Strings", "#GUID", "#Blob" };
	size_t at = 32;
	put(out, 0x424a5342, 4);
	put(out, 0x10001, 4);
	put(out, 0, 4);
	put(out, 12, 4);
	buf_add(out, "PDB v1.0\0\0\0", 12);
	put(out, 0, 2);
	put(out, n, 2);
	for (size_t i = 0; i < n; i++)
		at += 8 + (strlen(names[i]) + 4) / 4 * 4;
	for (size_t i = 0; i < n; i++) {
		put(out, at, 4);
		put(out, streams[i].len, 4);
		buf_add(out, names[i], strlen(names[i]) + 1);
		pad(out);
		at += streams[i].len;
	}
	for (size_t i = 0; i < n; i++)
		buf_add(out, streams[i].data, streams[i].len);
}

void build_pdb(const struct build_pdb *b, struct buf *out)
{
	struct making m = { .b = b };
	struct buf streams[5] = { 0 };
	static const uint8_t async_kind[16] = { 0xc5, 0x2a, 0xfd, 0x54, 0x25, 0xe9, 0x1a, 0x40,
						0x9c, 0x2a, 0xf9, 0x4f, 0x17, 0x10, 0x72, 0xf8 };
	buf_char(&m.strings, 0);
	buf_char(&m.blobs, 0);
	for (size_t i = 0; i < b->n_documents; i++)
		add_document(&m, b->documents[i]);
	for (size_t i = 0; i < b->n_methods; i++) {
		const struct build_pdb_method *method = &b->methods[i];
		put(&m.methods, method->document, 2);
		put_heap(&m, &m.methods, method->n_points ? add_points(&m, method) : 0);
		add_locals(&m, (uint32_t)i + 1, method);
		if (method->kickoff)
			add_state_machine(&m, (uint32_t)i + 1, method);
	}
	buf_add(&streams[0], b->id, 20);
	put(&streams[0], 0, 4);
	put(&streams[0], 1 << 6 | 1 << 2, 8);
	put(&streams[0], b->assembly_rows, 4);
	put(&streams[0], b->n_methods, 4);
	add_tables(&m, &streams[1]);
	buf_add(&streams[2], m.strings.data, m.strings.len);
	pad(&streams[2]);
	buf_add(&streams[3], async_kind, 16);
	buf_add(&streams[4], m.blobs.data, m.blobs.len);
	pad(&streams[4]);
	add_streams(streams, 5, out);
	for (size_t i = 0; i < 5; i++)
		buf_free(&streams[i]);
	struct buf *all[] = { &m.strings, &m.blobs,	&m.documents, &m.methods,
			      &m.scopes,  &m.variables, &m.machines,  &m.custom };
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		buf_free(all[i]);
}

static void deflate_all(const struct buf *in, struct buf *out)
{
	z_stream z = { 0 };
	int rc = deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
	assert(rc == Z_OK);
	size_t room = deflateBound(&z, in->len);
	z.next_in = (Bytef *)in->data;
	z.avail_in = (uInt)in->len;
	z.next_out = buf_room(out, room);
	z.avail_out = (uInt)room;
	rc = deflate(&z, Z_FINISH);
	assert(rc == Z_STREAM_END);
	out->len += z.total_out;
	deflateEnd(&z);
}

static void add_debug_entry(struct buf *b, size_t at, uint32_t type, uint32_t stamp, size_t size, size_t offset)
{
	put_at(b, at + 4, stamp, 4);
	put_at(b, at + 8, type == 2 ? 0x504d0100 : 0x01000100, 4);
	put_at(b, at + 12, type, 4);
	put_at(b, at + 16, size, 4);
	put_at(b, at + 20, offset - 0x200 + 0x2000, 4);
	put_at(b, at + 24, offset, 4);
}

/* PE32 of any machine; one section: rva 0x2000 at file offset 0x200, the debug directory at its start. */
void build_assembly(const uint8_t *id, const struct buf *embedded, struct buf *out)
{
	put_at(out, 0, 0x5a4d, 2);
	put_at(out, 60, 0x80, 4);
	put_at(out, 0x80, 0x4550, 4);
	put_at(out, 0x84, 0x14c, 2);
	put_at(out, 0x86, 1, 2);
	put_at(out, 0x88, 0xfeedc0de, 4);
	put_at(out, 0x94, 224, 2);
	put_at(out, 0x98, 0x10b, 2);
	put_at(out, 0x98 + 56, 0x6000, 4);
	put_at(out, 0x98 + 92, 16, 4);
	put_at(out, 0x98 + 96 + 48, 0x2000, 4);
	put_at(out, 0x98 + 96 + 52, 56, 4);
	size_t entry = 0x200, data = 0x200 + 56;
	put_at(out, data - 1, 0, 1);
	if (id) {
		uint32_t stamp;
		memcpy(&stamp, id + 16, 4);
		add_debug_entry(out, entry, 2, stamp, 24 + 9, data);
		put(out, 0x53445352, 4);
		buf_add(out, id, 16);
		put(out, 1, 4);
		buf_add(out, "Shop.pdb", 9);
		entry += 28;
	}
	if (embedded) {
		size_t start = out->len;
		put(out, 0x4244504d, 4);
		put(out, embedded->len, 4);
		deflate_all(embedded, out);
		add_debug_entry(out, entry, 17, 0, out->len - start, start);
	}
	size_t section = 0x98 + 224;
	put_at(out, section + 8, out->len - 0x200, 4);
	put_at(out, section + 12, 0x2000, 4);
	put_at(out, section + 16, out->len - 0x200, 4);
	put_at(out, section + 20, 0x200, 4);
}
