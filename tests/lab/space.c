/* SPDX-License-Identifier: MIT */
/*
 * Programs on an address space, on its gate and on its counters: up to three threads with a few calls each. Each
 * execution ends with a valid space whose accounts are the sums over its areas, all memory back, and a history that the
 * model of space_model.c explains. Every call comes at one instant, but a move with two commits and a touch that makes
 * a stack grow (two), the choice of a place (G8 of ivaddr.h) and a refusal, to which charges of others may count (G3).
 *
 * Each area owns a block of memory, which its host's bytes lead to: an area that is released twice, never, or before
 * its readers are gone is a wrong free, a leak or a race. Callbacks write plainly to the pages that they are told of:
 * a callback without the range's lock is a race.
 */
#include "run.h"

#if defined(LAB_HOST)
#define IVSKIP_RCU HOST
#ifndef LAB_PORT
#define LAB_PORT "lab_port.h"
#endif
#define IVSKIP_CONFIG LAB_PORT
#endif
#include "ivaddr.h"
#include "space.h"

#include <stdio.h>
#include <string.h>

#ifndef LAB_PORT_THREAD
#define LAB_PORT_THREAD() lab_rcu_thread()
#endif

extern struct ivs_map *subject_map;
extern struct iva_space *subject_space;

#define PAGE     UINT64_C(16)
#define AT(page) ((uint64_t)(page)*PAGE)

/* The words of programs. Pages are 1..15; [lo, hi) are pages. */
/* clang-format off */
#define R  (IS_MAPPED | CAN_READ)
#define RW (IS_MAPPED | CAN_READ | CAN_WRITE)
#define RX (IS_MAPPED | CAN_READ | CAN_EXEC)
#define DARK IS_MAPPED
#define STACK (RW | IS_STACK)
#define LOCKED (RW | IS_LOCKED)
#define FILE_(n, offset) (R | IS_SHARED | OBJECT * (n) | OFFSET * (offset))
#define Map(lo, hi, p)       {S_MAP, lo, hi, 0, 0, p}
#define Free(lo, hi, p)      {S_FREE, lo, hi, 0, 0, p}      /* if it is free */
#define Hint(lo, hi, p)      {S_HINT, lo, hi, 0, 0, p}
#define Any(pages, p)        {S_ANY, pages, 0, 0, 0, p}
#define Unmap(lo, hi)        {S_UNMAP, lo, hi, 0, 0, 0}
#define Protect(lo, hi, p)   {S_PROTECT, lo, hi, 0, 0, p}
#define Resize(lo, hi, n)    {S_RESIZE, lo, hi, n, 0, 0}    /* to n pages, where it is */
#define Go(lo, hi, n)        {S_RESIZE, lo, hi, n, 1, 0}    /* or elsewhere */
#define Move(lo, hi, to)     {S_MOVE, lo, hi, to, 0, 0}
#define MoveTo(lo, hi, to, n) {S_MOVE, lo, hi, to, n, 0}    /* and becomes n pages */
#define Keep(lo, hi, to)     {S_KEEP, lo, hi, to, 0, 0}     /* the source stays mapped */
#define Brk(page)            {S_BRK, page, 0, 0, 0, 0}
#define TellBrk(page)        {S_BRK, page, 0, 0, 1, 0}      /* into the page before it; writes a word first */
#define DontFork(lo, hi)     {S_DONTFORK, lo, hi, 0, 0, 0}
#define Lock(lo, hi)         {S_LOCK, lo, hi, 0, 0, 0}
#define Unlock(lo, hi)       {S_UNLOCK, lo, hi, 0, 0, 0}
#define LockAll(flags)       {S_LOCKALL, flags, 0, 0, 0, 0} /* 1: current, 2: future; 0: unlocks all */
#define TellAll(flags)       {S_LOCKALL, flags, 0, 0, 1, 0}
#define Touch(page)          {S_TOUCH, page, 0, 0, 0, 0}
#define Fork                 {S_FORK, 0, 0, 0, 0, 0}
#define Limit(which, n)      {S_LIMIT, IVA_LIMIT_##which, n, 0, 0, 0}
#define Query(page)          {S_QUERY, page, 0, 0, 0, 0}
#define Next(page)           {S_NEXT, page, 0, 0, 0, 0}
#define Snap                 {S_SNAP, 0, 0, 0, 0, 0}        /* all of it with the gate in GR; the accounts are exact */
#define Whole                {S_WHOLE, 0, 0, 0, 0, 0}       /* the same in GW */
#define Tell(lo, hi, p)      {S_TELL, lo, hi, 0, 0, p}      /* writes a word, then protects; */
#define Hear(page, p)        {S_HEAR, page, 0, 0, 0, p}     /* whoever sees the rights may read the word, */
#define HearStats(brk)       {S_STATS, brk, 0, 0, 0, 0}     /* or the new end of the heap (1), flags to come (0) */
#define Reclaim              {S_RECLAIM, 0, 0, 0, 0, 0}
/* The gate and a counter alone. */
#define Gate(mode)           {S_GATE, IVA_##mode, 0, 0, 0, 0}
#define TryGate(mode)        {S_TRYGATE, IVA_##mode, 0, 0, 0, 0}
#define Held(mode)           {S_GATE, IVA_##mode, 0, 0, 1, 0}   /* at the start, by thread 0, */
#define Open                 {S_GATE, 0, 0, 0, 2, 0}            /* who lets it go */
#define Behind(mode)         {S_BEHIND, IVA_##mode, 0, 0, 0, 0} /* if a global waits, this comes after it */
#define Unit                 {S_UNIT, 1, 0, 0, 0, 0}            /* who gets the one unit writes a word, gives it back */
#define Charge(n)            {S_CHARGE, n, 0, 0, 0, 0}
#define Uncharge(n)          {S_UNCHARGE, n, 0, 0, 0, 0}
#define Bound(n)             {S_BOUND, n, 0, 0, 0, 0}
#define Read                 {S_READ, 0, 0, 0, 0, 0}
/* clang-format on */

enum {
    ORDINARY = 0,
    SC_ONLY = 1, /* more than release and acquire is needed for one order of all calls */
    DEEP = 2,
    STRANGERS = 4, /* no thread wants what another holds */
    HEAP = 8,      /* one begins at page 6 */
    GUARD = 16     /* a page stays free below stacks */
};

struct script {
    const char *name;
    struct space_op init[9];
    struct space_op t[3][SPACE_CALLS];
    unsigned nature;
};

