/* SPDX-License-Identifier: MIT */
/*
 * ivskip.h - a concurrent interval skiplist: an interval map over 64-bit keys whose look-ups take no lock,
 * whose disjoint updates run in parallel, and whose search and range lock are one step.
 *
 *     #define IVSKIP_IMPLEMENTATION            // in exactly one .c file
 *     #include "ivskip.h"
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         struct ivs_map map;
 *         struct ivs_entry hit;
 *         char text[] = "text", data[] = "data";
 *         if (ivs_map_init(&map, NULL)) return 1;
 *         if (ivs_map_map(&map, 0x1000, 0x9000, text)) return 1;     // [0x1000, 0x9000) -> text
 *         if (ivs_map_map(&map, 0x4000, 0x5000, data)) return 1;     // overwrites the middle
 *         if (ivs_map_unmap(&map, 0x8000, 0x9000)) return 1;         // shortens the right part
 *         for (uint64_t key = 0; ivs_map_lookup_next(&map, key, &hit) == 0; key = hit.end) {
 *             printf("[%#llx, %#llx) %s\n", (unsigned long long)hit.start, (unsigned long long)hit.end,
 *                    (char *)hit.value);
 *             if (hit.end == 0) break;                               // 0 stands for 2^64
 *         }
 *         return ivs_map_destroy(&map);
 *     }
 *
 * MANUAL
 *
 * 1. Concepts
 *
 *   interval   half-open [start, end) over 64-bit keys. `end` is exclusive everywhere; end == 0 stands for 2^64, so
 *              that the last key can be covered and [0, 0) is the whole space. Any other end <= start is -EINVAL.
 *   node       one mapped interval (struct ivs_node). Its bounds never change once it is published: a new bound is a
 *              new node. It carries one pointer, and, where the domain asks for it, payload bytes beside it.
 *   gap        the empty keys between two neighbouring nodes. A lock on a node covers the gap after it.
 *   map        the set of nodes (struct ivs_map), kept by the caller.
 *   domain     where nodes come from and where they go (struct ivs_domain): allocator, payload size, release
 *              callback, reclamation. A map has one of its own unless several are told to share one.
 *   read section  from ivs_map_read_enter to ivs_map_read_exit. A node found inside stays readable until the section
 *              ends, also when it is replaced meanwhile. Sections nest, take no lock and need no registration.
 *
 *        level 2  head ------------------------------> [40,50) ----------------------> .
 *        level 1  head ------------> [10,20) --------> [40,50) --------> [60,61) ----> .
 *        level 0  head -> [0,5) ---> [10,20) -> [20,30) -> [40,50) ----> [60,61) ----> .     <- the truth
 *                         locking [20,30) takes these: ^^^^^^^ ^^^^^^^ predecessor and node, each with the gap behind
 *
 *   Level 0 is the truth; the levels above are hints that make searches short. Locks are bits in the level-0 links,
 *   so a lock request and the search are one walk, and nothing is looked up twice.
 *
 * 2. Writing a correct program
 *
 *   - Look up in a read section (ivs_map_query_rcu and friends) and do not keep a node after it; or copy the
 *     answer out (ivs_map_lookup).
 *   - Simple updates: ivs_map_map (overwrite), ivs_map_unmap, ivs_map_insert (only if free),
 *     ivs_map_alloc (find room).
 *   - Own updates: prepare as many nodes as may be needed (ivs_node_new, any bounds); ivs_map_lock(range); look at
 *     the locked nodes (ivs_lock_first, ivs_lock_next) and at the empty space that is owned with them ([lock.floor,
 *     lock.ceiling)). Locked nodes may stick out of the range: the run must hold nodes for their outer parts too, or
 *     those keys are unmapped. Set bounds, value and payload of the prepared nodes (ivs_node_set_bounds,
 *     ivs_node_set_value with lock NULL), ivs_map_swap, ivs_map_unlock, ivs_node_discard what was not needed. Too
 *     few: unlock, prepare more, start again.
 *   - While you hold a range, change the map with ivs_map_swap and ivs_node_set_value only: the other updates might
 *     wait for you (only calls inside a read section are detected, as -EDEADLK).
 *   - What a value points to must outlive its readers: free it in the domain's release callback (which runs a grace
 *     period after the node went), or with ivs_domain_defer after ivs_node_set_value.
 *   - A node's value is split when an update cuts it: give a `fragment` callback if a plain copy of the pointer and
 *     of the payload bytes will not do (reference counts, file offsets). With reference counts each node owns one:
 *     take one in each call of `fragment` (two calls if the middle of a node is cut out), drop one in each `release`.
 *     ivs_map_swap does not call `fragment`: take one for each node of the run. ivs_node_discard and an update that
 *     fails do not call `release` for a node of yours: drop that one yourself.
 *   - Lock several ranges only in ascending order of keys, and only if a node lies between them (it starts at the
 *     ceiling of the first lock and ends at or before the start of the second): a lock takes the node
 *     before its range too, and would wait for its own thread if that is held. Closer ranges are locked as
 *     one, first start to last end.
 *   - Never block on a lock inside a read section.
 *   - When a map has been filled, and when it has grown a few times over: ivs_map_tune. Searches then begin near
 *     their key; without it they cost what towers cost, several times as much in maps of 10,000 nodes and more.
 *
 * 3. Guarantees
 *
 *   G1  Query, Query-next, Map, Unmap, Insert, Alloc and Swap are linearizable: each takes effect at one instant
 *       between call and return. (Two readers may disagree on the order of two independent updates on hosts that are
 *       not multi-copy atomic, such as POWER.)
 *   G2  A reader never sees a key uncovered while its interval is being replaced, and never a replaced node again
 *       after it saw the new one.
 *   G3  Iteration ascends: each node ends after the one before it (it may start inside it, if that was replaced
 *       meanwhile). It sees each node whole, and is not an atomic snapshot.
 *   G4  An update changes nothing if it fails.
 *   G5  Updates of ranges whose locked parts (the nodes they meet, the predecessor, the gaps behind these) do not
 *       meet run in parallel. A thread that stops for ever stops only those who want what it holds.
 *   G6  A node is released after the end of every read section that was open when it left the map.
 *   G7  Alloc answers that there is no room only if at some instant of the call no gap in the window fitted. (-ENOMEM
 *       is also the answer when there is no memory for a node; ivs_map_alloc_node allocates nothing.)
 *
 *   Ordering: what a thread wrote before it published a node or a value is visible to whoever finds it (release and
 *   acquire). Unlock of a range happens before the next lock of it.
 *
 * 4. Progress
 *
 *   Query, Query-next and iteration: wait-free for a bounded number of concurrent inserts, never blocked, never
 *   thrown back (with an entry table a search may begin a second time, at the head). Lock: blocking, ascending, so
 *   single-range lockers cannot deadlock. Insert and Alloc: lock-free unless the gap that they want is held. A stalled
 *   reader holds back memory only; ivs_domain_get_stats tells.
 *
 * 5. Options (define before the include, in every file alike where marked *; a mismatch of IVSKIP_RCU or
 *    IVSKIP_MAX_HEIGHT does not link)
 *
 *   IVSKIP_IMPLEMENTATION   bodies are compiled here; in one file of a program
 *   IVSKIP_STATIC           all is private to this file (implies the implementation)
 *   IVSKIP_CONFIG         * quoted name of a header with the host's hooks (section 8); default: none
 *   IVSKIP_ATOMICS          quoted name of a header that defines the functions of IVS_ATOMICS_ in its own way, for
 *                           checkers; default: none
 *   IVSKIP_RCU            * how readers are protected (section 7): BUILTIN (default), URCU_MEMB, URCU_QSBR, URCU_BP,
 *                           HOST
 *   IVSKIP_MAX_HEIGHT     * highest tower, 2..40, default 24; 12 suffice for ten million nodes
 *   IVSKIP_SPIN             looks at a held link before the thread sleeps, 0..1000000, default 100
 *   IVSKIP_RETIRE_BATCH     nodes a thread collects before it tries to end a grace period, 1..65536, default 128
 *   IVSKIP_LINK_TRIES       lost races after which a tower is left lower than drawn, 1..1000000, default 16
 *   IVSKIP_DEBUG            1: misuse goes to IVSKIP_ASSERT, which traps without a message unless you define it;
 *                           0 (default): misuse is an error code
 *
 * 6. Limits
 *
 *   Ranges that lie in one gap, or behind the same node, exclude each other: a lock takes the node before the range
 *   and the gap. An empty map is one gap. Equal neighbours are never joined. Alloc is linear in the nodes that it
 *   passes. 64-bit keys; compilers with GNU atomics (gcc, clang); nodes 8-byte aligned. Not async-signal-safe. After
 *   fork() the child must call ivs_map_reset_after_fork before it uses a map that other threads of the parent used.
 *   IVSKIP_STATIC gives each file maps of its own: do not hand them to another file.
 *
 * 7. RCU
 *
 *   BUILTIN   epochs, in userspace with pthreads; no dependency, no registration, no thread of its own.
 *   URCU_*    liburcu's flavour of that name (link -lurcu-memb, -lurcu-qsbr or -lurcu-bp, and -lurcu-common). Its
 *             rules hold: threads that call ivskip are registered (memb, qsbr) and announce quiescent states (qsbr).
 *             Release callbacks run in liburcu's call_rcu thread. Around fork() call liburcu's own fork functions.
 *             With memb and qsbr the child of a program with other registered threads must not use a map;
 *             with bp it may, after ivs_map_reset_after_fork. With qsbr a thread is in a read section
 *             wherever it is online, so a call that waits is a quiescent state of its caller, and -EDEADLK
 *             for a call inside a section is not detected.
 *   HOST      the hooks of section 8; nothing but freestanding headers is included.
 *
 * 8. Minimal port (IVSKIP_RCU=HOST)
 *
 *   The header that IVSKIP_CONFIG names defines these hooks; the compiler may also call memcpy and memset. Write them
 *   in the order of the three groups (with __builtin_trap() for the next one's until then): after the first, queries
 *   work; after the second, updates; after the third, the port is polite. [c]: context in which it is called, and
 *   what it may do. [d]: default. The hooks from MALLOC on may be defined in userspace too, in place of malloc, free,
 *   clock_gettime, futex and sched_yield; MALLOC also makes the BUILTIN back end's thread records.
 *
 *   IVSKIP_HOST_RCU_ENTER()     [c] any context of a caller; must not sleep; nests. No callback that is given to
 *                               CALL_RCU from here on may run before the matching EXIT. [d] none
 *   IVSKIP_HOST_RCU_EXIT()      [c] as ENTER. [d] none
 *   IVSKIP_HOST_RCU_HELD()      [c] any; 1 inside a section, 0 outside or where it cannot be told. [d] 0
 *   IVSKIP_HOST_NOW()           [c] any; monotonic nanoseconds, below 2^63. [d] none
 *
 *   IVSKIP_HOST_RCU_HEAD        a type: the record that CALL_RCU takes; lives in the domain. [d] none
 *   IVSKIP_HOST_CALL_RCU(head, fn)  [c] in or outside a section, interrupts as the
 *                                   caller had them; must not sleep nor
 *                               call fn(head) itself; fn runs later, once, after the end of all sections that are
 *                               open now, where the domain's release and free may run. [d] none
 *   IVSKIP_HOST_SYNCHRONIZE()   [c] outside sections; may sleep; returns after all sections open now. [d] none
 *   IVSKIP_HOST_RCU_BARRIER()   [c] outside sections; may sleep; returns after all callbacks queued so far. [d] none
 *   IVSKIP_HOST_RANDOM()        [c] any; 64 bits, cheap (tower heights). [d] none
 *   IVSKIP_HOST_MALLOC(bytes)   [c] no range held by the call; NULL is allowed; only for domains without an alloc
 *                               callback. [d] NULL
 *   IVSKIP_HOST_FREE(memory)    [c] where callbacks of CALL_RCU run; must not sleep; memory is not NULL. [d] nothing
 *
 *   IVSKIP_HOST_PARK(word, ticket, until)  [c] outside sections, by a waiter that may hold ranges; sleeps while *word
 *                               == ticket, until woken or NOW() >= until (UINT64_MAX: never); may return early.
 *                               [d] spin
 *   IVSKIP_HOST_WAKE(word)      (with PARK, or neither) [c] any context of an unlock or
 *                               swap; must not sleep; wakes all sleepers. [d] nothing
 *   IVSKIP_HOST_OWNER()         [c] any; 64 bits that tell the calling thread from others, for range locks; not 0.
 *                               [d] 0: unknown
 *   IVSKIP_HOST_YIELD()         [c] outside sections; gives the processor away. [d] RELAX
 *   IVSKIP_RELAX()              [c] any; one polite step of a spin. [d] the processor's pause, or nothing
 *   IVSKIP_ASSERT(condition)    [c] any; with IVSKIP_DEBUG only. [d] trap
 *
 *   From an interrupt handler use only what does not sleep (queries, ivs_map_trylock, ivs_map_swap, ivs_map_unlock),
 *   and only where ENTER and EXIT may be called there. Before there is an allocator, ivs_node_init_at makes nodes in
 *   static storage.
 *
 * 9. Range locks
 *
 *   struct ivs_range_lock locks ranges of keys: bytes of a file, pages of a guest, rows of a table. Bounds are exact:
 *   two ranges that share no key never wait for each other. Modes: shared, exclusive. All of it is in this header.
 *
 *     static struct ivs_range_lock lock = IVS_RANGE_LOCK_INIT;
 *     struct ivs_range range = IVS_RANGE_INIT;                      // on the stack, or in what you lock for
 *     if (ivs_range_lock(&lock, &range, offset, offset + bytes, IVS_EXCLUSIVE)) return -1;
 *     ...
 *     ivs_range_unlock(&lock, &range);
 *
 *   Memory      an idle lock is its 24 bytes, and so is one that one holder has: taking it cannot fail. When two hold
 *               parts at once it makes a table (1.5 KiB, then about 200 bytes for each range) from the domain's
 *               allocator; ivs_range_lock_prepare does it ahead. From then on a range may need memory, if it is not the
 *               same as one before; where that must not fail, the handle brings its own (`storage`). A release never
 *               allocates, but for a thread's record in a domain that it never used. Ranges that come again are kept,
 *               at most about a third more than are held (and 64). Shared ranges that overlap are held in pieces;
 *               pieces that need not be apart any more are joined, a few by each request that makes new ones. Many
 *               locks: let them share a domain (ivs_range_lock_init), for with BUILTIN each thread has a record in each
 *               domain that it uses.
 *   Cost        held by one: two CAS. With a table: a search, O(log n) in the ranges held, and one CAS if the range was
 *               taken before, an insert if not; a release of a range that is kept is one CAS. Threads that want
 *               nothing of each other write to no common line, then. Who waits is in a tree under a small guard:
 *               O(log n) in those who wait, and linear in those that wait for what a call meets; newcomers look there
 *               only if they may meet one.
 *   Fairness    G9 below. Requests that conflict with nobody never queue.
 *   Order rules A thread that holds a range of a lock and asks for another of the same lock says IVS_NESTED, and asks
 *               in ascending order, above all that it holds; or it takes all at once with ivs_range_lock_set, which
 *               does both. Where it may hold something that ends above the start of what it asks for (shared ranges
 *               that overlap), it says so in `held_end`. Otherwise it may wait for one who waits for it. A holder of a
 *               shared range must not ask for it exclusively (ivs_range_try_upgrade does not wait). With IVSKIP_DEBUG
 *               such requests are answered -EDEADLK, and other_start and other_end of the handle tell which range is in
 *               the way: where a thread would wait for itself, directly or over others. Requests with a time limit, and
 *               asynchronous ones, are no part of such a cycle.
 *   Callbacks   those of asynchronous requests run one after the other, in the order in which they were let in, in a
 *               thread that is in a call on the lock: mostly the one whose release lets them in, but while one thread
 *               is at it, it answers those of others, too. A callback may ask, cancel and let go; what it lets in is
 *               answered after it returned, not inside it.
 *   Threads     a range may be released by another thread than took it; with IVSKIP_DEBUG the owner must be the same
 *               (set `owner` to a number of your own, of a task or a transaction, if threads hand ranges on).
 *   Fork        the child calls ivs_range_lock_reset_after_fork; all ranges are free there.
 *   Not         across processes; from signal or interrupt handlers; recursive.
 *
 *   G8  Holders exclude each other just as the modes say, at each instant, on each key; and never otherwise.
 *   G9  Requests that wait are served in their order wherever they conflict, and not held up elsewhere. A newcomer that
 *       conflicts with one that waits does not overtake it if it is shared and the other exclusive, or once the other
 *       was woken in vain. So a request waits, once those who waited before it and conflict with it have had their
 *       turns, at most for twice the longest time for which a conflicting range is held, plus wake-ups. Members of
 *       a set but the first, and nested requests, are newcomers like others, unless their owner holds a range at or
 *       above the start of the one that waits (or of one that this one waits for): then they go first, for it might
 *       wait for them. A release wakes those only who waited for what it let go, and of those who conflict with each
 *       other the first.
 *   G10 A request that failed, ran out of time or was cancelled holds nothing, and nobody waits because of it.
 */
#ifndef IVSKIP_H
#define IVSKIP_H

/* -------------------------------------------------------------------------------- version, options */

#define IVSKIP_VERSION_MAJOR 0
#define IVSKIP_VERSION_MINOR 1
#define IVSKIP_VERSION_PATCH 0
#define IVSKIP_VERSION       (IVSKIP_VERSION_MAJOR * 10000 + IVSKIP_VERSION_MINOR * 100 + IVSKIP_VERSION_PATCH)

#if defined(IVSKIP_CONFIG)
#include IVSKIP_CONFIG
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef IVSKIP_MAX_HEIGHT
#define IVSKIP_MAX_HEIGHT 24
#endif
#ifndef IVSKIP_SPIN
#define IVSKIP_SPIN 100
#endif
#ifndef IVSKIP_RETIRE_BATCH
#define IVSKIP_RETIRE_BATCH 128
#endif
#ifndef IVSKIP_LINK_TRIES
#define IVSKIP_LINK_TRIES 16
#endif
#ifndef IVSKIP_DEBUG
#define IVSKIP_DEBUG 0
#endif
#ifndef IVSKIP_RCU
#define IVSKIP_RCU BUILTIN
#endif

#if IVSKIP_MAX_HEIGHT < 2 || IVSKIP_MAX_HEIGHT > 40
#error "IVSKIP_MAX_HEIGHT must be 2..40"
#endif
#if IVSKIP_SPIN < 0 || IVSKIP_SPIN > 1000000
#error "IVSKIP_SPIN must be 0..1000000"
#endif
#if IVSKIP_RETIRE_BATCH < 1 || IVSKIP_RETIRE_BATCH > 65536
#error "IVSKIP_RETIRE_BATCH must be 1..65536"
#endif
#if IVSKIP_LINK_TRIES < 1 || IVSKIP_LINK_TRIES > 1000000
#error "IVSKIP_LINK_TRIES must be 1..1000000"
#endif

#define IVS_CAT_(a, b)     a##b
#define IVS_CAT2_(a, b)    IVS_CAT_(a, b)
#define IVS_RCU_BUILTIN_   1
#define IVS_RCU_URCU_MEMB_ 2
#define IVS_RCU_URCU_QSBR_ 3
#define IVS_RCU_URCU_BP_   4
#define IVS_RCU_HOST_      5
#define IVS_RCU_IS_(which) (IVS_CAT2_(IVS_CAT2_(IVS_RCU_, IVSKIP_RCU), _) == IVS_RCU_##which##_)
#if IVS_RCU_IS_(BUILTIN)
#elif IVS_RCU_IS_(URCU_MEMB)
#include <urcu/urcu-memb.h>
#define IVS_RCU_HEAD_ struct rcu_head
#elif IVS_RCU_IS_(URCU_QSBR)
#include <urcu/urcu-qsbr.h>
#define IVS_RCU_HEAD_ struct rcu_head
#elif IVS_RCU_IS_(URCU_BP)
#include <urcu/urcu-bp.h>
#define IVS_RCU_HEAD_ struct rcu_head
#elif IVS_RCU_IS_(HOST)
#if !defined(IVSKIP_HOST_RCU_ENTER) || !defined(IVSKIP_HOST_RCU_EXIT) || !defined(IVSKIP_HOST_RCU_HEAD) ||             \
    !defined(IVSKIP_HOST_CALL_RCU) || !defined(IVSKIP_HOST_SYNCHRONIZE) || !defined(IVSKIP_HOST_RCU_BARRIER) ||        \
    !defined(IVSKIP_HOST_RANDOM) || !defined(IVSKIP_HOST_NOW)
#error "IVSKIP_RCU=HOST needs the hooks of the minimal port (manual, section 8) in the header that IVSKIP_CONFIG names"
#endif
#define IVS_RCU_HEAD_ IVSKIP_HOST_RCU_HEAD
#else
#error "IVSKIP_RCU must be BUILTIN, URCU_MEMB, URCU_QSBR, URCU_BP or HOST"
#endif

#if defined(IVSKIP_STATIC) && !defined(IVSKIP_IMPLEMENTATION)
#define IVSKIP_IMPLEMENTATION
#endif
#if defined(IVSKIP_STATIC)
#define IVS_API static __attribute__((unused))
#elif defined(__cplusplus)
#define IVS_API extern "C"
#else
#define IVS_API extern
#endif
#define IVS_MUST_CHECK __attribute__((warn_unused_result))

/* Options that change layout are part of every symbol: files that disagree do not link. */
#define IVS_SYM4_(name, height, rcu)    name##_h##height##_##rcu
#define IVS_SYM3_(name, height, rcu)    IVS_SYM4_(name, height, rcu)
#define IVS_SYM_(name)                  IVS_SYM3_(name, IVSKIP_MAX_HEIGHT, IVSKIP_RCU)
#define ivs_domain_init                 IVS_SYM_(ivs_domain_init)
#define ivs_domain_destroy              IVS_SYM_(ivs_domain_destroy)
#define ivs_domain_read_enter           IVS_SYM_(ivs_domain_read_enter)
#define ivs_domain_read_exit            IVS_SYM_(ivs_domain_read_exit)
#define ivs_domain_synchronize          IVS_SYM_(ivs_domain_synchronize)
#define ivs_domain_defer                IVS_SYM_(ivs_domain_defer)
#define ivs_domain_reclaim              IVS_SYM_(ivs_domain_reclaim)
#define ivs_domain_barrier              IVS_SYM_(ivs_domain_barrier)
#define ivs_domain_get_stats            IVS_SYM_(ivs_domain_get_stats)
#define ivs_domain_reset_after_fork     IVS_SYM_(ivs_domain_reset_after_fork)
#define ivs_map_init                    IVS_SYM_(ivs_map_init)
#define ivs_map_destroy                 IVS_SYM_(ivs_map_destroy)
#define ivs_map_query_rcu               IVS_SYM_(ivs_map_query_rcu)
#define ivs_map_query_next_rcu          IVS_SYM_(ivs_map_query_next_rcu)
#define ivs_map_query_before_rcu        IVS_SYM_(ivs_map_query_before_rcu)
#define ivs_map_next_rcu                IVS_SYM_(ivs_map_next_rcu)
#define ivs_map_lookup                  IVS_SYM_(ivs_map_lookup)
#define ivs_map_lookup_next             IVS_SYM_(ivs_map_lookup_next)
#define ivs_map_lock                    IVS_SYM_(ivs_map_lock)
#define ivs_map_trylock                 IVS_SYM_(ivs_map_trylock)
#define ivs_map_timedlock               IVS_SYM_(ivs_map_timedlock)
#define ivs_map_unlock                  IVS_SYM_(ivs_map_unlock)
#define ivs_map_swap                    IVS_SYM_(ivs_map_swap)
#define ivs_node_set_value              IVS_SYM_(ivs_node_set_value)
#define ivs_node_new                    IVS_SYM_(ivs_node_new)
#define ivs_node_new_height             IVS_SYM_(ivs_node_new_height)
#define ivs_node_init_at                IVS_SYM_(ivs_node_init_at)
#define ivs_node_discard                IVS_SYM_(ivs_node_discard)
#define ivs_node_set_bounds             IVS_SYM_(ivs_node_set_bounds)
#define ivs_map_map                     IVS_SYM_(ivs_map_map)
#define ivs_map_map_node                IVS_SYM_(ivs_map_map_node)
#define ivs_map_unmap                   IVS_SYM_(ivs_map_unmap)
#define ivs_map_insert                  IVS_SYM_(ivs_map_insert)
#define ivs_map_insert_node             IVS_SYM_(ivs_map_insert_node)
#define ivs_map_alloc                   IVS_SYM_(ivs_map_alloc)
#define ivs_map_alloc_node              IVS_SYM_(ivs_map_alloc_node)
#define ivs_map_validate                IVS_SYM_(ivs_map_validate)
#define ivs_map_tune                    IVS_SYM_(ivs_map_tune)
#define ivs_map_dump                    IVS_SYM_(ivs_map_dump)
#define ivs_map_get_stats               IVS_SYM_(ivs_map_get_stats)
#define ivs_map_reset_after_fork        IVS_SYM_(ivs_map_reset_after_fork)
#define ivs_range_lock_init             IVS_SYM_(ivs_range_lock_init)
#define ivs_range_lock_prepare          IVS_SYM_(ivs_range_lock_prepare)
#define ivs_range_lock_barrier          IVS_SYM_(ivs_range_lock_barrier)
#define ivs_range_lock_destroy          IVS_SYM_(ivs_range_lock_destroy)
#define ivs_range_lock                  IVS_SYM_(ivs_range_lock)
#define ivs_range_trylock               IVS_SYM_(ivs_range_trylock)
#define ivs_range_timedlock             IVS_SYM_(ivs_range_timedlock)
#define ivs_range_lock_async            IVS_SYM_(ivs_range_lock_async)
#define ivs_range_cancel                IVS_SYM_(ivs_range_cancel)
#define ivs_range_unlock                IVS_SYM_(ivs_range_unlock)
#define ivs_range_lock_set              IVS_SYM_(ivs_range_lock_set)
#define ivs_range_unlock_set            IVS_SYM_(ivs_range_unlock_set)
#define ivs_range_downgrade             IVS_SYM_(ivs_range_downgrade)
#define ivs_range_try_upgrade           IVS_SYM_(ivs_range_try_upgrade)
#define ivs_range_lock_get_stats        IVS_SYM_(ivs_range_lock_get_stats)
#define ivs_range_lock_dump             IVS_SYM_(ivs_range_lock_dump)
#define ivs_range_lock_reset_after_fork IVS_SYM_(ivs_range_lock_reset_after_fork)

/* Error codes: negative errno values of Linux, also where there is no errno.h. */
enum {
    IVS_ENOENT = -2,       /* no interval there */
    IVS_ENOMEM = -12,      /* no memory, or no gap that fits */
    IVS_EBUSY = -16,       /* held by another; or still in use */
    IVS_EEXIST = -17,      /* the range is not free */
    IVS_EINVAL = -22,      /* bad argument */
    IVS_EPERM = -1,        /* misuse of a handle or node: not locked, not ours, published already */
    IVS_EDEADLK = -35,     /* called inside a read section, or a release callback waits */
    IVS_EBADMSG = -74,     /* ivs_map_validate found a broken invariant */
    IVS_ETIMEDOUT = -110,  /* the time is over */
    IVS_EINPROGRESS = -115 /* not yet; a callback will tell */
};

/* -------------------------------------------------------------------------------- types */

struct ivs_map;
struct ivs_domain;
typedef uint64_t ivs_u64_ __attribute__((aligned(8))); /* an atomic one; also on 32-bit hosts */

/*
 * A node: one mapped interval. In memory, from low to high addresses:
 *
 *     [ payload bytes, domain's payload_size ][ struct ivs_node ][ upper links, height - 1 times { next, key } ]
 *
 * so that `struct area { ...; struct ivs_node node; }` with payload_size = offsetof(struct area, node) makes each
 * node the last member of an `area` (container_of from node to area), and a hit costs no further cache miss.
 *
 * level-0 link (next_):  63 ................. 3 |    2    |      1      |   0
 *                            successor or 0     | WAITERS | INVALIDATED | LOCKED
 * upper link (next):     63 ................. 3 | 2 .. 1: zero          | MARK
 */
struct ivs_node {
    uint64_t start;   /* first key */
    uint64_t last;    /* last key, inclusive (see ivs_node_end) */
    uintptr_t value_; /* payload pointer: ivs_node_value, ivs_node_set_value */
    uintptr_t next_;  /* level-0 link */
    uintptr_t chain_; /* private lists: spare nodes, replaced nodes, limbo */
    uint8_t height_;  /* levels that it is or will be linked at */
    uint8_t room_;    /* levels that its memory has room for */
    uint8_t state_;   /* prepared, published, replaced */
    uint8_t owned_;   /* the release callback is due if it is discarded */
    uint8_t foreign_; /* its memory is not the domain's to free */
    uint8_t entered_; /* a slot of an entry table may lead to it; changed and read by the holder of its link */
    uint8_t unused_[2];
} __attribute__((aligned(8)));

/* Upper link: the successor at this level, and a copy of its start that may be stale (a hint for readers). */
struct ivs_link_ {
    uintptr_t next;
    ivs_u64_ key;
} __attribute__((aligned(8)));

/* What ivs_map_lookup copies out. */
struct ivs_entry {
    uint64_t start;
    uint64_t end; /* exclusive; 0: 2^64 */
    void *value;
};

/* A callback with its argument, run after a grace period (ivs_domain_defer). Embed it in what it frees. */
struct ivs_defer {
    uintptr_t next_;
    void (*fn_)(struct ivs_defer *self);
};

/* A domain's callbacks. Any may be NULL, but alloc and free come together. All get the domain's ctx. None may use a
 * map of this domain in a way that waits. */
struct ivs_domain_ops {
    /* `bytes` of memory, 8-byte aligned, or NULL. May sleep unless flags has IVS_NOSLEEP: then a range may be held
     * (if map or unmap is refused so, it lets the range go and tries again with sleep). Otherwise called without any
     * lock of a map, outside read sections unless the caller is in one. Default: the host's malloc. */
    void *(*alloc)(void *ctx, size_t bytes, unsigned flags);
    /* Takes back what alloc gave, with its size. Must not sleep. Default: the host's free. */
    void (*free)(void *ctx, void *memory, size_t bytes);
    /* The end of a node whose value a map owned: after its grace period, or at once for a fragment of an update that
     * failed; its memory is freed next. Called from any thread inside a call of this library, which may hold other
     * ranges or be in a read section (liburcu, host: where its callbacks run). Must not sleep or wait. */
    void (*release)(void *ctx, struct ivs_node *node);
};

struct ivs_domain_config {
    const struct ivs_domain_ops *ops; /* NULL: host's malloc and free, no release callback */
    void *ctx;                        /* handed to the ops */
    size_t payload_size;              /* bytes in front of each node, a multiple of 8, at most 65536; default 0 */
    uint64_t seed;                    /* of the tower heights; BUILTIN: makes them repeat; 0: drawn from the clock */
};

enum {
    IVS_SLEEP = 0,  /* the allocator may sleep */
    IVS_NOSLEEP = 1 /* it must not */
};

#define IVS_LINE_ 64 /* bytes that travel together between cores */

struct ivs_domain {
    const struct ivs_domain_ops *ops_;
    void *ctx_;
    size_t payload_size_;
    uint64_t seed_;
    uint64_t magic_;
#if IVS_RCU_IS_(BUILTIN)
    uint64_t cookie_; /* when it was made */
#else
    IVS_RCU_HEAD_ grace_; /* the one grace period that is under way */
    uintptr_t flight_;    /* what it is for */
#endif
    unsigned char pad_[IVS_LINE_]; /* above: read by every call; below: written by advances */
    uintptr_t records_;            /* BUILTIN */
    ivs_u64_ epoch_;
    ivs_u64_ crowd_;    /* BUILTIN: read sections open in threads that could not get a record */
    ivs_u64_ limbo_;    /* else: nodes and callbacks that wait, */
    ivs_u64_ bytes_;    /* their memory, */
    uint32_t busy_;     /* and whether a grace period is under way. BUILTIN: threads with due things and no record */
    uintptr_t orphans_; /* BUILTIN: retired by threads without a record; else: waits for the next grace period */
} __attribute__((aligned(8)));

struct ivs_domain_stats {
    uint64_t epoch;         /* grows with each grace period */
    uint64_t records;       /* BUILTIN: threads that ever used the domain at once */
    uint64_t readers;       /* BUILTIN: open read sections, nested ones counted once */
    uint64_t oldest_reader; /* BUILTIN: epochs that the oldest is behind; with a growing limbo: a stalled reader */
    uint64_t limbo;         /* nodes and deferred callbacks that wait for their grace period (BUILTIN: but for the few
                               that are on their way to a record) */
    uint64_t limbo_bytes;   /* their node memory */
};

/* An event count: whoever sleeps for a link sleeps in one of these, never on the node's own memory. */
struct ivs_bucket_ {
    uint32_t ticket;
};
#define IVS_BUCKETS_ 16

struct ivs_map_config {
    struct ivs_domain *domain; /* NULL: the map has one of its own, made from `own` */
    struct ivs_domain_config own;
    /* A part of `old` that stays when it is cut: `fragment` has its bounds; give it value and payload. 0, or a
     * negative error that makes the update fail with nothing changed (fragments of calls that succeeded are released;
     * the one that failed is not). Called with the range locked, outside read sections, may sleep. NULL: value and
     * payload bytes are copied. */
    int (*fragment)(void *ctx, const struct ivs_node *old, struct ivs_node *fragment);
    void *ctx; /* handed to fragment; the ops get own.ctx */
};

struct ivs_map {
    struct ivs_node head_; /* before all keys; its upper links follow in memory */
    struct ivs_link_ head_links_[IVSKIP_MAX_HEIGHT - 1];
    struct ivs_domain *domain_;
    int (*fragment_)(void *ctx, const struct ivs_node *old, struct ivs_node *fragment);
    void *ctx_;
    uint64_t magic_;
    uintptr_t entries_; /* the entry table (ivs_map_tune), or 0 */
    uint32_t height_;   /* no node is higher; a hint where searches begin */
    uint32_t tuning_;   /* somebody makes a new entry table */
    struct ivs_bucket_ buckets_[IVS_BUCKETS_];
    ivs_u64_ waits_;
    ivs_u64_ restarts_;
    ivs_u64_ refusals_;
    ivs_u64_ window_locks_;
    struct ivs_domain own_;
};

/* A held range. The fields without underscore may be read while it is held. */
struct ivs_lock {
    struct ivs_map *map; /* NULL: nothing is held */
    uint64_t start;      /* the range that was asked for, [start, end) */
    uint64_t end;
    uint64_t floor;   /* all keys from here (end of the node before) ... */
    uint64_t ceiling; /* ... up to here (start of the node after; 0: 2^64) belong to the holder */
    size_t count;     /* locked nodes: those that meet [start, end); after a swap, the new run */
    struct ivs_node *pred_;
    struct ivs_node *first_;
    struct ivs_node *tail_; /* last locked node; pred_ if there is none */
    struct ivs_node *dead_; /* replaced nodes, retired at the unlock */
};

struct ivs_alloc {
    uint64_t lo; /* window [lo, hi); hi == 0: 2^64 */
    uint64_t hi;
    uint64_t size;  /* keys wanted, at least 1 */
    uint64_t align; /* of the start: a power of two; 0: 1 */
    uint64_t hint;  /* look from here first, then in the whole window; outside the window: no hint */
};

struct ivs_report {
    const char *check;           /* name of the check that failed, NULL if none did */
    const struct ivs_node *node; /* where */
    unsigned level;
    size_t nodes; /* nodes visited at level 0 */
};

struct ivs_map_stats {
    size_t nodes;
    size_t links;                        /* level-0 and upper links of all nodes */
    size_t node_bytes;                   /* nodes and towers, without payload (the payload pointer counts as payload) */
    size_t payload_bytes;                /* payload pointers and payload bytes */
    unsigned height;                     /* highest tower */
    size_t at_height[IVSKIP_MAX_HEIGHT]; /* nodes whose height is index + 1 */
    uint64_t keys;                       /* covered keys, modulo 2^64 */
    uint64_t waits;                      /* times that a thread went to sleep for a link */
    uint64_t restarts;                   /* searches begun anew since their predecessor was gone */
    uint64_t refusals;                   /* Alloc: -ENOMEM answers */
    uint64_t window_locks;               /* Alloc: decisions that needed the window's locks */
    size_t table_slots;                  /* of the entry table (ivs_map_tune) that are given to keys; 0: no table */
    size_t table_used;                   /* those that lead to a node */
    size_t table_bytes;                  /* its memory */
    struct ivs_domain_stats domain;
};

enum ivs_dump_format { IVS_DUMP_TEXT = 0, IVS_DUMP_DOT = 1 };

/* -------------------------------------------------------------------------------- API: domains */

/** Makes a domain: allocator, payload size and reclamation for the nodes of one or more maps. `config` may be NULL.
 *  Context: any; does not sleep.
 *  Progress: wait-free.
 *  Ordering: none; publish the domain to other threads yourself.
 *  Returns: 0; -EINVAL: NULL domain, payload_size over 65536 or not a multiple of 8, only one of alloc and free.
 *  Lifetime: the domain's memory is the caller's; it must not move. `config` is copied and may go; what its ops and
 *  ctx point to must outlive the domain. */
IVS_API int ivs_domain_init(struct ivs_domain *domain, const struct ivs_domain_config *config) IVS_MUST_CHECK;

/** Ends a domain: all that waits for a grace period is released at once.
 *  Context: no map of the domain lives, no read section is open, no call runs; may run release callbacks.
 *  Progress: linear in the waiting nodes.
 *  Ordering: none needed; the caller is alone.
 *  Returns: 0; -EINVAL: not a domain; -EBUSY: a read section is open, nothing done.
 *  Lifetime: the memory may be reused; threads that used the domain need not have exited. */
IVS_API int ivs_domain_destroy(struct ivs_domain *domain) IVS_MUST_CHECK;

