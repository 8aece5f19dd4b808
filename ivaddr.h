/* SPDX-License-Identifier: MIT */
/*
 * ivaddr.h - an address space on an interval skiplist: map, unmap, protect, remap, advise, brk, stacks that grow, locked
 * memory, limits and fork with Linux's results, errors and partial effects; disjoint operations run in parallel.
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
 *   (to come)
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
 * The host's callbacks. Any may be NULL; alloc and free come together. alloc, free and release get the ctx of the domain
 * (that of the space, if the space has its own), the others that of the space. None may call the space. Those that return
 * int may refuse with a negative error: the operation then fails with it, and nothing has changed. They run with the
 * range locked, outside read sections, and may sleep, unless it says otherwise.
 *
 * Who owns what: each area has the host's bytes, which the library copies plainly. If they, or the object, are counted,
 * each area owns one count: one comes with a successful iva_space_map; `split` and `copy` take one for the new
 * area; `release` gives one back. `merge` takes none: the area that is taken over is released in its turn.
 */
struct iva_ops {
    /* As of ivs_domain_ops. */
    void *(*alloc)(void *ctx, size_t bytes, unsigned flags);
    void (*free)(void *ctx, void *memory, size_t bytes);
    /* The end of an area, after a grace period, or at once for one that was made for an operation that then failed. Must
     * not sleep or wait. */
    void (*release)(void *ctx, const struct iva_view *area);
    /* May `right`, which begins where `left` ends, be one area with it? NULL: equal flags and object, and the offset goes
     * on (or there is no object). Must depend on its arguments only, and not sleep. */
    bool (*joins)(void *ctx, const struct iva_view *left, const struct iva_view *right);
    /* `part` will stand for a part of `old` (or for all of it, with other flags): its bytes are a copy of old's. */
    int (*split)(void *ctx, const struct iva_view *old, struct iva_view *part);
    /* `into` takes over the range of `gone`, a neighbour or a part of one. */
    int (*merge)(void *ctx, struct iva_view *into, const struct iva_view *gone);
    /* `to`, at another address or in the child of a fork, will be what `from` is. */
    int (*copy)(void *ctx, const struct iva_view *from, struct iva_view *to);
    /* Advice on a part of an area (its bounds are cut to the part), before flags change; may refuse, and what came
     * before in the range stays done. */
    int (*advise)(void *ctx, const struct iva_view *area, unsigned advice);
    /* [start, end) is not what it was: drop what the page tables have there. No page table may be freed but those
     * whose keys all lie in [floor, ceiling), which is empty space that nobody can fill meanwhile (ceiling 0: 2^64;
     * floor == ceiling: none). After the commit, before another can have the range. */
    void (*clear)(void *ctx, uint64_t start, uint64_t end, uint64_t floor, uint64_t ceiling);
    /* A part of an area has other rights now. As `clear`. */
    void (*protect)(void *ctx, const struct iva_view *area, uint64_t old_flags);
    /* What [from, from + bytes) had in the page tables belongs to [to, to + bytes) now. As `clear`; it is followed by a
     * `clear` of what was left. */
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
    size_t host_bytes;         /* beside each area; with a shared domain: the domain's */
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
    ivs_u64_ frees_;  /* commits that left more room than before */
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
    const void *host; /* the host's bytes of the area, copied; NULL: zero */
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

/** Adds `amount` if the sum stays within the limit: never above it, and refused only if at some instant of the call it did
 *  not fit.
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
 *  configuration, limits and heap. `copy` is called for each area. `child` gets the parent's ops and ctx, or `ctx` if that
 *  is not NULL, and the parent's domain if that is a shared one, else one of its own.
 *  Context: outside read sections; sleeps. Takes the parent's gate in GR: one instant of the parent is copied.
 *  Progress: linear in the areas; updates of the parent wait, queries do not.
 *  Ordering: all that was done in the parent before is in the child.
 *  Returns: 0; -EINVAL; -ENOMEM; -EDEADLK; what `copy` returned. On an error the child is no space and all that was made
 *  for it has been released; the parent is as it was.
 *  Lifetime: child: as iva_space_init. */
IVA_API int iva_space_fork(struct iva_space *parent, struct iva_space *child, void *ctx) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- API: operations */

/** mmap. Where: FIXED, at the address, over what is there; FIXED_NOREPLACE, there or not at all; else at the hint, if it
 *  is free, or where the policy says.
 *  Context: outside read sections; sleeps.
 *  Progress: blocking: waits for holders of the range and of the areas beside it.
 *  Ordering: acquire and release. Linearizable; the place that the policy chose was right at one instant of the call.
 *  Returns: 0 and the place in *address; -EINVAL: length 0, address or offset not a multiple of the page, no type, grows
 *  down but not private anonymous, bits of extra; -ENOMEM: no memory, no room, too long, beyond the end, limits of total
 *  or number; -EPERM: fixed below `lo`, locked with a limit of 0, not to be executed; -EAGAIN: limit of locked memory;
 *  -EEXIST: not free; -EACCES: the object's access; -EOVERFLOW: the offset; -EOPNOTSUPP: unknown flag with
 *  SHARED_VALIDATE, or a flag left out; -EDEADLK; what `merge` returned. On an error nothing has changed and the host's
 *  counts are still the caller's.
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
 *  bits; -ENOMEM: beyond 2^64, or a hole: what lies before the first hole *has changed*; -EACCES: an area denies it: what
 *  lies before it has changed; -ENOMEM (no memory, limit of areas), -EDEADLK, what `split` or `merge` returned: nothing
 *  has changed.
 *  Lifetime: none. */
IVA_API int iva_space_protect(struct iva_space *space, uint64_t address, uint64_t length,
                              uint64_t rights) IVS_MUST_CHECK;

/** mremap: [old, old + old_length) becomes new_length bytes, where it is or elsewhere. FIXED at `target`, over what is
 *  there; with FIXED and equal lengths several areas move, and the gaps between them stay as they are at the target.
 *  DONTUNMAP leaves the source mapped (its pages move). old_length 0 doubles a shared area.
 *  Context: as iva_space_map.
 *  Progress: as iva_space_map; a move locks both ranges, ascending.
 *  Ordering: as iva_space_map. A move that needs two commits makes the target appear before the source goes: a reader may
 *  see both. All else is linearizable.
 *  Returns: 0 and the place in *address; -EINVAL: unknown flag, not a multiple of the page, new length 0 or longer than
 *  the space, FIXED or DONTUNMAP without MAYMOVE, DONTUNMAP with another length, source and target meet, length 0 of a
 *  private area; -EFAULT: no area at `old`, or the range goes past its end, or it is SPECIAL; -ENOMEM: no room, limits,
 *  memory; -EAGAIN: limit of locked memory; -EPERM: below `lo`; -EDEADLK; what `split`, `merge` or `copy` returned. On an
 *  error nothing has changed, with one exception: length 0, FIXED onto itself unmaps the target, then says -EFAULT.
 *  Lifetime: as iva_space_unmap. */
IVA_API int iva_space_remap(struct iva_space *space, uint64_t old, uint64_t old_length, uint64_t new_length,
                            unsigned flags, uint64_t target, uint64_t *address) IVS_MUST_CHECK;

/** madvise. Holes are skipped: the rest is done, then -ENOMEM is the answer.
 *  Context: as iva_space_map.
 *  Progress: as iva_space_map.
 *  Ordering: as iva_space_map. Linearizable, as far as flags are concerned.
 *  Returns: 0; -EINVAL: unknown advice, not a multiple of the page, beyond 2^64; DONTNEED, FREE, REMOVE, COLD, PAGEOUT of a
 *  locked area, FREE and WIPEONFORK of one that is not private anonymous, REMOVE of one without an object, DOFORK and
 *  DODUMP of a SPECIAL one; -EACCES: REMOVE of one that may not be written or is not shared; what
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
 *  Returns: 0; -EINVAL: no or unknown flags, ONFAULT alone; -EPERM: the limit is 0; -ENOMEM: over the limit, or no memory;
 *  -EDEADLK; what `split` or `merge` returned. On an error nothing has changed.
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
 *  rights say no (it has grown all the same); -EINVAL: no such access; -ENOMEM: growth was refused by a limit or for want
 *  of memory; -EDEADLK; what `split` or `merge` returned.
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