static const struct script scripts[] = {
    /* map, unmap, protect */
    {"space: maps beside each other", {{0}}, {{Map(4, 6, R)}, {Map(6, 8, R), Query(5)}}, ORDINARY},
    {"space: maps over a part", {Map(4, 8, R)}, {{Map(5, 6, RW)}, {Map(5, 7, RX)}}, ORDINARY},
    {"space: maps of free pages", {{0}}, {{Free(4, 6, R), Query(6)}, {Free(5, 7, RW)}}, ORDINARY},
    {"space: map and unmap", {Map(4, 8, R)}, {{Map(6, 10, RW)}, {Unmap(5, 7)}}, ORDINARY},
    {"space: an area cut twice", {Map(2, 10, R)}, {{Unmap(4, 5)}, {Unmap(6, 7), Query(3)}}, ORDINARY},
    {"space: joined with one that is unmapped", {Map(2, 4, R), Map(6, 8, R)}, {{Map(4, 6, R)}, {Unmap(6, 8)}}, DEEP},
    {"space: joined with two that change",
     {Map(2, 4, R), Map(6, 8, R)},
     {{Map(4, 6, R)}, {Unmap(2, 4)}, {Protect(6, 8, RW)}},
     ORDINARY},
    {"space: joined with a neighbour that is joined",
     {Map(2, 3, R), Map(4, 5, R)},
     {{Map(3, 4, R)}, {Map(5, 6, R)}, {Query(4)}},
     ORDINARY},
    {"space: unmap and readers",
     {Map(2, 4, R), Map(4, 6, RW)},
     {{Unmap(3, 5), Reclaim}, {Query(3), Next(3), Query(4)}},
     ORDINARY},
    {"space: protect joins", {Map(2, 4, R), Map(4, 6, RW)}, {{Protect(4, 6, R)}, {Unmap(2, 3)}}, DEEP},
    {"space: protects join and part",
     {Map(2, 4, R), Map(4, 6, RW), Map(6, 8, R)},
     {{Protect(4, 6, R)}, {Protect(6, 8, RW)}},
     ORDINARY},
    {"space: protect in place", {Map(2, 4, R)}, {{Protect(2, 4, RW)}, {Query(3), Query(2)}}, ORDINARY},
    {"space: protect in place and a cut", {Map(2, 6, R)}, {{Protect(2, 6, RW)}, {Unmap(4, 5)}}, DEEP},
    {"space: protects in place",
     {Map(2, 4, R)},
     {{Protect(2, 4, RW)}, {Protect(2, 4, RX)}, {Query(2), Query(3)}},
     ORDINARY},
    {"space: protect up to a hole that is filled",
     {Map(2, 4, R), Map(6, 8, R)},
     {{Protect(2, 8, RW)}, {Map(4, 6, R)}},
     ORDINARY},
    {"space: protect up to a hole, with much behind it",
     {Map(2, 3, R), Map(4, 14, R), Protect(5, 6, RW), Protect(7, 8, RW), Protect(9, 10, RW), Protect(11, 12, RW),
      Protect(13, 14, RW)},
     {{Protect(2, 14, RX)}, {Map(3, 4, R)}},
     ORDINARY},
    {"space: protect while a hole comes", {Map(2, 8, R)}, {{Protect(2, 8, RW)}, {Unmap(4, 6), Query(6)}}, ORDINARY},
    {"space: rights tell", {Map(2, 4, R)}, {{Tell(2, 4, RW)}, {Hear(2, RW)}}, ORDINARY},
    {"space: an object's areas",
     {Map(2, 6, FILE_(1, 3))},
     {{Unmap(3, 4)}, {Map(3, 4, FILE_(1, 4)), Query(3)}},
     ORDINARY},
    /* where something goes */
    {"space: anywhere, twice", {{0}}, {{Any(2, R)}, {Any(2, RW)}}, DEEP},
    {"space: anywhere and there", {Map(12, 14, R)}, {{Any(2, RW)}, {Map(14, 16, R)}}, ORDINARY},
    {"space: anywhere, and free no replace", {{0}}, {{Any(2, RW)}, {Free(15, 16, R)}}, ORDINARY},
    {"space: anywhere, and more room above", {Map(12, 16, R)}, {{Any(2, RW)}, {Unmap(14, 16)}}, ORDINARY},
    {"space: anywhere, and a gap that goes and comes",
     {Map(14, 16, R), Map(8, 10, R)},
     {{Any(4, RW)}, {Map(10, 11, RX), Unmap(14, 16)}},
     ORDINARY},
    {"space: anywhere, and what is above goes",
     {Map(14, 16, R), Map(12, 14, RW)},
     {{Any(2, RX)}, {Unmap(14, 16), Unmap(12, 14)}},
     ORDINARY},
    {"space: anywhere in a full space", {Map(1, 16, R)}, {{Any(2, RW)}, {Unmap(4, 6)}}, ORDINARY},
    {"space: anywhere, the last room moves", {Map(1, 14, R)}, {{Any(2, RW)}, {Unmap(6, 8), Map(14, 16, RX)}}, ORDINARY},
    {"space: one learns of gaps from what is not true any more",
     {Map(14, 16, R), Map(11, 12, R), Map(5, 8, R), Limit(LOCKED, 1), Any(3, LOCKED)},
     {{Any(4, LOCKED)}, {Unmap(14, 16)}},
     DEEP},
    {"space: anywhere, room that flees", /* never where a search is */
     {Map(1, 2, R), Map(4, 16, R)},
     {{Any(2, RW)}, {Unmap(14, 16), Map(2, 4, RX), Unmap(2, 4), Map(14, 16, R)}},
     ORDINARY},
    {"space: a hint that is taken", {{0}}, {{Hint(4, 6, R)}, {Map(5, 7, RW)}}, ORDINARY},
    {"space: a hint that becomes free", {Map(4, 6, R)}, {{Hint(4, 6, RW)}, {Unmap(4, 6)}}, ORDINARY},
    {"space: what is known of gaps, and a free",
     {Map(15, 16, R), Map(13, 14, R), Map(11, 12, R), Map(4, 9, R)},
     {{Any(2, RW)}, {Unmap(13, 14), Any(2, RW)}},
     DEEP},
    {"space: two learn of gaps, one frees",
     {Map(15, 16, R), Map(13, 14, R), Map(11, 12, R), Map(4, 9, R)},
     {{Any(2, RW)}, {Any(3, RW)}, {Unmap(15, 16)}},
     ORDINARY},
    {"space: what is known of gaps, while another learns",
     {Map(15, 16, R), Map(12, 13, R), Map(5, 9, R), Any(3, R), Limit(LOCKED, 1)},
     {{Any(2, RX)}, {Any(2, LOCKED)}},
     DEEP},
    {"space: two learn of gaps of one class",
     {Map(15, 16, R), Map(12, 13, R), Map(5, 9, R), Limit(LOCKED, 1)},
     {{Any(3, LOCKED)}, {Any(2, LOCKED)}},
     DEEP},
    {"space: one learns of gaps, and one comes",
     {Map(15, 16, R), Map(12, 13, R), Map(5, 9, R), Limit(LOCKED, 1)},
     {{Any(3, LOCKED)}, {Unmap(15, 16)}},
     DEEP},
    /* remap */
    {"space: shrink and unmap", {Map(2, 6, R)}, {{Resize(2, 6, 2)}, {Unmap(3, 5), Query(2)}}, ORDINARY},
    {"space: grow into what is taken", {Map(2, 4, R)}, {{Resize(2, 4, 4)}, {Free(5, 6, R)}}, ORDINARY},
    {"space: grow twice", {Map(2, 4, R)}, {{Resize(2, 4, 3)}, {Resize(2, 4, 4)}}, ORDINARY},
    {"space: grow up to a neighbour", {Map(2, 4, R), Map(6, 8, R)}, {{Resize(2, 4, 4)}, {Unmap(6, 7)}}, ORDINARY},
    {"space: grow, and the area goes", {Map(2, 4, R)}, {{Resize(2, 4, 4)}, {Unmap(3, 4)}}, ORDINARY},
    {"space: grow or go elsewhere", {Map(2, 4, R), Map(4, 5, RW)}, {{Go(2, 4, 4)}, {Unmap(4, 5)}}, ORDINARY},
    {"space: go elsewhere, twice", {Map(2, 3, R), Map(3, 5, RW)}, {{Go(2, 3, 2)}, {Any(2, RX)}}, ORDINARY},
    {"space: move onto what comes", {Map(2, 4, R)}, {{Move(2, 4, 8)}, {Map(9, 11, RW)}}, ORDINARY},
    {"space: move of what goes", {Map(2, 4, R), Map(6, 7, RW)}, {{Move(2, 4, 8)}, {Unmap(3, 4)}}, DEEP},
    {"space: moves that cross",
     {Map(2, 4, R), Map(6, 7, RW), Map(8, 10, RX)},
     {{Move(2, 4, 8)}, {Move(8, 10, 2)}},
     ORDINARY},
    {"space: move and readers",
     {Map(2, 4, R), Map(6, 7, RW)},
     {{Move(2, 4, 8)}, {Query(3), Query(8)}, {Query(2)}},
     SC_ONLY},
    {"space: move down and a reader",
     {Map(8, 10, R), Map(6, 7, RW)},
     {{Move(8, 10, 2)}, {Query(3), Query(8), Query(3)}},
     ORDINARY},
    {"space: move of neighbours in one step", {Map(2, 4, R)}, {{Move(2, 4, 5)}, {Query(5), Query(2)}}, ORDINARY},
    {"space: several areas move", {Map(2, 3, R), Map(4, 5, RW)}, {{Move(2, 5, 8)}, {Unmap(4, 5), Query(10)}}, ORDINARY},
    {"space: move to what joins",
     {Map(2, 4, R), Map(6, 7, RW), Map(8, 9, R)},
     {{Move(2, 4, 9)}, {Unmap(8, 9)}},
     ORDINARY},
    {"space: move and become more", {Map(2, 4, R), Map(6, 7, RW)}, {{MoveTo(2, 4, 8, 4)}, {Map(11, 12, RX)}}, ORDINARY},
    {"space: move and become less",
     {Map(2, 5, R), Map(6, 7, RW)},
     {{MoveTo(2, 5, 8, 1)}, {Protect(3, 4, RX)}},
     ORDINARY},
    {"space: the source is kept", {Map(2, 4, LOCKED), Map(6, 7, R)}, {{Keep(2, 4, 8)}, {Unlock(2, 4)}}, ORDINARY},
    /* the heap, stacks */
    {"space: brk and brk", {Brk(8)}, {{Brk(9)}, {Brk(7), Query(8)}}, DEEP | HEAP},
    {"space: brk and a map in its way", {Brk(8)}, {{Brk(10)}, {Map(10, 11, R), Query(9)}}, HEAP},
    {"space: brk that is refused", {Brk(7), Map(9, 10, R)}, {{Brk(10)}, {Unmap(9, 10), Brk(11)}}, HEAP},
    {"space: brk of a heap that is gone", {Brk(9)}, {{Brk(7)}, {Unmap(6, 9)}}, HEAP},
    {"space: brk at the limit", {Brk(8), Limit(TOTAL, 3)}, {{Brk(9)}, {Map(2, 3, R)}}, HEAP},
    {"space: brk tells", {Brk(7)}, {{TellBrk(7)}, {HearStats(1)}}, HEAP},
    {"space: a stack touched twice", {Map(10, 12, STACK)}, {{Touch(8)}, {Touch(7), Query(9)}}, DEEP | GUARD},
    {"space: a stack grows towards a map", {Map(10, 12, STACK)}, {{Touch(8)}, {Free(6, 8, R)}}, GUARD},
    {"space: a stack grows while it goes", {Map(10, 12, STACK)}, {{Touch(8)}, {Unmap(9, 11)}}, GUARD},
    {"space: a stack grows while it is protected", {Map(10, 12, STACK)}, {{Touch(8)}, {Protect(10, 12, DARK)}}, GUARD},
    {"space: a stack at its limit",
     {Map(10, 12, STACK), Limit(STACK, 4)},
     {{Touch(8)}, {Limit(STACK, 3), Touch(7)}},
     GUARD},
    {"space: a stack grows to one that grows", {Map(10, 12, STACK), Map(5, 6, STACK)}, {{Touch(6)}, {Touch(4)}}, GUARD},
    /* locked memory, limits */
    {"space: lock and unlock", {Map(2, 6, RW)}, {{Lock(3, 5)}, {Unlock(2, 6), Query(4)}}, ORDINARY},
    {"space: lock and unmap", {Map(2, 6, RW)}, {{Lock(3, 5)}, {Unmap(4, 6)}}, DEEP},
    {"space: locks at the limit",
     {Map(2, 4, RW), Map(5, 6, R), Map(7, 9, RW), Limit(LOCKED, 3)},
     {{Lock(2, 4)}, {Lock(7, 9), Snap}},
     ORDINARY},
    {"space: maps at the limit of all",
     {Map(2, 3, R), Map(5, 6, RW), Map(8, 9, R), Limit(TOTAL, 4)},
     {{Map(3, 4, RX)}, {Map(9, 10, RX), Snap}},
     DEEP},
    {"space: given back, and taken",
     {Map(2, 4, R), Map(6, 7, RW), Map(9, 10, R), Limit(TOTAL, 4)},
     {{Unmap(2, 4)}, {Map(11, 13, RX), Query(2)}},
     DEEP},
    {"space: unlocked, and locked",
     {Map(2, 4, LOCKED), Map(5, 6, R), Map(7, 9, RW), Limit(LOCKED, 2)},
     {{Unlock(2, 4)}, {Lock(7, 9), Query(2)}},
     ORDINARY},
    {"space: the number of areas",
     {Map(2, 5, R), Map(6, 7, RW), Map(8, 9, R), Limit(AREAS, 4)},
     {{Unmap(3, 4)}, {Map(10, 11, RW), Snap}},
     ORDINARY},
    {"space: areas joined, and one more",
     {Map(2, 3, R), Map(4, 5, R), Map(6, 7, RW), Map(8, 9, R), Limit(AREAS, 4)},
     {{Map(3, 4, R)}, {Map(10, 11, RW), Query(2)}},
     ORDINARY},
    {"space: what one limit refuses the others get back",
     {Limit(TOTAL, 3), Limit(LOCKED, 1)},
     {{Map(2, 4, LOCKED)}, {Map(6, 8, R), Snap}},
     ORDINARY},
    {"space: what the number refuses the others get back",
     {Map(2, 3, R), Limit(TOTAL, 4), Limit(AREAS, 1)},
     {{Map(5, 7, LOCKED)}, {Snap}},
     ORDINARY},
    {"space: a lower limit", {Map(2, 4, R)}, {{Limit(TOTAL, 3), Query(6)}, {Map(6, 8, R), Unmap(2, 4)}}, ORDINARY},
    {"space: limits when a move grows",
     {Map(2, 3, LOCKED), Map(5, 6, R), Limit(LOCKED, 2)},
     {{MoveTo(2, 3, 8, 2)}, {Lock(5, 6)}},
     ORDINARY},
    /* the whole */
    {"space: lock all and map", {Map(2, 4, RW)}, {{LockAll(3)}, {Map(6, 8, RW), Query(2)}}, DEEP},
    {"space: lock all at the limit", {Map(2, 4, RW), Limit(LOCKED, 3)}, {{LockAll(3)}, {Map(6, 8, RW)}}, ORDINARY},
    {"space: lock all and unlock all",
     {Map(2, 4, RW), Map(6, 8, R)},
     {{LockAll(1)}, {LockAll(0), Unmap(3, 4)}},
     ORDINARY},
    {"space: lock all tells", {Map(2, 4, RW)}, {{TellAll(2)}, {HearStats(0)}}, ORDINARY},
    {"space: fork and map", {Map(2, 4, RW)}, {{Fork}, {Map(6, 8, R), Unmap(2, 3)}}, ORDINARY},
    {"space: fork and dontfork", {Map(2, 6, RW)}, {{Fork}, {DontFork(3, 4)}}, ORDINARY},
    {"space: fork and move", {Map(2, 4, R), Map(6, 7, LOCKED)}, {{Fork}, {Move(2, 4, 8)}}, DEEP},
    {"space: forks", {Map(2, 4, R)}, {{Fork}, {Fork}}, ORDINARY},
    {"space: snapshot and move", {Map(2, 4, R), Map(6, 7, RW)}, {{Snap}, {Move(2, 4, 8)}, {Unmap(6, 7)}}, ORDINARY},
    {"space: alone with the whole, and maps", {Map(2, 4, R)}, {{Whole}, {Unmap(2, 3)}, {Map(6, 8, RW)}}, ORDINARY},
    {"space: strangers",
     {Map(2, 3, R), Map(4, 5, RW), Map(6, 7, R), Map(8, 9, RW), Map(10, 11, R), Map(12, 13, RW)},
     {{Map(2, 3, RW)}, {Protect(10, 11, RX), Query(11)}},
     STRANGERS},
    /* the gate alone */
    {"gate: locals and a global", {{0}}, {{Gate(LW)}, {Gate(GW)}, {Gate(LR)}}, DEEP},
    {"gate: locals and a global that reads", {{0}}, {{Gate(LW)}, {Gate(GR)}, {Gate(LR)}}, ORDINARY},
    {"gate: each against the next", {{0}}, {{Gate(LW), Gate(GR)}, {Gate(GW), Gate(LR)}}, DEEP},
    {"gate: globals", {{0}}, {{Gate(GW)}, {Gate(GR)}, {Gate(GW)}}, DEEP},
    {"gate: globals that read", {{0}}, {{Gate(GR)}, {Gate(GR), Gate(LW)}, {Gate(LW)}}, ORDINARY},
    {"gate: two of one kind", {{0}}, {{Gate(GW), Gate(GW)}, {Gate(GW), Gate(GR)}}, ORDINARY},
    {"gate: try", {{0}}, {{TryGate(GW), TryGate(LW)}, {TryGate(GR), Gate(LR)}, {Gate(LW)}}, ORDINARY},
    {"gate: try of globals", {{0}}, {{TryGate(GW), Gate(LR)}, {TryGate(GR), TryGate(GW)}, {Gate(GR)}}, ORDINARY},
    {"gate: a local behind a writer", {Held(LR)}, {{Open}, {Gate(GW)}, {Behind(LR)}}, DEEP},
    {"gate: a local behind a reader", {Held(LW)}, {{Open}, {Gate(GR)}, {Behind(LW)}}, ORDINARY},
    /* a counter alone; its limit is 2 */
    {"counter: the last unit", {Charge(1)}, {{Unit, Unit}, {Unit, Unit}}, DEEP},
    {"counter: charges at the limit", {{0}}, {{Charge(1), Uncharge(1)}, {Charge(2), Read}, {Charge(1)}}, DEEP},
    {"counter: given back", {Charge(2)}, {{Uncharge(1), Charge(2)}, {Charge(1), Read}, {Read}}, ORDINARY},
    {"counter: another limit", {Charge(1)}, {{Bound(3), Charge(1)}, {Charge(2), Read}, {Charge(1)}}, ORDINARY},
    {"counter: a limit below what is used",
     {Charge(2)},
     {{Bound(1), Uncharge(1)}, {Charge(1)}, {Uncharge(1), Charge(1)}},
     ORDINARY},
};
enum { SCRIPTS = sizeof scripts / sizeof scripts[0] };

