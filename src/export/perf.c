#include "export/perf.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/vec.h"
#include <elf.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_AT 0x1000u
#define ATTR_BYTES 72u /* as of the first version that has all we set */
#define COMM_BYTES 16
#define FRAMES_MAX 8000 /* a record is at most 64 KB */

struct one {
	uint64_t time_ns, weight;
	uint32_t thread, node;
};
struct all {
	const struct profile *p;
	VEC(struct one) list;
	uint32_t thread;
};

/* Samples that were kept as one become what they were. */
static void take(void *user, const struct profile_sample *s)
{
	struct all *a = user;
	uint32_t n = MAX(s->count, 1u);
	uint64_t each = s->weight / n;
	for (uint32_t i = 0; i < n; i++)
		vec_push(&a->list, ((struct one){ s->time_ns + each * (i + 1), each, a->thread, s->stack }));
}

static int by_time(const void *a, const void *b)
{
	const struct one *x = a, *y = b;
	return CMP(x->time_ns, y->time_ns) ?: CMP(x->thread, y->thread);
}

static struct err *take_all(struct all *a)
{
	for (a->thread = 0; a->thread < profile_n_threads(a->p); a->thread++)
		TRY(profile_read(a->p, a->thread, take, a));
	vec_sort(&a->list, by_time);
	return NULL;
}

/* A thread's name without the number that our text puts behind it; as short as the kernel's. */
static void comm_of(const struct profile *p, uint32_t thread, char comm[COMM_BYTES])
{
	const char *text = profile_thread_text(p, thread), *number = strstr(text, " (");
	size_t n = MIN(number ? (size_t)(number - text) : strlen(text), (size_t)COMM_BYTES - 1);
	memset(comm, 0, COMM_BYTES);
	for (size_t i = 0; i < n; i++)
		comm[i] = (char)(text[i] > ' ' || text[i] == ' ' ? text[i] : '?');
}

/* --- perf script --- */

static void add_plain(struct buf *out, const char *name)
{
	size_t start = out->len;
	utf8_add_valid(out, name, strlen(name));
	for (size_t i = start; i < out->len; i++) {
		if ((unsigned char)out->data[i] < ' ' || out->data[i] == 0x7f)
			out->data[i] = '?';
	}
}

/* Where a frame lies in the mapping of its kind. */
static uint64_t address_of(const struct profile *p, const uint32_t *slots, uint32_t frame)
{
	return PERF_KIND_SPAN * (profile_frame_kind(p, frame) + 1ull) + (uint64_t)slots[frame] * PERF_FRAME_SPAN +
	       PERF_FRAME_SPAN / 2;
}

/* The number of each frame among those of its kind. */
static uint32_t *make_slots(const struct profile *p)
{
	uint32_t *slots = mem_array(profile_n_frames(p) + 1, sizeof(*slots)), next[FRAME_OTHER + 1] = { 0 };
	for (uint32_t i = 0; i < profile_n_frames(p); i++)
		slots[i] = next[profile_frame_kind(p, i)]++;
	return slots;
}

struct err *perf_script_write(const struct profile *p, const struct perf_info *info, struct out *out)
{
	struct all all = { .p = p };
	struct profile_path path = { 0 };
	CLEANUP(mem_freep) uint32_t *slots = make_slots(p);
	struct err *err = take_all(&all);
	vec_each(s, &all.list) {
		if (err || out_failed(out))
			break;
		char comm[COMM_BYTES];
		comm_of(p, s->thread, comm);
		/* The readers take the first word with a digit behind it for the ids. */
		buf_printf(&out->buf, "%s %u/%llu %llu.%06llu: %10llu %s: \n", *comm ? comm : "?", info->pid,
			   (unsigned long long)profile_thread_id(p, s->thread),
			   (unsigned long long)(s->time_ns / NS_PER_S),
			   (unsigned long long)(s->time_ns / NS_PER_US % 1000000), (unsigned long long)s->weight,
			   info->event);
		profile_path(p, s->node, &path);
		for (size_t i = path.n; i-- > 0;) {
			buf_printf(&out->buf, "\t%16llx ", (unsigned long long)address_of(p, slots, path.v[i]));
			add_plain(&out->buf, profile_frame(p, path.v[i]));
			buf_printf(&out->buf, " (%s)\n", frame_kind_ids[profile_frame_kind(p, path.v[i])]);
		}
		buf_char(&out->buf, '\n');
		out_turn(out);
	}
	vec_free(&all.list);
	vec_free(&path);
	return err;
}

/* --- perf.data --- */

static size_t begin(struct buf *out, uint32_t type)
{
	size_t at = out->len;
	struct perf_event_header h = { .type = type, .misc = PERF_RECORD_MISC_USER };
	buf_add(out, &h, sizeof(h));
	return at;
}

