/* Tells an address that a session has ended: its SessionInfo, by POST, from a thread of its own. */

#include "server/internal.h"
#include "http/client.h"
#include "base/clock.h"
#include "base/str.h"
#include <string.h>

#define AT_ONCE_MAX 8
#define DELIVERY_MS 10000
#define TRIES 3
#define STACK_BYTES ((size_t)256 << 10)

struct webhooks {
	struct server *server;
	pthread_mutex_t lock;
	pthread_cond_t gone;
	size_t threads;
};

struct delivery {
	struct webhooks *webhooks;
	char *url, *body;
};

struct webhooks *webhooks_new(struct server *server)
{
	struct webhooks *w = mem_zalloc(sizeof(*w));
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->gone, NULL);
	w->server = server;
	return w;
}

void webhooks_free(struct webhooks *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	while (w->threads)
		pthread_cond_wait(&w->gone, &w->lock);
	pthread_mutex_unlock(&w->lock);
	pthread_cond_destroy(&w->gone);
	pthread_mutex_destroy(&w->lock);
	mem_free(w);
}

struct err *server_check_webhook(const char *url)
{
	if (!http_is_address(url) || strpbrk(url, " \t\r\n") || strlen(url) > 2000)
		return err_new(ERR_USAGE, "a webhook is an http:// or https:// address, not '%s'", url);
	return NULL;
}

static struct err *deliver(const struct delivery *d)
{
	CLEANUP(mem_freep) char *site = NULL, *path = NULL;
	http_split(d->url, &site, &path);
	struct http_order order = { .url = site,
				    .method = "POST",
				    .path = path,
				    .type = "application/json",
				    .body = d->body,
				    .body_len = strlen(d->body) };
	CLEANUP(http_freep) struct http_client *client = NULL;
	TRY(http_open(&order, deadline_in_ms(DELIVERY_MS), &client));
	int status = http_status(client);
	return status >= 200 && status < 300 ? NULL : err_new(ERR_IO, "it answered %d", status);
}

static void *thread(void *user)
{
	struct delivery *d = user;
	struct webhooks *w = d->webhooks;
	struct err *err = NULL;
	for (int i = 0; i < TRIES && (!i || err); i++) {
		err_free(err);
		err = deliver(d);
	}
	if (err)
		log_line(w->server->log, LOG_WARN, "the webhook %s was not delivered: %s", d->url, err_text(err));
	err_free(err);
	mem_free(d->url);
	mem_free(d->body);
	mem_free(d);
	pthread_mutex_lock(&w->lock);
	w->threads--;
	pthread_cond_signal(&w->gone);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

void webhook_send(struct webhooks *w, const char *url, const char *json)
{
	struct delivery *d = mem_alloc(sizeof(*d));
	pthread_attr_t attr;
	pthread_t id;
	*d = (struct delivery){ w, mem_strdup(url), mem_strdup(json) };
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_mutex_lock(&w->lock);
	bool started = w->threads < AT_ONCE_MAX && pthread_create(&id, &attr, thread, d) == 0;
	w->threads += started;
	pthread_mutex_unlock(&w->lock);
	pthread_attr_destroy(&attr);
	if (started)
		return;
	log_line(w->server->log, LOG_WARN, "the webhook %s was not delivered: too many at once", url);
	mem_free(d->url);
	mem_free(d->body);
	mem_free(d);
}
