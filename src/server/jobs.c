/* A pool of threads that carry out requests which may take long, so that the HTTP threads stay free. */

#include "server/internal.h"
#include <errno.h>
#include <signal.h>
#include <time.h>

#define THREADS_MAX 16
#define WAITING_MAX 2048
#define IDLE_SECONDS 5
#define STACK_BYTES ((size_t)512 << 10)

struct jobs {
	pthread_mutex_t lock;
	pthread_cond_t more, gone;
	struct request *first, *last;
	size_t waiting, threads, idle;
	bool stopping;
	void (*work)(struct request *r);
};

struct jobs *jobs_new(void (*work)(struct request *r))
{
	struct jobs *j = mem_zalloc(sizeof(*j));
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->more, &attr);
	pthread_cond_init(&j->gone, NULL);
	pthread_condattr_destroy(&attr);
	j->work = work;
	return j;
}

static struct request *take(struct jobs *j)
{
	struct request *r = j->first;
	if (r) {
		j->first = r->next;
		j->last = j->first ? j->last : NULL;
		j->waiting--;
		r->next = NULL;
	}
	return r;
}

/* Threads come when there is work and leave when there is none: an idle server is small. */
static void *thread(void *user)
{
	struct jobs *j = user;
	pthread_mutex_lock(&j->lock);
	for (;;) {
		struct request *r = take(j);
		if (r) {
			pthread_mutex_unlock(&j->lock);
			j->work(r);
			pthread_mutex_lock(&j->lock);
			continue;
		}
		if (j->stopping)
			break;
		struct timespec until;
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += IDLE_SECONDS;
		j->idle++;
		int rc = pthread_cond_timedwait(&j->more, &j->lock, &until);
		j->idle--;
		if (rc == ETIMEDOUT && !j->first)
			break;
	}
	j->threads--;
	pthread_cond_signal(&j->gone);
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

static bool start_thread(struct jobs *j)
{
	pthread_attr_t attr;
	pthread_t id;
	sigset_t all, was;
	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* Signals are for the main thread. */
	pthread_sigmask(SIG_BLOCK, &all, &was);
	bool started = pthread_create(&id, &attr, thread, j) == 0;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	j->threads += started;
	return started;
}

bool jobs_add(struct jobs *j, struct request *r)
{
	pthread_mutex_lock(&j->lock);
	bool ok = !j->stopping && j->waiting < WAITING_MAX;
	if (ok && j->idle <= j->waiting && j->threads < THREADS_MAX)
		ok = start_thread(j) || j->threads > 0;
	if (ok) {
		r->next = NULL;
		*(j->last ? &j->last->next : &j->first) = r;
		j->last = r;
		j->waiting++;
		pthread_cond_signal(&j->more);
	}
	pthread_mutex_unlock(&j->lock);
	return ok;
}

void jobs_free(struct jobs *j)
{
	if (!j)
		return;
	pthread_mutex_lock(&j->lock);
	j->stopping = true;
	pthread_cond_broadcast(&j->more);
	while (j->threads)
		pthread_cond_wait(&j->gone, &j->lock);
	pthread_mutex_unlock(&j->lock);
	pthread_cond_destroy(&j->more);
	pthread_cond_destroy(&j->gone);
	pthread_mutex_destroy(&j->lock);
	mem_free(j);
}
