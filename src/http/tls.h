#pragma once
/* GnuTLS, loaded when TLS is first spoken: with what it needs it is ten libraries, which a server on plain HTTP and
 * every other command start faster and smaller without. Any thread. */

#include "base/err.h"

/* Before anything of GnuTLS is used, also by libmicrohttpd. ERR_NOT_FOUND when the library is not there. */
struct err *http_tls_load(void) MUST_USE;
