/* SPDX-License-Identifier: MIT */
/*
 * ivaddr.h - an address space on an interval skiplist: map, unmap, protect, remap, advise, brk, stacks that grow,
 * locked memory, limits and fork with Linux's results, errors and partial effects; disjoint operations run in parallel.
 *
 *     #define IVADDR_IMPLEMENTATION            // in exactly one .c file; brings the bodies of ivskip.h too
 *     #include "ivaddr.h"
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         struct iva_space space;
 *         struct iva_space_config config = iva_space_config_linux();
 *         struct iva_map_request request = {0};
 *         struct iva_view view;
 *         uint64_t address;
 *         if (iva_space_init(&space, &config)) return 1;
 *         request.length = 0x5000;
 *         request.rights = IVA_READ | IVA_WRITE;
 *         request.flags = IVA_MAP_PRIVATE | IVA_MAP_ANONYMOUS;
 *         if (iva_space_map(&space, &request, &address)) return 1;                    // the kernel's choice of place
 *         if (iva_space_protect(&space, address + 0x1000, 0x1000, IVA_READ)) return 1; // three areas now
 *         for (uint64_t at = 0; iva_space_query_next(&space, at, &view) == 0; at = view.end)
 *             printf("%#llx-%#llx rights %u\n", (unsigned long long)view.start, (unsigned long long)view.end,
 *                    (unsigned)(view.flags & IVA_RIGHTS));
 *         return iva_space_destroy(&space);
 *     }
 *
 * MANUAL
 *
 * 1. Concepts
 *
 *   space      addresses [lo, hi) of a process, in pages; kept by the caller (struct iva_space).
 *   area       one interval of it with equal rights, flags and object: Linux's VMA. A node of the space's ivs_map. Its
 *              bounds, object and offset never change; rights and flags are one word, which may.
 *   object     a word of the host's (a file, shared memory; 0: private anonymous memory), and an offset in it.
 *   host bytes what the host keeps beside each area: split, joined, copied and released through its callbacks.
 *   gate       who works on parts (LR, LW) and who on the whole (GR, GW). Operations take it by themselves.
 *   counter    a number with a limit: pages in all, locked pages, areas.
 *
 *   Requests are what a program passed: unrounded, unchecked. The answer is Linux's (6.18, x86-64), its partial effects
 *   included; each function says which.
 *
 * 2. How an operation goes
 *
 *   It takes the gate in LW, locks its range (in the map, where finding and locking are one walk), decides by what it
 *   finds, makes all new areas, asks the host's callbacks, charges the counters, and then swaps the old areas
 *   for the new ones in one step. Where an area must be joined with a neighbour, that one is locked too; where not,
 *   neighbours are not touched. A change of one whole area's rights or flags that joins nothing happens in place. A
 *   move locks source and target, and commits the target first.
 *
 * 3. Guarantees
 *
 *   G1  Every operation but a move with two commits takes effect at one instant between call and return, seen by all.
 *   G2  An error changes nothing, but for the partial effects that Linux has and the function names. A callback or an
 *       allocation that fails: nothing has changed, nothing is owed.
 *   G3  No counter is ever above its limit (but where the limit was set below it). A charge is refused only if it did
 *       not fit at an instant of the call, counted with what other operations had charged and were about to commit.
 *   G4  When nobody is at work, the counters are the sums over the areas.
 *   G5  Operations whose ranges lie two areas apart run in parallel. One that stops for ever stops those who want its
 *       range, the areas beside it, or the whole.
 *   G6  Queries take no lock and never wait (G1 to G3 of ivskip.h).
 *   G7  Areas that may be one are one, after each operation that changes them (fork aside, as in Linux).
 *   G8  A place that the policy chose was free when it was taken; of the places that the policy prefers, each was not
 *       free at an instant of the call, but not all at the same instant: the search holds nothing still. -ENOMEM for
 *       want of room is said only after a look at a space that was held still.
 *
 * 4. Progress
 *
 *   As ivskip's: queries wait-free for a bounded number of concurrent inserts; changes block on the holders of what
 *   they need. Lock order: gate, ranges ascending, the host's own.
 *
 * 5. Placement
 *
 *   LINUX: the highest gap below the base; private anonymous pieces that are multiples of 2 MiB, and pieces of disk
 *   files (IVA_CONGRUENT) that hold an aligned 2 MiB, at an address congruent to the offset. Above the base only if
 *   there is nothing below. BOTTOM_UP: the lowest gap. HOOK: what the host proposes, if free. A hint that is free is
 *   taken as it is (for large pieces of disk files: if 2 MiB more are free, or nowhere else). A search begins where the
 *   first gap of that size can be (the space remembers), so it costs a few steps also in a space of 65,000 areas; after
 *   ivs_map_tune each step costs less.
 *
 * 6. Options: those of ivskip.h, and
 *
 *   IVADDR_IMPLEMENTATION   bodies are compiled here, those of ivskip.h too; in one file of a program
 *   IVADDR_STATIC           all is private to this file (implies the implementation, and IVSKIP_STATIC)
 *
 * 7. Linux behaviour that is left out, and why
 *
 *   huge pages (MAP_HUGETLB), MAP_32BIT      -EOPNOTSUPP: other pools, other windows
 *   MAP_DROPPABLE, mseal, userfaultfd, pkeys no effect on what is where; a host adds flags (IVA_HOST_FLAGS)
 *   what fills memory (POPULATE, mlock)      the host's: it hears of areas; but mlock says -ENOMEM where it could not
 *                                            be filled
 *   length of files, memory cgroups,         the host's
 *   overcommit, RLIMIT_DATA
 *   VMAs kept apart by anon_vma, mremap      here equal neighbours are one, so a remap across them succeeds
 *   over such a border is -EFAULT
 *   a limit or want of memory met half-way   Linux keeps what was done so far; here nothing has changed
 *   RLIMIT_MEMLOCK of a map or a lock        Linux adds what is replaced or locked already; here the difference counts
 *   65530 areas                              Linux refuses some calls a few areas earlier; here the sum counts
 *   REMOVE, COLD, ... beyond their checks    the host's `advise`
 *   shared areas that grow up, other arches  no hosts
 */
#ifndef IVADDR_H
#define IVADDR_H

/* -------------------------------------------------------------------------------- version, options */

#if defined(IVADDR_STATIC)
#if !defined(IVADDR_IMPLEMENTATION)
#define IVADDR_IMPLEMENTATION
#endif
#if !defined(IVSKIP_STATIC)
#define IVSKIP_STATIC
#endif
#endif
#if defined(IVADDR_IMPLEMENTATION) && !defined(IVSKIP_IMPLEMENTATION)
#define IVSKIP_IMPLEMENTATION
#endif
#include "ivskip.h"

#define IVADDR_VERSION_MAJOR 0
#define IVADDR_VERSION_MINOR 1
#define IVADDR_VERSION_PATCH 0
#define IVADDR_VERSION       (IVADDR_VERSION_MAJOR * 10000 + IVADDR_VERSION_MINOR * 100 + IVADDR_VERSION_PATCH)

#if defined(IVADDR_STATIC)
#define IVA_API static __attribute__((unused))
#elif defined(__cplusplus)
#define IVA_API extern "C"
#else
#define IVA_API extern
#endif

/* As in ivskip.h: options that change layout are part of every symbol. */
#define iva_gate_init          IVS_SYM_(iva_gate_init)
#define iva_gate_destroy       IVS_SYM_(iva_gate_destroy)
#define iva_gate_lock          IVS_SYM_(iva_gate_lock)
#define iva_gate_trylock       IVS_SYM_(iva_gate_trylock)
#define iva_gate_unlock        IVS_SYM_(iva_gate_unlock)
#define iva_counter_init       IVS_SYM_(iva_counter_init)
#define iva_counter_destroy    IVS_SYM_(iva_counter_destroy)
#define iva_counter_charge     IVS_SYM_(iva_counter_charge)
#define iva_counter_uncharge   IVS_SYM_(iva_counter_uncharge)
#define iva_counter_set_limit  IVS_SYM_(iva_counter_set_limit)
#define iva_counter_limit      IVS_SYM_(iva_counter_limit)
#define iva_counter_read       IVS_SYM_(iva_counter_read)
#define iva_counter_estimate   IVS_SYM_(iva_counter_estimate)
#define iva_area_view          IVS_SYM_(iva_area_view)
#define iva_domain_init        IVS_SYM_(iva_domain_init)
#define iva_domain_destroy     IVS_SYM_(iva_domain_destroy)
#define iva_space_config_linux IVS_SYM_(iva_space_config_linux)
#define iva_space_init         IVS_SYM_(iva_space_init)
#define iva_space_destroy      IVS_SYM_(iva_space_destroy)
#define iva_space_fork         IVS_SYM_(iva_space_fork)
#define iva_space_map          IVS_SYM_(iva_space_map)
#define iva_space_unmap        IVS_SYM_(iva_space_unmap)
#define iva_space_protect      IVS_SYM_(iva_space_protect)
#define iva_space_remap        IVS_SYM_(iva_space_remap)
#define iva_space_advise       IVS_SYM_(iva_space_advise)
#define iva_space_brk          IVS_SYM_(iva_space_brk)
#define iva_space_lock         IVS_SYM_(iva_space_lock)
#define iva_space_unlock       IVS_SYM_(iva_space_unlock)
#define iva_space_lock_all     IVS_SYM_(iva_space_lock_all)
#define iva_space_unlock_all   IVS_SYM_(iva_space_unlock_all)
#define iva_space_touch        IVS_SYM_(iva_space_touch)
#define iva_space_set_limit    IVS_SYM_(iva_space_set_limit)
#define iva_space_query        IVS_SYM_(iva_space_query)
#define iva_space_query_next   IVS_SYM_(iva_space_query_next)
#define iva_space_iterate      IVS_SYM_(iva_space_iterate)
#define iva_space_measure      IVS_SYM_(iva_space_measure)
#define iva_space_get_stats    IVS_SYM_(iva_space_get_stats)
#define iva_space_validate     IVS_SYM_(iva_space_validate)

/* Error codes: negative errno values of Linux, also where there is no errno.h. */
enum {
    IVA_EPERM = -1,      /* the limit of locked memory is 0; below the lowest address; the object may not be executed */
    IVA_ENOENT = -2,     /* no area there (queries) */
    IVA_EAGAIN = -11,    /* the limit of locked memory (map, remap) */
    IVA_ENOMEM = -12,    /* no memory, no room, a limit, or a hole where there must be none */
    IVA_EACCES = -13,    /* the object, or the area, does not allow this */
    IVA_EFAULT = -14,    /* no area there (remap, fault) */
    IVA_EBUSY = -16,     /* held by another; or still in use */
    IVA_EEXIST = -17,    /* the range is not free */
    IVA_EINVAL = -22,    /* bad argument */
    IVA_EDEADLK = -35,   /* called inside a read section */
    IVA_EBADMSG = -74,   /* iva_space_validate found something wrong */
    IVA_EOVERFLOW = -75, /* the offset is beyond what an object can have */
    IVA_EOPNOTSUPP = -95 /* a flag that is not known, or left out (manual, section 7) */
};

/* -------------------------------------------------------------------------------- types */

/*
 * What an area has, in one word that is read and changed as one.
 *
 *     2..0   what may be done now: IVA_READ, IVA_WRITE, IVA_EXEC
 *     6..4   what may never be done: the same, shifted (IVA_DENY_*); a protect that asks for it is -EACCES
 *     8..    flags of the area. Areas that differ in any of these bits are not joined.
 */
enum {
    IVA_READ = 1,
    IVA_WRITE = 2,
    IVA_EXEC = 4,
    IVA_RIGHTS = 7,
    IVA_DENY_READ = 0x10,
    IVA_DENY_WRITE = 0x20, /* e.g. shared, of a descriptor that was opened for reading */
    IVA_DENY_EXEC = 0x40,
    IVA_DENY = 0x70,
    IVA_SHARED = 0x100,
    IVA_GROWSDOWN = 0x200,
    IVA_LOCKED = 0x400,
    IVA_LOCKONFAULT = 0x800, /* with IVA_LOCKED */
    IVA_DONTFORK = 0x1000,   /* the child of a fork does not get it */
    IVA_WIPEONFORK = 0x2000, /* the child gets it empty: `copy` sees the flag */
    IVA_DONTDUMP = 0x4000,
    IVA_MERGEABLE = 0x8000,
    IVA_HUGE = 0x10000,
    IVA_NOHUGE = 0x20000,
    IVA_RANDOM = 0x40000,
    IVA_SEQUENTIAL = 0x80000,
    IVA_SPECIAL = 0x100000,      /* the host's own: never locked, resized or doubled */
    IVA_CONGRUENT = 0x200000,    /* a disk file: large pieces are placed so that 2 MiB of file can be 2 MiB of memory */
    IVA_HOST_FLAGS = 0x7f000000, /* free for the host */
    IVA_EXTRA = 0x7f000000 | IVA_SPECIAL | IVA_CONGRUENT | IVA_DONTFORK | IVA_WIPEONFORK | IVA_DONTDUMP | IVA_DENY
};

/* Flags of iva_space_map: Linux's numbers on most processors. Bits that are not named here have no effect, but with
 * SHARED_VALIDATE. */
enum {
    IVA_MAP_SHARED = 1,
    IVA_MAP_PRIVATE = 2,
    IVA_MAP_SHARED_VALIDATE = 3,
    IVA_MAP_TYPE = 0xf,
    IVA_MAP_FIXED = 0x10,
    IVA_MAP_ANONYMOUS = 0x20,
    IVA_MAP_32BIT = 0x40, /* left out: -EOPNOTSUPP */
    IVA_MAP_GROWSDOWN = 0x100,
    IVA_MAP_LOCKED = 0x2000,
    IVA_MAP_HUGETLB = 0x40000, /* left out: -EOPNOTSUPP */
    IVA_MAP_FIXED_NOREPLACE = 0x100000
};

/* Beside the rights, for iva_space_protect. */
enum {
    IVA_PROT_SEM = 8,
    IVA_PROT_GROWSDOWN = 0x01000000, /* from the start of the growing area */
    IVA_PROT_GROWSUP = 0x02000000
};

enum { IVA_REMAP_MAYMOVE = 1, IVA_REMAP_FIXED = 2, IVA_REMAP_DONTUNMAP = 4 };

/* Advice that changes the flags of areas, or that has rules about them; `advise` of the host gets every one. */
enum {
    IVA_ADVISE_NORMAL = 0,
    IVA_ADVISE_RANDOM = 1,
    IVA_ADVISE_SEQUENTIAL = 2,
    IVA_ADVISE_WILLNEED = 3,
    IVA_ADVISE_DONTNEED = 4,
    IVA_ADVISE_FREE = 8,
    IVA_ADVISE_REMOVE = 9,
    IVA_ADVISE_DONTFORK = 10,
    IVA_ADVISE_DOFORK = 11,
    IVA_ADVISE_MERGEABLE = 12,
    IVA_ADVISE_UNMERGEABLE = 13,
    IVA_ADVISE_HUGEPAGE = 14,
    IVA_ADVISE_NOHUGEPAGE = 15,
    IVA_ADVISE_DONTDUMP = 16,
    IVA_ADVISE_DODUMP = 17,
    IVA_ADVISE_WIPEONFORK = 18,
    IVA_ADVISE_KEEPONFORK = 19,
    IVA_ADVISE_COLD = 20,
    IVA_ADVISE_PAGEOUT = 21
};

enum { IVA_LOCK_CURRENT = 1, IVA_LOCK_FUTURE = 2, IVA_LOCK_ALL_ONFAULT = 4 }; /* iva_space_lock_all */
enum { IVA_LOCK_ONFAULT = 1 };                                                /* iva_space_lock */

enum iva_limit {
    IVA_LIMIT_TOTAL = 0,  /* bytes mapped */
    IVA_LIMIT_LOCKED = 1, /* bytes in locked areas */
    IVA_LIMIT_AREAS = 2,  /* number of areas */
    IVA_LIMIT_STACK = 3   /* bytes of an area that grows down, from its end */
};
#define IVA_NO_LIMIT UINT64_MAX

/* An area as it is kept. In memory: [ host's bytes ][ struct iva_area ][ upper links of the node ]. Read it through the
 * functions below, in a read section. */
struct iva_area {
    uint64_t offset_; /* in the object, of the area's start */
    ivs_u64_ flags_;
    struct ivs_node node; /* bounds; its value is the object */
} __attribute__((aligned(8)));

/* An area as it is told: a copy, or a plan (to callbacks). */
struct iva_view {
    uint64_t start;
    uint64_t end; /* exclusive; 0: 2^64 */
    uint64_t flags;
    uintptr_t object;
    uint64_t offset; /* bytes; 0 where there is no object */
    void *host;      /* the host's bytes: in a callback or a read section; else NULL */
};

/* What is to be placed, for the hook `place`. */
struct iva_place {
    uint64_t bytes;
    uint64_t flags; /* as the area will have them */
    uintptr_t object;
    uint64_t offset;
    unsigned attempt; /* 0, then one more for each proposal that was not free */
};

/*
 * The host's callbacks. Any may be NULL; alloc and free come together. alloc, free and release get the ctx of the
 * domain (that of the space, if the space has its own), the others that of the space. None may call the space. Those
 * that return int may refuse with a negative error: the operation then fails with it, and nothing has changed. They
 * run with the range locked, outside read sections, and may sleep, unless it says otherwise.
 *
 * Who owns what: each area has the host's bytes, which the library copies plainly. If they, or the object, are counted,
 * each area owns one count: one comes with a successful iva_space_map; `split` and `copy` take one for the new
 * area; `release` gives one back. `merge` takes none: the area that is taken over is released in its turn.
 */
struct iva_ops {
    /* As of ivs_domain_ops. */
    void *(*alloc)(void *ctx, size_t bytes, unsigned flags);
    void (*free)(void *ctx, void *memory, size_t bytes);
    /* The end of an area, after a grace period, or at once for one that was made for an operation that then failed.
     * Must not sleep or wait. */
    void (*release)(void *ctx, const struct iva_view *area);
    /* May `right`, which begins where `left` ends, be one area with it? Asked where flags and object are equal and the
     * offset goes on (or there is no object). NULL: yes. Must depend on its arguments only, and not sleep. */
    bool (*joins)(void *ctx, const struct iva_view *left, const struct iva_view *right);
    /* `part` will stand for a part of `old` (or for all of it, with other flags): its bytes are a copy of old's. */
    int (*split)(void *ctx, const struct iva_view *old, struct iva_view *part);
    /* `into` takes over the range of `gone`, a neighbour or a part of one. */
    int (*merge)(void *ctx, struct iva_view *into, const struct iva_view *gone);
    /* `to`, at another address or in the child of a fork, will be what `from` is. For a new heap `from` is a pattern
     * with the bytes of the configuration. */
    int (*copy)(void *ctx, const struct iva_view *from, struct iva_view *to);
    /* Advice on a part of an area (its bounds are cut to the part), before flags change; may refuse, and what came
     * before in the range stays done. */
    int (*advise)(void *ctx, const struct iva_view *area, unsigned advice);
    /* [start, end) is not what it was: drop what the page tables have there. No page table may be freed but those
     * whose keys all lie in [floor, ceiling), which is empty space that nobody can fill meanwhile (ceiling 0: 2^64;
     * floor == ceiling: none). After the commit, before another can have the range. */
    void (*clear)(void *ctx, uint64_t start, uint64_t end, uint64_t floor, uint64_t ceiling);
    /* A part of an area has other rights now. As `clear`. */
    void (*protect)(void *ctx, const struct iva_view *area);
    /* What [from, from + bytes) had in the page tables belongs to [to, to + bytes) now. As `clear`, and between that of
     * the target and that of the source. */
    void (*move)(void *ctx, uint64_t from, uint64_t to, uint64_t bytes);
    /* IVA_PLACE_HOOK: proposes an address. 0, or negative: take the place that IVA_PLACE_LINUX would. Without locks. */
    int (*place)(void *ctx, const struct iva_place *request, uint64_t *address);
};

/* Where areas come from and where they go. Spaces may share one: then threads keep one record for all of them. */
struct iva_domain {
    struct ivs_domain domain_;
    const struct iva_ops *ops_;
    void *ctx_;
    size_t host_bytes_;
};

struct iva_domain_config {
    const struct iva_ops *ops; /* alloc, free and release of it */
    void *ctx;
    size_t host_bytes; /* beside each area, a multiple of 8, at most 65000 */
    uint64_t seed;     /* of the tower heights, as in ivs_domain_config */
};

/* ---- gate: who works on parts, and who on the whole */

enum iva_gate_mode {
    IVA_GR = 1, /* reads the whole: with LR and GR */
    IVA_GW = 2, /* changes the whole: alone */
    IVA_LR = 3, /* reads parts: with LR, LW, GR */
    IVA_LW = 4  /* changes parts, which it locks apart: with LR, LW */
};

struct iva_gate {
    ivs_u64_ cell_; /* 63..48 GW | 47..32 GR | 31..16 LW | 15..0 LR, counts */
    uint32_t next_; /* tickets of GR and GW */
    uint32_t serving_;
    uint32_t event_; /* whoever waits sleeps here */
    uint32_t unused_;
} __attribute__((aligned(8)));