static void end(struct buf *out, size_t at)
{
	uint16_t size = (uint16_t)(out->len - at);
	memcpy(out->data + at + offsetof(struct perf_event_header, size), &size, sizeof(size));
}

/* Text, ended and padded to eight bytes. */
static void put_text(struct buf *out, const char *s, size_t max)
{
	static const char zeros[8];
	size_t n = strnlen(s, max);
	buf_add(out, s, n);
	buf_add(out, zeros, 8 - n % 8);
}

/* What every record but a sample ends with. */
static void put_trailer(struct buf *out, uint32_t pid, uint32_t tid)
{
	buf_u32(out, pid);
	buf_u32(out, tid);
	buf_u64(out, 0);
}

static void put_comm(struct buf *out, uint32_t pid, uint32_t tid, const char *comm)
{
	size_t at = begin(out, PERF_RECORD_COMM);
	buf_u32(out, pid);
	buf_u32(out, tid);
	put_text(out, comm, COMM_BYTES - 1);
	put_trailer(out, pid, tid);
	end(out, at);
}

static void put_mmap(struct buf *out, const struct perf_info *info, enum frame_kind kind, uint64_t n_frames)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s.elf", info->symbols_dir, frame_kind_ids[kind]);
	size_t at = begin(out, PERF_RECORD_MMAP2);
	buf_u32(out, info->pid);
	buf_u32(out, info->pid);
	buf_u64(out, PERF_KIND_SPAN * (kind + 1ull));
	buf_u64(out, (n_frames * PERF_FRAME_SPAN + 0xfff) & ~0xfffull);
	buf_u64(out, TEXT_AT);
	buf_u64(out, 0); /* device */
	buf_u64(out, 0); /* inode and its generation: not ours to know */
	buf_u64(out, 0);
	buf_u32(out, 5); /* to read and to execute */
	buf_u32(out, 2); /* private */
	put_text(out, path, 4096);
	put_trailer(out, info->pid, info->pid);
	end(out, at);
}

static void put_sample(struct buf *out, const struct profile *p, const uint32_t *slots, uint32_t pid,
		       const struct one *s, const struct profile_path *path)
{
	size_t n = MIN(path->n, (size_t)FRAMES_MAX);
	size_t at = begin(out, PERF_RECORD_SAMPLE);
	buf_u64(out, path->n ? address_of(p, slots, path->v[path->n - 1]) : 0);
	buf_u32(out, pid);
	buf_u32(out, (uint32_t)profile_thread_id(p, s->thread));
	buf_u64(out, s->time_ns);
	buf_u64(out, s->weight);
	buf_u64(out, n + 1);
	buf_u64(out, (uint64_t)PERF_CONTEXT_USER);
	for (size_t i = 0; i < n; i++)
		buf_u64(out, address_of(p, slots, path->v[path->n - 1 - i]));
	end(out, at);
}

/* struct perf_file_header of perf's own sources: magic, size, size of an attribute, three sections, features. */
static void put_head(struct buf *out, const struct perf_info *info, uint64_t data_bytes)
{
	enum { HEAD = 104, ATTR = ATTR_BYTES + 16 };
	buf_str(out, "PERFILE2");
	buf_u64(out, HEAD);
	buf_u64(out, ATTR);
	buf_u64(out, HEAD);
	buf_u64(out, ATTR);
	buf_u64(out, HEAD + ATTR);
	buf_u64(out, data_bytes);
	for (size_t i = 0; i < 6; i++)
		buf_u64(out, 0); /* event types, and no features */
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = ATTR_BYTES,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = info->period_ns,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD |
			       PERF_SAMPLE_CALLCHAIN,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.exclude_guest = 1,
	};
	buf_add(out, &attr, ATTR_BYTES);
	buf_u64(out, 0); /* no ids */
	buf_u64(out, 0);
}

struct err *perf_data_write(const struct profile *p, const struct perf_info *info, struct out *out)
{
	struct all all = { .p = p };
	struct profile_path path = { 0 };
	uint64_t by_kind[FRAME_OTHER + 1] = { 0 }, bytes;
	CLEANUP(mem_freep) uint32_t *slots = make_slots(p);
	CLEANUP(buf_free) struct buf first = { 0 };
	struct err *err = take_all(&all);
	for (uint32_t i = 0; i < profile_n_frames(p); i++)
		by_kind[profile_frame_kind(p, i)]++;
	put_comm(&first, info->pid, info->pid, info->process);
	for (enum frame_kind k = 0; k <= FRAME_OTHER; k++) {
		if (by_kind[k])
			put_mmap(&first, info, k, by_kind[k]);
	}
	for (uint32_t i = 0; i < profile_n_threads(p); i++) {
		char comm[COMM_BYTES];
		comm_of(p, i, comm);
		if (profile_thread_id(p, i) != info->pid)
			put_comm(&first, info->pid, (uint32_t)profile_thread_id(p, i), comm);
	}
	bytes = first.len;
	vec_each(s, &all.list) {
		profile_path(p, s->node, &path);
		bytes += 8 + 8 + 8 + 8 + 8 + 8 + 8 * (MIN(path.n, (size_t)FRAMES_MAX) + 1);
	}
	put_head(&out->buf, info, bytes);
	buf_add(&out->buf, first.data, first.len);
	vec_each(s, &all.list) {
		if (err || out_failed(out))
			break;
		profile_path(p, s->node, &path);
		put_sample(&out->buf, p, slots, info->pid, s, &path);
		out_turn(out);
	}
	vec_free(&all.list);
	vec_free(&path);
	return err;
}

