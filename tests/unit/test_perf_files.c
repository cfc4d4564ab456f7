/* perf.data, perf maps and jitdumps: written by us, read by us, and whatever else comes. */

#include "base/fd.h"
#include "export/perf.h"
#include "export/tar.h"
#include "sampling/perf_samples.h"
#include "sampler/perf_file.h"
#include "session/profile.h"
#include "symbols/code_map.h"
#include "symbols/elffile.h"
#include "unit.h"
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/stat.h>

static struct samples *build(void)
{
	struct samples *s = samples_new();
	bool new;
	uint32_t main_ = samples_frame(s, "Shop.Main", NULL, FRAME_CODE);
	uint32_t leaf = samples_frame(s, "lambda in Shop.Tax", NULL, FRAME_CODE);
	uint32_t kernel = samples_frame(s, "do_syscall_64", "kernel", FRAME_KERNEL);
	uint32_t one = samples_thread(s, 11, &new), two = samples_thread(s, 12, &new);
	samples_thread_name(s, one, "burner", 6);
	uint32_t deep = samples_stack(s, (uint32_t[]){ leaf, main_ }, 2, UNWIND_ROOT, false);
	uint32_t other = samples_stack(s, (uint32_t[]){ kernel, main_ }, 2, UNWIND_ROOT, false);
	samples_add(s, 20000, one, deep, 10000000, 0);
	samples_add(s, 30000, one, deep, 10000000, 0);
	samples_add(s, 25000, two, other, 10000000, 0);
	return s;
}

static struct profile *sealed(void)
{
	struct samples *s = build();
	struct profile *p = profile_new("/tmp", PROFILE_NS);
	assert_ok(profile_from_samples(s, p));
	samples_free(s);
	return p;
}

typedef struct err *writer(const struct profile *p, const struct perf_info *info, struct out *out);

/* What a writer writes to a file, read back. */
static void written(writer *write, const struct profile *p, struct buf *ret)
{
	char path[] = "/tmp/drdotnet-test-XXXXXX";
	CLOSE_FD int fd = mkstemp(path);
	assert_true(fd >= 0);
	struct perf_info info = {
		.pid = 10, .process = "shop", .event = "cpu-clock", .symbols_dir = "/x/symbols", .period_ns = 10000000
	};
	struct out out;
	out_init(&out, fd, false);
	assert_ok(write(p, &info, &out));
	assert_ok(out_finish(&out));
	out_fini(&out);
	assert_ok(file_read(path, 1 << 20, ret));
	unlink(path);
}

struct seen {
	struct buf text;
	uint64_t frames;
};

static void note(void *user, const struct perf_item *item)
{
	struct seen *s = user;
	static const char *const kinds[] = { "comm", "fork", "mmap", "sample" };
	buf_printf(&s->text, "%s %u/%u", kinds[item->kind], item->pid, item->tid);
	if (item->kind == PERF_ITEM_SAMPLE)
		buf_printf(&s->text, " at %llu of %llu", (unsigned long long)item->time,
			   (unsigned long long)item->period);
	else if (item->kind != PERF_ITEM_FORK)
		buf_printf(&s->text, " %.*s", (int)item->text_len, item->text);
	bool kernel = item->kernel;
	for (size_t i = 0; item->kind == PERF_ITEM_SAMPLE && i < item->n_chain; i++)
		s->frames += perf_item_ip(item, i, &kernel) != 0;
	buf_char(&s->text, '\n');
}

static void our_perf_data_reads_back(void **state UNUSED)
{
	CLEANUP(profile_freep) struct profile *p = sealed();
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct seen seen = { 0 };
	struct perf_file_facts facts;
	written(perf_data_write, p, &bytes);
	assert_ok(perf_file_read(bytes.data, bytes.len, note, &seen, &facts));
	assert_int_equal(facts.samples, 3);
	assert_int_equal(facts.type, PERF_TYPE_SOFTWARE);
	assert_int_equal(facts.period, 10000000);
	assert_false(facts.cut);
	assert_int_equal(seen.frames, 6);
	assert_string_equal(buf_cstr(&seen.text), "comm 10/10 shop\n"
						  "mmap 10/10 /x/symbols/your-code.elf\n"
						  "mmap 10/10 /x/symbols/kernel.elf\n"
						  "comm 10/11 burner\n"
						  "comm 10/12 Thread 12\n"
						  "sample 10/11 at 20000000 of 10000000\n"
						  "sample 10/12 at 25000000 of 10000000\n"
						  "sample 10/11 at 30000000 of 10000000\n");
	buf_free(&seen.text);
}

