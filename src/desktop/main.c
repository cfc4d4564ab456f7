/* drdotnet-desktop: the web UI in a window of its own, on a private server that lives and dies with it, or on the one
 * that --server names.
 *
 * The private server listens on a free loopback port with a token made for this run; nobody else on the machine can use
 * it. The token of another server of our own on this machine comes from `drdotnet serve --link`. Knows nothing of
 * drdotnet but `drdotnet serve`. */

#include "base/base.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <webkit2/webkit2.h>

#define START_MS 15000
#define STOP_MS 12000
#define URL_MAX 300

struct desktop {
	pid_t server; /* 0 = none of ours */
	char url[URL_MAX];
	char token[200];  /* "" = none is known: the page asks for it */
	const char *open; /* address to begin with */
	bool entered;	  /* the token has been shown */
};

/* ---- the private server ---- */

static struct err *make_token(char *ret)
{
	uint8_t raw[24];
	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return err_errno(errno, "get random bytes");
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(ret + 2 * i, 3, "%02x", raw[i]);
	return NULL;
}

/* Beside us, else wherever programs are found. */
static char *find_program(void)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash = n > 0 ? (self[n] = '\0', strrchr(self, '/')) : NULL;
	if (slash) {
		*slash = '\0';
		char *beside = mem_printf("%s/drdotnet", self);
		if (access(beside, X_OK) == 0)
			return beside;
		mem_free(beside);
	}
	return mem_strdup("drdotnet");
}

static struct err *read_line(int fd, char *ret, size_t size, struct deadline deadline)
{
	size_t n = 0;
	while (n + 1 < size) {
		TRY(fd_wait(fd, POLLIN, deadline));
		if (read(fd, ret + n, 1) != 1)
			return err_new(ERR_IO, "the server ended at once");
		if (ret[n] == '\n')
			break;
		n++;
	}
	ret[n] = '\0';
	return NULL;
}

/* `drdotnet serve --listen LISTEN MORE`, which ends with us; *ret_from is what it prints. */
static struct err *spawn(const char *program, const char *listen, const char *more, pid_t *ret, int *ret_from)
{
	int out[2];
	if (pipe2(out, O_CLOEXEC) < 0)
		return err_errno(errno, "make a pipe");
	pid_t starter = getpid(), pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != starter || dup2(out[1], STDOUT_FILENO) < 0)
			_exit(1);
		execlp(program, "drdotnet", "serve", "--listen", listen, more, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	if (pid < 0) {
		close(out[0]);
		return err_errno(errno, "start '%s serve'", program);
	}
	*ret = pid;
	*ret_from = out[0];
	return NULL;
}

static struct err *start_server(struct desktop *d)
{
	CLEANUP(mem_freep) char *program = find_program();
	CLOSE_FD int from = -1;
	TRY(make_token(d->token));
	/* Through the environment: words of a command line are seen by everybody. */
	setenv("DRDOTNET_TOKEN", d->token, 1);
	struct err *err = spawn(program, "127.0.0.1:0", NULL, &d->server, &from);
	unsetenv("DRDOTNET_TOKEN");
	TRY(err);
	TRY_WRAP(read_line(from, d->url, sizeof(d->url), deadline_in_ms(START_MS)), "'%s serve' does not start",
		 program);
	d->open = d->url;
	return str_starts(d->url, "http://") ? NULL : err_new(ERR_IO, "'%s serve' does not say where it is", program);
}

/* Of a server of ours on this machine. Another one's is not told, and its page asks for it. */
static void ask_token(struct desktop *d)
{
	CLEANUP(mem_freep) char *program = find_program();
	CLOSE_FD int from = -1;
	char link[URL_MAX] = "";
	pid_t pid;
	const char *host = strstr(d->url, "://") + 3, *colon = strrchr(host, ':');
	bool local = str_starts(host, "127.") || str_starts(host, "localhost:") || str_starts(host, "[::1]:");
	if (!local || !colon || strstr(d->open, "token="))
		return;
	struct err *err = spawn(program, host, "--link", &pid, &from);
	if (!err) {
		err = read_line(from, link, sizeof(link), deadline_in_ms(START_MS));
		kill(pid, SIGTERM);
		waitpid(pid, NULL, 0);
	}
	const char *token = strstr(link, "token=");
	if (!err && token)
		str_copy(d->token, sizeof(d->token), token + strlen("token="));
	err_free(err);
}

