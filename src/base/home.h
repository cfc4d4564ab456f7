#pragma once
/* Where all that drdotnet keeps has its place: sessions, their index, symbols that were fetched. */

#include "base/err.h"

/* $DRDOTNET_HOME, /var/lib/drdotnet for root, $XDG_STATE_HOME/drdotnet or ~/.local/state/drdotnet. The caller frees. */
struct err *home_path(char **ret) MUST_USE;
