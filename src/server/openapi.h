#pragma once
/* The tables of the server as documents, for programs and for people. */

#include "base/buf.h"

void openapi_document(struct buf *out); /* JSON */
void openapi_page(struct buf *out);	/* Markdown */
