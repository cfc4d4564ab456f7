#include "cli/commands.h"
#include "base/str.h"
#include "cli/args.h"
#include "profilers/registry.h"

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (str_eq(commands[i]->name, name))
			return commands[i];
	}
	return NULL;
}

struct err *unknown_word(const char *word)
{
	size_t n;
	struct guess guess = { .word = word, .least = SIZE_MAX };
	const struct profiler *const *all = profiler_all(&n);
	for (size_t i = 0; i < n; i++)
		guess_name(&guess, all[i]->id);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!commands[i]->hidden)
			guess_name(&guess, commands[i]->name);
	}
	if (str_eq(word, "version"))
		guess.best = "--version";
	if (guess.best)
		return err_new(ERR_USAGE,
			       "'%s' is neither a command nor a profiler; did you mean '%s'? See 'drdotnet help'", word,
			       guess.best);
	return err_new(ERR_USAGE, "'%s' is neither a command nor a profiler; see 'drdotnet help'", word);
}
