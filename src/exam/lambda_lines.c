#include "exam/lambda_lines.h"
#include "base/json.h"
#include "base/str.h"
#include "dac/lines.h"
#include <stdio.h>
#include <string.h>

#define LINES_MAX 5000
#define TEXT_MAX 4096
#define FACT "lambdaLines"

struct learning {
	struct exam *exam;
	struct methods *methods;
	struct pdbs *pdbs;
	json_t *found; /* [space, name, line] */
};

static void find_line(void *user, const struct method *m)
{
	struct learning *l = user;
	struct clr_module_file file;
	struct pdb_line at;
	if (!m->token || !method_is_lambda(m->space, m->name) || method_is_framework(l->exam->whose, m->space) ||
	    json_array_size(l->found) >= LINES_MAX || !methods_module(l->methods, m->module, &file))
		return;
	struct pdb *pdb = pdbs_get_told(l->pdbs, file.path, file.pdb);
	if (!pdb || !pdb_line(pdb, m->token, 0, &at))
		return;
	CLEANUP(buf_free) struct buf line = { 0 };
	dac_line_add(&line, &at);
	json_array_append_new(l->found, json_pack("[s,s,s]", m->space, m->name, buf_cstr(&line)));
}

static void use(struct methods *methods, const json_t *found)
{
	for (size_t i = 0; i < json_array_size(found) && i < LINES_MAX; i++) {
		const json_t *x = json_array_get(found, i);
		const char *space = json_string_value(json_array_get(x, 0)),
			   *name = json_string_value(json_array_get(x, 1)),
			   *line = json_string_value(json_array_get(x, 2));
		if (space && name && line && strlen(line) < TEXT_MAX)
			methods_set_place(methods, space, name, &(struct method_origin){ .line = line });
	}
}

void lambda_lines_learn(struct exam *exam, struct methods *methods)
{
	if (exam->replay) {
		use(methods, recording_fact(exam->recording, FACT));
		return;
	}
	char root[64];
	snprintf(root, sizeof(root), "/proc/%d/root", (int)exam->patient->target.pid);
	CLEANUP(pdbs_freep) struct pdbs *pdbs = pdbs_new(root);
	struct learning l = { .exam = exam, .methods = methods, .pdbs = pdbs, .found = json_array() };
	methods_each(methods, find_line, &l);
	use(methods, l.found);
	if (exam->recording)
		recording_set_fact(exam->recording, FACT, l.found);
	json_decref(l.found);
}