/* A mode that is held. Zero it before its first use. */
struct iva_hold {
    struct iva_gate *gate; /* NULL: nothing is held */
    unsigned mode_;
    unsigned cell_;
};

/* ---- counter: a number with a limit */

struct iva_counter {
    ivs_u64_ used_;
    ivs_u64_ limit_;
} __attribute__((aligned(8)));

/* ---- space */

enum iva_policy {
    IVA_PLACE_LINUX = 0,     /* the highest gap below the base */
    IVA_PLACE_BOTTOM_UP = 1, /* the lowest gap above the base */
    IVA_PLACE_HOOK = 2       /* where `place` says, if that is free */
};

/* Zero means what it says at each field; iva_space_config_linux fills in what Linux on x86-64 has. */
struct iva_space_config {
    uint64_t lo;         /* nothing is mapped below; a multiple of the page */
    uint64_t hi;         /* end of the space, exclusive; 0: 2^64 */
    uint64_t base;       /* placement begins here; 0: at hi (bottom up: at lo) */
    uint64_t guard;      /* bytes that stay free below an area that grows down */
    uint64_t huge;       /* large pieces are aligned to this, a power of two; 0: never */
    uint64_t brk;        /* where the heap begins */
    unsigned page_shift; /* log2 of the page; 0: 12 */
    enum iva_policy policy;
    bool separate;             /* neighbours are never joined */
    const struct iva_ops *ops; /* NULL: none */
    void *ctx;
    size_t host_bytes; /* beside each area; with a shared domain: the domain's */
    const void
        *heap; /* the host's bytes of what brk maps; stays valid; without it brk does so only if host_bytes is 0 */
    struct iva_domain *domain; /* NULL: the space has its own */
    uint64_t limit[4];         /* by enum iva_limit; 0: none (iva_space_set_limit can set 0) */
    uint64_t seed;
};

/* A learnt fact: no gap of `bytes` or more nearer to the base than `distance`. */
struct iva_fact_ {
    ivs_u64_ bytes;
    ivs_u64_ distance;
};
#define IVA_FACTS_ 52

struct iva_space {
    struct ivs_map map_;
    struct iva_domain *domain_;
    struct iva_space_config config_;
    uint64_t last_; /* of the space, inclusive */
    uint64_t page_;
    uint64_t magic_;
    struct iva_gate gate_;
    struct iva_counter total_;
    struct iva_counter locked_;
    struct iva_counter areas_;
    ivs_u64_ stack_limit_;
    ivs_u64_ brk_;    /* changed under the lock of the heap's first page */
    ivs_u64_ future_; /* flags that new areas get (iva_space_lock_all) */
    ivs_u64_ frees_;  /* commits that left more room: 63..16 all, 15..0 not done with yet */
    uint32_t learning_;
    struct iva_fact_ facts_[IVA_FACTS_];
    struct iva_domain own_;
};

struct iva_map_request {
    uint64_t address; /* FIXED: where; else a hint, 0: none */
    uint64_t length;  /* bytes; rounded up to pages */
    uint64_t rights;  /* IVA_READ, IVA_WRITE, IVA_EXEC; other bits have no effect */
    uint64_t flags;   /* IVA_MAP_* */
    uint64_t offset;  /* in the object; a multiple of the page even where it has no effect */
    uintptr_t object; /* the host's; 0: none (private anonymous memory) */
    uint64_t access;  /* what the object allows: rights; of no effect with IVA_MAP_ANONYMOUS */
    uint64_t extra;   /* flags that the area gets besides: bits of IVA_EXTRA */
    const void *host; /* the host's bytes of the area, copied; NULL: zero, and `joins` and `merge` are shown NULL */
};

/* What iva_space_measure found in a range. */
struct iva_measure {
    uint64_t areas;  /* that meet the range */
    uint64_t bytes;  /* mapped, */
    uint64_t locked; /* of these locked, */
    uint64_t shared; /* shared, */
    uint64_t writable;
    uint64_t executable;
    uint64_t inaccessible; /* without any right */
    uint64_t gaps;         /* in the range, its ends included */
    uint64_t largest_gap;  /* bytes */
};

struct iva_space_stats {
    uint64_t total; /* bytes, exact */
    uint64_t locked;
    uint64_t areas;
    uint64_t limit[4];
    uint64_t brk;
    uint64_t future; /* flags that new areas get */
    struct ivs_map_stats map;
};

struct iva_report {
    const char *check; /* name of the check that failed, NULL if none did */
    uint64_t address;  /* where */
    uint64_t found, wanted;
    struct ivs_report map;
};

/* -------------------------------------------------------------------------------- API: gate */

/** Makes a gate that nobody holds.
 *  Context: any; does not sleep.
 *  Progress: wait-free.
 *  Ordering: none; publish it to other threads yourself.
 *  Returns: 0; -EINVAL: NULL.
 *  Lifetime: the memory is the caller's; it must not move. */
IVA_API int iva_gate_init(struct iva_gate *gate) IVS_MUST_CHECK;

/** Ends a gate.
 *  Context: no call on it runs.
 *  Progress: wait-free.
 *  Ordering: none needed; the caller is alone.
 *  Returns: 0; -EINVAL: NULL; -EBUSY: a mode is held, nothing done.
 *  Lifetime: the memory may be reused. */
IVA_API int iva_gate_destroy(struct iva_gate *gate) IVS_MUST_CHECK;

/** Takes a mode. Not recursive: a thread holds one mode of a gate at a time. Order of locks: gate, then ranges, then
 *  page tables.
 *  Context: outside read sections, holding no range of the space; sleeps.
 *  Progress: blocking. GR and GW are served in the order of their calls, and later LR and LW do not overtake them.
 *  Ordering: acquire: pairs with the unlock of whoever excluded this mode before.
 *  Returns: 0; -EINVAL: NULL or no mode.
 *  Lifetime: until iva_gate_unlock of the same hold, by any thread.
 *  Source: IntervalVM, SOSP 2025, section 5 (global and local modes), as intention modes. */
IVA_API int iva_gate_lock(struct iva_gate *gate, enum iva_gate_mode mode, struct iva_hold *hold) IVS_MUST_CHECK;

/** As iva_gate_lock, without waiting.
 *  Context: any; does not sleep.
 *  Progress: lock-free.
 *  Ordering: acquire on success.
 *  Returns: 0; -EBUSY: the mode is excluded, or others wait who come first; -EINVAL.
 *  Lifetime: as iva_gate_lock. */
IVA_API int iva_gate_trylock(struct iva_gate *gate, enum iva_gate_mode mode, struct iva_hold *hold) IVS_MUST_CHECK;

/** Lets a mode go.
 *  Context: any; does not sleep; wakes waiters.
 *  Progress: wait-free.
 *  Ordering: release.
 *  Returns: 0; -EINVAL: NULL; -EPERM: nothing is held (unlocked twice), nothing done.
 *  Lifetime: the hold may be used again. */
IVA_API int iva_gate_unlock(struct iva_hold *hold);

/* -------------------------------------------------------------------------------- API: counter */

/** Makes a counter at 0 with a limit (IVA_NO_LIMIT: none).
 *  Context: any; does not sleep.
 *  Progress: wait-free.
 *  Ordering: none; publish it to other threads yourself.
 *  Returns: 0; -EINVAL: NULL.
 *  Lifetime: the memory is the caller's; it must not move. */
IVA_API int iva_counter_init(struct iva_counter *counter, uint64_t limit) IVS_MUST_CHECK;

/** Ends a counter.
 *  Context: no call on it runs.
 *  Progress: wait-free.
 *  Ordering: none needed; the caller is alone.
 *  Returns: 0; -EINVAL: NULL.
 *  Lifetime: the memory may be reused. */
IVA_API int iva_counter_destroy(struct iva_counter *counter);

/** Adds `amount` if the sum stays within the limit: never above it, and refused only if at some instant of the call it
 *  did not fit.
 *  Context: any; does not sleep.
 *  Progress: lock-free.
 *  Ordering: acquire and release, with uncharges and charges. Linearizable.
 *  Returns: 0; -ENOMEM: refused; -EINVAL: NULL. On an error nothing has changed.
 *  Lifetime: until uncharged. */
IVA_API int iva_counter_charge(struct iva_counter *counter, uint64_t amount) IVS_MUST_CHECK;

/** Takes `amount` away, which was charged.
 *  Context: any; does not sleep.
 *  Progress: wait-free.
 *  Ordering: acquire and release. Linearizable.
 *  Returns: nothing; more than was charged is an assertion in debug builds.
 *  Lifetime: none. */
IVA_API void iva_counter_uncharge(struct iva_counter *counter, uint64_t amount);

/** Sets the limit, also to less than is used: then charges are refused until it fits again.
 *  Context: any; charges that run meanwhile may go by the old limit or the new one.
 *  Progress: wait-free.
 *  Ordering: acquire and release.
 *  Returns: 0; -EINVAL: NULL.
 *  Lifetime: none. */
IVA_API int iva_counter_set_limit(struct iva_counter *counter, uint64_t limit);

/** The limit.
 *  Context: any.
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the limit, IVA_NO_LIMIT if there is none.
 *  Lifetime: none. */
IVA_API uint64_t iva_counter_limit(const struct iva_counter *counter);

/** What is used, exactly at one instant of the call.
 *  Context: any; does not sleep.
 *  Progress: lock-free; may slow charges down for a while: for reports, not for hot paths.
 *  Ordering: acquire. Linearizable.
 *  Returns: the amount.
 *  Lifetime: none. */
IVA_API uint64_t iva_counter_read(struct iva_counter *counter);

/** About what is used: never less than is used when nobody changes it, nor above the limit.
 *  Context: any; cheap.
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the amount.
 *  Lifetime: none. */
IVA_API uint64_t iva_counter_estimate(const struct iva_counter *counter);

/* -------------------------------------------------------------------------------- API: areas */

/** The area of a node of a space's map.
 *  Context: the node is readable.
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the area.
 *  Lifetime: the node's. */
static inline struct iva_area *iva_area_of(const struct ivs_node *node) {
    return (struct iva_area *)((uintptr_t)node - offsetof(struct iva_area, node));
}

/** First address of an area; never changes.
 *  Context: the area is readable (read section).
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the address.
 *  Lifetime: none. */
static inline uint64_t iva_area_start(const struct iva_area *area) { return area->node.start; }

/** One past the last address of an area; 0: 2^64; never changes.
 *  Context: the area is readable (read section).
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the address.
 *  Lifetime: none. */
static inline uint64_t iva_area_end(const struct iva_area *area) { return area->node.last + 1; }

/** Rights and flags of an area: the one word that may change in place.
 *  Context: the area is readable (read section).
 *  Progress: wait-free.
 *  Ordering: acquire.
 *  Returns: bits of IVA_RIGHTS, IVA_DENY and the flags.
 *  Lifetime: true at the instant of the call. */
static inline uint64_t iva_area_flags(const struct iva_area *area);

/** The object of an area; never changes.
 *  Context: the area is readable (read section).
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the host's word, 0: none.
 *  Lifetime: the host's rules; it is not released before the area. */
static inline uintptr_t iva_area_object(const struct iva_area *area) { return area->node.value_; }

/** Where an address lies in the object of its area.
 *  Context: the area is readable (read section).
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: bytes from the object's begin; 0 if there is no object.
 *  Lifetime: none. */
static inline uint64_t iva_area_offset(const struct iva_area *area, uint64_t address) {
    return area->node.value_ ? area->offset_ + (address - area->node.start) : 0;
}

/** The host's bytes of an area.
 *  Context: the area is readable (read section); written before it is published, later by the host's own rules.
 *  Progress: wait-free.
 *  Ordering: what callbacks wrote before the area was published is visible.
 *  Returns: pointer, 8-byte aligned; NULL if the space has no such bytes.
 *  Lifetime: the area's. */
static inline void *iva_area_host(struct iva_space *space, const struct iva_area *area) {
    size_t bytes = space->domain_->host_bytes_;
    return bytes ? (void *)((uintptr_t)area - bytes) : NULL;
}

/** Tells an area.
 *  Context: the area is readable (read section).
 *  Progress: wait-free.
 *  Ordering: as iva_area_flags.
 *  Returns: nothing.
 *  Lifetime: view->host: the area's; the rest is a copy. */
IVA_API void iva_area_view(struct iva_space *space, const struct iva_area *area, struct iva_view *view);

/* -------------------------------------------------------------------------------- API: begin and end */

/** Makes a domain to share between spaces. `config` may be NULL.
 *  Context: any; does not sleep.
 *  Progress: wait-free.
 *  Ordering: none; publish it to other threads yourself.
 *  Returns: 0; -EINVAL: NULL domain, bad host_bytes, only one of alloc and free.
 *  Lifetime: the memory is the caller's; it must not move. What ops and ctx point to must outlive the domain. */
IVA_API int iva_domain_init(struct iva_domain *domain, const struct iva_domain_config *config) IVS_MUST_CHECK;

/** Ends a domain: all that waits for a grace period is released at once.
 *  Context: no space of the domain lives, no read section is open, no call runs.
 *  Progress: linear in the waiting areas.
 *  Ordering: none needed; the caller is alone.
 *  Returns: 0; -EINVAL: not a domain; -EBUSY: a read section is open, nothing done.
 *  Lifetime: the memory may be reused. */
IVA_API int iva_domain_destroy(struct iva_domain *domain) IVS_MUST_CHECK;

/** A configuration like a process of Linux on x86-64: addresses below 0x7ffffffff000, from 64 KiB on, pages of 4 KiB, a
 *  guard gap of 256 pages, 2 MiB congruence, placement from above, stacks of at most 8 MiB, 65530 areas.
 *  Context: any.
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the configuration.
 *  Lifetime: none. */
IVA_API struct iva_space_config iva_space_config_linux(void);

/** Makes an empty space. `config` may be NULL: iva_space_config_linux.
 *  Context: any; does not sleep.
 *  Progress: wait-free.
 *  Ordering: none; publish the space to other threads yourself.
 *  Returns: 0; -EINVAL: NULL space, or a field of the configuration that makes no sense.
 *  Lifetime: the memory is the caller's; it must not move. `config` is copied; ops, ctx and domain must outlive it. */
IVA_API int iva_space_init(struct iva_space *space, const struct iva_space_config *config) IVS_MUST_CHECK;

/** Ends a space: every area is released (with an own domain at once, with a shared one after a grace period). The
 *  host drops its page tables as a whole; `clear` is not called.
 *  Context: no other call on the space runs, no read section uses it.
 *  Progress: linear in the areas.
 *  Ordering: none needed; the caller is alone.
 *  Returns: 0; -EINVAL: not a space; -EBUSY: a range, the gate or (own domain) a read section is held, nothing done.
 *  Lifetime: the memory may be reused. */
IVA_API int iva_space_destroy(struct iva_space *space) IVS_MUST_CHECK;

/** Makes `child` a copy of `parent` as fork does: without the areas that are DONTFORK, nothing locked, the same
 *  configuration, limits and heap. `copy` is called for each area. `child` gets the parent's ops and ctx, or `ctx` if
 *  that is not NULL, and the parent's domain if that is a shared one, else one of its own.
 *  Context: outside read sections; sleeps. Takes the parent's gate in GR: one instant of the parent is copied.
 *  Progress: linear in the areas; updates of the parent wait, queries do not.
 *  Ordering: all that was done in the parent before is in the child.
 *  Returns: 0; -EINVAL; -ENOMEM; -EDEADLK; what `copy` returned. On an error the child is no space and all that was
 *  made for it has been released; the parent is as it was.
 *  Lifetime: child: as iva_space_init. */
IVA_API int iva_space_fork(struct iva_space *parent, struct iva_space *child, void *ctx) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- API: operations */

/** mmap. Where: FIXED, at the address, over what is there; FIXED_NOREPLACE, there or not at all; else at the hint, if
 *  it is free, or where the policy says.
 *  Context: outside read sections; sleeps.
 *  Progress: blocking: waits for holders of the range and of the areas beside it.
 *  Ordering: acquire and release. Linearizable, but for the choice of the place (G8).
 *  Returns: 0 and the place in *address; -EINVAL: length 0, address or offset not a multiple of the page, no type,
 *  grows down but not private anonymous, bits of extra; -ENOMEM: no memory, no room, too long, beyond the end, limits
 *  of total or number; -EPERM: fixed below `lo`, locked with a limit of 0, not to be executed; -EAGAIN: limit of
 *  locked memory; -EEXIST: not free; -EACCES: the object's access; -EOVERFLOW: the offset; -EOPNOTSUPP: unknown flag
 *  with SHARED_VALIDATE, or a flag left out; -EDEADLK; what `merge` returned. On an error nothing has changed and the
 *  host's counts are still the caller's.
 *  Lifetime: the area lives until it is unmapped or replaced.
 *  Source: IntervalVM, SOSP 2025, sections 4 and 5; the semantics are Linux's. */
IVA_API int iva_space_map(struct iva_space *space, const struct iva_map_request *request,
                          uint64_t *address) IVS_MUST_CHECK;

/** munmap: [address, address + length), rounded up, is empty from now on.
 *  Context: as iva_space_map.
 *  Progress: as iva_space_map.
 *  Ordering: as iva_space_map. Linearizable.
 *  Returns: 0, also if nothing was there; -EINVAL: not a multiple of the page, length 0, beyond the end; -ENOMEM: no
 *  memory, or the limit of areas (an area is cut in two); -EDEADLK; what `split` returned. On an error nothing has
 *  changed.
 *  Lifetime: the areas are released after a grace period. */
IVA_API int iva_space_unmap(struct iva_space *space, uint64_t address, uint64_t length) IVS_MUST_CHECK;

/** mprotect: rights IVA_READ, _WRITE, _EXEC, and IVA_PROT_*.
 *  Context: as iva_space_map.
 *  Progress: as iva_space_map.
 *  Ordering: as iva_space_map. Linearizable.
 *  Returns: 0; -EINVAL: not a multiple of the page, both GROWS flags, GROWSUP, GROWSDOWN on one that does not, unknown
 *  bits; -ENOMEM: beyond 2^64, or a hole: what lies before the first hole *has changed*; -EACCES: an area denies it:
 *  what lies before it has changed; -ENOMEM (no memory, limit of areas), -EDEADLK, what `split` or `merge` returned:
 *  nothing has changed.
 *  Lifetime: none. */
IVA_API int iva_space_protect(struct iva_space *space, uint64_t address, uint64_t length,
                              uint64_t rights) IVS_MUST_CHECK;

/** mremap: [old, old + old_length) becomes new_length bytes, where it is or elsewhere. FIXED at `target`, over what is
 *  there; with FIXED and equal lengths several areas move, and the gaps between them stay as they are at the target.
 *  DONTUNMAP leaves the source mapped (its pages move). old_length 0 doubles a shared area.
 *  Context: as iva_space_map.
 *  Progress: as iva_space_map; a move locks both ranges, ascending.
 *  Ordering: as iva_space_map. A move that needs two commits makes the target appear before the source goes: a reader
 *  may see both. All else is linearizable.
 *  Returns: 0 and the place in *address; -EINVAL: unknown flag, not a multiple of the page, new length 0 or longer than
 *  the space, FIXED or DONTUNMAP without MAYMOVE, DONTUNMAP with another length, source and target meet, length 0 of a
 *  private area; -EFAULT: no area at `old`, or the range goes past its end, or it is SPECIAL; -ENOMEM: no room, limits,
 *  memory; -EAGAIN: limit of locked memory; -EPERM: below `lo`; -EDEADLK; what `split`, `merge` or `copy` returned. On
 *  an error nothing has changed, with one exception: length 0, FIXED onto itself unmaps the target, then says -EFAULT.
 *  Lifetime: as iva_space_unmap. */
IVA_API int iva_space_remap(struct iva_space *space, uint64_t old, uint64_t old_length, uint64_t new_length,
                            unsigned flags, uint64_t target, uint64_t *address) IVS_MUST_CHECK;

/** madvise. Holes are skipped: the rest is done, then -ENOMEM is the answer.
 *  Context: as iva_space_map.
 *  Progress: as iva_space_map.
 *  Ordering: as iva_space_map. Linearizable, as far as flags are concerned.
 *  Returns: 0; -EINVAL: unknown advice, not a multiple of the page, beyond 2^64; DONTNEED, FREE, REMOVE, COLD, PAGEOUT
 *  of a locked area, FREE and WIPEONFORK of one that is not private anonymous, REMOVE of one without an object, DOFORK
 *  and DODUMP of a SPECIAL one; -EACCES: REMOVE of one that may not be written or is not shared; what
 *  `advise` returned: what lies before that area is done; -ENOMEM: a hole; or no memory, limit of areas: nothing has
 *  changed; -EDEADLK; what `split` or `merge` returned: nothing has changed.
 *  Lifetime: none. */
IVA_API int iva_space_advise(struct iva_space *space, uint64_t address, uint64_t length,
                             unsigned advice) IVS_MUST_CHECK;

