/* SPDX-License-Identifier: MIT */
/* libFuzzer target: schedules (and stale reads, and refused memory) of the lab's programs from fuzz bytes. */
#include "run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (programs_bytes(data, size)) __builtin_trap();
    return 0;
}