/** Opens a read section: what is found in it stays readable until it is closed. Sections nest.
 *  Context: any thread; not in signal or interrupt handlers. The first call of a thread allocates its record.
 *  Progress: wait-free, but for a thread's first call (allocates, lock-free).
 *  Ordering: the section sees all that was published before the grace periods that ended before it.
 *  Returns: nothing; it cannot fail (without memory for a record the thread shares a counter).
 *  Lifetime: until ivs_domain_read_exit by the same thread.
 *  Source: epoch-based reclamation, K. Fraser, Practical lock freedom, 2004, section 5.2.3. */
IVS_API void ivs_domain_read_enter(struct ivs_domain *domain);

/** Closes the innermost read section of this thread.
 *  Context: the thread that opened it.
 *  Progress: wait-free.
 *  Ordering: release: the section's accesses come before what is done after the grace period.
 *  Returns: nothing; without an open section it is an assertion in debug builds; in release builds it does nothing,
 *  unless other threads share the counter of those without a record.
 *  Lifetime: nodes found in the section may be freed from now on. */
IVS_API void ivs_domain_read_exit(struct ivs_domain *domain);

/** Waits until every read section that is open now has ended.
 *  Context: outside read sections of the domain and without locks that a reader may wait for; sleeps.
 *  Progress: blocking; ends when the present readers do.
 *  Ordering: all their accesses happen before the return.
 *  Returns: 0; -EINVAL: not a domain; -EDEADLK: called inside a read section.
 *  Lifetime: what was unpublished before the call may be freed after it. */
IVS_API int ivs_domain_synchronize(struct ivs_domain *domain) IVS_MUST_CHECK;

/** Runs fn(defer) after a grace period: call_rcu for values and other objects of the caller.
 *  Context: any, also inside a read section; does not sleep; may run callbacks that are due.
 *  Progress: lock-free.
 *  Ordering: all read sections open now happen before the callback.
 *  Returns: 0; -EINVAL: NULL argument, nothing done.
 *  Lifetime: `defer` belongs to the domain until fn runs; fn may free it. */
IVS_API int ivs_domain_defer(struct ivs_domain *domain, struct ivs_defer *defer, void (*fn)(struct ivs_defer *defer));

/** Tries to end a grace period and releases all that is due, also what other threads left.
 *  Context: any place where release callbacks may run; does not sleep.
 *  Progress: lock-free; a stalled reader makes it release less.
 *  Ordering: read sections happen before the releases that waited for them.
 *  Returns: how many nodes and callbacks were released by this call (0 where liburcu or the host release them).
 *  Lifetime: none. */
IVS_API size_t ivs_domain_reclaim(struct ivs_domain *domain);

/** Waits until what was retired before the call has been released: ivs_domain_synchronize and the callbacks.
 *  Context: as ivs_domain_synchronize; runs release callbacks, or waits for them.
 *  Progress: blocking; ends when the present readers do.
 *  Ordering: those callbacks happen before the return.
 *  Returns: 0; -EINVAL: not a domain; -EDEADLK: called inside a read section or (BUILTIN) a release callback.
 *  Lifetime: none. */
IVS_API int ivs_domain_barrier(struct ivs_domain *domain) IVS_MUST_CHECK;

/** Says how the reclamation is doing; figures of one moment each, not of the same one.
 *  Context: any; does not sleep.
 *  Progress: linear in the threads that used the domain.
 *  Ordering: none.
 *  Returns: 0; -EINVAL: NULL argument.
 *  Lifetime: none. */
IVS_API int ivs_domain_get_stats(struct ivs_domain *domain, struct ivs_domain_stats *stats);

/** In the child of a fork(): forgets the read sections and half-done work of threads that are not there.
 *  Context: the child's only thread, outside read sections, before any other use of the domain. A map's own domain
 *  is reset by ivs_map_reset_after_fork; call this once for a shared one, after liburcu's own after_fork_child.
 *  Callbacks that another thread was just putting away may be lost (BUILTIN).
 *  Progress: linear in the threads that used the domain.
 *  Ordering: none needed; the caller is alone.
 *  Returns: 0; -EINVAL: not a domain.
 *  Lifetime: nodes in limbo stay so and are released in turn. */
IVS_API int ivs_domain_reset_after_fork(struct ivs_domain *domain) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- API: maps */

/** Makes an empty map. `config` may be NULL: own domain, host's allocator, plain copies of cut values.
 *  Context: any; does not sleep.
 *  Progress: wait-free.
 *  Ordering: none; publish the map to other threads yourself.
 *  Returns: 0; -EINVAL: NULL map, bad domain configuration, domain that was not made.
 *  Lifetime: the map's memory is the caller's; it must not move. A shared domain must outlive the map. */
IVS_API int ivs_map_init(struct ivs_map *map, const struct ivs_map_config *config) IVS_MUST_CHECK;

/** Ends a map: every node is released (at once with an own domain, after a grace period with a shared one).
 *  Context: no other call on the map runs, no range is held, no read section uses it.
 *  Progress: linear in the nodes.
 *  Ordering: none needed; the caller is alone.
 *  Returns: 0; -EINVAL: not a map; -EBUSY: a range is held or a read section of the own domain is open, nothing
 *  done.
 *  Lifetime: the memory may be reused. */
IVS_API int ivs_map_destroy(struct ivs_map *map) IVS_MUST_CHECK;

/** The domain of a map.
 *  Context: any.
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the shared domain, or the map's own.
 *  Lifetime: an own domain ends with its map. */
static inline struct ivs_domain *ivs_map_domain(struct ivs_map *map) { return map->domain_; }

/** ivs_domain_read_enter on the map's domain.
 *  Context: as ivs_domain_read_enter.
 *  Progress: as ivs_domain_read_enter.
 *  Ordering: as ivs_domain_read_enter.
 *  Returns: nothing.
 *  Lifetime: until ivs_map_read_exit. */
static inline void ivs_map_read_enter(struct ivs_map *map) { ivs_domain_read_enter(map->domain_); }

/** ivs_domain_read_exit on the map's domain.
 *  Context: as ivs_domain_read_exit.
 *  Progress: as ivs_domain_read_exit.
 *  Ordering: as ivs_domain_read_exit.
 *  Returns: nothing.
 *  Lifetime: nodes found in the section may be freed from now on. */
static inline void ivs_map_read_exit(struct ivs_map *map) { ivs_domain_read_exit(map->domain_); }

/** Query: the node that covers `key`.
 *  Context: inside a read section; does not sleep; takes no lock.
 *  Progress: never waits, is never thrown back by others (with an entry table it may begin a second time, at the head).
 *  Ordering: acquire: what was written before the node was published is visible. Linearizable (G1, G2).
 *  Returns: the node, or NULL: the key lies in a gap (or map is NULL).
 *  Lifetime: until the read section ends.
 *  Source: IntervalVM, SOSP 2025, section 4 (Query). */
IVS_API struct ivs_node *ivs_map_query_rcu(struct ivs_map *map, uint64_t key);

/** Query-next: the first node that ends after `key` (it covers the key, or is the next one behind it).
 *  Context: inside a read section; does not sleep; takes no lock.
 *  Progress: never waits, never starts anew.
 *  Ordering: as ivs_map_query_rcu. Linearizable.
 *  Returns: the node, or NULL: none ends after the key.
 *  Lifetime: until the read section ends. */
IVS_API struct ivs_node *ivs_map_query_next_rcu(struct ivs_map *map, uint64_t key);

/** Query-before: the last node that starts at or before `key` (it covers the key, or is the next one below it). Going
 *  down from node to node is a search for each: the level-0 list leads up only.
 *  Context: inside a read section; does not sleep; takes no lock.
 *  Progress: as ivs_map_query_rcu.
 *  Ordering: as ivs_map_query_rcu. Linearizable.
 *  Returns: the node, or NULL: none starts at or before the key (or map is NULL).
 *  Lifetime: until the read section ends. */
IVS_API struct ivs_node *ivs_map_query_before_rcu(struct ivs_map *map, uint64_t key);

/** The next node after `node`, for iteration (see ivs_map_for_each_rcu).
 *  Context: the read section in which `node` was found.
 *  Progress: never waits; searches anew if `node` has left the map or is locked.
 *  Ordering: as ivs_map_query_rcu; the whole iteration is no snapshot (G3).
 *  Returns: the node, or NULL at the end.
 *  Lifetime: until the read section ends. */
IVS_API struct ivs_node *ivs_map_next_rcu(struct ivs_map *map, const struct ivs_node *node);

/* Visits, in ascending order, the nodes that meet [lo, hi); hi == 0: 2^64. Inside a read section. */
#define ivs_map_for_each_rcu(node, map, lo, hi)                                                                        \
    for ((node) = ivs_map_query_next_rcu((map), (lo)); (node) && (node)->start <= (uint64_t)(hi)-1;                    \
         (node) = ivs_map_next_rcu((map), (node)))

/** Query without a read section of one's own: copies bounds and value out.
 *  Context: any; does not sleep.
 *  Progress: as ivs_map_query_rcu.
 *  Ordering: as ivs_map_query_rcu.
 *  Returns: 0; -ENOENT: gap; -EINVAL: NULL argument.
 *  Lifetime: the copy is the caller's; what `value` points to is protected only by the caller's own means. */
IVS_API int ivs_map_lookup(struct ivs_map *map, uint64_t key, struct ivs_entry *entry) IVS_MUST_CHECK;

/** Query-next without a read section of one's own. A loop `key = entry.end` ends when entry.end == 0.
 *  Context: any; does not sleep.
 *  Progress: as ivs_map_query_next_rcu.
 *  Ordering: as ivs_map_query_next_rcu.
 *  Returns: 0; -ENOENT: none ends after the key; -EINVAL: NULL argument.
 *  Lifetime: as ivs_map_lookup. */
IVS_API int ivs_map_lookup_next(struct ivs_map *map, uint64_t key, struct ivs_entry *entry) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- API: nodes */

/** One past the last key of a node; 0 stands for 2^64.
 *  Context: the node is readable (read section, or locked).
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: the exclusive end.
 *  Lifetime: none. */
static inline uint64_t ivs_node_end(const struct ivs_node *node) { return node->last + 1; }

/** The payload pointer of a node.
 *  Context: the node is readable (read section, or locked), or not yet published.
 *  Progress: wait-free.
 *  Ordering: acquire: what was written before the value was set is visible.
 *  Returns: the value.
 *  Lifetime: the caller's rules; see ivs_domain_defer. */
static inline void *ivs_node_value(const struct ivs_node *node);

/** The payload bytes of a node, the domain's payload_size of them.
 *  Context: the node is readable. The bytes may be written while the node is not yet published; later only under
 *  rules of the caller's.
 *  Progress: wait-free.
 *  Ordering: written before publication: visible to whoever finds the node.
 *  Returns: pointer to the first byte, 8-byte aligned.
 *  Lifetime: the node's. */
static inline void *ivs_node_payload(const struct ivs_domain *domain, const struct ivs_node *node) {
    return (void *)((uintptr_t)node - domain->payload_size_);
}

/** Prepares a node [start, end) with a random tower; its payload bytes are zero.
 *  Context: without locks of a map if flags is IVS_SLEEP; the allocator decides if it sleeps.
 *  Progress: the allocator's.
 *  Ordering: none; the node is private until it is published.
 *  Returns: the node; NULL: bad bounds, or no memory.
 *  Lifetime: the caller's until a successful ivs_map_*_node or ivs_map_swap takes it, or ivs_node_discard. Only
 *  for maps of this domain. */
IVS_API struct ivs_node *ivs_node_new(struct ivs_domain *domain, uint64_t start, uint64_t end, void *value,
                                      unsigned flags) IVS_MUST_CHECK;

/** As ivs_node_new with a tower of `height` levels, 1..IVSKIP_MAX_HEIGHT (0: random). For tests and for tiered
 *  heights.
 *  Context: as ivs_node_new.
 *  Progress: as ivs_node_new.
 *  Ordering: as ivs_node_new.
 *  Returns: the node; NULL: bad bounds, bad height, or no memory.
 *  Lifetime: as ivs_node_new. */
IVS_API struct ivs_node *ivs_node_new_height(struct ivs_domain *domain, uint64_t start, uint64_t end, void *value,
                                             unsigned flags, unsigned height) IVS_MUST_CHECK;

/* Memory that ivs_node_init_at needs for a node. */
#define IVSKIP_NODE_BYTES(payload_size, height)                                                                        \
    ((payload_size) + sizeof(struct ivs_node) + ((size_t)(height)-1) * sizeof(struct ivs_link_))

/** Prepares a node in memory of the caller's: for the time before there is an allocator, or where none may fail.
 *  Context: any; does not sleep, does not allocate.
 *  Progress: wait-free.
 *  Ordering: as ivs_node_new.
 *  Returns: the node; NULL: NULL argument, bad bounds, height not 1..IVSKIP_MAX_HEIGHT, memory not 8-byte aligned.
 *  Lifetime: `memory`, IVSKIP_NODE_BYTES(payload_size, height) bytes, must stay until the node's release callback
 *  or, without one, until ivs_domain_barrier after it left the map; the domain never frees it. */
IVS_API struct ivs_node *ivs_node_init_at(struct ivs_domain *domain, void *memory, unsigned height, uint64_t start,
                                          uint64_t end, void *value) IVS_MUST_CHECK;

/** Frees a node that was never published. The release callback is not called: its value is still the caller's.
 *  Context: any; does not sleep.
 *  Progress: the allocator's.
 *  Ordering: none.
 *  Returns: 0 (also for NULL node); -EINVAL: NULL domain; -EPERM: the node is or was in a map, nothing done.
 *  Lifetime: the node is gone. */
IVS_API int ivs_node_discard(struct ivs_domain *domain, struct ivs_node *node);

/** Gives a node that was never published new bounds.
 *  Context: the node is private to the caller.
 *  Progress: wait-free.
 *  Ordering: none.
 *  Returns: 0; -EINVAL: NULL node or bad bounds; -EPERM: the node is or was in a map.
 *  Lifetime: unchanged. */
IVS_API int ivs_node_set_bounds(struct ivs_node *node, uint64_t start, uint64_t end) IVS_MUST_CHECK;

/** In-place change: gives a node another value; bounds and identity stay.
 *  Context: `lock` holds the node; or lock is NULL and the node was never published.
 *  Progress: wait-free.
 *  Ordering: release: what was written before is visible to whoever reads the new value. Linearizable.
 *  Returns: 0; -EINVAL: NULL node; -EPERM: by its bounds or state the node is not one that `lock` holds.
 *  Lifetime: readers may still use the old value until a grace period has passed (ivs_domain_defer). */
IVS_API int ivs_node_set_value(const struct ivs_lock *lock, struct ivs_node *node, void *value) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- API: locks */

/** Lock while searching: takes [start, end), the nodes that meet it, the predecessor, and the gaps behind all of
 *  these.
 *  Context: outside read sections, without a lock on a later range of the same map; sleeps.
 *  Progress: blocking; waits only for holders of what it needs, in ascending order.
 *  Ordering: acquire: pairs with the unlock of whoever held a part before.
 *  Returns: 0; -EINVAL: NULL argument or bad range; -EDEADLK: called inside a read section.
 *  Lifetime: the locked nodes stay until swapped or unlocked; `lock` is the caller's and must not be copied.
 *  Source: IntervalVM, SOSP 2025, section 4 (Lock). */
IVS_API int ivs_map_lock(struct ivs_map *map, uint64_t start, uint64_t end, struct ivs_lock *lock) IVS_MUST_CHECK;

/** As ivs_map_lock, without waiting.
 *  Context: any; does not sleep.
 *  Progress: lock-free.
 *  Ordering: acquire on success.
 *  Returns: 0; -EBUSY: a part is held, nothing is; -EINVAL.
 *  Lifetime: as ivs_map_lock. */
IVS_API int ivs_map_trylock(struct ivs_map *map, uint64_t start, uint64_t end, struct ivs_lock *lock) IVS_MUST_CHECK;

/** As ivs_map_lock, for at most `nanoseconds` (monotonic clock).
 *  Context: as ivs_map_lock.
 *  Progress: blocking, bounded by the time given.
 *  Ordering: acquire on success.
 *  Returns: 0; -ETIMEDOUT: nothing is held; -EINVAL; -EDEADLK: called inside a read section.
 *  Lifetime: as ivs_map_lock. */
IVS_API int ivs_map_timedlock(struct ivs_map *map, uint64_t start, uint64_t end, uint64_t nanoseconds,
                              struct ivs_lock *lock) IVS_MUST_CHECK;

/** Lets a range go and retires the nodes that were replaced under it.
 *  Context: any thread may do it, one at a time; does not sleep; wakes waiters; may run release callbacks
 *  afterwards.
 *  Progress: wait-free in the number of locked nodes; then lock-free, and the callbacks that are due.
 *  Ordering: release.
 *  Returns: 0; -EINVAL: NULL; -EPERM: the lock holds nothing (unlocked twice), nothing done.
 *  Lifetime: the nodes may go from now on. */
IVS_API int ivs_map_unlock(struct ivs_lock *lock);

/** The first locked node at or after the floor.
 *  Context: the lock is held by the caller.
 *  Progress: wait-free.
 *  Ordering: none needed under the lock.
 *  Returns: the node, or NULL: the range is empty.
 *  Lifetime: until swapped or unlocked. */
static inline struct ivs_node *ivs_lock_first(const struct ivs_lock *lock) { return lock->first_; }

/** The locked node after `node`.
 *  Context: the lock is held by the caller, `node` is one of its nodes.
 *  Progress: wait-free.
 *  Ordering: none needed under the lock.
 *  Returns: the node, or NULL after the last.
 *  Lifetime: until swapped or unlocked. */
static inline struct ivs_node *ivs_lock_next(const struct ivs_lock *lock, const struct ivs_node *node);

/** The node before the floor. It is held too (the gap behind it is ours), so it stays, and so does whatever its holders
 *  alone may change.
 *  Context: the lock is held by the caller.
 *  Progress: wait-free.
 *  Ordering: none needed under the lock.
 *  Returns: the node, or NULL: the floor is 0.
 *  Lifetime: until unlocked. */
static inline struct ivs_node *ivs_lock_before(const struct ivs_lock *lock) {
    return lock->pred_ == &lock->map->head_ ? NULL : lock->pred_;
}

/** The node that starts at the ceiling. Nobody can replace it while the lock is held, nor take a lock that has it among
 *  its nodes, since that needs the node before it, which is ours; another may hold it as the one before its range.
 *  Context: the lock is held by the caller.
 *  Progress: wait-free.
 *  Ordering: acquire, of the node.
 *  Returns: the node, or NULL: nothing follows.
 *  Lifetime: until unlocked. */
static inline struct ivs_node *ivs_lock_after(const struct ivs_lock *lock);

/** Swap: replaces all locked nodes by the prepared nodes run[0..n) in one step, and keeps the range locked (the new
 *  nodes are what is locked now; floor and ceiling stay). n == 0 empties it.
 *  Context: the lock is held by the caller; does not sleep, does not allocate.
 *  Progress: lock-free.
 *  Ordering: release: the new nodes are published; readers see all old nodes or all new ones (per key).
 *  Returns: 0; -EINVAL: NULL, run not sorted, overlapping, or outside [floor, ceiling); -EPERM: the lock holds
 *  nothing, or a node of the run was published already. On an error nothing has changed.
 *  Lifetime: the nodes of the run are the map's; the old ones are released after the unlock and a grace period.
 *  Source: IntervalVM, SOSP 2025, section 4 (Swap). */
IVS_API int ivs_map_swap(struct ivs_lock *lock, struct ivs_node *const *run, size_t n) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- API: updates */

/** Map: [start, end) has `value` from now on, whatever was there; what was cut keeps its left and right parts.
 *  Context: outside read sections; sleeps.
 *  Progress: blocking, as ivs_map_lock.
 *  Ordering: as ivs_map_swap. Linearizable.
 *  Returns: 0; -EINVAL: NULL map or bad range; -ENOMEM; -EDEADLK: inside a read section; what `fragment` returned.
 *  On an error nothing has changed and the value is still the caller's.
 *  Lifetime: the value is the map's until the release callback.
 *  Source: IntervalVM, SOSP 2025, section 4 (Map). */
IVS_API int ivs_map_map(struct ivs_map *map, uint64_t start, uint64_t end, void *value) IVS_MUST_CHECK;

/** Map with a prepared node (its bounds, value and payload).
 *  Context: as ivs_map_map.
 *  Progress: as ivs_map_map.
 *  Ordering: as ivs_map_map.
 *  Returns: as ivs_map_map; -EPERM: the node is or was in a map. On an error the node is still the caller's.
 *  Lifetime: the node is the map's. */
IVS_API int ivs_map_map_node(struct ivs_map *map, struct ivs_node *node) IVS_MUST_CHECK;

/** Unmap: no key of [start, end) is covered from now on; what was cut keeps its left and right parts.
 *  Context: outside read sections; sleeps.
 *  Progress: blocking, as ivs_map_lock.
 *  Ordering: as ivs_map_swap. Linearizable.
 *  Returns: 0, also if nothing was there; -EINVAL; -ENOMEM (for the parts that stay); -EDEADLK; what `fragment`
 *  returned. On an error nothing has changed.
 *  Lifetime: removed nodes are released after a grace period. */
IVS_API int ivs_map_unmap(struct ivs_map *map, uint64_t start, uint64_t end) IVS_MUST_CHECK;

/** Insert: maps [start, end) only if no key of it is covered.
 *  Context: outside read sections; sleeps only if the gap is held.
 *  Progress: lock-free unless the gap is held.
 *  Ordering: release. Linearizable.
 *  Returns: 0; -EEXIST: a key is covered; -EINVAL; -ENOMEM; -EDEADLK. On an error nothing has changed.
 *  Lifetime: as ivs_map_map. */
IVS_API int ivs_map_insert(struct ivs_map *map, uint64_t start, uint64_t end, void *value) IVS_MUST_CHECK;

/** Insert with a prepared node.
 *  Context: as ivs_map_insert.
 *  Progress: as ivs_map_insert.
 *  Ordering: as ivs_map_insert.
 *  Returns: as ivs_map_insert; -EPERM: the node is or was in a map. On an error the node is still the caller's.
 *  Lifetime: the node is the map's. */
IVS_API int ivs_map_insert_node(struct ivs_map *map, struct ivs_node *node) IVS_MUST_CHECK;

/** Alloc: finds room for `size` keys in a window and maps it, without a lock: first fit from the hint, then from
 *  the window's start.
 *  Context: outside read sections, without a range that meets the window or lies behind it; sleeps if every gap
 *  that fits is held, or, after three scans that disagree, if a part of the window is.
 *  Progress: lock-free unless every gap that fits is held; locks the window after three scans that disagree.
 *  Ordering: release. Linearizable.
 *  Returns: 0 and the place in *start; -ENOMEM: no gap fitted at some instant of the call (G7), or no memory;
 *  -EINVAL: NULL, size 0, alignment no power of two, bad window, window smaller than size; -EDEADLK. On an error
 *  nothing has changed, *start included.
 *  Lifetime: as ivs_map_map.
 *  Source: IntervalVM, SOSP 2025, sections 4 and 5.3 (Alloc); the rule of refusal is our own. */
IVS_API int ivs_map_alloc(struct ivs_map *map, const struct ivs_alloc *request, void *value,
                          uint64_t *start) IVS_MUST_CHECK;

/** Alloc with a prepared node; its bounds are set to the place found.
 *  Context: as ivs_map_alloc.
 *  Progress: as ivs_map_alloc.
 *  Ordering: as ivs_map_alloc.
 *  Returns: as ivs_map_alloc; -EPERM: the node is or was in a map. On an error *start is as it was, the node is
 *  still the caller's, its bounds undefined.
 *  Lifetime: the node is the map's; read the place through *start, for it may be gone already. */
IVS_API int ivs_map_alloc_node(struct ivs_map *map, const struct ivs_alloc *request, struct ivs_node *node,
                               uint64_t *start) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- API: speed */

/** Makes the entry table anew, for the nodes that there are now: searches then begin near their key instead of at the
 *  head, most often about four cache lines away from the answer in a map of any size. Worth a call after a map was
 *  filled, and again when its nodes have become several times as many or have moved to other keys: updates keep entries
 *  right, but the table does not grow, and one that is stale costs searches up to a third more than none. Takes 16 to
 *  33 bytes for each node, in one piece.
 *  Context: outside read sections, no range held by the caller; the allocator may sleep; leaves its own read section
 *  now and then; locks single nodes for a moment, like a short update, and skips those that are locked.
 *  Progress: linear in the nodes; all other operations go on meanwhile.
 *  Ordering: none.
 *  Returns: 0 (also where the map is too small for a table: then it has none); -ENOMEM: the old table stays; -EBUSY:
 *  another thread is at it; -EDEADLK: called inside a read section; -EINVAL: not a map.
 *  Lifetime: the table is the map's, from the domain's allocator. The old one waits for a grace period; release
 *  callbacks that are due may run. */
IVS_API int ivs_map_tune(struct ivs_map *map) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- API: inspection */

/** Checks every level against the invariants I1 to I6 (see IMPLEMENTATION).
 *  Context: nobody changes the map and no range is held (quiescent); does not sleep.
 *  Progress: O(n) for n nodes.
 *  Ordering: none needed.
 *  Returns: 0; -EBADMSG: broken, *report names the check, node and level; -EINVAL: not a map. `report` may be NULL.
 *  Lifetime: report->node is the map's. */
IVS_API int ivs_map_validate(struct ivs_map *map, struct ivs_report *report) IVS_MUST_CHECK;

/** Writes the map as text (a line a node) or as a Graphviz graph, piece by piece through put(ctx, string).
 *  Context: any; `put` runs inside a read section. Under concurrent updates the picture is ordered but no snapshot.
 *  Progress: linear in the nodes.
 *  Ordering: as ivs_map_next_rcu.
 *  Returns: 0; -EINVAL: NULL argument or unknown format.
 *  Lifetime: strings are valid during the call of put. */
IVS_API int ivs_map_dump(struct ivs_map *map, enum ivs_dump_format format, void (*put)(void *ctx, const char *text),
                         void *ctx);

/** Counts nodes, memory, towers and waits by walking the map (there is no global counter on the paths of the
 *  operations).
 *  Context: any; a read section is held during the walk.
 *  Progress: linear in the nodes.
 *  Ordering: as ivs_map_next_rcu.
 *  Returns: 0; -EINVAL: NULL argument.
 *  Lifetime: none. */
IVS_API int ivs_map_get_stats(struct ivs_map *map, struct ivs_map_stats *stats);

/** In the child of a fork(): frees the locks of threads that are not there and builds the index anew. An update
 *  that was under way in another thread has happened or not; its replaced nodes may stay allocated.
 *  Context: the child's only thread, outside read sections, before any other use of the map. Ranges held by the
 *  calling thread are lost, their handles must not be used.
 *  Progress: O(n log n).
 *  Ordering: none needed; the caller is alone.
 *  Returns: 0; -EINVAL: not a map.
 *  Lifetime: nodes stay. */
IVS_API int ivs_map_reset_after_fork(struct ivs_map *map) IVS_MUST_CHECK;

/* -------------------------------------------------------------------------------- API: range locks */

enum ivs_range_mode {
    IVS_SHARED = 1,    /* with other shared holders */
    IVS_EXCLUSIVE = 2, /* alone */
    IVS_NESTED =
        4 /* flag: the caller holds other ranges of this lock, so it does not queue behind those who wait for them */
};

/*
 * A lock on ranges of [0, 2^64) (manual, section 9). Idle, or held by one: this and nothing else.
 *
 * root:  0 idle | handle, 1 held by that one | handle, 1 + 2 the same, under change | table, 4 held ranges are in a map
 */
struct ivs_range_lock {
    uintptr_t root_;
    struct ivs_domain *domain_;
    ivs_u64_ grants_; /* acquisitions that needed no table */
} __attribute__((aligned(8)));

#define IVS_RANGE_LOCK_INIT                                                                                            \
    { 0, NULL, 0 }

/* The handle of a request, kept by the caller: zero it before its first use (IVS_RANGE_INIT), do not move it while it
 * is held or waits. The fields without underscore may be read while it is held. */
struct ivs_range {
    struct ivs_range_lock *lock; /* NULL: holds nothing */
    uint64_t start;              /* [start, end); end == 0: 2^64 */
    uint64_t end;
    uint64_t owner;       /* who asks; 0: the calling thread. Set it before the request */
    uint32_t mode;        /* enum ivs_range_mode */
    uint32_t borrowed;    /* 1: `storage` is, or was, in use; ivs_range_lock_barrier, then set it to 0 */
    uint64_t held_end;    /* with IVS_NESTED: no range that the owner holds ends above; 0: above `start`;
                             UINT64_MAX: 2^64 */
    void *storage;        /* NULL, or IVSKIP_RANGE_STORAGE bytes, 8-byte aligned, for when there is no memory */
    uint64_t other_start; /* after -EDEADLK: the range that can never be free */
    uint64_t other_end;
    uint64_t holder_; /* the owner, in fact */
    uint64_t start_, last_;
    uint64_t by_start_, by_last_; /* the held range that it sleeps for */
    uint64_t since_;
    struct ivs_node *node_;
    struct ivs_range *self_; /* its address: a copy is no handle */
    void (*done_)(struct ivs_range *range, int result);
    struct ivs_range *chain_;                /* of a set, or of those to be answered */
    struct ivs_range *left_, *right_, *up_;  /* in the queue, a tree */
    struct ivs_range *behind_, *train_;      /* whom it stands behind; who stands behind it, the first of them */
    struct ivs_range *next_, *prev_;         /* in that train, or among the holders */
    uint64_t ticket_;                        /* its turn */
    uint64_t low_;                           /* no held range for which it may wait ends below */
    uint64_t above_;                         /* if nested: it stands behind those only whose low_ is above */
    uint64_t reach_, lowest_, oldest_;       /* of its subtree: last_, low_ and ticket_ */
    uint64_t mark_;                          /* of a search for a cycle */
    uint32_t state_, mode_, flags_, expand_; /* see IVS_RANGE_AWAKE_; without IVS_NESTED; IVS_RANGE_WOKEN_ */
    uint32_t kinds_, under_;                 /* IVS_WAITS_.., of it and of its subtree */
    uint32_t vain_;                          /* times that it was woken and found the range taken */
} __attribute__((aligned(8)));

#if defined(__cplusplus)
#define IVS_RANGE_INIT                                                                                                 \
    {}
#else
#define IVS_RANGE_INIT                                                                                                 \
    { 0 }
#endif

/* Bytes in front of each node in the domain of a range lock. */
#define IVSKIP_RANGE_PAYLOAD 128

/* Bytes that a handle's `storage` needs. */
#define IVSKIP_RANGE_STORAGE IVSKIP_NODE_BYTES(IVSKIP_RANGE_PAYLOAD, 1)

struct ivs_range_stats {
    uint64_t acquisitions;
    uint64_t waits;        /* requests that had to wait */
    uint64_t longest_wait; /* nanoseconds, of those that are over */
    uint64_t wakes;        /* wake-ups of waiters */
    uint64_t false_wakes;  /* that found the range taken again */
    uint64_t waiting;      /* requests that wait now: for a held range, or behind others */
    uint64_t held;         /* pieces that are held now */
    uint64_t cached;       /* pieces that are kept for the next who asks for the same range */
};

/** Makes an idle lock; IVS_RANGE_LOCK_INIT does the same without a call. `domain` (may be NULL: one for each lock)
 *  gives the memory, and may be shared by many locks; its payload_size must be IVSKIP_RANGE_PAYLOAD.
 *  Context: any; does not sleep, does not allocate.
 *  Progress: wait-free.
 *  Ordering: none; publish the lock to other threads yourself.
 *  Returns: 0; -EINVAL: NULL lock, or a domain that was not made or has another payload size.
 *  Lifetime: the lock's memory is the caller's; it must not move. A shared domain must outlive the lock. */
IVS_API int ivs_range_lock_init(struct ivs_range_lock *lock, struct ivs_domain *domain) IVS_MUST_CHECK;

/** Allocates now what the lock needs when it is first held by two at once, so that this cannot fail later.
 *  Context: as ivs_range_lock.
 *  Progress: the allocator's.
 *  Ordering: none.
 *  Returns: 0, also if it was done before; -EINVAL; -ENOMEM; -EDEADLK: inside a read section of the lock's domain.
 *  Lifetime: until ivs_range_lock_destroy. */
IVS_API int ivs_range_lock_prepare(struct ivs_range_lock *lock) IVS_MUST_CHECK;

/** Waits until the storage of all handles that were released may be used again (clear `borrowed` then).
 *  Context: outside read sections; sleeps.
 *  Progress: waits for a grace period.
 *  Ordering: as ivs_domain_barrier.
 *  Returns: 0; -EINVAL: NULL; -EDEADLK: inside a read section, or in a release callback.
 *  Lifetime: unchanged. */
IVS_API int ivs_range_lock_barrier(struct ivs_range_lock *lock) IVS_MUST_CHECK;

/** Ends a lock. It may be called as soon as the last holder's release is under way: that one is waited for.
 *  Context: outside read sections; no other call on the lock runs but releases; sleeps.
 *  Progress: linear in the pieces that are kept; waits for a grace period.
 *  Ordering: all that was done under the lock happens before the return.
 *  Returns: 0; -EINVAL: NULL; -EBUSY: a range is held or waited for (or its release has not come to where it lets go),
 *  nothing done; -EDEADLK: inside a read section, or in a callback of the lock.
 *  Lifetime: the memory may be reused; it is an idle lock again, and storage is the caller's. */
IVS_API int ivs_range_lock_destroy(struct ivs_range_lock *lock) IVS_MUST_CHECK;

#if defined(__cplusplus) /* a function and a struct of one name: write `struct ivs_range_lock`, in C++ too */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
/** Takes [start, end) in a mode: IVS_SHARED or IVS_EXCLUSIVE, with IVS_NESTED where the caller holds a range of this
 *  lock already (manual, section 9: order rules).
 *  Context: outside read sections; sleeps.
 *  Progress: blocking, fair (G9). One who asks for what nobody else wants never waits for a holder.
 *  Ordering: acquire: pairs with the release of whoever held a part before.
 *  Returns: 0; -EINVAL: NULL, bad range or mode; -ENOMEM: for the table or for pieces (never where the lock was not
 *  yet held by two at once and is idle; nor, with a table and unused `storage`, where no shared range must be cut);
 *  -EPERM: the handle is in use; -EDEADLK: inside a read section, or (IVSKIP_DEBUG) by
 *  waiting, the owner would wait for itself; other_start and other_end tell for which range.
 *  Lifetime: the handle belongs to the lock until the release.
 *  Source: A. Kogan, D. Dice, S. Issa, Scalable range locks for scalable address spaces and beyond, EuroSys 2020 (a
 *  list of held ranges without a lock around it); cached pieces, the map and the queue are our own. */
IVS_API int ivs_range_lock(struct ivs_range_lock *lock, struct ivs_range *range, uint64_t start, uint64_t end,
                           unsigned mode) IVS_MUST_CHECK;
#if defined(__cplusplus)
#pragma GCC diagnostic pop
#endif

/** As ivs_range_lock, without waiting for a holder. It may wait for a moment for another call's bookkeeping.
 *  Context: as ivs_range_lock.
 *  Progress: waits for no holder.
 *  Ordering: acquire on success.
 *  Returns: as ivs_range_lock; -EBUSY: a part is held, or somebody waits who goes first.
 *  Lifetime: as ivs_range_lock. */
IVS_API int ivs_range_trylock(struct ivs_range_lock *lock, struct ivs_range *range, uint64_t start, uint64_t end,
                              unsigned mode) IVS_MUST_CHECK;

/** As ivs_range_lock, for at most `nanoseconds` (monotonic clock).
 *  Context: as ivs_range_lock.
 *  Progress: blocking, bounded by the time given.
 *  Ordering: acquire on success.
 *  Returns: as ivs_range_lock; -ETIMEDOUT: nothing is held and nothing stays behind.
 *  Lifetime: as ivs_range_lock. */
IVS_API int ivs_range_timedlock(struct ivs_range_lock *lock, struct ivs_range *range, uint64_t start, uint64_t end,
                                unsigned mode, uint64_t nanoseconds) IVS_MUST_CHECK;

/** As ivs_range_lock, without sleeping: if the range is not free, done(range, result) is called once when it is ours
 *  (0), or when that failed (-ENOMEM). For event loops: let it write to an eventfd.
 *  Context: as ivs_range_trylock. `done` runs in another call on the lock, mostly the one that let the range go, and
 *  maybe of a bystander (manual: Callbacks); it must not wait, nor destroy the lock; it may ask, cancel, and let go.
 *  Progress: as ivs_range_trylock; fair as ivs_range_lock.
 *  Ordering: acquire, before the return of 0 or the call of `done`.
 *  Returns: 0: it is ours at once, `done` will not be called; -EINPROGRESS: `done` will be; else as ivs_range_lock.
 *  Lifetime: the handle belongs to the lock until the release, a failure, or ivs_range_cancel. */
IVS_API int ivs_range_lock_async(struct ivs_range_lock *lock, struct ivs_range *range, uint64_t start, uint64_t end,
                                 unsigned mode, void (*done)(struct ivs_range *range, int result)) IVS_MUST_CHECK;

/** Takes an asynchronous request back.
 *  Context: outside read sections; may sleep for a moment.
 *  Progress: waits for no holder.
 *  Ordering: none.
 *  Returns: 0: it is gone, `done` will not be called; -EBUSY: it does not wait: it was answered, or `done` is about to
 *  be called; -EPERM: no asynchronous request, or one that waits in another lock; -EINVAL: NULL.
 *  Lifetime: the handle must stay until the return; after 0 it is the caller's again. */
IVS_API int ivs_range_cancel(struct ivs_range_lock *lock, struct ivs_range *range) IVS_MUST_CHECK;