/** brk: moves the end of the heap.
 *  Context: as iva_space_map.
 *  Progress: as iva_space_map.
 *  Ordering: as iva_space_map. Linearizable.
 *  Returns: the end of the heap afterwards: `want`, or, refused for whatever reason, what it was.
 *  Lifetime: none. */
IVA_API uint64_t iva_space_brk(struct iva_space *space, uint64_t want);

/** mlock, mlock2: the areas of the range are locked from now on, and accounted so; the host fills them. `flags`:
 *  0 or IVA_LOCK_ONFAULT.
 *  Context: as iva_space_map.
 *  Progress: as iva_space_map.
 *  Ordering: as iva_space_map. Linearizable.
 *  Returns: 0; -EINVAL: unknown flag, or beyond 2^64; -EPERM: the limit is 0; -ENOMEM: over the limit, nothing has
 *  changed; a hole: what lies before it *has changed*; an area without any right (which cannot be filled): all has
 *  changed; no memory, limit of areas: nothing has changed; -EDEADLK; what `split` or `merge` returned: nothing has
 *  changed.
 *  Lifetime: none. */
IVA_API int iva_space_lock(struct iva_space *space, uint64_t address, uint64_t length, unsigned flags) IVS_MUST_CHECK;

/** munlock.
 *  Context: as iva_space_map.
 *  Progress: as iva_space_map.
 *  Ordering: as iva_space_map. Linearizable.
 *  Returns: as iva_space_lock, but for the limit.
 *  Lifetime: none. */
IVA_API int iva_space_unlock(struct iva_space *space, uint64_t address, uint64_t length) IVS_MUST_CHECK;

/** mlockall: IVA_LOCK_CURRENT: all areas; IVA_LOCK_FUTURE: those to come; IVA_LOCK_ALL_ONFAULT: filled when touched.
 *  Context: outside read sections; sleeps. Takes the gate in GW.
 *  Progress: linear in the areas; all updates wait.
 *  Ordering: as iva_space_map. Linearizable.
 *  Returns: 0; -EINVAL: no or unknown flags, ONFAULT alone; -EPERM: the limit is 0; -ENOMEM: over the limit, or no
 *  memory; -EDEADLK; what `split` or `merge` returned. On an error nothing has changed.
 *  Lifetime: none. */
IVA_API int iva_space_lock_all(struct iva_space *space, unsigned flags) IVS_MUST_CHECK;

/** munlockall.
 *  Context: as iva_space_lock_all.
 *  Progress: as iva_space_lock_all.
 *  Ordering: as iva_space_lock_all.
 *  Returns: 0; -ENOMEM; -EDEADLK; what `split` or `merge` returned. On an error nothing has changed.
 *  Lifetime: none. */
IVA_API int iva_space_unlock_all(struct iva_space *space) IVS_MUST_CHECK;

/** What a page fault asks of the map: may `access` (one of IVA_READ, _WRITE, _EXEC) touch the address? An address below
 *  an area that grows down makes it grow, within its limit and not into the guard gap of a neighbour. An area with
 *  any right may be read.
 *  Context: outside read sections; does not sleep unless an area grows.
 *  Progress: as ivs_map_query_rcu; growth: as iva_space_map.
 *  Ordering: as ivs_map_query_rcu.
 *  Returns: 0 and the area in *view (which may be NULL); -EFAULT: no area, nor one that may grow so far; -EACCES: its
 *  rights say no (it has grown all the same); -EINVAL: no such access; -ENOMEM: growth was refused by a limit or for
 *  want of memory; -EDEADLK; what `split` or `merge` returned.
 *  Lifetime: the view is a copy, true at one instant of the call. */
IVA_API int iva_space_touch(struct iva_space *space, uint64_t address, uint64_t access,
                            struct iva_view *view) IVS_MUST_CHECK;

/** Sets a limit (IVA_NO_LIMIT: none). Less than is used is allowed: nothing is taken away, but nothing is added.
 *  Context: outside read sections; sleeps. Takes the gate in GW.
 *  Progress: blocking.
 *  Ordering: the next operation knows it.
 *  Returns: 0; -EINVAL; -EDEADLK.
 *  Lifetime: none. */
IVA_API int iva_space_set_limit(struct iva_space *space, enum iva_limit which, uint64_t limit) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- API: looking */

/** The gate of a space, for operations of the host's own. While a thread holds it, it may query, but must not call
 *  what changes the space.
 *  Context: any.
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the gate.
 *  Lifetime: the space's. */
static inline struct iva_gate *iva_space_gate(struct iva_space *space) { return &space->gate_; }

/** The map of a space: for read sections, iteration, locks of ranges and ivs_map_tune. Its nodes are those of areas
 *  (iva_area_of). Change it through the space only.
 *  Context: any.
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the map.
 *  Lifetime: the space's. */
static inline struct ivs_map *iva_space_map_of(struct iva_space *space) { return &space->map_; }

/** The area that covers an address, without lock or copy: the hot path of a fault handler.
 *  Context: inside a read section (ivs_map_read_enter of iva_space_map_of); does not sleep.
 *  Progress: as ivs_map_query_rcu.
 *  Ordering: as ivs_map_query_rcu. Linearizable.
 *  Returns: the area, or NULL.
 *  Lifetime: until the read section ends. */
static inline struct iva_area *iva_space_query_rcu(struct iva_space *space, uint64_t address) {
    struct ivs_node *node = ivs_map_query_rcu(&space->map_, address);
    return node ? iva_area_of(node) : NULL;
}

/** The area that covers an address.
 *  Context: any; does not sleep.
 *  Progress: as ivs_map_query_rcu.
 *  Ordering: as ivs_map_query_rcu. Linearizable.
 *  Returns: 0; -ENOENT: none; -EINVAL: NULL.
 *  Lifetime: the view is a copy; view->host is NULL. */
IVA_API int iva_space_query(struct iva_space *space, uint64_t address, struct iva_view *view) IVS_MUST_CHECK;

/** The first area that ends above an address. A loop `address = view.end` ends when view.end == 0.
 *  Context: any; does not sleep.
 *  Progress: as ivs_map_query_next_rcu.
 *  Ordering: as ivs_map_query_next_rcu. Linearizable; a loop is ordered, and no snapshot.
 *  Returns: 0; -ENOENT: none; -EINVAL: NULL.
 *  Lifetime: as iva_space_query. */
IVA_API int iva_space_query_next(struct iva_space *space, uint64_t address, struct iva_view *view) IVS_MUST_CHECK;

/** Calls visit(ctx, view) for the areas that meet [start, end), ascending, until it returns other than 0. In one read
 *  section; with the gate in GR it is a snapshot.
 *  Context: any; `visit` must not wait.
 *  Progress: linear in the areas of the range.
 *  Ordering: as ivs_map_next_rcu.
 *  Returns: 0, or what `visit` returned; -EINVAL: NULL or bad range.
 *  Lifetime: view->host during the call of visit. */
IVA_API int iva_space_iterate(struct iva_space *space, uint64_t start, uint64_t end,
                              int (*visit)(void *ctx, const struct iva_view *view), void *ctx) IVS_MUST_CHECK;

/** Adds up what is mapped in [start, end).
 *  Context: any; does not sleep.
 *  Progress: linear in the areas of the range.
 *  Ordering: as iva_space_iterate.
 *  Returns: 0; -EINVAL: NULL or bad range.
 *  Lifetime: none. */
IVA_API int iva_space_measure(struct iva_space *space, uint64_t start, uint64_t end,
                              struct iva_measure *measure) IVS_MUST_CHECK;

/** What is accounted, the limits, and the state of the map.
 *  Context: any; a read section is held meanwhile.
 *  Progress: linear in the areas.
 *  Ordering: each figure is of one instant, not all of the same.
 *  Returns: 0; -EINVAL: NULL.
 *  Lifetime: none. */
IVA_API int iva_space_get_stats(struct iva_space *space, struct iva_space_stats *stats);

/** Audit: the map's invariants; every area on page bounds, inside the space, with flags that go together; the accounts
 *  are the sums over the areas; what is known about gaps is true.
 *  Context: nobody changes the space (quiescent); does not sleep.
 *  Progress: linear in the areas.
 *  Ordering: none needed.
 *  Returns: 0; -EBADMSG: wrong, *report says what; -EINVAL: not a space. `report` may be NULL.
 *  Lifetime: none. */
IVA_API int iva_space_validate(struct iva_space *space, struct iva_report *report) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- inline paths */

static inline uint64_t iva_area_flags(const struct iva_area *area) {
    return ivs_load_acquire_64_(&area->flags_); /* [P1] */
}

#endif /* IVADDR_H */

/* ================================================================================ IMPLEMENTATION */

#if defined(IVADDR_IMPLEMENTATION) && !defined(IVADDR_IMPLEMENTED_)
#define IVADDR_IMPLEMENTED_

/* The declarations may have been there before: ivskip.h's bodies, once. */
#if !defined(IVSKIP_IMPLEMENTATION)
#define IVSKIP_IMPLEMENTATION
#endif
#include "ivskip.h"

/*
 * Rules (cited at the lines that need or keep them)
 *
 *   A1  an operation decides only by what its locks hold still: the locked areas, the empty space around them, and the
 *       two areas beside that space (ivs_lock_before, ivs_lock_after). What was seen without a lock is a guess.
 *   A2  first everything that may fail: nodes, callbacks, charges. Then one swap (of a move with two locks: target,
 *       then source), which cannot fail. What one counter granted goes back if another
 *       refuses.
 *   A3  counters are charged before the commit and uncharged after it, by the difference that the commit makes.
 *   A4  an area's word changes in place only under the lock that has its node among the locked ones, and only if it is
 *       the one change of the operation.
 *   A5  whoever leaves more room than there was says so in frees_ after its commit, then corrects the facts that are
 *       not true any more, and then says in frees_ that it is done. Whoever learns a fact looks at frees_ before its
 *       search, when nobody may be at it (else it builds on facts that are not true any more), and after it wrote:
 *       one of the two sees the other.
 *   A6  two ranges are locked in ascending order, and only with an area between them; else as one.
 *
 * Pairs of memory orders (release side -> acquire side, and what breaks without)
 *
 *   P1  an area's word is changed -> it is read: what the changer did before.
 *   P2  a gate's mode is let go -> the next is taken: what its holder did; the turn is passed -> it is one's turn.
 *   P3  bump of a gate's event -> load of it by a waiter, before it looks again: else a lost wake.
 *   P4  uncharge -> charge: whoever gave the units back is done with them.
 *   P5  frees_ is changed -> it is looked at, and back (RMW on both sides): A5.
 *   P6  a fact is written -> it is read, between two looks at the same even learning_.
 *   P7  a new end of the heap, new flags for areas to come -> load of them.
 */

#if IVSKIP_DEBUG
#define IVA_ASSERT_(condition) IVSKIP_ASSERT(condition)
#else
#define IVA_ASSERT_(condition) ((void)0)
#endif

#define IVA_SPACE_MAGIC_ UINT64_C(0x6976616464723031)

/* -------------------------------------------------------------------------------- gate */

#define IVA_UNIT_LR_ UINT64_C(1)
#define IVA_UNIT_LW_ (UINT64_C(1) << 16)
#define IVA_UNIT_GR_ (UINT64_C(1) << 32)
#define IVA_UNIT_GW_ (UINT64_C(1) << 48)
#define IVA_MASK_    UINT64_C(0xffff) /* times a unit: all of them */

int iva_gate_init(struct iva_gate *gate) {
    if (!gate) return IVA_EINVAL;
    __builtin_memset(gate, 0, sizeof(*gate));
    return 0;
}

int iva_gate_destroy(struct iva_gate *gate) {
    if (!gate) return IVA_EINVAL;
    return ivs_load_relaxed_64_(&gate->cell_) ? IVA_EBUSY : 0;
}

static uint64_t iva_gate_unit_(unsigned mode) {
    return mode == IVA_LR ? IVA_UNIT_LR_ : mode == IVA_LW ? IVA_UNIT_LW_ : mode == IVA_GR ? IVA_UNIT_GR_ : IVA_UNIT_GW_;
}

/* Whose counts keep a mode out. GR and GW of others are waited for by turn, but for the readers that GW must drain. */
static uint64_t iva_gate_bar_(unsigned mode) {
    if (mode == IVA_LR) return IVA_UNIT_GW_ * IVA_MASK_;
    if (mode == IVA_LW) return (IVA_UNIT_GW_ | IVA_UNIT_GR_) * IVA_MASK_;
    if (mode == IVA_GR) return IVA_UNIT_LW_ * IVA_MASK_;
    return (IVA_UNIT_LR_ | IVA_UNIT_LW_ | IVA_UNIT_GR_) * IVA_MASK_;
}

static void iva_gate_wake_(struct iva_gate *gate) {
    (void)ivs_add_release_32_(&gate->event_, 1); /* [P3] */
    IVSKIP_HOST_WAKE(&gate->event_);
}

static bool iva_gate_open_(struct iva_gate *gate, uint64_t bar) {
    return !(ivs_load_acquire_64_(&gate->cell_) & bar); /* [P2] */
}

static void iva_park_(uint32_t *word, uint32_t ticket) {
#if IVS_RCU_IS_(URCU_QSBR)
    urcu_qsbr_thread_offline();
#endif
    IVSKIP_HOST_PARK(word, ticket, UINT64_MAX);
#if IVS_RCU_IS_(URCU_QSBR)
    urcu_qsbr_thread_online();
#endif
}

/* Waits until none of `bar` is in, or (bar 0) until it is the turn of `turn`. */
static void iva_gate_await_(struct iva_gate *gate, uint64_t bar, uint32_t turn) {
    for (;;) {
        uint32_t ticket = ivs_load_acquire_32_(&gate->event_); /* [P3] before the look, or the wake may be missed */
        for (int i = 0; i <= IVSKIP_SPIN; i++) {
            if (bar ? iva_gate_open_(gate, bar) : ivs_load_acquire_32_(&gate->serving_) == turn) return; /* [P2] */
            IVSKIP_RELAX();
        }
        iva_park_(&gate->event_, ticket);
    }
}

static void iva_gate_pass_(struct iva_gate *gate, uint32_t turn) {
    ivs_store_release_32_(&gate->serving_, turn + 1); /* [P2] */
    iva_gate_wake_(gate);
}

/* A local announces itself, and backs out if a global is in or waits. */
static bool iva_gate_local_(struct iva_gate *gate, unsigned mode) {
    uint64_t unit = iva_gate_unit_(mode);
    if (!(ivs_add_acq_rel_64_(&gate->cell_, unit) & iva_gate_bar_(mode))) return true; /* [P2] */
    (void)ivs_add_relaxed_64_(&gate->cell_, 0 - unit);
    iva_gate_wake_(gate); /* it may have seen the count */
    return false;
}

static void iva_gate_global_(struct iva_gate *gate, unsigned mode) {
    uint32_t turn = ivs_add_relaxed_32_(&gate->next_, 1);
    iva_gate_await_(gate, 0, turn);
    (void)ivs_add_acq_rel_64_(&gate->cell_, iva_gate_unit_(mode)); /* [P2] */
    if (mode == IVA_GR) iva_gate_pass_(gate, turn);                /* announced: the next global may queue behind it */
    iva_gate_await_(gate, iva_gate_bar_(mode), 0);
}

static bool iva_gate_try_global_(struct iva_gate *gate, unsigned mode) {
    uint32_t turn = ivs_load_acquire_32_(&gate->serving_), next = turn; /* [P2] */
    uint64_t cell = ivs_load_relaxed_64_(&gate->cell_), bar = iva_gate_bar_(mode);
    bool in = false;
    if ((cell & bar) || !ivs_cas_relaxed_32_(&gate->next_, &next, turn + 1)) return false;
    while (!in && !(cell & bar)) in = ivs_cas_acq_rel_64_(&gate->cell_, &cell, cell + iva_gate_unit_(mode)); /* [P2] */
    if (!in || mode == IVA_GR) iva_gate_pass_(gate, turn);
    return in;
}

static int iva_gate_take_(struct iva_gate *gate, unsigned mode, struct iva_hold *hold, bool wait) {
    bool in = true;
    if (!hold) return IVA_EINVAL;
    hold->gate = NULL;
    if (!gate || mode < IVA_GR || mode > IVA_LW) return IVA_EINVAL;
    if (mode == IVA_LR || mode == IVA_LW) {
        while (!(in = iva_gate_local_(gate, mode)) && wait) iva_gate_await_(gate, iva_gate_bar_(mode), 0);
    } else if (wait) {
        iva_gate_global_(gate, mode);
    } else {
        in = iva_gate_try_global_(gate, mode);
    }
    if (!in) return IVA_EBUSY;
    hold->gate = gate;
    hold->mode_ = mode;
    return 0;
}

int iva_gate_lock(struct iva_gate *gate, enum iva_gate_mode mode, struct iva_hold *hold) {
    return iva_gate_take_(gate, (unsigned)mode, hold, true);
}

int iva_gate_trylock(struct iva_gate *gate, enum iva_gate_mode mode, struct iva_hold *hold) {
    return iva_gate_take_(gate, (unsigned)mode, hold, false);
}

int iva_gate_unlock(struct iva_hold *hold) {
    struct iva_gate *gate;
    uint64_t unit, old;
    if (!hold) return IVA_EINVAL;
    if (!hold->gate) return ivs_misuse_();
    gate = hold->gate;
    hold->gate = NULL;
    unit = iva_gate_unit_(hold->mode_);
    old = ivs_add_acq_rel_64_(&gate->cell_, 0 - unit); /* [P2] */
    if (hold->mode_ == IVA_GW) {
        iva_gate_pass_(gate, ivs_load_relaxed_32_(&gate->serving_));
    } else if (hold->mode_ == IVA_GR || (old & ((IVA_UNIT_GW_ | IVA_UNIT_GR_) * IVA_MASK_))) {
        iva_gate_wake_(gate);
    }
    return 0;
}

/* -------------------------------------------------------------------------------- counter */

int iva_counter_init(struct iva_counter *counter, uint64_t limit) {
    if (!counter) return IVA_EINVAL;
    counter->used_ = 0;
    counter->limit_ = limit;
    return 0;
}

int iva_counter_destroy(struct iva_counter *counter) {
    if (!counter) return IVA_EINVAL;
    counter->used_ = 0;
    return 0;
}

int iva_counter_charge(struct iva_counter *counter, uint64_t amount) {
    uint64_t used, limit;
    if (!counter) return IVA_EINVAL;
    used = ivs_load_acquire_64_(&counter->used_); /* [P4] */
    do {
        limit = ivs_load_relaxed_64_(&counter->limit_);
        if (used > limit || amount > limit - used) return IVA_ENOMEM;
    } while (!ivs_cas_acq_rel_64_(&counter->used_, &used, used + amount)); /* [P4] */
    return 0;
}

void iva_counter_uncharge(struct iva_counter *counter, uint64_t amount) {
    uint64_t old;
    if (!counter) return;
    old = ivs_add_acq_rel_64_(&counter->used_, 0 - amount); /* [P4] */
    IVA_ASSERT_(old >= amount);
    (void)old;
}

int iva_counter_set_limit(struct iva_counter *counter, uint64_t limit) {
    if (!counter) return IVA_EINVAL;
    (void)ivs_exchange_acq_rel_64_(&counter->limit_, limit); /* [P4] */
    return 0;
}

uint64_t iva_counter_limit(const struct iva_counter *counter) { return ivs_load_relaxed_64_(&counter->limit_); }

uint64_t iva_counter_read(struct iva_counter *counter) { return ivs_load_acquire_64_(&counter->used_); } /* [P4] */

uint64_t iva_counter_estimate(const struct iva_counter *counter) { return ivs_load_relaxed_64_(&counter->used_); }

/* -------------------------------------------------------------------------------- areas */

static void *iva_host_of_(const struct iva_domain *domain, const struct ivs_node *node) {
    return domain->host_bytes_ ? ivs_node_payload(&domain->domain_, node) : NULL;
}

static void iva_view_of_(const struct iva_domain *domain, const struct ivs_node *node, struct iva_view *view) {
    const struct iva_area *area = iva_area_of(node);
    view->start = node->start;
    view->end = node->last + 1;
    view->flags = ivs_load_acquire_64_(&area->flags_); /* [P1] */
    view->object = node->value_;
    view->offset = area->offset_;
    view->host = iva_host_of_(domain, node);
}

/* Cuts a view to [start, last], which is a part of it. */
static void iva_view_cut_(struct iva_view *view, uint64_t start, uint64_t last) {
    if (view->object) view->offset += start - view->start;
    view->start = start;
    view->end = last + 1;
}

void iva_area_view(struct iva_space *space, const struct iva_area *area, struct iva_view *view) {
    iva_view_of_(space->domain_, &area->node, view);
}

static uint64_t iva_flags_of_(const struct ivs_node *node) {
    return ivs_load_acquire_64_(&iva_area_of(node)->flags_); /* [P1] */
}

static bool iva_joins_(const struct iva_space *space, const struct iva_view *left, const struct iva_view *right) {
    const struct iva_ops *ops = space->config_.ops;
    if (left->flags != right->flags || left->object != right->object || space->config_.separate) return false;
    if (left->object && left->offset + (left->end - left->start) != right->offset) return false;
    return !ops->joins || ops->joins(space->config_.ctx, left, right);
}

