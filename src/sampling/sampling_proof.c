/* Did sampling work? A process that waits has no samples, and neither has a sampler that fails; the kernel's own clocks, which
 * need no sampling, tell the two apart. */

#include "base/clock.h"
#include "base/fmt.h"
#include "exam/proof.h"
#include "sampling/sampling_parts.h"

/* The clocks are read a little before and after the window. */
#define EXPECTED_NS_LEAST (100 * NS_PER_MS)
#define EXPECTED_RUNS_LEAST 20
/* From this share on what was sampled represents the rest. */
#define SEEN_SHARE 0.25

/* What was to be sampled by the kernel's clocks; false when they could not be read. Not of threads that ended meanwhile, which
 * reports tell of otherwise, and not what a thread used until its first sample was due. */
static bool expected_ns(const struct samples *s, const struct sampling_facts *f, uint64_t *ret)
{
	uint64_t sum = 0;
	size_t known = 0;
	vec_each(t, &s->threads) {
		if (t->cpu_ns == UINT64_MAX)
			continue;
		known++;
		sum += t->cpu_ns - MIN(t->cpu_ns, 2 * f->period);
	}
	*ret = known ? MIN(sum, f->cpu_ns) : f->cpu_ns;
	return known || f->cpu_ns != UINT64_MAX;
}

static void prove_cpu(struct exam *exam, const struct samples *s, const struct sampling_facts *f)
{
	uint64_t expected, seen = 0;
	size_t n = s->list.n;
	bool known = expected_ns(s, f, &expected);
	vec_each(x, &s->list)
		seen += x->weight;
	bool few = expected >= EXPECTED_NS_LEAST && (double)seen < SEEN_SHARE * (double)expected && !s->dropped;
	if (n && (!known || !few))
		exam_proven(exam, "%s came", fmt_plural(n, "sample", "samples").s);
	else if (!known)
		exam_unproven(exam, REPORT_INFO, "no sample came, and the clock of its CPU time could not be read");
	else if (!few)
		exam_proven(exam, "no sample came, and by the kernel's clock there was hardly anything to sample");
	else
		exam_unproven(exam, n ? REPORT_OK : REPORT_INFO,
			      "%s of CPU time came as samples, but the kernel's clock counts %s",
			      n ? fmt_duration_ns(seen).s : "nothing", fmt_duration_ns(expected).s);
}

static void prove_switches(struct exam *exam, const struct sampling_facts *f)
{
	if (f->switches)
		exam_proven(exam, "%s came", fmt_plural(f->switches, "context switch", "context switches").s);
	else if (f->runs < EXPECTED_RUNS_LEAST)
		exam_proven(exam, "no context switch came, and the kernel counts hardly any");
	else
		exam_unproven(exam, REPORT_INFO, "no context switch came, but the kernel counts %s",
			      fmt_count(f->runs).s);
}

void sampling_prove(struct exam *exam, enum sampler_kind kind, const struct samples *samples,
		    const struct sampling_facts *facts)
{
	if (facts->by_events) /* its streams are proven as all are */
		return;
	if (kind == SAMPLER_CPU)
		prove_cpu(exam, samples, facts);
	else
		prove_switches(exam, facts);
}