/** Lets a range go, and wakes those who waited for it.
 *  Context: any thread (IVSKIP_DEBUG: of the same owner); outside read sections; waits for no holder. It grants
 *  asynchronous requests, and runs their callbacks; but for these it does not allocate.
 *  Progress: wait-free if it was exclusive, not in `storage`, nobody waits, and nobody makes the table just now.
 *  Ordering: release.
 *  Returns: 0; -EINVAL: NULL; -EPERM: not held, or held in another lock, a moved or changed handle, released twice,
 *  another owner (IVSKIP_DEBUG): nothing done.
 *  Lifetime: the handle is the caller's again; the lock may be destroyed. */
IVS_API int ivs_range_unlock(struct ivs_range_lock *lock, struct ivs_range *range);

/** Takes `count` ranges, all or none: start, end and mode of each handle say which. Sorted inside, so that sets never
 *  deadlock with each other; the array keeps its order. Ranges of a set may overlap only if both are shared.
 *  Context: as ivs_range_lock.
 *  Progress: blocking; n log n in the ranges. What it holds meanwhile keeps others waiting.
 *  Ordering: acquire.
 *  Returns: as ivs_range_lock (-EINVAL also: two of them conflict); on an error nothing is held.
 *  Lifetime: as ivs_range_lock; release with ivs_range_unlock_set, or one by one. */
IVS_API int ivs_range_lock_set(struct ivs_range_lock *lock, struct ivs_range *ranges, size_t count) IVS_MUST_CHECK;

/** Releases each range of a set.
 *  Context: as ivs_range_unlock.
 *  Progress: as ivs_range_unlock, for each.
 *  Ordering: release.
 *  Returns: 0; -EINVAL: NULL; -EPERM: some were not held (see ivs_range_unlock); the others are released.
 *  Lifetime: as ivs_range_unlock. */
IVS_API int ivs_range_unlock_set(struct ivs_range_lock *lock, struct ivs_range *ranges, size_t count);

/** From exclusive to shared, without letting go.
 *  Context: as ivs_range_unlock.
 *  Progress: as ivs_range_unlock; never fails for memory.
 *  Ordering: release, for those who come in.
 *  Returns: 0, also if it was shared; -EINVAL, -EPERM: as ivs_range_unlock.
 *  Lifetime: unchanged. */
IVS_API int ivs_range_downgrade(struct ivs_range_lock *lock, struct ivs_range *range);

/** From shared to exclusive, if nobody shares a part just now.
 *  Context: as ivs_range_trylock.
 *  Progress: waits for no holder.
 *  Ordering: acquire on success.
 *  Returns: 0, also if it was exclusive; -EBUSY: somebody shares it, it stays shared; -ENOMEM; -EINVAL, -EPERM: as
 *  ivs_range_unlock; -EDEADLK: inside a read section.
 *  Lifetime: unchanged. */
IVS_API int ivs_range_try_upgrade(struct ivs_range_lock *lock, struct ivs_range *range) IVS_MUST_CHECK;

/** Counts; figures of one moment each, not of the same one.
 *  Context: as ivs_range_trylock.
 *  Progress: linear in pieces and waiters.
 *  Ordering: none.
 *  Returns: 0; -EINVAL: NULL argument.
 *  Lifetime: none. */
IVS_API int ivs_range_lock_get_stats(struct ivs_range_lock *lock, struct ivs_range_stats *stats);

/** Writes holders and waiters as text, a line each, piece by piece through put(ctx, string).
 *  Context: as ivs_range_trylock; `put` must not use the lock.
 *  Progress: linear in pieces and waiters; those who begin or end to wait wait meanwhile.
 *  Ordering: none.
 *  Returns: 0; -EINVAL: NULL argument.
 *  Lifetime: strings are valid during the call of put. */
IVS_API int ivs_range_lock_dump(struct ivs_range_lock *lock, void (*put)(void *ctx, const char *text), void *ctx);

/** In the child of a fork(): the lock is idle, whoever held or waited for a part. A shared domain is reset first, by
 *  its own call.
 *  Context: the child's only thread, before any other use of the lock. Handles of before must not be used, but may be
 *  zeroed and used again.
 *  Progress: linear in the pieces.
 *  Ordering: none needed; the caller is alone.
 *  Returns: 0; -EINVAL: NULL.
 *  Lifetime: the lock's memory stays with the lock. Storage of handles of before: ivs_range_lock_barrier first. */
IVS_API int ivs_range_lock_reset_after_fork(struct ivs_range_lock *lock) IVS_MUST_CHECK;

#if defined(__cplusplus)
/* Holds a range for a scope: `ivs_range_guard hold(lock, 0, 4096, IVS_SHARED); if (!hold) ... hold.error() ...` */
class ivs_range_guard {
  public:
    ivs_range_guard(struct ivs_range_lock &lock, uint64_t start, uint64_t end, unsigned mode) : range_(), error_(0) {
        error_ = ivs_range_lock(&lock, &range_, start, end, mode);
    }
    ~ivs_range_guard() { (void)unlock(); }
    int unlock() { return range_.lock ? ivs_range_unlock(range_.lock, &range_) : IVS_EPERM; }
    int downgrade() { return ivs_range_downgrade(range_.lock, &range_); }
    int error() const { return error_; }
    explicit operator bool() const { return range_.lock != nullptr; }

  private:
    ivs_range_guard(const ivs_range_guard &);            // not to be moved or copied
    ivs_range_guard &operator=(const ivs_range_guard &); // likewise
    struct ivs_range range_;
    int error_;
};
#endif

/* -------------------------------------------------------------------------------- atomics */

/*
 * Every shared word is read and written through these, at one size each, so that a checker can put its own underneath
 * (IVSKIP_ATOMICS). The name is the order. Suffix: word = pointer-sized, 64, 32.
 */
#if defined(IVSKIP_ATOMICS)
#include IVSKIP_ATOMICS
#else
#if !defined(__GCC_ATOMIC_LLONG_LOCK_FREE) || __GCC_ATOMIC_LLONG_LOCK_FREE != 2
#error "ivskip.h needs lock-free 64-bit atomics"
#endif
#define IVS_ATOMICS_(T, s)                                                                                             \
    static inline T ivs_load_relaxed_##s##_(const T *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }               \
    static inline T ivs_load_acquire_##s##_(const T *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }               \
    static inline void ivs_store_relaxed_##s##_(T *p, T v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }               \
    static inline void ivs_store_release_##s##_(T *p, T v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }               \
    static inline T ivs_exchange_relaxed_##s##_(T *p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }     \
    static inline T ivs_exchange_acq_rel_##s##_(T *p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL); }     \
    static inline T ivs_add_relaxed_##s##_(T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }           \
    static inline T ivs_add_release_##s##_(T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELEASE); }           \
    static inline T ivs_add_acq_rel_##s##_(T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL); }           \
    static inline T ivs_or_acq_rel_##s##_(T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_ACQ_REL); }             \
    static inline T ivs_and_release_##s##_(T *p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_RELEASE); }           \
    static inline bool ivs_cas_relaxed_##s##_(T *p, T *old, T v) {                                                     \
        return __atomic_compare_exchange_n(p, old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                      \
    }                                                                                                                  \
    static inline bool ivs_cas_acq_rel_##s##_(T *p, T *old, T v) {                                                     \
        return __atomic_compare_exchange_n(p, old, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);                      \
    }
IVS_ATOMICS_(uintptr_t, word)
IVS_ATOMICS_(ivs_u64_, 64)
IVS_ATOMICS_(uint32_t, 32)
#undef IVS_ATOMICS_
#endif

/* -------------------------------------------------------------------------------- inline paths */

static inline void *ivs_node_value(const struct ivs_node *node) {
    return (void *)ivs_load_acquire_word_(&node->value_); /* [P6] */
}

static inline struct ivs_node *ivs_lock_after(const struct ivs_lock *lock) {
    return (struct ivs_node *)(ivs_load_acquire_word_(&lock->tail_->next_) & ~(uintptr_t)7); /* [P1] */
}

static inline struct ivs_node *ivs_lock_next(const struct ivs_lock *lock, const struct ivs_node *node) {
    uintptr_t word = ivs_load_relaxed_word_(&node->next_);
    return node == lock->tail_ ? NULL : (struct ivs_node *)(word & ~(uintptr_t)7);
}

#endif /* IVSKIP_H */

/* ================================================================================ IMPLEMENTATION */

#if defined(IVSKIP_IMPLEMENTATION) && !defined(IVSKIP_IMPLEMENTED_)
#define IVSKIP_IMPLEMENTED_

/*
 * Invariants (cited at the lines that need or keep them)
 *
 *   I1  the level-0 chain is sorted and disjoint at every instant.
 *   I2  a level-0 link changes only by its lock holder, or by an insert's CAS from an unlocked, valid word to the
 *       same state with the new node in front, or by a waiter's CAS that sets WAITERS on a locked word. Every write
 *       to a published level-0 link is an RMW that keeps WAITERS.
 *   I3  a link is frozen after INVALIDATED; a replaced node stays readable until a grace period has passed.
 *   I4  a node reachable at level l is reachable at all lower levels: towers are linked bottom-up and unlinked
 *       top-down, and a level is marked only when the node is verified unlinked from the level above. Whoever links,
 *       unlinks or verifies and meets a marked link unlinks it: helping, so that a stalled holder stops nobody.
 *   I5  a node is linked and marked at upper levels only by the holder of its level-0 lock. A tall new node
 *       is published LOCKED and stays so until its tower is final; a tower given up half-way has its height
 *       trimmed before the unlock.
 *   I6  an old node is unreachable at every upper level before the commit that removes it, verified by a search
 *       that reads nodes' own bounds; and no slot of the entry table leads to it: slots are set and cleared for a
 *       published node by the holder of its level-0 lock only.
 *   I7  order of a swap: mark, unlink, commit, invalidate, wake, link new towers, unlock, retire.
 *   I8  locks are taken in ascending order, hold-and-wait. Who holds p keeps p's successor from being
 *       replaced or freed, so only the wait for the predecessor can need a restart, and later waits may sleep
 *       outside any read section.
 *
 * Pairs of memory orders (release side -> acquire side, and what breaks without)
 *
 *   P1  commit or insert on a level-0 link -> load of the link: the bounds, value and payload of the node found.
 *   P2  unlock or invalidate of a link -> the CAS that locks it, also its failure: what the holder
 *       before did under the lock.
 *   P3  link, unlink or mark of an upper link -> load of the link: the node found, and the order
 *       top-down, bottom-up (I4, I6).
 *   P4  an entry table is published, or a slot of it set -> load of it: the table and the node are readable. (Clearing
 *       a slot and giving a line to a run are relaxed: the order of one word is all that they need.)
 *   P5  bump of a bucket's ticket -> load of the ticket by a waiter, which is followed by its
 *       WAITERS: else a lost wake.
 *   P6  ivs_node_set_value -> ivs_node_value: what the value points to.
 *   P7  announcement of a read section (RMW on `active`) -> look of the scanner (RMW on the same word), and back:
 *       either the scanner sees the reader, or the reader sees all that was unpublished before the scan. Store
 *       buffering, so RMW on both sides.
 *   P8  advance of the epoch -> load of the epoch: a reader of epoch e sees all that was retired before e began.
 *   P9  a tag is not old. A list's is read in a read section, whose end (P10) the scan of that record waits for: no
 *       advance by two passes it by. Synchronize's is read by an RMW on the word that the advance changes by RMW.
 *   P10 end of a read section -> look of the scanner: the reader's accesses come before the free.
 *   P11 a new record enters the list (CAS) -> the scanner's look at the list (RMW on the same word), and back: as P7.
 *   P12 release of a record's limbo -> the next holder of it.
 *   P13 push on the orphan stack -> the exchange that takes all.
 *   P14 a record changes hands: thread exit, claim, end of the domain.
 *   P16 the count of a thread's releases -> ivs_domain_barrier: callbacks that another thread runs have ended.
 *   P17 end of a guard on a range lock's queue -> the next one's begin: the queue, and the handles in it.
 *   P18 a piece is let go, frozen or thawed -> it is taken or looked at: what the holder before did under the lock, and
 *       what the piece was when it was cut.
 *   P19 a range lock's root changes -> the next look at it: the handle of the one who holds it, the table, what the
 *       holder before did.
 *   P20 a release has passed, or a piece in storage is retired -> destroy, barrier: neither is touched any more.
 *   P15 (liburcu, host) the flag that a grace period is under way, and the stack of what
 *   waits for the next: either the
 *       callback finds what was pushed, or the pusher finds that it must start. Store
 *       buffering, so RMW on both sides.
 */

/* -------------------------------------------------------------------------------- host */

/* Everything the header needs from the world (manual, section 8); in userspace each hook has a default. */
#if defined(IVSKIP_HOST_PARK) != defined(IVSKIP_HOST_WAKE)
#error "define IVSKIP_HOST_PARK and IVSKIP_HOST_WAKE together"
#endif
#if defined(IVSKIP_HOST_MALLOC) != defined(IVSKIP_HOST_FREE)
#error "define IVSKIP_HOST_MALLOC and IVSKIP_HOST_FREE together"
#endif

#ifndef IVSKIP_ASSERT
#define IVSKIP_ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())
#endif
#if IVSKIP_DEBUG
#define IVS_ASSERT_(condition) IVSKIP_ASSERT(condition)
#else
#define IVS_ASSERT_(condition) ((void)0)
#endif
#ifndef IVSKIP_RELAX
#if defined(__x86_64__) || defined(__i386__)
#define IVSKIP_RELAX() __builtin_ia32_pause()
#else
#define IVSKIP_RELAX() ((void)0)
#endif
#endif

/* A host's IVSKIP_HOST_MALLOC is not called while a range is held. */
#if defined(IVSKIP_HOST_MALLOC) || IVS_RCU_IS_(HOST)
#define IVS_MALLOC_WHILE_HELD_ false
#else
#define IVS_MALLOC_WHILE_HELD_ true
#endif

#if IVS_RCU_IS_(HOST)
#ifndef IVSKIP_HOST_MALLOC
#define IVSKIP_HOST_MALLOC(bytes) ((void)(bytes), (void *)0)
#endif
#ifndef IVSKIP_HOST_FREE
#define IVSKIP_HOST_FREE(memory) ((void)(memory))
#endif
#ifndef IVSKIP_HOST_YIELD
#define IVSKIP_HOST_YIELD() IVSKIP_RELAX()
#endif
#ifndef IVSKIP_HOST_PARK
#define IVSKIP_HOST_PARK(word, ticket, deadline) ((void)(word), (void)(ticket), (void)(deadline), IVSKIP_RELAX())
#define IVSKIP_HOST_WAKE(word)                   ((void)(word))
#endif
#ifndef IVSKIP_HOST_RCU_HELD
#define IVSKIP_HOST_RCU_HELD() 0
#endif
#ifndef IVSKIP_HOST_OWNER
#define IVSKIP_HOST_OWNER() 0
#endif