/* -------------------------------------------------------------------------------- domains */

static void *iva_alloc_(void *ctx, size_t bytes, unsigned flags) {
    struct iva_domain *domain = (struct iva_domain *)ctx;
    return domain->ops_->alloc(domain->ctx_, bytes, flags);
}

static void iva_free_(void *ctx, void *memory, size_t bytes) {
    struct iva_domain *domain = (struct iva_domain *)ctx;
    domain->ops_->free(domain->ctx_, memory, bytes);
}

static void iva_release_(void *ctx, struct ivs_node *node) {
    struct iva_domain *domain = (struct iva_domain *)ctx;
    struct iva_view view;
    if (!domain->ops_->release) return;
    iva_view_of_(domain, node, &view);
    domain->ops_->release(domain->ctx_, &view);
}

static const struct iva_ops iva_no_ops_ = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

int iva_domain_init(struct iva_domain *domain, const struct iva_domain_config *config) {
    static const struct ivs_domain_ops all = {iva_alloc_, iva_free_, iva_release_};
    static const struct ivs_domain_ops release = {NULL, NULL, iva_release_};
    struct ivs_domain_config own;
    if (!domain) return IVA_EINVAL;
    __builtin_memset(domain, 0, sizeof(*domain));
    __builtin_memset(&own, 0, sizeof(own));
    domain->ops_ = config && config->ops ? config->ops : &iva_no_ops_;
    if (!domain->ops_->alloc != !domain->ops_->free) return IVA_EINVAL;
    if (config) {
        if (config->host_bytes > 65000 || config->host_bytes % 8) return IVA_EINVAL;
        domain->ctx_ = config->ctx;
        domain->host_bytes_ = config->host_bytes;
        own.seed = config->seed;
    }
    own.ops = domain->ops_->alloc ? &all : domain->ops_->release ? &release : NULL;
    own.ctx = domain;
    own.payload_size = domain->host_bytes_ + offsetof(struct iva_area, node);
    return ivs_domain_init(&domain->domain_, &own);
}

int iva_domain_destroy(struct iva_domain *domain) { return domain ? ivs_domain_destroy(&domain->domain_) : IVA_EINVAL; }

/* -------------------------------------------------------------------------------- addresses */

static uint64_t iva_page_down_(const struct iva_space *space, uint64_t x) { return x & ~(space->page_ - 1); }

/* Rounded up, modulo 2^64: as Linux does. */
static uint64_t iva_page_up_(const struct iva_space *space, uint64_t x) {
    return (x + (space->page_ - 1)) & ~(space->page_ - 1);
}

static bool iva_aligned_(const struct iva_space *space, uint64_t x) { return !(x & (space->page_ - 1)); }

/* Does [start, start + bytes) lie below the end of the space? bytes > 0. */
static bool iva_fits_(const struct iva_space *space, uint64_t start, uint64_t bytes) {
    return bytes - 1 <= space->last_ && start <= space->last_ - (bytes - 1);
}

static uint64_t iva_pages_(const struct iva_space *space, uint64_t start, uint64_t last) {
    return (last - start) / space->page_ + 1;
}

/* The first address that must stay free below an area; its start if it does not grow. */
static uint64_t iva_guard_start_(const struct iva_space *space, const struct ivs_node *node) {
    uint64_t guard = space->config_.guard;
    if (!guard || !(iva_flags_of_(node) & IVA_GROWSDOWN)) return node->start;
    return node->start > guard ? node->start - guard : 0;
}

/* -------------------------------------------------------------------------------- facts about gaps */

/*
 * A search for a gap begins at the base and goes away from it. So that it does not meet the same small gaps on every
 * call, it keeps for each size (by power of two) how far from the base the first gap of that size, or more, can be at
 * all. `frees_` and `learning_` keep that true [A5]; a fact that is less than could be known is no harm.
 */

#define IVA_FREES_BEGUN_ (UINT64_C(1) << 16)
#define IVA_FREES_OPEN_  UINT64_C(0xffff)

static unsigned iva_class_(const struct iva_space *space, uint64_t bytes) {
    uint64_t pages = bytes / space->page_;
    unsigned rank = 63 - (unsigned)__builtin_clzll(pages | 1);
    return rank < IVA_FACTS_ ? rank : IVA_FACTS_ - 1;
}

/* How far from the base a search for `bytes` may begin. */
static uint64_t iva_known_(struct iva_space *space, uint64_t bytes) {
    uint32_t before = ivs_load_acquire_32_(&space->learning_); /* [P6] */
    uint64_t best = 0;
    if (before & 1) return 0;
    for (unsigned i = 0; i <= iva_class_(space, bytes); i++) {
        uint64_t least = ivs_load_acquire_64_(&space->facts_[i].bytes);       /* [P6] */
        uint64_t distance = ivs_load_acquire_64_(&space->facts_[i].distance); /* [P6] */
        if (least <= bytes && distance > best) best = distance;
    }
    return ivs_load_relaxed_32_(&space->learning_) == before ? best : 0;
}

/* A search that saw `frees` when it began met no gap of `bytes` nearer than `distance`. */
static void iva_learn_(struct iva_space *space, uint64_t bytes, uint64_t distance, uint64_t frees) {
    struct iva_fact_ *fact = &space->facts_[iva_class_(space, bytes)];
    uint32_t turn = ivs_load_relaxed_32_(&space->learning_);
    if ((turn & 1) || (frees & IVA_FREES_OPEN_) || ivs_load_relaxed_64_(&space->frees_) != frees) return;
    if (!ivs_cas_acq_rel_32_(&space->learning_, &turn, turn + 1)) return; /* [P6] */
    ivs_store_release_64_(&fact->bytes, bytes);                           /* [P6] */
    ivs_store_release_64_(&fact->distance, distance);                     /* [P6] */
    if (ivs_add_acq_rel_64_(&space->frees_, 0) != frees)                  /* [P5] */
        ivs_store_release_64_(&fact->distance, 0);                        /* [P6] */
    ivs_store_release_32_(&space->learning_, turn + 2);                   /* [P6] */
}

/* How far from the base the near end of a gap is; false: it is on the other side. */
static bool iva_distance_(const struct iva_space *space, uint64_t start, uint64_t end, uint64_t *distance) {
    uint64_t base = space->config_.base;
    if (space->config_.policy == IVA_PLACE_BOTTOM_UP) {
        *distance = start > base ? start - base : 0;
        return end - 1 >= base;
    }
    *distance = end && end < base ? base - end : 0;
    return start < base;
}

/* [start, last] may be a gap that was not there before; frees_ has been counted. */
static void iva_forget_(struct iva_space *space, uint64_t start, uint64_t last) {
    uint64_t bytes = last - start + 1 ? last - start + 1 : UINT64_MAX, distance;
    if (!iva_distance_(space, start, last + 1, &distance)) return;
    for (unsigned i = iva_class_(space, bytes) + 1; i-- > 0;) {
        struct iva_fact_ *fact = &space->facts_[i];
        uint64_t known = ivs_load_relaxed_64_(&fact->distance);
        if (known <= distance || ivs_load_relaxed_64_(&fact->bytes) > bytes) continue;
        while (known > distance && !ivs_cas_relaxed_64_(&fact->distance, &known, distance)) {
        }
    }
}

/* -------------------------------------------------------------------------------- placement */

#ifndef IVA_STEPS_ /* tests have small spaces */
#define IVA_STEPS_ 3 /* areas that a search may pass before it notes what it learnt */
#endif

/*
 * The highest gap of `bytes` below the base that begins at `lo` or above. In a read section. As in Linux, the guard
 * gap of what grows down counts only if the gap right below would do without it; then it bounds all that comes after.
 * Facts are about gaps as such: what is learnt ends where a guard gap first came in.
 */
static bool iva_gap_below_(struct iva_space *space, uint64_t bytes, uint64_t *start) {
    uint64_t frees = ivs_load_acquire_64_(&space->frees_); /* [P5] before the search */
    uint64_t base = space->config_.base, lo = space->config_.lo, top = base - iva_known_(space, bytes);
    uint64_t guard = UINT64_MAX, learnt = 0;
    struct ivs_node *node, *above;
    bool found = false;
    unsigned steps = 0;
    if (top <= lo) return false;
    node = ivs_map_query_before_rcu(&space->map_, top - 1);
    above = node ? ivs_map_next_rcu(&space->map_, node) : ivs_map_query_next_rcu(&space->map_, top);
    for (;; steps++) {
        uint64_t from = node && node->last >= lo ? node->last + 1 : lo, end = top < guard ? top : guard;
        if ((!node || node->last < end) && end > from && end - from >= bytes) {
            uint64_t limit = above ? iva_guard_start_(space, above) : end;
            if (limit < end) {
                if (!learnt) learnt = top;
                guard = end = limit;
            }
            found = end > from && end - from >= bytes;
            *start = found ? end - bytes : *start;
        }
        if (found || !node || node->start <= lo) break;
        above = node;
        top = node->start;
        node = ivs_map_query_before_rcu(&space->map_, top - 1);
    }
    if (!learnt) learnt = found ? top : lo;
    if (steps > IVA_STEPS_) iva_learn_(space, bytes, base - learnt, frees);
    return found;
}

/* The lowest gap of `bytes` at `from` or above. In a read section. */
static bool iva_gap_above_(struct iva_space *space, uint64_t bytes, uint64_t from, uint64_t *start, bool learn) {
    uint64_t frees = ivs_load_acquire_64_(&space->frees_); /* [P5] before the search */
    uint64_t at = learn ? from + iva_known_(space, bytes) : from, learnt = 0;
    struct ivs_node *node = ivs_map_query_next_rcu(&space->map_, at);
    bool found = false;
    unsigned steps = 0;
    for (;; steps++) {
        if (at < from || !iva_fits_(space, at, bytes)) break;
        if (!node || (node->start > at && node->start - at >= bytes)) {
            found = !node || (iva_guard_start_(space, node) > at && iva_guard_start_(space, node) - at >= bytes);
            if (!learnt) learnt = at;
            if (found) break;
        }
        if (node->last == UINT64_MAX) break;
        if (node->last + 1 > at) at = node->last + 1;
        node = ivs_map_next_rcu(&space->map_, node);
    }
    if (found) *start = at;
    if (found && learn && steps > IVA_STEPS_) iva_learn_(space, bytes, learnt - from, frees);
    return found;
}

/* The gap that the policy takes; Linux looks in the upper two thirds when there is none below the base. */
static bool iva_gap_(struct iva_space *space, uint64_t bytes, uint64_t *start) {
    if (space->config_.policy == IVA_PLACE_BOTTOM_UP)
        return iva_gap_above_(space, bytes, space->config_.base, start, true);
    return iva_gap_below_(space, bytes, start);
}

static bool iva_of_disk_(const struct iva_place *place) { return place->object && (place->flags & IVA_CONGRUENT); }

/* Is it placed so that huge pages fit: a piece of a disk file that holds one, or anonymous memory of a whole number of
 * them, if that was not asked to be somewhere? */
static bool iva_large_(const struct iva_space *space, const struct iva_place *place, bool hinted) {
    uint64_t huge = space->config_.huge, bytes = place->bytes;
    if (!huge || bytes < huge || bytes > space->last_ - huge) return false;
    if (!place->object && !(place->flags & IVA_SHARED)) return !hinted && bytes % huge == 0;
    uint64_t up = (place->offset + (huge - 1)) & ~(huge - 1), end = place->offset + bytes;
    return iva_of_disk_(place) && end >= up && end - up >= huge;
}

/* Where something goes that is free to go anywhere; `hinted`: its hint was refused. In a read section. */
static bool iva_choose_rcu_(struct iva_space *space, const struct iva_place *place, bool hinted, uint64_t *start) {
    uint64_t huge = space->config_.huge, bytes = place->bytes, third = iva_page_up_(space, space->last_ / 3);
    if (iva_large_(space, place, hinted) && iva_gap_(space, bytes + huge, start)) {
        uint64_t rest = ((iva_of_disk_(place) ? place->offset : 0) - *start) & (huge - 1);
        *start += rest || space->config_.policy == IVA_PLACE_BOTTOM_UP ? rest : huge;
        return true;
    }
    if (iva_gap_(space, bytes, start)) return true;
    if (space->config_.policy == IVA_PLACE_BOTTOM_UP) return false;
    return iva_gap_above_(space, bytes, third > space->config_.lo ? third : space->config_.lo, start, false);
}

/* Is [start, start + bytes) free, and out of the guard gap of what follows? In a read section; a guess [A1]. */
static bool iva_free_rcu_(struct iva_space *space, uint64_t start, uint64_t bytes) {
    struct ivs_node *next;
    if (start < space->config_.lo || !iva_fits_(space, start, bytes)) return false;
    next = ivs_map_query_next_rcu(&space->map_, start);
    return !next || start + (bytes - 1) < iva_guard_start_(space, next);
}

/* Does a hint hold? For a large piece of a disk file Linux wants the room that placing it congruent takes, also here
 * where it is not used; if that is not free, any other place with such room is better. In a read section. */
static bool iva_take_hint_rcu_(struct iva_space *space, const struct iva_place *place, uint64_t hint) {
    uint64_t room = place->bytes + space->config_.huge, elsewhere;
    if (iva_of_disk_(place) && iva_large_(space, place, true) && !iva_free_rcu_(space, hint, room) &&
        iva_gap_(space, room, &elsewhere))
        return false;
    return iva_free_rcu_(space, hint, place->bytes);
}

/* No search found room. Frees may have happened behind it: is there none with everything held still? */
static bool iva_room_(struct iva_space *space, const struct iva_place *place, bool hinted) {
    struct ivs_lock lock;
    uint64_t start;
    bool room;
    if (ivs_map_lock(&space->map_, 0, space->last_ + 1, &lock)) return false;
    ivs_map_read_enter(&space->map_);
    room = iva_choose_rcu_(space, place, hinted, &start);
    ivs_map_read_exit(&space->map_);
    (void)ivs_map_unlock(&lock);
    return room;
}

/* A place for something: the host's, the hint's, or the policy's. 0, or -ENOMEM. */
static int iva_choose_(struct iva_space *space, struct iva_place *place, uint64_t hint, uint64_t *start) {
    const struct iva_ops *ops = space->config_.ops;
    bool found = false;
    if (!iva_fits_(space, space->config_.lo, place->bytes)) return IVA_ENOMEM;
    do {
        ivs_map_read_enter(&space->map_);
        found = hint && iva_take_hint_rcu_(space, place, hint);
        if (found) *start = hint;
        ivs_map_read_exit(&space->map_);
        while (!found && space->config_.policy == IVA_PLACE_HOOK && ops->place && place->attempt < 64) {
            if (ops->place(space->config_.ctx, place, start)) break;
            place->attempt++;
            ivs_map_read_enter(&space->map_);
            found = iva_aligned_(space, *start) && iva_free_rcu_(space, *start, place->bytes);
            ivs_map_read_exit(&space->map_);
        }
        if (!found) {
            ivs_map_read_enter(&space->map_);
            found = iva_choose_rcu_(space, place, hint != 0, start);
            ivs_map_read_exit(&space->map_);
        }
    } while (!found && iva_room_(space, place, hint != 0));
    return found ? 0 : IVA_ENOMEM;
}

/* -------------------------------------------------------------------------------- work: nodes */

#define IVA_FEW_ 6

/* Nodes that were made for an operation; used[0..n) of them become a run. */
struct iva_pool_ {
    struct ivs_domain *domain;
    struct ivs_node **node;
    size_t count, room;
    struct ivs_node *few[IVA_FEW_];
};

static void *iva_memory_(struct ivs_domain *domain, size_t bytes, unsigned flags) {
    return ivs_memory_(domain, bytes, flags);
}

static void iva_memory_free_(struct ivs_domain *domain, void *memory, size_t bytes) {
    if (domain->ops_ && domain->ops_->free) domain->ops_->free(domain->ctx_, memory, bytes);
    else IVSKIP_HOST_FREE(memory);
}

static void iva_pool_init_(struct iva_pool_ *pool, struct ivs_domain *domain) {
    pool->domain = domain;
    pool->node = pool->few;
    pool->count = 0;
    pool->room = IVA_FEW_;
}

/* May memory be asked for while a range is held? */
static bool iva_pool_may_(const struct iva_pool_ *pool, unsigned flags) {
    return flags == IVS_SLEEP || IVS_MALLOC_WHILE_HELD_ || (pool->domain->ops_ && pool->domain->ops_->alloc);
}

static bool iva_pool_grow_(struct iva_pool_ *pool, size_t room, unsigned flags) {
    struct ivs_node **node;
    if (room <= pool->room) return true;
    if (room > SIZE_MAX / sizeof(*node)) return false;
    node = (struct ivs_node **)iva_memory_(pool->domain, room * sizeof(*node), flags);
    if (!node) return false;
    for (size_t i = 0; i < pool->count; i++) node[i] = pool->node[i];
    if (pool->node != pool->few) iva_memory_free_(pool->domain, pool->node, pool->room * sizeof(*node));
    pool->node = node;
    pool->room = room;
    return true;
}

/* At least `count` nodes from `from` on. */
static bool iva_pool_fill_(struct iva_pool_ *pool, size_t count, unsigned flags) {
    if (count <= pool->count) return true;
    if (!iva_pool_may_(pool, flags) || !iva_pool_grow_(pool, count, flags)) return false;
    while (pool->count < count) {
        struct ivs_node *node = ivs_node_new(pool->domain, 0, 1, NULL, flags);
        if (!node) return false;
        pool->node[pool->count++] = node;
    }
    return true;
}

/* Frees those from `from` on, which were not used; those before are the map's. */
static void iva_pool_free_(struct iva_pool_ *pool, size_t from) {
    for (size_t i = from; i < pool->count; i++) (void)ivs_node_discard(pool->domain, pool->node[i]);
    if (pool->node != pool->few) iva_memory_free_(pool->domain, pool->node, pool->room * sizeof(*pool->node));
}

/* -------------------------------------------------------------------------------- work: edits and passes */

/* Where a piece of a run comes from, which says what callback makes it. */
enum iva_origin_ {
    IVA_OLD_,  /* a part of a locked area, perhaps with other flags: split */
    IVA_COPY_, /* elsewhere: copy */
    IVA_NEW_   /* the caller's */
};

struct iva_piece_ {
    struct iva_view view; /* as it will be */
    struct iva_view from; /* as it was, where it was; not for IVA_NEW_ */
    enum iva_origin_ origin;
    bool changed; /* else it is as before: a rest */
};

enum iva_action_ {
    IVA_NONE_,
    IVA_CUT_,   /* [start, last] becomes empty */
    IVA_FLAGS_, /* its areas lose `clear` and get `set` */
    IVA_PUT_,   /* `piece` stands there afterwards */
    IVA_UNDER_, /* inside a pass: a PUT whose piece has been told */
    IVA_MOVED_  /* what [source, source_last] has stands there afterwards; what is under its gaps stays */
};

struct iva_edit_ {
    uint64_t start, last;
    enum iva_action_ action;
    uint64_t clear, set;
    struct iva_piece_ piece;
    const struct ivs_lock *source_lock;
    struct ivs_node *source_node; /* cursor of a pass */
    uint64_t source, source_last;
};

/* A pass over a locked range: what it becomes. Twice for an operation: to count, and to make. */
struct iva_pass_ {
    struct iva_space *space;
    const struct ivs_lock *lock;
    struct iva_edit_ *edit[2]; /* ascending */
    unsigned edits, at;
    struct ivs_node **node; /* NULL: counts only */
    size_t limit;           /* nodes there are */
    size_t count;           /* pieces so far */
    size_t made;            /* pieces whose node has been given its counts */
    size_t fresh;           /* which of them is the caller's; SIZE_MAX: none */
    struct iva_piece_ open; /* the last piece, while it may still grow */
    uint64_t old_pages, new_pages, old_locked, new_locked;
    size_t same;                  /* pieces that are a whole old area, flags aside */
    size_t altered;               /* pieces that differ from what was there */
    struct ivs_node *altered_one; /* the last old area of those */
    uint64_t altered_flags;
    bool freed;      /* there will be more room */
    bool under;      /* a PUT replaces something */
    bool absorbed;   /* a new piece went into an old one */
    bool wants_left; /* the area before the locks would join */
    bool wants_right;
};

static int iva_sign_(int r) { return r > 0 ? IVA_EINVAL : r; }

static void iva_pass_write_(struct iva_pass_ *pass) {
    struct ivs_node *node = pass->node[pass->count - 1];
    if (ivs_node_set_bounds(node, pass->open.view.start, pass->open.view.end)) IVA_ASSERT_(false);
}

