/* The list of processes that requests share: read again when it is too old, with the CPU use since the last time. */

#include "server/internal.h"
#include "base/clock.h"
#include "base/vec.h"

#define FRESH_NS NS_PER_S
#define CPU_WINDOW_NS (500 * NS_PER_MS)
#define ASK_TIMEOUT_MS 1000

struct patients {
	pthread_mutex_t lock; /* also held while /proc is read: requests that come meanwhile get the same answer */
	struct patients_view *now;
};

struct patients *patients_new(void)
{
	struct patients *p = mem_zalloc(sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void drop(struct patients_view *view)
{
	if (!view || --view->refs)
		return;
	patient_list_free(&view->list);
	mem_free(view);
}

void patients_free(struct patients *p)
{
	if (!p)
		return;
	drop(p->now);
	pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

static const struct patient *same(const struct patients_view *view, const struct target *t)
{
	vec_each(p, &view->list)
		if (p->target.pid == t->pid && p->target.start_ticks == t->start_ticks)
			return p;
	return NULL;
}

/* The CPU since the last look says more than that since the start. */
static void measure(struct patients_view *view, const struct patients_view *before)
{
	vec_each(p, &view->list) {
		struct target *t = &p->target;
		const struct patient *was = before && t->pid ? same(before, t) : NULL;
		if (!was || t->seen_ns < was->target.seen_ns + CPU_WINDOW_NS || t->cpu_ns < was->target.cpu_ns)
			continue;
		t->cpu_window_ns = t->seen_ns - was->target.seen_ns;
		t->cpu_ratio = (double)(t->cpu_ns - was->target.cpu_ns) / (double)t->cpu_window_ns;
	}
}

static struct err *look(struct patients *p)
{
	struct patients_view *view = mem_zalloc(sizeof(*view));
	struct err *err = patient_find_all(ASK_TIMEOUT_MS, &view->list);
	if (err) {
		mem_free(view);
		return err;
	}
	view->refs = 1;
	view->when_ns = clock_mono_ns();
	measure(view, p->now);
	drop(p->now);
	p->now = view;
	return NULL;
}

struct err *patients_look(struct patients *p, struct patients_view **ret)
{
	struct err *err = NULL;
	pthread_mutex_lock(&p->lock);
	if (!p->now || clock_mono_ns() - p->now->when_ns > FRESH_NS)
		err = look(p);
	if (!err) {
		p->now->refs++;
		*ret = p->now;
	}
	pthread_mutex_unlock(&p->lock);
	return err;
}

void patients_done(struct patients *p, struct patients_view *view)
{
	if (!view)
		return;
	pthread_mutex_lock(&p->lock);
	drop(view);
	pthread_mutex_unlock(&p->lock);
}

const struct patient *patients_by_id(const struct patients_view *view, int id)
{
	vec_each(p, &view->list)
		if (p->target.id == id)
			return p;
	return NULL;
}
