/* SPDX-License-Identifier: MIT */
/* What bench/space.c asks of an address space. */
#ifndef BENCH_SPACE_H
#define BENCH_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#define SPACE_LO   UINT64_C(0x10000)
#define SPACE_HI   UINT64_C(0x7ffffffff000)
#define SPACE_BASE UINT64_C(0x700000000000) /* placement: the highest gap below */
#define SPACE_PAGE UINT64_C(4096)
enum { SPACE_READ = 1, SPACE_WRITE = 2 };

/* Calls answer 0 or a negative errno value. Limits: 200,000 areas, 2^46 bytes. Equal neighbours are joined. */
struct space_peer {
    const char *name;
    void *(*make)(void);
    void (*end)(void *space);
    int (*map)(void *space, uint64_t bytes, unsigned rights, uint64_t *start);   /* the place is the space's choice */
    int (*map_at)(void *space, uint64_t start, uint64_t bytes, unsigned rights); /* over whatever is there */
    int (*unmap)(void *space, uint64_t start, uint64_t bytes);
    int (*protect)(void *space, uint64_t start, uint64_t bytes, unsigned rights);
    void (*measure)(void *space, uint64_t *areas, uint64_t *bytes); /* as accounted */
    void (*thread_begin)(void);
    void (*thread_end)(void);
};
extern const struct space_peer space_ivaddr_memb, space_ivaddr_builtin, space_maple;

#endif
