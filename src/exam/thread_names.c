#include "exam/thread_names.h"
#include "base/json.h"
#include "base/str.h"
#include "target/threads.h"
#include <string.h>

#define FACT "threads"

void thread_names_free(struct thread_names *t)
{
	map_u64_free(&t->by_tid);
	strtab_free(&t->names);
}

static void add(struct thread_names *t, uint64_t tid, const char *name)
{
	if (!str_empty(name))
		*map_u64_put(&t->by_tid, tid, NULL) = strtab_add_cstr(&t->names, name) + 1;
}

static void look_live(struct thread_names *t, struct exam *exam)
{
	const struct target *target = &exam->patient->target;
	struct target_threads threads = { 0 };
	struct err *err = target_threads(target, &threads);
	if (err) {
		exam_log(exam, "no thread names: %s", err_text(err));
		err_free(err);
		return;
	}
	/* A thread that was not named has the name of its process. */
	const char *process = NULL;
	vec_each(thread, &threads) {
		if (thread->tid == target->ns_pid)
			process = thread->name;
	}
	vec_each(thread, &threads) {
		if (thread->tid == target->ns_pid)
			add(t, (uint64_t)thread->tid, "main thread");
		else if (!str_eq(thread->name, process))
			add(t, (uint64_t)thread->tid, thread->name);
	}
	vec_free(&threads);
}

void thread_names_look(struct thread_names *t, struct exam *exam)
{
	if (!exam->replay) {
		look_live(t, exam);
		return;
	}
	const json_t *fact = recording_fact(exam->recording, FACT), *each;
	size_t i;
	json_array_foreach(fact, i, each)
		add(t, (uint64_t)json_get_int(each, "tid", 0), json_get_str(each, "name", NULL));
}

void thread_names_save(const struct thread_names *t, struct exam *exam)
{
	if (exam->replay || !exam->recording)
		return;
	json_t *fact = json_array();
	size_t pos = 0;
	for (uint64_t tid, id; map_u64_next(&t->by_tid, &pos, &tid, &id);) {
		struct buf valid = { 0 };
		const char *name = strtab_get(&t->names, (uint32_t)id - 1);
		utf8_add_valid(&valid, name, strlen(name));
		json_array_append_new(fact, json_pack("{s:I, s:s}", "tid", (json_int_t)tid, "name", buf_cstr(&valid)));
		buf_free(&valid);
	}
	recording_set_fact(exam->recording, FACT, fact);
	json_decref(fact);
}

const char *thread_names_get(const struct thread_names *t, uint64_t tid)
{
	const uint64_t *id = map_u64_get(&t->by_tid, tid);
	return id ? strtab_get(&t->names, (uint32_t)*id - 1) : NULL;
}

size_t thread_names_count(const struct thread_names *t, const char *name)
{
	size_t pos = 0, n = 0;
	for (uint64_t tid, id; map_u64_next(&t->by_tid, &pos, &tid, &id);)
		n += str_eq(strtab_get(&t->names, (uint32_t)id - 1), name);
	return n;
}

void thread_names_show(const struct thread_names *t, uint64_t tid, struct buf *out)
{
	const char *name = thread_names_get(t, tid);
	if (name)
		buf_printf(out, "'%s' (%llu)", name, (unsigned long long)tid);
	else
		buf_printf(out, "thread %llu", (unsigned long long)tid);
}
