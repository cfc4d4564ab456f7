#include "exam/proc_looks.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "exam/events.h"
#include "exam/proof.h"

#define EVERY_LEAST_NS NS_PER_S
#define LOOKS_WANTED 30

static void take(struct proc_looks *p, bool whole)
{
	p->read += p->look(p->user, whole);
	p->taken++;
}

static struct err *begin(void *user)
{
	struct proc_looks *p = user;
	take(p, true);
	p->next_ns = clock_mono_ns() + p->every_ns;
	p->middle_ns += clock_mono_ns();
	return NULL;
}

static int no_fd(void *user UNUSED)
{
	return -1;
}

static void again(void *user)
{
	struct proc_looks *p = user;
	uint64_t now_ns = clock_mono_ns();
	bool middle = p->middle_ns && now_ns >= p->middle_ns;
	if ((now_ns < p->next_ns && !middle) || p->taken + 1 >= PROC_LOOKS_MAX)
		return;
	take(p, middle);
	p->middle_ns = middle ? 0 : p->middle_ns;
	p->next_ns = now_ns + p->every_ns;
}

static void end(void *user)
{
	struct proc_looks *p = user;
	if (target_alive(&p->exam->patient->target))
		take(p, true);
	if (p->read)
		exam_proven(p->exam, "its files were read %s", fmt_plural(p->read, "time", "times").s);
	else
		exam_unproven(p->exam, REPORT_INFO, "none of the kernel's files about it could be read");
}

struct err *exam_proc_looks(struct exam *exam, struct proc_looks *p, uint64_t window_ms)
{
	const struct events_beside beside = {
		.start = begin, .fd = no_fd, .turn = again, .stop = end, .user = p, .doing = p->doing
	};
	p->exam = exam;
	p->every_ns = MAX(window_ms * NS_PER_MS / LOOKS_WANTED, (uint64_t)EVERY_LEAST_NS);
	p->middle_ns = window_ms * NS_PER_MS / 2;
	return exam_events_beside(exam, NULL, 0, window_ms, &beside);
}
