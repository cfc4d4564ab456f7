/* Alone, because term.h makes macros of everyday words such as "columns". */

#include "cli/screen.h"
#include <ncurses.h>
#include <term.h>
#include <unistd.h>

bool screen_terminal_known(void)
{
	int answer;
	if (setupterm(NULL, STDOUT_FILENO, &answer) != OK)
		return false;
	del_curterm(cur_term);
	return true;
}
