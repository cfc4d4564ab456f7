#pragma once
/* The folder that holds everything drdotnet keeps: sessions, their index, fetched symbols. */

#include "base/err.h"

/* $DRDOTNET_HOME, /var/lib/drdotnet for root, $XDG_STATE_HOME/drdotnet or ~/.local/state/drdotnet. The caller frees. */
struct err *home_path(char **ret) MUST_USE;
