/* libmicrohttpd is part of our program and names GnuTLS's functions whether TLS is spoken or not. Here they are, each
 * passing on to the library of that name once http_tls_load() has found it; nobody calls one earlier. */

#include "http/tls.h"
#include "base/lazy.h"
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>

typedef gnutls_certificate_credentials_t credentials;
typedef gnutls_psk_server_credentials_t psk;
typedef const gnutls_datum_t *datum;

/* What libmicrohttpd and client.c call: result, name, parameters, arguments. One that is missing does not link. */
#define FUNCTIONS(X)                                                                                                   \
	X(int, alpn_set_protocols, (gnutls_session_t s, datum p, unsigned n, unsigned f), (s, p, n, f))                \
	X(int, bye, (gnutls_session_t s, gnutls_close_request_t how), (s, how))                                        \
	X(int, certificate_allocate_credentials, (credentials * c), (c))                                               \
	X(void, certificate_free_credentials, (credentials c), (c))                                                    \
	X(void, certificate_server_set_request, (gnutls_session_t s, gnutls_certificate_request_t q), (s, q))          \
	X(void, certificate_set_dh_params, (credentials c, gnutls_dh_params_t p), (c, p))                              \
	X(void, certificate_set_retrieve_function2, (credentials c, gnutls_certificate_retrieve_function2 * f),        \
	  (c, f))                                                                                                      \
	X(void, certificate_set_retrieve_function3, (credentials c, gnutls_certificate_retrieve_function3 * f),        \
	  (c, f))                                                                                                      \
	X(int, certificate_set_x509_key_mem, (credentials c, datum cert, datum key, gnutls_x509_crt_fmt_t t),          \
	  (c, cert, key, t))                                                                                           \
	X(int, certificate_set_x509_key_mem2,                                                                          \
	  (credentials c, datum cert, datum key, gnutls_x509_crt_fmt_t t, const char *pass, unsigned f),               \
	  (c, cert, key, t, pass, f))                                                                                  \
	X(int, certificate_set_x509_system_trust, (credentials c), (c))                                                \
	X(int, certificate_set_x509_trust_file, (credentials c, const char *path, gnutls_x509_crt_fmt_t t),            \
	  (c, path, t))                                                                                                \
	X(int, certificate_set_x509_trust_mem, (credentials c, datum ca, gnutls_x509_crt_fmt_t t), (c, ca, t))         \
	X(gnutls_cipher_algorithm_t, cipher_get, (gnutls_session_t s), (s))                                            \
	X(int, credentials_set, (gnutls_session_t s, gnutls_credentials_type_t t, void *c), (s, t, c))                 \
	X(void, deinit, (gnutls_session_t s), (s))                                                                     \
	X(void, dh_params_deinit, (gnutls_dh_params_t p), (p))                                                         \
	X(int, dh_params_import_pkcs3, (gnutls_dh_params_t p, datum d, gnutls_x509_crt_fmt_t t), (p, d, t))            \
	X(int, dh_params_init, (gnutls_dh_params_t * p), (p))                                                          \
	X(int, error_is_fatal, (int error), (error))                                                                   \
	X(int, handshake, (gnutls_session_t s), (s))                                                                   \
	X(int, init, (gnutls_session_t * s, unsigned f), (s, f))                                                       \
	X(void, priority_deinit, (gnutls_priority_t p), (p))                                                           \
	X(int, priority_init, (gnutls_priority_t * p, const char *words, const char **at), (p, words, at))             \
	X(int, priority_set, (gnutls_session_t s, gnutls_priority_t p), (s, p))                                        \
	X(gnutls_protocol_t, protocol_get_version, (gnutls_session_t s), (s))                                          \
	X(int, psk_allocate_server_credentials, (psk * c), (c))                                                        \
	X(void, psk_free_server_credentials, (psk c), (c))                                                             \
	X(void, psk_set_server_credentials_function, (psk c, gnutls_psk_server_credentials_function * f), (c, f))      \
	X(size_t, record_check_pending, (gnutls_session_t s), (s))                                                     \
	X(int, record_get_direction, (gnutls_session_t s), (s))                                                        \
	X(ssize_t, record_recv, (gnutls_session_t s, void *data, size_t n), (s, data, n))                              \
	X(ssize_t, record_send, (gnutls_session_t s, const void *data, size_t n), (s, data, n))                        \
	X(int, server_name_set, (gnutls_session_t s, gnutls_server_name_type_t t, const void *name, size_t n),         \
	  (s, t, name, n))                                                                                             \
	X(void *, session_get_ptr, (gnutls_session_t s), (s))                                                          \
	X(void, session_set_ptr, (gnutls_session_t s, void *ptr), (s, ptr))                                            \
	X(void, session_set_verify_cert, (gnutls_session_t s, const char *host, unsigned f), (s, host, f))             \
	X(int, set_default_priority, (gnutls_session_t s), (s))                                                        \
	X(const char *, strerror, (int error), (error))                                                                \
	X(void, transport_set_int2, (gnutls_session_t s, int in, int out), (s, in, out))

#define MEMBER(result, name, parameters, arguments) LAZY_MEMBER(gnutls_, name)
#define NAME(result, name, parameters, arguments) LAZY_NAME(gnutls_, name)
static struct {
	FUNCTIONS(MEMBER)
} tls;
static const char *const names[] = { FUNCTIONS(NAME) };

#define PASS_ON(result, name, parameters, arguments)                                                                   \
	result gnutls_##name parameters                                                                                \
	{                                                                                                              \
		return tls.name arguments;                                                                             \
	}
FUNCTIONS(PASS_ON)
#undef PASS_ON

/* libmicrohttpd's own beginning and end, which come whatever is spoken; the library begins when it is loaded. */
int gnutls_global_init(void)
{
	return 0;
}

void gnutls_global_deinit(void)
{
}

gnutls_alloc_function gnutls_malloc = malloc;

struct err *http_tls_load(void)
{
	return lazy_load(SO_GNUTLS, names, ARRAY_SIZE(names), &tls);
}