static void stop_server(struct desktop *d)
{
	if (!d->server)
		return;
	kill(d->server, SIGTERM);
	struct deadline end = deadline_in_ms(STOP_MS);
	while (waitpid(d->server, NULL, WNOHANG) == 0) {
		if (deadline_passed(end)) {
			kill(d->server, SIGKILL);
			waitpid(d->server, NULL, 0);
			break;
		}
		poll(NULL, 0, 20); /* its end is told by SIGCHLD, which belongs to the toolkit */
	}
	d->server = 0;
}

/* ---- the window ---- */

/* ---- files ---- */

/* What is meant to be kept is not shown in the place of the page. */
static gboolean on_response(WebKitPolicyDecision *decision)
{
	WebKitResponsePolicyDecision *response = WEBKIT_RESPONSE_POLICY_DECISION(decision);
	SoupMessageHeaders *headers =
		webkit_uri_response_get_http_headers(webkit_response_policy_decision_get_response(response));
	const char *how = headers ? soup_message_headers_get_one(headers, "Content-Disposition") : NULL;
	if (!str_starts(how ? how : "", "attachment") &&
	    webkit_response_policy_decision_is_mime_type_supported(response))
		return FALSE;
	webkit_policy_decision_download(decision);
	return TRUE;
}

/* Where to, says the user. */
static gboolean on_destination(WebKitDownload *download, const char *name, gpointer user)
{
	GtkFileChooserNative *chooser =
		gtk_file_chooser_native_new("Save as", GTK_WINDOW(user), GTK_FILE_CHOOSER_ACTION_SAVE, NULL, NULL);
	gtk_file_chooser_set_current_name(GTK_FILE_CHOOSER(chooser), str_empty(name) ? "drdotnet" : name);
	gtk_file_chooser_set_do_overwrite_confirmation(GTK_FILE_CHOOSER(chooser), TRUE);
	char *uri = NULL;
	if (gtk_native_dialog_run(GTK_NATIVE_DIALOG(chooser)) == GTK_RESPONSE_ACCEPT)
		uri = gtk_file_chooser_get_uri(GTK_FILE_CHOOSER(chooser));
	if (uri) {
		webkit_download_set_allow_overwrite(download, TRUE);
		webkit_download_set_destination(download, uri);
	} else {
		webkit_download_cancel(download);
	}
	g_free(uri);
	g_object_unref(chooser);
	return TRUE;
}

static void on_download(WebKitWebContext *context, WebKitDownload *download, gpointer user)
{
	(void)context;
	g_signal_connect(download, "decide-destination", G_CALLBACK(on_destination), user);
}

/* Only our own server; other addresses open in the browser of the desktop. */
static gboolean on_decide(WebKitWebView *view, WebKitPolicyDecision *decision, WebKitPolicyDecisionType type,
			  gpointer user)
{
	(void)view;
	const struct desktop *d = user;
	if (type == WEBKIT_POLICY_DECISION_TYPE_RESPONSE)
		return on_response(decision);
	WebKitNavigationAction *action =
		webkit_navigation_policy_decision_get_navigation_action(WEBKIT_NAVIGATION_POLICY_DECISION(decision));
	const char *uri = webkit_uri_request_get_uri(webkit_navigation_action_get_request(action));
	size_t len = strlen(d->url);
	bool own = !strncmp(uri, d->url, len) && (uri[len] == '/' || uri[len] == '?' || !uri[len]);
	if (own || str_starts(uri, "about:"))
		return FALSE;
	gtk_show_uri_on_window(NULL, uri, GDK_CURRENT_TIME, NULL);
	webkit_policy_decision_ignore(decision);
	return TRUE;
}

static void on_title(WebKitWebView *view, GParamSpec *spec, gpointer user)
{
	(void)spec;
	const char *title = webkit_web_view_get_title(view);
	gtk_window_set_title(GTK_WINDOW(user), str_empty(title) ? "drdotnet" : title);
}

