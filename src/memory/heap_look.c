#include "memory/heap_look.h"
#include "memory/heap_snapshot.h"
#include "exam/proof.h"
#include "model/gcdump.h"
#include "base/fmt.h"
#include "base/str.h"
#include "eventpipe/methods.h"

#define PROGRESS_STEP 0.02
#define LOST_SHARE 0.01 /* of the heap: worth another look */
#define LOST_MOST 0.5	/* of the heap: then nothing is known about it */

struct draining {
	struct heap_look *look;
	const struct image *image;
	struct heap_drain *drain;
	struct heap_notes_reader *notes;
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
	heap_notes_see(d->notes, walk, found, number);
	if (d->look->on_object)
		d->look->on_object(d->look->user, walk, found, number);
}

/* The process as it is now, which is a moment later than the copy; the sums are of pages, not of objects. */
static void on_outline(void *user, struct heap *h, const struct heap_outline *outline)
{
	(void)h;
	struct draining *d = user;
	const struct exam *exam = d->look->exam;
	struct memory_areas areas = { 0 };
	if (exam->core)
		return;
	err_ignore(memory_areas_of(exam->patient->target.pid, d->image, outline, &areas));
	heap_areas(&areas, &d->drain->memory);
	vec_free(&areas);
}

/* Memory that is shared between processes is saved while the target stands still, as far as its time goes: on a busy
 * machine types and static fields may be missing, and then most of the heap makes no sense, or what fields hold counts
 * as garbage. One more look may have them; a heap that is mostly unknown is no answer. */
static struct err *check_whole(struct heap_look *look, const struct heap_drain *d, bool core)
{
	double lost = ratio(d->facts.lost_bytes, d->facts.bytes + d->facts.lost_bytes);
	if (core || (!d->modules_unread && lost < LOST_SHARE))
		return NULL;
	if (look->drains++ && lost < LOST_MOST)
		return NULL;
	return err_new(ERR_BAD_DATA, "%s of the heap and the static fields of %s could not be read; try again",
		       fmt_bytes(d->facts.lost_bytes).s, fmt_plural(d->modules_unread, "module", "modules").s);
}

static struct err *drain(void *user, struct image_exam *look, struct buf *out)
{
	struct heap_look *seen = user;
	struct heap_drain heap_drain_ = { .on_progress = on_progress, .on_outline = on_outline };
	CLEANUP(heap_notes_reader_freep) struct heap_notes_reader *notes = heap_notes_reader_new();
	struct draining d = { .look = seen, .image = look->image, .drain = &heap_drain_, .notes = notes };
	CLEANUP(heap_closep) struct heap *h = NULL;
	heap_drain_.user = &d;
	heap_drain_.on_object = on_object;
	TRY(heap_open(look->image, look->dac, &h));
	TRY(heap_drain(h, look->dac, &heap_drain_, out));
	TRY(check_whole(seen, &heap_drain_, look->facts.core));
	buf_u32(out, heap_drain_.threads_unread);
	heap_notes_write(notes, look->dac, heap_drain_.modules_unread, out);
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
	if (!cursor_ok(in) || !heap_notes_take(&seen->notes, seen->graph->n, in))
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
	heap_notes_fini(&look->notes);
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
	if (look->notes.modules_unread)
		report_how(report, "Static fields not read", V_COUNT(look->notes.modules_unread),
			   "modules; what these alone hold counts as garbage");
	if (look->threads_unread)
		report_how(report, "Stacks not read", V_COUNT(look->threads_unread),
			   "what they alone hold counts as garbage");
}

#define FEW_UNFINALIZED 100u /* are in the queue for a moment after any collection */

void heap_finalizers_words(const struct heap_look *look, struct buf *out)
{
	uint64_t waiting = 0;
	const char *own = NULL;
	vec_each(set, &look->graph->roots)
		waiting += set->kind == GRAPH_FINALIZER ? set->n : 0;
	vec_each(frame, &look->notes.finalizer_frames) {
		const char *name = strtab_get(&look->notes.strings, *frame);
		if (!own && !method_is_framework(look->exam->whose, name))
			own = name;
	}
	if (own && waiting >= FEW_UNFINALIZED)
		buf_printf(out, "%s objects wait for their finalizers, and the finalizer thread is in %s",
			   fmt_count(waiting).s, own);
}
