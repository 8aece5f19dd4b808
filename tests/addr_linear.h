/* SPDX-License-Identifier: MIT */
/*
 * Is a short history of calls on one address space linearizable? The sequential model is an array of pages; the search
 * is that of Wing and Gong (Testing and verifying concurrent objects, 1993), with Lowe's memo of what was tried.
 *
 * Every call has two ticks of a global clock, drawn before it and after it. A call that moves pages has two instants,
 * as the manual of ivaddr.h says: its targets come, then its sources go; only look-ups may lie in between.
 */
#ifndef TESTS_ADDR_LINEAR_H
#define TESTS_ADDR_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDR_PAGES      24u /* [0, ADDR_HEAP) is for mappings, the rest is above the break */
#define ADDR_HEAP       16u
#define ADDR_CALLS_MOST 60u

struct addr_page {
    bool mapped;
    uint8_t rights; /* PROT_* */
    uint16_t object;
    uint32_t offset; /* in pages; 0 without an object */
};

struct addr_state {
    struct addr_page page[ADDR_PAGES];
    uint32_t brk; /* a page number */
};

enum addr_kind { ADDR_MAP, ADDR_MAP_FREE, ADDR_UNMAP, ADDR_PROTECT, ADDR_MOVE, ADDR_GROW, ADDR_BRK, ADDR_QUERY };

struct addr_call {
    enum addr_kind kind;
    uint32_t at, count; /* pages; brk: `at` is what was asked for */
    uint32_t to;        /* move: target; grow: pages wanted in all */
    uint8_t rights;
    uint16_t object;
    uint32_t offset;
    int error;             /* 0 or a negative errno value */
    uint32_t brk;          /* brk: the answer */
    struct addr_page seen; /* query: the answer */
    uint64_t before, after;
};

/* The part of `call` (0, or 1 of a move) in the model. False: the recorded answer is impossible in this state. */
bool addr_apply(struct addr_state *state, const struct addr_call *call, unsigned part);
unsigned addr_parts(const struct addr_call *call);

bool addr_same_page(const struct addr_page *a, const struct addr_page *b);

/* Some order that fits the ticks gives all answers and ends in `last` (the break aside, if `last` says UINT32_MAX).
 * *looked: states that were looked at. */
bool addr_linearizable(const struct addr_call *calls, size_t count, const struct addr_state *first,
                       const struct addr_state *last, uint64_t *looked);

/* For messages: `out` has at least 128 bytes. */
void addr_call_text(const struct addr_call *call, char *out, size_t room);

#endif
