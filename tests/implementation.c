/* SPDX-License-Identifier: MIT */
/* The bodies of the headers, compiled once for the whole test binary. */
#define IVADDR_IMPLEMENTATION
#include "ivaddr.h"
