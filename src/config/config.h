#pragma once
/* The configuration file (YAML). What it says is put into variables of the environment that are not set, so that all
 * who read a setting, child processes too, need to know one place only. */

#include "base/buf.h"
#include "config/settings.h"

#define CONFIG_PATH "/etc/drdotnet/config.yaml"
#define CONFIG_BYTES_MAX ((size_t)64 << 10)

struct config;
/* `path`, or $DRDOTNET_CONFIG, or CONFIG_PATH, which need not exist. ERR_USAGE names the file and the line: a key that
 * is not known, or twice, or has a value that it cannot have. ERR_DENIED: another user than root and ours could have
 * written it, or others can read the token in it. */
struct err *config_read(const char *path, struct config **ret) MUST_USE;
/* The same of a text; `name` stands for the file in errors. */
struct err *config_parse(const char *text, size_t len, const char *name, struct config **ret) MUST_USE;
void config_free(struct config *c);
DEFINE_CLEANUP(config_free, struct config *)

/* The file, or NULL when there is none. */
const char *config_file(const struct config *c);
/* Sets the variables that are not set. */
void config_apply(const struct config *c);

enum config_origin { CONFIG_OTHERWISE, CONFIG_FILE, CONFIG_VARIABLE };
/* Where a setting has its value from, before config_apply, and the value, or NULL. */
enum config_origin config_origin(const struct config *c, enum setting_id id, const char **ret_value, size_t *ret_line);