/* ---------------------------------------------------------------- the host */

struct owned {
    uint64_t value;
};

static enum space_kind now[LAB_THREADS + 1]; /* the call of each thread */
static uint64_t *pages;                      /* what page tables would have: written by who may */
static uint64_t heap_bytes = 0;              /* the pattern of the heap's areas owns nothing */

static struct owned *owned_by(const struct iva_view *view) {
    struct owned *const *host = view->host;
    LAB_CHECK(host && (uintptr_t)host % 8 == 0, "an area without the host's bytes");
    lab_plain(host, 8, false);
    return *host;
}

static void write_pages(uint64_t start, uint64_t end, bool write) {
    LAB_CHECK(start % PAGE == 0 && end % PAGE == 0 && end <= AT(SPACE_PAGES), "a callback about no pages");
    for (uint64_t page = start / PAGE; page < end / PAGE; page++) lab_plain(&pages[page], 8, write);
}

static int own(struct iva_view *view) {
    struct owned **host = view->host, *owned = lab_malloc(sizeof *owned);
    if (!owned) return IVA_ENOMEM;
    lab_plain(&owned->value, 8, true);
    lab_plain(host, 8, true);
    *host = owned;
    return 0;
}

static void on_release(void *ctx, const struct iva_view *area) {
    struct owned *owned = owned_by(area);
    (void)ctx;
    LAB_CHECK(owned, "an area owns nothing");
    lab_plain(&owned->value, 8, true);
    lab_free(owned);
}