/* --- an ELF file with nothing but symbols --- */

/* null, .text, .symtab, .strtab, .shstrtab */
static const char section_names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";
enum { S_TEXT = 1, S_SYMTAB, S_STRTAB, S_SHSTRTAB, SECTIONS };

static void put_sections(struct buf *out, uint64_t code, uint64_t symtab, uint64_t strtab, uint64_t names)
{
	uint64_t end_of_names = out->len;
	while (out->len % 8)
		buf_char(out, '\0');
	uint64_t at = out->len;
	Elf64_Shdr s[SECTIONS] = {
		[S_TEXT] = { .sh_name = 1,
			     .sh_type = SHT_PROGBITS,
			     .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			     .sh_addr = TEXT_AT,
			     .sh_offset = TEXT_AT,
			     .sh_size = code,
			     .sh_addralign = 16 },
		[S_SYMTAB] = { .sh_name = 7,
			       .sh_type = SHT_SYMTAB,
			       .sh_offset = symtab,
			       .sh_size = strtab - symtab,
			       .sh_link = S_STRTAB,
			       .sh_info = 1,
			       .sh_addralign = 8,
			       .sh_entsize = sizeof(Elf64_Sym) },
		[S_STRTAB] = { .sh_name = 15,
			       .sh_type = SHT_STRTAB,
			       .sh_offset = strtab,
			       .sh_size = names - strtab,
			       .sh_addralign = 1 },
		[S_SHSTRTAB] = { .sh_name = 23,
				 .sh_type = SHT_STRTAB,
				 .sh_offset = names,
				 .sh_size = end_of_names - names,
				 .sh_addralign = 1 },
	};
	buf_add(out, s, sizeof(s));
	memcpy(out->data + offsetof(Elf64_Ehdr, e_shoff), &at, sizeof(at));
}

static void put_elf_head(struct buf *out, uint64_t code)
{
	Elf64_Ehdr head = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(head),
		.e_ehsize = sizeof(head),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = S_SHSTRTAB,
	};
	Elf64_Phdr load = { .p_type = PT_LOAD,
			    .p_flags = PF_R | PF_X,
			    .p_filesz = TEXT_AT + code,
			    .p_memsz = TEXT_AT + code,
			    .p_align = 0x1000 };
	buf_add(out, &head, sizeof(head));
	buf_add(out, &load, sizeof(load));
	char *gap = buf_room(out, TEXT_AT + code - out->len);
	if (gap) {
		memset(gap, 0, TEXT_AT + code - out->len);
		out->len = TEXT_AT + code;
	}
}

bool perf_symbols_write(const struct profile *p, enum frame_kind kind, struct buf *out)
{
	CLEANUP(buf_free) struct buf names = { 0 }, symbols = { 0 };
	uint64_t n = 0;
	Elf64_Sym none = { 0 };
	buf_char(&names, '\0');
	buf_add(&symbols, &none, sizeof(none));
	for (uint32_t i = 0; i < profile_n_frames(p); i++) {
		if (profile_frame_kind(p, i) != kind)
			continue;
		Elf64_Sym symbol = { .st_name = (Elf64_Word)names.len,
				     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				     .st_shndx = S_TEXT,
				     .st_value = TEXT_AT + n++ * PERF_FRAME_SPAN,
				     .st_size = PERF_FRAME_SPAN };
		add_plain(&names, profile_frame(p, i));
		buf_char(&names, '\0');
		buf_add(&symbols, &symbol, sizeof(symbol));
	}
	if (!n)
		return false;
	put_elf_head(out, n * PERF_FRAME_SPAN);
	uint64_t symtab = out->len;
	buf_add(out, symbols.data, symbols.len);
	uint64_t strtab = out->len;
	buf_add(out, names.data, names.len);
	uint64_t section_text = out->len;
	buf_add(out, section_names, sizeof(section_names));
	put_sections(out, n * PERF_FRAME_SPAN, symtab, strtab, section_text);
	return !out->overflow;
}