static void the_script_is_what_importers_read(void **state UNUSED)
{
	CLEANUP(profile_freep) struct profile *p = sealed();
	CLEANUP(buf_free) struct buf text = { 0 };
	written(perf_script_write, p, &text);
	assert_non_null(strstr(buf_cstr(&text), "burner 10/11 0.020000:   10000000 cpu-clock: \n"
						"\t     10000000018 lambda in Shop.Tax (your-code)\n"
						"\t     10000000008 Shop.Main (your-code)\n\n"));
	assert_non_null(strstr(buf_cstr(&text), "do_syscall_64 (kernel)\n"));
}

static void symbols_have_the_names(void **state UNUSED)
{
	CLEANUP(profile_freep) struct profile *p = sealed();
	struct buf bytes = { 0 };
	assert_false(perf_symbols_write(p, FRAME_JIT, &bytes));
	assert_true(perf_symbols_write(p, FRAME_CODE, &bytes));
	CLEANUP(elf_freep) struct elf *elf = NULL;
	size_t len = bytes.len;
	assert_ok(elf_from_bytes(buf_steal(&bytes), len, &elf));
	uint64_t va;
	assert_true(elf_va(elf, 0x1000 + PERF_FRAME_SPAN + 8, &va));
	assert_string_equal(elf_symbol(elf, NULL, va), "lambda in Shop.Tax");
	assert_string_equal(elf_symbol(elf, NULL, 0x1000), "Shop.Main");
	assert_null(elf_symbol(elf, NULL, 0x1000 + 2 * PERF_FRAME_SPAN));
}

static void damage_is_survived(void **state UNUSED)
{
	CLEANUP(profile_freep) struct profile *p = sealed();
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct perf_file_facts facts;
	struct seen seen = { 0 };
	written(perf_data_write, p, &bytes);
	for (size_t n = 0; n < bytes.len; n++) {
		void *copy = mem_alloc(n + 1);
		memcpy(copy, bytes.data, n);
		buf_clear(&seen.text);
		struct err *err = perf_file_read(copy, n, note, &seen, &facts);
		assert_true(err || facts.cut);
		err_free(err);
		mem_free(copy);
	}
	for (size_t bit = 0; bit < bytes.len * 8; bit++) {
		bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ 1 << bit % 8);
		buf_clear(&seen.text);
		err_free(perf_file_read(bytes.data, bytes.len, note, &seen, &facts));
		bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ 1 << bit % 8);
	}
	assert_err(perf_file_read("nonsense", 8, note, &seen, &facts), ERR_BAD_DATA);
	assert_err(perf_file_read("PERFILE2\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, note, &seen, &facts),
		   ERR_UNSUPPORTED);
	assert_err(perf_file_read("2ELIFREP", 8, note, &seen, &facts), ERR_UNSUPPORTED);
	buf_free(&seen.text);
}

/* A perf.data with what ours has not: identifiers, a cpu, a fork, kernel frames, build ids in the mapping. */
static void put(struct buf *b, uint64_t v, size_t n)
{
	buf_add(b, &v, n);
}

static size_t begin(struct buf *b, uint32_t type, uint16_t misc)
{
	size_t at = b->len;
	put(b, type, 4);
	put(b, misc, 2);
	put(b, 0, 2);
	return at;
}

static void end(struct buf *b, size_t at)
{
	uint16_t size = (uint16_t)(b->len - at);
	memcpy(b->data + at + 6, &size, 2);
}

