#include "requests/request_events.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "nettrace/fields.h"
#include <string.h>

#define ALL_KEYWORDS UINT64_MAX
#define INFORMATIONAL 4
#define VERBOSE 5
#define HOSTING "Microsoft.AspNetCore.Hosting"
#define HTTP "System.Net.Http"
#define SQL "Npgsql.Sql"
#define TPL "System.Threading.Tasks.TplEventSource"
#define TPL_FLOW_IDS 0x80
#define STATEMENT_MAX 20000 /* of its units that are looked at */

static const struct {
	const char *provider, *name; /* name: of providers whose numbers differ from session to session */
	uint32_t id;
	enum span_news news;
	enum span_what what;
} meanings[] = {
	{ CLR_PROVIDER, NULL, 3, SPAN_RESUMED, 0 },
	{ CLR_PROVIDER, NULL, 9, SPAN_SUSPENDED, 0 },
	{ CLR_PROVIDER, NULL, 57, SPAN_IDLE, 0 },
	{ CLR_PROVIDER, NULL, 81, SPAN_BEGIN, SPAN_LOCK },
	{ CLR_PROVIDER, NULL, 91, SPAN_END, SPAN_LOCK },
	{ CLR_PROVIDER, NULL, 301, SPAN_BEGIN, SPAN_WAIT },
	{ CLR_PROVIDER, NULL, 302, SPAN_END, SPAN_WAIT },
	{ HOSTING, NULL, 3, SPAN_BEGIN, SPAN_REQUEST },
	{ HOSTING, NULL, 4, SPAN_END, SPAN_REQUEST },
	{ HOSTING, NULL, 5, SPAN_REQUEST_FAILED, SPAN_REQUEST },
	{ HTTP, NULL, 1, SPAN_BEGIN, SPAN_HTTP },
	{ HTTP, NULL, 2, SPAN_END, SPAN_HTTP },
	{ HTTP, NULL, 6, SPAN_LEFT_QUEUE, SPAN_HTTP },
	{ HTTP, NULL, 13, SPAN_BEGIN, SPAN_BODY },
	{ HTTP, NULL, 14, SPAN_END, SPAN_BODY },
	{ "System.Net.NameResolution", NULL, 1, SPAN_BEGIN, SPAN_DNS },
	{ "System.Net.NameResolution", NULL, 2, SPAN_END, SPAN_DNS },
	{ "System.Net.Sockets", NULL, 1, SPAN_BEGIN, SPAN_CONNECT },
	{ "System.Net.Sockets", NULL, 2, SPAN_END, SPAN_CONNECT },
	{ "System.Net.Security", NULL, 1, SPAN_BEGIN, SPAN_TLS },
	{ "System.Net.Security", NULL, 2, SPAN_END, SPAN_TLS },
	{ SQL, "CommandStart", 0, SPAN_BEGIN, SPAN_SQL },
	{ SQL, "CommandStop", 0, SPAN_END, SPAN_SQL },
};
/* What nettrace_meta.user holds: 0 = not looked at yet. */
#define OF_NO_MEANING (ARRAY_SIZE(meanings) + 1)

size_t request_providers(unsigned runtime_major, struct ipc_provider ret[REQUEST_PROVIDERS_MAX])
{
	static const char *const others[] = {
		HOSTING, HTTP, "System.Net.NameResolution", "System.Net.Sockets", "System.Net.Security", SQL
	};
	size_t n = 0;
	/* Waits need a level at which others are many; from .NET 10 on those are left out. */
	static const uint32_t wanted[] = { 3, 9, 57, 81, 91, 301, 302 };
	bool waits = runtime_major >= 9;
	ret[n++] = (struct ipc_provider){ .name = CLR_PROVIDER,
					  .keywords = CLR_GC | CLR_CONTENTION | CLR_THREADING |
						      (waits ? CLR_WAIT_HANDLE : 0),
					  .level = waits ? VERBOSE : INFORMATIONAL,
					  .only_ids = wanted,
					  .n_only_ids = ARRAY_SIZE(wanted) };
	/* First, so that whoever begins after it has an id. */
	ret[n++] = (struct ipc_provider){ .name = TPL, .keywords = TPL_FLOW_IDS, .level = INFORMATIONAL };
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		ret[n++] = (struct ipc_provider){ .name = others[i], .keywords = ALL_KEYWORDS, .level = INFORMATIONAL };
	return n;
}

