#include "cli/commands.h"
#include "base/str.h"
#include "profilers/registry.h"
#include <string.h>

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (str_eq(commands[i]->name, name))
			return commands[i];
	}
	return NULL;
}

/* Keeps the name that is nearest to the word; one that it begins, or a slip of the fingers away. */
static void nearer(const char *word, const char *name, size_t *least, const char **best)
{
	bool begins = strlen(word) >= 3 && str_starts(name, word);
	size_t distance = begins ? 1 : str_distance(word, name);
	if (distance < *least && (begins || distance * 3 <= strlen(word))) {
		*least = distance;
		*best = name;
	}
}

struct err *unknown_word(const char *word)
{
	size_t n, least = SIZE_MAX;
	const char *best = NULL;
	const struct profiler *const *all = profiler_all(&n);
	for (size_t i = 0; i < n; i++)
		nearer(word, all[i]->id, &least, &best);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!commands[i]->hidden)
			nearer(word, commands[i]->name, &least, &best);
	}
	if (str_eq(word, "version"))
		best = "--version";
	if (best)
		return err_new(ERR_USAGE,
			       "'%s' is neither a command nor a profiler; did you mean '%s'? See 'drdotnet help'", word,
			       best);
	return err_new(ERR_USAGE, "'%s' is neither a command nor a profiler; see 'drdotnet help'", word);
}
