#pragma once
/* What the framework's events say of requests and their calls, for request_spans_add(): which providers to ask, and what each event
 * means. Payloads are hostile: texts are cut, and user data (the values in SQL, the query of a path) is left out.
 *
 * Kestrel's provider is left out: its connection would become the parent of its requests, which on .NET 10 then share ids. */

#include "base/buf.h"
#include "ipc/ipc.h"
#include "nettrace/nettrace.h"
#include "requests/spans.h"

#define REQUEST_PROVIDERS_MAX 10
/* For that runtime (8, 9, 10; 0 = not known). Returns how many. */
size_t request_providers(unsigned runtime_major, struct ipc_provider ret[REQUEST_PROVIDERS_MAX]);

/* Texts of the last event; kept between them so that they are not allocated each time. */
struct request_texts {
	struct buf method, label, raw;
};
void request_texts_free(struct request_texts *t);
/* False when it says nothing of requests. ret refers to the event and to the texts. */
bool request_event(const struct nettrace_event *event, struct request_texts *texts, struct span_event *ret);

/* A statement without its values, so that the same query has one shape: literals become "?", lists of them "?...", blanks and
 * comments one blank, at most 300 bytes. Appends. */
void sql_shape(const char *sql, size_t len, struct buf *out);