/* Gives the next node its content, and its counts by the callback for its origin. */
static int iva_pass_make_(struct iva_pass_ *pass, const struct iva_piece_ *piece) {
    const struct iva_domain *domain = pass->space->domain_;
    const struct iva_ops *ops = pass->space->config_.ops;
    struct ivs_node *node;
    struct iva_area *area;
    int r = 0;
    if (pass->count == pass->limit) return IVA_EINVAL; /* `joins` said otherwise before */
    node = pass->node[pass->count];
    area = iva_area_of(node);
    r = ivs_node_set_value(NULL, node, (void *)piece->view.object);
    area->offset_ = piece->view.object ? piece->view.offset : 0;
    ivs_store_relaxed_64_(&area->flags_, piece->view.flags);
    pass->open = *piece;
    pass->open.view.host = iva_host_of_(domain, node);
    if (piece->view.host && pass->open.view.host)
        __builtin_memcpy(pass->open.view.host, piece->view.host, domain->host_bytes_);
    else if (pass->open.view.host) __builtin_memset(pass->open.view.host, 0, domain->host_bytes_);
    if (piece->origin == IVA_OLD_ && ops->split)
        r = iva_sign_(ops->split(pass->space->config_.ctx, &piece->from, &pass->open.view));
    if (piece->origin == IVA_COPY_ && ops->copy)
        r = iva_sign_(ops->copy(pass->space->config_.ctx, &piece->from, &pass->open.view));
    if (piece->origin == IVA_NEW_) pass->fresh = pass->count;
    pass->count++;
    iva_pass_write_(pass);
    if (r == 0) pass->made = pass->count;
    return r;
}

/* The next piece joins the open one. */
static int iva_pass_join_(struct iva_pass_ *pass, const struct iva_piece_ *piece) {
    const struct iva_ops *ops = pass->space->config_.ops;
    int r = 0;
    if (pass->node && ops->merge) r = iva_sign_(ops->merge(pass->space->config_.ctx, &pass->open.view, &piece->view));
    if (piece->origin == IVA_NEW_) pass->absorbed = true;
    pass->altered++;
    pass->open.view.end = piece->view.end;
    pass->open.changed = true;
    if (pass->node) iva_pass_write_(pass);
    return r;
}

/* One more piece, right of all before. */
static int iva_pass_emit_(struct iva_pass_ *pass, const struct iva_piece_ *piece, struct ivs_node *whole) {
    uint64_t pages = iva_pages_(pass->space, piece->view.start, piece->view.end - 1);
    struct ivs_node *before;
    pass->new_pages += pages;
    if (piece->view.flags & IVA_LOCKED) pass->new_locked += pages;
    if (pass->count && pass->open.view.end == piece->view.start && (pass->open.changed || piece->changed) &&
        iva_joins_(pass->space, &pass->open.view, &piece->view))
        return iva_pass_join_(pass, piece);
    before = ivs_lock_before(pass->lock);
    if (!pass->count && piece->changed && before && piece->view.start == pass->lock->floor) {
        struct iva_view left;
        iva_view_of_(pass->space->domain_, before, &left);
        pass->wants_left = iva_joins_(pass->space, &left, &piece->view);
    }
    if (whole) pass->same++;
    if (!whole || piece->changed) {
        pass->altered++;
        pass->altered_one = whole;
        pass->altered_flags = piece->view.flags;
    }
    if (pass->node) return iva_pass_make_(pass, piece);
    pass->open = *piece;
    pass->count++;
    return 0;
}

/* The next edit of the pass, as a piece of work: what MOVED yields is a PUT for each source area. */
static bool iva_pass_edit_(struct iva_pass_ *pass, struct iva_edit_ *next) {
    for (; pass->at < pass->edits; pass->at++) {
        struct iva_edit_ *edit = pass->edit[pass->at];
        struct ivs_node *node;
        *next = *edit;
        if (edit->action != IVA_MOVED_) {
            pass->at++;
            return true;
        }
        while ((node = edit->source_node) != NULL && node->last < edit->source)
            edit->source_node = ivs_lock_next(edit->source_lock, node);
        if (!node || node->start > edit->source_last) continue;
        edit->source_node = ivs_lock_next(edit->source_lock, node);
        iva_view_of_(pass->space->domain_, node, &next->piece.from);
        iva_view_cut_(&next->piece.from, node->start > edit->source ? node->start : edit->source,
                      node->last < edit->source_last ? node->last : edit->source_last);
        next->piece.view = next->piece.from;
        next->piece.view.start += edit->start - edit->source;
        next->piece.view.end += edit->start - edit->source;
        next->piece.origin = IVA_COPY_;
        next->piece.changed = true;
        next->action = IVA_PUT_;
        next->start = next->piece.view.start;
        next->last = next->piece.view.end - 1;
        return true;
    }
    next->action = IVA_NONE_;
    return false;
}

static uint64_t iva_edit_flags_(const struct iva_edit_ *edit, uint64_t flags) {
    if ((edit->set & IVA_LOCKED) && (flags & IVA_SPECIAL)) return flags;
    return (flags & ~edit->clear) | edit->set;
}

/* The part [start, last] of an old area, outside of edits (edit NULL) or under FLAGS. */
static int iva_pass_rest_(struct iva_pass_ *pass, struct ivs_node *node, uint64_t start, uint64_t last,
                          const struct iva_edit_ *edit) {
    struct iva_piece_ piece;
    bool whole = start == node->start && last == node->last;
    iva_view_of_(pass->space->domain_, node, &piece.from);
    iva_view_cut_(&piece.from, start, last);
    piece.view = piece.from;
    piece.origin = IVA_OLD_;
    piece.changed = edit != NULL;
    if (edit) piece.view.flags = iva_edit_flags_(edit, piece.from.flags);
    return iva_pass_emit_(pass, &piece, whole ? node : NULL);
}

/* The piece of a PUT is told when the pass comes to its start. */
static int iva_pass_put_(struct iva_pass_ *pass, struct iva_edit_ *edit) {
    if (edit->action != IVA_PUT_) return 0;
    edit->action = IVA_UNDER_;
    return iva_pass_emit_(pass, &edit->piece, NULL);
}

/* What the edits make of one old area; `edit` is the first that ends in it or behind it. */
static int iva_pass_node_(struct iva_pass_ *pass, struct ivs_node *node, struct iva_edit_ *edit) {
    uint64_t at = node->start, pages = iva_pages_(pass->space, node->start, node->last);
    uint64_t flags = iva_flags_of_(node);
    int r = 0;
    pass->old_pages += pages;
    if (flags & IVA_LOCKED) pass->old_locked += pages;
    while (edit->action != IVA_NONE_ && edit->start <= node->last) {
        uint64_t last = edit->last < node->last ? edit->last : node->last;
        if (edit->action == IVA_FLAGS_ && iva_edit_flags_(edit, flags) == flags) { /* not to be cut for nothing */
            if (edit->last > node->last) break;
            (void)iva_pass_edit_(pass, edit);
            continue;
        }
        if (edit->start > at) {
            r = iva_pass_rest_(pass, node, at, edit->start - 1, NULL);
            at = edit->start;
        }
        if (r == 0) r = iva_pass_put_(pass, edit);
        if (r == 0 && edit->action == IVA_FLAGS_) r = iva_pass_rest_(pass, node, at, last, edit);
        if (edit->action == IVA_CUT_) pass->freed = true;
        if (edit->action == IVA_UNDER_) pass->under = true;
        if (r || edit->last > node->last) return r; /* it goes on behind the area */
        (void)iva_pass_edit_(pass, edit);
        if (last == node->last) return 0;
        at = last + 1;
    }
    return iva_pass_rest_(pass, node, at, node->last, NULL);
}

/* One pass. 0, or what a callback returned. */
static int iva_pass_run_(struct iva_pass_ *pass) {
    struct ivs_node *node = ivs_lock_first(pass->lock), *after = ivs_lock_after(pass->lock);
    struct iva_edit_ edit;
    int r = 0;
    for (unsigned i = 0; i < pass->edits; i++)
        if (pass->edit[i]->action == IVA_MOVED_)
            pass->edit[i]->source_node = ivs_lock_first(pass->edit[i]->source_lock);
    (void)iva_pass_edit_(pass, &edit);
    for (; node && r == 0; node = ivs_lock_next(pass->lock, node)) {
        while (r == 0 && edit.action != IVA_NONE_ && edit.last < node->start) {
            r = iva_pass_put_(pass, &edit);
            (void)iva_pass_edit_(pass, &edit);
        }
        if (r == 0) r = iva_pass_node_(pass, node, &edit);
    }
    for (; r == 0 && edit.action != IVA_NONE_; (void)iva_pass_edit_(pass, &edit)) r = iva_pass_put_(pass, &edit);
    if (r == 0 && after && pass->count && pass->open.changed && pass->open.view.end == after->start) {
        struct iva_view right;
        iva_view_of_(pass->space->domain_, after, &right);
        pass->wants_right = iva_joins_(pass->space, &pass->open.view, &right);
    }
    return r;
}

/* Makes ready for a run of the same edits: `node` NULL to count. */
static void iva_pass_begin_(struct iva_pass_ *pass, struct ivs_node **node, size_t limit) {
    struct iva_space *space = pass->space;
    const struct ivs_lock *lock = pass->lock;
    struct iva_edit_ *first = pass->edit[0], *second = pass->edit[1];
    unsigned edits = pass->edits;
    __builtin_memset(pass, 0, sizeof(*pass));
    pass->space = space;
    pass->lock = lock;
    pass->edit[0] = first;
    pass->edit[1] = second;
    pass->edits = edits;
    pass->node = node;
    pass->limit = limit;
    pass->fresh = SIZE_MAX;
}

/* Is the range as it was, if the pass is carried out? */
static bool iva_pass_idle_(const struct iva_pass_ *pass) { return !pass->altered && pass->count == pass->lock->count; }

/* Does one area get other flags, and is that all? Then no new node is needed [A4]. */
static bool iva_pass_in_place_(const struct iva_pass_ *pass) {
    return pass->altered == 1 && pass->altered_one && pass->same == pass->count && pass->count == pass->lock->count;
}

/* An operation failed after callbacks had made pieces: their counts go back. */
static void iva_pass_undo_(struct iva_pass_ *pass) {
    const struct iva_domain *domain = pass->space->domain_;
    for (size_t i = 0; i < pass->made; i++) {
        struct iva_view view;
        if (i == pass->fresh || !domain->ops_->release) continue;
        iva_view_of_(domain, pass->node[i], &view);
        domain->ops_->release(domain->ctx_, &view);
    }
}

/* The empty space around [start, last] after the commit. */
static void iva_pass_bounds_(const struct iva_pass_ *pass, uint64_t start, uint64_t last, uint64_t *floor,
                             uint64_t *ceiling) {
    *floor = pass->lock->floor;
    *ceiling = pass->lock->ceiling;
    for (size_t i = 0; pass->node && i < pass->count; i++) {
        const struct ivs_node *node = pass->node[i];
        if (node->last < start) {
            *floor = node->last + 1;
        } else if (node->start > last) {
            *ceiling = node->start;
            return;
        } else {
            *floor = *ceiling = start; /* something stands there */
            return;
        }
    }
}

/* The gaps that there are after the commit may contradict what was known. */
static void iva_pass_correct_(const struct iva_pass_ *pass) {
    uint64_t from = pass->lock->floor, ceiling = pass->lock->ceiling;
    for (size_t i = 0; pass->node && i < pass->count; i++) { /* no node: nothing is left */
        if (pass->node[i]->start > from) iva_forget_(pass->space, from, pass->node[i]->start - 1);
        from = pass->node[i]->last + 1;
        if (!from) return;
    }
    if (from <= ceiling - 1) iva_forget_(pass->space, from, ceiling - 1);
}

/* After the commit [A5]. */
static void iva_pass_forget_(const struct iva_pass_ *pass) {
    if (!pass->freed) return;
    (void)ivs_add_acq_rel_64_(&pass->space->frees_, IVA_FREES_BEGUN_ + 1); /* [P5] */
    iva_pass_correct_(pass);
    (void)ivs_add_acq_rel_64_(&pass->space->frees_, ~UINT64_C(0)); /* [P5] done with */
}

/* -------------------------------------------------------------------------------- work: charges */

/* A difference: what it adds is charged before the commit, what it frees is given back after it [A3]. */
static int iva_charge_(struct iva_counter *counter, uint64_t before, uint64_t after) {
    return after > before ? iva_counter_charge(counter, after - before) : 0;
}

static void iva_settle_(struct iva_counter *counter, uint64_t before, uint64_t after) {
    if (before > after) iva_counter_uncharge(counter, before - after);
}

/* What the passes of an operation add up to. */
struct iva_sum_ {
    uint64_t old_pages, new_pages, old_locked, new_locked, old_areas, new_areas;
};

static int iva_sum_charge_(struct iva_space *space, const struct iva_sum_ *sum, int locked_error) {
    if (iva_charge_(&space->total_, sum->old_pages, sum->new_pages)) return IVA_ENOMEM;
    if (iva_charge_(&space->locked_, sum->old_locked, sum->new_locked)) {
        iva_settle_(&space->total_, sum->new_pages, sum->old_pages);
        return locked_error;
    }
    if (iva_charge_(&space->areas_, sum->old_areas, sum->new_areas)) {
        iva_settle_(&space->total_, sum->new_pages, sum->old_pages);
        iva_settle_(&space->locked_, sum->new_locked, sum->old_locked);
        return IVA_ENOMEM;
    }
    return 0;
}

static void iva_sum_settle_(struct iva_space *space, const struct iva_sum_ *sum) {
    iva_settle_(&space->total_, sum->old_pages, sum->new_pages);
    iva_settle_(&space->locked_, sum->old_locked, sum->new_locked);
    iva_settle_(&space->areas_, sum->old_areas, sum->new_areas);
}

/* -------------------------------------------------------------------------------- work: lock, plan, commit */

enum { IVA_AGAIN_ = 1 }; /* of a try: nothing was done, once more */

struct iva_reach_ {
    uint64_t start, last;
    bool left, right; /* with the area before, after: it is to be joined. Then these are keys of it: */
    uint64_t low, high;
};

/* An operation that changes one range, or two. */
struct iva_work_ {
    struct iva_space *space;
    /* Under the locks [A1]: sets the edits (edit[i] lies in range[i]) and `result`, the answer once they are done.
     * Returns true if there is something to do; false: `result` is the answer. */
    bool (*plan)(struct iva_work_ *work);
    void (*done)(struct iva_work_ *work); /* after the commit, before the unlock; may be NULL */
    struct iva_reach_ range[2];           /* ascending */
    struct iva_edit_ edit[2];
    unsigned ranges, locks; /* locks: 1 if the two ranges are locked as one [A6] */
    unsigned target;        /* of two ranges: whose commit is the first */
    struct ivs_lock lock[2];
    struct iva_pass_ pass[2];
    struct iva_pool_ pool;
    size_t used; /* nodes of the pool that are the map's */
    int result;
    int locked_error; /* over the limit of locked memory */
    /* what the plans need */
    const struct iva_map_request *request;
    uint64_t address, length, new_length, to, flags;
    struct iva_view seen;
    unsigned advice;
    bool must_be_free, guess;
};

static int iva_work_lock_one_(struct iva_work_ *work, unsigned first, unsigned end, struct ivs_lock *lock) {
    const struct iva_reach_ *from = &work->range[first], *to = &work->range[end - 1];
    uint64_t start = from->left && from->low < from->start ? from->low : from->start;
    uint64_t last = to->right && to->high > to->last ? to->high : to->last;
    return ivs_map_lock(&work->space->map_, start, last + 1, lock);
}

static void iva_work_unlock_(struct iva_work_ *work) {
    for (unsigned i = work->locks; i-- > 0;) (void)ivs_map_unlock(&work->lock[i]);
}

static int iva_work_lock_(struct iva_work_ *work) {
    struct ivs_node *after;
    uint64_t second;
    int r;
    work->locks = 1;
    r = iva_work_lock_one_(work, 0, 1, &work->lock[0]);
    if (r || work->ranges == 1) return r;
    after = ivs_lock_after(&work->lock[0]);
    second =
        work->range[1].left && work->range[1].low < work->range[1].start ? work->range[1].low : work->range[1].start;
    if (after && after->last < second) { /* [A6] */
        r = iva_work_lock_one_(work, 1, 2, &work->lock[1]);
        if (r) (void)ivs_map_unlock(&work->lock[0]);
        else work->locks = 2;
        return r;
    }
    (void)ivs_map_unlock(&work->lock[0]);
    return iva_work_lock_one_(work, 0, 2, &work->lock[0]);
}

/* Counts; says what nodes are needed, and whether a neighbour must be locked too. */
static bool iva_work_count_(struct iva_work_ *work, size_t *need) {
    bool wider = false;
    *need = 0;
    for (unsigned i = 0; i < work->locks; i++) {
        struct iva_pass_ *pass = &work->pass[i];
        struct iva_reach_ *left = &work->range[i], *right = &work->range[work->locks == 1 ? work->ranges - 1 : i];
        pass->space = work->space;
        pass->lock = &work->lock[i];
        pass->edits = 0;
        for (unsigned k = 0; k < work->ranges; k++)
            if (work->edit[k].action != IVA_NONE_ && (work->locks == 1 || k == i))
                pass->edit[pass->edits++] = &work->edit[k];
        iva_pass_begin_(pass, NULL, 0);
        (void)iva_pass_run_(pass);
        if (pass->wants_left) {
            wider = left->left = true;
            left->low = pass->lock->floor - 1;
        }
        if (pass->wants_right) {
            wider = right->right = true;
            right->high = pass->lock->ceiling;
        }
        if (!iva_pass_idle_(pass) && !iva_pass_in_place_(pass)) *need += pass->count;
    }
    return !wider;
}

/* Everything that may fail [A2]. */
static int iva_work_make_(struct iva_work_ *work, struct iva_sum_ *sum) {
    size_t at = 0;
    int r = 0;
    unsigned i;
    __builtin_memset(sum, 0, sizeof(*sum));
    for (i = 0; i < work->locks && r == 0; i++) {
        struct iva_pass_ *pass = &work->pass[i];
        if (!iva_pass_idle_(pass) && !iva_pass_in_place_(pass)) {
            iva_pass_begin_(pass, work->pool.node + at, work->pool.count - at);
            r = iva_pass_run_(pass);
            at += pass->count;
        }
        sum->old_pages += pass->old_pages;
        sum->new_pages += pass->new_pages;
        sum->old_locked += pass->old_locked;
        sum->new_locked += pass->new_locked;
        sum->old_areas += work->lock[i].count;
        sum->new_areas += pass->count;
    }
    if (r == 0) {
        r = iva_sum_charge_(work->space, sum, work->locked_error);
    }
    while (r && i-- > 0)
        if (work->pass[i].node) iva_pass_undo_(&work->pass[i]);
    if (r == 0) work->used = at;
    return r;
}

static void iva_work_commit_(struct iva_work_ *work) {
    for (unsigned i = 0; i < work->locks; i++) {
        unsigned k = work->locks == 2 && work->target == 1 ? 1 - i : i;
        struct iva_pass_ *pass = &work->pass[k];
        if (iva_pass_idle_(pass)) continue;
        if (!pass->node) {
            ivs_store_release_64_(&iva_area_of(pass->altered_one)->flags_, pass->altered_flags); /* [P1] [A4] */
            continue;
        }
        if (ivs_map_swap(&work->lock[k], pass->node, pass->count)) IVA_ASSERT_(false);
    }
}

/* ---- what the host hears of a commit */

static void iva_tell_rights_(const struct iva_pass_ *pass, const struct iva_edit_ *edit) {
    const struct iva_ops *ops = pass->space->config_.ops;
    size_t count = pass->node ? pass->count : 1;
    if (!ops->protect || !((edit->clear | edit->set) & IVA_RIGHTS)) return;
    for (size_t i = 0; i < count; i++) {
        const struct ivs_node *node = pass->node ? pass->node[i] : pass->altered_one;
        struct iva_view view;
        if (!node || node->last < edit->start || node->start > edit->last) continue;
        iva_view_of_(pass->space->domain_, node, &view);
        iva_view_cut_(&view, node->start > edit->start ? node->start : edit->start,
                      node->last < edit->last ? node->last : edit->last);
        ops->protect(pass->space->config_.ctx, &view);
    }
}

/* One piece of a move: the target's old pages go, the source's come. */
static void iva_tell_moved_(const struct iva_pass_ *target, const struct iva_edit_ *edit, const struct ivs_node *node) {
    const struct iva_ops *ops = target->space->config_.ops;
    void *ctx = target->space->config_.ctx;
    uint64_t start = node->start > edit->source ? node->start : edit->source;
    uint64_t last = node->last < edit->source_last ? node->last : edit->source_last;
    uint64_t to = start + (edit->start - edit->source);
    if (node->last < edit->source || node->start > edit->source_last) return;
    if (target->under && ops->clear) ops->clear(ctx, to, to + (last - start) + 1, to, to);
    if (ops->move) ops->move(ctx, start, to, last - start + 1);
}