static int on_split(void *ctx, const struct iva_view *old, struct iva_view *part) {
    (void)ctx;
    lab_plain(&owned_by(old)->value, 8, false);
    write_pages(old->start, old->end, true);
    return own(part);
}

static int on_merge(void *ctx, struct iva_view *into, const struct iva_view *gone) {
    (void)ctx;
    LAB_CHECK(into->end == gone->start, "merge of what does not meet");
    lab_plain(&owned_by(into)->value, 8, false);
    lab_plain(&owned_by(gone)->value, 8, false);
    write_pages(into->start, gone->end, true);
    return 0;
}

static int on_copy(void *ctx, const struct iva_view *from, struct iva_view *to) {
    (void)ctx;
    if (owned_by(from)) lab_plain(&owned_by(from)->value, 8, false);
    write_pages(from->start, from->end, from->start != to->start); /* a fork reads */
    if (from->start != to->start) write_pages(to->start, to->end, true);
    return own(to);
}

static void on_clear(void *ctx, uint64_t start, uint64_t end, uint64_t floor, uint64_t ceiling) {
    enum space_kind kind = now[lab_thread()];
    (void)ctx;
    if (kind != S_MAP && kind != S_UNMAP && kind != S_BRK && (kind < S_RESIZE || kind > S_KEEP))
        lab_fail("pages are cleared in a call that takes none away");
    if (floor < ceiling) LAB_CHECK(floor <= start && end <= ceiling, "what is cleared lies outside of its empty space");
    write_pages(start, end, true);
    if (floor < ceiling)
        write_pages(floor < AT(SPACE_PAGES) ? floor : 0, ceiling < AT(SPACE_PAGES) ? ceiling : AT(SPACE_PAGES), true);
}

