/* SPDX-License-Identifier: MIT */
/* The library itself, called through its interface as the maple tree is. */
#define IVSKIP_IMPLEMENTATION
#include "ivskip.h"
