/* SPDX-License-Identifier: MIT */
/*
 * A small address space, page by page: the sequential model of ivaddr.h in the lab. Sixteen pages, of which the first
 * is below the lowest address; areas are the longest runs of pages that go together.
 */
#ifndef LAB_SPACE_H
#define LAB_SPACE_H

#include <stdbool.h>
#include <stdint.h>

enum { SPACE_PAGES = 16, SPACE_LO = 1, SPACE_CALLS = 6, SPACE_NO_LIMIT = 255 };

/* A page: 0, or these. An object's pages have offsets that go on within an area. */
enum {
    IS_MAPPED = 1,
    CAN_READ = 2, /* the rights of ivaddr.h, shifted by one */
    CAN_WRITE = 4,
    CAN_EXEC = 8,
    IS_SHARED = 0x10,
    IS_STACK = 0x20, /* grows down */
    IS_LOCKED = 0x40,
    NOT_FORKED = 0x80,
    OBJECT = 0x100,  /* times 1..7 */
    OBJECTS = 0x700, /* all of it */
    OFFSET = 0x800,  /* times 0..31 */
    OFFSETS = 0xf800 /* all of it */
};

#define SPACE_KINDS(K)                                                                                                 \
    K(NONE)                                                                                                            \
    K(MAP)                                                                                                             \
    K(FREE) K(HINT) K(ANY) K(UNMAP) K(PROTECT) K(RESIZE) K(MOVE) K(KEEP) K(BRK) K(DONTFORK) K(LOCK) K(UNLOCK)          \
        K(LOCKALL) K(TOUCH) K(FORK) K(LIMIT) K(QUERY) K(NEXT) K(SNAP) K(TELL) K(HEAR) K(WHOLE) K(GATE) K(TRYGATE)      \
            K(BEHIND) K(UNIT) K(CHARGE) K(UNCHARGE) K(BOUND) K(READ) K(STATS) K(RECLAIM)
#define SPACE_KIND_(k) S_##k,
enum space_kind { SPACE_KINDS(SPACE_KIND_) };

struct space_op {
    enum space_kind kind;
    uint8_t a, b, c, d;
    uint16_t page;
};

struct space_state {
    uint16_t page[SPACE_PAGES];
    uint8_t brk, base, future, stack, guard; /* pages, and flags that new areas get; base: where the heap begins */
    uint8_t limit[3];                        /* by enum iva_limit */
    uint8_t used, bound;                     /* the counter alone */
};

/* What a call answered. */
struct space_answer {
    int result;
    unsigned place;             /* a page; BRK: the end of the heap; READ: the number */
    unsigned start, end;        /* QUERY, NEXT, TOUCH: the area, */
    uint16_t found;             /* and its first page; 0: none */
    uint16_t page[SPACE_PAGES]; /* FORK: the child; SNAP */
};

/* What may be said of a call from outside the state. */
struct space_context {
    const struct space_state *const *since; /* the states since the call may have begun, this one the last */
    unsigned states;
    unsigned slack;        /* what others may have charged: 0: nobody */
    const uint8_t *bounds; /* BOUND calls of others meanwhile: other limits that a charge may have seen */
    unsigned bound_count;
    bool half;    /* the first part was applied before */
    bool nothing; /* memory was refused to it, and nothing has changed */
};

enum space_verdict { SPACE_NO, SPACE_HALF, SPACE_WHOLE };

/* May the call, or its next part, come now with this answer? Then *state is the state after it. */
enum space_verdict space_explains(const struct space_op *op, const struct space_answer *answer,
                                  const struct space_context *context, struct space_state *state);

/* What a call may change or hold, [*lo, *hi): of one range or two. */
void space_reach(const struct space_op *op, const struct space_answer *answer, unsigned lo[2], unsigned hi[2]);

unsigned space_area_start(const struct space_state *state, unsigned at);
unsigned space_area_end(const struct space_state *state, unsigned at);
void space_text(const struct space_op *op, char *text, unsigned long size);

#endif