static void on_protect(void *ctx, const struct iva_view *area) {
    (void)ctx;
    write_pages(area->start, area->end, true);
}

static void on_move(void *ctx, uint64_t from, uint64_t to, uint64_t bytes) {
    (void)ctx;
    write_pages(from, from + bytes, true);
    write_pages(to, to + bytes, true);
}

static const struct iva_ops host = {.release = on_release,
                                    .split = on_split,
                                    .merge = on_merge,
                                    .copy = on_copy,
                                    .clear = on_clear,
                                    .protect = on_protect,
                                    .move = on_move};

/* ---------------------------------------------------------------- calls */

struct call {
    const struct space_op *op;
    struct space_answer answer;
    struct lab_mark began, ended;
    bool refused; /* memory was refused to it */
};

static struct call calls[LAB_THREADS][SPACE_CALLS];
static unsigned call_count[LAB_THREADS]; /* complete; the one after them may have begun */
static bool begun[LAB_THREADS];
static struct space_state at_start;

/* Plain words: of each thread in LW, of each in GR, of who is in GW, of who has the unit, of who tells. */
struct words {
    uint64_t local[LAB_THREADS], global[LAB_THREADS], whole, unit, told;
};
static struct words *words;
static struct iva_counter *counter;
static struct iva_hold *held; /* at the start, by thread 0 */

static uint16_t page_of(const struct iva_view *view, unsigned page) {
    uint64_t f = view->flags, offset = view->offset / PAGE + page - view->start / PAGE;
    uint16_t p = (uint16_t)(IS_MAPPED | (f & IVA_RIGHTS) << 1);
    if (f & IVA_SHARED) p |= IS_SHARED;
    if (f & IVA_GROWSDOWN) p |= IS_STACK;
    if (f & IVA_LOCKED) p |= IS_LOCKED;
    if (f & IVA_DONTFORK) p |= NOT_FORKED;
    if (view->object) p = (uint16_t)(p + OBJECT * view->object + OFFSET * offset);
    return p;
}

static unsigned page_up(uint64_t address) { return (unsigned)((address + PAGE - 1) / PAGE); }

static void note(struct space_answer *answer, const struct iva_view *view) {
    answer->start = (unsigned)(view->start / PAGE);
    answer->end = (unsigned)(view->end / PAGE);
    answer->found = page_of(view, answer->start);
}

static int do_map(const struct space_op *op, struct space_answer *answer) {
    struct owned *owned = lab_malloc(sizeof *owned);
    struct iva_map_request q = {.host = &owned, .access = IVA_RIGHTS};
    uint64_t address = 0;
    int r;
    if (!owned) return IVA_ENOMEM;
    lab_plain(&owned->value, 8, true);
    q.address = op->kind == S_ANY ? 0 : AT(op->a);
    q.length = op->kind == S_ANY ? AT(op->a) : AT(op->b - op->a);
    q.rights = op->page >> 1 & IVA_RIGHTS;
    q.flags = op->page & IS_SHARED ? IVA_MAP_SHARED : IVA_MAP_PRIVATE;
    if (op->kind == S_MAP) q.flags |= IVA_MAP_FIXED;
    if (op->kind == S_FREE) q.flags |= IVA_MAP_FIXED_NOREPLACE;
    if (op->page & IS_STACK) q.flags |= IVA_MAP_GROWSDOWN;
    if (op->page & IS_LOCKED) q.flags |= IVA_MAP_LOCKED;
    q.object = (op->page & OBJECTS) / OBJECT;
    if (!q.object) q.flags |= IVA_MAP_ANONYMOUS;
    q.offset = AT((op->page & OFFSETS) / OFFSET);
    r = iva_space_map(subject_space, &q, &address);
    if (r) lab_free(owned);
    answer->place = (unsigned)(address / PAGE);
    return r;
}

static int do_remap(const struct space_op *op, struct space_answer *answer) {
    unsigned flags = op->d ? IVA_REMAP_MAYMOVE : 0, wanted = op->c;
    uint64_t address = 0, target = 0;
    int r;
    if (op->kind != S_RESIZE) {
        flags = IVA_REMAP_MAYMOVE | IVA_REMAP_FIXED | (op->kind == S_KEEP ? IVA_REMAP_DONTUNMAP : 0);
        wanted = op->d ? op->d : op->b - op->a;
        target = AT(op->c);
    }
    r = iva_space_remap(subject_space, AT(op->a), AT(op->b - op->a), AT(wanted), flags, target, &address);
    answer->place = (unsigned)(address / PAGE);
    return r;
}

static void hear(bool can) {
    if (can) lab_plain(&words->told, 8, false);
}

