#include "memory/heap_look.h"
#include "memory/heap_snapshot.h"
#include "exam/proof.h"
#include "model/gcdump.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include <stdio.h>

#define SMAPS_MAX ((size_t)64 << 20)
#define PROGRESS_STEP 0.02

struct draining {
	struct heap_look *look;
	const struct image *image;
	struct heap_drain *drain;
	double shown;
};

static bool on_progress(void *user, double ratio)
{
	struct draining *d = user;
	struct exam *exam = d->look->exam;
	if (ratio >= d->shown + PROGRESS_STEP) {
		exam_progress(exam, ratio, "reading the heap");
		d->shown = ratio;
	}
	return !exam_cancelled(exam);
}

static void on_object(void *user, struct heap_walk *walk, const struct heap_found *found, uint32_t number)
{
	struct draining *d = user;
	d->look->on_object(d->look->user, walk, found, number);
}

/* The process as it is now, which is a moment later than the copy; the sums are of pages, not of objects. */
static void on_outline(void *user, struct heap *h, const struct heap_outline *outline)
{
	(void)h;
	struct draining *d = user;
	const struct exam *exam = d->look->exam;
	CLEANUP(buf_free) struct buf smaps = { 0 };
	VEC(uint64_t) stacks = { 0 };
	size_t n;
	const struct image_thread *threads = image_threads(d->image, &n);
	char path[64];
	if (exam->core)
		return;
	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)exam->patient->target.pid);
	struct err *err = file_read(path, SMAPS_MAX, &smaps);
	for (size_t i = 0; i < n && !err; i++)
		if (threads[i].has_regs)
			vec_push(&stacks, threads[i].regs.rsp);
	if (!err)
		heap_areas(buf_cstr(&smaps), outline, stacks.v, stacks.n, &d->drain->memory);
	err_free(err);
	vec_free(&stacks);
}

static struct err *drain(void *user, struct image_exam *look, struct buf *out)
{
	struct heap_look *seen = user;
	struct heap_drain heap_drain_ = { .on_progress = on_progress, .on_outline = on_outline };
	struct draining d = { .look = seen, .image = look->image, .drain = &heap_drain_ };
	CLEANUP(heap_closep) struct heap *h = NULL;
	heap_drain_.user = &d;
	heap_drain_.on_object = seen->on_object ? on_object : NULL;
	TRY(heap_open(look->image, look->dac, &h));
	TRY(heap_drain(h, look->dac, &heap_drain_, out));
	buf_u32(out, heap_drain_.threads_unread);
	if (seen->on_done)
		seen->on_done(seen->user, h, out);
	return NULL;
}

#define SAMPLED 1.001 /* objects for each node */

static struct err *drain_gcdump(void *user, const void *file, size_t len, struct buf *out)
{
	CLEANUP(gcdump_facts_fini) struct gcdump_facts facts = { 0 };
	(void)user;
	TRY(gcdump_read(file, len, &facts, out));
	if (facts.count_multiplier > SAMPLED)
		return err_new(ERR_UNSUPPORTED, "only one of %s objects is in it",
			       fmt_number(facts.count_multiplier).s);
	buf_u32(out, 0); /* threads unread */
	return NULL;
}

static struct err *drain_events(void *user, struct exam *exam, struct buf *out, struct image_exam_facts *ret_facts)
{
	(void)user;
	TRY(heap_snapshot(exam, out, ret_facts));
	buf_u32(out, 0); /* threads unread */
	return NULL;
}

static struct err *take(void *user, struct cursor *in)
{
	struct heap_look *seen = user;
	exam_progress(seen->exam, -1, "finding out who holds what");
	TRY(heapgraph_read(in, &seen->graph));
	heap_mark_own(seen->graph, seen->exam->whose);
	seen->threads_unread = cursor_u32(in);
	if (!cursor_ok(in))
		return err_new(ERR_BAD_DATA, "the heap's recording is cut short");
	return seen->take_more ? seen->take_more(seen->user, in) : NULL;
}

struct err *heap_look(struct heap_look *look, struct exam *exam, const char *part)
{
	struct image_exam_part p = {
		.name = part, .version = HEAP_LOOK_VERSION, .heap = true, .drain = drain, .take = take, .user = look
	};
	look->exam = exam;
	p.drain_gcdump = look->on_done ? NULL : drain_gcdump;
	p.drain_events = look->on_done ? NULL : drain_events;
	TRY(exam_image(exam, &p));
	look->facts = p.facts;
	if (!look->graph->facts.objects)
		exam_unproven(exam, REPORT_INFO, "not one object was found on its heap, and no program is without");
	return NULL;
}

void heap_look_fini(struct heap_look *look)
{
	heapgraph_free(look->graph);
	look->graph = NULL;
}

void heap_look_how(struct report *report, const struct heap_look *look)
{
	const struct graph_facts *f = &look->graph->facts;
	CLEANUP(mem_freep)
	char *walked =
		f->lost_bytes ? mem_printf("%s of the heap make no sense and were left out, from 0x%llx on",
					   fmt_bytes(f->lost_bytes).s, (unsigned long long)f->lost_at)
		: look->facts.gcdump
			? mem_strdup("alive when the file was made; it knows no garbage, generations and fields")
		: look->facts.events
			? mem_strdup("alive after that collection; garbage, generations and fields are not known")
			: mem_strdup("none skipped; a sample agrees with the runtime's own library");
	report_how(report, heap_look_alive_only(look) ? "Objects" : "Objects walked", V_COUNT(f->objects), walked);
	if (look->threads_unread)
		report_how(report, "Stacks not read", V_COUNT(look->threads_unread),
			   "what they alone hold counts as garbage");
}
