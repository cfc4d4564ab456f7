#include "profilers/memory_steps.h"
#include "base/fmt.h"

#define MUCH_BYTES ((uint64_t)16 << 20)
#define MUCH_SHARE 0.5 /* of the least */

/* Pages come and go: less is no growth. */
#define GROWTH_BYTES ((int64_t)1 << 20)
#define GROWTH_SHARE 0.02 /* of what is in RAM */

static uint64_t least(const struct memory_steps *s)
{
	uint64_t bytes = UINT64_MAX;
	for (uint32_t i = 0; i < s->n; i++)
		bytes = MIN(bytes, s->bytes[i]);
	return bytes;
}

static uint64_t most(const struct memory_steps *s)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < s->n; i++)
		bytes = MAX(bytes, s->bytes[i]);
	return bytes;
}

uint64_t memory_steps_range(const struct memory_steps *s)
{
	return s->n ? most(s) - least(s) : 0;
}

bool memory_steps_much(const struct memory_steps *s)
{
	uint64_t range = memory_steps_range(s);
	return range >= MUCH_BYTES && (double)range >= MUCH_SHARE * (double)least(s);
}

int64_t memory_steps_grow(const struct memory_steps *s, uint64_t rss)
{
	if (s->n < 3)
		return 0;
	for (uint32_t i = 1; i < s->n; i++)
		if (s->bytes[i] <= s->bytes[i - 1])
			return 0;
	int64_t grown = (int64_t)(s->bytes[s->n - 1] - s->bytes[0]);
	int64_t step = (int64_t)(s->bytes[s->n - 1] - s->bytes[s->n - 2]);
	bool still = (double)step >= STILL_GROWS * (double)grown / (s->n - 1);
	return still && grown >= GROWTH_BYTES && (double)grown >= GROWTH_SHARE * (double)rss ? grown : 0;
}

bool memory_steps_fall(const struct memory_steps *s)
{
	uint64_t range = memory_steps_range(s);
	for (uint32_t i = 1; i < s->n; i++)
		if (s->bytes[i] < s->bytes[i - 1] && (s->bytes[i - 1] - s->bytes[i]) * 4 >= range)
			return true;
	return false;
}

void memory_steps_say(const struct memory_steps *s, struct rich *v)
{
	if (memory_steps_fall(s)) {
		rich_text(v, "No leak was seen: what is alive comes and goes, between ");
		rich_strong(v, "%s and %s", fmt_bytes(least(s)).s, fmt_bytes(most(s)).s);
		rich_text(v, " (");
	} else {
		rich_text(v, "What is alive grew ");
		rich_strong(v, "from %s to %s", fmt_bytes(s->bytes[0]).s, fmt_bytes(s->bytes[s->n - 1]).s);
		rich_text(v, ", but not at every look (");
	}
	for (uint32_t i = 0; i < s->n; i++)
		rich_text(v, "%s%s", i ? " → " : "", fmt_bytes(s->bytes[i]).s);
	rich_text(v, ").");
}