static int do_query(const struct space_op *op, struct space_answer *answer) {
    struct iva_area *area;
    struct iva_view view;
    if (op->kind == S_NEXT) {
        int r = iva_space_query_next(subject_space, AT(op->a), &view);
        if (r == 0) note(answer, &view);
        return 0;
    }
    ivs_map_read_enter(subject_map);
    area = iva_space_query_rcu(subject_space, AT(op->a));
    if (area) {
        iva_area_view(subject_space, area, &view);
        note(answer, &view);
        lab_plain(&owned_by(&view)->value, 8, false);
    }
    ivs_map_read_exit(subject_map);
    hear(op->kind == S_HEAR && answer->found == op->page);
    return 0;
}

static int note_area(void *ctx, const struct iva_view *view) {
    struct space_answer *answer = ctx;
    for (unsigned at = (unsigned)(view->start / PAGE); at < view->end / PAGE; at++)
        answer->page[at] = page_of(view, at);
    return 0;
}

static uint64_t note_areas(struct iva_space *space, struct space_answer *answer) {
    LAB_CHECK(iva_space_iterate(space, 0, AT(SPACE_PAGES), note_area, answer) == 0, "iterate");
    uint64_t n = 0;
    for (unsigned i = 0; i < SPACE_PAGES; i++) n += answer->page[i] != 0;
    return n;
}

static int do_snap(const struct space_op *op, struct space_answer *answer) {
    struct iva_hold hold;
    uint64_t n, locked = 0;
    LAB_CHECK(iva_gate_lock(iva_space_gate(subject_space), op->kind == S_SNAP ? IVA_GR : IVA_GW, &hold) == 0, "gate");
    n = note_areas(subject_space, answer);
    for (unsigned i = 0; i < SPACE_PAGES; i++) locked += (answer->page[i] & IS_LOCKED) != 0;
    if (iva_counter_read(&subject_space->total_) != n || iva_counter_read(&subject_space->locked_) != locked)
        lab_fail("with the gate held, the accounts are not the sums over the areas");
    return iva_gate_unlock(&hold);
}

static int do_fork(struct space_answer *answer) {
    struct iva_space *child = lab_malloc(sizeof *child);
    struct iva_report report;
    int r;
    if (!child) return IVA_ENOMEM;
    r = iva_space_fork(subject_space, child, NULL);
    if (r == 0) {
        (void)note_areas(child, answer);
        if (iva_space_validate(child, &report)) lab_fail("child: %s", report.check);
        r = iva_space_destroy(child);
    }
    lab_free(child);
    return r;
}

static int do_touch(const struct space_op *op, struct space_answer *answer) {
    struct iva_view view;
    int r = iva_space_touch(subject_space, AT(op->a), IVA_READ, &view);
    if (r == 0 || r == IVA_EACCES) note(answer, &view);
    return r;
}

static int do_stats(const struct space_op *op, struct space_answer *answer) {
    struct iva_space_stats stats;
    int r = iva_space_get_stats(subject_space, &stats);
    answer->place = page_up(stats.brk);
    answer->found = stats.future ? IS_LOCKED : 0;
    hear(op->a ? stats.brk % PAGE != 0 : answer->found != 0);
    return r;
}

/* Who may be in together does not race here; who may not does. */
static void act(unsigned mode) {
    unsigned me = lab_thread();
    lab_plain(&words->whole, 8, mode == IVA_GW);
    if (mode == IVA_GW) words->whole = 1;
    for (unsigned t = 0; t < LAB_THREADS; t++) {
        if (mode == IVA_GR || mode == IVA_GW || (mode == IVA_LW && t == me))
            lab_plain(&words->local[t], 8, mode != IVA_GR);
        if (mode == IVA_LW || mode == IVA_GW || (mode == IVA_GR && t == me))
            lab_plain(&words->global[t], 8, mode != IVA_LW);
    }
    if (mode == IVA_GR) words->global[me] = 1;
}

static int do_gate(const struct space_op *op) {
    struct iva_gate *gate = iva_space_gate(subject_space);
    struct iva_hold hold;
    int r = 0;
    if (op->d == 1) return iva_gate_lock(gate, op->a, held);
    if (op->d == 2) {
        act(held->mode_);
        return iva_gate_unlock(held);
    }
    if (op->kind != S_GATE) r = iva_gate_trylock(gate, op->a, &hold);
    if (op->kind == S_TRYGATE && r) return r;
    if (op->kind == S_GATE || r) {
        bool behind = r;
        r = iva_gate_lock(gate, op->a, &hold);
        if (r) return r;
        act(op->a);
        LAB_CHECK(!behind || words->whole || words->global[1], "a local overtakes a global that waits");
        return iva_gate_unlock(&hold);
    }
    act(op->a);
    return iva_gate_unlock(&hold);
}

static int do_unit(void) {
    int r = iva_counter_charge(counter, 1);
    if (r) return r;
    lab_plain(&words->unit, 8, true);
    iva_counter_uncharge(counter, 1);
    return 0;
}

static int do_change(const struct space_op *op) {
    struct iva_space *space = subject_space;
    uint64_t at = AT(op->a), bytes = AT(op->b - op->a);
    if (op->kind == S_TELL || op->d) lab_plain(&words->told, 8, true);
    switch (op->kind) {
    case S_UNMAP: return iva_space_unmap(space, at, bytes);
    case S_TELL:
    case S_PROTECT: return iva_space_protect(space, at, bytes, op->page >> 1 & IVA_RIGHTS);
    case S_DONTFORK: return iva_space_advise(space, at, bytes, IVA_ADVISE_DONTFORK);
    case S_LOCK: return iva_space_lock(space, at, bytes, 0);
    case S_UNLOCK: return iva_space_unlock(space, at, bytes);
    case S_LOCKALL: return op->a ? iva_space_lock_all(space, op->a) : iva_space_unlock_all(space);
    case S_LIMIT: return iva_space_set_limit(space, op->a, op->a == IVA_LIMIT_AREAS ? op->b : AT(op->b));
    default: return 0;
    }
}

static void run_op(const struct space_op *op, struct space_answer *answer) {
    now[lab_thread()] = op->kind;
    switch (op->kind) {
    case S_MAP:
    case S_FREE:
    case S_HINT:
    case S_ANY: answer->result = do_map(op, answer); break;
    case S_RESIZE:
    case S_MOVE:
    case S_KEEP: answer->result = do_remap(op, answer); break;
    case S_BRK:
        if (op->d) lab_plain(&words->told, 8, true);
        answer->place = page_up(iva_space_brk(subject_space, AT(op->a) - (op->d ? PAGE / 2 : 0)));
        break;
    case S_QUERY:
    case S_HEAR:
    case S_NEXT: answer->result = do_query(op, answer); break;
    case S_SNAP:
    case S_WHOLE: answer->result = do_snap(op, answer); break;
    case S_FORK: answer->result = do_fork(answer); break;
    case S_TOUCH: answer->result = do_touch(op, answer); break;
    case S_STATS: answer->result = do_stats(op, answer); break;
    case S_GATE:
    case S_TRYGATE:
    case S_BEHIND: answer->result = do_gate(op); break;
    case S_UNIT: answer->result = do_unit(); break;
    case S_CHARGE: answer->result = iva_counter_charge(counter, op->a); break;
    case S_UNCHARGE: iva_counter_uncharge(counter, op->a); break;
    case S_BOUND: answer->result = iva_counter_set_limit(counter, op->a); break;
    case S_READ: answer->place = (unsigned)iva_counter_read(counter); break;
    case S_RECLAIM: (void)ivs_domain_reclaim(ivs_map_domain(subject_map)); break;
    default: answer->result = do_change(op); break;
    }
}

