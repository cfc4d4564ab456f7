/* Preloaded into a patient: a handler for every signal that our library would take. Each signal it hears is one byte in
 * the file $SIGNALS_HEARD. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static int heard = -1;

static void on_signal(int number)
{
	char byte = (char)number;
	(void)!write(heard, &byte, 1);
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("SIGNALS_HEARD");
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	heard = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
	for (int number = 50; heard >= 0 && number <= 62; number++)
		sigaction(number, &action, NULL);
}