static void linux_perfs_data_is_read(void **state UNUSED)
{
	CLEANUP(buf_free) struct buf b = { 0 }, data = { 0 };
	uint64_t type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
			PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN;
	size_t at = begin(&data, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
	put(&data, 77, 8); /* the second event */
	put(&data, 0xffffffff81000010, 8);
	put(&data, 20 | 21ull << 32, 8);
	put(&data, 500, 8);
	put(&data, 1, 8);
	put(&data, 1000, 8);
	put(&data, 4, 8);
	put(&data, (uint64_t)PERF_CONTEXT_KERNEL, 8);
	put(&data, 0xffffffff81000010, 8);
	put(&data, (uint64_t)PERF_CONTEXT_USER, 8);
	put(&data, 0x401000, 8);
	end(&data, at);
	at = begin(&data, PERF_RECORD_FORK, 0); /* earlier, but written later */
	put(&data, 20 | 7ull << 32, 8);
	put(&data, 20 | 7ull << 32, 8);
	put(&data, 400, 8);
	put(&data, 20 | 20ull << 32, 8); /* the trailer: tid, time, cpu, identifier */
	put(&data, 400, 8);
	put(&data, 0, 8);
	put(&data, 77, 8);
	end(&data, at);
	at = begin(&data, 68, 0); /* the end of a round */
	end(&data, at);
	buf_str(&b, "PERFILE2");
	put(&b, 104, 8);
	put(&b, 72 + 16, 8);
	put(&b, 104, 8);
	put(&b, 2 * (72 + 16), 8);
	put(&b, 104 + 2 * (72 + 16) + 8, 8);
	put(&b, data.len, 8);
	for (int i = 0; i < 6; i++)
		put(&b, 0, 8);
	for (int i = 0; i < 2; i++) {
		struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
						.config = i ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_DUMMY,
						.sample_type = i ? type : type & ~(uint64_t)PERF_SAMPLE_CALLCHAIN,
						.sample_id_all = 1 };
		buf_add(&b, &attr, 72);
		put(&b, i ? 104 + 2 * (72 + 16) : 0, 8);
		put(&b, i ? 8 : 0, 8);
	}
	put(&b, 77, 8);
	buf_add(&b, data.data, data.len);
	struct seen seen = { 0 };
	struct perf_file_facts facts;
	assert_ok(perf_file_read(b.data, b.len, note, &seen, &facts));
	assert_string_equal(buf_cstr(&seen.text), "fork 20/20\nsample 20/21 at 500 of 1000\n");
	assert_int_equal(seen.frames, 2);
	buf_free(&seen.text);
}

static void a_moved_folder_gives_the_same_samples(void **state UNUSED)
{
	CLEANUP(profile_freep) struct profile *p = sealed();
	CLEANUP(buf_free) struct buf data = { 0 };
	CLEANUP(samples_freep) struct samples *again = NULL;
	struct perf_samples_facts facts;
	char dir[64], path[160];
	unit_temp_dir(dir, sizeof(dir));
	written(perf_data_write, p, &data);
	snprintf(path, sizeof(path), "%s/perf.data", dir);
	assert_ok(file_write_atomic(path, data.data, data.len, 0600));
	snprintf(path, sizeof(path), "%s/symbols", dir);
	assert_ok(dir_make(path, 0700));
	for (enum frame_kind k = 0; k <= FRAME_OTHER; k++) {
		CLEANUP(buf_free) struct buf elf = { 0 };
		snprintf(path, sizeof(path), "%s/symbols/%s.elf", dir, frame_kind_ids[k]);
		if (perf_symbols_write(p, k, &elf))
			assert_ok(file_write_atomic(path, elf.data, elf.len, 0600));
	}
	assert_ok(perf_samples_read(dir, &again, &facts));
	assert_true(facts.own && facts.timed);
	assert_int_equal(facts.unnamed, 0);
	assert_string_equal(facts.process, "shop");
	assert_int_equal(again->list.n, 3);
	const struct samples_stack *k = &again->stacks.v[again->list.v[0].stack];
	assert_string_equal(samples_frame_name(again, again->stack_frames.v[k->first]), "lambda in Shop.Tax");
	assert_string_equal(samples_frame_name(again, again->stack_frames.v[k->first + 1]), "Shop.Main");
	assert_ok(dir_remove(dir));
}

/* --- maps --- */

static void note_code(void *user, uint64_t start, uint64_t size, const char *name, size_t len)
{
	buf_printf(user, "%llx+%llx %.*s\n", (unsigned long long)start, (unsigned long long)size, (int)len, name);
}

static void maps_are_read(void **state UNUSED)
{
	struct buf seen = { 0 };
	static const char text[] = "7f00 10 void [Shop] Shop.Orders::Place(int32)[Tier0]\n"
				   "0x7f20 1a Plain.Name\n"
				   "nonsense\n"
				   "7f40 0 empty\n"
				   "7f50 10\n"
				   "7f60 8 still being wri";
	perf_map_parse(text, strlen(text), note_code, &seen);
	assert_string_equal(buf_cstr(&seen), "7f00+10 void [Shop] Shop.Orders::Place(int32)[Tier0]\n"
					     "7f20+1a Plain.Name\n");
	buf_free(&seen);
}