/* ---------------------------------------------------------------- is the history explained? */

enum { DEPTH = 3 * SPACE_CALLS * 2 + 2 };

struct node {
    struct space_state state;
    unsigned at[3];
    bool half[3];
};
static struct node path[DEPTH + 1];
static struct space_state final;
static const struct script *script_now;

static bool is_begun(unsigned t, unsigned i) { return i < call_count[t] + begun[t]; }

static bool overlap(unsigned t, unsigned i, unsigned u, unsigned j) {
    if (j < call_count[u] && lab_before(&calls[u][j].ended, &calls[t][i].began)) return false;
    return i >= call_count[t] || !lab_before(&calls[t][i].ended, &calls[u][j].began);
}

/* What others may have charged meanwhile, and were about to commit. */
static unsigned charged_by_others(unsigned t, unsigned i) {
    unsigned sum = 0, lo[2], hi[2];
    for (unsigned u = 0; u < 3; u++)
        for (unsigned j = 0; u != t && is_begun(u, j); j++) {
            const struct space_op *op = calls[u][j].op;
            if (!overlap(t, i, u, j)) continue;
            space_reach(op, &calls[u][j].answer, lo, hi);
            if (op->kind == S_UNIT || op->kind == S_GATE || op->kind == S_BEHIND || op->kind == S_TRYGATE) sum++;
            else if (op->kind < S_QUERY) sum += hi[0] - lo[0] + hi[1] - lo[1] + 1;
        }
    return sum;
}

static unsigned bounds_meanwhile(unsigned t, unsigned i, uint8_t *bounds) {
    unsigned n = 0;
    bool any = false;
    for (unsigned u = 0; u < 3; u++)
        for (unsigned j = 0; u != t && is_begun(u, j); j++) {
            if (calls[u][j].op->kind != S_BOUND) continue;
            bounds[n++] = calls[u][j].op->a;
            any |= overlap(t, i, u, j);
        }
    bounds[n++] = at_start.bound;
    return any ? n : 0;
}

/* Have all calls that ended before this one began been made at this node? */
static bool may_have_begun(const struct node *node, unsigned t) {
    const struct call *call = &calls[t][node->at[t]];
    for (unsigned u = 0; u < 3; u++)
        if (u != t && node->at[u] < call_count[u] && lab_before(&calls[u][node->at[u]].ended, &call->began))
            return false;
    return true;
}

/* Between its two commits a move holds both ranges. */
static bool held_back(const struct node *node, unsigned t) {
    unsigned lo[2], hi[2], from[2], to[2];
    space_reach(calls[t][node->at[t]].op, &calls[t][node->at[t]].answer, lo, hi);
    for (unsigned u = 0; u < 3; u++) {
        if (u == t || !node->half[u] || calls[u][node->at[u]].op->kind == S_TOUCH) continue;
        space_reach(calls[u][node->at[u]].op, &calls[u][node->at[u]].answer, from, to);
        for (unsigned i = 0; i < 4; i++)
            if (lo[i & 1] < to[i >> 1] && from[i >> 1] < hi[i & 1]) return true;
    }
    return false;
}

static bool explained(unsigned depth);

/* The next call of thread t, or its next part, in each way in which it may come. */
static bool explained_by(unsigned depth, unsigned t, const struct space_answer *answer) {
    const struct node *node = &path[depth];
    const struct call *call = &calls[t][node->at[t]];
    const struct space_state *since[DEPTH + 1];
    uint8_t bounds[2 * SPACE_CALLS + 1];
    struct space_context context = {.since = since, .half = node->half[t], .bounds = bounds};
    unsigned from = depth, slack = charged_by_others(t, node->at[t]);
    bool failed = answer->result < 0 || call->op->kind == S_BRK;
    while (from > 0 && path[from - 1].at[t] == node->at[t] && may_have_begun(&path[from - 1], t)) from--;
    for (unsigned i = from; i <= depth; i++) since[context.states++] = &path[i].state;
    context.bound_count = bounds_meanwhile(t, node->at[t], bounds);
    if (depth + 1 > DEPTH) lab_fail("limit of the lab: a long history");
    for (unsigned way = 0; way < 3; way++) {
        enum space_verdict v;
        if (way == 1 && (!failed || !slack)) continue;
        if (way == 2 && !(failed && call->refused && (answer->result == IVA_ENOMEM || call->op->kind == S_BRK)))
            continue;
        context.slack = way == 1 ? slack : 0;
        context.nothing = way == 2;
        path[depth + 1] = *node;
        v = space_explains(call->op, answer, &context, &path[depth + 1].state);
        if (v == SPACE_NO) continue;
        path[depth + 1].half[t] = v == SPACE_HALF;
        if (v == SPACE_WHOLE) path[depth + 1].at[t]++;
        if (explained(depth + 1)) return true;
    }
    return false;
}

/* A call that a thread stopped in: it came with some answer, or not at all. */
static bool explained_pending(unsigned depth, unsigned t) {
    static const int results[] = {0, IVA_ENOMEM};
    struct space_answer answer = calls[t][path[depth].at[t]].answer;
    for (unsigned i = 0; i < 2 * SPACE_PAGES; i++) {
        answer.result = results[i & 1];
        answer.place = i / 2;
        if (explained_by(depth, t, &answer)) return true;
    }
    return false;
}

static bool explained(unsigned depth) {
    const struct node *node = &path[depth];
    bool all = true;
    for (unsigned t = 0; t < 3; t++) {
        bool done = node->at[t] < call_count[t];
        if (!is_begun(t, node->at[t])) continue;
        all &= !done;
        if (!may_have_begun(node, t) || held_back(node, t)) continue;
        if (done ? explained_by(depth, t, &calls[t][node->at[t]].answer) : explained_pending(depth, t)) return true;
    }
    return all && memcmp(node->state.page, final.page, sizeof final.page) == 0 && node->state.brk == final.brk;
}

/* ---------------------------------------------------------------- the program of a script */

static void read_space(struct space_state *state) {
    struct space_answer answer = {0};
    struct iva_space_stats stats;
    (void)note_areas(subject_space, &answer);
    memcpy(state->page, answer.page, sizeof state->page);
    LAB_CHECK(iva_space_get_stats(subject_space, &stats) == 0, "stats");
    state->brk = (uint8_t)page_up(stats.brk);
}

