#include "dachost/data_target.h"
#include "base/vec.h"
#include "com/dac.h"
#include <string.h>

#define MACHINE_AMD64 0x8664u

/* Two interfaces of one object that is never freed, so that references need not be counted. */
static struct clr_data_target target;
static struct clr_runtime_locator locator;
static const struct memory *image;
static uint64_t last_hole;
static VEC(struct data_target_read) reads;
#define MAX_READS 1000000

static com_hr query(const struct com_guid *iid, void **ret)
{
	static const struct com_guid faces[] = { COM_IID_UNKNOWN, COM_IID_CLR_DATA_TARGET_1, COM_IID_CLR_DATA_TARGET };
	static const struct com_guid place = COM_IID_CLR_RUNTIME_LOCATOR;
	*ret = NULL;
	for (size_t i = 0; i < sizeof(faces) / sizeof(faces[0]); i++)
		if (!memcmp(iid, &faces[i], sizeof(*iid)))
			*ret = &target;
	if (!memcmp(iid, &place, sizeof(*iid)))
		*ret = &locator;
	return *ret ? COM_OK : COM_E_NOINTERFACE;
}

static com_hr target_query(struct clr_data_target *self, const struct com_guid *iid, void **ret)
{
	(void)self;
	return query(iid, ret);
}

static com_hr locator_query(struct clr_runtime_locator *self, const struct com_guid *iid, void **ret)
{
	(void)self;
	return query(iid, ret);
}

static uint32_t target_count(struct clr_data_target *self)
{
	(void)self;
	return 1;
}

static uint32_t locator_count(struct clr_runtime_locator *self)
{
	(void)self;
	return 1;
}

static com_hr machine_type(struct clr_data_target *self, uint32_t *ret)
{
	(void)self;
	*ret = MACHINE_AMD64;
	return COM_OK;
}

static com_hr pointer_size(struct clr_data_target *self, uint32_t *ret)
{
	(void)self;
	*ret = sizeof(uint64_t);
	return COM_OK;
}

/* Asked for the runtime only. */
static com_hr image_base(struct clr_data_target *self, com_char *path, uint64_t *ret)
{
	(void)self;
	(void)path;
	*ret = image->setup->runtime_base;
	return COM_OK;
}

static com_hr runtime_base(struct clr_runtime_locator *self, uint64_t *ret)
{
	(void)self;
	*ret = image->setup->runtime_base;
	return COM_OK;
}

static void remember(uint64_t address, size_t len)
{
	struct data_target_read *last = reads.n ? &vec_last(&reads) : NULL;
	if (last && address >= last->start && address <= last->end)
		last->end = MAX(last->end, address + len);
	else if (reads.n < MAX_READS)
		vec_push(&reads, ((struct data_target_read){ address, address + len }));
}

const struct data_target_read *data_target_reads(size_t *ret_n)
{
	*ret_n = reads.n;
	return reads.v;
}

static struct {
	struct data_target_read *v;
	size_t n, max;
} trace;

size_t data_target_trace(struct data_target_read *into, size_t max)
{
	size_t n = trace.n;
	trace.v = into;
	trace.n = 0;
	trace.max = max;
	return n;
}

static struct {
	uint64_t address;
	uint32_t value;
} pretended;

void data_target_pretend(uint64_t address, uint32_t value)
{
	pretended.address = address;
	pretended.value = value;
}

static void overlay(uint64_t address, uint8_t *buffer, size_t len)
{
	if (pretended.address && len >= sizeof(pretended.value) && pretended.address >= address &&
	    pretended.address - address <= len - sizeof(pretended.value))
		memcpy(buffer + (pretended.address - address), &pretended.value, sizeof(pretended.value));
}

static com_hr read_virtual(struct clr_data_target *self, uint64_t address, uint8_t *buffer, uint32_t length,
			   uint32_t *ret_read)
{
	(void)self;
	size_t got = memory_read(image, address, buffer, length);
	overlay(address, buffer, got);
	if (ret_read)
		*ret_read = (uint32_t)got;
	if (got)
		remember(address, got);
	if (got && trace.v && trace.n < trace.max)
		trace.v[trace.n++] = (struct data_target_read){ address, address + got };
	if (got < length)
		last_hole = address + got;
	return got ? COM_OK : COM_E_FAIL;
}

static void fill_context(struct dacp_context *c, const uint64_t regs[27])
{
	c->r15 = regs[0];
	c->r14 = regs[1];
	c->r13 = regs[2];
	c->r12 = regs[3];
	c->rbp = regs[4];
	c->rbx = regs[5];
	c->r11 = regs[6];
	c->r10 = regs[7];
	c->r9 = regs[8];
	c->r8 = regs[9];
	c->rax = regs[10];
	c->rcx = regs[11];
	c->rdx = regs[12];
	c->rsi = regs[13];
	c->rdi = regs[14];
	c->rip = regs[16];
	c->cs = (uint16_t)regs[17];
	c->eflags = (uint32_t)regs[18];
	c->rsp = regs[19];
	c->ss = (uint16_t)regs[20];
	c->ds = (uint16_t)regs[23];
	c->es = (uint16_t)regs[24];
	c->fs = (uint16_t)regs[25];
	c->gs = (uint16_t)regs[26];
}

/* A thread whose registers are not known gets zeros, not a failure: the walk then starts from the runtime's own chain
 * of frames, which is exact for threads outside managed code. */
static com_hr thread_context(struct clr_data_target *self, uint32_t tid, uint32_t flags, uint32_t size, uint8_t *ret)
{
	(void)self;
	if (size < sizeof(struct dacp_context))
		return COM_E_FAIL;
	struct dacp_context context = { .flags = flags };
	const struct wire_dac_regs *thread = memory_thread(image, tid);
	if (thread && thread->has_regs) {
		fill_context(&context, thread->regs);
		memcpy(context.fxsave, thread->fxsave, sizeof(context.fxsave));
	}
	memset(ret, 0, size);
	memcpy(ret, &context, sizeof(context));
	return COM_OK;
}

/* What an image cannot do: no argument is used, so one function fills every slot. */
static com_hr not_here(void)
{
	return COM_E_NOTIMPL;
}
#define NOT_HERE (void *)not_here

static const struct clr_data_target_vtbl target_vtbl = {
	.QueryInterface = target_query,
	.AddRef = target_count,
	.Release = target_count,
	.GetMachineType = machine_type,
	.GetPointerSize = pointer_size,
	.GetImageBase = image_base,
	.ReadVirtual = read_virtual,
	.WriteVirtual = NOT_HERE,
	.GetTLSValue = NOT_HERE,
	.SetTLSValue = NOT_HERE,
	.GetCurrentThreadID = NOT_HERE,
	.GetThreadContext = thread_context,
	.SetThreadContext = NOT_HERE,
	.Request = NOT_HERE,
	.AllocVirtual = NOT_HERE,
	.FreeVirtual = NOT_HERE,
};
static const struct clr_runtime_locator_vtbl locator_vtbl = {
	.QueryInterface = locator_query,
	.AddRef = locator_count,
	.Release = locator_count,
	.GetRuntimeBase = runtime_base,
};

void *data_target(const struct memory *m)
{
	image = m;
	target.vtbl = &target_vtbl;
	locator.vtbl = &locator_vtbl;
	return &target;
}

uint64_t data_target_hole(void)
{
	uint64_t hole = last_hole;
	last_hole = 0;
	return hole;
}