static void build_jitdump(struct buf *b)
{
	put(b, 0x4A695444, 4);
	put(b, 1, 4);
	put(b, 40, 4);
	put(b, 62, 4);
	put(b, 0, 8);
	put(b, 1, 8);
	put(b, 0, 8);
	static const char name[] = "instance int32 [Shop] Shop.List`1[System.__Canon]::get_Item(int32)[PreJIT]";
	put(b, 0, 4);
	put(b, 16 + 40 + sizeof(name) + 2, 4);
	put(b, 0, 8);
	put(b, 0, 8);
	put(b, 0x7f00, 8);
	put(b, 0x7f00, 8);
	put(b, 2, 8);
	put(b, 0, 8);
	buf_add(b, name, sizeof(name));
	buf_add(b, "\xc3\xc3", 2);
	put(b, 3, 4); /* closed */
	put(b, 16, 4);
	put(b, 0, 8);
}

static void jitdumps_are_read(void **state UNUSED)
{
	CLEANUP(buf_free) struct buf b = { 0 }, seen = { 0 };
	build_jitdump(&b);
	assert_true(jitdump_parse(b.data, b.len, note_code, &seen));
	assert_string_equal(buf_cstr(&seen),
			    "7f00+2 instance int32 [Shop] Shop.List`1[System.__Canon]::get_Item(int32)[PreJIT]\n");
	for (size_t n = 0; n < b.len; n++) {
		void *copy = mem_alloc(n + 1);
		memcpy(copy, b.data, n);
		buf_clear(&seen);
		assert_int_equal(jitdump_parse(copy, n, note_code, &seen), n >= 40);
		mem_free(copy);
	}
	for (size_t bit = 0; bit < b.len * 8; bit++) {
		b.data[bit / 8] = (char)(b.data[bit / 8] ^ 1 << bit % 8);
		buf_clear(&seen);
		jitdump_parse(b.data, b.len, note_code, &seen);
		b.data[bit / 8] = (char)(b.data[bit / 8] ^ 1 << bit % 8);
	}
}

static void names_are_taken_apart(void **state UNUSED)
{
	static const struct {
		const char *name, *space, *method; /* NULL: not .NET's */
	} cases[] = {
		{ "instance void [Shop] Shop.Orders::Place(int32)[OptimizedTier1]", "Shop.Orders", "Place" },
		{ "int32[] [Shop] Shop.Orders+<>c::<Load>b__3_0(class A)[QuickJitted]", "Shop.Orders+<>c",
		  "<Load>b__3_0" },
		{ "void [A] B`2[System.__Canon,C`1[D]]::.ctor()[Tier0]", "B`2[System.__Canon,C`1[D]]", ".ctor" },
		{ "A::b", "A", "b" },
		{ "stub CreateHelper<DynamicHelper>", NULL, NULL },
		{ "::", NULL, NULL },
		{ "", NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(buf_free) struct buf space = { 0 }, method = { 0 };
		bool ok = code_name_split(cases[i].name, strlen(cases[i].name), &space, &method);
		assert_int_equal(ok, cases[i].space != NULL);
		if (!ok)
			continue;
		assert_string_equal(buf_cstr(&space), cases[i].space);
		assert_string_equal(buf_cstr(&method), cases[i].method);
	}
}

/* --- tar --- */

static void tars_open(void **state UNUSED)
{
	char dir[64], path[160], command[400];
	unit_temp_dir(dir, sizeof(dir));
	snprintf(path, sizeof(path), "%s/a", dir);
	CLEANUP(buf_free) struct buf bytes = { 0 };
	buf_repeat(&bytes, "0123456789", 1000);
	assert_ok(file_write_atomic(path, bytes.data, bytes.len, 0600));
	CLOSE_FD int in = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/x.tar.gz", dir);
	CLOSE_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct out out;
	out_init(&out, fd, true);
	assert_ok(tar_add_fd(&out, "folder/a", in, 1000));
	assert_ok(tar_add_fd(&out, "b", in, 1000));
	tar_end(&out);
	assert_ok(out_finish(&out));
	out_fini(&out);
	snprintf(command, sizeof(command), "cd %s && tar xzf x.tar.gz && cmp a b && cmp a folder/a", dir);
	assert_int_equal(system(command), 0);
	assert_ok(dir_remove(dir));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_perf_data_reads_back),
		cmocka_unit_test(the_script_is_what_importers_read),
		cmocka_unit_test(symbols_have_the_names),
		cmocka_unit_test(damage_is_survived),
		cmocka_unit_test(linux_perfs_data_is_read),
		cmocka_unit_test(a_moved_folder_gives_the_same_samples),
		cmocka_unit_test(maps_are_read),
		cmocka_unit_test(jitdumps_are_read),
		cmocka_unit_test(names_are_taken_apart),
		cmocka_unit_test(tars_open),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
