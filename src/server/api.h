#pragma once
/* The handlers behind the routes. */

#include "server/child.h"
#include "server/internal.h"

struct err *api_processes(struct request *r) MUST_USE;
struct err *api_process(struct request *r) MUST_USE;
struct err *api_counters(struct request *r) MUST_USE;
struct err *api_meters(struct request *r) MUST_USE;
struct err *api_vitals(struct request *r) MUST_USE;
struct err *api_stacks(struct request *r) MUST_USE;
struct err *api_trace(struct request *r) MUST_USE;
struct err *api_dump(struct request *r) MUST_USE;
struct err *api_cores(struct request *r) MUST_USE;
struct err *api_core_take(struct request *r) MUST_USE;
struct err *api_core(struct request *r) MUST_USE;
struct err *api_core_delete(struct request *r) MUST_USE;
struct err *api_pprof_profile(struct request *r) MUST_USE;
struct err *api_pprof_heap(struct request *r) MUST_USE;
struct err *api_profilers(struct request *r) MUST_USE;
struct err *api_sessions_list(struct request *r) MUST_USE;
struct err *api_session_start(struct request *r) MUST_USE;
struct err *api_session(struct request *r) MUST_USE;
struct err *api_session_cancel(struct request *r) MUST_USE;
struct err *api_session_delete(struct request *r) MUST_USE;
struct err *api_session_download(struct request *r) MUST_USE;
struct err *api_session_files(struct request *r) MUST_USE;
struct err *api_session_file(struct request *r) MUST_USE;
struct err *api_session_report(struct request *r) MUST_USE;
struct err *api_session_compare(struct request *r) MUST_USE;
struct err *api_session_log(struct request *r) MUST_USE;
struct err *api_session_events(struct request *r) MUST_USE;
struct err *api_events(struct request *r) MUST_USE;
struct err *api_server(struct request *r) MUST_USE;
struct err *api_logs(struct request *r) MUST_USE;
struct err *api_openapi(struct request *r) MUST_USE;
struct err *api_health(struct request *r) MUST_USE;
struct err *api_metrics(struct request *r) MUST_USE;

struct err *api_traces_list(struct request *r) MUST_USE;
struct err *api_trace_start(struct request *r) MUST_USE;
struct err *api_trace_stop(struct request *r) MUST_USE;
struct err *api_trace_delete(struct request *r) MUST_USE;

struct err *api_alerts(struct request *r) MUST_USE;
struct err *api_command(struct request *r) MUST_USE;
struct err *api_command_interrupt(struct request *r) MUST_USE;
struct err *api_login(struct request *r) MUST_USE;
struct err *api_logout(struct request *r) MUST_USE;
struct err *api_link(struct request *r) MUST_USE;
struct err *api_share_open(struct request *r) MUST_USE;
struct err *api_share(struct request *r) MUST_USE;
struct err *api_shares(struct request *r) MUST_USE;
struct err *api_unshare(struct request *r) MUST_USE;

/* Shared by the handlers, and called by the tests. */
struct err *api_guid(const char *text, char ret[STORE_GUID_LEN + 1]) MUST_USE;
struct err *api_row(struct request *r, const char *guid_text, struct store_row *ret) MUST_USE;
struct err *api_order_read(const json_t *body, struct scheduler_order *o, int *ret_pid) MUST_USE;
struct err *api_find_patient(const char *id, struct patient *ret) MUST_USE;
/* Is this a possible name of a kept core file? */
bool api_core_name(const char *name);
/* ERR_NOT_FOUND when there is none. ret_path may be NULL. */
struct err *api_core_open(const struct request *r, const char *name, char **ret_path, int *ret_fd) MUST_USE;
/* Starts a command; the last thing a handler does. The handler is called again when order->ready says so. */
struct err *api_start_child(struct request *r, struct child_order *order) MUST_USE;
/* A new folder for a command. */
struct err *api_make_folder(struct request *r, char **ret) MUST_USE;
/* What an ended command wrote into its folder, or why it failed. */
struct child;
struct err *api_answer_file(struct request *r, struct child *child, const char *name, const char *type) MUST_USE;
