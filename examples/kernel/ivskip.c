/* SPDX-License-Identifier: MIT */
/* The bodies of the header, compiled once for the kernel. */
#define IVSKIP_IMPLEMENTATION
#include "ivskip.h"
