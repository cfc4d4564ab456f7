#include "exam/own_code.h"
#include "base/chroot.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/whose.h"
#include "symbols/bundle.h"
#include "symbols/deps.h"
#include "symbols/metadata.h"
#include "target/proc.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAPS_BYTES_MAX ((size_t)64 << 20)
#define TYPES_MAX 500000
#define PACKED_BYTES_MAX ((size_t)64 << 20)
#define FACT "code"
static const char *const fact_keys[] = { [WHOSE_YOURS] = "yours", [WHOSE_PACKAGE] = "packages" };

/* Where the program's files are: a folder below its root, or one file. */
struct own_program {
	char root[64];
	char *folder;
	int bundle_fd;
	struct bundle bundle;
};

struct own_type {
	uint32_t space, name;
};
/* The types of the assemblies, gathered first: a namespace may be of several. */
struct types {
	struct strtab texts;
	VEC(uint8_t) in; /* by text, of namespaces: bit = whose */
	VEC(struct own_type) list[WHOSE_PACKAGE + 1];
	enum whose reading;
};

static uint32_t text_id(struct types *t, const char *s, size_t len)
{
	uint32_t id = strtab_add(&t->texts, s, len);
	while (t->in.n <= id)
		vec_push(&t->in, 0);
	return id;
}

static void add_type(void *user, const char *space, const char *name)
{
	struct types *t = user;
	/* "<Module>" and what else compilers make. */
	if (*name == '<' || t->list[t->reading].n >= TYPES_MAX)
		return;
	struct own_type type = { text_id(t, space, strlen(space)), text_id(t, name, strcspn(name, "`")) };
	t->in.v[type.space] |= (uint8_t)(1u << t->reading);
	vec_push(&t->list[t->reading], type);
}

/* A namespace is enough where all of it is of one kind, and no library that everybody knows has a part in it. */
static void add_names(const struct types *t, enum whose whose, struct whose_names *names)
{
	vec_each(type, &t->list[whose]) {
		const char *space = strtab_get(&t->texts, type->space);
		bool shared = t->in.v[type->space] != 1u << whose, famous = whose_code(NULL, space) != WHOSE_YOURS;
		if (*space && !shared && !famous) {
			whose_names_add(names, space, whose);
		} else if (whose == WHOSE_YOURS ? *space || shared : !famous) {
			CLEANUP(mem_freep)
			char *name = mem_printf("%s%s%s", space, *space ? "." : "", strtab_get(&t->texts, type->name));
			whose_names_add(names, name, whose);
		}
	}
}

/* "Acme" of "Acme.Pricing" and "acme.shop". */
static bool same_house(const char *a, const char *b)
{
	size_t len = strcspn(a, ".");
	return len == strcspn(b, ".") && !strncasecmp(a, b, len);
}

static bool is_of_a_project(const struct deps *deps, const char *package)
{
	vec_each(e, deps)
		if (e->origin == DEPS_PROJECT && same_house(e->library, package))
			return true;
	return false;
}

/* False: the list of well-known names decides. */
static bool whose_assembly(const struct deps *deps, const struct deps_entry *e, enum whose *ret)
{
	bool famous = whose_code(NULL, e->assembly) != WHOSE_YOURS;
	bool yours = e->origin == DEPS_PROJECT || (e->origin == DEPS_PACKAGE && is_of_a_project(deps, e->library));
	*ret = yours ? WHOSE_YOURS : WHOSE_PACKAGE;
	return e->origin == DEPS_PROJECT || (e->origin == DEPS_PACKAGE && !famous);
}

/* --- files of the program --- */

static struct err *read_assembly(const struct own_program *p, const char *name, struct types *t)
{
	CLEANUP(mem_freep)
	char *file = mem_printf("%s%s%s.dll", p->folder ? p->folder : "", p->folder ? "/" : "", name);
	if (!p->folder) {
		const struct bundle_file *in = bundle_find(&p->bundle, file);
		CLEANUP(buf_free) struct buf bytes = { 0 };
		if (!in)
			return err_new(ERR_NOT_FOUND, "'%s'", file);
		if (!in->packed)
			return assembly_types(&(struct assembly_file){ p->bundle_fd, in->offset, in->size }, add_type,
					      t);
		TRY(bundle_read(p->bundle_fd, in, PACKED_BYTES_MAX, &bytes));
		return assembly_types_from_bytes((const uint8_t *)bytes.data, bytes.len, add_type, t);
	}
	CLOSE_FD int fd = file_open_below(p->root, file, O_RDONLY);
	struct stat st;
	if (fd < 0 || fstat(fd, &st))
		return err_new(ERR_NOT_FOUND, "'%s'", file);
	return assembly_types(&(struct assembly_file){ fd, 0, (uint64_t)st.st_size }, add_type, t);
}

static struct err *read_deps(const struct own_program *p, const char *entry, struct deps *ret)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(mem_freep)
	char *file = mem_printf("%s%s%s.deps.json", p->folder ? p->folder : "", p->folder ? "/" : "", entry);
	if (p->folder) {
		CLOSE_FD int fd = file_open_below(p->root, file, O_RDONLY);
		if (fd < 0)
			return err_new(ERR_NOT_FOUND, "'%s'", file);
		TRY(file_read_fd(fd, file, DEPS_BYTES_MAX, &text));
	} else {
		const struct bundle_file *in = bundle_find(&p->bundle, file);
		if (!in)
			return err_new(ERR_NOT_FOUND, "'%s'", file);
		TRY(bundle_read(p->bundle_fd, in, DEPS_BYTES_MAX, &text));
	}
	return deps_parse(buf_cstr(&text), text.len, ret);
}

