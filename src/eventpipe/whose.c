#include "eventpipe/whose.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <string.h>

#define NAMES_MAX 8192

struct whose_names {
	struct strtab names;
	VEC(uint8_t) whose; /* by id */
};

struct whose_names *whose_names_new(void)
{
	return mem_zalloc(sizeof(struct whose_names));
}

void whose_names_free(struct whose_names *n)
{
	if (!n)
		return;
	strtab_free(&n->names);
	vec_free(&n->whose);
	mem_free(n);
}

void whose_names_add(struct whose_names *n, const char *name, enum whose whose)
{
	size_t len = strlen(name);
	if (!len || n->names.n >= NAMES_MAX)
		return;
	uint32_t id = strtab_add(&n->names, name, len);
	if (id == n->whose.n)
		vec_push(&n->whose, (uint8_t)whose);
}

size_t whose_names_count(const struct whose_names *n)
{
	return n->names.n;
}

const char *whose_names_get(const struct whose_names *n, size_t i, enum whose *ret)
{
	*ret = (enum whose)n->whose.v[i];
	return strtab_get(&n->names, (uint32_t)i);
}

static bool is_below(const char *space, const char *const *roots, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(roots[i]);
		if (!strncmp(space, roots[i], len) && (!space[len] || strchr(".+`", space[len])))
			return true;
	}
	return false;
}

/* What many programs carry along and few have written. */
static bool is_known_library(const char *space)
{
	static const char *const roots[] = {
		"Akka",
		"Amazon",
		"AngleSharp",
		"Autofac",
		"AutoMapper",
		"Azure",
		"Castle",
		"Confluent",
		"CsvHelper",
		"Dapper",
		"Elastic",
		"Elasticsearch",
		"FluentValidation",
		"Google.Apis",
		"Google.Cloud",
		"Google.Protobuf",
		"GraphQL",
		"Grpc",
		"Hangfire",
		"HotChocolate",
		"log4net",
		"MassTransit",
		"MediatR",
		"MessagePack",
		"MongoDB",
		"MySql",
		"MySqlConnector",
		"Newtonsoft",
		"NHibernate",
		"NLog",
		"NodaTime",
		"Npgsql",
		"NServiceBus",
		"OpenTelemetry",
		"Oracle.ManagedDataAccess",
		"Orleans",
		"Polly",
		"ProtoBuf",
		"Quartz",
		"RabbitMQ",
		"Refit",
		"RestSharp",
		"Serilog",
		"ServiceStack",
		"SixLabors",
		"StackExchange",
		"Swashbuckle",
	};
	return is_below(space, roots, ARRAY_SIZE(roots));
}

static bool is_platform(const char *space)
{
	static const char *const roots[] = {
		"System", "Microsoft", "Interop", "Internal", "Windows", "MS", "<StartupCode$FSharp-Core>"
	};
	return is_below(space, roots, ARRAY_SIZE(roots));
}

static enum whose by_list(const char *space)
{
	if (is_platform(space))
		return WHOSE_PLATFORM;
	return is_known_library(space) ? WHOSE_LIBRARY : WHOSE_YOURS;
}

/* The type itself, then the namespaces around it. */
static bool find(const struct whose_names *n, const char *space, enum whose *ret)
{
	for (size_t len = strcspn(space, "+`[<(,"); len;) {
		uint32_t id = strtab_find(&n->names, space, len);
		if (id != STRTAB_NONE) {
			*ret = (enum whose)n->whose.v[id];
			return true;
		}
		while (len && space[--len] != '.')
			;
	}
	return false;
}

enum whose whose_code(const struct whose_names *names, const char *space)
{
	enum whose whose;
	const char *in = str_starts(space, "lambda ") ? strstr(space, " in ") : NULL;
	space = in ? in + 4 : space;
	return names && find(names, space, &whose) ? whose : by_list(space);
}

bool method_is_framework(const struct whose_names *names, const char *space)
{
	return whose_code(names, space) != WHOSE_YOURS;
}

bool method_is_library(const struct whose_names *names, const char *space)
{
	enum whose whose = whose_code(names, space);
	return whose == WHOSE_PACKAGE || whose == WHOSE_LIBRARY;
}