static void iva_tell_move_(struct iva_work_ *work, const struct iva_pass_ *target, const struct iva_edit_ *edit) {
    struct ivs_lock *lock = (struct ivs_lock *)(uintptr_t)edit->source_lock;
    const struct iva_pass_ *source = &work->pass[lock == &work->lock[0] ? 0 : 1];
    if (source->node) { /* replaced: they are kept until the unlock */
        for (struct ivs_node *node = lock->dead_; node; node = (struct ivs_node *)node->chain_)
            iva_tell_moved_(target, edit, node);
    } else {
        for (struct ivs_node *node = ivs_lock_first(lock); node; node = ivs_lock_next(lock, node))
            iva_tell_moved_(target, edit, node);
    }
}

static void iva_work_tell_edit_(struct iva_work_ *work, const struct iva_pass_ *pass, const struct iva_edit_ *edit) {
    const struct iva_ops *ops = work->space->config_.ops;
    void *ctx = work->space->config_.ctx;
    uint64_t floor, ceiling;
    if (edit->action == IVA_FLAGS_) {
        iva_tell_rights_(pass, edit);
    } else if (edit->action == IVA_CUT_ && ops->clear) {
        iva_pass_bounds_(pass, edit->start, edit->last, &floor, &ceiling);
        ops->clear(ctx, edit->start, edit->last + 1, floor, ceiling);
    } else if (edit->action == IVA_MOVED_) {
        iva_tell_move_(work, pass, edit);
    } else if (edit->action == IVA_PUT_) {
        if (pass->under && ops->clear) ops->clear(ctx, edit->start, edit->last + 1, edit->start, edit->start);
        if (edit->source_last && ops->move)
            ops->move(ctx, edit->source, edit->start, edit->source_last - edit->source + 1);
    }
}

static void iva_work_tell_(struct iva_work_ *work) {
    const struct iva_domain *domain = work->space->domain_;
    for (unsigned i = 0; i < work->ranges; i++) {
        unsigned k = work->ranges == 2 && work->target == 1 ? 1 - i : i;
        iva_work_tell_edit_(work, &work->pass[work->locks == 1 ? 0 : k], &work->edit[k]);
    }
    for (unsigned i = 0; i < work->locks; i++)
        if (work->pass[i].absorbed && work->pass[i].node && domain->ops_->release)
            domain->ops_->release(domain->ctx_, &work->edit[0].piece.view); /* the area that took it over has its own */
}

/* ---- */

static int iva_work_try_(struct iva_work_ *work) {
    struct iva_sum_ sum;
    size_t need;
    int r = iva_work_lock_(work);
    if (r) return r;
    work->result = 0;
    for (unsigned i = 0; i < work->ranges; i++) work->edit[i].action = IVA_NONE_;
    if (!work->plan(work)) {
        iva_work_unlock_(work);
        return work->result;
    }
    if (!iva_work_count_(work, &need)) {
        iva_work_unlock_(work);
        return IVA_AGAIN_;
    }
    if (!iva_pool_fill_(&work->pool, need, IVS_NOSLEEP)) {
        iva_work_unlock_(work);
        return iva_pool_fill_(&work->pool, need, IVS_SLEEP) ? (int)IVA_AGAIN_ : (int)IVA_ENOMEM;
    }
    r = iva_work_make_(work, &sum);
    if (r == 0) {
        iva_work_commit_(work);
        iva_sum_settle_(work->space, &sum);
        for (unsigned i = 0; i < work->locks; i++) iva_pass_forget_(&work->pass[i]);
        iva_work_tell_(work);
        if (work->done) work->done(work);
        r = work->result;
    }
    iva_work_unlock_(work);
    return r;
}

static void iva_work_init_(struct iva_work_ *work, struct iva_space *space, bool (*plan)(struct iva_work_ *work)) {
    __builtin_memset(work, 0, sizeof(*work));
    work->space = space;
    work->plan = plan;
    work->ranges = 1;
    work->locked_error = IVA_ENOMEM;
    iva_pool_init_(&work->pool, &space->domain_->domain_);
}

/* Runs the operation; the gate is held. */
static int iva_work_run_(struct iva_work_ *work) {
    int r;
    do r = iva_work_try_(work);
    while (r == IVA_AGAIN_);
    iva_pool_free_(&work->pool, work->used);
    iva_pool_init_(&work->pool, work->pool.domain);
    work->used = 0;
    return r;
}

static bool iva_ok_(const struct iva_space *space) { return space && space->magic_ == IVA_SPACE_MAGIC_; }

/* Runs the operation with the gate in `mode`. */
static int iva_work_gated_(struct iva_work_ *work, enum iva_gate_mode mode) {
    struct iva_hold hold;
    int r;
    if (ivs_in_section_(&work->space->domain_->domain_)) return IVA_EDEADLK;
    r = iva_gate_lock(&work->space->gate_, mode, &hold);
    if (r) return r;
    r = iva_work_run_(work);
    (void)iva_gate_unlock(&hold);
    return r;
}

/* The first locked area that ends at or after `address`. */
static struct ivs_node *iva_locked_at_(const struct ivs_lock *lock, uint64_t address) {
    struct ivs_node *node = ivs_lock_first(lock);
    while (node && node->last < address) node = ivs_lock_next(lock, node);
    return node;
}

static void iva_range_set_(struct iva_work_ *work, unsigned i, uint64_t start, uint64_t bytes) {
    work->range[i].start = start;
    work->range[i].last = start + (bytes - 1);
}

static void iva_edit_set_(struct iva_edit_ *edit, enum iva_action_ action, uint64_t start, uint64_t last) {
    edit->action = action;
    edit->start = start;
    edit->last = last;
    edit->clear = edit->set = edit->source = edit->source_last = 0;
}

/* -------------------------------------------------------------------------------- map */

/* Is [start, last] free under the lock, and (`guard`) out of the guard gap of what follows? */
static bool iva_free_locked_(const struct iva_work_ *work, const struct ivs_lock *lock, uint64_t start, uint64_t last,
                             bool guard) {
    struct ivs_node *node = iva_locked_at_(lock, start);
    if (node && node->start <= last) return false;
    if (!node) node = ivs_lock_after(lock);
    return !guard || !node || iva_guard_start_(work->space, node) > last;
}

static uint64_t iva_map_flags_(const struct iva_space *space, const struct iva_map_request *request) {
    uint64_t flags = (request->rights & IVA_RIGHTS) | request->extra | ivs_load_acquire_64_(&space->future_); /* [P7] */
    if ((request->flags & IVA_MAP_TYPE) != IVA_MAP_PRIVATE) flags |= IVA_SHARED;
    if (request->flags & IVA_MAP_LOCKED) flags |= IVA_LOCKED;
    if (flags & IVA_SPECIAL) flags &= ~(uint64_t)(IVA_LOCKED | IVA_LOCKONFAULT);
    if (request->flags & IVA_MAP_ANONYMOUS) {
        if (request->flags & IVA_MAP_GROWSDOWN) flags |= IVA_GROWSDOWN;
    } else {
        if ((flags & IVA_SHARED) && !(request->access & IVA_WRITE)) flags |= IVA_DENY_WRITE;
        if (!(request->access & IVA_EXEC)) flags |= IVA_DENY_EXEC;
    }
    return flags;
}

/* What is wrong with a request whatever the map is like, in Linux's order: before the place is looked at ... */
static int iva_map_check_(const struct iva_space *space, const struct iva_map_request *request, uint64_t bytes) {
    uint64_t fixed = request->flags & (IVA_MAP_FIXED | IVA_MAP_FIXED_NOREPLACE);
    if (!iva_aligned_(space, request->offset) || request->length == 0) return IVA_EINVAL;
    if (request->extra & ~(uint64_t)IVA_EXTRA) return IVA_EINVAL;
    if (request->flags & (IVA_MAP_HUGETLB | IVA_MAP_32BIT)) return IVA_EOPNOTSUPP;
    if (bytes == 0 || !iva_fits_(space, 0, bytes)) return IVA_ENOMEM;
    if (!fixed) return 0;
    if (!iva_fits_(space, request->address, bytes)) return IVA_ENOMEM;
    if (!iva_aligned_(space, request->address)) return IVA_EINVAL;
    return request->address < space->config_.lo ? IVA_EPERM : 0;
}

/* ... and after it. */
static int iva_map_check_late_(const struct iva_space *space, const struct iva_map_request *request, uint64_t bytes) {
    static const uint64_t legacy = 0x7c07f9f3; /* what SHARED_VALIDATE knows */
    uint64_t type = request->flags & IVA_MAP_TYPE, grows = request->flags & IVA_MAP_GROWSDOWN;
    if ((request->flags & IVA_MAP_LOCKED) && iva_counter_limit(&space->locked_) == 0) return IVA_EPERM;
    if (request->flags & IVA_MAP_ANONYMOUS) {
        if (type == IVA_MAP_SHARED) return grows ? IVA_EINVAL : 0;
        return type == IVA_MAP_PRIVATE ? 0 : IVA_EINVAL;
    }
    if (request->offset > INT64_MAX || bytes > INT64_MAX - request->offset) return IVA_EOVERFLOW;
    if (type != IVA_MAP_SHARED && type != IVA_MAP_PRIVATE && type != IVA_MAP_SHARED_VALIDATE) return IVA_EINVAL;
    if (type == IVA_MAP_SHARED_VALIDATE && (request->flags & ~legacy)) return IVA_EOPNOTSUPP;
    if (type != IVA_MAP_PRIVATE && (request->rights & IVA_WRITE) && !(request->access & IVA_WRITE)) return IVA_EACCES;
    if (!(request->access & IVA_READ)) return IVA_EACCES;
    if ((request->rights & IVA_EXEC) && !(request->access & IVA_EXEC)) return IVA_EPERM;
    return grows ? IVA_EINVAL : 0;
}

static bool iva_map_plan_(struct iva_work_ *work) {
    const struct iva_map_request *request = work->request;
    struct iva_edit_ *edit = &work->edit[0];
    uint64_t start = work->to, last = start + (work->length - 1);
    if (work->must_be_free && !iva_free_locked_(work, &work->lock[0], start, last, work->guess)) {
        work->result = IVA_EEXIST;
        return false;
    }
    work->result = iva_map_check_late_(work->space, request, work->length);
    if (work->result) return false;
    iva_edit_set_(edit, IVA_PUT_, start, last);
    __builtin_memset(&edit->piece, 0, sizeof(edit->piece));
    edit->piece.view.start = start;
    edit->piece.view.end = last + 1;
    edit->piece.view.flags = iva_map_flags_(work->space, request);
    edit->piece.view.object = request->object;
    edit->piece.view.offset = (request->flags & IVA_MAP_ANONYMOUS) ? 0 : request->offset;
    edit->piece.view.host = (void *)(uintptr_t)request->host;
    edit->piece.origin = IVA_NEW_;
    edit->piece.changed = true;
    return true;
}

/* A hint as Linux takes it: rounded down, not below the lowest address. */
static uint64_t iva_hint_(const struct iva_space *space, uint64_t address) {
    uint64_t hint = iva_page_down_(space, address);
    return hint && hint < space->config_.lo ? space->config_.lo : hint;
}

/* Gate held. Finds a place and works there until nobody else was quicker. */
static int iva_work_placed_(struct iva_work_ *work, struct iva_place *place, uint64_t hint, unsigned range) {
    int r;
    work->must_be_free = work->guess = true;
    do {
        r = iva_choose_(work->space, place, hint, &work->to);
        if (r) return r;
        iva_range_set_(work, range, work->to, place->bytes);
        r = iva_work_run_(work);
    } while (r == IVA_EEXIST);
    return r;
}

static int iva_map_gated_(struct iva_work_ *work, uint64_t bytes) {
    const struct iva_map_request *request = work->request;
    struct iva_place place;
    int r;
    if (request->flags & (IVA_MAP_FIXED | IVA_MAP_FIXED_NOREPLACE)) {
        work->must_be_free = (request->flags & IVA_MAP_FIXED_NOREPLACE) != 0;
        work->to = request->address;
        iva_range_set_(work, 0, work->to, bytes);
        return iva_work_run_(work);
    }
    r = iva_map_check_late_(work->space, request, bytes);
    if (r) return r;
    __builtin_memset(&place, 0, sizeof(place));
    place.bytes = bytes;
    place.flags = iva_map_flags_(work->space, request);
    place.object = request->object;
    place.offset = (request->flags & IVA_MAP_ANONYMOUS) ? 0 : request->offset;
    return iva_work_placed_(work, &place, iva_hint_(work->space, request->address), 0);
}

int iva_space_map(struct iva_space *space, const struct iva_map_request *request, uint64_t *address) {
    struct iva_work_ work;
    struct iva_hold hold;
    uint64_t bytes;
    int r;
    if (!iva_ok_(space) || !request || !address) return IVA_EINVAL;
    bytes = iva_page_up_(space, request->length);
    r = iva_map_check_(space, request, bytes);
    if (r) return r;
    if (ivs_in_section_(&space->domain_->domain_)) return IVA_EDEADLK;
    iva_work_init_(&work, space, iva_map_plan_);
    work.request = request;
    work.length = bytes;
    work.locked_error = IVA_EAGAIN;
    r = iva_gate_lock(&space->gate_, IVA_LW, &hold);
    if (r) return r;
    r = iva_map_gated_(&work, bytes);
    (void)iva_gate_unlock(&hold);
    if (r == 0) *address = work.to;
    return r;
}

/* -------------------------------------------------------------------------------- unmap, protect, advise, lock */

static bool iva_unmap_plan_(struct iva_work_ *work) {
    iva_edit_set_(&work->edit[0], IVA_CUT_, work->range[0].start, work->range[0].last);
    return true;
}

int iva_space_unmap(struct iva_space *space, uint64_t address, uint64_t length) {
    struct iva_work_ work;
    uint64_t bytes;
    if (!iva_ok_(space)) return IVA_EINVAL;
    bytes = iva_page_up_(space, length);
    if (!iva_aligned_(space, address) || bytes == 0 || !iva_fits_(space, address, bytes)) return IVA_EINVAL;
    iva_work_init_(&work, space, iva_unmap_plan_);
    iva_range_set_(&work, 0, address, bytes);
    return iva_work_gated_(&work, IVA_LW);
}

/* How an operation that stops at the first hole goes through its range. */
struct iva_walk_ {
    struct ivs_node *node; /* the next area */
    uint64_t at;           /* all before it is covered */
    bool whole;            /* so is all of the range */
    bool beyond;           /* it goes on where nothing is locked */
};

static void iva_walk_begin_(const struct iva_work_ *work, struct iva_walk_ *walk, uint64_t at) {
    walk->node = iva_locked_at_(&work->lock[0], at);
    walk->at = at;
    walk->whole = walk->beyond = false;
}

/* The next area, if it begins where the last one ended: locked, or beside the locks, which is held still too [A1]. */
static struct ivs_node *iva_walk_next_(const struct iva_work_ *work, struct iva_walk_ *walk) {
    struct ivs_node *node = walk->node ? walk->node : ivs_lock_after(&work->lock[0]);
    return walk->whole || walk->beyond || !node || node->start > walk->at ? NULL : node;
}

static void iva_walk_take_(const struct iva_work_ *work, struct iva_walk_ *walk, struct ivs_node *node) {
    walk->beyond = !walk->node;
    walk->whole = node->last >= work->to;
    walk->at = node->last + 1;
    if (walk->node) walk->node = ivs_lock_next(&work->lock[0], node);
}

/* Flags for what was walked, from `start` on. The locks reach to work->to at first; if many areas behind a hole are
 * locked, which would all have to be made anew, then once more with less. */
static bool iva_walk_edit_(struct iva_work_ *work, const struct iva_walk_ *walk, uint64_t start, uint64_t clear,
                           uint64_t set) {
    uint64_t last = walk->whole ? work->to : walk->at - 1;
    struct ivs_node *node = walk->node;
    if (walk->beyond) { /* there was a hole, when the locks were cut back; now there is none */
        work->range[0].last = work->to;
        work->guess = true;
        work->result = IVA_AGAIN_;
        return false;
    }
    if (!walk->whole && walk->at == start) return false; /* nothing before the hole */
    for (unsigned i = 0; i < 8 && node; i++) node = ivs_lock_next(&work->lock[0], node);
    if (!walk->whole && node && !work->guess) {
        work->range[0].last = last;
        work->result = IVA_AGAIN_;
        return false;
    }
    iva_edit_set_(&work->edit[0], IVA_FLAGS_, start, last);
    work->edit[0].clear = clear;
    work->edit[0].set = set;
    return true;
}

static bool iva_protect_plan_(struct iva_work_ *work) {
    uint64_t rights = work->flags & IVA_RIGHTS, start = work->address;
    struct ivs_node *node = iva_locked_at_(&work->lock[0], start);
    struct iva_walk_ walk;
    int answer = IVA_ENOMEM;
    work->result = IVA_ENOMEM;
    if (!node || node->start > work->to) return false;
    if (work->flags & IVA_PROT_GROWSDOWN) {
        start = node->start;
        if (!(iva_flags_of_(node) & IVA_GROWSDOWN)) work->result = IVA_EINVAL;
    } else if (node->start > start) {
        return false;
    } else if (work->flags & IVA_PROT_GROWSUP) {
        work->result = IVA_EINVAL;
    }
    if (work->result == IVA_EINVAL) return false;
    iva_walk_begin_(work, &walk, start);
    while ((node = iva_walk_next_(work, &walk)) != NULL) {
        if ((iva_flags_of_(node) & IVA_DENY) & (rights << 4)) {
            answer = IVA_EACCES;
            break;
        }
        iva_walk_take_(work, &walk, node);
    }
    work->result = walk.whole ? 0 : answer;
    return iva_walk_edit_(work, &walk, start, IVA_RIGHTS, rights);
}

int iva_space_protect(struct iva_space *space, uint64_t address, uint64_t length, uint64_t rights) {
    struct iva_work_ work;
    const uint64_t grows = IVA_PROT_GROWSDOWN | IVA_PROT_GROWSUP;
    uint64_t bytes, end;
    if (!iva_ok_(space) || (rights & grows) == grows || !iva_aligned_(space, address)) return IVA_EINVAL;
    if (length == 0) return 0;
    bytes = iva_page_up_(space, length);
    end = address + bytes;
    if (bytes == 0 || (end && end <= address) || (!end && space->last_ != UINT64_MAX)) return IVA_ENOMEM;
    if (rights & ~(grows | IVA_RIGHTS | IVA_PROT_SEM)) return IVA_EINVAL;
    if (address > space->last_) return IVA_ENOMEM; /* a hole */
    iva_work_init_(&work, space, iva_protect_plan_);
    iva_range_set_(&work, 0, address, bytes);
    if (work.range[0].last > space->last_) work.range[0].last = space->last_;
    work.address = address;
    work.to = end - 1;
    work.flags = rights;
    return iva_work_gated_(&work, IVA_LW);
}

/* ---- advise */

/* What an advice makes of an area's flags; false: it leaves them alone. */
static bool iva_advice_flags_(unsigned advice, uint64_t *clear, uint64_t *set) {
    static const struct {
        unsigned char advice;
        uint32_t clear, set;
    } table[] = {
        {IVA_ADVISE_NORMAL, IVA_RANDOM | IVA_SEQUENTIAL, 0},
        {IVA_ADVISE_RANDOM, IVA_SEQUENTIAL, IVA_RANDOM},
        {IVA_ADVISE_SEQUENTIAL, IVA_RANDOM, IVA_SEQUENTIAL},
        {IVA_ADVISE_DONTFORK, 0, IVA_DONTFORK},
        {IVA_ADVISE_DOFORK, IVA_DONTFORK, 0},
        {IVA_ADVISE_MERGEABLE, 0, IVA_MERGEABLE},
        {IVA_ADVISE_UNMERGEABLE, IVA_MERGEABLE, 0},
        {IVA_ADVISE_HUGEPAGE, IVA_NOHUGE, IVA_HUGE},
        {IVA_ADVISE_NOHUGEPAGE, IVA_HUGE, IVA_NOHUGE},
        {IVA_ADVISE_DONTDUMP, 0, IVA_DONTDUMP},
        {IVA_ADVISE_DODUMP, IVA_DONTDUMP, 0},
        {IVA_ADVISE_WIPEONFORK, 0, IVA_WIPEONFORK},
        {IVA_ADVISE_KEEPONFORK, IVA_WIPEONFORK, 0},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].advice != advice) continue;
        *clear = table[i].clear;
        *set = table[i].set;
        return true;
    }
    return false;
}

/* May an area be advised so? */
static int iva_advice_check_(unsigned advice, const struct iva_view *view) {
    uint64_t flags = view->flags;
    bool anonymous = !view->object && !(flags & IVA_SHARED);
    switch (advice) {
    case IVA_ADVISE_FREE:
        if (!anonymous) return IVA_EINVAL;
        return flags & IVA_LOCKED ? IVA_EINVAL : 0;
    case IVA_ADVISE_DONTNEED:
    case IVA_ADVISE_COLD:
    case IVA_ADVISE_PAGEOUT: return flags & IVA_LOCKED ? IVA_EINVAL : 0;
    case IVA_ADVISE_REMOVE:
        if ((flags & IVA_LOCKED) || !view->object) return IVA_EINVAL;
        return (flags & IVA_SHARED) && !(flags & IVA_DENY_WRITE) ? 0 : IVA_EACCES;
    case IVA_ADVISE_WIPEONFORK: return anonymous ? 0 : IVA_EINVAL;
    case IVA_ADVISE_DOFORK:
    case IVA_ADVISE_DODUMP: return flags & IVA_SPECIAL ? IVA_EINVAL : 0;
    default: return 0;
    }
}

