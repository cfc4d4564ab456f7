#pragma once
/* JSON in and out. jansson's only owner: reading uses its types (re-exported here), writing is our own streaming
 * writer, because reports are large and are written once.
 *
 * Every string is made valid UTF-8 on the way out and controls, quotes, '<', '>', '&', direction marks and zero-width
 * characters are escaped, so that the text may stand inside a <script> element and be printed on a terminal. */

#include "base/buf.h"
#include "base/err.h"
#include <jansson.h>

/* Parses text of at most max bytes and moderate depth; duplicate keys are refused. The caller owns *ret:
 * CLEANUP(json_decrefp). */
struct err *json_parse(const char *text, size_t len, size_t max, json_t **ret) MUST_USE;
/* Typed access with defaults; wrong types read as the default. */
const char *json_get_str(const json_t *obj, const char *key, const char *otherwise);
int64_t json_get_int(const json_t *obj, const char *key, int64_t otherwise);
double json_get_num(const json_t *obj, const char *key, double otherwise);
bool json_get_bool(const json_t *obj, const char *key, bool otherwise);

/* The writer. Inside an object pass the key, inside an array NULL. Numbers that are not finite become null. */
struct jsonw {
	struct buf *out;
	uint32_t depth;
	bool comma, pretty;
};
struct jsonw jsonw_make(struct buf *out, bool pretty);
void jsonw_object(struct jsonw *w, const char *key);
void jsonw_object_end(struct jsonw *w);
void jsonw_array(struct jsonw *w, const char *key);
void jsonw_array_end(struct jsonw *w);
void jsonw_str(struct jsonw *w, const char *key, const char *s); /* NULL writes null */
void jsonw_strn(struct jsonw *w, const char *key, const char *s, size_t len);
void jsonw_u64(struct jsonw *w, const char *key, uint64_t v);
void jsonw_i64(struct jsonw *w, const char *key, int64_t v);
void jsonw_num(struct jsonw *w, const char *key, double v);
void jsonw_bool(struct jsonw *w, const char *key, bool v);
void jsonw_null(struct jsonw *w, const char *key);
/* Text that is JSON already. */
void jsonw_raw(struct jsonw *w, const char *key, const char *json);
