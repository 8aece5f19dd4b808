/* SPDX-License-Identifier: MIT */
/* The bodies of the header, compiled once for the whole test binary. */
#define IVSKIP_IMPLEMENTATION
#include "ivskip.h"
