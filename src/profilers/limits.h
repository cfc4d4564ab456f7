#pragma once
/* What the collection and the report of limits share. */

#include "profilers/issues.h"
#include "vitals/limits.h"

/* Variables that say what the runtime makes of limits; kept with the looks. */
#define LIMITS_SETTINGS_MAX 10
#define LIMITS_PROCESSOR_COUNT "DOTNET_PROCESSOR_COUNT"
struct limits_setting {
	char name[40], value[72]; /* not trusted */
};

struct limits {
	struct exam *exam;
	struct limits_looks looks;
	struct limits_setting settings[LIMITS_SETTINGS_MAX];
	size_t n_settings;
};

/* Something that ends, and how it went over the window. */
struct limit {
	const char *what;  /* "memory of its control group" */
	const char *where; /* a name out of the target, or NULL */
	bool bytes, of_machine;
	double used, most;
	double slope;	    /* a second; NAN = no steady growth was seen */
	double own_share;   /* of what is used, the part of this process; NAN = not known */
	const char *advice; /* finding whose advice fits when it is nearly reached */
};
VEC_TYPE(limits_list, struct limit);

/* All limits that are known, the nearest to its end first. Names belong to the looks. */
void limits_list_of(const struct limits *l, struct limits_list *ret);
double limit_ratio(const struct limit *l);
/* Seconds until it is reached at this slope; INFINITY when it does not grow. */
double limit_left(const struct limit *l);
/* The slope of points in the order of time, a second; NAN unless it is a steady growth: it takes a third look, time,
 * and growth in the first half as well as in the second. */
double limits_trend(const uint64_t *at_ns, const double *values, size_t n);

/* One when it is nearly used up, or will be soon. */
void issue_of_limit(struct issues *issues, const struct limit *l);

struct err *limits_report(struct exam *exam, struct report *report) MUST_USE;