static bool iva_advise_plan_(struct iva_work_ *work) {
    const struct iva_ops *ops = work->space->config_.ops;
    uint64_t start = work->range[0].start, last = work->range[0].last, at = start, clear, set;
    struct ivs_node *node = iva_locked_at_(&work->lock[0], start);
    bool hole = work->to > last, whole = false;
    int r = 0;
    for (; node && node->start <= last && r == 0; node = ivs_lock_next(&work->lock[0], node)) {
        struct iva_view view;
        iva_view_of_(work->space->domain_, node, &view);
        iva_view_cut_(&view, node->start > start ? node->start : start, node->last < last ? node->last : last);
        if (view.start > at) hole = true;
        r = iva_advice_check_(work->advice, &view);
        if (r == 0 && ops->advise) r = iva_sign_(ops->advise(work->space->config_.ctx, &view, work->advice));
        at = r ? view.start : view.end;
        whole = r == 0 && node->last >= last;
    }
    work->result = r ? r : hole || !whole ? IVA_ENOMEM : 0;
    if (!iva_advice_flags_(work->advice, &clear, &set)) return false;
    if (r && at == start) return false;
    iva_edit_set_(&work->edit[0], IVA_FLAGS_, start, r ? at - 1 : last);
    work->edit[0].clear = clear;
    work->edit[0].set = set;
    return true;
}

int iva_space_advise(struct iva_space *space, uint64_t address, uint64_t length, unsigned advice) {
    struct iva_work_ work;
    uint64_t bytes, end;
    bool known = advice <= 4 || (advice >= 8 && advice <= 25) || (advice >= 100 && advice <= 103);
    if (!iva_ok_(space) || !known || !iva_aligned_(space, address)) return IVA_EINVAL;
    bytes = iva_page_up_(space, length);
    end = address + bytes;
    if ((length && !bytes) || (bytes && end < address && end)) return IVA_EINVAL;
    if (bytes && !end && space->last_ != UINT64_MAX) return IVA_EINVAL;
    if (bytes == 0) return 0;
    if (address > space->last_) return IVA_ENOMEM;
    iva_work_init_(&work, space, iva_advise_plan_);
    iva_range_set_(&work, 0, address, bytes);
    work.to = work.range[0].last;
    if (work.range[0].last > space->last_) work.range[0].last = space->last_;
    work.advice = advice;
    return iva_work_gated_(&work, IVA_LW);
}

/* ---- lock */

static bool iva_lock_plan_(struct iva_work_ *work) {
    struct iva_walk_ walk;
    struct ivs_node *node;
    bool dark = false; /* something that cannot be filled */
    iva_walk_begin_(work, &walk, work->address);
    while ((node = iva_walk_next_(work, &walk)) != NULL) {
        if (!(iva_flags_of_(node) & IVA_RIGHTS)) dark = true;
        iva_walk_take_(work, &walk, node);
    }
    work->result = !walk.whole || (dark && work->flags == IVA_LOCKED) ? IVA_ENOMEM : 0;
    return iva_walk_edit_(work, &walk, work->address, IVA_LOCKED | IVA_LOCKONFAULT, work->flags);
}

static int iva_lock_range_(struct iva_space *space, uint64_t address, uint64_t length, uint64_t flags) {
    struct iva_work_ work;
    uint64_t start = iva_page_down_(space, address), bytes = iva_page_up_(space, length + (address - start));
    uint64_t end = start + bytes;
    if ((end < start && end) || (bytes && !end && space->last_ != UINT64_MAX)) return IVA_EINVAL;
    if (bytes == 0) return 0;
    if (start > space->last_) return IVA_ENOMEM;
    iva_work_init_(&work, space, iva_lock_plan_);
    iva_range_set_(&work, 0, start, bytes);
    work.address = start;
    work.to = work.range[0].last;
    if (work.range[0].last > space->last_) work.range[0].last = space->last_;
    work.flags = flags;
    return iva_work_gated_(&work, IVA_LW);
}

int iva_space_lock(struct iva_space *space, uint64_t address, uint64_t length, unsigned flags) {
    if (!iva_ok_(space) || (flags & ~(unsigned)IVA_LOCK_ONFAULT)) return IVA_EINVAL;
    if (iva_counter_limit(&space->locked_) == 0) return IVA_EPERM;
    return iva_lock_range_(space, address, length, IVA_LOCKED | (flags & IVA_LOCK_ONFAULT ? IVA_LOCKONFAULT : 0));
}

int iva_space_unlock(struct iva_space *space, uint64_t address, uint64_t length) {
    if (!iva_ok_(space)) return IVA_EINVAL;
    return iva_lock_range_(space, address, length, 0);
}

static bool iva_lock_all_plan_(struct iva_work_ *work) {
    iva_edit_set_(&work->edit[0], IVA_FLAGS_, 0, work->range[0].last);
    work->edit[0].clear = IVA_LOCKED | IVA_LOCKONFAULT;
    work->edit[0].set = work->flags;
    return true;
}

/* With the gate in GW: `now` flags for all areas (if `current`), `future` ones for those to come. */
static int iva_lock_all_(struct iva_space *space, bool current, uint64_t now, uint64_t future) {
    struct iva_work_ work;
    struct iva_hold hold;
    int r;
    if (ivs_in_section_(&space->domain_->domain_)) return IVA_EDEADLK;
    r = iva_gate_lock(&space->gate_, IVA_GW, &hold);
    if (r) return r;
    iva_work_init_(&work, space, iva_lock_all_plan_);
    work.range[0].last = space->last_;
    work.flags = now;
    if (current) {
        if (now && iva_counter_read(&space->total_) > iva_counter_limit(&space->locked_)) r = IVA_ENOMEM;
        else r = iva_work_run_(&work);
    }
    if (r == 0) ivs_store_release_64_(&space->future_, future); /* [P7] */
    (void)iva_gate_unlock(&hold);
    return r;
}

int iva_space_lock_all(struct iva_space *space, unsigned flags) {
    const unsigned known = IVA_LOCK_CURRENT | IVA_LOCK_FUTURE | IVA_LOCK_ALL_ONFAULT;
    uint64_t bits;
    if (!iva_ok_(space) || flags == 0 || (flags & ~known) || flags == IVA_LOCK_ALL_ONFAULT) return IVA_EINVAL;
    if (iva_counter_limit(&space->locked_) == 0) return IVA_EPERM;
    bits = IVA_LOCKED | (flags & IVA_LOCK_ALL_ONFAULT ? IVA_LOCKONFAULT : 0);
    return iva_lock_all_(space, (flags & IVA_LOCK_CURRENT) != 0, bits, flags & IVA_LOCK_FUTURE ? bits : 0);
}

int iva_space_unlock_all(struct iva_space *space) {
    return iva_ok_(space) ? iva_lock_all_(space, true, 0, 0) : IVA_EINVAL;
}

/* -------------------------------------------------------------------------------- brk, growth */

static void iva_brk_done_(struct iva_work_ *work) {
    ivs_store_release_64_(&work->space->brk_, work->address); /* [P7] */
}

/* Locked: the heap's first page (so there is one brk at a time) to one page beyond the higher of both ends. */
static bool iva_brk_plan_(struct iva_work_ *work) {
    struct iva_space *space = work->space;
    uint64_t brk = ivs_load_acquire_64_(&space->brk_), want = work->address; /* [P7] */
    uint64_t old = iva_page_up_(space, brk), end = iva_page_up_(space, want);
    struct iva_edit_ *edit = &work->edit[0];
    struct ivs_node *node;
    if (brk != work->to) { /* another one was quicker: the range was wrong */
        work->result = IVA_EEXIST;
        return false;
    }
    if (end == old) {
        iva_brk_done_(work);
        return false;
    }
    work->result = IVA_ENOMEM;
    if (want <= brk) {
        node = iva_locked_at_(&work->lock[0], end);
        if (!node || node->start >= old) return false; /* the heap is not there any more */
        work->result = 0;
        iva_edit_set_(edit, IVA_CUT_, end, old - 1);
        return true;
    }
    node = iva_locked_at_(&work->lock[0], old);
    if (!node) node = ivs_lock_after(&work->lock[0]);
    if (!space->config_.heap && space->domain_->host_bytes_) return false;
    if (node && (node->start <= end || iva_guard_start_(space, node) < end + space->page_)) return false;
    work->result = 0;
    iva_edit_set_(edit, IVA_PUT_, old, end - 1);
    __builtin_memset(&edit->piece, 0, sizeof(edit->piece));
    edit->piece.view.start = old;
    edit->piece.view.end = end;
    edit->piece.view.flags = IVA_READ | IVA_WRITE | ivs_load_acquire_64_(&space->future_); /* [P7] */
    edit->piece.view.host = (void *)(uintptr_t)space->config_.heap;
    edit->piece.from = edit->piece.view;
    edit->piece.origin = IVA_COPY_;
    edit->piece.changed = true;
    return true;
}

uint64_t iva_space_brk(struct iva_space *space, uint64_t want) {
    struct iva_work_ work;
    uint64_t old, high, first;
    int r = 0;
    if (!iva_ok_(space)) return 0;
    do {
        old = ivs_load_acquire_64_(&space->brk_); /* [P7] */
        first = iva_page_down_(space, space->config_.brk);
        high = want > old ? want : old;
        if (want < space->config_.brk || high > space->last_ - 2 * space->page_) return old;
        high = iva_page_up_(space, high);
        iva_work_init_(&work, space, iva_brk_plan_);
        work.done = iva_brk_done_;
        work.address = want;
        work.to = old;
        iva_range_set_(&work, 0, first, high + space->page_ - first);
        r = iva_work_gated_(&work, IVA_LW);
    } while (r == IVA_EEXIST);
    return r ? old : want; /* refused when it was still that */
}

/* Room for an area that grows down to `start`: the area before it keeps its distance, if it can be accessed. */
static bool iva_grow_room_(const struct iva_space *space, const struct ivs_node *before, uint64_t start) {
    uint64_t flags;
    if (!before) return true;
    flags = iva_flags_of_(before);
    if ((flags & IVA_GROWSDOWN) || !(flags & IVA_RIGHTS)) return true;
    return start - (before->last + 1) >= space->config_.guard;
}

/* Locked: from the page that was touched to the start of the area above, which is work->to, and the area. */
static bool iva_grow_plan_(struct iva_work_ *work) {
    struct iva_space *space = work->space;
    struct iva_edit_ *edit = &work->edit[0];
    uint64_t start = work->address, last = work->to - 1, limit = ivs_load_relaxed_64_(&space->stack_limit_);
    struct ivs_node *node = iva_locked_at_(&work->lock[0], start), *before = ivs_lock_before(&work->lock[0]);
    if (node && node->last < start) node = NULL;
    work->result = IVA_EEXIST; /* not what was seen: look again */
    if (!node || node->start != work->to) return false;
    work->result = IVA_EFAULT;
    if (!(iva_flags_of_(node) & IVA_GROWSDOWN)) return false;
    if (work->range[0].left) { /* the area before may be among the locked ones */
        struct ivs_node *first = ivs_lock_first(&work->lock[0]);
        if (first != node) before = first;
    }
    if (node->last - start >= limit) work->result = IVA_ENOMEM;
    if (node->last - start >= limit || !iva_grow_room_(space, before, start)) return false;
    work->result = 0;
    iva_edit_set_(edit, IVA_PUT_, start, last);
    iva_view_of_(space->domain_, node, &edit->piece.from);
    edit->piece.view = edit->piece.from;
    edit->piece.view.start = start;
    edit->piece.view.end = last + 1;
    if (edit->piece.view.object) edit->piece.view.offset -= last + 1 - start;
    edit->piece.origin = IVA_OLD_;
    edit->piece.changed = true;
    return true;
}

static int iva_grow_(struct iva_space *space, uint64_t address, uint64_t top) {
    struct iva_work_ work;
    iva_work_init_(&work, space, iva_grow_plan_);
    work.address = iva_page_down_(space, address);
    work.to = top;
    iva_range_set_(&work, 0, work.address, top - work.address + 1);
    return iva_work_gated_(&work, IVA_LW);
}

int iva_space_touch(struct iva_space *space, uint64_t address, uint64_t access, struct iva_view *view) {
    struct iva_view own;
    int r = 0;
    if (!iva_ok_(space) || (access != IVA_READ && access != IVA_WRITE && access != IVA_EXEC)) return IVA_EINVAL;
    if (!view) view = &own;
    do {
        if (iva_space_query_next(space, address, view)) return IVA_EFAULT;
        if (view->start <= address) break;
        if (!(view->flags & IVA_GROWSDOWN) || address < space->config_.lo) return IVA_EFAULT;
        r = iva_grow_(space, address, view->start);
    } while (r == 0 || r == IVA_EEXIST);
    if (view->start > address) return r;
    if (access == IVA_READ) return view->flags & IVA_RIGHTS ? 0 : IVA_EACCES;
    return view->flags & access ? 0 : IVA_EACCES;
}

/* -------------------------------------------------------------------------------- remap */

/* The area that covers the start of the source. */
static struct ivs_node *iva_source_(const struct iva_work_ *work, const struct ivs_lock *lock) {
    struct ivs_node *node = iva_locked_at_(lock, work->address);
    return node && node->start <= work->address ? node : NULL;
}

/* What is wrong with the source of a remap that makes something new. */
static int iva_source_check_(const struct iva_work_ *work, const struct ivs_node *node) {
    uint64_t bytes = work->length < work->new_length ? work->length : work->new_length, flags, offset;
    if (!node) return IVA_EFAULT;
    flags = iva_flags_of_(node);
    if (work->length == 0 && !(flags & IVA_SHARED)) return IVA_EINVAL;
    if ((work->flags & IVA_REMAP_DONTUNMAP) && (flags & IVA_SPECIAL)) return IVA_EINVAL;
    if (bytes && bytes - 1 > node->last - work->address) return IVA_EFAULT; /* past its end */
    if (work->new_length <= work->length) return 0;
    offset = iva_area_offset(iva_area_of(node), work->address);
    if (offset + work->new_length < offset) return IVA_EINVAL;
    return flags & IVA_SPECIAL ? IVA_EFAULT : 0;
}

/* Where it is: shrink, or grow if there is room behind; -EEXIST: it must move. */
static bool iva_resize_plan_(struct iva_work_ *work) {
    struct iva_space *space = work->space;
    const struct ivs_lock *lock = &work->lock[0];
    struct ivs_node *node = iva_source_(work, lock);
    uint64_t start = work->address + work->length, end = work->address + work->new_length;
    struct iva_edit_ *edit = &work->edit[0];
    work->result = IVA_EFAULT;
    if (!node) return false;
    work->result = 0;
    if (work->new_length == work->length) return false;
    if (work->new_length < work->length) {
        if (!iva_fits_(space, work->address, work->length)) work->result = IVA_EINVAL;
        if (work->result) return false;
        iva_edit_set_(edit, IVA_CUT_, end, start - 1);
        return true;
    }
    work->result = iva_source_check_(work, node);
    if (work->result) return false;
    iva_view_of_(space->domain_, node, &work->seen);
    iva_view_cut_(&work->seen, work->address, node->last);
    if (!work->length || node->last != start - 1 || !iva_fits_(space, work->address, work->new_length) ||
        !iva_free_locked_(work, lock, start, end - 1, false)) {
        work->result = work->flags & IVA_REMAP_MAYMOVE ? IVA_EEXIST : IVA_ENOMEM;
        return false;
    }
    iva_edit_set_(edit, IVA_PUT_, start, end - 1);
    edit->piece.from = edit->piece.view = work->seen;
    edit->piece.view.start = start;
    edit->piece.view.end = end;
    if (work->seen.object) edit->piece.view.offset += work->length;
    edit->piece.origin = IVA_OLD_;
    edit->piece.changed = true;
    return true;
}

/* Source and target in ascending order. */
static void iva_move_ranges_(struct iva_work_ *work) {
    unsigned target = work->address < work->to ? 1 : 0;
    uint64_t bytes = work->length ? work->length : 1;
    work->ranges = 2;
    work->target = target;
    work->range[0].left = work->range[0].right = work->range[1].left = work->range[1].right = false;
    iva_range_set_(work, target, work->to, work->new_length);
    iva_range_set_(work, 1 - target, work->address, bytes);
}

/* Several areas move as they are: the first must begin the range or cover its begin. */
static int iva_move_all_check_(const struct iva_work_ *work, const struct ivs_lock *lock, struct ivs_node *node) {
    uint64_t last = work->address + (work->length - 1);
    if (!node) return IVA_EFAULT;
    for (; node && node->start <= last; node = ivs_lock_next(lock, node))
        if ((work->flags & IVA_REMAP_DONTUNMAP) && (iva_flags_of_(node) & IVA_SPECIAL)) return IVA_EINVAL;
    return 0;
}

static void iva_move_edits_(struct iva_work_ *work, const struct ivs_lock *lock, struct ivs_node *node, bool all) {
    struct iva_edit_ *target = &work->edit[work->target], *source = &work->edit[1 - work->target];
    uint64_t moved = work->length < work->new_length ? work->length : work->new_length;
    iva_edit_set_(target, all ? IVA_MOVED_ : IVA_PUT_, work->to, work->to + (work->new_length - 1));
    target->source_lock = lock;
    target->source = work->address;
    target->source_last = moved ? work->address + (moved - 1) : 0;
    if (!all) {
        iva_view_of_(work->space->domain_, node, &target->piece.from);
        iva_view_cut_(&target->piece.from, work->address, node->last);
        target->piece.view = target->piece.from;
        target->piece.view.start = work->to;
        target->piece.view.end = target->last + 1;
        target->piece.origin = IVA_COPY_;
        target->piece.changed = true;
    }
    if (!work->length) return;
    iva_edit_set_(source, IVA_CUT_, work->address, work->address + (work->length - 1));
    if (!(work->flags & IVA_REMAP_DONTUNMAP)) return;
    source->action = IVA_FLAGS_;
    source->clear = IVA_LOCKED | IVA_LOCKONFAULT;
}

static bool iva_move_plan_(struct iva_work_ *work) {
    bool all = (work->flags & IVA_REMAP_FIXED) && work->length == work->new_length;
    const struct ivs_lock *source = &work->lock[work->locks == 1 ? 0 : 1 - work->target];
    const struct ivs_lock *target = &work->lock[work->locks == 1 ? 0 : work->target];
    struct ivs_node *node = iva_source_(work, source);
    work->result = all ? iva_move_all_check_(work, source, node) : iva_source_check_(work, node);
    if (work->result) return false;
    if (work->length > work->new_length && !iva_fits_(work->space, work->address, work->length))
        work->result = IVA_EINVAL;
    else if (!work->must_be_free && work->to < work->space->config_.lo) work->result = IVA_EPERM;
    else if (work->must_be_free && !iva_free_locked_(work, target, work->to, work->to + (work->new_length - 1), true))
        work->result = IVA_EEXIST;
    if (work->result) return false;
    iva_move_edits_(work, source, node, all);
    return true;
}

/* FIXED onto itself with length 0: the target, which is the source, is unmapped; then there is nothing to double. */
static bool iva_onto_itself_plan_(struct iva_work_ *work) {
    work->result = iva_source_check_(work, iva_source_(work, &work->lock[0]));
    if (work->result) return false;
    if (work->to < work->space->config_.lo) work->result = IVA_EPERM;
    else work->result = IVA_EFAULT;
    iva_edit_set_(&work->edit[0], IVA_CUT_, work->range[0].start, work->range[0].last);
    return true;
}

/* Gate held: a new place that the policy chooses. */
static int iva_move_placed_(struct iva_work_ *work, uint64_t hint) {
    struct iva_place place;
    int r;
    __builtin_memset(&place, 0, sizeof(place));
    place.bytes = work->new_length;
    place.flags = work->seen.flags;
    place.object = work->seen.object;
    place.offset = work->seen.offset;
    work->plan = iva_move_plan_;
    work->must_be_free = true;
    do {
        r = iva_choose_(work->space, &place, hint, &work->to);
        if (r) return r;
        iva_move_ranges_(work);
        r = iva_work_run_(work);
    } while (r == IVA_EEXIST);
    return r;
}

/* A first look at the source: what is wrong with it comes before the want of room. */
static int iva_see_source_(struct iva_work_ *work) {
    struct ivs_node *node;
    int r;
    ivs_map_read_enter(&work->space->map_);
    node = ivs_map_query_rcu(&work->space->map_, work->address);
    r = iva_source_check_(work, node);
    if (r == 0) {
        iva_view_of_(work->space->domain_, node, &work->seen);
        iva_view_cut_(&work->seen, work->address, node->last);
    }
    ivs_map_read_exit(&work->space->map_);
    return r;
}