/* Its entry assembly is mapped; where it is not, it is part of the program. */
static struct err *find_program(pid_t pid, const char *entry, struct own_program *ret)
{
	char path[64];
	CLEANUP(buf_free) struct buf maps = { 0 };
	CLEANUP(mem_freep) char *file = mem_printf("%s.dll", entry);
	snprintf(ret->root, sizeof(ret->root), "/proc/%d/root", (int)pid);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	TRY(file_read(path, MAPS_BYTES_MAX, &maps));
	CLEANUP(mem_freep) char *mapped = proc_mapped_file(buf_cstr(&maps), file);
	if (mapped) {
		CLEANUP(mem_freep) char *chroot = chroot_of(pid);
		ret->folder = file_folder(chroot_cut(chroot, mapped));
		return NULL;
	}
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	ret->bundle_fd = file_open_regular(path, O_RDONLY);
	if (ret->bundle_fd < 0)
		return err_new(ERR_NOT_FOUND, "the program cannot be read");
	return bundle_open(ret->bundle_fd, &ret->bundle);
}

static void gather(const struct own_program *p, const struct deps *deps, struct whose_names *names)
{
	struct types t = { 0 };
	vec_each(e, deps) {
		if (!whose_assembly(deps, e, &t.reading))
			continue;
		CLEANUP(err_freep) struct err *unread = read_assembly(p, e->assembly, &t);
		/* As a rule the namespace is called as the assembly is. */
		if (unread)
			whose_names_add(names, e->assembly, t.reading);
	}
	add_names(&t, WHOSE_YOURS, names);
	add_names(&t, WHOSE_PACKAGE, names);
	strtab_free(&t.texts);
	vec_free(&t.in);
	for (size_t i = 0; i < ARRAY_SIZE(t.list); i++)
		vec_free(&t.list[i]);
}

/* NULL: it does not say. */
static struct whose_names *read_names(const struct own_program *p, const char *entry)
{
	struct deps deps = { 0 };
	struct whose_names *names = NULL;
	struct err *err = read_deps(p, entry, &deps);
	if (!err) {
		names = whose_names_new();
		gather(p, &deps, names);
	}
	err_ignore(err);
	deps_free(&deps);
	return names;
}

struct whose_names *own_code_of_process(const struct patient *patient)
{
	struct own_program p = { .bundle_fd = -1 };
	const char *entry = patient->info.entry_assembly;
	if (!patient->target.pid || str_empty(entry) || strchr(entry, '/'))
		return NULL;
	struct err *err = find_program(patient->target.pid, entry, &p);
	struct whose_names *names = err ? NULL : read_names(&p, entry);
	err_ignore(err);
	bundle_free(&p.bundle);
	mem_free(p.folder);
	fd_closep(&p.bundle_fd);
	return names;
}

struct whose_names *own_code_of_core(const char *assembly)
{
	const char *slash = strrchr(assembly, '/');
	if (!slash || !str_ends(slash, ".dll"))
		return NULL;
	CLEANUP(mem_freep) char *folder = file_folder(assembly);
	CLEANUP(mem_freep) char *entry = mem_strndup(slash + 1, strlen(slash + 1) - strlen(".dll"));
	return read_names(&(struct own_program){ .folder = folder, .bundle_fd = -1 }, entry);
}

/* --- recordings --- */

static void keep(struct recording *r, const struct whose_names *names)
{
	CLEANUP(json_decrefp) json_t *fact = json_object();
	for (size_t i = 0; i < ARRAY_SIZE(fact_keys); i++)
		json_object_set_new(fact, fact_keys[i], json_array());
	for (size_t i = 0; i < whose_names_count(names); i++) {
		enum whose whose;
		const char *name = whose_names_get(names, i, &whose);
		/* NULL for what is not text: such a name is never asked for. */
		json_array_append_new(json_object_get(fact, fact_keys[whose]), json_string(name));
	}
	recording_set_fact(r, FACT, fact);
}

static struct whose_names *recall(const struct recording *r)
{
	const json_t *fact = recording_fact(r, FACT);
	if (!fact)
		return NULL;
	struct whose_names *names = whose_names_new();
	for (size_t k = 0; k < ARRAY_SIZE(fact_keys); k++) {
		const json_t *list = json_object_get(fact, fact_keys[k]);
		for (size_t i = 0; i < json_array_size(list); i++) {
			const char *name = json_string_value(json_array_get(list, i));
			if (name)
				whose_names_add(names, name, (enum whose)k);
		}
	}
	return names;
}

void own_code_use(struct exam *exam, struct whose_names *names)
{
	if (names && exam->recording && !exam->replay)
		keep(exam->recording, names);
	whose_names_free(exam->whose);
	exam->whose = names;
}

void own_code_learn(struct exam *exam)
{
	if (exam->replay)
		own_code_use(exam, recall(exam->recording));
	else if (!exam->core)
		own_code_use(exam, own_code_of_process(exam->patient));
}