/* The token went into a cookie and out of the address: now to where one wanted. */
static void on_load(WebKitWebView *view, WebKitLoadEvent event, gpointer user)
{
	struct desktop *d = user;
	if (event != WEBKIT_LOAD_COMMITTED || d->entered)
		return;
	d->entered = true;
	if (!str_eq(d->open, d->url))
		webkit_web_view_load_uri(view, d->open);
}

static void show(struct desktop *d)
{
	/* Under LANG=C.UTF-8 WebKit calls its language "C", which pages that format numbers do not survive. */
	static const char *const languages[] = { "en-US", NULL };
	WebKitWebContext *context = webkit_web_context_new_ephemeral();
	webkit_web_context_set_preferred_languages(context, languages);
	GtkWidget *window = gtk_window_new(GTK_WINDOW_TOPLEVEL);
	GtkWidget *view = webkit_web_view_new_with_context(context);
	gtk_window_set_default_size(GTK_WINDOW(window), 1280, 860);
	gtk_window_set_title(GTK_WINDOW(window), "drdotnet");
	gtk_window_set_icon_name(GTK_WINDOW(window), "drdotnet");
	gtk_container_add(GTK_CONTAINER(window), view);
	g_signal_connect(window, "destroy", G_CALLBACK(gtk_main_quit), NULL);
	g_signal_connect(view, "decide-policy", G_CALLBACK(on_decide), d);
	g_signal_connect(view, "load-changed", G_CALLBACK(on_load), d);
	g_signal_connect(view, "notify::title", G_CALLBACK(on_title), window);
	g_signal_connect(context, "download-started", G_CALLBACK(on_download), window);
	CLEANUP(mem_freep)
	char *first = d->token[0] ? mem_printf("%s/?token=%s", d->url, d->token) : mem_strdup(d->open);
	d->entered = !d->token[0];
	webkit_web_view_load_uri(WEBKIT_WEB_VIEW(view), first);
	gtk_widget_show_all(window);
	gtk_main();
	g_object_unref(context);
}

static gboolean on_signal(gpointer user)
{
	(void)user;
	gtk_main_quit();
	return G_SOURCE_REMOVE;
}

static int fail(struct err *err)
{
	fprintf(stderr, "drdotnet-desktop: %s\n", err_text(err));
	err_free(err);
	return 1;
}

/* "http://host:1/x?token=y" is opened as it is; what belongs to it is what begins like its server. */
static struct err *use_server(struct desktop *d, const char *url)
{
	const char *rest = strstr(url, "://");
	if (!rest || (!str_starts(url, "http://") && !str_starts(url, "https://")))
		return err_new(ERR_USAGE, "--server takes an address such as http://host:9292, not '%s'", url);
	size_t len = (size_t)(rest + 3 - url) + strcspn(rest + 3, "/?#");
	if (len >= sizeof(d->url))
		return err_new(ERR_USAGE, "the address is too long");
	memcpy(d->url, url, len);
	d->open = url;
	ask_token(d);
	return NULL;
}

int main(int argc, char **argv)
{
	struct desktop d = { 0 };
	const char *server = NULL;
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--server") && i + 1 < argc) {
			server = argv[++i];
		} else {
			bool help = str_eq(argv[i], "--help");
			fputs("drdotnet-desktop [--server URL]\n  The web UI in a window: on a private server of its "
			      "own, or on the "
			      "one at URL.\n",
			      help ? stdout : stderr);
			return help ? 0 : 2;
		}
	}
	if (!gtk_init_check(&argc, &argv))
		return fail(err_new(ERR_IO, "there is no display to show a window on (DISPLAY, WAYLAND_DISPLAY)"));
	g_unix_signal_add(SIGTERM, on_signal, NULL);
	g_unix_signal_add(SIGINT, on_signal, NULL);
	struct err *err = server ? use_server(&d, server) : start_server(&d);
	if (err) {
		stop_server(&d);
		return fail(err);
	}
	show(&d);
	stop_server(&d);
	return 0;
}