static void begin_state(const struct script *script) {
    const uint8_t base = script->nature & HEAP ? 6 : 0;
    const struct space_state none = {.base = base, .brk = base, .guard = script->nature & GUARD ? 1 : 0, .bound = 2};
    at_start = none;
    at_start.stack = SPACE_NO_LIMIT;
    memset(at_start.limit, SPACE_NO_LIMIT, sizeof at_start.limit);
    for (const struct space_op *op = script->init; op->kind; op++) {
        struct space_answer answer = {0};
        const struct space_state *since = &at_start;
        struct space_context context = {.since = &since, .states = 1};
        enum space_verdict v;
        run_op(op, &answer);
        while ((v = space_explains(op, &answer, &context, &at_start)) == SPACE_HALF) context.half = true;
        if (v == SPACE_NO) lab_fail("setup: kind %d answers %d", op->kind, answer.result);
    }
}

static void warm_up(void) {
    ivs_map_read_enter(subject_map);
    ivs_map_read_exit(subject_map);
}

static void script_setup(const void *data) {
    const struct script *script = data;
    struct iva_space_config config = {.lo = AT(SPACE_LO),
                                      .hi = AT(SPACE_PAGES),
                                      .page_shift = 4,
                                      .guard = script->nature & GUARD ? PAGE : 0,
                                      .brk = script->nature & HEAP ? AT(6) : 0,
                                      .ops = &host,
                                      .host_bytes = 8,
                                      .heap = &heap_bytes,
                                      .seed = 7};
    script_now = script;
    pages = lab_malloc(SPACE_PAGES * sizeof *pages);
    words = lab_malloc(sizeof *words);
    counter = lab_malloc(sizeof *counter);
    held = lab_malloc(sizeof *held);
    subject_space = lab_malloc(sizeof *subject_space);
    memset(words, 0, sizeof *words);
    memset(held, 0, sizeof *held);
    if (iva_space_init(subject_space, &config) || iva_counter_init(counter, 2)) lab_fail("init");
    subject_map = iva_space_map_of(subject_space);
    memset(call_count, 0, sizeof call_count);
    memset(begun, 0, sizeof begun);
    begin_state(script);
    for (unsigned t = 0; t < 3 && script->t[t][0].kind; t++) lab_prepare(t, warm_up);
}

static void script_body(const void *data, unsigned me) {
    const struct script *script = data;
#if defined(LAB_HOST)
    if (me == 3 || !script->t[me][0].kind) {
        LAB_PORT_THREAD();
        return;
    }
#endif
    for (unsigned i = 0; i < SPACE_CALLS && script->t[me][i].kind; i++) {
        struct call *call = &calls[me][i];
        *call = (struct call){.op = &script->t[me][i]};
        unsigned before = lab_refusals();
        begun[me] = true;
        lab_mark_at_step(&call->began);
        run_op(call->op, &call->answer);
        lab_mark_at_step(NULL);
        call->ended = lab_mark();
        call->refused = lab_refusals() != before;
        begun[me] = false;
        call_count[me]++;
    }
}

static void history(char *text, size_t size) {
    size_t used = 0;
    for (unsigned t = 0; t < 3; t++)
        for (unsigned i = 0; is_begun(t, i) && used + 60 < size; i++) {
            const struct call *c = &calls[t][i];
            char op[32];
            space_text(c->op, op, sizeof op);
            used += (size_t)snprintf(text + used, size - used, " t%u %s", t, op);
            if (i == call_count[t]) used += (size_t)snprintf(text + used, size - used, "...");
            else if (c->answer.found)
                used += (size_t)snprintf(text + used, size - used, "=[%u,%u):%x", c->answer.start, c->answer.end,
                                         c->answer.found);
            else used += (size_t)snprintf(text + used, size - used, "=%d@%u", c->answer.result, c->answer.place);
        }
}

static void check_history(void) {
    char text[220] = "";
    read_space(&final);
    memset(path, 0, sizeof path[0]);
    path[0].state = at_start;
    if (explained(0)) return;
    history(text, sizeof text);
    lab_fail("not linearizable:%s", text);
}

/* One thread stopped for ever: what the others were told must fit all the same. */
static void script_stopped(const void *data) {
    (void)data;
    check_history();
}

static void script_finish(const void *data) {
    struct iva_report report;
    int r;
    (void)data;
    if (iva_space_validate(subject_space, &report))
        lab_fail("%s: %u, not %u", report.check, (unsigned)report.found, (unsigned)report.wanted);
    check_history();
    r = iva_space_destroy(subject_space);
    if (r) lab_fail("destroy: %d", r);
    lab_free(subject_space);
    lab_free(held);
    lab_free(counter);
    lab_free(words);
    lab_free(pages);
    subject_map = NULL;
    subject_space = NULL;
}

static void script_dump(void) {
    if (!subject_map) return;
    printf("  the areas (of the newest values):\n");
    for (const struct ivs_node *n = (const struct ivs_node *)(subject_map->head_.next_ & ~(uintptr_t)7); n;
         n = (const struct ivs_node *)(n->next_ & ~(uintptr_t)7)) {
        const struct iva_area *area = iva_area_of(n);
        if (n->start > n->last) continue;
        printf("    pages [%u,%u) flags %llx object %u offset %u link flags %u\n", (unsigned)(n->start / PAGE),
               (unsigned)(n->last / PAGE) + 1, (unsigned long long)lab_newest(&area->flags_, 8), (unsigned)n->value_,
               (unsigned)(area->offset_ / PAGE), (unsigned)(n->next_ & 7));
    }
}

static bool reads(const struct space_op *op) { return op->kind == S_QUERY || op->kind == S_NEXT || op->kind == S_HEAR; }

size_t space_programs(void) { return SCRIPTS; }

struct entry space_program(size_t i) {
    const struct script *script = &scripts[i];
    struct entry entry = {.sc_only = script->nature & SC_ONLY, .deep = script->nature & DEEP};
    entry.part = strncmp(script->name, "space:", 6) == 0 ? 16 : 4;
    entry.pct_part = 5;
    entry.program = (struct lab_program){.name = script->name,
                                         .data = script,
                                         .setup = script_setup,
                                         .body = script_body,
                                         .finish = script_finish,
                                         .stopped = script_stopped,
                                         .dump = script_dump};
    while (entry.program.threads < 3 && script->t[entry.program.threads][0].kind) entry.program.threads++;
    for (unsigned t = 0; t < entry.program.threads; t++) {
        bool others_read = true;
        for (unsigned u = 0; u < 3; u++)
            for (unsigned k = 0; u != t && k < SPACE_CALLS && script->t[u][k].kind; k++)
                others_read &= reads(&script->t[u][k]);
        entry.may_stop[t] = others_read || script->nature & STRANGERS;
    }
#if defined(LAB_HOST)
    entry.program.threads++; /* the one that runs callbacks */
#endif
    return entry;
}
