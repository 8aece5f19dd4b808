/* SPDX-License-Identifier: MIT */
/* The host's hooks for the tests (IVSKIP_CONFIG): its allocator can be told to refuse, and counts; its
 * clock can be told to stand still, as a coarse one does between two ticks. */
#ifndef TESTS_CONFIG_H
#define TESTS_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
void *test_host_malloc(size_t bytes);
void test_host_free(void *memory);
uint64_t test_host_now(void);
#ifdef __cplusplus
}
#endif

#define IVSKIP_HOST_MALLOC(bytes) test_host_malloc(bytes)
#define IVSKIP_HOST_FREE(memory)  test_host_free(memory)
#define IVSKIP_HOST_NOW()         test_host_now()
#define IVS_ENTRIES_MIN_          2 /* small maps have entry tables too */

#endif