#else /* userspace */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#ifndef IVSKIP_HOST_MALLOC
#define IVSKIP_HOST_MALLOC(bytes) malloc(bytes)
#endif
#ifndef IVSKIP_HOST_FREE
#define IVSKIP_HOST_FREE(memory) free(memory)
#endif
#ifndef IVSKIP_HOST_YIELD
#define IVSKIP_HOST_YIELD() ((void)sched_yield())
#endif
#ifndef IVSKIP_HOST_NOW
#define IVSKIP_HOST_NOW() ivs_host_now_()
#if defined(CLOCK_MONOTONIC)
#define IVS_CLOCK_ CLOCK_MONOTONIC
#elif defined(__linux__)
#define IVS_CLOCK_ 1 /* time.h hides it, and the function, in strict C11 */
extern int clock_gettime(int clock, struct timespec *now);
#endif
static inline uint64_t ivs_host_now_(void) {
    struct timespec t;
    (void)clock_gettime(IVS_CLOCK_, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
#endif

#ifndef IVSKIP_HOST_PARK
#define IVSKIP_HOST_PARK(word, ticket, deadline) ivs_host_park_((word), (ticket), (deadline))
#define IVSKIP_HOST_WAKE(word)                   ivs_host_wake_(word)
#if defined(__linux__) && !defined(IVS_NO_FUTEX_)
#include <sys/syscall.h>
#include <unistd.h>
enum { IVS_FUTEX_WAKE_ = 1 | 128, IVS_FUTEX_WAIT_BITSET_ = 9 | 128 }; /* private; absolute monotonic time-out */

#if !defined(SYS_futex) /* 32-bit hosts that were born with 64-bit time */
#define SYS_futex SYS_futex_time64
#endif
#if defined(SYS_futex_time64)
#define IVS_FUTEX_ (sizeof(time_t) > sizeof(long) ? SYS_futex_time64 : SYS_futex)
#else
#define IVS_FUTEX_ SYS_futex
#endif

#if !defined(__cplusplus)
extern long syscall(long number, ...);                                /* unistd.h hides it in strict C11 */
#endif

static void ivs_host_park_(uint32_t *word, uint32_t ticket, uint64_t deadline) {
    struct timespec t, *until = NULL;
    if (deadline != UINT64_MAX) {
        t.tv_sec = (time_t)(deadline / 1000000000u);
        t.tv_nsec = (long)(deadline % 1000000000u);
        until = &t;
    }
    (void)syscall(IVS_FUTEX_, word, IVS_FUTEX_WAIT_BITSET_, ticket, until, (void *)0, 0xffffffffu);
}

static void ivs_host_wake_(uint32_t *word) {
    (void)syscall(IVS_FUTEX_, word, IVS_FUTEX_WAKE_, 0x7fffffff, (void *)0, (void *)0, 0);
}
#else
/* Elsewhere a waiter sleeps at one of a few conditions, by its word's address. This, and a thread's record, is all that
 * belongs to the program and not to an object of the caller's. */
struct ivs_park_ {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
};
#define IVS_PARK_                                                                                                      \
    { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER }
static struct ivs_park_ ivs_parks_[8] = {IVS_PARK_, IVS_PARK_, IVS_PARK_, IVS_PARK_,
                                         IVS_PARK_, IVS_PARK_, IVS_PARK_, IVS_PARK_};

static struct ivs_park_ *ivs_park_of_(const uint32_t *word) { return &ivs_parks_[((uintptr_t)word >> 6) % 8]; }

/* At most a second at once, for the clock of a condition may be set. */
static void ivs_host_park_(uint32_t *word, uint32_t ticket, uint64_t deadline) {
    struct ivs_park_ *park = ivs_park_of_(word);
    uint64_t now = IVSKIP_HOST_NOW(), most = 1000000000u;
    struct timespec until;
    if (deadline <= now) return;
    if (deadline - now < most) most = deadline - now;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    most += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(most / 1000000000u);
    until.tv_nsec = (long)(most % 1000000000u);
    (void)pthread_mutex_lock(&park->mutex);
    if (ivs_load_acquire_32_(word) == ticket) /* [P5] */
        (void)pthread_cond_timedwait(&park->moved, &park->mutex, &until);
    (void)pthread_mutex_unlock(&park->mutex);
}

static void ivs_host_wake_(uint32_t *word) {
    struct ivs_park_ *park = ivs_park_of_(word);
    (void)pthread_mutex_lock(&park->mutex);
    (void)pthread_cond_broadcast(&park->moved);
    (void)pthread_mutex_unlock(&park->mutex);
}

/* In the child of a fork: whoever held a mutex is not there. */
static void ivs_parks_reset_(void) {
    const struct ivs_park_ fresh = IVS_PARK_;
    for (int i = 0; i < 8; i++) ivs_parks_[i] = fresh;
}
#define IVS_PARKS_RESET_() ivs_parks_reset_()
#endif
#endif
#endif /* userspace */
#ifndef IVS_PARKS_RESET_
#define IVS_PARKS_RESET_() ((void)0)
#endif

/*
 * The RCU of others, by one set of names. Under ThreadSanitizer the packaged liburcu, which is not instrumented,
 * would hide the order that its grace periods make; the two annotations say it.
 */
#if defined(__SANITIZE_THREAD__)
#define IVS_TSAN_ 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IVS_TSAN_ 1
#endif
#endif
#if defined(IVS_TSAN_) && !IVS_RCU_IS_(BUILTIN) && !IVS_RCU_IS_(HOST)
#if defined(__cplusplus)
extern "C" {
#endif
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#if defined(__cplusplus)
}
#endif
#define IVS_TSAN_SECTION_ENDS_(domain) __tsan_release(domain)
#define IVS_TSAN_GRACE_OVER_(domain)   __tsan_acquire(domain)
#else
#define IVS_TSAN_SECTION_ENDS_(domain) ((void)(domain))
#define IVS_TSAN_GRACE_OVER_(domain)   ((void)(domain))
#endif

#define IVS_RCU_OFFLINE_() ((void)0)
#define IVS_RCU_ONLINE_()  ((void)0)
#if IVS_RCU_IS_(URCU_MEMB)
#define IVS_RCU_ENTER_()        urcu_memb_read_lock()
#define IVS_RCU_EXIT_()         urcu_memb_read_unlock()
#define IVS_RCU_HELD_()         urcu_memb_read_ongoing()
#define IVS_RCU_CALL_(head, fn) urcu_memb_call_rcu(head, fn)
#define IVS_RCU_SYNCHRONIZE_()  urcu_memb_synchronize_rcu()
#define IVS_RCU_BARRIER_()      urcu_memb_barrier()
#elif IVS_RCU_IS_(URCU_QSBR)
#undef IVS_RCU_OFFLINE_
#undef IVS_RCU_ONLINE_
#define IVS_RCU_OFFLINE_()      urcu_qsbr_thread_offline()
#define IVS_RCU_ONLINE_()       urcu_qsbr_thread_online()
#define IVS_RCU_ENTER_()        urcu_qsbr_read_lock()
#define IVS_RCU_EXIT_()         urcu_qsbr_read_unlock()
#define IVS_RCU_HELD_()         0 /* cannot be told: an online thread is in a section as far as liburcu knows */
#define IVS_RCU_CALL_(head, fn) urcu_qsbr_call_rcu(head, fn)
#define IVS_RCU_SYNCHRONIZE_()  urcu_qsbr_synchronize_rcu()
#define IVS_RCU_BARRIER_()      urcu_qsbr_barrier()
#elif IVS_RCU_IS_(URCU_BP)
#define IVS_RCU_ENTER_()        urcu_bp_read_lock()
#define IVS_RCU_EXIT_()         urcu_bp_read_unlock()
#define IVS_RCU_HELD_()         urcu_bp_read_ongoing()
#define IVS_RCU_CALL_(head, fn) urcu_bp_call_rcu(head, fn)
#define IVS_RCU_SYNCHRONIZE_()  urcu_bp_synchronize_rcu()
#define IVS_RCU_BARRIER_()      urcu_bp_barrier()
#elif IVS_RCU_IS_(HOST)
#define IVS_RCU_ENTER_()        IVSKIP_HOST_RCU_ENTER()
#define IVS_RCU_EXIT_()         IVSKIP_HOST_RCU_EXIT()
#define IVS_RCU_HELD_()         IVSKIP_HOST_RCU_HELD()
#define IVS_RCU_CALL_(head, fn) IVSKIP_HOST_CALL_RCU(head, fn)
#define IVS_RCU_SYNCHRONIZE_()  IVSKIP_HOST_SYNCHRONIZE()
#define IVS_RCU_BARRIER_()      IVSKIP_HOST_RCU_BARRIER()
#endif

/* -------------------------------------------------------------------------------- words */

enum { IVS_LOCKED_ = 1, IVS_INVALIDATED_ = 2, IVS_WAITERS_ = 4, IVS_FLAGS_ = 7, IVS_MARK_ = 1 };
enum { IVS_PREPARED_ = 0, IVS_PUBLISHED_ = 1, IVS_REPLACED_ = 2 }; /* node->state_ */

#define IVS_MAP_MAGIC_    0x6976736b69706d31u
#define IVS_DOMAIN_MAGIC_ 0x6976736b69706431u

#if defined(__cplusplus)
#define IVS_STATIC_ASSERT_(condition, text) static_assert(condition, text)
#else
#define IVS_STATIC_ASSERT_(condition, text) _Static_assert(condition, text)
#endif
IVS_STATIC_ASSERT_(sizeof(struct ivs_node) <= 48, "a node of height 2 fits a cache line");
IVS_STATIC_ASSERT_(sizeof(struct ivs_node) % 8 == 0, "a tower follows its node without a gap");
IVS_STATIC_ASSERT_(IVSKIP_MAX_HEIGHT <= UINT8_MAX, "heights are kept in a byte");
IVS_STATIC_ASSERT_(offsetof(struct ivs_link_, key) % 8 == 0, "64-bit atomics are aligned, also on 32-bit hosts");
IVS_STATIC_ASSERT_(offsetof(struct ivs_domain, epoch_) % 8 == 0, "64-bit atomics are aligned, also on 32-bit hosts");
IVS_STATIC_ASSERT_(offsetof(struct ivs_map, head_links_) == sizeof(struct ivs_node),
                   "the head's tower follows its node");

static inline struct ivs_node *ivs_ptr_(uintptr_t word) { return (struct ivs_node *)(word & ~(uintptr_t)IVS_FLAGS_); }

/* The upper link of a node at a level >= 1. */
static inline struct ivs_link_ *ivs_up_(struct ivs_node *node, unsigned level) {
    return (struct ivs_link_ *)(void *)((unsigned char *)node + sizeof(struct ivs_node)) + (level - 1);
}

static inline size_t ivs_node_bytes_(const struct ivs_domain *domain, const struct ivs_node *node) {
    return IVSKIP_NODE_BYTES(domain->payload_size_, node->room_);
}

static uint64_t ivs_mix_(uint64_t x) { /* finalizer of splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* One step of xorshift64*. */
static inline uint64_t ivs_xorshift_(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

/* [start, end) as first and last key; false: not a range. end == 0 stands for 2^64. */
static inline bool ivs_range_(uint64_t start, uint64_t end, uint64_t *last) {
    *last = end - 1;
    return start <= *last;
}

/* -------------------------------------------------------------------------------- lists of dead things */

/*
 * What waits for its grace period: nodes and deferred callbacks in one list of words, each the address of an item;
 * bit 0 tells a deferred callback. An item's first private field holds the next word.
 */
struct ivs_list_ {
    uintptr_t first, last;
    uint64_t count, bytes;
};

enum { IVS_IS_DEFER_ = 1 };

static inline uintptr_t *ivs_item_next_(uintptr_t item) {
    if (item & IVS_IS_DEFER_) return &((struct ivs_defer *)(item & ~(uintptr_t)IVS_IS_DEFER_))->next_;
    return &((struct ivs_node *)item)->chain_;
}

static inline void ivs_list_push_(struct ivs_list_ *list, uintptr_t item, size_t bytes) {
    *ivs_item_next_(item) = list->first;
    if (!list->first) list->last = item;
    list->first = item;
    list->count++;
    list->bytes += bytes;
}

static void *ivs_memory_(struct ivs_domain *domain, size_t bytes, unsigned flags) {
    if (domain->ops_ && domain->ops_->alloc) return domain->ops_->alloc(domain->ctx_, bytes, flags);
    return (void *)IVSKIP_HOST_MALLOC(bytes);
}

static void ivs_node_free_(struct ivs_domain *domain, struct ivs_node *node) {
    void *memory = (unsigned char *)node - domain->payload_size_;
    if (domain->ops_ && domain->ops_->free) domain->ops_->free(domain->ctx_, memory, ivs_node_bytes_(domain, node));
    else IVSKIP_HOST_FREE(memory);
}

/* The end of a node whose value the map owns. */
static void ivs_node_release_(struct ivs_domain *domain, struct ivs_node *node) {
    bool foreign = node->foreign_; /* the callback may end that memory */
    if (node->owned_ && domain->ops_ && domain->ops_->release) domain->ops_->release(domain->ctx_, node);
    if (!foreign) ivs_node_free_(domain, node);
}

/* All that hangs on a word: a chain of items becomes a list. */
static void ivs_list_take_(struct ivs_domain *domain, struct ivs_list_ *list, uintptr_t item) {
    for (uintptr_t next; item; item = next) {
        next = *ivs_item_next_(item);
        ivs_list_push_(list, item, item & IVS_IS_DEFER_ ? 0 : ivs_node_bytes_(domain, (struct ivs_node *)item));
    }
}

static size_t ivs_list_release_(struct ivs_domain *domain, const struct ivs_list_ *list) {
    for (uintptr_t item = list->first, next; item; item = next) {
        next = *ivs_item_next_(item);
        if (item & IVS_IS_DEFER_) {
            struct ivs_defer *defer = (struct ivs_defer *)(item & ~(uintptr_t)IVS_IS_DEFER_);
            defer->fn_(defer);
        } else {
            ivs_node_release_(domain, (struct ivs_node *)item);
        }
    }
    return (size_t)list->count;
}

/* Leaves a list on the domain's stack. */
static void ivs_orphans_push_(struct ivs_domain *domain, const struct ivs_list_ *list) {
    uintptr_t head = ivs_load_relaxed_word_(&domain->orphans_);
    do {
        *ivs_item_next_(list->last) = head;
    } while (!ivs_cas_acq_rel_word_(&domain->orphans_, &head, list->first)); /* [P13] */
}

/* -------------------------------------------------------------------------------- built-in RCU: epochs */

#if IVS_RCU_IS_(BUILTIN)

/*
 * Each thread that uses a domain has a record in it. `active` is 0, or the epoch in which the thread's read section
 * began. The epoch may go from e to e + 1 when every active record shows e. What left the map is tagged with
 * e + 1, where e is the epoch as read in a read section of the tagger that was opened afterwards: that section holds
 * the epoch at e + 1 or less until it ends, so no RMW on the epoch is needed, whose line all readers share [P9]. It is
 * due when the epoch is e + 3: a reader that could know it had announced e + 1 or less, and held back that advance.
 *
 * Retired things collect in the record's open list; a full list is closed, that is, it gets such a tag. There are at
 * most three tags with something in them. A record's lists are guarded by a try-lock that is held briefly, and waited
 * for by ivs_domain_barrier only; the owner that misses it (another thread sweeps just now) leaves its nodes on the
 * domain's orphan stack instead of waiting.
 */
enum { IVS_FREE_ = 0, IVS_TAKEN_ = 1, IVS_DEAD_ = 2 }; /* record->state */
enum { IVS_LAG_ = 4 }; /* epochs without a full list after which others sweep a record: one more than lists wait */

struct ivs_record_ {
    uint32_t nest;      /* owner only */
    uint32_t releasing; /* odd: the owner has things in hand that are due */
    uint64_t random;    /* owner only: tower heights */
    struct ivs_domain *domain;
    uint64_t cookie;
    struct ivs_record_ *mine;     /* next record of the same thread */
    uint64_t index;               /* 1 for the domain's first record; never changes once published */
    unsigned char pad[IVS_LINE_]; /* above: the owner's, and what never changes; below: what an advance looks at */
    ivs_u64_ active;              /* written by the owner at each read section */
    ivs_u64_ seen;                /* the tag of the owner's last full list */
    struct ivs_record_ *next;     /* next record of the domain; never changes once published */
    uint32_t state;
    unsigned char pad2[IVS_LINE_];
    uint32_t guard; /* try-lock of what follows */
    uint64_t tag[3];
    struct ivs_list_ open, closed[3];
    ivs_u64_ count, bytes; /* in all four lists; read by statistics */
} __attribute__((aligned(8)));

/* Moves all of `from` into `to`. */
static void ivs_list_move_(struct ivs_list_ *to, struct ivs_list_ *from) {
    if (!from->first) return;
    *ivs_item_next_(from->last) = to->first;
    if (!to->first) to->last = from->last;
    to->first = from->first;
    to->count += from->count;
    to->bytes += from->bytes;
    from->first = from->last = 0;
    from->count = from->bytes = 0;
}

/* A thread's records, the one used last first. The one piece of state of the host: a cache, and the key that
 * empties it at thread exit. */
struct ivs_thread_ {
    struct ivs_record_ *hot, *mine;
    uint64_t random;    /* tower heights, */
    uint32_t retired;   /* retirements since the last try to release, */
    uint32_t releasing; /* and whether callbacks run: of a thread that got no record */
};
static __thread struct ivs_thread_ ivs_thread_;
static pthread_key_t ivs_thread_key_;
static pthread_once_t ivs_thread_once_ = PTHREAD_ONCE_INIT;
static bool ivs_thread_key_ok_;

/* A record leaves its thread: back to its domain, or, if that is gone, to the allocator. */
static void ivs_record_leave_(struct ivs_record_ *record) {
    uint32_t state = IVS_TAKEN_;
    record->nest = 0;
    if (ivs_load_relaxed_32_(&record->releasing) & 1) ivs_store_release_32_(&record->releasing, 0); /* [P16] */
    /* an RMW: the next owner must see who looked at the record before it was left */
    (void)ivs_exchange_acq_rel_64_(&record->active, 0);                 /* [P7] [P10] */
    if (ivs_cas_acq_rel_32_(&record->state, &state, IVS_FREE_)) return; /* [P14] */
    IVSKIP_HOST_FREE(record);
}

static void ivs_thread_exit_(void *thread) {
    struct ivs_thread_ *self = (struct ivs_thread_ *)thread;
    struct ivs_record_ *record = self->mine;
    self->hot = self->mine = NULL;
    while (record) {
        struct ivs_record_ *next = record->mine;
        ivs_record_leave_(record);
        record = next;
    }
}

static void ivs_thread_key_make_(void) {
    ivs_thread_key_ok_ = pthread_key_create(&ivs_thread_key_, ivs_thread_exit_) == 0;
}

static struct ivs_record_ *ivs_record_make_(struct ivs_domain *domain) {
    struct ivs_record_ *record = (struct ivs_record_ *)IVSKIP_HOST_MALLOC(sizeof(*record));
    uintptr_t first;
    if (!record) return NULL;
    __builtin_memset(record, 0, sizeof(*record));
    record->domain = domain;
    record->cookie = domain->cookie_;
    record->state = IVS_TAKEN_;
    first = ivs_load_acquire_word_(&domain->records_); /* [P11] */
    do {
        record->next = (struct ivs_record_ *)first;
        record->index = first ? record->next->index + 1 : 1;
        record->random = ivs_mix_(domain->seed_ + record->index) | 1u;
    } while (!ivs_cas_acq_rel_word_(&domain->records_, &first, (uintptr_t)record)); /* [P11] */
    return record;
}

/* Takes a record that an exited thread left, with what is in its lists. */
static struct ivs_record_ *ivs_record_claim_(struct ivs_domain *domain) {
    struct ivs_record_ *record = (struct ivs_record_ *)ivs_load_acquire_word_(&domain->records_); /* [P11] */
    for (; record; record = record->next) {
        uint32_t state = ivs_load_relaxed_32_(&record->state);
        if (state == IVS_FREE_ && ivs_cas_acq_rel_32_(&record->state, &state, IVS_TAKEN_)) return record; /* [P14] */
    }
    return NULL;
}

/* Not of an earlier domain at the same address, whether that was destroyed (DEAD) or its memory just used again. */
static bool ivs_record_is_of_(const struct ivs_record_ *record, const struct ivs_domain *domain) {
    return record->domain == domain && record->cookie == domain->cookie_ &&
           ivs_load_relaxed_32_(&record->state) != IVS_DEAD_;
}

/* ivs_record_find_ where the last call was for another domain. Frees records of domains that are gone. */
static struct ivs_record_ *ivs_record_search_(struct ivs_domain *domain) {
    struct ivs_thread_ *self = &ivs_thread_;
    struct ivs_record_ *record, **at = &self->mine;
    while ((record = *at) != NULL) {
        if (ivs_load_acquire_32_(&record->state) == IVS_DEAD_) { /* [P14] */
            *at = record->mine;
            if (self->hot == record) self->hot = NULL;
            IVSKIP_HOST_FREE(record);
        } else if (ivs_record_is_of_(record, domain)) {
            self->hot = record;
            return record;
        } else {
            at = &record->mine;
        }
    }
    return NULL;
}

/* This thread's record of the domain, or NULL. */
static inline struct ivs_record_ *ivs_record_find_(struct ivs_domain *domain) {
    struct ivs_record_ *record = ivs_thread_.hot;
    return record && ivs_record_is_of_(record, domain) ? record : ivs_record_search_(domain);
}

/* This thread's record of the domain; NULL: there was no memory for one. */
static struct ivs_record_ *ivs_record_get_(struct ivs_domain *domain) {
    struct ivs_thread_ *self = &ivs_thread_;
    struct ivs_record_ *record = ivs_record_find_(domain);
    if (record) return record;
    (void)pthread_once(&ivs_thread_once_, ivs_thread_key_make_);
    if (!ivs_thread_key_ok_ || pthread_setspecific(ivs_thread_key_, self)) return NULL;
    record = ivs_record_claim_(domain);
    if (!record) record = ivs_record_make_(domain);
    if (!record) return NULL;
    record->mine = self->mine;
    self->hot = self->mine = record;
    return record;
}

void ivs_domain_read_enter(struct ivs_domain *domain) {
    struct ivs_record_ *record = ivs_record_get_(domain);
    if (!record) {
        (void)ivs_add_acq_rel_64_(&domain->crowd_, 1); /* [P7] */
    } else if (record->nest++ == 0) {
        uint64_t epoch = ivs_load_acquire_64_(&domain->epoch_); /* [P8] */
        (void)ivs_exchange_acq_rel_64_(&record->active, epoch); /* [P7] */
    }
}

void ivs_domain_read_exit(struct ivs_domain *domain) {
    struct ivs_record_ *record = ivs_record_find_(domain);
    if (record && record->nest) {
        if (--record->nest == 0) ivs_store_release_64_(&record->active, 0); /* [P10] */
    } else if (ivs_load_relaxed_64_(&domain->crowd_)) {
        (void)ivs_add_acq_rel_64_(&domain->crowd_, (uint64_t)-1); /* [P10] */
    } else {
        IVS_ASSERT_(false); /* no read section is open */
    }
}

/* Is the calling thread inside a read section? (Unknown, and answered no, for a thread without a record.) */
static bool ivs_in_section_(struct ivs_domain *domain) {
    struct ivs_record_ *record = ivs_record_find_(domain);
    return record && record->nest;
}

/* A record's lists: never waited for. */
static bool ivs_limbo_trylock_(struct ivs_record_ *record) {
    return ivs_load_relaxed_32_(&record->guard) == 0 && ivs_exchange_acq_rel_32_(&record->guard, 1) == 0; /* [P12] */
}

static void ivs_limbo_unlock_(struct ivs_record_ *record) {
    struct ivs_list_ *l = record->closed;
    ivs_store_relaxed_64_(&record->count, record->open.count + l[0].count + l[1].count + l[2].count);
    ivs_store_relaxed_64_(&record->bytes, record->open.bytes + l[0].bytes + l[1].bytes + l[2].bytes);
    ivs_store_release_32_(&record->guard, 0); /* [P12] */
}

/* Closes the open list; what was tagged three epochs ago is due. Guard held: tags of a record ascend. Returns the
 * tag. */
static uint64_t ivs_limbo_close_(struct ivs_domain *domain, struct ivs_record_ *record, struct ivs_list_ *due) {
    uint64_t tag;
    unsigned i;
    ivs_domain_read_enter(domain);
    tag = ivs_load_acquire_64_(&domain->epoch_) + 1; /* [P8] [P9] after the announcement */
    ivs_domain_read_exit(domain);
    i = (unsigned)(tag % 3);
    if (record->tag[i] != tag) ivs_list_move_(due, &record->closed[i]);
    record->tag[i] = tag;
    ivs_list_move_(&record->closed[i], &record->open);
    return tag;
}

/* Takes out what is due by now. Guard held. */
static void ivs_limbo_collect_(struct ivs_domain *domain, struct ivs_record_ *record, struct ivs_list_ *due) {
    uint64_t epoch = ivs_load_acquire_64_(&domain->epoch_); /* [P8] */
    for (unsigned i = 0; i < 3; i++)
        if (record->tag[i] + 2 <= epoch) ivs_list_move_(due, &record->closed[i]);
}

/* From epoch e to e + 1, if every open read section began in e. */
static bool ivs_epoch_advance_(struct ivs_domain *domain) {
    ivs_u64_ epoch = ivs_load_acquire_64_(&domain->epoch_); /* [P8] before the looks */
    struct ivs_record_ *record;
    if (ivs_add_acq_rel_64_(&domain->crowd_, 0)) return false;                  /* [P7] */
    record = (struct ivs_record_ *)ivs_add_acq_rel_word_(&domain->records_, 0); /* [P11] */
    for (; record; record = record->next) {
        uint64_t active = ivs_add_acq_rel_64_(&record->active, 0); /* [P7] [P10] no look first: that fetches twice */
        if (active && active != epoch) return false;
    }
    return ivs_cas_acq_rel_64_(&domain->epoch_, &epoch, epoch + 1); /* [P8] [P9] */
}

/* Nodes that had no record to go to join this one's open list. Guard held. */
static void ivs_limbo_adopt_(struct ivs_domain *domain, struct ivs_record_ *record) {
    if (ivs_load_relaxed_word_(&domain->orphans_))
        ivs_list_take_(domain, &record->open, ivs_exchange_acq_rel_word_(&domain->orphans_, 0)); /* [P13] */
}

/* After an advance: may others sweep this record? Owners that fill lists collect their own, on their own lines. */
static bool ivs_record_lags_(struct ivs_record_ *record, uint64_t epoch) {
    return ivs_load_relaxed_32_(&record->state) != IVS_TAKEN_ || ivs_load_relaxed_64_(&record->seen) + IVS_LAG_ < epoch;
}

/* Collects what is due in all records that lag behind `tag` (UINT64_MAX: in all); `all`: waits for the few that another
 * thread has its hands in. */
static void ivs_domain_sweep_(struct ivs_domain *domain, struct ivs_list_ *due, uint64_t tag, bool all) {
    struct ivs_record_ *record = (struct ivs_record_ *)ivs_load_acquire_word_(&domain->records_); /* [P11] */
    for (; record; record = record->next) {
        bool mine;
        if (!ivs_record_lags_(record, tag)) continue;
        mine = ivs_limbo_trylock_(record);
        while (all && !mine) {
            IVSKIP_HOST_YIELD();
            mine = ivs_limbo_trylock_(record);
        }
        if (!mine) continue;
        ivs_limbo_adopt_(domain, record);
        (void)ivs_limbo_close_(domain, record, due);
        ivs_limbo_collect_(domain, record, due);
        ivs_limbo_unlock_(record);
    }
}

/* Around the time in which a thread has things in hand that are due: the count is odd meanwhile. */
static void ivs_due_begin_(struct ivs_record_ *record) {
    ivs_store_release_32_(&record->releasing, ivs_load_relaxed_32_(&record->releasing) + 1); /* [P16] */
}

static void ivs_due_end_(struct ivs_record_ *record) { ivs_due_begin_(record); }

/* Does the thread run callbacks just now? Then it must not begin to release more (no recursion without a bound). */
static bool ivs_due_held_(const struct ivs_record_ *record) { return ivs_load_relaxed_32_(&record->releasing) & 1; }

/* A thread without a record is counted in busy_ while it has due things in hand. */
static size_t ivs_hands_empty_(struct ivs_domain *domain, struct ivs_list_ *due) {
    size_t n;
    ivs_thread_.releasing = 1;
    n = ivs_list_release_(domain, due);
    ivs_thread_.releasing = 0;
    (void)ivs_add_release_32_(&domain->busy_, (uint32_t)-1); /* [P16] */
    return n;
}

/* What threads without a record retired, for a thread without one: due after two advances from now. */
static size_t ivs_orphans_reclaim_(struct ivs_domain *domain) {
    struct ivs_list_ due = {0, 0, 0, 0};
    if (ivs_thread_.releasing) return 0;
    (void)ivs_add_relaxed_32_(&domain->busy_, 1);
    ivs_list_take_(domain, &due, ivs_exchange_acq_rel_word_(&domain->orphans_, 0)); /* [P13] */
    for (int i = 0; i < 2 && due.first; i++) {
        if (ivs_epoch_advance_(domain)) continue;
        ivs_orphans_push_(domain, &due);
        due.first = 0;
    }
    return ivs_hands_empty_(domain, &due);
}

/*
 * Hands things over that are unreachable for readers who come now. A full list is closed; the epoch is
 * pushed only if it did not move since this thread's last full list, so that many threads do not scan each
 * other for the same advance.
 */
static void ivs_retire_(struct ivs_domain *domain, struct ivs_list_ *list) {
    struct ivs_record_ *record;
    struct ivs_list_ due = {0, 0, 0, 0};
    uint64_t tag = 0;
    bool full, stuck = false;
    if (!list->first) return;
    record = ivs_record_get_(domain);
    if (!record || !ivs_limbo_trylock_(record)) {
        ivs_orphans_push_(domain, list);
        if (record || ++ivs_thread_.retired % IVSKIP_RETIRE_BATCH) return;
        (void)ivs_orphans_reclaim_(domain);
        return;
    }
    ivs_list_move_(&record->open, list);
    full = record->open.count >= IVSKIP_RETIRE_BATCH && !ivs_due_held_(record);
    if (full) {
        ivs_due_begin_(record);
        ivs_limbo_adopt_(domain, record);
        tag = ivs_limbo_close_(domain, record, &due);
        stuck = tag == ivs_load_relaxed_64_(&record->seen);
        ivs_store_relaxed_64_(&record->seen, tag);
        ivs_limbo_collect_(domain, record, &due);
    }
    ivs_limbo_unlock_(record);
    if (!full) return;
    if (stuck && ivs_epoch_advance_(domain)) ivs_domain_sweep_(domain, &due, tag, false);
    (void)ivs_list_release_(domain, &due);
    ivs_due_end_(record);
}

size_t ivs_domain_reclaim(struct ivs_domain *domain) {
    struct ivs_record_ *record;
    struct ivs_list_ due = {0, 0, 0, 0};
    size_t n;
    if (!domain) return 0;
    record = ivs_record_get_(domain);
    if (!record) return ivs_orphans_reclaim_(domain);
    if (ivs_due_held_(record)) return 0; /* called from a release callback */
    ivs_due_begin_(record);
    for (int i = 0; i < 3; i++) {
        ivs_domain_sweep_(domain, &due, UINT64_MAX, false);
        if (!ivs_epoch_advance_(domain)) break;
    }
    ivs_domain_sweep_(domain, &due, UINT64_MAX, false);
    n = ivs_list_release_(domain, &due);
    ivs_due_end_(record);
    return n;
}

int ivs_domain_synchronize(struct ivs_domain *domain) {
    uint64_t tag;
    if (!domain || domain->magic_ != IVS_DOMAIN_MAGIC_) return IVS_EINVAL;
    if (ivs_in_section_(domain)) return IVS_EDEADLK;
    tag = ivs_add_acq_rel_64_(&domain->epoch_, 0);          /* [P9] */
    while (ivs_load_acquire_64_(&domain->epoch_) < tag + 2) /* [P8] */
        if (!ivs_epoch_advance_(domain)) IVSKIP_HOST_YIELD();
    return 0;
}

/* Other threads may have things in hand that they took out before our sweep: until each has
 * put its present lot away. */
static void ivs_due_await_(struct ivs_domain *domain, const struct ivs_record_ *mine) {
    struct ivs_record_ *record = (struct ivs_record_ *)ivs_load_acquire_word_(&domain->records_); /* [P11] */
    for (; record; record = record->next) {
        uint32_t seen = ivs_load_acquire_32_(&record->releasing); /* [P16] */
        if (record == mine || !(seen & 1)) continue;
        while (ivs_load_acquire_32_(&record->releasing) == seen) IVSKIP_HOST_YIELD(); /* [P16] */
    }
    while (ivs_load_acquire_32_(&domain->busy_)) IVSKIP_HOST_YIELD(); /* [P16] */
}

int ivs_domain_barrier(struct ivs_domain *domain) {
    struct ivs_list_ due = {0, 0, 0, 0};
    struct ivs_record_ *record;
    int r;
    if (!domain || domain->magic_ != IVS_DOMAIN_MAGIC_) return IVS_EINVAL;
    record = ivs_record_get_(domain);
    if (ivs_in_section_(domain) || (record ? ivs_due_held_(record) : ivs_thread_.releasing)) return IVS_EDEADLK;
    if (record) ivs_due_begin_(record);
    else (void)ivs_add_relaxed_32_(&domain->busy_, 1);
    ivs_domain_sweep_(domain, &due, UINT64_MAX, true); /* closes every open list */
    r = ivs_domain_synchronize(domain);
    if (r == 0) r = ivs_domain_synchronize(domain); /* tags are one ahead of the epoch */
    ivs_domain_sweep_(domain, &due, UINT64_MAX, true);
    if (record) {
        (void)ivs_list_release_(domain, &due);
        ivs_due_end_(record);
    } else {
        (void)ivs_hands_empty_(domain, &due);
    }
    ivs_due_await_(domain, record);
    while (!record && ivs_load_relaxed_word_(&domain->orphans_))
        if (!ivs_orphans_reclaim_(domain)) IVSKIP_HOST_YIELD();
    return r;
}

static void ivs_domain_start_(struct ivs_domain *domain) {
    domain->cookie_ = IVSKIP_HOST_NOW();
    domain->epoch_ = 3; /* so that tags of empty lists, 0, are long due */
}

/* 64 bits for a tower's height. */
static uint64_t ivs_random_(struct ivs_domain *domain) {
    struct ivs_record_ *record = ivs_record_get_(domain);
    struct ivs_thread_ *self = &ivs_thread_;
    if (record) return ivs_xorshift_(&record->random);
    if (!self->random) self->random = ivs_mix_(domain->seed_ ^ (uintptr_t)self) | 1u;
    return ivs_xorshift_(&self->random);
}

static bool ivs_domain_busy_(struct ivs_domain *domain) {
    struct ivs_record_ *record = (struct ivs_record_ *)ivs_load_acquire_word_(&domain->records_); /* [P11] */
    if (ivs_load_relaxed_64_(&domain->crowd_)) return true;
    for (; record; record = record->next)
        if (ivs_load_acquire_64_(&record->active)) return true; /* [P10] */
    return false;
}

/* What is left where the caller could not get a record. Nobody else uses the domain. */
static void ivs_domain_drain_(struct ivs_domain *domain, struct ivs_list_ *due) {
    struct ivs_record_ *record = (struct ivs_record_ *)ivs_load_acquire_word_(&domain->records_); /* [P11] */
    for (; record; record = record->next) {
        (void)ivs_limbo_trylock_(record);
        ivs_list_move_(due, &record->open);
        for (int i = 0; i < 3; i++) ivs_list_move_(due, &record->closed[i]);
        ivs_limbo_unlock_(record);
    }
    ivs_list_take_(domain, due, ivs_exchange_acq_rel_word_(&domain->orphans_, 0)); /* [P13] */
}

int ivs_domain_destroy(struct ivs_domain *domain) {
    struct ivs_record_ *record, *next;
    struct ivs_list_ due = {0, 0, 0, 0};
    if (!domain || domain->magic_ != IVS_DOMAIN_MAGIC_) return IVS_EINVAL;
    if (ivs_domain_busy_(domain)) return IVS_EBUSY;
    while (ivs_domain_reclaim(domain) != 0) {
    }
    ivs_domain_drain_(domain, &due);
    (void)ivs_list_release_(domain, &due);
    domain->magic_ = 0;
    record = (struct ivs_record_ *)ivs_exchange_acq_rel_word_(&domain->records_, 0); /* [P11] */
    for (; record; record = next) {
        next = record->next;
        if (ivs_exchange_acq_rel_32_(&record->state, IVS_DEAD_) == IVS_FREE_) IVSKIP_HOST_FREE(record); /* [P14] */
    }
    return 0;
}

int ivs_domain_get_stats(struct ivs_domain *domain, struct ivs_domain_stats *stats) {
    struct ivs_record_ *record;
    if (!domain || !stats) return IVS_EINVAL;
    __builtin_memset(stats, 0, sizeof(*stats));
    stats->epoch = ivs_load_acquire_64_(&domain->epoch_); /* [P8] */
    stats->readers = ivs_load_relaxed_64_(&domain->crowd_);
    record = (struct ivs_record_ *)ivs_load_acquire_word_(&domain->records_); /* [P11] */
    for (; record; record = record->next) {
        uint64_t active = ivs_load_relaxed_64_(&record->active);
        stats->records++;
        stats->limbo += ivs_load_relaxed_64_(&record->count);
        stats->limbo_bytes += ivs_load_relaxed_64_(&record->bytes);
        if (!active) continue;
        stats->readers++;
        if (active < stats->epoch && stats->epoch - active > stats->oldest_reader)
            stats->oldest_reader = stats->epoch - active;
    }
    return 0;
}

int ivs_domain_reset_after_fork(struct ivs_domain *domain) {
    struct ivs_record_ *mine, *record;
    if (!domain || domain->magic_ != IVS_DOMAIN_MAGIC_) return IVS_EINVAL;
    mine = ivs_record_find_(domain);
    ivs_store_relaxed_64_(&domain->crowd_, 0);
    ivs_store_relaxed_32_(&domain->busy_, 0);
    record = (struct ivs_record_ *)ivs_load_acquire_word_(&domain->records_); /* [P11] */
    for (; record; record = record->next) {
        if (ivs_load_relaxed_32_(&record->guard)) { /* its lists may be torn: what is in them is lost */
            __builtin_memset(&record->open, 0, sizeof(record->open));
            __builtin_memset(record->closed, 0, sizeof(record->closed));
            ivs_limbo_unlock_(record);
        }
        if (record == mine) continue;
        record->nest = record->releasing = 0;
        ivs_store_relaxed_64_(&record->active, 0);
        ivs_store_relaxed_32_(&record->state, IVS_FREE_);
    }
    return 0;
}

#endif /* BUILTIN */

/* -------------------------------------------------------------------------------- RCU of liburcu or of the host */

#if !IVS_RCU_IS_(BUILTIN)

/*
 * Retired things collect on the domain's stack. One grace period at a time is under way, for all that was on the
 * stack when it began; when it is over, its things are released and the next begins. So nothing is allocated, and a
 * node needs no callback of its own.
 */

void ivs_domain_read_enter(struct ivs_domain *domain) {
    (void)domain;
    IVS_RCU_ENTER_();
}

void ivs_domain_read_exit(struct ivs_domain *domain) {
    IVS_TSAN_SECTION_ENDS_(domain);
    IVS_RCU_EXIT_();
}

static bool ivs_in_section_(struct ivs_domain *domain) {
    (void)domain;
    return IVS_RCU_HELD_();
}

static void ivs_grace_over_(IVS_RCU_HEAD_ *head);

/* Starts a grace period for all that waits, unless one is under way: then its end will. */
static void ivs_grace_begin_(struct ivs_domain *domain) {
    do {
        if (ivs_load_acquire_32_(&domain->busy_)) return;        /* [P15] who is busy looks at the stack once more */
        if (ivs_exchange_acq_rel_32_(&domain->busy_, 1)) return; /* [P15] */
        domain->flight_ = ivs_exchange_acq_rel_word_(&domain->orphans_, 0); /* [P13] */
        if (domain->flight_) {
            IVS_TSAN_SECTION_ENDS_(domain);
            IVS_RCU_CALL_(&domain->grace_, ivs_grace_over_);
            return;
        }
        (void)ivs_exchange_acq_rel_32_(&domain->busy_, 0); /* [P15] */
    } while (ivs_add_acq_rel_word_(&domain->orphans_, 0)); /* [P15] */
}

/* Releases what the grace period was for, and begins the next. */
static void ivs_grace_over_(IVS_RCU_HEAD_ *head) {
    struct ivs_domain *domain =
        (struct ivs_domain *)(void *)((unsigned char *)head - offsetof(struct ivs_domain, grace_));
    struct ivs_list_ due = {0, 0, 0, 0};
    IVS_TSAN_GRACE_OVER_(domain);
    ivs_list_take_(domain, &due, domain->flight_);
    domain->flight_ = 0;
    (void)ivs_add_relaxed_64_(&domain->limbo_, 0 - due.count);
    (void)ivs_add_relaxed_64_(&domain->bytes_, 0 - due.bytes);
    (void)ivs_list_release_(domain, &due);
    (void)ivs_add_acq_rel_64_(&domain->epoch_, 1);                             /* [P16] */
    (void)ivs_exchange_acq_rel_32_(&domain->busy_, 0);                         /* [P15] */
    if (ivs_add_acq_rel_word_(&domain->orphans_, 0)) ivs_grace_begin_(domain); /* [P15] */
    IVS_TSAN_SECTION_ENDS_(domain);
}

static void ivs_retire_(struct ivs_domain *domain, struct ivs_list_ *list) {
    if (!list->first) return;
    (void)ivs_add_relaxed_64_(&domain->limbo_, list->count);
    (void)ivs_add_relaxed_64_(&domain->bytes_, list->bytes);
    ivs_orphans_push_(domain, list);
    ivs_grace_begin_(domain);
}

size_t ivs_domain_reclaim(struct ivs_domain *domain) {
    if (domain) ivs_grace_begin_(domain);
    return 0;
}

int ivs_domain_synchronize(struct ivs_domain *domain) {
    if (!domain || domain->magic_ != IVS_DOMAIN_MAGIC_) return IVS_EINVAL;
    if (ivs_in_section_(domain)) return IVS_EDEADLK;
    IVS_RCU_SYNCHRONIZE_();
    IVS_TSAN_GRACE_OVER_(domain);
    return 0;
}

static bool ivs_grace_idle_(struct ivs_domain *domain) {
    return !ivs_load_acquire_32_(&domain->busy_) && !ivs_load_acquire_word_(&domain->orphans_); /* [P15] */
}

/* Two turns at most: the one that is under way, and the one that takes what waits now. Then once more, for the last
 * callback may still be on its last line. */
int ivs_domain_barrier(struct ivs_domain *domain) {
    uint64_t turn;
    if (!domain || domain->magic_ != IVS_DOMAIN_MAGIC_) return IVS_EINVAL;
    if (ivs_in_section_(domain)) return IVS_EDEADLK;
    turn = ivs_load_acquire_64_(&domain->epoch_);                                          /* [P16] */
    while (!ivs_grace_idle_(domain) && ivs_load_acquire_64_(&domain->epoch_) < turn + 2) { /* [P16] */
        ivs_grace_begin_(domain);
        IVS_RCU_BARRIER_();
        IVSKIP_HOST_YIELD(); /* somebody may be between taking the turn and queueing its callback */
    }
    IVS_RCU_BARRIER_();
    IVS_TSAN_GRACE_OVER_(domain);
    return 0;
}

static void ivs_domain_start_(struct ivs_domain *domain) { domain->epoch_ = 1; }

static bool ivs_domain_busy_(struct ivs_domain *domain) { return ivs_in_section_(domain); }

int ivs_domain_destroy(struct ivs_domain *domain) {
    int r;
    if (!domain || domain->magic_ != IVS_DOMAIN_MAGIC_) return IVS_EINVAL;
    if (ivs_domain_busy_(domain)) return IVS_EBUSY;
    do {
        r = ivs_domain_barrier(domain);
    } while (r == 0 && !ivs_grace_idle_(domain)); /* callbacks may retire more */
    if (r == 0) domain->magic_ = 0;
    return r;
}

int ivs_domain_get_stats(struct ivs_domain *domain, struct ivs_domain_stats *stats) {
    if (!domain || !stats) return IVS_EINVAL;
    __builtin_memset(stats, 0, sizeof(*stats));
    stats->epoch = ivs_load_relaxed_64_(&domain->epoch_);
    stats->limbo = ivs_load_relaxed_64_(&domain->limbo_);
    stats->limbo_bytes = ivs_load_relaxed_64_(&domain->bytes_);
    return 0;
}

/* Callbacks that were queued run in the child too. If none of them ends the turn, its thread was between taking the
 * turn and queueing: its things wait again. */
int ivs_domain_reset_after_fork(struct ivs_domain *domain) {
    struct ivs_list_ list = {0, 0, 0, 0};
    if (!domain || domain->magic_ != IVS_DOMAIN_MAGIC_) return IVS_EINVAL;
    IVS_RCU_BARRIER_();
    if (!ivs_load_acquire_32_(&domain->busy_)) return 0; /* [P15] */
    ivs_list_take_(domain, &list, domain->flight_);
    domain->flight_ = 0;
    if (list.first) ivs_orphans_push_(domain, &list);
    (void)ivs_exchange_acq_rel_32_(&domain->busy_, 0); /* [P15] */
    ivs_grace_begin_(domain);
    return 0;
}

#if IVS_RCU_IS_(HOST)
static uint64_t ivs_random_(struct ivs_domain *domain) { return ivs_mix_(domain->seed_ ^ IVSKIP_HOST_RANDOM()); }
#else
static __thread uint64_t ivs_random_state_;

static uint64_t ivs_random_(struct ivs_domain *domain) {
    if (!ivs_random_state_) ivs_random_state_ = ivs_mix_(domain->seed_ ^ (uintptr_t)&ivs_random_state_) | 1u;
    return ivs_xorshift_(&ivs_random_state_);
}
#endif

#endif /* not BUILTIN */

/* -------------------------------------------------------------------------------- domains */

int ivs_domain_defer(struct ivs_domain *domain, struct ivs_defer *defer, void (*fn)(struct ivs_defer *defer)) {
    struct ivs_list_ list = {0, 0, 0, 0};
    if (!domain || !defer || !fn) return IVS_EINVAL;
    defer->fn_ = fn;
    ivs_list_push_(&list, (uintptr_t)defer | IVS_IS_DEFER_, 0);
    ivs_retire_(domain, &list);
    return 0;
}

int ivs_domain_init(struct ivs_domain *domain, const struct ivs_domain_config *config) {
    static const struct ivs_domain_config none = {NULL, NULL, 0, 0};
    if (!config) config = &none;
    if (!domain || config->payload_size % 8 || config->payload_size > 65536) return IVS_EINVAL;
    if (config->ops && !config->ops->alloc != !config->ops->free) return IVS_EINVAL;
    __builtin_memset(domain, 0, sizeof(*domain));
    domain->ops_ = config->ops;
    domain->ctx_ = config->ctx;
    domain->payload_size_ = config->payload_size;
    domain->seed_ = config->seed ? config->seed : ivs_mix_(IVSKIP_HOST_NOW() ^ (uintptr_t)domain);
    ivs_domain_start_(domain);
    domain->magic_ = IVS_DOMAIN_MAGIC_;
    return 0;
}

/* Height of a new tower: every fourth node of a level is in the next one too (measured: lower towers than with every
 * second cost searches little, and updates gain a quarter). */
static unsigned ivs_height_(struct ivs_domain *domain) {
    unsigned h = 1 + (unsigned)__builtin_ctzll((ivs_random_(domain) >> 20) | (1ull << 40)) / 2;
    return h < IVSKIP_MAX_HEIGHT ? h : IVSKIP_MAX_HEIGHT;
}

/* -------------------------------------------------------------------------------- nodes */

/* Zeroes the memory, payload too; no check. */
static struct ivs_node *ivs_node_make_(struct ivs_domain *domain, void *memory, unsigned height, uint64_t start,
                                       uint64_t last, void *value) {
    struct ivs_node *node = (struct ivs_node *)(void *)((unsigned char *)memory + domain->payload_size_);
    __builtin_memset(memory, 0, IVSKIP_NODE_BYTES(domain->payload_size_, height));
    node->start = start;
    node->last = last;
    node->value_ = (uintptr_t)value;
    node->height_ = node->room_ = (uint8_t)height;
    node->state_ = IVS_PREPARED_;
    return node;
}

struct ivs_node *ivs_node_init_at(struct ivs_domain *domain, void *memory, unsigned height, uint64_t start,
                                  uint64_t end, void *value) {
    uint64_t last;
    struct ivs_node *node;
    if (!domain || !memory || (uintptr_t)memory % 8 || !ivs_range_(start, end, &last)) return NULL;
    if (height < 1 || height > IVSKIP_MAX_HEIGHT) return NULL;
    node = ivs_node_make_(domain, memory, height, start, last, value);
    node->foreign_ = 1;
    return node;
}

struct ivs_node *ivs_node_new_height(struct ivs_domain *domain, uint64_t start, uint64_t end, void *value,
                                     unsigned flags, unsigned height) {
    uint64_t last;
    void *memory;
    if (!domain || !ivs_range_(start, end, &last) || height > IVSKIP_MAX_HEIGHT) return NULL;
    if (height == 0) height = ivs_height_(domain);
    memory = ivs_memory_(domain, IVSKIP_NODE_BYTES(domain->payload_size_, height), flags);
    return memory ? ivs_node_make_(domain, memory, height, start, last, value) : NULL;
}

struct ivs_node *ivs_node_new(struct ivs_domain *domain, uint64_t start, uint64_t end, void *value, unsigned flags) {
    return ivs_node_new_height(domain, start, end, value, flags, 0);
}

/* A node or handle is not in the state that the call needs. */
static int ivs_misuse_(void) {
    IVS_ASSERT_(false);
    return IVS_EPERM;
}

int ivs_node_discard(struct ivs_domain *domain, struct ivs_node *node) {
    if (!domain) return IVS_EINVAL;
    if (!node) return 0;
    if (node->state_ != IVS_PREPARED_) return ivs_misuse_();
    if (!node->foreign_) ivs_node_free_(domain, node);
    return 0;
}

int ivs_node_set_bounds(struct ivs_node *node, uint64_t start, uint64_t end) {
    uint64_t last;
    if (!node || !ivs_range_(start, end, &last)) return IVS_EINVAL;
    if (node->state_ != IVS_PREPARED_) return ivs_misuse_();
    node->start = start;
    node->last = last;
    return 0;
}

int ivs_node_set_value(const struct ivs_lock *lock, struct ivs_node *node, void *value) {
    if (!node) return IVS_EINVAL;
    if (node->state_ == IVS_PUBLISHED_) {
        /* who owns [floor, ceiling) has locked every published node in it */
        if (!lock || !lock->map || node->start < lock->floor || node->last > lock->ceiling - 1) return ivs_misuse_();
    } else if (lock || node->state_ != IVS_PREPARED_) {
        return ivs_misuse_();
    }
    ivs_store_release_word_(&node->value_, (uintptr_t)value); /* [P6] */
    return 0;
}

/* -------------------------------------------------------------------------------- level-0 links */

static struct ivs_bucket_ *ivs_bucket_of_(struct ivs_map *map, const struct ivs_node *node) {
    return &map->buckets_[ivs_mix_((uintptr_t)node) % IVS_BUCKETS_];
}

/* Somebody slept for this link, whose node may be freed by now: only its address is used. */
static void ivs_wake_(struct ivs_map *map, const struct ivs_node *node) {
    struct ivs_bucket_ *bucket = ivs_bucket_of_(map, node);
    (void)ivs_add_release_32_(&bucket->ticket, 1); /* [P5] */
    IVSKIP_HOST_WAKE(&bucket->ticket);
}

/* The only five ways in which a published level-0 link changes [I2]; the sixth is the waiter's, in ivs_wait_, and
 * ivs_map_reset_after_fork is alone. */

/* free -> LOCKED, if the link is still `*word` (which has no flag); else *word is what it is now. */
static bool ivs_link_lock_(struct ivs_node *node, uintptr_t *word) {
    return ivs_cas_acq_rel_word_(&node->next_, word, *word | IVS_LOCKED_); /* [P2] */
}

/* LOCKED -> free. The node may be gone right after. */
static void ivs_link_unlock_(struct ivs_map *map, struct ivs_node *node) {
    uintptr_t old = ivs_and_release_word_(&node->next_, ~(uintptr_t)(IVS_LOCKED_ | IVS_WAITERS_)); /* [P2] */
    IVS_ASSERT_((old & IVS_LOCKED_) && !(old & IVS_INVALIDATED_));
    if (old & IVS_WAITERS_) ivs_wake_(map, node);
}

/* LOCKED -> INVALIDATED: frozen for good [I3]. */
static void ivs_link_invalidate_(struct ivs_map *map, struct ivs_node *node) {
    uintptr_t word = ivs_load_relaxed_word_(&node->next_);
    while (!ivs_cas_acq_rel_word_(&node->next_, &word, (uintptr_t)ivs_ptr_(word) | IVS_INVALIDATED_)) { /* [P2] */
    }
    if (word & IVS_WAITERS_) ivs_wake_(map, node);
}

/* LOCKED stays, with another successor: the commit. */
static void ivs_link_commit_(struct ivs_node *node, struct ivs_node *successor) {
    uintptr_t word = ivs_load_relaxed_word_(&node->next_);
    IVS_ASSERT_(word & IVS_LOCKED_);
    while (!ivs_cas_acq_rel_word_(&node->next_, &word, (uintptr_t)successor | (word & IVS_FLAGS_))) { /* [P1] */
    }
}

/* free -> free, with a new node in front of the old successor, if the link is still `*word`. `held`: it
 * comes LOCKED, for it is to have a tower or an entry [I5]. */
static bool ivs_link_insert_(struct ivs_node *node, uintptr_t *word, struct ivs_node *fresh, bool held) {
    ivs_store_relaxed_word_(&fresh->next_, *word | (held ? (uintptr_t)IVS_LOCKED_ : 0));
    fresh->state_ = IVS_PUBLISHED_;
    fresh->owned_ = 1;
    if (ivs_cas_acq_rel_word_(&node->next_, word, (uintptr_t)fresh)) return true; /* [P1] */
    fresh->state_ = IVS_PREPARED_;
    fresh->owned_ = 0;
    return false;
}

/*
 * Waits until the link of `node`, seen LOCKED, may have changed, at most until `deadline` (0: not at all). The
 * caller is in a read section, which is left while the thread sleeps: afterwards `node` may be gone unless its
 * predecessor is held [I8].
 */
static int ivs_wait_(struct ivs_map *map, struct ivs_node *node, uint64_t deadline) {
    struct ivs_bucket_ *bucket = ivs_bucket_of_(map, node);
    uint32_t ticket;
    uintptr_t word;
    if (deadline == 0) return IVS_EBUSY;
    if (deadline != UINT64_MAX && IVSKIP_HOST_NOW() >= deadline) return IVS_ETIMEDOUT;
    for (int i = 0; i < IVSKIP_SPIN; i++) {
        if (!(ivs_load_acquire_word_(&node->next_) & IVS_LOCKED_)) return 0; /* [P2] */
        IVSKIP_RELAX();
    }
    ticket = ivs_load_acquire_32_(&bucket->ticket); /* [P5] before WAITERS is set, or the wake may be missed */
    word = ivs_load_acquire_word_(&node->next_);    /* [P2] */
    if (!(word & IVS_LOCKED_)) return 0;
    if (!(word & IVS_WAITERS_) && !ivs_cas_acq_rel_word_(&node->next_, &word, word | IVS_WAITERS_)) return 0; /* [P2] */
    ivs_domain_read_exit(map->domain_);
    (void)ivs_add_relaxed_64_(&map->waits_, 1);
    IVS_RCU_OFFLINE_();
    IVSKIP_HOST_PARK(&bucket->ticket, ticket, deadline);
    IVS_RCU_ONLINE_();
    ivs_domain_read_enter(map->domain_);
    return 0;
}

/* -------------------------------------------------------------------------------- entry table */

/*
 * Where a search may begin near its key instead of at the head. Keys are cut into chunks, one or two nodes to a chunk
 * that is in use; how long they are is settled for each region of the key space, of about 128 nodes, for spaces are
 * crowded in some parts and empty in others. A chunk has a slot: 0, or a published node that starts in it (of several,
 * the first). Eight neighbours, a run, share a line of seven slots, the last two a slot. Lines lie in a hash table
 * without deletion: a line belongs to nobody or, for good, to one run, and a run that finds no line goes without. (Two
 * runs of one name would share a line, which costs steps and no more.) As an index level the table obeys I6, and is
 * only ever a hint where to begin: from its node a search walks the level-0 list. ivs_map_tune makes it for the nodes
 * that there are then, and updates set and clear its slots; without one, searches begin at the head.
 */
enum {
    IVS_ENTRY_SLOTS_ = 7,    /* of a line, which is a line of the cache with the name of its run */
    IVS_ENTRY_TRIES_ = 4,    /* lines that are looked at for a run */
    IVS_ENTRY_CHUNKS_ = 3,   /* chunks that are looked at for a key, its own and those before */
    IVS_ENTRY_STEPS_ = 6,    /* level-0 steps from an entry, before a search begins at the head after all */
    IVS_ENTRY_REGION_ = 128, /* nodes of a region, about */
    IVS_WALK_ = 1024         /* nodes of a walk in one read section */
};

struct ivs_entry_line_ {
    ivs_u64_ run; /* a run and its shift (+ 1); 0: free */
    uintptr_t slot[IVS_ENTRY_SLOTS_];
};

/* Never changes once the table is published. */
struct ivs_entry_region_ {
    uint64_t region; /* + 1; 0: free */
    uint64_t shift;  /* of its chunks */
};

struct ivs_entries_ {
    struct ivs_defer defer; /* an old table is freed after a grace period */
    struct ivs_domain *domain;
    struct ivs_entry_line_ *line;     /* 2^line_bits of them, at a line of the cache, */
    struct ivs_entry_region_ *region; /* 2^region_bits, less than half in use, in the same piece of memory */
    uint32_t line_bits, region_bits;
    uint32_t region_shift; /* a region is 2^region_shift keys */
    uint32_t shift;        /* of chunks in regions that are not known */
};

#ifndef IVS_ENTRIES_MIN_ /* tests have small maps */
#define IVS_ENTRIES_MIN_ 32
#endif

static struct ivs_entries_ *ivs_entries_of_(struct ivs_map *map) {
    return (struct ivs_entries_ *)ivs_load_acquire_word_(&map->entries_); /* [P4] */
}

static uint64_t ivs_entry_hash_(uint64_t x, uint32_t bits) { return x * 0x9e3779b97f4a7c15u >> (64 - bits); }

/* The place of a key's region in the table: its own, or a free one. */
static struct ivs_entry_region_ *ivs_entry_region_of_(const struct ivs_entries_ *entries, uint64_t key) {
    uint64_t region = (key >> entries->region_shift) + 1, at = ivs_entry_hash_(region, entries->region_bits);
    struct ivs_entry_region_ *r;
    do r = &entries->region[at++ & (((uint64_t)1 << entries->region_bits) - 1)];
    while (r->region && r->region != region);
    return r;
}

/* The slot of a key's chunk, which begins at *low; NULL: it has none. `make`: then it gets one, if a line is free. */
static uintptr_t *ivs_entry_slot_(const struct ivs_entries_ *entries, uint64_t key, bool make, uint64_t *low) {
    const struct ivs_entry_region_ *region = ivs_entry_region_of_(entries, key);
    uint64_t shift = region->region ? region->shift : entries->shift, chunk = key >> shift;
    uint64_t name = (chunk >> 3) * 64 + shift + 1, at = ivs_entry_hash_(name, entries->line_bits);
    unsigned slot = (chunk & 7) < IVS_ENTRY_SLOTS_ ? (unsigned)(chunk & 7) : IVS_ENTRY_SLOTS_ - 1;
    *low = chunk << shift;
    for (unsigned i = 0; i < IVS_ENTRY_TRIES_; i++, at++) {
        struct ivs_entry_line_ *line = &entries->line[at & (((uint64_t)1 << entries->line_bits) - 1)];
        ivs_u64_ owner = ivs_load_relaxed_64_(&line->run);
        if (owner == 0 && !make) return NULL;
        if (owner == 0 && ivs_cas_relaxed_64_(&line->run, &owner, name)) owner = name;
        if (owner == name) return &line->slot[slot];
    }
    return NULL;
}

/* A node not far before key, which starts (`whole`: and ends) there or earlier; NULL: begin at the head. In a read
 * section. */
static inline struct ivs_node *ivs_entry_(struct ivs_map *map, uint64_t key, bool whole) {
    struct ivs_entries_ *entries = ivs_entries_of_(map);
    uint64_t at = key, low;
    if (!entries) return NULL;
    for (int i = 0; i < IVS_ENTRY_CHUNKS_; i++, at = low - 1) {
        uintptr_t *slot = ivs_entry_slot_(entries, at, false, &low);
        struct ivs_node *node;
        if (!slot && i) return NULL; /* two runs without a line: nothing is known here */
        node = slot ? (struct ivs_node *)ivs_load_acquire_word_(slot) : NULL; /* [P4] */
        if (node && (whole ? node->last : node->start) <= key) return node;
        if (low == 0) return NULL;
    }
    return NULL;
}

/* Would a slot rather lead to `node`, which starts in its chunk? *word is what it leads to now. In a read section. */
static bool ivs_entry_wants_(uintptr_t *slot, const struct ivs_node *node, uintptr_t *word) {
    *word = ivs_load_acquire_word_(slot); /* [P4] */
    return !*word || ((const struct ivs_node *)*word)->start > node->start;
}

/* Should a node that comes get an entry? In a read section. */
static bool ivs_entry_due_(struct ivs_map *map, const struct ivs_node *node) {
    struct ivs_entries_ *entries = ivs_entries_of_(map);
    uintptr_t *slot, word;
    uint64_t low;
    if (!entries) return false;
    slot = ivs_entry_slot_(entries, node->start, true, &low);
    return slot && ivs_entry_wants_(slot, node, &word);
}

/* Sets the slot of a published node. Its level-0 lock is held [I6]; in a read section. */
static void ivs_entry_set_(struct ivs_map *map, struct ivs_node *node) {
    struct ivs_entries_ *entries = ivs_entries_of_(map);
    uintptr_t *slot, word;
    uint64_t low;
    if (!entries) return;
    slot = ivs_entry_slot_(entries, node->start, true, &low);
    while (slot && ivs_entry_wants_(slot, node, &word)) {
        node->entered_ = 1;                                              /* first: a fork may come in between */
        if (ivs_cas_acq_rel_word_(slot, &word, (uintptr_t)node)) return; /* [P4] */
    }
}

/*
 * No slot leads to the node any more. Its level-0 lock is held [I6]. In whichever table an earlier holder set the slot:
 * it is this one, or one that later searches do not find [P2, P4].
 */
static void ivs_entry_clear_(struct ivs_map *map, struct ivs_node *node) {
    struct ivs_entries_ *entries = ivs_entries_of_(map);
    uintptr_t *slot, word = (uintptr_t)node;
    uint64_t low;
    if (!entries || !node->entered_) return;
    slot = ivs_entry_slot_(entries, node->start, false, &low);
    if (slot && ivs_load_relaxed_word_(slot) == word) (void)ivs_cas_relaxed_word_(slot, &word, 0);
}

/* -------------------------------------------------------------------------------- searches of readers */

/* One step to the right at an upper level, to a node that starts at or before key; NULL: go down. The
 * cached key spares the look at nodes beyond; where it is stale, it stops early (costs a step) or is caught
 * by the node's own bound. */
static struct ivs_node *ivs_step_(struct ivs_node *node, unsigned level, uint64_t key) {
    struct ivs_link_ *link = ivs_up_(node, level);
    struct ivs_node *next = (struct ivs_node *)(ivs_load_acquire_word_(&link->next) & ~(uintptr_t)IVS_MARK_); /* [P3] */
    if (ivs_load_relaxed_64_(&link->key) > key || !next || next->start > key) return NULL;
    return next;
}

/* The last node that starts (`whole`: and ends) at or before key, and its link; the head if there is none. From an
 * entry near the key if there is one and a few steps suffice, else from the head. */
static inline struct ivs_node *ivs_seek_(struct ivs_map *map, uint64_t key, bool whole, uintptr_t *word) {
    struct ivs_node *node = ivs_entry_(map, key, whole), *next;
    for (int i = 0; node && i < IVS_ENTRY_STEPS_; i++, node = next) {
        *word = ivs_load_acquire_word_(&node->next_); /* [P1] */
        next = ivs_ptr_(*word);
        if (!whole && key <= node->last) return node; /* covered: no look at the next one */
        if (!next || (whole ? next->last : next->start) > key) return node;
    }
    node = &map->head_;
    for (unsigned level = ivs_load_relaxed_32_(&map->height_) - 1; level >= 1; level--)
        while ((next = ivs_step_(node, level, key)) != NULL && (!whole || next->last <= key)) node = next;
    for (;;) {
        *word = ivs_load_acquire_word_(&node->next_); /* [P1] */
        next = ivs_ptr_(*word);
        if (!whole && key <= node->last && node != &map->head_) return node;
        if (!next || (whole ? next->last : next->start) > key) return node;
        node = next;
    }
}

static struct ivs_node *ivs_search_(struct ivs_map *map, uint64_t key, uintptr_t *word) {
    return ivs_seek_(map, key, false, word);
}

/* The predecessor of a range that starts at key: the last node that ends before it. */
static struct ivs_node *ivs_search_before_(struct ivs_map *map, uint64_t key, uintptr_t *word) {
    if (key) return ivs_seek_(map, key - 1, true, word);
    *word = ivs_load_acquire_word_(&map->head_.next_); /* [P1] */
    return &map->head_;
}

struct ivs_node *ivs_map_query_rcu(struct ivs_map *map, uint64_t key) {
    struct ivs_node *node;
    uintptr_t word;
    if (!map) return NULL;
    node = ivs_search_(map, key, &word);
    return node != &map->head_ && key <= node->last ? node : NULL;
}

struct ivs_node *ivs_map_query_next_rcu(struct ivs_map *map, uint64_t key) {
    struct ivs_node *node;
    uintptr_t word;
    if (!map) return NULL;
    node = ivs_search_(map, key, &word);
    return node != &map->head_ && key <= node->last ? node : ivs_ptr_(word);
}

struct ivs_node *ivs_map_query_before_rcu(struct ivs_map *map, uint64_t key) {
    struct ivs_node *node;
    uintptr_t word;
    if (!map) return NULL;
    node = ivs_search_(map, key, &word);
    return node != &map->head_ ? node : NULL;
}

struct ivs_node *ivs_map_next_rcu(struct ivs_map *map, const struct ivs_node *node) {
    uintptr_t word;
    if (!map || !node || node->last == UINT64_MAX) return NULL;
    word = ivs_load_acquire_word_(&node->next_); /* [P1] */
    /* LOCKED: perhaps it has been replaced, and is not INVALIDATED yet; then what it leads to may be gone as well */
    if (word & (IVS_INVALIDATED_ | IVS_LOCKED_)) return ivs_map_query_next_rcu(map, node->last + 1);
    return ivs_ptr_(word);
}

static int ivs_copy_out_(struct ivs_map *map, struct ivs_node *node, struct ivs_entry *entry) {
    if (node) {
        entry->start = node->start;
        entry->end = ivs_node_end(node);
        entry->value = ivs_node_value(node);
    }
    ivs_map_read_exit(map);
    return node ? 0 : IVS_ENOENT;
}

int ivs_map_lookup(struct ivs_map *map, uint64_t key, struct ivs_entry *entry) {
    if (!map || !entry) return IVS_EINVAL;
    ivs_map_read_enter(map);
    return ivs_copy_out_(map, ivs_map_query_rcu(map, key), entry);
}

int ivs_map_lookup_next(struct ivs_map *map, uint64_t key, struct ivs_entry *entry) {
    if (!map || !entry) return IVS_EINVAL;
    ivs_map_read_enter(map);
    return ivs_copy_out_(map, ivs_map_query_next_rcu(map, key), entry);
}

/* -------------------------------------------------------------------------------- the index: find, link, unlink */

/* Where a search for `start` enters each level: the node at which it came down, which starts before `start`. It serves
 * all nodes of an update, which start there or after it. enter[0] is NULL until it is looked for. */
struct ivs_path_ {
    uint64_t start;
    struct ivs_node *enter[IVSKIP_MAX_HEIGHT];
};

/*
 * The entry of level l was reached over level l + 1, so it was linked there; since a level is marked only when the
 * node is unlinked from the level above [I4], a search begun anew never comes back to an entry that is marked at l.
 */
static void ivs_path_find_(struct ivs_map *map, struct ivs_path_ *path) {
    struct ivs_node *node = &map->head_, *next;
    unsigned level = ivs_load_relaxed_32_(&map->height_) - 1;
    uint64_t start = path->start;
    path->enter[0] = node;
    for (unsigned l = level; l < IVSKIP_MAX_HEIGHT; l++) path->enter[l] = node;
    for (; level >= 1; level--) {
        path->enter[level] = node;
        while (start && (next = ivs_step_(node, level, start - 1)) != NULL) node = next;
    }
}

/* A path that is looked for when the first tall node needs it. */
static struct ivs_path_ ivs_path_later_(uint64_t start) {
    struct ivs_path_ path;
    path.start = start;
    path.enter[0] = NULL;
    return path;
}

/* A link gets another target: the copy of its start follows (it may come late and be wrong for good: a hint). */
static void ivs_link_set_key_(struct ivs_link_ *link, const struct ivs_node *target) {
    ivs_store_relaxed_64_(&link->key, target ? target->start : UINT64_MAX);
}

/*
 * From `node` along a level, by the nodes' own bounds, to the last node that starts at or before key; unlinks marked
 * nodes on the way [I4]. *word is its link, whose target starts after key. NULL: stands on a marked node, begin anew.
 */
static struct ivs_node *ivs_level_find_(struct ivs_node *node, unsigned level, uint64_t key, uintptr_t *word) {
    for (;;) {
        struct ivs_link_ *link = ivs_up_(node, level);
        struct ivs_node *next;
        uintptr_t beyond;
        *word = ivs_load_acquire_word_(&link->next); /* [P3] */
        if (*word & IVS_MARK_) return NULL;
        next = (struct ivs_node *)*word;
        if (!next) return node;
        beyond = ivs_load_acquire_word_(&ivs_up_(next, level)->next); /* [P3] */
        if (beyond & IVS_MARK_) {
            beyond &= ~(uintptr_t)IVS_MARK_;
            if (ivs_cas_acq_rel_word_(&link->next, word, beyond)) /* [P3] */
                ivs_link_set_key_(link, (struct ivs_node *)beyond);
            continue;
        }
        if (next->start > key) return node;
        node = next;
    }
}

/* As ivs_level_find_, from the path's entry; the path is found anew as often as it takes. */
static struct ivs_node *ivs_index_find_(struct ivs_map *map, unsigned level, uint64_t start, struct ivs_path_ *path,
                                        uintptr_t *word) {
    struct ivs_node *node;
    if (!path->enter[0]) ivs_path_find_(map, path);
    while (!(node = ivs_level_find_(path->enter[level], level, start, word))) ivs_path_find_(map, path);
    return node;
}

/* Makes a locked node unreachable by its entry and at every upper level, top-down; each level is verified before the
 * next is marked [I4, I6]. */
static void ivs_index_unlink_(struct ivs_map *map, struct ivs_node *node, struct ivs_path_ *path) {
    uintptr_t word;
    ivs_entry_clear_(map, node);
    for (unsigned level = node->height_ - 1u; level >= 1; level--) {
        (void)ivs_or_acq_rel_word_(&ivs_up_(node, level)->next, IVS_MARK_); /* [P3] */
        (void)ivs_index_find_(map, level, node->start, path, &word);
    }
}

/* Tells searches that towers may be this high. */
static void ivs_index_raise_(struct ivs_map *map, unsigned height) {
    uint32_t now = ivs_load_relaxed_32_(&map->height_);
    while (now < height && !ivs_cas_acq_rel_32_(&map->height_, &now, height)) { /* [P3] */
    }
}

/* Links a locked node's tower, bottom-up [I4, I5], and takes the path along; after too many lost races the tower
 * stays lower than drawn. */
static void ivs_tower_link_(struct ivs_map *map, struct ivs_node *node, struct ivs_path_ *path) {
    ivs_index_raise_(map, node->height_);
    for (unsigned level = 1; level < node->height_; level++) {
        struct ivs_link_ *own = ivs_up_(node, level);
        for (int lost = 0;;) {
            uintptr_t word;
            struct ivs_node *before = ivs_index_find_(map, level, node->start, path, &word);
            ivs_store_relaxed_word_(&own->next, word);
            ivs_link_set_key_(own, (struct ivs_node *)word);
            if (ivs_cas_acq_rel_word_(&ivs_up_(before, level)->next, &word, (uintptr_t)node)) { /* [P3] */
                ivs_link_set_key_(ivs_up_(before, level), node);
                path->enter[level] = node; /* the nodes that follow come after it */
                break;
            }
            if (++lost == IVSKIP_LINK_TRIES) {
                node->height_ = (uint8_t)level;
                return;
            }
        }
    }
    path->start = node->start;
}

/* Makes a locked node, which is published, known to searches. */
static void ivs_index_link_(struct ivs_map *map, struct ivs_node *node, struct ivs_path_ *path) {
    ivs_tower_link_(map, node, path);
    ivs_entry_set_(map, node);
}

/* -------------------------------------------------------------------------------- lock, swap, unlock */

#define IVS_FOREVER_ UINT64_MAX

/* Locks the last node that ends at or before `start`. In and out: in a read section. */
static int ivs_lock_pred_(struct ivs_map *map, uint64_t start, uint64_t deadline, struct ivs_node **pred,
                          uintptr_t *word) {
    for (;;) {
        struct ivs_node *node = ivs_search_before_(map, start, word);
        while (!(*word & IVS_INVALIDATED_)) {
            struct ivs_node *next = ivs_ptr_(*word);
            if (next && next->last < start) { /* somebody put a node in between: slide */
                node = next;
                *word = ivs_load_acquire_word_(&node->next_); /* [P1] */
            } else if (*word & IVS_LOCKED_) {
                int r = ivs_wait_(map, node, deadline);
                if (r) return r;
                node = ivs_search_before_(map, start, word); /* the other may be gone */
            } else if (ivs_link_lock_(node, word)) {         /* the very word whose successor was looked at */
                *pred = node;
                return 0;
            }
        }
        (void)ivs_add_relaxed_64_(&map->restarts_, 1);
    }
}

/* Locks a node whose predecessor is held: it cannot be replaced meanwhile [I8]. */
static int ivs_lock_next_(struct ivs_map *map, struct ivs_node *node, uint64_t deadline, uintptr_t *word) {
    *word = ivs_load_acquire_word_(&node->next_); /* [P1] */
    for (;;) {
        IVS_ASSERT_(!(*word & IVS_INVALIDATED_));
        if (!(*word & IVS_LOCKED_)) {
            if (ivs_link_lock_(node, word)) return 0;
        } else {
            int r = ivs_wait_(map, node, deadline);
            if (r) return r;
            *word = ivs_load_acquire_word_(&node->next_); /* [P1] */
        }
    }
}

/* Unlocks predecessor and nodes; each successor is read before its node is let go. */
static void ivs_lock_drop_(struct ivs_lock *lock) {
    struct ivs_node *node = lock->first_, *next;
    struct ivs_map *map = lock->map;
    ivs_link_unlock_(map, lock->pred_);
    for (size_t i = 0; i < lock->count; i++, node = next) {
        next = ivs_ptr_(ivs_load_relaxed_word_(&node->next_));
        ivs_link_unlock_(map, node);
    }
    lock->map = NULL;
    lock->count = 0;
}

/* In and out: outside read sections. */
static int ivs_lock_range_(struct ivs_map *map, uint64_t start, uint64_t last, uint64_t deadline,
                           struct ivs_lock *lock) {
    uintptr_t word;
    int r;
    __builtin_memset(lock, 0, sizeof(*lock));
    lock->start = start;
    lock->end = last + 1;
    ivs_domain_read_enter(map->domain_);
    r = ivs_lock_pred_(map, start, deadline, &lock->pred_, &word);
    if (r == 0) {
        struct ivs_node *next;
        lock->map = map;
        lock->tail_ = lock->pred_;
        lock->floor = lock->pred_ == &map->head_ ? 0 : lock->pred_->last + 1;
        while ((next = ivs_ptr_(word)) != NULL && next->start <= last) {
            r = ivs_lock_next_(map, next, deadline, &word);
            if (r) break;
            if (lock->count++ == 0) lock->first_ = next;
            lock->tail_ = next;
        }
        lock->ceiling = next ? next->start : 0;
        if (r) ivs_lock_drop_(lock);
    }
    ivs_domain_read_exit(map->domain_);
    return r;
}

static int ivs_lock_checked_(struct ivs_map *map, uint64_t start, uint64_t end, uint64_t deadline,
                             struct ivs_lock *lock) {
    uint64_t last;
    if (!lock) return IVS_EINVAL;
    lock->map = NULL;
    if (!map || !ivs_range_(start, end, &last)) return IVS_EINVAL;
    if (deadline && ivs_in_section_(map->domain_)) return IVS_EDEADLK;
    return ivs_lock_range_(map, start, last, deadline, lock);
}

int ivs_map_lock(struct ivs_map *map, uint64_t start, uint64_t end, struct ivs_lock *lock) {
    return ivs_lock_checked_(map, start, end, IVS_FOREVER_, lock);
}

int ivs_map_trylock(struct ivs_map *map, uint64_t start, uint64_t end, struct ivs_lock *lock) {
    return ivs_lock_checked_(map, start, end, 0, lock);
}

int ivs_map_timedlock(struct ivs_map *map, uint64_t start, uint64_t end, uint64_t nanoseconds, struct ivs_lock *lock) {
    uint64_t now = IVSKIP_HOST_NOW();
    uint64_t deadline = nanoseconds < IVS_FOREVER_ - now ? now + nanoseconds : IVS_FOREVER_;
    return ivs_lock_checked_(map, start, end, deadline ? deadline : 1, lock);
}

int ivs_map_unlock(struct ivs_lock *lock) {
    struct ivs_list_ list = {0, 0, 0, 0};
    struct ivs_domain *domain;
    if (!lock) return IVS_EINVAL;
    if (!lock->map) return ivs_misuse_();
    domain = lock->map->domain_;
    ivs_list_take_(domain, &list, (uintptr_t)lock->dead_);
    lock->dead_ = NULL;
    ivs_lock_drop_(lock);
    ivs_retire_(domain, &list); /* [I7]: last */
    return 0;
}

/* May the run stand where the locked nodes do? */
static int ivs_run_check_(const struct ivs_lock *lock, struct ivs_node *const *run, size_t n) {
    uint64_t from = lock->floor;
    bool room = true; /* is there a key at or after `from`? */
    for (size_t i = 0; i < n; i++) {
        if (!run[i]) return IVS_EINVAL;
        if (run[i]->state_ != IVS_PREPARED_) return ivs_misuse_();
        if (!room || run[i]->start < from || run[i]->last < run[i]->start) return IVS_EINVAL;
        if (run[i]->last > lock->ceiling - 1) return IVS_EINVAL;
        from = run[i]->last + 1;
        room = from != 0;
    }
    return 0;
}

/* The old nodes, which are cut off, are frozen and wait for the unlock. */
static void ivs_swap_invalidate_(struct ivs_lock *lock, struct ivs_node *node, size_t count) {
    for (struct ivs_node *next; count; count--, node = next) {
        next = ivs_ptr_(ivs_load_relaxed_word_(&node->next_));
        node->state_ = IVS_REPLACED_;
        ivs_link_invalidate_(lock->map, node);
        node->chain_ = (uintptr_t)lock->dead_;
        lock->dead_ = node;
    }
}

/* The locked nodes become run[0..n), which was checked [I7]. */
static void ivs_swap_(struct ivs_lock *lock, struct ivs_node *const *run, size_t n) {
    struct ivs_map *map = lock->map;
    struct ivs_node *old = lock->first_, *node = old;
    struct ivs_node *after = ivs_ptr_(ivs_load_relaxed_word_(&lock->tail_->next_));
    struct ivs_path_ path = ivs_path_later_(lock->floor);
    size_t old_count = lock->count;
    if (old_count == 0 && n == 0) return;
    ivs_domain_read_enter(map->domain_);
    for (size_t i = 0; i < old_count; i++) {
        ivs_index_unlink_(map, node, &path); /* [I6] */
        node = ivs_ptr_(ivs_load_relaxed_word_(&node->next_));
    }
    for (size_t i = n; i-- > 0; after = run[i]) {
        run[i]->state_ = IVS_PUBLISHED_;
        run[i]->owned_ = 1;
        ivs_store_relaxed_word_(&run[i]->next_, (uintptr_t)after | IVS_LOCKED_); /* [I5] */
    }
    ivs_link_commit_(lock->pred_, after);
    ivs_swap_invalidate_(lock, old, old_count);
    for (size_t i = 0; i < n; i++) ivs_index_link_(map, run[i], &path);
    ivs_domain_read_exit(map->domain_);
    lock->count = n;
    lock->first_ = n ? run[0] : NULL;
    lock->tail_ = n ? run[n - 1] : lock->pred_;
}

int ivs_map_swap(struct ivs_lock *lock, struct ivs_node *const *run, size_t n) {
    int r;
    if (!lock || (n && !run)) return IVS_EINVAL;
    if (!lock->map) return ivs_misuse_();
    r = ivs_run_check_(lock, run, n);
    if (r) return r;
    ivs_swap_(lock, run, n);
    return 0;
}

/* -------------------------------------------------------------------------------- map, unmap, insert */

/* A part of `old` that stays. */
static int ivs_fragment_make_(struct ivs_map *map, struct ivs_node *old, struct ivs_node *part, uint64_t start,
                              uint64_t last) {
    int r = 0;
    part->start = start;
    part->last = last;
    if (map->fragment_) {
        r = map->fragment_(map->ctx_, old, part);
    } else {
        part->value_ = ivs_load_relaxed_word_(&old->value_);
        __builtin_memcpy(ivs_node_payload(map->domain_, part), ivs_node_payload(map->domain_, old),
                         map->domain_->payload_size_);
    }
    if (r == 0) part->owned_ = 1;
    return r > 0 ? IVS_EINVAL : r;
}

/* Nodes for the left and the right part that stay when a range cuts its first and last node. */
struct ivs_parts_ {
    struct ivs_node *left, *right;
};

/* Those that were not needed, or whose update failed after their value had been made. */
static void ivs_parts_free_(struct ivs_domain *domain, struct ivs_parts_ *parts) {
    if (parts->left) ivs_node_release_(domain, parts->left);
    if (parts->right) ivs_node_release_(domain, parts->right);
}

/* Prepares what is needed and not there. */
static bool ivs_parts_new_(struct ivs_domain *domain, struct ivs_parts_ *parts, bool left, bool right, unsigned flags) {
    bool may = flags == IVS_SLEEP || IVS_MALLOC_WHILE_HELD_ || (domain->ops_ && domain->ops_->alloc);
    if (!may) return (!left || parts->left) && (!right || parts->right);
    if (left && !parts->left) parts->left = ivs_node_new(domain, 0, 1, NULL, flags);
    if (right && !parts->right) parts->right = ivs_node_new(domain, 0, 1, NULL, flags);
    return (!left || parts->left) && (!right || parts->right);
}

/* Under the lock: the parts that stay get their values, then they and the new node replace what
 * was there, in one swap. */
static int ivs_overwrite_locked_(struct ivs_lock *lock, uint64_t start, uint64_t last, struct ivs_node *mid,
                                 struct ivs_parts_ *parts, bool left, bool right) {
    struct ivs_node *run[3] = {NULL, NULL, NULL}, *first = lock->first_, *tail = lock->tail_;
    size_t n = 0;
    int r = 0;
    if (left) r = ivs_fragment_make_(lock->map, first, parts->left, first->start, start - 1);
    if (right && r == 0) r = ivs_fragment_make_(lock->map, tail, parts->right, last + 1, tail->last);
    if (r) return r;
    if (left) run[n++] = parts->left;
    if (mid) run[n++] = mid;
    if (right) run[n++] = parts->right;
    ivs_swap_(lock, run, n);
    if (left) parts->left = NULL;
    if (right) parts->right = NULL;
    return 0;
}

/* Map (mid is the new node) and Unmap (NULL). Nodes for the parts that stay are made under the lock if the allocator
 * can do so at once, else outside. */
static int ivs_overwrite_(struct ivs_map *map, uint64_t start, uint64_t last, struct ivs_node *mid) {
    struct ivs_domain *domain = map->domain_;
    struct ivs_parts_ parts = {NULL, NULL};
    struct ivs_lock lock;
    bool left, right;
    int r = 0;
    if (ivs_in_section_(domain)) return IVS_EDEADLK;
    while (r == 0) {
        (void)ivs_lock_range_(map, start, last, IVS_FOREVER_, &lock);
        left = lock.count && lock.first_->start < start;
        right = lock.count && lock.tail_->last > last;
        if (ivs_parts_new_(domain, &parts, left, right, IVS_NOSLEEP)) break;
        (void)ivs_map_unlock(&lock);
        if (!ivs_parts_new_(domain, &parts, left, right, IVS_SLEEP)) r = IVS_ENOMEM;
    }
    if (r == 0) {
        r = ivs_overwrite_locked_(&lock, start, last, mid, &parts, left, right);
        (void)ivs_map_unlock(&lock);
    }
    ivs_parts_free_(domain, &parts);
    return r;
}

/* Runs an update that takes a node, for callers who have a value. */
static int ivs_with_node_(struct ivs_map *map, uint64_t start, uint64_t end, void *value,
                          int (*update)(struct ivs_map *map, struct ivs_node *node)) {
    struct ivs_node *node;
    uint64_t last;
    int r;
    if (!map || !ivs_range_(start, end, &last)) return IVS_EINVAL;
    if (ivs_in_section_(map->domain_)) return IVS_EDEADLK;
    node = ivs_node_new(map->domain_, start, end, value, IVS_SLEEP);
    if (!node) return IVS_ENOMEM;
    r = update(map, node);
    if (r) ivs_node_free_(map->domain_, node);
    return r;
}

int ivs_map_map_node(struct ivs_map *map, struct ivs_node *node) {
    if (!map || !node) return IVS_EINVAL;
    if (node->state_ != IVS_PREPARED_) return ivs_misuse_();
    return ivs_overwrite_(map, node->start, node->last, node);
}

int ivs_map_map(struct ivs_map *map, uint64_t start, uint64_t end, void *value) {
    return ivs_with_node_(map, start, end, value, ivs_map_map_node);
}

int ivs_map_unmap(struct ivs_map *map, uint64_t start, uint64_t end) {
    uint64_t last;
    if (!map || !ivs_range_(start, end, &last)) return IVS_EINVAL;
    return ivs_overwrite_(map, start, last, NULL);
}

/* Puts a prepared node into the gap behind `node`, if that link is still *word. In a read section. */
static bool ivs_insert_at_(struct ivs_map *map, struct ivs_node *node, uintptr_t *word, struct ivs_node *fresh) {
    bool held = fresh->height_ > 1 || ivs_entry_due_(map, fresh);
    if (!ivs_link_insert_(node, word, fresh, held)) return false;
    if (held) { /* else it may be gone already */
        struct ivs_path_ path = ivs_path_later_(fresh->start);
        ivs_index_link_(map, fresh, &path);
        ivs_link_unlock_(map, fresh);
    }
    return true;
}

/* One try: 0, -EEXIST, or -EBUSY: the predecessor went away or was waited for. In a read section. */
static int ivs_insert_try_(struct ivs_map *map, struct ivs_node *fresh) {
    uintptr_t word;
    struct ivs_node *node = ivs_search_before_(map, fresh->start, &word);
    while (!(word & IVS_INVALIDATED_)) {
        struct ivs_node *next = ivs_ptr_(word);
        if (next && next->last < fresh->start) {
            node = next;
            word = ivs_load_acquire_word_(&node->next_); /* [P1] */
        } else if (next && next->start <= fresh->last) {
            return IVS_EEXIST; /* both were linked side by side at an instant of this call, LOCKED or not */
        } else if (word & IVS_LOCKED_) {
            (void)ivs_wait_(map, node, IVS_FOREVER_);
            return IVS_EBUSY;
        } else if (ivs_insert_at_(map, node, &word, fresh)) {
            return 0;
        }
    }
    (void)ivs_add_relaxed_64_(&map->restarts_, 1);
    return IVS_EBUSY;
}

int ivs_map_insert_node(struct ivs_map *map, struct ivs_node *node) {
    int r;
    if (!map || !node) return IVS_EINVAL;
    if (node->state_ != IVS_PREPARED_) return ivs_misuse_();
    if (ivs_in_section_(map->domain_)) return IVS_EDEADLK;
    ivs_domain_read_enter(map->domain_);
    while ((r = ivs_insert_try_(map, node)) == IVS_EBUSY) {
    }
    ivs_domain_read_exit(map->domain_);
    return r;
}

int ivs_map_insert(struct ivs_map *map, uint64_t start, uint64_t end, void *value) {
    return ivs_with_node_(map, start, end, value, ivs_map_insert_node);
}

/* -------------------------------------------------------------------------------- alloc */

/* A request, checked: window [lo, last]. */
struct ivs_want_ {
    uint64_t lo, last, size, align;
};

/* What a scan saw: a gap to take, or a held one to wait for, and which nodes it met. */
struct ivs_scan_ {
    struct ivs_node *node; /* the gap is behind it */
    uintptr_t word;
    uint64_t start;
    uint64_t met,
        sign[2]; /* number and signature, in order, of the nodes met; in one read section an address is an identity */
};

enum ivs_found_ { IVS_GAP_FREE_, IVS_GAP_HELD_, IVS_GAP_DEAD_, IVS_GAP_NONE_ };

/* The place for a request in the gap behind `node`, whose next node is `next`; false: it does not fit. */
static bool ivs_gap_fits_(struct ivs_map *map, const struct ivs_node *node, const struct ivs_node *next,
                          const struct ivs_want_ *want, uint64_t *start) {
    uint64_t from = want->lo, last = want->last, mask = want->align - 1;
    if (next && node != &map->head_ && next->start - node->last <= want->size) return false; /* too small: most often */
    if (node != &map->head_ && node->last >= from) {
        if (node->last == UINT64_MAX) return false;
        from = node->last + 1;
    }
    if (next && next->start <= last) {
        if (next->start == 0) return false;
        last = next->start - 1;
    }
    if (from > UINT64_MAX - mask) return false;
    from = (from + mask) & ~mask;
    *start = from;
    return from <= last && last - from >= want->size - 1;
}

static void ivs_scan_meet_(struct ivs_scan_ *scan, const struct ivs_node *node) {
    scan->met++;
    scan->sign[0] = ivs_mix_(scan->sign[0] ^ (uintptr_t)node);
    scan->sign[1] = (scan->sign[1] ^ (uintptr_t)node) * 0x9e3779b97f4a7c15u + (scan->sign[1] >> 29);
}

/* Walks the window once: the first free gap that fits, else the first held one. `sign`: notes which nodes it met. In a
 * read section. */
static inline enum ivs_found_ ivs_scan_window_(struct ivs_map *map, const struct ivs_want_ *want,
                                               struct ivs_scan_ *scan, bool sign) {
    enum ivs_found_ found = IVS_GAP_NONE_;
    uintptr_t word;
    struct ivs_node *node = ivs_search_before_(map, want->lo, &word);
    scan->met = scan->sign[0] = scan->sign[1] = 0;
    for (;;) {
        struct ivs_node *next = ivs_ptr_(word);
        uint64_t start;
        if (sign) ivs_scan_meet_(scan, node);
        if (ivs_gap_fits_(map, node, next, want, &start) && (found == IVS_GAP_NONE_ || !(word & IVS_FLAGS_))) {
            scan->node = node;
            scan->word = word;
            scan->start = start;
            if (!(word & IVS_FLAGS_)) return IVS_GAP_FREE_;
            found = word & IVS_INVALIDATED_ ? IVS_GAP_DEAD_ : IVS_GAP_HELD_;
        }
        if (!next || next->start > want->last) return found;
        node = next;
        word = ivs_load_acquire_word_(&node->next_); /* [P1] */
    }
}

/* Decides under the window's locks: takes the first gap that fits, or says for certain that there is none. */
static int ivs_place_locked_(struct ivs_map *map, const struct ivs_want_ *want, struct ivs_node *fresh,
                             uint64_t *start) {
    struct ivs_lock lock;
    struct ivs_node *node, *next;
    uint64_t at;
    int r = IVS_ENOMEM;
    (void)ivs_add_relaxed_64_(&map->window_locks_, 1);
    (void)ivs_lock_range_(map, want->lo, want->last, IVS_FOREVER_, &lock);
    for (node = lock.pred_;; node = next) {
        next = ivs_ptr_(ivs_load_relaxed_word_(&node->next_));
        if (ivs_gap_fits_(map, node, next, want, &at)) {
            struct ivs_path_ path = ivs_path_later_(at);
            *start = fresh->start = at;
            fresh->last = at + (want->size - 1);
            fresh->state_ = IVS_PUBLISHED_;
            fresh->owned_ = 1;
            ivs_store_relaxed_word_(&fresh->next_, (uintptr_t)next | IVS_LOCKED_); /* [I5] */
            ivs_link_commit_(node, fresh);
            ivs_domain_read_enter(map->domain_);
            ivs_index_link_(map, fresh, &path);
            ivs_domain_read_exit(map->domain_);
            if (node == lock.pred_) lock.first_ = fresh; /* it is one of the locked nodes now */
            lock.count++;
            r = 0;
            break;
        }
        if (node == lock.tail_) break;
    }
    (void)ivs_map_unlock(&lock);
    return r;
}

static bool ivs_scan_same_(const struct ivs_scan_ *a, const struct ivs_scan_ *b) {
    return a->met == b->met && a->sign[0] == b->sign[0] && a->sign[1] == b->sign[1];
}

/*
 * First fit from the hint, then in the whole window. A single scan may miss a gap that is freed behind it, so
 * a refusal needs two in a row, in one read section, that met the same nodes (then no gap fitted at the
 * instant between them); after three that disagree the window is locked. In a read section; returns -EBUSY
 * where the locks must decide.
 */
static int ivs_place_(struct ivs_map *map, const struct ivs_want_ *want, uint64_t hint, struct ivs_node *fresh,
                      uint64_t *start) {
    struct ivs_want_ near = *want;
    struct ivs_scan_ now, before = {NULL, 0, 0, 0, {0, 0}};
    bool whole = hint <= want->lo || hint > want->last;
    int scans = 0;
    if (!whole) near.lo = hint;
    for (;;) {
        enum ivs_found_ found = ivs_scan_window_(map, whole ? want : &near, &now, whole);
        if (found == IVS_GAP_FREE_) {
            fresh->start = now.start;
            fresh->last = now.start + (want->size - 1);
            if (ivs_insert_at_(map, now.node, &now.word, fresh)) {
                *start = now.start; /* fresh may be gone already */
                return 0;
            }
            scans = 0; /* lost a race: as a call that begins now, near the place */
            near.lo = now.start;
            whole = false;
        } else if (!whole) {
            whole = true;
        } else if (found == IVS_GAP_HELD_) {
            (void)ivs_wait_(map, now.node, IVS_FOREVER_);
            scans = 0;
        } else if (found == IVS_GAP_DEAD_) {
            scans = 0;
        } else if (scans && ivs_scan_same_(&now, &before)) {
            return IVS_ENOMEM;
        } else if (++scans == 3) {
            return IVS_EBUSY;
        } else {
            before = now;
        }
    }
}

static int ivs_want_check_(const struct ivs_alloc *request, struct ivs_want_ *want) {
    if (!ivs_range_(request->lo, request->hi, &want->last)) return IVS_EINVAL;
    want->lo = request->lo;
    want->size = request->size;
    want->align = request->align ? request->align : 1;
    if (want->size == 0 || (want->align & (want->align - 1))) return IVS_EINVAL;
    return want->size - 1 <= want->last - want->lo ? 0 : IVS_EINVAL;
}

int ivs_map_alloc_node(struct ivs_map *map, const struct ivs_alloc *request, struct ivs_node *node, uint64_t *start) {
    struct ivs_want_ want;
    int r;
    if (!map || !request || !node || !start) return IVS_EINVAL;
    r = ivs_want_check_(request, &want);
    if (r) return r;
    if (node->state_ != IVS_PREPARED_) return ivs_misuse_();
    if (ivs_in_section_(map->domain_)) return IVS_EDEADLK;
    ivs_domain_read_enter(map->domain_);
    r = ivs_place_(map, &want, request->hint, node, start);
    ivs_domain_read_exit(map->domain_);
    if (r == IVS_EBUSY) r = ivs_place_locked_(map, &want, node, start);
    if (r == IVS_ENOMEM) (void)ivs_add_relaxed_64_(&map->refusals_, 1);
    return r;
}

int ivs_map_alloc(struct ivs_map *map, const struct ivs_alloc *request, void *value, uint64_t *start) {
    struct ivs_want_ want;
    struct ivs_node *node;
    int r;
    if (!map || !request || !start) return IVS_EINVAL;
    r = ivs_want_check_(request, &want);
    if (r) return r;
    if (ivs_in_section_(map->domain_)) return IVS_EDEADLK;
    node = ivs_node_new(map->domain_, 0, 1, value, IVS_SLEEP);
    if (!node) return IVS_ENOMEM;
    r = ivs_map_alloc_node(map, request, node, start);
    if (r) ivs_node_free_(map->domain_, node);
    return r;
}

/* -------------------------------------------------------------------------------- tune */

static size_t ivs_entries_bytes_(const struct ivs_entries_ *entries) {
    return sizeof(*entries) + IVS_LINE_ + ((size_t)1 << entries->line_bits) * sizeof(struct ivs_entry_line_) +
           ((size_t)1 << entries->region_bits) * sizeof(struct ivs_entry_region_);
}

static void ivs_entries_free_(struct ivs_domain *domain, struct ivs_entries_ *entries) {
    if (domain->ops_ && domain->ops_->free) domain->ops_->free(domain->ctx_, entries, ivs_entries_bytes_(entries));
    else IVSKIP_HOST_FREE(entries);
}

static void ivs_entries_due_(struct ivs_defer *self) {
    struct ivs_entries_ *entries = (struct ivs_entries_ *)(void *)self;
    ivs_entries_free_(entries->domain, entries);
}

/* The node after `node`, the n-th of a walk of any length: now and then the read section is left for a moment. */
static struct ivs_node *ivs_walk_(struct ivs_map *map, struct ivs_node *node, size_t n) {
    uint64_t last = node->last;
    if (last == UINT64_MAX) return NULL;
    if (n % IVS_WALK_ == 0) {
        ivs_domain_read_exit(map->domain_);
        ivs_domain_read_enter(map->domain_);
        return ivs_map_query_next_rcu(map, last + 1);
    }
    return ivs_map_next_rcu(map, node);
}

/* Nodes in the order of their keys, and how close they start. */
struct ivs_census_ {
    size_t n, parted[64]; /* neighbours that are in two chunks if a chunk is 2^i keys, but in one if it is 2^(i + 1) */
    uint64_t before;
};

static void ivs_census_add_(struct ivs_census_ *census, uint64_t start) {
    if (census->n++ && start != census->before) census->parted[63 - __builtin_clzll(start ^ census->before)]++;
    census->before = start;
}

/* The longest chunks, of at most 2^most keys, of which at least n are in use, if there are as many. */
static uint32_t ivs_census_shift_(const struct ivs_census_ *census, uint32_t most, size_t n) {
    uint32_t shift = 64;
    size_t chunks = 1;
    while (shift > 0 && (shift > most || chunks < n)) chunks += census->parted[--shift];
    return shift;
}

static uint32_t ivs_bits_(size_t n) {
    uint32_t bits = 1;
    while (bits < sizeof(size_t) * 8 - 8 && ((size_t)1 << bits) < n) bits++;
    return bits;
}

/* Settles the chunks of a region, which was counted from end to end. */
static void ivs_entries_region_(struct ivs_entries_ *entries, const struct ivs_census_ *census, size_t *room) {
    struct ivs_entry_region_ *region = ivs_entry_region_of_(entries, census->before);
    if (!*room || region->region) return;
    --*room;
    region->region = (census->before >> entries->region_shift) + 1;
    region->shift = ivs_census_shift_(census, entries->region_shift, census->n / 2 + 1);
}
/* Settles the chunks of all regions. Before the table is published. */
static void ivs_entries_survey_(struct ivs_map *map, struct ivs_entries_ *entries) {
    size_t n = 0, room = ((size_t)1 << entries->region_bits) / 2;
    struct ivs_census_ census;
    struct ivs_node *node;
    __builtin_memset(&census, 0, sizeof(census));
    ivs_domain_read_enter(map->domain_);
    for (node = ivs_map_query_next_rcu(map, 0); node; node = ivs_walk_(map, node, ++n)) {
        if (census.n && (node->start ^ census.before) >> entries->region_shift) {
            ivs_entries_region_(entries, &census, &room);
            __builtin_memset(&census, 0, sizeof(census));
        }
        ivs_census_add_(&census, node->start);
    }
    if (census.n) ivs_entries_region_(entries, &census, &room);
    ivs_domain_read_exit(map->domain_);
}

/* A table without entries, for the nodes that there are now; *too_few: there are too few for a table. May sleep. */
static struct ivs_entries_ *ivs_entries_new_(struct ivs_map *map, bool *too_few) {
    struct ivs_census_ census;
    struct ivs_entries_ shape, *entries;
    struct ivs_node *node;
    size_t regions = 1;
    __builtin_memset(&census, 0, sizeof(census));
    __builtin_memset(&shape, 0, sizeof(shape));
    ivs_domain_read_enter(map->domain_);
    for (node = ivs_map_query_next_rcu(map, 0); node; node = ivs_walk_(map, node, census.n))
        ivs_census_add_(&census, node->start);
    ivs_domain_read_exit(map->domain_);
    *too_few = census.n < IVS_ENTRIES_MIN_;
    if (*too_few) return NULL;
    shape.domain = map->domain_;
    shape.region_shift = ivs_census_shift_(&census, 63, census.n / IVS_ENTRY_REGION_);
    shape.shift = ivs_census_shift_(&census, shape.region_shift, census.n / 2 + 1);
    for (uint32_t i = shape.region_shift; i < 64; i++) regions += census.parted[i];
    shape.region_bits = ivs_bits_(2 * regions);
    shape.line_bits = ivs_bits_(census.n / 4);
    entries = (struct ivs_entries_ *)ivs_memory_(map->domain_, ivs_entries_bytes_(&shape), IVS_SLEEP);
    if (!entries) return NULL;
    __builtin_memset(entries, 0, ivs_entries_bytes_(&shape));
    *entries = shape;
    entries->line =
        (struct ivs_entry_line_ *)(((uintptr_t)(entries + 1) + IVS_LINE_ - 1) & ~(uintptr_t)(IVS_LINE_ - 1));
    entries->region = (struct ivs_entry_region_ *)(void *)(entries->line + ((size_t)1 << shape.line_bits));
    ivs_entries_survey_(map, entries);
    return entries;
}

/* Sets the slots of the nodes that were there before the table. A node that somebody holds goes without until it is
 * replaced. */
static void ivs_entries_fill_(struct ivs_map *map) {
    struct ivs_node *node;
    size_t n = 0;
    ivs_domain_read_enter(map->domain_);
    for (node = ivs_map_query_next_rcu(map, 0); node; node = ivs_walk_(map, node, ++n)) {
        uintptr_t word = ivs_load_relaxed_word_(&node->next_);
        if (!ivs_entry_due_(map, node)) continue;
        if ((word & IVS_FLAGS_) || !ivs_link_lock_(node, &word)) continue;
        ivs_entry_set_(map, node);
        ivs_link_unlock_(map, node);
    }
    ivs_domain_read_exit(map->domain_);
}

int ivs_map_tune(struct ivs_map *map) {
    struct ivs_entries_ *entries, *old;
    bool too_few;
    if (!map || map->magic_ != IVS_MAP_MAGIC_) return IVS_EINVAL;
    if (ivs_in_section_(map->domain_)) return IVS_EDEADLK;
    if (ivs_exchange_relaxed_32_(&map->tuning_, 1)) return IVS_EBUSY;
    entries = ivs_entries_new_(map, &too_few);
    if (!entries && !too_few) {
        ivs_store_relaxed_32_(&map->tuning_, 0);
        return IVS_ENOMEM;
    }
    old = (struct ivs_entries_ *)ivs_exchange_acq_rel_word_(&map->entries_, (uintptr_t)entries); /* [P4] */
    if (entries) ivs_entries_fill_(map);
    if (old) (void)ivs_domain_defer(map->domain_, &old->defer, ivs_entries_due_);
    if (old) (void)ivs_domain_reclaim(map->domain_); /* it is large */
    ivs_store_relaxed_32_(&map->tuning_, 0);
    return 0;
}

/* -------------------------------------------------------------------------------- begin and end */

int ivs_map_init(struct ivs_map *map, const struct ivs_map_config *config) {
    int r;
    if (!map) return IVS_EINVAL;
    if (config && config->domain && config->domain->magic_ != IVS_DOMAIN_MAGIC_) return IVS_EINVAL;
    __builtin_memset(map, 0, sizeof(*map));
    map->domain_ = config ? config->domain : NULL;
    if (!map->domain_) {
        r = ivs_domain_init(&map->own_, config ? &config->own : NULL);
        if (r) return r;
        map->domain_ = &map->own_;
    }
    if (config) {
        map->fragment_ = config->fragment;
        map->ctx_ = config->ctx;
    }
    map->head_.height_ = map->head_.room_ = IVSKIP_MAX_HEIGHT;
    map->head_.state_ = IVS_PUBLISHED_;
    for (unsigned level = 1; level < IVSKIP_MAX_HEIGHT; level++) ivs_link_set_key_(ivs_up_(&map->head_, level), NULL);
    map->height_ = 1;
    map->magic_ = IVS_MAP_MAGIC_;
    return 0;
}

/* The successor at level 0. */
static struct ivs_node *ivs_successor_(struct ivs_node *node) {
    return ivs_ptr_(ivs_load_acquire_word_(&node->next_)); /* [P1] */
}

int ivs_map_destroy(struct ivs_map *map) {
    struct ivs_list_ list = {0, 0, 0, 0};
    struct ivs_node *node, *next;
    bool own;
    if (!map || map->magic_ != IVS_MAP_MAGIC_) return IVS_EINVAL;
    own = map->domain_ == &map->own_;
    if (own && ivs_domain_busy_(map->domain_)) return IVS_EBUSY;
    for (node = &map->head_; node; node = ivs_successor_(node))
        if (ivs_load_relaxed_word_(&node->next_) & IVS_LOCKED_) return IVS_EBUSY;
    map->magic_ = 0;
    if (map->entries_) ivs_entries_free_(map->domain_, ivs_entries_of_(map));
    for (node = ivs_successor_(&map->head_); node; node = next) {
        next = ivs_successor_(node);
        node->state_ = IVS_REPLACED_;
        ivs_list_push_(&list, (uintptr_t)node, ivs_node_bytes_(map->domain_, node));
    }
    if (!own) {
        ivs_retire_(map->domain_, &list);
        return 0;
    }
    (void)ivs_list_release_(map->domain_, &list);
    return ivs_domain_destroy(map->domain_);
}

int ivs_map_reset_after_fork(struct ivs_map *map) {
    struct ivs_node *end[IVSKIP_MAX_HEIGHT], *node;
    if (!map || map->magic_ != IVS_MAP_MAGIC_) return IVS_EINVAL;
    if (map->domain_ == &map->own_ && ivs_domain_reset_after_fork(map->domain_)) return IVS_EINVAL;
    for (unsigned l = 0; l < IVSKIP_MAX_HEIGHT; l++) end[l] = &map->head_;
    IVS_PARKS_RESET_();
    map->height_ = 1;
    map->tuning_ = 0;
    for (node = &map->head_; node; node = ivs_successor_(node)) {
        (void)ivs_and_release_word_(&node->next_, ~(uintptr_t)(IVS_LOCKED_ | IVS_WAITERS_)); /* [P2] */
        node->height_ = node->room_;
        for (unsigned l = 1; l < node->height_; l++) {
            struct ivs_link_ *own = ivs_up_(node, l);
            ivs_store_relaxed_word_(&own->next, 0);
            ivs_link_set_key_(own, NULL);
            if (node == &map->head_) continue;
            ivs_store_relaxed_word_(&ivs_up_(end[l], l)->next, (uintptr_t)node);
            ivs_link_set_key_(ivs_up_(end[l], l), node);
            end[l] = node;
        }
        if (node != &map->head_) ivs_index_raise_(map, node->height_);
    }
    return 0;
}

/* -------------------------------------------------------------------------------- validate */

static int ivs_broken_(struct ivs_report *report, const char *check, const struct ivs_node *node, unsigned level) {
    report->check = check;
    report->node = node;
    report->level = level;
    return IVS_EBADMSG;
}

static int ivs_validate_bottom_(struct ivs_map *map, struct ivs_report *report) {
    struct ivs_node *node, *before = NULL;
    for (node = &map->head_; node; node = ivs_successor_(node)) {
        uintptr_t word = ivs_load_relaxed_word_(&node->next_);
        if (word & IVS_INVALIDATED_) return ivs_broken_(report, "I3: a replaced node is reachable at level 0", node, 0);
        if (word & IVS_FLAGS_) return ivs_broken_(report, "I2: a link is locked though nobody holds a range", node, 0);
        if (node->state_ != IVS_PUBLISHED_)
            return ivs_broken_(report, "I6: a node in the map is not published", node, 0);
        if (node == &map->head_) continue;
        if (node->start > node->last) return ivs_broken_(report, "I1: an interval is empty", node, 0);
        if (before && node->start <= before->last)
            return ivs_broken_(report, "I1: neighbours overlap or are not sorted", node, 0);
        if (node->height_ < 1 || node->height_ > node->room_)
            return ivs_broken_(report, "I5: a height beyond its memory", node, 0);
        if (node->height_ > map->height_) return ivs_broken_(report, "I4: searches begin below a tower's top", node, 0);
        before = node;
        report->nodes++;
    }
    return 0;
}

/* A level holds, in order, just those nodes of the level below that are high enough. */
static int ivs_validate_level_(struct ivs_map *map, unsigned level, struct ivs_report *report) {
    struct ivs_node *above = &map->head_, *node = &map->head_;
    uintptr_t word = ivs_load_acquire_word_(&ivs_up_(above, level)->next); /* [P3] */
    for (;;) {
        if (word & IVS_MARK_) return ivs_broken_(report, "I4: a linked node is marked", above, level);
        above = (struct ivs_node *)word;
        do {
            node = level == 1 ? ivs_successor_(node)
                              : (struct ivs_node *)ivs_load_acquire_word_(&ivs_up_(node, level - 1)->next); /* [P3] */
            if (node && node != above && node->height_ > level)
                return ivs_broken_(report, "I5: a node is not linked at a level of its tower", node, level);
        } while (node && node != above);
        if (node != above)
            return ivs_broken_(report, "I4: a node is linked here but not at the level below", above, level);
        if (!above) return 0;
        if (above->height_ <= level) return ivs_broken_(report, "I5: a node is linked above its height", above, level);
        word = ivs_load_acquire_word_(&ivs_up_(above, level)->next); /* [P3] */
    }
}

/* Every slot leads to a node of its chunk that is in the list. */
static int ivs_validate_entries_(struct ivs_map *map, struct ivs_report *report) {
    struct ivs_entries_ *entries = ivs_entries_of_(map);
    uint64_t low;
    for (size_t i = 0; entries && i < (size_t)IVS_ENTRY_SLOTS_ << entries->line_bits; i++) {
        uintptr_t *slot = &entries->line[i / IVS_ENTRY_SLOTS_].slot[i % IVS_ENTRY_SLOTS_], word;
        struct ivs_node *node = (struct ivs_node *)ivs_load_acquire_word_(slot); /* [P4] */
        if (!node) continue;
        if (ivs_entry_slot_(entries, node->start, false, &low) != slot)
            return ivs_broken_(report, "I6: a node is in a slot of another chunk", node, 0);
        (void)ivs_search_before_(map, node->start, &word);
        if (ivs_ptr_(word) != node) return ivs_broken_(report, "I6: a slot leads to a node that has left", node, 0);
    }
    return 0;
}

int ivs_map_validate(struct ivs_map *map, struct ivs_report *report) {
    struct ivs_report none;
    int r;
    if (!report) report = &none;
    __builtin_memset(report, 0, sizeof(*report));
    if (!map || map->magic_ != IVS_MAP_MAGIC_) return IVS_EINVAL;
    r = ivs_validate_bottom_(map, report);
    for (unsigned level = 1; r == 0 && level < IVSKIP_MAX_HEIGHT; level++) r = ivs_validate_level_(map, level, report);
    return r ? r : ivs_validate_entries_(map, report);
}

/* -------------------------------------------------------------------------------- statistics and dump */

static void ivs_entries_count_(const struct ivs_entries_ *entries, struct ivs_map_stats *stats) {
    if (!entries) return;
    stats->table_bytes = ivs_entries_bytes_(entries);
    for (size_t i = 0; i < (size_t)1 << entries->line_bits; i++) {
        if (!ivs_load_relaxed_64_(&entries->line[i].run)) continue;
        stats->table_slots += IVS_ENTRY_SLOTS_;
        for (int k = 0; k < IVS_ENTRY_SLOTS_; k++)
            stats->table_used += ivs_load_relaxed_word_(&entries->line[i].slot[k]) != 0;
    }
}

int ivs_map_get_stats(struct ivs_map *map, struct ivs_map_stats *stats) {
    struct ivs_node *node;
    uint64_t from = 0;
    if (!map || !stats) return IVS_EINVAL;
    __builtin_memset(stats, 0, sizeof(*stats));
    ivs_map_read_enter(map);
    ivs_map_for_each_rcu (node, map, 0, 0) {
        unsigned height = node->room_;
        stats->nodes++;
        stats->links += height;
        stats->node_bytes += sizeof(*node) - sizeof(node->value_) + (height - 1) * sizeof(struct ivs_link_);
        stats->payload_bytes += sizeof(node->value_) + map->domain_->payload_size_;
        stats->at_height[height - 1]++;
        if (height > stats->height) stats->height = height;
        stats->keys += node->last - (node->start > from ? node->start : from) + 1;
        from = node->last + 1;
    }
    ivs_entries_count_(ivs_entries_of_(map), stats);
    ivs_map_read_exit(map);
    stats->waits = ivs_load_relaxed_64_(&map->waits_);
    stats->restarts = ivs_load_relaxed_64_(&map->restarts_);
    stats->refusals = ivs_load_relaxed_64_(&map->refusals_);
    stats->window_locks = ivs_load_relaxed_64_(&map->window_locks_);
    return ivs_domain_get_stats(map->domain_, &stats->domain);
}

/* A line that is put together and handed out. */
struct ivs_out_ {
    void (*put)(void *ctx, const char *text);
    void *ctx;
};

static void ivs_put_(const struct ivs_out_ *out, const char *text) { out->put(out->ctx, text); }

static void ivs_put_number_(const struct ivs_out_ *out, uint64_t x, unsigned base) {
    char text[24];
    size_t at = sizeof(text) - 1;
    text[at] = 0;
    do {
        text[--at] = "0123456789abcdef"[x % base];
        x /= base;
    } while (x);
    if (base == 16) ivs_put_(out, "0x");
    ivs_put_(out, &text[at]);
}

static void ivs_put_bounds_(const struct ivs_out_ *out, const struct ivs_node *node) {
    ivs_put_(out, "[");
    ivs_put_number_(out, node->start, 16);
    ivs_put_(out, ", ");
    if (node->last == UINT64_MAX) ivs_put_(out, "2^64");
    else ivs_put_number_(out, node->last + 1, 16);
    ivs_put_(out, ")");
}

static void ivs_dump_text_(const struct ivs_out_ *out, struct ivs_node *node) {
    uintptr_t word = ivs_load_acquire_word_(&node->next_); /* [P1] */
    ivs_put_bounds_(out, node);
    ivs_put_(out, " value ");
    ivs_put_number_(out, (uint64_t)(uintptr_t)ivs_node_value(node), 16);
    ivs_put_(out, " height ");
    ivs_put_number_(out, node->room_, 10);
    if (word & IVS_LOCKED_) ivs_put_(out, " LOCKED");
    if (word & IVS_WAITERS_) ivs_put_(out, " WAITERS");
    if (word & IVS_INVALIDATED_) ivs_put_(out, " INVALIDATED");
    ivs_put_(out, "\n");
}

static void ivs_dot_name_(const struct ivs_out_ *out, struct ivs_map *map, const struct ivs_node *node) {
    if (!node) ivs_put_(out, "end");
    else if (node == &map->head_) ivs_put_(out, "head");
    else {
        ivs_put_(out, "n");
        ivs_put_number_(out, node->start, 10);
    }
}

/* One record a node, one port a level, the tower drawn from the top down; an edge from each level
 * to the successor there. */
static void ivs_dump_dot_(const struct ivs_out_ *out, struct ivs_map *map, struct ivs_node *node, unsigned height) {
    unsigned levels = node->room_ < height ? node->room_ : height;
    ivs_put_(out, "  ");
    ivs_dot_name_(out, map, node);
    ivs_put_(out, " [label=\"{");
    for (unsigned l = levels; l-- > 0;) {
        ivs_put_(out, "<l");
        ivs_put_number_(out, l, 10);
        ivs_put_(out, l ? "> |" : "> ");
    }
    if (node == &map->head_) ivs_put_(out, "head");
    else ivs_put_bounds_(out, node);
    ivs_put_(out, "}\"];\n");
    for (unsigned l = 0; l < levels; l++) {
        struct ivs_node *next =
            l ? (struct ivs_node *)(ivs_load_acquire_word_(&ivs_up_(node, l)->next) & ~(uintptr_t)IVS_MARK_) /* [P3] */
              : ivs_successor_(node);
        if (!next && node != &map->head_ && l) continue;
        ivs_put_(out, "  ");
        ivs_dot_name_(out, map, node);
        ivs_put_(out, ":l");
        ivs_put_number_(out, l, 10);
        ivs_put_(out, " -> ");
        ivs_dot_name_(out, map, next);
        ivs_put_(out, next ? ":l" : ";\n");
        if (next) ivs_put_number_(out, l, 10);
        if (next) ivs_put_(out, ";\n");
    }
}

int ivs_map_dump(struct ivs_map *map, enum ivs_dump_format format, void (*put)(void *ctx, const char *text),
                 void *ctx) {
    struct ivs_out_ out;
    struct ivs_node *node;
    unsigned height;
    if (!map || !put || (format != IVS_DUMP_TEXT && format != IVS_DUMP_DOT)) return IVS_EINVAL;
    out.put = put;
    out.ctx = ctx;
    ivs_map_read_enter(map);
    height = ivs_load_relaxed_32_(&map->height_);
    if (format == IVS_DUMP_DOT) {
        ivs_put_(&out, "digraph ivskip {\n  rankdir=LR;\n  node [shape=record];\n  end [shape=point];\n");
        ivs_dump_dot_(&out, map, &map->head_, height);
    }
    ivs_map_for_each_rcu (node, map, 0, 0) {
        if (format == IVS_DUMP_DOT) ivs_dump_dot_(&out, map, node, height);
        else ivs_dump_text_(&out, node);
    }
    if (format == IVS_DUMP_DOT) ivs_put_(&out, "}\n");
    ivs_map_read_exit(map);
    return 0;
}

/* -------------------------------------------------------------------------------- range locks: pieces */

/*
 * A held range is one unlocked node of a map (exclusive) or several that make it up (shared: cut where the ranges of
 * others begin and end), and each such piece has a state in front of its node:
 *
 *     63 ........ 44 | 43 ......... 24 | 23 ......... 4 |   3  |     2     |   1  |   0
 *     end with it    | begin with it   | shared holders | KEPT | EXCLUSIVE | WAIT | DEAD
 *
 * A piece that nobody holds may stay for the next who asks for just that range (KEPT): that one finds it by a query and
 * takes it by one CAS. Others look on it as on a gap.
 *
 *   R1  a piece is taken only by a CAS on its state that sees no DEAD, or by coming into the map taken. Whoever
 *       replaces a node holds its level-0 lock, and has set DEAD before by a CAS that saw no exclusive holder. So a
 *       piece that is taken is in the map, and stays there until it is let go or, shared, replaced by pieces with its
 *       count.
 *   R2  the bounds of a holder's pieces, together, are its range: an exclusive holder's is one piece with just
 *       its bounds, and a cut is made where a shared range begins or ends. Two who conflict share a key, so they would
 *       share a piece, which R1 forbids; no key outside a range is looked at. A piece counts the holders that begin
 *       with it and those that end with it: two neighbours are joined only where there are none of these between them.
 *   R3  WAIT is set on a held piece only, under the queue's guard, by one who is then marked SLEEPING for its bounds;
 *       the release that empties the piece clears WAIT in the same RMW, then takes the guard and passes: so no wake is
 *       lost. Parts of a cut piece inherit it.
 *   R4  one who waits stands BEHIND an earlier one that conflicts with it, or there is none such and it is AWAKE (it
 *       tries, or is about to) or SLEEPING (R3). Whoever leaves the queue looks after those who stand behind it.
 *   R5  who waits stands behind all earlier ones that conflict with it. A shared newcomer queues if an exclusive one
 *       that waits conflicts with it; an exclusive newcomer, if one does that was woken in vain. A nested one, whose
 *       owner holds no key above above_, passes by those whose low_ is not above that. No cycle: let low_ of one who
 *       waits be the least of its own start and the low_ of those it stands behind. Whoever it waits for holds a key at
 *       or above low_; if that one waits, then (ascending order) for keys above that, and behind those only whose low_
 *       is above; so it never comes to one who holds nothing above above_.
 *   R6  a release that will pass counts itself in `wakers` before its RMW on the piece: who destroys the lock sees the
 *       piece free, so it sees the count, and waits. A release that need not pass touches nothing after its RMW but
 *       inside a read section.
 *   R7  a piece in the caller's storage has one holder, is joined by nobody, and leaves the map with that one at the
 *       latest: others who share a part replace it, and are counted in `lenders` until they have retired it. So the
 *       storage is the caller's when no lender is left and a grace period is over.
 */
#define IVS_PIECE_DEAD_      ((ivs_u64_)1)
#define IVS_PIECE_WAIT_      ((ivs_u64_)2)
#define IVS_PIECE_EXCLUSIVE_ ((ivs_u64_)4)
#define IVS_PIECE_KEPT_      ((ivs_u64_)8)
#define IVS_PIECE_SHARED_    ((ivs_u64_)1 << 4)
#define IVS_PIECE_COUNT_     ((ivs_u64_)0xfffff << 4)
#define IVS_PIECE_BEGIN_     ((ivs_u64_)1 << 24)
#define IVS_PIECE_BEGINS_    ((ivs_u64_)0xfffff << 24)
#define IVS_PIECE_END_       ((ivs_u64_)1 << 44)
#define IVS_PIECE_ENDS_      ((ivs_u64_)0xfffff << 44)
#define IVS_PIECE_WHOLE_                                                                                               \
    (IVS_PIECE_SHARED_ | IVS_PIECE_BEGIN_ | IVS_PIECE_END_) /* a shared holder of just this piece */
#define IVS_AGAIN_ 1

enum { IVS_ROOT_HANDLE_ = 1, IVS_ROOT_CHANGE_ = 2, IVS_ROOT_TABLE_ = 4 }; /* lock->root_ */
enum {                                                                    /* range->state_; 0: it is not in the queue */
       IVS_RANGE_AWAKE_ = 1,                                              /* it tries, or is about to */
       IVS_RANGE_SLEEPING_ = 2,                                           /* for a held piece */
       IVS_RANGE_BEHIND_ = 3,                                             /* another */
       IVS_RANGE_TRYING_ = 4 /* AWAKE, asynchronous, and somebody is at it just now */
};
enum { IVS_RANGE_WOKEN_ = 1, IVS_RANGE_NESTED_ = 2, IVS_RANGE_ASYNC_ = 4, IVS_RANGE_TIMED_ = 8 }; /* range->flags_ */

#ifndef IVS_RANGE_CACHE_
#define IVS_RANGE_CACHE_ 64 /* pieces that are kept in any case; beyond, one of eight new ones */
#endif
#ifndef IVS_RANGE_TRACK_
#define IVS_RANGE_TRACK_ IVSKIP_DEBUG /* holders are listed, so that cycles are found */
#endif

struct ivs_piece_ { /* on a line of its own: searches read the nodes of strangers, who write to their states */
    unsigned char pad[IVS_LINE_ - 24];
    ivs_u64_ state;
    ivs_u64_ owner;  /* of an exclusive one; for the dump */
    ivs_u64_ grants; /* to exclusive ones; others are counted in stripes */
    unsigned char pad2[IVS_LINE_];
};
IVS_STATIC_ASSERT_(sizeof(struct ivs_piece_) == IVSKIP_RANGE_PAYLOAD, "the payload of a range lock's domain");
IVS_STATIC_ASSERT_(sizeof(struct ivs_range_lock) <= 128, "an idle lock takes at most 128 bytes");

#define IVS_STRIPES_ 8

/* What a range lock has once it was held by two at once. */
struct ivs_ranges_ {
    struct ivs_map map;
    struct ivs_domain *domain;
    unsigned char pad[IVS_LINE_];     /* above and next: read by every request; then: written by those who wait */
    ivs_u64_ waits_start, waits_last; /* of all who wait: bounds and kinds; for those without the guard, hints */
    uint32_t waits_kinds;
    unsigned char pad2[IVS_LINE_];
    ivs_u64_ kept; /* pieces with KEPT */
    ivs_u64_ hand; /* where the next free one is looked for */
    uint32_t wakers, lenders;
    uint32_t lent;                    /* a piece was in a caller's storage */
    uint32_t guard;                   /* 0 free, 1 held, 2 held and waited for; of what follows */
    struct ivs_range *queue;          /* the root of those who wait */
    struct ivs_range *run, *run_last; /* asynchronous ones that were roused, in that order */
    uint64_t runner;                  /* who answers them now */
    bool running;
    struct ivs_range *holders; /* IVS_RANGE_TRACK_ */
    uint64_t search;           /* likewise */
    uint64_t waits, longest, wakes, false_wakes;
    struct {
        unsigned char pad[IVS_LINE_ - 8];
        ivs_u64_ granted; /* by pieces that are gone */
    } stripe[IVS_STRIPES_];
} __attribute__((aligned(8)));

static inline struct ivs_piece_ *ivs_piece_of_(const struct ivs_node *node) {
    return (struct ivs_piece_ *)(uintptr_t)node - 1;
}

/* Shared holders that are as many as can be counted keep others out, too. */
static inline bool ivs_piece_conflicts_(ivs_u64_ state, uint32_t mode) {
    if (mode & IVS_EXCLUSIVE) return (state & (IVS_PIECE_EXCLUSIVE_ | IVS_PIECE_COUNT_)) != 0;
    return (state & IVS_PIECE_EXCLUSIVE_) || (state & IVS_PIECE_COUNT_) == IVS_PIECE_COUNT_;
}

static inline bool ivs_meets_(uint64_t start, uint64_t last, uint64_t start2, uint64_t last2) {
    return start <= last2 && start2 <= last;
}

static inline bool ivs_range_clash_(const struct ivs_range *a, const struct ivs_range *b) {
    return (a->mode_ == IVS_EXCLUSIVE || b->mode_ == IVS_EXCLUSIVE) &&
           ivs_meets_(a->start_, a->last_, b->start_, b->last_);
}

static uint64_t ivs_thread_id_(void) {
#if IVS_RCU_IS_(BUILTIN)
    return (uint64_t)(uintptr_t)&ivs_thread_;
#elif IVS_RCU_IS_(HOST)
    return IVSKIP_HOST_OWNER();
#else
    return (uint64_t)(uintptr_t)&ivs_random_state_;
#endif
}

/* Acquisitions that no piece counts any more: on a line that few threads write to. */
static void ivs_granted_(struct ivs_ranges_ *table, uint64_t count) {
    (void)ivs_add_relaxed_64_(&table->stripe[ivs_mix_(ivs_thread_id_()) % IVS_STRIPES_].granted, count);
}

/* -------------------------------------------------------------------------------- range locks: the queue */

/*
 * Those who wait, in a treap by start: each knows what its subtree reaches, who came first in it, and which kinds are
 * there, so that one who is in the way is found without a look at all. Under the guard.
 */
enum {
    IVS_WAITS_SHARED_ = 1,
    IVS_WAITS_EXCLUSIVE_ = 2,
    IVS_WAITS_VAIN_ = 4,
    IVS_WAITS_ASLEEP_ = 8
}; /* range->kinds_ */

static void ivs_guard_(struct ivs_ranges_ *table) {
    uint32_t free = 0;
    for (int i = 0; i < IVSKIP_SPIN; i++, free = 0) {
        if (ivs_cas_acq_rel_32_(&table->guard, &free, 1)) return; /* [P17] */
        IVSKIP_RELAX();
    }
    while (ivs_exchange_acq_rel_32_(&table->guard, 2)) /* [P17] */
        IVSKIP_HOST_PARK(&table->guard, 2, UINT64_MAX);
}

static void ivs_unguard_(struct ivs_ranges_ *table) {
    if (ivs_exchange_acq_rel_32_(&table->guard, 0) == 2) IVSKIP_HOST_WAKE(&table->guard); /* [P17] */
}

static void ivs_queue_sum_(struct ivs_range *at) {
    struct ivs_range *below[2] = {at->left_, at->right_};
    at->reach_ = at->last_;
    at->lowest_ = at->low_;
    at->oldest_ = at->ticket_;
    at->under_ = at->kinds_;
    for (int i = 0; i < 2; i++) {
        if (!below[i]) continue;
        if (below[i]->reach_ > at->reach_) at->reach_ = below[i]->reach_;
        if (below[i]->lowest_ < at->lowest_) at->lowest_ = below[i]->lowest_;
        if (below[i]->oldest_ < at->oldest_) at->oldest_ = below[i]->oldest_;
        at->under_ |= below[i]->under_;
    }
}

/* `at` and all above it are summed anew; what newcomers look at follows. */
static void ivs_queue_sums_(struct ivs_ranges_ *table, struct ivs_range *at) {
    struct ivs_range *first = table->queue;
    for (; at; at = at->up_) ivs_queue_sum_(at);
    while (first && first->left_) first = first->left_;
    if (first) {
        ivs_store_relaxed_64_(&table->waits_start, first->start_);
        ivs_store_relaxed_64_(&table->waits_last, table->queue->reach_);
    }
    ivs_store_relaxed_32_(&table->waits_kinds, first ? table->queue->under_ : 0);
}

static struct ivs_range **ivs_queue_place_(struct ivs_ranges_ *table, const struct ivs_range *at) {
    if (!at->up_) return &table->queue;
    return at->up_->left_ == at ? &at->up_->left_ : &at->up_->right_;
}

static void ivs_queue_rotate_(struct ivs_ranges_ *table, struct ivs_range *at) {
    struct ivs_range *up = at->up_, *middle = up->left_ == at ? at->right_ : at->left_;
    *ivs_queue_place_(table, up) = at;
    at->up_ = up->up_;
    if (up->left_ == at) {
        up->left_ = middle;
        at->right_ = up;
    } else {
        up->right_ = middle;
        at->left_ = up;
    }
    if (middle) middle->up_ = up;
    up->up_ = at;
    ivs_queue_sum_(up);
    ivs_queue_sum_(at);
}

static ivs_u64_ ivs_queue_weight_(const struct ivs_range *range) { return ivs_mix_(range->ticket_); }

/* Equal starts: who came later is further right. */
static void ivs_queue_insert_(struct ivs_ranges_ *table, struct ivs_range *range) {
    struct ivs_range **at = &table->queue;
    range->left_ = range->right_ = range->up_ = NULL;
    while (*at) {
        range->up_ = *at;
        at = range->start_ < (*at)->start_ ? &(*at)->left_ : &(*at)->right_;
    }
    *at = range;
    ivs_queue_sum_(range);
    while (range->up_ && ivs_queue_weight_(range->up_) < ivs_queue_weight_(range)) ivs_queue_rotate_(table, range);
    ivs_queue_sums_(table, range);
}

static void ivs_queue_remove_(struct ivs_ranges_ *table, struct ivs_range *range) {
    while (range->left_ || range->right_) {
        struct ivs_range *l = range->left_, *r = range->right_;
        ivs_queue_rotate_(table, !r || (l && ivs_queue_weight_(l) > ivs_queue_weight_(r)) ? l : r);
    }
    *ivs_queue_place_(table, range) = NULL;
    ivs_queue_sums_(table, range->up_);
}

/* Those who wait for a part of [start, last], are of one of `kinds`, came before `ticket`, and whose low_ is below
 * `low` and, with `nested`, above `above`. */
struct ivs_wanted_ {
    uint64_t start, last, ticket, low, above;
    uint32_t kinds, nested;
};

static struct ivs_wanted_ ivs_waits_in_(uint64_t start, uint64_t last, uint32_t kinds) {
    struct ivs_wanted_ w = {start, last, UINT64_MAX, UINT64_MAX, 0, kinds, 0};
    return w;
}

static bool ivs_wanted_under_(const struct ivs_wanted_ *w, const struct ivs_range *at) {
    return at && at->reach_ >= w->start && at->oldest_ < w->ticket && at->lowest_ <= w->low && (at->under_ & w->kinds);
}

static bool ivs_wanted_is_(const struct ivs_wanted_ *w, const struct ivs_range *at) {
    return ivs_meets_(w->start, w->last, at->start_, at->last_) && at->ticket_ < w->ticket && at->low_ <= w->low &&
           (at->kinds_ & w->kinds) && (!w->nested || at->low_ > w->above);
}

/* The next one, from the right to the left; `at` NULL: the first. */
static struct ivs_range *ivs_queue_next_(const struct ivs_ranges_ *table, const struct ivs_wanted_ *w,
                                         struct ivs_range *at) {
    struct ivs_range *down = at ? at->left_ : table->queue;
    for (;;) {
        if (ivs_wanted_under_(w, down)) {
            do {
                at = down;
                down = at->start_ <= w->last ? at->right_ : NULL;
            } while (ivs_wanted_under_(w, down));
        } else {
            while (at && (!at->up_ || at->up_->left_ == at)) at = at->up_; /* those above it were looked at */
            if (!at) return NULL;
            at = at->up_;
        }
        if (ivs_wanted_is_(w, at)) return at;
        down = at->left_;
    }
}

/* -------------------------------------------------------------------------------- range locks: waiting */

static void ivs_range_mark_(struct ivs_ranges_ *table, struct ivs_range *range, uint32_t state) {
    uint32_t asleep = state == IVS_RANGE_SLEEPING_ ? IVS_WAITS_ASLEEP_ : 0;
    ivs_store_relaxed_32_(&range->state_, state);
    if ((range->kinds_ & IVS_WAITS_ASLEEP_) == asleep) return;
    range->kinds_ ^= IVS_WAITS_ASLEEP_;
    ivs_queue_sums_(table, range);
}

/* Those that `range` has to stand behind [R5]. */
static struct ivs_wanted_ ivs_range_wants_(const struct ivs_range *range) {
    uint32_t kinds = range->mode_ == IVS_EXCLUSIVE ? IVS_WAITS_EXCLUSIVE_ | IVS_WAITS_SHARED_ : IVS_WAITS_EXCLUSIVE_;
    struct ivs_wanted_ w = ivs_waits_in_(range->start_, range->last_, kinds);
    w.ticket = range->ticket_;
    w.above = range->above_;
    w.nested = range->flags_ & IVS_RANGE_NESTED_;
    return w;
}

static struct ivs_range *ivs_range_ahead_(const struct ivs_ranges_ *table, const struct ivs_range *range) {
    struct ivs_wanted_ w = ivs_range_wants_(range);
    return ivs_queue_next_(table, &w, NULL);
}

/* Has a newcomer to queue? [R5] First by a look without the guard at what is said of all who wait. */
static bool ivs_barred_(struct ivs_ranges_ *table, const struct ivs_range *range) {
    uint32_t kinds = range->mode_ == IVS_EXCLUSIVE ? IVS_WAITS_VAIN_ : IVS_WAITS_EXCLUSIVE_;
    struct ivs_wanted_ w = ivs_waits_in_(range->start_, range->last_, kinds);
    bool barred;
    if (!(ivs_load_relaxed_32_(&table->waits_kinds) & kinds) ||
        !ivs_meets_(ivs_load_relaxed_64_(&table->waits_start), ivs_load_relaxed_64_(&table->waits_last), w.start,
                    w.last))
        return false;
    w.above = range->above_;
    w.nested = range->flags_ & IVS_RANGE_NESTED_;
    ivs_guard_(table);
    barred = ivs_queue_next_(table, &w, NULL) != NULL;
    ivs_unguard_(table);
    return barred;
}

static void ivs_range_link_(struct ivs_range **first, struct ivs_range *range) {
    range->prev_ = NULL;
    range->next_ = *first;
    if (*first) (*first)->prev_ = range;
    *first = range;
}

static void ivs_range_unlink_(struct ivs_range **first, struct ivs_range *range) {
    if (range->prev_) range->prev_->next_ = range->next_;
    else *first = range->next_;
    if (range->next_) range->next_->prev_ = range->prev_;
    range->next_ = range->prev_ = NULL;
}

/* Until `ahead` leaves the queue. */
static void ivs_range_stand_(struct ivs_ranges_ *table, struct ivs_range *range, struct ivs_range *ahead) {
    range->behind_ = ahead;
    ivs_range_link_(&ahead->train_, range);
    ivs_range_mark_(table, range, IVS_RANGE_BEHIND_);
}

/* WAIT is set on the piece at `key`, if it is in the way; from then on the request sleeps for it [R3]. */
static bool ivs_range_sleeps_(struct ivs_ranges_ *table, struct ivs_range *range, uint64_t key) {
    struct ivs_node *node;
    bool held = false;
    ivs_domain_read_enter(table->domain);
    node = ivs_map_query_rcu(&table->map, key);
    if (node && ivs_meets_(node->start, node->last, range->start_, range->last_)) {
        ivs_u64_ state = ivs_load_acquire_64_(&ivs_piece_of_(node)->state); /* [P18] */
        while (!held && !(state & IVS_PIECE_DEAD_) && ivs_piece_conflicts_(state, range->mode_))
            held = ivs_cas_acq_rel_64_(&ivs_piece_of_(node)->state, &state, state | IVS_PIECE_WAIT_); /* [P18] */
        range->by_start_ = node->start;
        range->by_last_ = node->last;
    }
    ivs_domain_read_exit(table->domain);
    if (held) ivs_range_mark_(table, range, IVS_RANGE_SLEEPING_);
    return held;
}

/* It may try. A sleeper is woken under the guard, which it takes before it leaves: so its handle is there. An
 * asynchronous one comes before those in `roused`. */
static void ivs_range_rouse_(struct ivs_ranges_ *table, struct ivs_range *range, struct ivs_range **roused) {
    range->flags_ |= IVS_RANGE_WOKEN_;
    table->wakes++;
    ivs_range_mark_(table, range, IVS_RANGE_AWAKE_); /* its next try acquires [P18] */
    if (range->flags_ & IVS_RANGE_ASYNC_) {
        range->chain_ = *roused;
        *roused = range;
    } else {
        IVSKIP_HOST_WAKE(&range->state_);
    }
}

/* These are answered after those that were roused before. */
static void ivs_ranges_roused_(struct ivs_ranges_ *table, struct ivs_range *roused) {
    if (!roused) return;
    *(table->run ? &table->run_last->chain_ : &table->run) = roused;
    while (roused->chain_) roused = roused->chain_;
    table->run_last = roused;
}

/* [start, last] was let go (held_shared: shared holders stay): those who slept for it may try. They conflict with none
 * who came before, so with none of each other, but for nested ones. */
static void ivs_range_pass_(struct ivs_ranges_ *table, uint64_t start, uint64_t last, bool held_shared) {
    struct ivs_wanted_ w = ivs_waits_in_(start, last, IVS_WAITS_ASLEEP_);
    struct ivs_range *range = NULL, *roused = NULL;
    while ((range = ivs_queue_next_(table, &w, range)) != NULL)
        if (ivs_meets_(range->by_start_, range->by_last_, start, last) &&
            !(held_shared && range->mode_ == IVS_EXCLUSIVE))
            ivs_range_rouse_(table, range, &roused);
    ivs_ranges_roused_(table, roused);
}

/* With the kind of one that tries: `state` is AWAKE or TRYING. */
static void ivs_range_enqueue_(struct ivs_ranges_ *table, struct ivs_range *range, uint32_t state) {
    struct ivs_wanted_ w = ivs_waits_in_(range->start_, range->last_, UINT32_MAX);
    struct ivs_range *other = NULL;
    ivs_guard_(table);
    range->vain_ = 0;
    range->train_ = range->behind_ = range->next_ = range->prev_ = NULL;
    range->kinds_ = range->mode_ == IVS_EXCLUSIVE ? IVS_WAITS_EXCLUSIVE_ : IVS_WAITS_SHARED_;
    range->ticket_ = ++table->waits;
    range->low_ = range->start_;
    while (range->low_ && (w.low = range->low_ - 1, other = ivs_queue_next_(table, &w, other)) != NULL)
        range->low_ = other->low_;
    range->since_ = IVSKIP_HOST_NOW();
    ivs_queue_insert_(table, range);
    ivs_range_mark_(table, range, state);
    ivs_unguard_(table);
}

/* Leaves the queue; guard held. Those who stood behind it stand behind another, sleep for what it took, or may try. */
static void ivs_range_dequeue_(struct ivs_ranges_ *table, struct ivs_range *range, bool got) {
    uint64_t waited = IVSKIP_HOST_NOW() - range->since_;
    struct ivs_range *other, *ahead, *roused = NULL;
    if (range->behind_) ivs_range_unlink_(&range->behind_->train_, range);
    range->behind_ = NULL;
    ivs_queue_remove_(table, range);
    ivs_store_relaxed_32_(&range->state_, 0);
    if (!got) range->lock = NULL;
    if (waited > table->longest) table->longest = waited;
    while ((other = range->train_) != NULL) {
        ivs_range_unlink_(&range->train_, other);
        other->behind_ = NULL;
        ahead = ivs_range_ahead_(table, other);
        if (ahead) ivs_range_stand_(table, other, ahead);
        else if (!got ||
                 !ivs_range_sleeps_(table, other, other->start_ > range->start_ ? other->start_ : range->start_))
            ivs_range_rouse_(table, other, &roused);
    }
    ivs_ranges_roused_(table, roused);
}

#if IVS_RANGE_TRACK_
static void ivs_range_track_(struct ivs_ranges_ *table, struct ivs_range *range, bool held) {
    ivs_guard_(table);
    if (held) ivs_range_link_(&table->holders, range);
    else ivs_range_unlink_(&table->holders, range);
    ivs_unguard_(table);
}

/* In a search for a cycle: `via` is what `range` would wait for at first, on the way to `who`. */
static void ivs_cycle_reach_(const struct ivs_ranges_ *table, struct ivs_range *who, uint64_t start, uint64_t end) {
    if (who->mark_ == table->search || (who->flags_ & IVS_RANGE_TIMED_)) return;
    who->mark_ = table->search;
    who->other_start = start;
    who->other_end = end;
    who->expand_ = 1;
}

/* What `at` waits for: those ahead of it, and all that holders in its way wait for. True: one of those is `owner`. */
static bool ivs_cycle_step_(struct ivs_ranges_ *table, struct ivs_range *at, const struct ivs_range *range) {
    struct ivs_wanted_ all = ivs_waits_in_(0, UINT64_MAX, UINT32_MAX), ahead = ivs_range_wants_(at);
    struct ivs_range *first = NULL;
    for (struct ivs_range *held = table->holders; held; held = held->next_) {
        uint64_t start = at == range ? held->start_ : at->other_start;
        uint64_t end = at == range ? held->last_ + 1 : at->other_end;
        struct ivs_range *other = NULL;
        if (!ivs_range_clash_(held, at) || held->holder_ == 0) continue;
        if ((held->flags_ & IVS_RANGE_ASYNC_) && !held->owner) continue; /* any thread may release it */
        if (held->holder_ == range->holder_) {
            at->other_start = start;
            at->other_end = end;
            return true;
        }
        while ((other = ivs_queue_next_(table, &all, other)) != NULL)
            if (other->holder_ == held->holder_ && other != range && !(other->flags_ & IVS_RANGE_ASYNC_) &&
                (other->behind_ || (other->kinds_ & IVS_WAITS_ASLEEP_)))
                ivs_cycle_reach_(table, other, start, end);
    }
    while ((first = ivs_queue_next_(table, &ahead, first)) != NULL)
        ivs_cycle_reach_(table, first, at == range ? first->start_ : at->other_start,
                         at == range ? first->last_ + 1 : at->other_end);
    return false;
}

/* Guard held: would `range`, if it waited, wait for its own owner? other_start, other_end: what is in the way. */
static bool ivs_range_cycle_(struct ivs_ranges_ *table, struct ivs_range *range) {
    struct ivs_wanted_ all = ivs_waits_in_(0, UINT64_MAX, UINT32_MAX);
    struct ivs_range *at = range;
    if (range->flags_ & (IVS_RANGE_ASYNC_ | IVS_RANGE_TIMED_))
        return false; /* it does not wait for ever, or not here */
    table->search++;
    range->mark_ = table->search;
    while (at) {
        struct ivs_range *other = NULL;
        if (ivs_cycle_step_(table, at, range)) {
            range->other_start = at->other_start;
            range->other_end = at->other_end;
            return true;
        }
        at->expand_ = 0;
        for (at = NULL; !at && (other = ivs_queue_next_(table, &all, other)) != NULL;)
            if (other->mark_ == table->search && other->expand_) at = other;
    }
    return false;
}
#else
#define ivs_range_track_(table, range, held) ((void)0)
#endif

/* One who tried in vain, because of the piece at `key`: waits from now on (0), may try again (IVS_AGAIN_), or would
 * wait for itself (-EDEADLK). */
static int ivs_range_block_(struct ivs_ranges_ *table, struct ivs_range *range, uint64_t key) {
    struct ivs_range *ahead;
    bool held = false;
    int r = IVS_AGAIN_;
    ivs_guard_(table);
    ahead = ivs_range_ahead_(table, range);
    if (ahead) ivs_range_stand_(table, range, ahead);
    else held = ivs_range_sleeps_(table, range, key);
    if (ahead || held) {
        r = 0;
        if (range->flags_ & IVS_RANGE_WOKEN_) {
            table->false_wakes++;
            range->vain_++;
            range->flags_ &= ~(uint32_t)IVS_RANGE_WOKEN_;
            range->kinds_ |= IVS_WAITS_VAIN_;
            ivs_queue_sums_(table, range);
        }
#if IVS_RANGE_TRACK_
        if (ivs_range_cycle_(table, range)) r = IVS_EDEADLK;
#endif
    }
    ivs_unguard_(table);
    return r;
}

/* -------------------------------------------------------------------------------- range locks: taking pieces */

/* Nodes prepared for an update, and room for the run. */
struct ivs_spares_ {
    struct ivs_node *first, **run, *few[8];
    size_t count, room;
    bool lender; /* a piece in a caller's storage is replaced [R7] */
};

static void ivs_spares_run_free_(struct ivs_domain *domain, struct ivs_spares_ *spares) {
    if (spares->room == 0) return;
    if (domain->ops_ && domain->ops_->free)
        domain->ops_->free(domain->ctx_, spares->run, spares->room * sizeof(*spares->run));
    else IVSKIP_HOST_FREE(spares->run);
    spares->room = 0;
}

static struct ivs_node *ivs_piece_at_(struct ivs_ranges_ *table, struct ivs_range *range);

static bool ivs_spares_fill_(struct ivs_ranges_ *table, struct ivs_range *range, struct ivs_spares_ *spares,
                             size_t count) {
    struct ivs_domain *domain = table->domain;
    if (count > 1 && spares->first && spares->first->foreign_) { /* the only one; for a piece that is just the range */
        spares->first = NULL;
        spares->count = 0;
    }
    for (; spares->count < count; spares->count++) {
        struct ivs_node *node = ivs_node_new(domain, 0, 1, NULL, IVS_SLEEP);
        if (!node && count == 1) node = ivs_piece_at_(table, range);
        if (!node) return false;
        node->chain_ = (uintptr_t)spares->first;
        spares->first = node;
    }
    if (!spares->run) spares->run = spares->few;
    if (count > sizeof(spares->few) / sizeof(spares->few[0]) && count > spares->room) {
        ivs_spares_run_free_(domain, spares);
        spares->run = (struct ivs_node **)ivs_memory_(domain, count * sizeof(*spares->run), IVS_SLEEP);
        if (!spares->run) return false;
        spares->room = count;
    }
    return true;
}

static struct ivs_node *ivs_spares_take_(struct ivs_spares_ *spares, uint64_t start, uint64_t last, ivs_u64_ state) {
    struct ivs_node *node = spares->first;
    spares->first = (struct ivs_node *)node->chain_;
    spares->count--;
    node->chain_ = 0;
    node->start = start;
    node->last = last;
    ivs_store_relaxed_64_(&ivs_piece_of_(node)->state, state);
    ivs_store_relaxed_64_(&ivs_piece_of_(node)->grants, 0);
    return node;
}

static void ivs_spares_free_(struct ivs_domain *domain, struct ivs_spares_ *spares) {
    for (struct ivs_node *node = spares->first, *next; node; node = next) {
        next = (struct ivs_node *)node->chain_;
        (void)ivs_node_discard(domain, node);
    }
    ivs_spares_run_free_(domain, spares);
}

/* What a holder adds to a piece that is just its range. */
static inline ivs_u64_ ivs_piece_held_(const struct ivs_range *range) {
    return range->mode_ == IVS_EXCLUSIVE ? IVS_PIECE_EXCLUSIVE_ : IVS_PIECE_WHOLE_;
}

/* What a shared holder has in a piece of its range. */
static inline ivs_u64_ ivs_piece_share_(const struct ivs_range *range, uint64_t start, uint64_t last) {
    return IVS_PIECE_SHARED_ + (start == range->start_ ? IVS_PIECE_BEGIN_ : 0) +
           (last == range->last_ ? IVS_PIECE_END_ : 0);
}

/* Where a piece that is in the way meets the range. */
static inline uint64_t ivs_piece_key_(const struct ivs_node *node, const struct ivs_range *range) {
    return node->start > range->start_ ? node->start : range->start_;
}

/* One's own exclusive piece: nobody else counts there. */
static void ivs_piece_own_(struct ivs_range *range, struct ivs_node *node, ivs_u64_ grants) {
    struct ivs_piece_ *piece = ivs_piece_of_(node);
    ivs_store_relaxed_64_(&piece->owner, range->holder_);
    ivs_store_relaxed_64_(&piece->grants, ivs_load_relaxed_64_(&piece->grants) + grants);
    range->node_ = node;
}

/* Takes a piece that has just the bounds of the range, by one CAS [R1]. */
static int ivs_piece_join_(struct ivs_ranges_ *table, struct ivs_node *node, struct ivs_range *range, uint64_t *key) {
    struct ivs_piece_ *piece = ivs_piece_of_(node);
    ivs_u64_ state = ivs_load_acquire_64_(&piece->state); /* [P18] */
    do {
        if (state & IVS_PIECE_DEAD_) return IVS_EEXIST;
        if (ivs_piece_conflicts_(state, range->mode_)) {
            *key = range->start_;
            return IVS_EBUSY;
        }
        if (node->foreign_) return IVS_EEXIST; /* it leaves with its holder [R7] */
    } while (!ivs_cas_acq_rel_64_(&piece->state, &state, state + ivs_piece_held_(range))); /* [P18] */
    if (range->mode_ == IVS_EXCLUSIVE) ivs_piece_own_(range, node, 1);
    else ivs_granted_(table, 1);
    return 0;
}

/* A piece for the whole range, taken. */
static struct ivs_node *ivs_piece_dress_(struct ivs_range *range, struct ivs_node *node) {
    if (!node) return NULL;
    node->start = range->start_;
    node->last = range->last_;
    ivs_store_relaxed_64_(&ivs_piece_of_(node)->state, ivs_piece_held_(range));
    ivs_store_relaxed_64_(&ivs_piece_of_(node)->grants, 0);
    return node;
}

/* In the caller's storage, if there is some that was not used yet [R7]. */
static struct ivs_node *ivs_piece_at_(struct ivs_ranges_ *table, struct ivs_range *range) {
    if (!range->storage || range->borrowed) return NULL;
    return ivs_node_init_at(table->domain, range->storage, 1, 0, 1, NULL);
}

static void ivs_piece_lent_(struct ivs_ranges_ *table, struct ivs_range *range) {
    range->borrowed = 1;
    ivs_store_relaxed_32_(&table->lent, 1);
}

/* It is in the map; if it is shared, others may have replaced it by now. */
static void ivs_piece_taken_(struct ivs_ranges_ *table, struct ivs_range *range, struct ivs_node *node, bool lent) {
    if (lent) ivs_piece_lent_(table, range);
    if (range->mode_ == IVS_EXCLUSIVE) ivs_piece_own_(range, node, 1);
    else ivs_granted_(table, 1);
}

/* Taken (0), -EBUSY, -ENOENT: it lies in a gap, but somebody is at work there, -EEXIST: cuts pieces, or covers several.
 * *fresh: a piece for the range, if one was prepared and not needed; *made: it was needed. */
static int ivs_range_look_(struct ivs_ranges_ *table, struct ivs_range *range, struct ivs_node **fresh, bool *made,
                           uint64_t *key) {
    struct ivs_node *before, *node;
    uintptr_t word;
    int r = IVS_ENOENT;
    ivs_domain_read_enter(table->domain);
    before = ivs_search_before_(&table->map, range->start_, &word);
    node = ivs_ptr_(word);
    if (!node || node->start > range->last_) {
        if (!*fresh && (IVS_MALLOC_WHILE_HELD_ || (table->domain->ops_ && table->domain->ops_->alloc)))
            *fresh = ivs_piece_dress_(range, ivs_node_new(table->domain, 0, 1, NULL, IVS_NOSLEEP));
        if (*fresh && !(word & IVS_FLAGS_)) {
            bool lent = (*fresh)->foreign_;
            if (ivs_insert_at_(&table->map, before, &word, *fresh)) { /* exactly [I1] */
                ivs_piece_taken_(table, range, *fresh, lent);
                *fresh = NULL;
                *made = true;
                r = 0;
            }
        }
    } else if (node->start == range->start_ && node->last == range->last_) {
        r = ivs_piece_join_(table, node, range, key);
    } else {
        ivs_u64_ state = ivs_load_acquire_64_(&ivs_piece_of_(node)->state); /* [P18] */
        r = IVS_EEXIST;
        if (!(state & IVS_PIECE_DEAD_) && ivs_piece_conflicts_(state, range->mode_)) {
            *key = ivs_piece_key_(node, range);
            r = IVS_EBUSY;
        }
    }
    ivs_domain_read_exit(table->domain);
    return r;
}

/* Locked nodes: those before `end` may be taken again. */
static void ivs_pieces_thaw_(const struct ivs_lock *lock, const struct ivs_node *end) {
    for (struct ivs_node *node = ivs_lock_first(lock); node && node != end; node = ivs_lock_next(lock, node))
        (void)ivs_and_release_64_(&ivs_piece_of_(node)->state, ~IVS_PIECE_DEAD_); /* [P18] */
}

/* Locked nodes: none can be taken or let go by a CAS any more, if none conflicts. `upgrade`: each must have
 * one holder, who is ours. [R1] */
static int ivs_pieces_freeze_(const struct ivs_lock *lock, const struct ivs_range *range, bool upgrade, uint64_t *key) {
    for (struct ivs_node *node = ivs_lock_first(lock); node; node = ivs_lock_next(lock, node)) {
        struct ivs_piece_ *piece = ivs_piece_of_(node);
        ivs_u64_ state = ivs_load_acquire_64_(&piece->state); /* [P18] */
        do {
            if (upgrade ? (state & IVS_PIECE_COUNT_) != IVS_PIECE_SHARED_ : ivs_piece_conflicts_(state, range->mode_)) {
                *key = ivs_piece_key_(node, range);
                ivs_pieces_thaw_(lock, node);
                return IVS_EBUSY;
            }
        } while (!ivs_cas_acq_rel_64_(&piece->state, &state, state | IVS_PIECE_DEAD_)); /* [P18] */
    }
    return 0;
}

/* Are two neighbours held by the same? Nobody ends at the one or begins at the other, so whoever holds the first holds
 * the second; who leaves goes from left to right, so while one is amid it the counts differ. [R2] */
static bool ivs_pieces_are_one_(ivs_u64_ a, ivs_u64_ b) {
    return (a & IVS_PIECE_COUNT_) && (a & IVS_PIECE_COUNT_) == (b & IVS_PIECE_COUNT_) && !(a & IVS_PIECE_ENDS_) &&
           !(b & IVS_PIECE_BEGINS_);
}

/* The run that is made for frozen pieces; spares NULL: only counted. */
struct ivs_pieces_ {
    struct ivs_spares_ *spares;
    size_t n;
    uint64_t last;  /* of the one that was added before */
    ivs_u64_ state; /* likewise */
};

/* One piece more. If nobody begins or ends between it and the one before it, they are held by the same, and are one. */
static void ivs_pieces_add_(struct ivs_pieces_ *run, uint64_t start, uint64_t last, ivs_u64_ state) {
    bool joins = run->n && run->last + 1 == start && ivs_pieces_are_one_(run->state, state);
    if (joins) state = run->state | (state & (IVS_PIECE_ENDS_ | IVS_PIECE_WAIT_));
    run->last = last;
    run->state = state;
    run->n += !joins;
    if (run->spares && joins) {
        struct ivs_node *node = run->spares->run[run->n - 1];
        node->last = last;
        ivs_store_relaxed_64_(&ivs_piece_of_(node)->state, state);
    } else if (run->spares) {
        run->spares->run[run->n - 1] = ivs_spares_take_(run->spares, start, last, state);
    }
}

/* What stands in the place of frozen pieces once the range is taken: how many, and, with spares, they. Pieces that
 * nobody held are gaps now. [R2] */
static size_t ivs_pieces_cut_(const struct ivs_lock *lock, const struct ivs_range *range, struct ivs_spares_ *spares) {
    const ivs_u64_ begins = IVS_PIECE_BEGINS_, ends = IVS_PIECE_ENDS_;
    struct ivs_pieces_ run = {spares, 0, 0, 0};
    uint64_t at = range->start_;
    bool over = false; /* the range ends with a piece */
    ivs_u64_ wait = 0;
    for (struct ivs_node *node = ivs_lock_first(lock); node; node = ivs_lock_next(lock, node)) {
        ivs_u64_ state = ivs_load_relaxed_64_(&ivs_piece_of_(node)->state) & ~(IVS_PIECE_DEAD_ | IVS_PIECE_KEPT_);
        uint64_t first = node->start > at ? node->start : at;
        uint64_t last = node->last < range->last_ ? node->last : range->last_;
        ivs_u64_ inner = state;
        wait |= state & IVS_PIECE_WAIT_;
        if (!(state & IVS_PIECE_COUNT_) || range->mode_ == IVS_EXCLUSIVE) continue;
        if (node->start < first) ivs_pieces_add_(&run, node->start, first - 1, state & ~ends);
        if (node->start < first) inner &= ~begins;
        if (node->last > last) inner &= ~ends;
        if (node->start > at) ivs_pieces_add_(&run, at, node->start - 1, ivs_piece_share_(range, at, node->start - 1));
        ivs_pieces_add_(&run, first, last, inner + ivs_piece_share_(range, first, last));
        if (node->last > last) ivs_pieces_add_(&run, last + 1, node->last, state & ~begins);
        over = last == range->last_;
        at = last + 1;
    }
    if (!over && range->mode_ == IVS_EXCLUSIVE) ivs_pieces_add_(&run, at, range->last_, IVS_PIECE_EXCLUSIVE_ | wait);
    else if (!over) ivs_pieces_add_(&run, at, range->last_, ivs_piece_share_(range, at, range->last_) | wait);
    return run.n;
}

/* The acquisitions that frozen pieces count are counted elsewhere, for the pieces go. */
static void ivs_pieces_gone_(struct ivs_ranges_ *table, const struct ivs_lock *lock) {
    uint64_t granted = 0, kept = 0;
    for (struct ivs_node *node = ivs_lock_first(lock); node; node = ivs_lock_next(lock, node)) {
        granted += ivs_load_relaxed_64_(&ivs_piece_of_(node)->grants);
        kept += (ivs_load_relaxed_64_(&ivs_piece_of_(node)->state) & IVS_PIECE_KEPT_) != 0;
    }
    if (granted) ivs_granted_(table, granted);
    if (kept) (void)ivs_add_relaxed_64_(&table->kept, 0 - kept);
}

/* Under the level-0 locks: the pieces that the range meets are replaced by such that give it its own [R2]. 0, -EBUSY,
 * IVS_AGAIN_: *need spares. */
static int ivs_pieces_replace_(struct ivs_ranges_ *table, struct ivs_lock *lock, struct ivs_range *range, bool upgrade,
                               struct ivs_spares_ *spares, size_t *need, uint64_t *key) {
    bool shared = false;
    size_t n;
    int r = ivs_pieces_freeze_(lock, range, upgrade, key);
    if (r) return r;
    n = ivs_pieces_cut_(lock, range, NULL);
    if (n > spares->count) {
        ivs_pieces_thaw_(lock, NULL);
        *need = n;
        return IVS_AGAIN_;
    }
    for (struct ivs_node *node = ivs_lock_first(lock); node; node = ivs_lock_next(lock, node)) {
        spares->lender |= node->foreign_;
        shared |= (ivs_load_relaxed_64_(&ivs_piece_of_(node)->state) & IVS_PIECE_COUNT_) != 0;
    }
    if (spares->first->foreign_ && shared) { /* it would have more than one holder [R7] */
        spares->lender = false;
        ivs_pieces_thaw_(lock, NULL);
        return IVS_ENOMEM;
    }
    (void)ivs_pieces_cut_(lock, range, spares);
    ivs_pieces_gone_(table, lock);
    if (spares->lender) (void)ivs_add_relaxed_32_(&table->lenders, 1); /* before the holder can see that it is gone */
    if (spares->run[0]->foreign_) ivs_piece_lent_(table, range);
    if (range->mode_ == IVS_EXCLUSIVE) ivs_piece_own_(range, spares->run[0], !upgrade);
    else ivs_granted_(table, 1);
    ivs_swap_(lock, spares->run, n);
    return 0;
}

/* Whatever is there. `upgrade`: shared pieces of one's own become an exclusive one. */
static int ivs_range_rebuild_(struct ivs_ranges_ *table, struct ivs_range *range, bool upgrade,
                              struct ivs_spares_ *spares, uint64_t *key) {
    struct ivs_lock lock;
    size_t need = 1;
    int r;
    do {
        if (!ivs_spares_fill_(table, range, spares, need)) return IVS_ENOMEM;
        r = ivs_lock_range_(&table->map, range->start_, range->last_, IVS_FOREVER_, &lock);
        if (r) return r;
        r = ivs_pieces_replace_(table, &lock, range, upgrade, spares, &need, key);
        (void)ivs_map_unlock(&lock);
    } while (r == IVS_AGAIN_);
    if (spares->lender) (void)ivs_add_release_32_(&table->lenders, (uint32_t)-1); /* [P20] retired by now */
    return r;
}

/* Removes a piece, if nobody holds it and nobody is at work there. */
static void ivs_piece_drop_(struct ivs_ranges_ *table, uint64_t start, uint64_t last) {
    struct ivs_range all = IVS_RANGE_INIT;
    struct ivs_lock lock;
    struct ivs_node *node;
    uint64_t key;
    all.mode_ = IVS_EXCLUSIVE;
    if (ivs_lock_range_(&table->map, start, last, 0, &lock)) return;
    node = ivs_lock_first(&lock);
    if (lock.count == 1 && node->start == start && node->last == last &&
        ivs_pieces_freeze_(&lock, &all, false, &key) == 0) {
        ivs_pieces_gone_(table, &lock);
        ivs_swap_(&lock, NULL, 0);
    }
    (void)ivs_map_unlock(&lock);
}

/* Joins a piece and its neighbour, if they are held by the same and nobody is at work there. */
static void ivs_piece_mend_(struct ivs_ranges_ *table, uint64_t start, uint64_t last) {
    struct ivs_node *node = ivs_node_new(table->domain, 0, 1, NULL, IVS_SLEEP), *a, *b;
    struct ivs_range none = IVS_RANGE_INIT;
    struct ivs_lock lock;
    uint64_t key;
    if (!node) return;
    if (ivs_lock_range_(&table->map, start, last, 0, &lock) == 0) {
        a = ivs_lock_first(&lock);
        b = lock.count == 2 ? ivs_lock_next(&lock, a) : NULL;
        none.mode_ = IVS_SHARED;
        if (b && a->start == start && b->last == last && a->last + 1 == b->start &&
            ivs_pieces_freeze_(&lock, &none, false, &key) == 0) {
            ivs_u64_ left = ivs_load_relaxed_64_(&ivs_piece_of_(a)->state);
            ivs_u64_ right = ivs_load_relaxed_64_(&ivs_piece_of_(b)->state);
            if (ivs_pieces_are_one_(left, right)) {
                node->start = start;
                node->last = last;
                ivs_store_relaxed_64_(&ivs_piece_of_(node)->grants, 0);
                ivs_store_relaxed_64_(&ivs_piece_of_(node)->state, (left & ~(IVS_PIECE_DEAD_ | IVS_PIECE_KEPT_)) |
                                                                       (right & (IVS_PIECE_ENDS_ | IVS_PIECE_WAIT_)));
                ivs_pieces_gone_(table, &lock);
                ivs_swap_(&lock, &node, 1);
                node = NULL;
            } else {
                ivs_pieces_thaw_(&lock, NULL);
            }
        }
        (void)ivs_map_unlock(&lock);
    }
    (void)ivs_node_discard(table->domain, node);
}

/*
 * A new piece stays after its first release while few are kept or somebody waited for it, and else with probability
 * 1/8; who adds a piece looks, with the same probability, or always where it cuts, at sixteen. Of these, up to twelve
 * (where it cuts: four) that nobody holds are removed, or joined with their neighbour: more than come. So what is used
 * again is soon found, what never comes again is not in the way, and a long shared range, into which short ones cut, is
 * not in pieces for ever.
 */
static bool ivs_piece_keep_(struct ivs_ranges_ *table) {
    return ivs_load_relaxed_64_(&table->kept) < IVS_RANGE_CACHE_ || (ivs_random_(table->domain) >> 20) % 8 == 0;
}

static void ivs_ranges_trim_(struct ivs_ranges_ *table, int most) {
    struct {
        uint64_t start, last;
        bool held;
    } found[12];
    uint64_t hand = ivs_load_relaxed_64_(&table->hand);
    bool full = ivs_load_relaxed_64_(&table->kept) >= IVS_RANGE_CACHE_;
    struct ivs_node *node, *next;
    int n = 0;
    ivs_domain_read_enter(table->domain);
    node = ivs_map_query_next_rcu(&table->map, hand);
    for (int i = 0; i < 16 && n < most; i++, node = next) {
        ivs_u64_ state;
        hand = node ? node->last + 1 : 0;
        if (!node) break;
        next = ivs_map_next_rcu(&table->map, node);
        state = ivs_load_relaxed_64_(&ivs_piece_of_(node)->state);
        found[n].start = node->start;
        found[n].last = node->last;
        found[n].held = ivs_piece_conflicts_(state, IVS_EXCLUSIVE);
        if (!found[n].held) {
            n += full;
        } else if (next && node->last + 1 == next->start &&
                   ivs_pieces_are_one_(state, ivs_load_relaxed_64_(&ivs_piece_of_(next)->state))) {
            hand = node->start; /* the whole may be joined with what comes next */
            found[n++].last = next->last;
            next = ivs_map_next_rcu(&table->map, next);
        }
    }
    ivs_domain_read_exit(table->domain);
    ivs_store_relaxed_64_(&table->hand, hand);
    while (n--) {
        if (found[n].held) ivs_piece_mend_(table, found[n].start, found[n].last);
        else ivs_piece_drop_(table, found[n].start, found[n].last);
    }
}

/* Takes the range, or says where something is in the way; waits for no holder. */
static int ivs_range_try_(struct ivs_ranges_ *table, struct ivs_range *range, uint64_t *key) {
    struct ivs_node *fresh = NULL;
    bool made = false, lent;
    int r;
    while ((r = ivs_range_look_(table, range, &fresh, &made, key)) == IVS_ENOENT) {
        if (!fresh) fresh = ivs_piece_dress_(range, ivs_node_new(table->domain, 0, 1, NULL, IVS_SLEEP));
        if (!fresh) fresh = ivs_piece_dress_(range, ivs_piece_at_(table, range));
        lent = fresh && fresh->foreign_;
        r = fresh ? ivs_map_insert_node(&table->map, fresh) : IVS_ENOMEM;
        if (r == IVS_EEXIST) continue;
        if (r == 0) {
            ivs_piece_taken_(table, range, fresh, lent);
            fresh = NULL;
            made = true;
        }
        break;
    }
    if (fresh) (void)ivs_node_discard(table->domain, fresh);
    if (r == IVS_EEXIST) {
        struct ivs_spares_ spares;
        __builtin_memset(&spares, 0, sizeof(spares));
        r = ivs_range_rebuild_(table, range, false, &spares, key);
        ivs_spares_free_(table->domain, &spares);
        made = true;
    }
    if (r == 0 && made) {
        if (range->mode_ != IVS_EXCLUSIVE) ivs_ranges_trim_(table, 4);
        else if ((ivs_random_(table->domain) >> 20) % 8 == 0) ivs_ranges_trim_(table, 12);
    }
    return r;
}

/* -------------------------------------------------------------------------------- range locks: letting go */

static void ivs_range_answer_(struct ivs_ranges_ *table, struct ivs_range *range);

/* Guard held, as before and after: asynchronous requests that were roused are answered, by one thread at a time, and
 * one after the other: a callback that lets ranges go leaves what it rouses to those above it. */
static void ivs_ranges_run_(struct ivs_ranges_ *table) {
    if (table->running) return;
    table->running = true;
    table->runner = ivs_thread_id_();
    while (table->run) {
        struct ivs_range *range = table->run;
        table->run = range->chain_;
        ivs_range_mark_(table, range, IVS_RANGE_TRYING_);
        ivs_unguard_(table);
        ivs_range_answer_(table, range);
        ivs_guard_(table);
    }
    table->running = false;
}

static void ivs_range_answer_(struct ivs_ranges_ *table, struct ivs_range *range) {
    uint64_t key = 0;
    int r;
    do {
        r = ivs_range_try_(table, range, &key);
        if (r == IVS_EBUSY) r = ivs_range_block_(table, range, key);
        else break;
        if (r == 0) return;
    } while (r == IVS_AGAIN_);
    ivs_guard_(table);
    ivs_range_dequeue_(table, range, r == 0);
    ivs_unguard_(table);
    if (r == 0) ivs_range_track_(table, range, true);
    range->done_(range, r);
}

/* [R6] around a release with a pass. */
static void ivs_waker_begin_(struct ivs_ranges_ *table) { (void)ivs_add_relaxed_32_(&table->wakers, 1); }

static void ivs_waker_end_(struct ivs_ranges_ *table) {
    (void)ivs_add_release_32_(&table->wakers, (uint32_t)-1); /* [P20] */
}

static void ivs_waker_pass_(struct ivs_ranges_ *table, uint64_t start, uint64_t last, bool held_shared) {
    ivs_guard_(table);
    ivs_range_pass_(table, start, last, held_shared);
    ivs_ranges_run_(table);
    ivs_unguard_(table);
    ivs_waker_end_(table);
}

/* Removes the one piece of a range with its last holder. False: it is not just that, or somebody is at work there or
 * waits. The read section keeps the table there [R6]. */
static bool ivs_piece_quit_(struct ivs_ranges_ *table, const struct ivs_range *range) {
    struct ivs_lock lock;
    struct ivs_node *node;
    bool done = false;
    ivs_domain_read_enter(table->domain);
    if (ivs_lock_range_(&table->map, range->start_, range->last_, 0, &lock) == 0) {
        node = ivs_lock_first(&lock);
        if (lock.count == 1 && node->start == range->start_ && node->last == range->last_) {
            struct ivs_piece_ *piece = ivs_piece_of_(node);
            ivs_u64_ state = ivs_piece_held_(range), grants = ivs_load_relaxed_64_(&piece->grants);
            done = ivs_cas_acq_rel_64_(&piece->state, &state, IVS_PIECE_DEAD_); /* [P18] */
            if (done && grants) ivs_granted_(table, grants);
            if (done) ivs_swap_(&lock, NULL, 0);
        }
        (void)ivs_map_unlock(&lock);
    }
    ivs_domain_read_exit(table->domain);
    return done;
}

/* The piece in the caller's storage is removed with its holder, the only one it can have. False: others have cut it, so
 * it is gone [R7]. */
static bool ivs_piece_return_(struct ivs_ranges_ *table, const struct ivs_range *range) {
    struct ivs_lock lock;
    struct ivs_node *node;
    ivs_u64_ state = 0;
    bool there;
    ivs_waker_begin_(table);
    (void)ivs_lock_range_(&table->map, range->start_, range->last_, IVS_FOREVER_, &lock);
    node = ivs_lock_first(&lock);
    there = lock.count == 1 && node->foreign_;
    if (there) {
        state = ivs_load_relaxed_64_(&ivs_piece_of_(node)->state);
        while (!ivs_cas_acq_rel_64_(&ivs_piece_of_(node)->state, &state, IVS_PIECE_DEAD_)) /* [P18] */
            continue;
        ivs_pieces_gone_(table, &lock);
        ivs_swap_(&lock, NULL, 0);
    }
    (void)ivs_map_unlock(&lock);
    if (state & IVS_PIECE_WAIT_) ivs_waker_pass_(table, range->start_, range->last_, false);
    else ivs_waker_end_(table);
    return there;
}

static void ivs_leave_exclusive_(struct ivs_ranges_ *table, struct ivs_range *range) {
    struct ivs_piece_ *piece = ivs_piece_of_(range->node_);
    uint64_t start = range->start_, last = range->last_;
    ivs_u64_ state = ivs_load_relaxed_64_(&piece->state);
    bool woke = false;
    if (range->node_->foreign_) {
        (void)ivs_piece_return_(table, range);
        return;
    }
    if (!(state & IVS_PIECE_KEPT_)) {
        if (!(state & IVS_PIECE_WAIT_) && !ivs_piece_keep_(table) && ivs_piece_quit_(table, range)) return;
        (void)ivs_add_relaxed_64_(&table->kept, 1);
    }
    do {
        if ((state & IVS_PIECE_WAIT_) && !woke) {
            ivs_waker_begin_(table);
            woke = true;
        }
    } while (!ivs_cas_acq_rel_64_(&piece->state, &state, /* [P18] */
                                  (state & ~(IVS_PIECE_EXCLUSIVE_ | IVS_PIECE_WAIT_)) | IVS_PIECE_KEPT_));
    if (woke) ivs_waker_pass_(table, start, last, false);
}

/* One shared holder less; false: DEAD, somebody cuts the piece just now. *woke: the caller must pass; *empty: nobody
 * holds it any more. */
static bool ivs_piece_leave_(struct ivs_ranges_ *table, const struct ivs_range *range, struct ivs_node *node,
                             bool *woke, bool *empty) {
    struct ivs_piece_ *piece = ivs_piece_of_(node);
    ivs_u64_ state = ivs_load_relaxed_64_(&piece->state), next;
    ivs_u64_ share = ivs_piece_share_(range, node->start, node->last);
    bool kept = false;
    *empty = false;
    do {
        if (state & IVS_PIECE_DEAD_) break;
        next = state - share;
        *empty = !(next & IVS_PIECE_COUNT_);
        if (*empty && !(next & IVS_PIECE_KEPT_)) {
            next |= IVS_PIECE_KEPT_;
            if (!kept) (void)ivs_add_relaxed_64_(&table->kept, 1);
            kept = true;
        }
        if ((next & IVS_PIECE_WAIT_) && (*empty || (state & IVS_PIECE_COUNT_) == IVS_PIECE_COUNT_)) {
            next &= ~IVS_PIECE_WAIT_;
            if (!*woke) ivs_waker_begin_(table);
            *woke = true;
        }
    } while (!ivs_cas_acq_rel_64_(&piece->state, &state, next)); /* [P18] */
    if (kept && ((state & IVS_PIECE_DEAD_) || (next & IVS_PIECE_COUNT_)))
        (void)ivs_add_relaxed_64_(&table->kept, (uint64_t)-1); /* others share it after all */
    return !(state & IVS_PIECE_DEAD_);
}

static void ivs_leave_shared_(struct ivs_ranges_ *table, struct ivs_range *range) {
    uint64_t start = range->start_, last = range->last_, at = start;
    bool woke = false, over = false, empty;
    struct ivs_lock lock;
    if (range->borrowed && ivs_piece_return_(table, range)) return;
    if (!ivs_piece_keep_(table) && ivs_piece_quit_(table, range)) return;
    ivs_domain_read_enter(table->domain);
    while (!over) {
        struct ivs_node *node = ivs_map_query_rcu(&table->map, at);
        uint64_t end;
        IVS_ASSERT_(node && node->start == at && node->last <= last);
        end = node->last; /* the node may be gone once it is let go */
        if (!ivs_piece_leave_(table, range, node, &woke, &empty)) break;
        if (empty && at != start && !ivs_piece_keep_(table)) ivs_piece_drop_(table, at, end);
        over = end == last;
        at = end + 1;
    }
    ivs_domain_read_exit(table->domain);
    if (!over) {
        if (!woke) ivs_waker_begin_(table); /* for the locks, too */
        woke = true;
        (void)ivs_lock_range_(&table->map, at, last, IVS_FOREVER_, &lock);
        for (struct ivs_node *node = ivs_lock_first(&lock); node; node = ivs_lock_next(&lock, node))
            (void)ivs_piece_leave_(table, range, node, &woke, &empty);
        (void)ivs_map_unlock(&lock);
    }
    if (woke) ivs_waker_pass_(table, start, last, false);
}

/* -------------------------------------------------------------------------------- range locks: the root */

static struct ivs_ranges_ *ivs_table_of_(uintptr_t root) {
    return (struct ivs_ranges_ *)(root & ~(uintptr_t)IVS_ROOT_TABLE_);
}

static struct ivs_ranges_ *ivs_ranges_new_(struct ivs_range_lock *lock) {
    struct ivs_map_config config;
    struct ivs_domain *domain = lock->domain_;
    struct ivs_ranges_ *table = (struct ivs_ranges_ *)(domain ? ivs_memory_(domain, sizeof(*table), IVS_SLEEP)
                                                              : IVSKIP_HOST_MALLOC(sizeof(*table)));
    if (!table) return NULL;
    __builtin_memset(table, 0, sizeof(*table));
    __builtin_memset(&config, 0, sizeof(config));
    config.domain = domain;
    config.own.payload_size = IVSKIP_RANGE_PAYLOAD;
    (void)!ivs_map_init(&table->map, &config);
    table->domain = table->map.domain_;
    return table;
}

static void ivs_ranges_free_(struct ivs_range_lock *lock, struct ivs_ranges_ *table) {
    struct ivs_domain *domain = lock->domain_;
    (void)!ivs_map_destroy(&table->map);
    if (domain && domain->ops_ && domain->ops_->free) domain->ops_->free(domain->ctx_, table, sizeof(*table));
    else IVSKIP_HOST_FREE(table);
}

/* The root is not `word` any more, or somebody changes what it leads to, for a few steps. */
static uintptr_t ivs_root_await_(struct ivs_range_lock *lock, uintptr_t word) {
    uintptr_t now;
    for (int i = 0; (now = ivs_load_acquire_word_(&lock->root_)) == word; i++) { /* [P19] */
        if (i < IVSKIP_SPIN) IVSKIP_RELAX();
        else IVSKIP_HOST_YIELD();
    }
    return now;
}

/* From now on held ranges are in a map. The one who holds the lock alone moves there: while its root says CHANGE, that
 * one cannot let go, so its handle can be read. */
static int ivs_ranges_begin_(struct ivs_range_lock *lock, uintptr_t word) {
    struct ivs_ranges_ *table;
    struct ivs_node *node = NULL;
    if (word & IVS_ROOT_TABLE_) return 0;
    /* the holder's piece could not be inserted in a read section; of a domain yet to be made none is open (BUILTIN) */
    if ((lock->domain_ || !IVS_RCU_IS_(BUILTIN)) && ivs_in_section_(lock->domain_)) return IVS_EDEADLK;
    table = ivs_ranges_new_(lock);
    if (table) {
        ivs_domain_read_enter(
            table->domain);                  /* the thread's record, which it writes to at each call, is made before, */
        ivs_domain_read_exit(table->domain); /* not right behind a node that others read */
        node = ivs_node_new(table->domain, 0, 1, NULL, IVS_SLEEP);
    }
    while (node && !(word & IVS_ROOT_TABLE_)) {
        struct ivs_range *range = (struct ivs_range *)(word & ~(uintptr_t)IVS_FLAGS_);
        if (word & IVS_ROOT_CHANGE_) {
            word = ivs_root_await_(lock, word);
        } else if (!word) {
            if (!ivs_cas_acq_rel_word_(&lock->root_, &word, (uintptr_t)table | IVS_ROOT_TABLE_)) continue; /* [P19] */
            (void)ivs_node_discard(table->domain, node);
            return 0;
        } else if (ivs_cas_acq_rel_word_(&lock->root_, &word, word | IVS_ROOT_CHANGE_)) { /* [P19] */
            ivs_piece_own_(range, ivs_piece_dress_(range, node), 0);                      /* it is counted in grants_ */
            (void)!ivs_map_insert_node(&table->map, node);
            ivs_range_track_(table, range, true);
            ivs_store_release_word_(&lock->root_, (uintptr_t)table | IVS_ROOT_TABLE_); /* [P19] */
            return 0;
        }
    }
    if (node) (void)ivs_node_discard(table->domain, node);
    if (table) ivs_ranges_free_(lock, table);
    return node ? 0 : IVS_ENOMEM;
}

/* IVS_AGAIN_: the lock was idle, and is held by this range alone; 0: *table is there. */
static int ivs_root_enter_(struct ivs_range_lock *lock, struct ivs_range *range, struct ivs_ranges_ **table) {
    uintptr_t word = ivs_load_acquire_word_(&lock->root_); /* [P19] */
    while (!(word & IVS_ROOT_TABLE_)) {
        if (word == 0) {
            if (ivs_cas_acq_rel_word_(&lock->root_, &word, (uintptr_t)range | IVS_ROOT_HANDLE_)) /* [P19] */
                return IVS_AGAIN_;
        } else {
            int r = ivs_ranges_begin_(lock, word);
            if (r) return r;
            word = ivs_load_acquire_word_(&lock->root_); /* [P19] */
        }
    }
    *table = ivs_table_of_(word);
    return 0;
}

/* The root for a holder: NULL, and `word` is its own, with CHANGE if `change`; or the table. */
static struct ivs_ranges_ *ivs_root_of_holder_(struct ivs_range_lock *lock, struct ivs_range *range, uintptr_t next) {
    uintptr_t word = ivs_load_acquire_word_(&lock->root_); /* [P19] a CAS at once would fetch the line for writing */
    (void)range;
    while (!(word & IVS_ROOT_TABLE_)) {
        IVS_ASSERT_((word & ~(uintptr_t)IVS_FLAGS_) == (uintptr_t)range);
        if (word & IVS_ROOT_CHANGE_) word = ivs_root_await_(lock, word);
        else if (ivs_cas_acq_rel_word_(&lock->root_, &word, next)) return NULL; /* [P19] */
    }
    return ivs_table_of_(word);
}

/* -------------------------------------------------------------------------------- range locks: requests */

static bool ivs_mode_is_good_(uint32_t mode) {
    return (mode & ~(uint32_t)IVS_NESTED) == IVS_SHARED || (mode & ~(uint32_t)IVS_NESTED) == IVS_EXCLUSIVE;
}

static int ivs_range_begin_(struct ivs_range_lock *lock, struct ivs_range *range, uint64_t start, uint64_t end,
                            uint32_t mode) {
    uint64_t last;
    if (!lock || !range || !ivs_mode_is_good_(mode) || !ivs_range_(start, end, &last)) return IVS_EINVAL;
    if (range->self_ == range && (range->lock || ivs_load_relaxed_32_(&range->state_))) return ivs_misuse_();
    range->start = range->start_ = start;
    range->end = end;
    range->last_ = last;
    range->lock = NULL; /* of a copy */
    range->mode = mode;
    range->mode_ = mode & ~(uint32_t)IVS_NESTED;
    range->flags_ = mode & IVS_NESTED ? IVS_RANGE_NESTED_ : 0;
    range->above_ = range->held_end ? range->held_end - (range->held_end != UINT64_MAX) : start ? start - 1 : 0;
    range->state_ = 0;
    range->self_ = range;
    range->done_ = NULL;
    range->node_ = NULL;
    range->holder_ = range->owner ? range->owner : ivs_thread_id_();
    return 0;
}

/* Once there is a table; barred newcomers have not tried. */
static int ivs_range_first_try_(struct ivs_ranges_ *table, struct ivs_range *range, uint64_t *key) {
    *key = range->start_; /* if nothing there is in the way, it tries again at once */
    return ivs_barred_(table, range) ? IVS_EBUSY : ivs_range_try_(table, range, key);
}

/* Until it may try; -ETIMEDOUT. */
static int ivs_range_sleep_(struct ivs_range *range, uint64_t deadline) {
    uint32_t state = ivs_load_relaxed_32_(&range->state_);
    for (int i = 0; i < IVSKIP_SPIN && state != IVS_RANGE_AWAKE_; i++) {
        IVSKIP_RELAX();
        state = ivs_load_relaxed_32_(&range->state_);
    }
    while (state != IVS_RANGE_AWAKE_) {
        if (deadline != IVS_FOREVER_ && IVSKIP_HOST_NOW() >= deadline) return IVS_ETIMEDOUT;
        IVS_RCU_OFFLINE_();
        IVSKIP_HOST_PARK(&range->state_, state, deadline);
        IVS_RCU_ONLINE_();
        state = ivs_load_relaxed_32_(&range->state_);
    }
    return 0;
}

/* Queues, and tries whenever it is its turn. */
static int ivs_range_wait_(struct ivs_ranges_ *table, struct ivs_range *range, uint64_t deadline, uint64_t key) {
    int r;
    ivs_range_enqueue_(table, range, IVS_RANGE_AWAKE_);
    do {
        r = ivs_range_block_(table, range, key);
        if (r == 0) r = ivs_range_sleep_(range, deadline);
        if (r < 0) break;
        r = ivs_range_try_(table, range, &key);
    } while (r == IVS_EBUSY);
    ivs_guard_(table);
    ivs_range_dequeue_(table, range, r == 0);
    ivs_ranges_run_(table);
    ivs_unguard_(table);
    return r;
}

/* deadline 0: does not wait. */
static int ivs_range_take_(struct ivs_range_lock *lock, struct ivs_range *range, uint64_t deadline) {
    struct ivs_ranges_ *table;
    uint64_t key;
    int r = ivs_root_enter_(lock, range, &table);
    if (r == IVS_AGAIN_) {
        range->lock = lock;
        ivs_store_relaxed_64_(&lock->grants_, ivs_load_relaxed_64_(&lock->grants_) + 1);
        return 0;
    }
    if (r) return r;
    if (ivs_in_section_(table->domain)) return IVS_EDEADLK;
    if (deadline != IVS_FOREVER_) range->flags_ |= IVS_RANGE_TIMED_;
    r = ivs_range_first_try_(table, range, &key);
    if (r == IVS_EBUSY && deadline) r = ivs_range_wait_(table, range, deadline, key);
    if (r) return r;
    range->lock = lock;
    ivs_range_track_(table, range, true);
    return 0;
}

int ivs_range_lock(struct ivs_range_lock *lock, struct ivs_range *range, uint64_t start, uint64_t end, unsigned mode) {
    int r = ivs_range_begin_(lock, range, start, end, mode);
    return r ? r : ivs_range_take_(lock, range, IVS_FOREVER_);
}

int ivs_range_trylock(struct ivs_range_lock *lock, struct ivs_range *range, uint64_t start, uint64_t end,
                      unsigned mode) {
    int r = ivs_range_begin_(lock, range, start, end, mode);
    return r ? r : ivs_range_take_(lock, range, 0);
}

int ivs_range_timedlock(struct ivs_range_lock *lock, struct ivs_range *range, uint64_t start, uint64_t end,
                        unsigned mode, uint64_t nanoseconds) {
    uint64_t now = IVSKIP_HOST_NOW();
    uint64_t deadline = nanoseconds < IVS_FOREVER_ - now ? now + nanoseconds : IVS_FOREVER_;
    int r = ivs_range_begin_(lock, range, start, end, mode);
    return r ? r : ivs_range_take_(lock, range, deadline ? deadline : 1);
}

int ivs_range_lock_async(struct ivs_range_lock *lock, struct ivs_range *range, uint64_t start, uint64_t end,
                         unsigned mode, void (*done)(struct ivs_range *range, int result)) {
    struct ivs_ranges_ *table;
    uint64_t key = start;
    int r = done ? ivs_range_begin_(lock, range, start, end, mode) : IVS_EINVAL;
    if (r) return r;
    range->flags_ |= IVS_RANGE_ASYNC_;
    r = ivs_range_take_(lock, range, 0);
    if (r != IVS_EBUSY) return r;
    table = ivs_table_of_(ivs_load_acquire_word_(&lock->root_)); /* [P19] */
    range->flags_ &= ~(uint32_t)IVS_RANGE_TIMED_;
    range->done_ = done;
    range->lock = lock; /* `done` may be called before the return */
    ivs_range_enqueue_(table, range, IVS_RANGE_TRYING_);
    do {
        r = ivs_range_block_(table, range, key);
        if (r == 0) return IVS_EINPROGRESS; /* the handle may be gone already */
        r = ivs_range_try_(table, range, &key);
    } while (r == IVS_EBUSY);
    ivs_guard_(table);
    ivs_range_dequeue_(table, range, r == 0);
    range->done_ = NULL;
    ivs_ranges_run_(table);
    ivs_unguard_(table);
    if (r == 0) ivs_range_track_(table, range, true);
    return r;
}

/* Guard held: one that waits to be answered leaves that list. */
static void ivs_range_unrun_(struct ivs_ranges_ *table, struct ivs_range *range) {
    struct ivs_range **at = &table->run, *before = NULL;
    for (; *at != range; at = &before->chain_) before = *at;
    *at = range->chain_;
    if (table->run_last == range) table->run_last = before;
}

/* Its callback may let it go just now: so no more is read of one that does not wait than what only a request writes. */
int ivs_range_cancel(struct ivs_range_lock *lock, struct ivs_range *range) {
    struct ivs_ranges_ *table;
    uintptr_t word;
    uint32_t state = 0;
    int r;
    if (!lock || !range) return IVS_EINVAL;
    word = ivs_load_acquire_word_(&lock->root_); /* [P19] */
    table = word & IVS_ROOT_TABLE_ ? ivs_table_of_(word) : NULL;
    if (table) ivs_guard_(table);
    while (table && (state = ivs_load_relaxed_32_(&range->state_)) == IVS_RANGE_TRYING_) { /* found out just now */
        ivs_unguard_(table);
        IVSKIP_HOST_YIELD();
        ivs_guard_(table);
    }
    r = range->self_ != range || !(range->flags_ & IVS_RANGE_ASYNC_) || (state && range->lock != lock) ? IVS_EPERM
        : state                                                                                        ? 0
                                                                                                       : IVS_EBUSY;
    if (r == 0) {
        if (state == IVS_RANGE_AWAKE_) ivs_range_unrun_(table, range);
        ivs_range_dequeue_(table, range, false);
        ivs_ranges_run_(table);
    }
    if (table) ivs_unguard_(table);
    return r;
}

/* Is it held, by this handle, in this lock? */
static int ivs_range_check_(struct ivs_range_lock *lock, const struct ivs_range *range) {
    if (!lock || !range) return IVS_EINVAL;
    if (range->self_ != range || range->lock != lock || ivs_load_relaxed_32_(&range->state_)) return ivs_misuse_();
    if (range->start != range->start_ || range->end != range->last_ + 1) return ivs_misuse_();
    if ((range->mode & ~(uint32_t)IVS_NESTED) != range->mode_) return ivs_misuse_();
    if (IVSKIP_DEBUG && !(range->flags_ & IVS_RANGE_ASYNC_) &&
        range->holder_ != (range->owner ? range->owner : ivs_thread_id_()))
        return ivs_misuse_();
    return 0;
}

int ivs_range_unlock(struct ivs_range_lock *lock, struct ivs_range *range) {
    struct ivs_ranges_ *table;
    int r = ivs_range_check_(lock, range);
    if (r) return r;
    range->lock = NULL;
    table = ivs_root_of_holder_(lock, range, 0);
    if (!table) return 0;
    ivs_range_track_(table, range, false);
    if (range->mode_ == IVS_EXCLUSIVE) ivs_leave_exclusive_(table, range);
    else ivs_leave_shared_(table, range);
    return 0;
}

static void ivs_range_set_mode_(struct ivs_range *range, uint32_t mode) {
    range->mode_ = mode;
    range->mode = mode | (range->mode & IVS_NESTED);
}

/* Another mode for one who is alone in the lock; NULL: done. */
static struct ivs_ranges_ *ivs_root_set_mode_(struct ivs_range_lock *lock, struct ivs_range *range, uint32_t mode) {
    uintptr_t own = (uintptr_t)range | IVS_ROOT_HANDLE_;
    struct ivs_ranges_ *table = ivs_root_of_holder_(lock, range, own | IVS_ROOT_CHANGE_);
    if (table) return table;
    ivs_range_set_mode_(range, mode);
    ivs_store_release_word_(&lock->root_, own); /* [P19] */
    return NULL;
}

int ivs_range_downgrade(struct ivs_range_lock *lock, struct ivs_range *range) {
    struct ivs_ranges_ *table;
    struct ivs_piece_ *piece;
    ivs_u64_ state;
    bool woke = false;
    int r = ivs_range_check_(lock, range);
    if (r || range->mode_ != IVS_EXCLUSIVE) return r;
    table = ivs_root_set_mode_(lock, range, IVS_SHARED);
    if (!table) return 0;
    piece = ivs_piece_of_(range->node_);
    ivs_range_track_(table, range, false);
    ivs_range_set_mode_(range, IVS_SHARED);
    range->node_ = NULL; /* others may cut it from now on */
    ivs_range_track_(table, range, true);
    state = ivs_load_relaxed_64_(&piece->state);
    do {
        if ((state & IVS_PIECE_WAIT_) && !woke) {
            ivs_waker_begin_(table);
            woke = true;
        }
    } while (!ivs_cas_acq_rel_64_(&piece->state, &state, state - IVS_PIECE_EXCLUSIVE_ + IVS_PIECE_WHOLE_)); /* [P18] */
    if (woke) ivs_waker_pass_(table, range->start_, range->last_, true);
    return 0;
}

/* Where the range is one piece: 0, -EBUSY, or -EEXIST: it may be several. */
static int ivs_piece_upgrade_(struct ivs_ranges_ *table, struct ivs_range *range) {
    struct ivs_node *node;
    int r = IVS_EEXIST;
    ivs_domain_read_enter(table->domain);
    node = ivs_map_query_rcu(&table->map, range->start_);
    if (node && node->last == range->last_) {
        struct ivs_piece_ *piece = ivs_piece_of_(node);
        ivs_u64_ state = ivs_load_acquire_64_(&piece->state); /* [P18] */
        while (r == IVS_EEXIST && !(state & IVS_PIECE_DEAD_)) {
            ivs_u64_ next = state - IVS_PIECE_WHOLE_ + IVS_PIECE_EXCLUSIVE_;
            if ((state & IVS_PIECE_COUNT_) != IVS_PIECE_SHARED_) r = IVS_EBUSY;
            else if (ivs_cas_acq_rel_64_(&piece->state, &state, next)) r = 0; /* [P18] */
        }
        if (r == 0) ivs_piece_own_(range, node, 0);
    }
    ivs_domain_read_exit(table->domain);
    return r;
}

int ivs_range_try_upgrade(struct ivs_range_lock *lock, struct ivs_range *range) {
    struct ivs_ranges_ *table;
    int r = ivs_range_check_(lock, range);
    if (r || range->mode_ == IVS_EXCLUSIVE) return r;
    table = ivs_root_set_mode_(lock, range, IVS_EXCLUSIVE);
    if (!table) return 0;
    if (ivs_in_section_(table->domain)) return IVS_EDEADLK;
    ivs_range_track_(table, range, false);
    r = ivs_piece_upgrade_(table, range);
    ivs_range_set_mode_(range, IVS_EXCLUSIVE);
    if (r == IVS_EEXIST) {
        struct ivs_spares_ spares;
        uint64_t key;
        __builtin_memset(&spares, 0, sizeof(spares));
        r = ivs_range_rebuild_(table, range, true, &spares, &key);
        ivs_spares_free_(table->domain, &spares);
    }
    if (r) ivs_range_set_mode_(range, IVS_SHARED);
    ivs_range_track_(table, range, true);
    return r;
}

/* -------------------------------------------------------------------------------- range locks: sets */

/* Merges two lists that ascend by start. */
static struct ivs_range *ivs_set_merge_(struct ivs_range *a, struct ivs_range *b) {
    struct ivs_range *first = NULL, **at = &first;
    while (a && b) {
        struct ivs_range **less = b->start_ < a->start_ ? &b : &a;
        *at = *less;
        *less = (*less)->chain_;
        at = &(*at)->chain_;
    }
    *at = a ? a : b;
    return first;
}

static struct ivs_range *ivs_set_sort_(struct ivs_range *ranges, size_t count) {
    struct ivs_range *lists[64] = {NULL}, *all = NULL;
    for (size_t i = 0; i < count; i++) { /* lists[k]: 2^k ranges, or none */
        struct ivs_range *list = &ranges[i];
        unsigned k = 0;
        list->chain_ = NULL;
        for (; lists[k]; lists[k++] = NULL) list = ivs_set_merge_(lists[k], list);
        lists[k] = list;
    }
    for (unsigned k = 0; k < 64; k++) all = ivs_set_merge_(lists[k], all);
    return all;
}

/* Does one of an ascending list conflict with one before it? */
static bool ivs_set_conflicts_(const struct ivs_range *range) {
    uint64_t reach = range->last_, reach_exclusive = range->mode_ == IVS_EXCLUSIVE ? range->last_ : 0;
    bool exclusive = range->mode_ == IVS_EXCLUSIVE;
    while ((range = range->chain_) != NULL) {
        bool alone = range->mode_ == IVS_EXCLUSIVE;
        if (alone && range->start_ <= reach) return true;
        if (exclusive && range->start_ <= reach_exclusive) return true;
        if (range->last_ > reach) reach = range->last_;
        if (alone && (!exclusive || range->last_ > reach_exclusive)) reach_exclusive = range->last_;
        exclusive |= alone;
    }
    return false;
}

int ivs_range_lock_set(struct ivs_range_lock *lock, struct ivs_range *ranges, size_t count) {
    struct ivs_range *first, *range, *undo;
    uint64_t above = 0;
    int r = 0;
    if (!lock || (count && !ranges)) return IVS_EINVAL;
    for (size_t i = 0; i < count && r == 0; i++)
        r = ivs_range_begin_(lock, &ranges[i], ranges[i].start, ranges[i].end, ranges[i].mode);
    if (r || count == 0) return r;
    first = ivs_set_sort_(ranges, count);
    if (ivs_set_conflicts_(first)) return IVS_EINVAL;
    for (range = first; range && r == 0; range = r ? range : range->chain_) {
        if ((range->flags_ & IVS_RANGE_NESTED_) && (range == first || range->held_end) && range->above_ > above)
            above = range->above_;
        if (range != first) { /* [R5] */
            range->flags_ |= IVS_RANGE_NESTED_;
            range->above_ = above;
        }
        if (range->last_ > above) above = range->last_;
        r = ivs_range_take_(lock, range, IVS_FOREVER_);
    }
    for (undo = first; r && undo != range; undo = undo->chain_) (void)ivs_range_unlock(lock, undo);
    return r;
}

int ivs_range_unlock_set(struct ivs_range_lock *lock, struct ivs_range *ranges, size_t count) {
    int result = 0;
    if (!lock || (count && !ranges)) return IVS_EINVAL;
    for (size_t i = 0; i < count; i++) {
        int r = ivs_range_unlock(lock, &ranges[i]);
        if (r) result = r;
    }
    return result;
}

/* -------------------------------------------------------------------------------- range locks: begin, end, look */

int ivs_range_lock_init(struct ivs_range_lock *lock, struct ivs_domain *domain) {
    if (!lock) return IVS_EINVAL;
    if (domain && (domain->magic_ != IVS_DOMAIN_MAGIC_ || domain->payload_size_ != IVSKIP_RANGE_PAYLOAD))
        return IVS_EINVAL;
    lock->root_ = 0;
    lock->domain_ = domain;
    lock->grants_ = 0;
    return 0;
}

int ivs_range_lock_prepare(struct ivs_range_lock *lock) {
    if (!lock) return IVS_EINVAL;
    return ivs_ranges_begin_(lock, ivs_load_acquire_word_(&lock->root_)); /* [P19] */
}

int ivs_range_lock_barrier(struct ivs_range_lock *lock) {
    struct ivs_ranges_ *table;
    uintptr_t word;
    if (!lock) return IVS_EINVAL;
    word = ivs_load_acquire_word_(&lock->root_); /* [P19] */
    if (!(word & IVS_ROOT_TABLE_)) return 0;
    table = ivs_table_of_(word);
    if (ivs_in_section_(table->domain)) return IVS_EDEADLK;
    while (ivs_load_acquire_32_(&table->lenders)) IVSKIP_HOST_YIELD(); /* [P20] [R7] */
    return ivs_domain_barrier(table->domain);
}

/* How many pieces are held, and how many are kept; their acquisitions. */
static void ivs_pieces_count_(struct ivs_ranges_ *table, struct ivs_range_stats *stats) {
    struct ivs_node *node;
    size_t n = 0;
    ivs_domain_read_enter(table->domain);
    for (node = ivs_map_query_next_rcu(&table->map, 0); node; node = ivs_walk_(&table->map, node, ++n)) {
        ivs_u64_ state = ivs_load_acquire_64_(&ivs_piece_of_(node)->state); /* [P18] */
        stats->acquisitions += ivs_load_relaxed_64_(&ivs_piece_of_(node)->grants);
        if (ivs_piece_conflicts_(state, IVS_EXCLUSIVE)) stats->held++;
        else stats->cached++;
    }
    ivs_domain_read_exit(table->domain);
}

int ivs_range_lock_destroy(struct ivs_range_lock *lock) {
    struct ivs_range_stats stats;
    struct ivs_ranges_ *table;
    uintptr_t word;
    bool waiting, inside, lent;
    if (!lock) return IVS_EINVAL;
    word = ivs_load_acquire_word_(&lock->root_); /* [P19] */
    if (word == 0) return 0;
    if (!(word & IVS_ROOT_TABLE_)) return IVS_EBUSY;
    table = ivs_table_of_(word);
    if (ivs_in_section_(table->domain)) return IVS_EDEADLK;
    __builtin_memset(&stats, 0, sizeof(stats));
    ivs_pieces_count_(table, &stats);
    ivs_guard_(table);
    waiting = table->queue != NULL;
    inside = table->running && table->runner == ivs_thread_id_();
    ivs_unguard_(table);
    if (inside) return IVS_EDEADLK;
    if (stats.held || waiting) return IVS_EBUSY;
    while (ivs_load_acquire_32_(&table->wakers)) IVSKIP_HOST_YIELD(); /* [P20] [R6] */
    (void)!ivs_domain_synchronize(table->domain);                     /* a release may be leaving its read section */
    lent = lock->domain_ && ivs_load_relaxed_32_(&table->lent);
    lock->root_ = 0;
    ivs_ranges_free_(lock, table);
    if (lent) (void)!ivs_domain_barrier(lock->domain_); /* storage is the caller's [R7] */
    return 0;
}

int ivs_range_lock_reset_after_fork(struct ivs_range_lock *lock) {
    struct ivs_ranges_ *table;
    struct ivs_node *node, *next;
    ivs_u64_ kept = 0;
    if (!lock) return IVS_EINVAL;
    if (!(lock->root_ & IVS_ROOT_TABLE_)) {
        lock->root_ = 0;
        return 0;
    }
    table = ivs_table_of_(lock->root_);
    if (ivs_map_reset_after_fork(&table->map)) return IVS_EINVAL;
    for (node = ivs_successor_(&table->map.head_); node; node = next) {
        next = ivs_successor_(node);
        ivs_store_relaxed_64_(&ivs_piece_of_(node)->state, IVS_PIECE_KEPT_);
        kept++;
        if (node->foreign_) ivs_piece_drop_(table, node->start, node->last); /* its storage is the caller's again */
        if (node->foreign_) kept--;
    }
    table->kept = kept;
    table->queue = table->run = table->holders = NULL;
    table->running = false;
    table->guard = table->wakers = table->lenders = table->waits_kinds = 0;
    return 0;
}

int ivs_range_lock_get_stats(struct ivs_range_lock *lock, struct ivs_range_stats *stats) {
    struct ivs_wanted_ all = ivs_waits_in_(0, UINT64_MAX, UINT32_MAX);
    struct ivs_ranges_ *table;
    uintptr_t word;
    if (!lock || !stats) return IVS_EINVAL;
    __builtin_memset(stats, 0, sizeof(*stats));
    word = ivs_load_acquire_word_(&lock->root_); /* [P19] */
    stats->acquisitions = ivs_load_relaxed_64_(&lock->grants_);
    stats->held = word && !(word & IVS_ROOT_TABLE_);
    if (!(word & IVS_ROOT_TABLE_)) return 0;
    table = ivs_table_of_(word);
    for (int i = 0; i < IVS_STRIPES_; i++) stats->acquisitions += ivs_load_relaxed_64_(&table->stripe[i].granted);
    ivs_pieces_count_(table, stats);
    ivs_guard_(table);
    stats->waits = table->waits;
    stats->longest_wait = table->longest;
    stats->wakes = table->wakes;
    stats->false_wakes = table->false_wakes;
    for (struct ivs_range *range = ivs_queue_next_(table, &all, NULL); range;
         range = ivs_queue_next_(table, &all, range))
        stats->waiting += range->behind_ || (range->kinds_ & IVS_WAITS_ASLEEP_);
    ivs_unguard_(table);
    return 0;
}

static void ivs_put_range_(const struct ivs_out_ *out, const char *what, uint64_t start, uint64_t last) {
    struct ivs_node bounds;
    bounds.start = start;
    bounds.last = last;
    ivs_put_(out, what);
    ivs_put_bounds_(out, &bounds);
}

static void ivs_put_holder_(const struct ivs_out_ *out, uint64_t start, uint64_t last, ivs_u64_ state, uint64_t owner) {
    ivs_put_range_(out, "held ", start, last);
    if (state & IVS_PIECE_EXCLUSIVE_) {
        ivs_put_(out, " exclusive owner ");
        ivs_put_number_(out, owner, 16);
    } else {
        ivs_put_(out, " shared by ");
        ivs_put_number_(out, (state & IVS_PIECE_COUNT_) / IVS_PIECE_SHARED_, 10);
    }
    ivs_put_(out, state & IVS_PIECE_WAIT_ ? ", waited for\n" : "\n");
}

static void ivs_put_waiter_(const struct ivs_out_ *out, const struct ivs_range *range) {
    uint32_t state = ivs_load_relaxed_32_(&range->state_);
    ivs_put_range_(out, "waits ", range->start_, range->last_);
    ivs_put_(out, range->mode_ == IVS_EXCLUSIVE ? " exclusive owner " : " shared owner ");
    ivs_put_number_(out, range->holder_, 16);
    if (state == IVS_RANGE_SLEEPING_) ivs_put_range_(out, " for ", range->by_start_, range->by_last_);
    if (state == IVS_RANGE_BEHIND_) ivs_put_range_(out, " behind ", range->behind_->start_, range->behind_->last_);
    if (range->vain_) ivs_put_(out, " woken in vain ");
    if (range->vain_) ivs_put_number_(out, range->vain_, 10);
    ivs_put_(out, "\n");
}

int ivs_range_lock_dump(struct ivs_range_lock *lock, void (*put)(void *ctx, const char *text), void *ctx) {
    struct ivs_wanted_ all = ivs_waits_in_(0, UINT64_MAX, UINT32_MAX);
    struct ivs_ranges_ *table;
    struct ivs_out_ out;
    struct ivs_node *node;
    uintptr_t word;
    if (!lock || !put) return IVS_EINVAL;
    out.put = put;
    out.ctx = ctx;
    word = ivs_load_acquire_word_(&lock->root_); /* [P19] */
    while (word && !(word & IVS_ROOT_TABLE_)) {
        struct ivs_range *range = (struct ivs_range *)(word & ~(uintptr_t)IVS_FLAGS_);
        if (word & IVS_ROOT_CHANGE_) {
            word = ivs_root_await_(lock, word);
        } else if (ivs_cas_acq_rel_word_(&lock->root_, &word, word | IVS_ROOT_CHANGE_)) { /* [P19] */
            uint64_t start = range->start_, last = range->last_, owner = range->holder_;
            ivs_u64_ state = ivs_piece_held_(range);
            ivs_store_release_word_(&lock->root_, word); /* [P19] */
            ivs_put_holder_(&out, start, last, state, owner);
            return 0;
        }
    }
    if (!word) return 0;
    table = ivs_table_of_(word);
    ivs_domain_read_enter(table->domain);
    ivs_map_for_each_rcu (node, &table->map, 0, 0) {
        ivs_u64_ state = ivs_load_acquire_64_(&ivs_piece_of_(node)->state); /* [P18] */
        if (!ivs_piece_conflicts_(state, IVS_EXCLUSIVE)) continue;
        ivs_put_holder_(&out, node->start, node->last, state, ivs_load_relaxed_64_(&ivs_piece_of_(node)->owner));
    }
    ivs_domain_read_exit(table->domain);
    ivs_guard_(table);
    for (struct ivs_range *range = ivs_queue_next_(table, &all, NULL); range;
         range = ivs_queue_next_(table, &all, range))
        ivs_put_waiter_(&out, range);
    ivs_unguard_(table);
    return 0;
}

#undef ivs_range_track_
#undef IVS_PIECE_DEAD_
#undef IVS_PIECE_WAIT_
#undef IVS_PIECE_EXCLUSIVE_
#undef IVS_PIECE_KEPT_
#undef IVS_PIECE_SHARED_
#undef IVS_PIECE_COUNT_
#undef IVS_PIECE_BEGIN_
#undef IVS_PIECE_BEGINS_
#undef IVS_PIECE_END_
#undef IVS_PIECE_ENDS_
#undef IVS_PIECE_WHOLE_
#undef IVS_AGAIN_
#undef IVS_STRIPES_

#undef IVS_RCU_ENTER_
#undef IVS_RCU_EXIT_
#undef IVS_RCU_HELD_
#undef IVS_RCU_CALL_
#undef IVS_RCU_SYNCHRONIZE_
#undef IVS_RCU_BARRIER_
#undef IVS_RCU_OFFLINE_
#undef IVS_RCU_ONLINE_
#undef IVS_TSAN_
#undef IVS_TSAN_SECTION_ENDS_
#undef IVS_TSAN_GRACE_OVER_
#undef IVS_CLOCK_
#undef IVS_FUTEX_
#undef IVS_PARK_
#undef IVS_PARKS_RESET_
#undef IVS_MAP_MAGIC_
#undef IVS_DOMAIN_MAGIC_
#undef IVS_FOREVER_
#undef IVS_ASSERT_
#undef IVS_STATIC_ASSERT_

#endif /* IVSKIP_IMPLEMENTATION */