static uintptr_t classify(const struct nettrace_meta *meta)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++) {
		bool same = meanings[i].name ? str_eq(meanings[i].name, meta->name) : meanings[i].id == meta->event_id;
		if (same && str_eq(meanings[i].provider, meta->provider))
			return i + 1;
	}
	return OF_NO_MEANING;
}

static const char *text_of(const struct nettrace_event *event, const char *field, struct buf *out)
{
	struct nettrace_value value;
	if (!nettrace_find(event, field, &value))
		return buf_cstr(out);
	if (value.kind == NETTRACE_IS_UTF16)
		value.utf16.n = MIN(value.utf16.n, (size_t)STATEMENT_MAX);
	nettrace_value_text(&value, out);
	return buf_cstr(out);
}

static double number_of(const struct nettrace_event *event, const char *field)
{
	struct nettrace_value value;
	double x = 0;
	return nettrace_find(event, field, &value) && nettrace_value_number(&value, &x) ? x : 0;
}

static void label_http(const struct nettrace_event *event, struct request_texts *t)
{
	text_of(event, "scheme", &t->label);
	buf_str(&t->label, "://");
	text_of(event, "host", &t->label);
	int port = (int)number_of(event, "port");
	if (port > 0)
		buf_printf(&t->label, ":%d", port);
}

static void add_texts(const struct nettrace_event *event, struct request_texts *t, struct span_event *e)
{
	if (e->what == SPAN_REQUEST) {
		e->method = text_of(event, "method", &t->method);
		text_of(event, "path", &t->label);
	} else if (e->what == SPAN_HTTP) {
		label_http(event, t);
	} else if (e->what == SPAN_DNS) {
		text_of(event, "hostNameOrAddress", &t->label);
	} else if (e->what == SPAN_SQL) {
		text_of(event, "sql", &t->raw);
		sql_shape(buf_cstr(&t->raw), t->raw.len, &t->label);
	}
	e->label = buf_cstr(&t->label);
}

/* The status of the answer; -1 = there was none. */
static bool call_failed(const struct nettrace_event *event)
{
	double status = number_of(event, "statusCode");
	return status < 0 || status >= 500;
}

bool request_event(const struct nettrace_event *event, struct request_texts *texts, struct span_event *ret)
{
	struct nettrace_meta *meta = event->meta;
	if (!meta->user)
		meta->user = classify(meta);
	*ret = (struct span_event){ .news = SPAN_OF_IT,
				    .time_ns = event->time,
				    .thread = event->thread_id,
				    .id = event->activity_id,
				    .related = event->related_activity_id };
	if (meta->user >= OF_NO_MEANING)
		return event->activity_id;
	ret->news = meanings[meta->user - 1].news;
	ret->what = meanings[meta->user - 1].what;
	buf_clear(&texts->method);
	buf_clear(&texts->label);
	buf_clear(&texts->raw);
	if (ret->news == SPAN_BEGIN)
		add_texts(event, texts, ret);
	else if (ret->news == SPAN_LEFT_QUEUE)
		ret->queued_ns = (uint64_t)(MIN(MAX(number_of(event, "timeOnQueueMilliseconds"), 0.0), 1e9) * 1e6);
	else if (ret->news == SPAN_END && ret->what == SPAN_HTTP)
		ret->failed = call_failed(event);
	return true;
}

void request_texts_free(struct request_texts *t)
{
	buf_free(&t->method);
	buf_free(&t->label);
	buf_free(&t->raw);
}
