/* How looks were taken, in words: the lines of a report about them. */

#include "base/fmt.h"
#include "exam/image_exam.h"

static void how_core(struct report *report, const struct image_exam_facts *f)
{
	CLEANUP(mem_freep)
	char *size = mem_printf("%s, read where it lies; no process was touched", fmt_bytes(f->bytes).s);
	report_how(report, "Way", V_TEXT(f->gcdump ? ".gcdump file" : "core file"), size);
	if (f->missing)
		report_how(report, "Missing", V_BYTES(f->missing), "the file is cut short");
	if (f->unproven)
		report_how(report, "Assemblies", V_BYTES(f->unproven),
			   "not in the core, so read from disk; nothing proves that they are of the same build");
}

static void how_agent(struct report *report, const struct image_exam_facts *looks, size_t n, uint64_t pause_ns,
		      uint64_t missing)
{
	uint64_t bytes = 0, life_ns = 0;
	for (size_t i = 0; i < n; i++) {
		bytes += looks[i].bytes;
		life_ns += looks[i].life_ns;
	}
	CLEANUP(mem_freep)
	char *sent = mem_printf("our library in the process made a copy of it, which sent %s in %s; both are gone",
				fmt_bytes(bytes).s, fmt_duration_ns(life_ns).s);
	report_how(report, "Way", V_TEXT("agent"), sent);
	report_how(report, "Target paused", V_NS(pause_ns), n > 1 ? "the longest" : NULL);
	if (missing)
		report_how(report, "Not in the image", V_BYTES(missing),
			   "of the runtime's code, too large to be saved");
}

static void how_events(struct report *report, const struct image_exam_facts *f)
{
	CLEANUP(mem_freep)
	char *told = mem_printf("its runtime collected and told of every object that was left: %s of events in %s, "
				"none lost%s",
				fmt_bytes(f->bytes).s, fmt_duration_ns(f->life_ns).s,
				f->again ? "; before .NET 10 it collects again when that ends" : "");
	report_how(report, "Way", V_TEXT("events"), told);
	report_how(report, "Target paused", f->pause_ns ? V_NS(f->pause_ns) : V_NONE, "by that collection");
	if (f->attempts > 1)
		report_how(report, "Attempts", V_COUNT(f->attempts), "the ones before lost events");
}

/* A promise that was not kept is said as such. */
static void how_breach(struct report *report, const struct image_exam_facts *looks, size_t n)
{
	const struct image_exam_facts *worst = NULL;
	for (size_t i = 0; i < n; i++)
		if (looks[i].limit_ns && looks[i].pause_ns > looks[i].limit_ns &&
		    (!worst || looks[i].pause_ns > worst->pause_ns))
			worst = &looks[i];
	if (!worst)
		return;
	CLEANUP(mem_freep)
	char *by = mem_printf("broken: it stood still for %s longer",
			      fmt_duration_ns(worst->pause_ns - worst->limit_ns).s);
	report_how(report, "Limit of the pause", V_NS(worst->limit_ns), by);
}

void image_exam_how(struct report *report, const struct image_exam_facts *looks, size_t n)
{
	uint64_t pause_ns = 0, life_ns = 0, copied = 0, missing = 0;
	uint32_t deaths = 0;
	for (size_t i = 0; i < n; i++) {
		pause_ns = MAX(pause_ns, looks[i].pause_ns);
		life_ns += looks[i].life_ns;
		copied += looks[i].copied;
		missing = MAX(missing, looks[i].missing);
		deaths += looks[i].dac_deaths;
	}
	if (!n)
		return;
	if (looks[0].core) {
		how_core(report, &looks[0]);
	} else if (looks[0].events) {
		how_events(report, &looks[0]);
	} else if (looks[0].agent) {
		how_agent(report, looks, n, pause_ns, missing);
	} else {
		CLEANUP(mem_freep)
		char *life = mem_printf("%s of its memory, read for %s; meanwhile the process had to copy %s",
					n > 1 ? fmt_plural(n, "copy", "copies").s : "a copy",
					fmt_duration_ns(life_ns).s, fmt_bytes(copied).s);
		CLEANUP(mem_freep) char *times = mem_printf("%s; the longest", fmt_plural(n, "time", "times").s);
		report_how(report, "Way", V_TEXT("image"), life);
		report_how(report, "Target paused", V_NS(pause_ns), n > 1 ? times : NULL);
		if (missing)
			report_how(report, "Not in the image", V_BYTES(missing),
				   "shared memory, too large to be saved");
	}
	how_breach(report, looks, n);
	if (deaths)
		report_how(report, "Unanswered", V_COUNT(deaths),
			   "questions that the runtime's own library did not survive");
}