/* Gate held: at a given place, or DONTUNMAP at a hint. */
static int iva_remap_to_(struct iva_work_ *work, uint64_t target) {
    work->to = target;
    if (!(work->flags & IVA_REMAP_FIXED)) {
        int r = iva_see_source_(work);
        return r ? r : iva_move_placed_(work, target);
    }
    if (work->length == 0 && target == work->address) {
        work->plan = iva_onto_itself_plan_;
        iva_range_set_(work, 0, target, work->new_length);
        return iva_work_run_(work);
    }
    work->plan = iva_move_plan_;
    iva_move_ranges_(work);
    return iva_work_run_(work);
}

/* Gate held: where it is, or moved for want of room. */
static int iva_remap_at_(struct iva_work_ *work) {
    uint64_t bytes = work->new_length > work->length ? work->new_length : work->length;
    int r;
    work->to = work->address;
    work->plan = iva_resize_plan_;
    if (work->new_length == work->length) bytes = 1;
    iva_range_set_(work, 0, work->address, iva_fits_(work->space, work->address, bytes) ? bytes : 1);
    r = iva_work_run_(work);
    return r == IVA_EEXIST ? iva_move_placed_(work, 0) : r;
}

static int iva_remap_check_(const struct iva_work_ *work, uint64_t target) {
    const struct iva_space *space = work->space;
    uint64_t old = work->address, olen = work->length, nlen = work->new_length;
    const unsigned known = IVA_REMAP_MAYMOVE | IVA_REMAP_FIXED | IVA_REMAP_DONTUNMAP;
    if ((work->flags & ~(uint64_t)known) || !iva_aligned_(space, old) || nlen == 0) return IVA_EINVAL;
    if (!iva_fits_(space, 0, nlen)) return IVA_EINVAL;
    if (!(work->flags & (IVA_REMAP_FIXED | IVA_REMAP_DONTUNMAP))) return old > space->last_ ? IVA_EFAULT : 0;
    if (!iva_fits_(space, target, nlen) || !iva_aligned_(space, target)) return IVA_EINVAL;
    if (!(work->flags & IVA_REMAP_MAYMOVE)) return IVA_EINVAL;
    if ((work->flags & IVA_REMAP_DONTUNMAP) && olen != nlen) return IVA_EINVAL;
    if (old + olen > target && target + nlen - 1 >= old) return IVA_EINVAL; /* they meet */
    return old > space->last_ ? IVA_EFAULT : 0;
}

int iva_space_remap(struct iva_space *space, uint64_t old, uint64_t old_length, uint64_t new_length, unsigned flags,
                    uint64_t target, uint64_t *address) {
    struct iva_work_ work;
    struct iva_hold hold;
    int r;
    if (!iva_ok_(space) || !address) return IVA_EINVAL;
    iva_work_init_(&work, space, NULL);
    work.address = old;
    work.length = iva_page_up_(space, old_length);
    work.new_length = iva_page_up_(space, new_length);
    work.flags = flags;
    work.locked_error = IVA_EAGAIN;
    r = iva_remap_check_(&work, target);
    if (r) return r;
    if (ivs_in_section_(&space->domain_->domain_)) return IVA_EDEADLK;
    r = iva_gate_lock(&space->gate_, IVA_LW, &hold);
    if (r) return r;
    r = flags & (IVA_REMAP_FIXED | IVA_REMAP_DONTUNMAP) ? iva_remap_to_(&work, target) : iva_remap_at_(&work);
    (void)iva_gate_unlock(&hold);
    if (r == 0) *address = work.to;
    return r;
}

/* -------------------------------------------------------------------------------- begin and end */

struct iva_space_config iva_space_config_linux(void) {
    struct iva_space_config config;
    __builtin_memset(&config, 0, sizeof(config));
    config.lo = 0x10000;
    config.hi = UINT64_C(0x7ffffffff000);
    config.guard = UINT64_C(256) << 12;
    config.huge = UINT64_C(1) << 21;
    config.page_shift = 12;
    config.limit[IVA_LIMIT_AREAS] = 65530;
    config.limit[IVA_LIMIT_STACK] = UINT64_C(8) << 20;
    return config;
}

/* A limit in the units of its counter. */
static uint64_t iva_limit_units_(const struct iva_space *space, enum iva_limit which, uint64_t limit) {
    if (limit == IVA_NO_LIMIT || which == IVA_LIMIT_AREAS || which == IVA_LIMIT_STACK) return limit;
    return limit / space->page_;
}

static bool iva_config_ok_(struct iva_space_config *config) {
    uint64_t page, last = config->hi - 1;
    if (config->page_shift == 0) config->page_shift = 12;
    if (config->page_shift > 40) return false;
    page = UINT64_C(1) << config->page_shift;
    if (((config->lo | config->hi | config->base | config->guard) & (page - 1)) || config->lo > last) return false;
    if (config->huge && ((config->huge & (config->huge - 1)) || config->huge < page)) return false;
    if (config->policy != IVA_PLACE_LINUX && config->policy != IVA_PLACE_BOTTOM_UP && config->policy != IVA_PLACE_HOOK)
        return false;
    if (!config->base && config->policy == IVA_PLACE_BOTTOM_UP) config->base = config->lo;
    else if (!config->base) config->base = config->hi ? config->hi : 0 - page;
    if (config->base < config->lo || config->base - 1 > last || config->brk > last) return false;
    if (!config->ops) config->ops = &iva_no_ops_;
    return !config->ops->alloc == !config->ops->free;
}

static uint64_t iva_limit_or_none_(uint64_t limit) { return limit ? limit : IVA_NO_LIMIT; }

int iva_space_init(struct iva_space *space, const struct iva_space_config *config) {
    struct iva_space_config own;
    struct iva_domain_config domain;
    struct ivs_map_config map;
    int r = 0;
    if (!space) return IVA_EINVAL;
    own = config ? *config : iva_space_config_linux();
    if (!iva_config_ok_(&own)) return IVA_EINVAL;
    __builtin_memset(space, 0, sizeof(*space));
    __builtin_memset(&map, 0, sizeof(map));
    space->domain_ = own.domain;
    if (!own.domain) {
        domain.ops = own.ops;
        domain.ctx = own.ctx;
        domain.host_bytes = own.host_bytes;
        domain.seed = own.seed;
        r = iva_domain_init(&space->own_, &domain);
        space->domain_ = &space->own_;
    }
    if (r) return r;
    map.domain = &space->domain_->domain_;
    r = ivs_map_init(&space->map_, &map);
    if (r == 0) r = iva_gate_init(&space->gate_);
    if (r) return r;
    space->config_ = own;
    space->last_ = own.hi - 1;
    space->page_ = UINT64_C(1) << own.page_shift;
    space->brk_ = own.brk;
    space->stack_limit_ = iva_limit_or_none_(own.limit[IVA_LIMIT_STACK]);
    r = iva_counter_init(&space->areas_, iva_limit_or_none_(own.limit[IVA_LIMIT_AREAS]));
    for (int i = IVA_LIMIT_TOTAL; i <= IVA_LIMIT_LOCKED && r == 0; i++) {
        uint64_t limit = iva_limit_or_none_(own.limit[i]);
        r = iva_counter_init(i == IVA_LIMIT_TOTAL ? &space->total_ : &space->locked_,
                             iva_limit_units_(space, (enum iva_limit)i, limit));
    }
    if (r) return r;
    space->magic_ = IVA_SPACE_MAGIC_;
    return 0;
}

int iva_space_destroy(struct iva_space *space) {
    bool own;
    int r;
    if (!iva_ok_(space)) return IVA_EINVAL;
    own = space->domain_ == &space->own_;
    if (own && ivs_domain_busy_(&space->own_.domain_)) return IVA_EBUSY;
    r = iva_gate_destroy(&space->gate_);
    if (r == 0) r = ivs_map_destroy(&space->map_);
    if (r) return r;
    space->magic_ = 0;
    (void)iva_counter_destroy(&space->total_);
    (void)iva_counter_destroy(&space->locked_);
    (void)iva_counter_destroy(&space->areas_);
    return own ? iva_domain_destroy(&space->own_) : 0;
}

int iva_space_set_limit(struct iva_space *space, enum iva_limit which, uint64_t limit) {
    struct iva_hold hold;
    uint64_t units;
    int r;
    if (!iva_ok_(space) || (unsigned)which > IVA_LIMIT_STACK) return IVA_EINVAL;
    if (ivs_in_section_(&space->domain_->domain_)) return IVA_EDEADLK;
    units = iva_limit_units_(space, which, limit);
    r = iva_gate_lock(&space->gate_, IVA_GW, &hold); /* nobody goes by the old one afterwards */
    if (r) return r;
    if (which == IVA_LIMIT_TOTAL) (void)iva_counter_set_limit(&space->total_, units);
    if (which == IVA_LIMIT_LOCKED) (void)iva_counter_set_limit(&space->locked_, units);
    if (which == IVA_LIMIT_AREAS) (void)iva_counter_set_limit(&space->areas_, units);
    if (which == IVA_LIMIT_STACK) ivs_store_relaxed_64_(&space->stack_limit_, units);
    return iva_gate_unlock(&hold);
}

/* -------------------------------------------------------------------------------- fork */

/* One area of the parent, which nobody changes meanwhile. */
static int iva_fork_area_(struct iva_space *parent, struct iva_space *child, const struct ivs_node *node) {
    struct iva_domain *domain = child->domain_;
    const struct iva_ops *ops = parent->config_.ops;
    struct iva_view from, to;
    struct ivs_node *copy;
    int r = 0;
    iva_view_of_(parent->domain_, node, &from);
    if (from.flags & IVA_DONTFORK) return 0;
    copy = ivs_node_new(&domain->domain_, from.start, from.end, (void *)from.object, IVS_SLEEP);
    if (!copy) return IVA_ENOMEM;
    iva_area_of(copy)->offset_ = from.offset;
    iva_area_of(copy)->flags_ = from.flags & ~(uint64_t)(IVA_LOCKED | IVA_LOCKONFAULT);
    if (from.host) __builtin_memcpy(iva_host_of_(domain, copy), from.host, domain->host_bytes_);
    iva_view_of_(domain, copy, &to);
    if (ops->copy) r = iva_sign_(ops->copy(parent->config_.ctx, &from, &to));
    if (r == 0) r = ivs_map_insert_node(&child->map_, copy);
    if (r) {
        (void)ivs_node_discard(&domain->domain_, copy);
        return r;
    }
    child->total_.used_ += iva_pages_(child, from.start, from.end - 1);
    child->areas_.used_++;
    return 0;
}

static int iva_fork_areas_(struct iva_space *parent, struct iva_space *child) {
    struct ivs_node *node;
    int r = 0;
    ivs_map_read_enter(&parent->map_);
    node = ivs_map_query_next_rcu(&parent->map_, 0);
    ivs_map_read_exit(&parent->map_); /* the gate keeps it, and a copy may sleep */
    while (node && r == 0) {
        r = iva_fork_area_(parent, child, node);
        ivs_map_read_enter(&parent->map_);
        node = ivs_map_next_rcu(&parent->map_, node);
        ivs_map_read_exit(&parent->map_);
    }
    return r;
}

int iva_space_fork(struct iva_space *parent, struct iva_space *child, void *ctx) {
    struct iva_space_config config;
    struct iva_hold hold;
    int r;
    if (!iva_ok_(parent) || !child || child == parent) return IVA_EINVAL;
    if (ivs_in_section_(&parent->domain_->domain_)) return IVA_EDEADLK;
    config = parent->config_;
    if (ctx) config.ctx = ctx;
    r = iva_space_init(child, &config);
    if (r) return r;
    r = iva_gate_lock(&parent->gate_, IVA_GR, &hold);
    if (r == 0) {
        child->brk_ = ivs_load_acquire_64_(&parent->brk_); /* [P7] */
        child->total_.limit_ = iva_counter_limit(&parent->total_);
        child->locked_.limit_ = iva_counter_limit(&parent->locked_);
        child->areas_.limit_ = iva_counter_limit(&parent->areas_);
        child->stack_limit_ = ivs_load_relaxed_64_(&parent->stack_limit_);
        r = iva_fork_areas_(parent, child);
        (void)iva_gate_unlock(&hold);
    }
    if (r && iva_space_destroy(child)) IVA_ASSERT_(false);
    return r;
}

/* -------------------------------------------------------------------------------- looking */

static int iva_query_(struct iva_space *space, struct ivs_node *node, struct iva_view *view) {
    if (node) {
        iva_view_of_(space->domain_, node, view);
        view->host = NULL;
    }
    ivs_map_read_exit(&space->map_);
    return node ? 0 : IVA_ENOENT;
}

int iva_space_query(struct iva_space *space, uint64_t address, struct iva_view *view) {
    if (!iva_ok_(space) || !view) return IVA_EINVAL;
    ivs_map_read_enter(&space->map_);
    return iva_query_(space, ivs_map_query_rcu(&space->map_, address), view);
}

int iva_space_query_next(struct iva_space *space, uint64_t address, struct iva_view *view) {
    if (!iva_ok_(space) || !view) return IVA_EINVAL;
    ivs_map_read_enter(&space->map_);
    return iva_query_(space, ivs_map_query_next_rcu(&space->map_, address), view);
}

int iva_space_iterate(struct iva_space *space, uint64_t start, uint64_t end,
                      int (*visit)(void *ctx, const struct iva_view *view), void *ctx) {
    struct ivs_node *node;
    int r = 0;
    if (!iva_ok_(space) || !visit || (end && end <= start)) return IVA_EINVAL;
    ivs_map_read_enter(&space->map_);
    node = ivs_map_query_next_rcu(&space->map_, start);
    for (; node && node->start <= end - 1 && r == 0; node = ivs_map_next_rcu(&space->map_, node)) {
        struct iva_view view;
        iva_view_of_(space->domain_, node, &view);
        r = visit(ctx, &view);
    }
    ivs_map_read_exit(&space->map_);
    return r;
}

struct iva_measuring_ {
    struct iva_measure *measure;
    uint64_t at, last;
};

static void iva_measure_gap_(struct iva_measuring_ *state, uint64_t end) {
    uint64_t bytes = end - state->at;
    if (!bytes) return;
    state->measure->gaps++;
    if (bytes > state->measure->largest_gap) state->measure->largest_gap = bytes;
}

static int iva_measure_visit_(void *ctx, const struct iva_view *view) {
    struct iva_measuring_ *state = (struct iva_measuring_ *)ctx;
    struct iva_measure *measure = state->measure;
    uint64_t start = view->start > state->at ? view->start : state->at, bytes;
    uint64_t last = view->end - 1 < state->last ? view->end - 1 : state->last;
    if (last < start) return 0;
    bytes = last - start + 1;
    iva_measure_gap_(state, start);
    measure->areas++;
    measure->bytes += bytes;
    if (view->flags & IVA_LOCKED) measure->locked += bytes;
    if (view->flags & IVA_SHARED) measure->shared += bytes;
    if (view->flags & IVA_WRITE) measure->writable += bytes;
    if (view->flags & IVA_EXEC) measure->executable += bytes;
    if (!(view->flags & IVA_RIGHTS)) measure->inaccessible += bytes;
    state->at = last + 1;
    return last == state->last; /* the end */
}

int iva_space_measure(struct iva_space *space, uint64_t start, uint64_t end, struct iva_measure *measure) {
    struct iva_measuring_ state;
    int r;
    if (!measure) return IVA_EINVAL;
    __builtin_memset(measure, 0, sizeof(*measure));
    state.measure = measure;
    state.at = start;
    state.last = end - 1;
    r = iva_space_iterate(space, start, end, iva_measure_visit_, &state);
    if (r == 0) iva_measure_gap_(&state, end);
    return r < 0 ? r : 0;
}

static uint64_t iva_bytes_(const struct iva_space *space, uint64_t pages) {
    return pages > UINT64_MAX / space->page_ ? IVA_NO_LIMIT : pages * space->page_;
}

int iva_space_get_stats(struct iva_space *space, struct iva_space_stats *stats) {
    if (!iva_ok_(space) || !stats) return IVA_EINVAL;
    stats->total = iva_bytes_(space, iva_counter_read(&space->total_));
    stats->locked = iva_bytes_(space, iva_counter_read(&space->locked_));
    stats->areas = iva_counter_read(&space->areas_);
    stats->limit[IVA_LIMIT_TOTAL] = iva_bytes_(space, iva_counter_limit(&space->total_));
    stats->limit[IVA_LIMIT_LOCKED] = iva_bytes_(space, iva_counter_limit(&space->locked_));
    stats->limit[IVA_LIMIT_AREAS] = iva_counter_limit(&space->areas_);
    stats->limit[IVA_LIMIT_STACK] = ivs_load_relaxed_64_(&space->stack_limit_);
    stats->brk = ivs_load_acquire_64_(&space->brk_);       /* [P7] */
    stats->future = ivs_load_acquire_64_(&space->future_); /* [P7] */
    return ivs_map_get_stats(&space->map_, &stats->map);
}

/* -------------------------------------------------------------------------------- validate */

static int iva_wrong_(struct iva_report *report, const char *check, uint64_t address, uint64_t found, uint64_t wanted) {
    report->check = check;
    report->address = address;
    report->found = found;
    report->wanted = wanted;
    return IVA_EBADMSG;
}

/* No fact denies the gap [start, end). */
static int iva_validate_gap_(struct iva_space *space, uint64_t start, uint64_t end, struct iva_report *report) {
    uint64_t lo = space->config_.lo, base = space->config_.base, distance;
    bool up = space->config_.policy == IVA_PLACE_BOTTOM_UP;
    if (up && start < base) start = base;
    if (!up && start < lo) start = lo;
    if (!up && end > base) end = base;
    if (end <= start || !iva_distance_(space, start, end, &distance)) return 0;
    for (unsigned i = 0; i < IVA_FACTS_; i++)
        if (space->facts_[i].distance > distance && space->facts_[i].bytes <= end - start)
            return iva_wrong_(report, "a gap is farther than what is known", start, end - start,
                              space->facts_[i].bytes);
    return 0;
}

static int iva_validate_area_(struct iva_space *space, const struct iva_view *view, struct iva_report *report) {
    uint64_t flags = view->flags;
    if (!iva_aligned_(space, view->start) || !iva_aligned_(space, view->end))
        return iva_wrong_(report, "an area ends inside a page", view->start, view->end, 0);
    if (view->end - 1 > space->last_)
        return iva_wrong_(report, "an area goes beyond the space", view->start, view->end, space->last_);
    if (flags & (flags & IVA_DENY) >> 4 & IVA_RIGHTS)
        return iva_wrong_(report, "an area has rights that it denies", view->start, flags, 0);
    if ((flags & IVA_LOCKONFAULT) && !(flags & IVA_LOCKED))
        return iva_wrong_(report, "an area is locked on fault, but not locked", view->start, flags, 0);
    if (!view->object && view->offset)
        return iva_wrong_(report, "an area has an offset without an object", view->start, view->offset, 0);
    return 0;
}

int iva_space_validate(struct iva_space *space, struct iva_report *report) {
    struct iva_report own;
    struct iva_view view = {0, 0, 0, 0, 0, NULL};
    uint64_t pages = 0, locked = 0, areas = 0, from = 0;
    struct ivs_node *node;
    int r;
    if (!iva_ok_(space)) return IVA_EINVAL;
    if (!report) report = &own;
    __builtin_memset(report, 0, sizeof(*report));
    r = ivs_map_validate(&space->map_, &report->map);
    if (r) return iva_wrong_(report, report->map.check, report->map.node ? report->map.node->start : 0, 0, 0);
    for (node = ivs_map_query_next_rcu(&space->map_, 0); node && r == 0; node = ivs_map_next_rcu(&space->map_, node)) {
        iva_view_of_(space->domain_, node, &view);
        r = iva_validate_area_(space, &view, report);
        if (r == 0) r = iva_validate_gap_(space, from, node->start, report);
        areas++;
        pages += iva_pages_(space, view.start, view.end - 1);
        if (view.flags & IVA_LOCKED) locked += iva_pages_(space, view.start, view.end - 1);
        from = view.end;
    }
    if (r == 0 && (from || !areas)) /* of 2^64 all but the last byte */
        r = iva_validate_gap_(space, from, space->last_ == UINT64_MAX ? UINT64_MAX : space->last_ + 1, report);
    if (r) return r;
    if (space->total_.used_ != pages)
        return iva_wrong_(report, "the account of all pages", 0, space->total_.used_, pages);
    if (space->locked_.used_ != locked)
        return iva_wrong_(report, "the account of locked pages", 0, space->locked_.used_, locked);
    if (space->areas_.used_ != areas) return iva_wrong_(report, "the account of areas", 0, space->areas_.used_, areas);
    if (space->gate_.cell_) return iva_wrong_(report, "the gate is held", 0, space->gate_.cell_, 0);
    return 0;
}

#undef IVA_ASSERT_
#undef IVA_SPACE_MAGIC_
#undef IVA_UNIT_LR_
#undef IVA_UNIT_LW_
#undef IVA_UNIT_GR_
#undef IVA_UNIT_GW_
#undef IVA_MASK_
#undef IVA_FREES_BEGUN_
#undef IVA_FREES_OPEN_
#undef IVA_STEPS_
#undef IVA_FEW_

#endif /* IVADDR_IMPLEMENTATION */
