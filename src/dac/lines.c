#include "dac/lines.h"
#include "base/str.h"
#include <string.h>

/* More than the headers of any assembly need. */
#define HEADER_BYTES 1024
#define FILE_COLUMNS 80

struct dac_lines {
	struct dac *dac;
	const struct image *image;
	struct pdbs *pdbs;
	bool no_modules; /* the question failed once: it is not asked again */
};

struct dac_lines *dac_lines_new(struct dac *d, const struct image *img, const char *root)
{
	struct dac_lines *l = mem_zalloc(sizeof(*l));
	l->dac = d;
	l->image = img;
	l->pdbs = pdbs_new(root);
	return l;
}

void dac_lines_free(struct dac_lines *l)
{
	if (!l)
		return;
	pdbs_free(l->pdbs);
	mem_free(l);
}

struct pdb *dac_lines_pdb(struct dac_lines *l, uint64_t address)
{
	const struct dac_modules *all;
	CLEANUP(err_freep) struct err *err = l->no_modules ? NULL : dac_modules(l->dac, &all);
	l->no_modules |= err != NULL;
	const struct dac_module *module = l->no_modules ? NULL : dac_module(l->dac, address);
	if (!module || str_empty(module->path))
		return NULL;
	uint8_t headers[HEADER_BYTES];
	size_t got = 0;
	if (module->il_base)
		image_read(l->image, module->il_base, headers, sizeof(headers), &got);
	return pdbs_get(l->pdbs, module->path, got ? headers : NULL, got, NULL);
}

bool dac_line(struct dac_lines *l, uint64_t method, int32_t il_offset, struct pdb_line *ret)
{
	const struct dac_method *m = method && il_offset >= 0 ? dac_method(l->dac, method) : NULL;
	struct pdb *pdb = m && !m->dynamic ? dac_lines_pdb(l, m->module) : NULL;
	return pdb && pdb_line(pdb, m->token, (uint32_t)il_offset, ret);
}

void dac_line_add(struct buf *out, const struct pdb_line *line)
{
	/* The compiler may have run on Windows. */
	const char *slash = strrchr(line->file, '/'), *back = strrchr(line->file, '\\');
	const char *name = MAX(slash ? slash + 1 : line->file, back ? back + 1 : line->file);
	str_add_visible(out, name, strlen(name), FILE_COLUMNS);
	buf_printf(out, ":%u", line->line);
}

const char *dac_lines_refused(const struct dac_lines *l, size_t *i)
{
	return pdbs_refused(l->pdbs, i);
}
