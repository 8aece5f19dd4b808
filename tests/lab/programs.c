/* SPDX-License-Identifier: MIT */
/*
 * Programs on the map: up to three threads with a few operations each, over keys 0..15, with chosen tower
 * heights. Each execution ends with: all levels valid, all memory back, and a history for which some order of the
 * operations explains every answer and the final content (linearizability: Herlihy and Wing, TOPLAS 1990; the order
 * must respect real time where every load reads the newest value, and happens-before in weak memory).
 */
#include "run.h"

#if defined(LAB_HOST)
#define IVSKIP_RCU HOST
#ifndef LAB_PORT
#define LAB_PORT "lab_port.h"
#endif
#define IVSKIP_CONFIG LAB_PORT
#endif
#include "ivskip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LAB_PORT_THREAD
#define LAB_PORT_THREAD() lab_rcu_thread()
#endif

extern struct ivs_map *subject_map;
#if !defined(LAB_HOST)
extern bool subject_no_records; /* threads get no memory for records, */
extern bool subject_no_nodes[]; /* and this one none for nodes */
#endif

#define KINDS(K)                                                                                                       \
    K(NONE)                                                                                                            \
    K(MAP)                                                                                                             \
    K(UNMAP)                                                                                                           \
    K(INSERT)                                                                                                          \
    K(ALLOC)                                                                                                           \
    K(QUERY)                                                                                                           \
    K(NEXT) K(FOLLOW) K(ENTER) K(LEAVE) K(SWAP) K(PAIR) K(VALUE) K(TRYLOCK) K(TIMED) K(HOLD) K(GONE) K(DEFER)          \
        K(RECLAIM) K(BARRIER) K(LOOK) K(LINGER) K(DROP) K(TAKE) K(TUNE) K(SYNCHRONIZE) K(GIVE) K(ALONE) K(SHARE)       \
            K(TRY) K(SOON) K(DOWN) K(UP) K(ASYNC) K(SET) K(HELD) K(FREE) K(END) K(TURN) K(OWN)
#define KIND_(k) k,
enum kind { KINDS(KIND_) };

struct op {
    enum kind kind;
    unsigned a, b, v, h;
};

/* The words of programs. Values are 1..15; heights 1..4, or 0: by value, with a tower that the map draws. */
/* clang-format off */
#define M(lo, hi, v, h)   {MAP, lo, hi, v, h}
#define U(lo, hi)         {UNMAP, lo, hi, 0, 0}
#define I(lo, hi, v, h)   {INSERT, lo, hi, v, h}
#define A(size, hi, v, h) {ALLOC, size, hi, v, h} /* in the window [0, hi) */
#define Q(key)            {QUERY, key, 0, 0, 0}
#define N(key)            {NEXT, key, 0, 0, 0}
#define E                 {ENTER, 0, 0, 0, 0}     /* a read section, in which Q, N and F find nodes, */
#define F                 {FOLLOW, 0, 0, 0, 0}    /* go on from what N or F found last, */
#define L                 {LEAVE, 0, 0, 0, 0}     /* and all that was found is read once more */
#define S(lo, hi, v, h)   {SWAP, lo, hi, v, h}    /* lock, swap in one node; it must cover whole nodes */
#define P(lo, hi, v, h)   {PAIR, lo, hi, v, h}    /* the same with two nodes, [lo, lo + 1) and the rest */
#define V(lo, hi, v)      {VALUE, lo, hi, v, 0}   /* in place; [lo, hi) is a node */
#define T(lo, hi)         {TRYLOCK, lo, hi, 0, 0}
#define W(lo, hi)         {TIMED, lo, hi, 0, 0}   /* lock with a time-out, unlock */
#define X(lo, hi)         {HOLD, lo, hi, 0, 0}    /* lock, unlock */
#define Z(lo, hi)         {GONE, lo, hi, 0, 0}    /* unmap whole nodes, synchronize, write to what their values led to */
#define G                 {GIVE, 0, 0, 0, 0}      /* any thread may go on, for free */
#define R                 {RECLAIM, 0, 0, 0, 0}
#define Tune              {TUNE, 0, 16, 0, 0}     /* a new entry table */
#define D                 {DEFER, 0, 0, 0, 0}     /* a callback that counts */
#define B                 {BARRIER, 0, 0, 0, 0}   /* what was deferred before must have run */
/* The domain alone, without the map: two slots of the board lead to plain memory. */
#define Look(slot)        {LOOK, slot, 0, 0, 0}   /* a read section: read the slot, and what it leads to */
#define Linger(slot)      {LINGER, slot, 0, 0, 0} /* the same; others may go on, for free, before it ends */
#define Drop(slot)        {DROP, slot, 0, 0, 0}   /* clear the slot, defer the end of what it led to */
#define Take(slot)        {TAKE, slot, 0, 0, 0}   /* clear the slot, synchronize, end it */
#define Sync              {SYNCHRONIZE, 0, 0, 0, 0}
/* A range lock: who is alone writes to the words of its keys, who shares reads them. */
#define Alone(lo, hi)     {ALONE, lo, hi, 0, 0}   /* exclusive, release */
#define Share(lo, hi)     {SHARE, lo, hi, 0, 0}   /* shared, release */
#define Try(lo, hi)       {TRY, lo, hi, 0, 0}     /* exclusive, if it is free */
#define Soon(lo, hi)      {SOON, lo, hi, 0, 0}    /* exclusive, with a time-out */
#define Down(lo, hi)      {DOWN, lo, hi, 0, 0}    /* exclusive, downgrade, release */
#define Up(lo, hi)        {UP, lo, hi, 0, 0}      /* shared, upgrade if it is alone, release */
#define Async(lo, hi)     {ASYNC, lo, hi, 0, 0}   /* exclusive by a callback that releases; cancel */
#define Set(a, b)         {SET, a, b, 0, 0}       /* two keys at once, in either order */
#define Held(lo, hi, t, mode) {HELD, lo, hi, t, mode} /* at the start: thread t holds it, */
#define Free              {FREE, 0, 0, 0, 0}      /* and lets it go */
#define End(lo, hi)       {END, lo, hi, 0, 0}     /* exclusive, release, destroy the lock, free its memory */
#define Turn(t, lo, hi, n) {TURN, lo, hi, t, n}   /* if n wait, shared newcomers are refused; then lets go what t holds */
#define Own(lo, hi, mode) {OWN, lo, hi, 0, mode}  /* with storage, without memory; release, and write to the storage */
/* clang-format on */

enum {
    ORDINARY = 0,
    SC_ONLY = 1,   /* a shape that C11 release and acquire alone does not order (store buffering over two nodes) */
    STRANGERS = 2, /* no thread wants what another holds: each must finish if another stops for ever */
    WARM = 4,      /* each thread used the domain before: it has a record, so the program is shorter */
    DEEP = 8,      /* worth more time */
    TABLE = 16,    /* there is an entry table at the start */
    CROWD = 32,    /* no thread gets a record */
};

struct script {
    const char *name;
    struct op init[6];
    struct op t[3][10];
    unsigned nature;
};

static const struct script scripts[] = {
    {"two nodes, one commit", {I(1, 2, 1, 1), I(2, 3, 1, 2)}, {{P(1, 3, 2, 2)}, {Q(1), Q(2), Q(1)}}, ORDINARY},
    {"two nodes, one commit, read backwards",
     {I(1, 2, 1, 2), I(2, 3, 1, 1)},
     {{P(1, 3, 2, 3)}, {Q(2), Q(1), Q(2)}},
     ORDINARY},
    {"map against insert in front", {I(2, 4, 1, 1)}, {{M(3, 4, 2, 2)}, {I(1, 2, 3, 1)}}, ORDINARY},
    {"map against tall insert in front", {I(2, 4, 1, 1)}, {{M(3, 4, 2, 2)}, {I(1, 2, 3, 2)}}, ORDINARY},
    {"tall replace against tall insert",
     {I(0, 1, 1, 2), I(2, 3, 1, 1), I(4, 6, 1, 2)},
     {{M(4, 6, 2, 2), Q(5)}, {I(1, 2, 3, 2)}},
     ORDINARY},
    {"short replace against tall insert",
     {I(0, 1, 1, 2), I(2, 3, 1, 1), I(4, 6, 1, 2)},
     {{M(4, 6, 2, 1), Q(5)}, {I(1, 2, 3, 2)}},
     ORDINARY},
    {"tall replace against insert and a reader",
     {I(2, 3, 1, 1), I(4, 6, 1, 2)},
     {{M(4, 6, 2, 2)}, {I(1, 2, 3, 2)}, {Q(5), Q(4)}},
     ORDINARY},
    {"neighbours replaced, a reader",
     {I(1, 2, 1, 2), I(2, 3, 1, 1)},
     {{M(1, 2, 2, 2)}, {M(2, 3, 3, 2)}, {Q(1), Q(2), Q(1)}},
     ORDINARY},
    {"neighbours unmapped",
     {I(1, 2, 1, 2), I(2, 3, 1, 2), I(3, 4, 1, 1)},
     {{U(1, 2)}, {U(2, 3)}, {N(0), N(0)}},
     ORDINARY},
    {"helping keeps the order",
     {I(1, 2, 1, 3), I(3, 4, 1, 1), I(5, 6, 1, 2)},
     {{M(1, 2, 2, 1)}, {M(5, 6, 3, 1), Q(5)}},
     ORDINARY},
    {"tall neighbours unmapped, a reader",
     {I(1, 2, 1, 3), I(2, 3, 1, 3)},
     {{U(1, 2)}, {U(2, 3)}, {Q(2), Q(1)}},
     ORDINARY},
    {"new tower, replaced at once", {I(0, 1, 1, 2), I(3, 4, 1, 3)}, {{I(1, 2, 2, 3)}, {M(1, 2, 3, 2), Q(1)}}, ORDINARY},
    {"two tall inserts side by side", {I(5, 6, 1, 2)}, {{I(1, 2, 2, 3)}, {I(3, 4, 3, 3)}, {N(1), N(3)}}, ORDINARY},
    {"two tall inserts, a short node between",
     {I(2, 3, 1, 1), I(5, 6, 1, 2)},
     {{I(1, 2, 2, 3)}, {I(3, 4, 3, 3)}},
     ORDINARY},
    {"insert that slides over two", {I(8, 9, 1, 1)}, {{I(1, 2, 2, 1), I(2, 3, 2, 1)}, {I(4, 5, 3, 1)}}, ORDINARY},
    {"two inserts, one place", {I(0, 1, 1, 1)}, {{I(1, 3, 2, 2), Q(1)}, {I(2, 4, 3, 2), Q(2)}}, ORDINARY},
    {"insert against unmap of the blocker", {I(1, 3, 1, 2)}, {{I(2, 4, 2, 2)}, {U(1, 3), Q(2)}}, ORDINARY},
    {"overlapping maps", {I(0, 6, 1, 2)}, {{M(1, 4, 2, 1)}, {M(3, 5, 3, 1)}}, ORDINARY},
    {"overlapping maps, a reader", {I(0, 6, 1, 1)}, {{M(1, 4, 2, 2)}, {M(3, 5, 3, 1)}, {Q(3), Q(3)}}, ORDINARY},
    {"the hole in the middle", {I(0, 6, 1, 2)}, {{U(2, 4)}, {Q(3), Q(5), Q(1)}}, ORDINARY},
    {"unmap of many", {I(0, 2, 1, 2), I(2, 4, 2, 1), I(4, 6, 3, 3)}, {{U(1, 5)}, {Q(4), Q(3), Q(1)}}, ORDINARY},
    {"unmap of many, read upward",
     {I(0, 2, 1, 1), I(2, 4, 2, 3), I(4, 6, 3, 2)},
     {{U(1, 5)}, {Q(1), Q(3), Q(4), Q(5)}},
     ORDINARY},
    {"split and merge", {I(0, 6, 1, 2)}, {{M(2, 4, 2, 1), M(0, 6, 3, 2)}, {Q(3), Q(5)}}, ORDINARY},
    {"two allocs, one place", {I(0, 1, 1, 2), I(2, 4, 1, 1)}, {{A(1, 4, 2, 1)}, {A(1, 4, 3, 2)}}, ORDINARY},
    {"two allocs, two places", {I(0, 1, 1, 1), I(3, 4, 1, 1)}, {{A(1, 4, 2, 2)}, {A(1, 4, 3, 1)}}, ORDINARY},
    {"alloc against replace before", {I(0, 1, 1, 1), I(2, 4, 1, 1)}, {{A(1, 4, 2, 1)}, {M(0, 1, 3, 2)}}, ORDINARY},
    {"alloc against replace after", {I(0, 1, 1, 1), I(2, 4, 1, 2)}, {{A(1, 4, 2, 1)}, {M(2, 4, 3, 1)}}, ORDINARY},
    {"alloc against unmap", {I(0, 1, 1, 1), I(1, 2, 1, 1), I(2, 4, 1, 1)}, {{A(1, 4, 2, 1)}, {U(1, 2)}}, ORDINARY},
    {"alloc against unmap of the first", {I(0, 1, 1, 2), I(2, 4, 1, 1)}, {{A(1, 4, 2, 1)}, {U(0, 1)}}, ORDINARY},
    {"alloc against insert", {I(0, 1, 1, 1), I(2, 4, 1, 1)}, {{A(1, 4, 2, 2)}, {I(1, 2, 3, 1)}}, ORDINARY},
    {"the hole that moves", {I(0, 1, 1, 1), I(1, 2, 1, 1)}, {{A(1, 3, 2, 1)}, {U(0, 1), I(2, 3, 3, 1)}}, ORDINARY},
    {"the restless hole",
     {I(0, 1, 1, 1), I(1, 2, 1, 1)},
     {{A(1, 3, 2, 1)}, {U(0, 1), I(2, 3, 3, 1), U(2, 3), I(0, 1, 3, 1)}},
     ORDINARY},
    {"three allocs, two places", {I(1, 2, 1, 1)}, {{A(1, 3, 2, 1)}, {A(1, 3, 3, 1)}, {A(1, 3, 4, 1)}}, ORDINARY},
    {"value in place", {I(1, 3, 1, 2)}, {{V(1, 3, 2), V(1, 3, 3)}, {Q(1), Q(2)}}, ORDINARY},
    {"value in place against a map", {I(1, 3, 1, 1)}, {{V(1, 3, 2)}, {M(1, 3, 3, 2)}, {Q(2), Q(2)}}, ORDINARY},
    {"swap against swap", {I(1, 3, 1, 2)}, {{S(1, 3, 2, 1)}, {S(1, 3, 3, 3)}, {Q(1)}}, ORDINARY},
    {"a try-lock that gives up",
     {I(0, 1, 1, 1), I(1, 2, 1, 2), I(2, 3, 1, 1)},
     {{T(0, 3), Q(2)}, {M(2, 3, 2, 2)}},
     ORDINARY},
    {"a timed lock", {I(1, 2, 1, 1)}, {{W(1, 2), M(1, 2, 2, 1)}, {M(1, 2, 3, 2)}}, ORDINARY},
    {"next over a node that goes", {I(1, 2, 1, 1), I(3, 4, 2, 2)}, {{U(1, 2), I(5, 6, 3, 1)}, {N(0), N(2)}}, ORDINARY},
    {"grace: reader, unmap, reclaim", {I(1, 2, 1, 1)}, {{U(1, 2), R}, {Q(1), Q(1)}}, ORDINARY},
    {"grace: two who retire", {I(1, 2, 1, 1), I(5, 6, 1, 1)}, {{U(1, 2), R}, {U(5, 6), R}, {Q(1), Q(5)}}, ORDINARY},
    {"barrier against a release", {I(1, 2, 1, 1)}, {{D, R}, {B, Q(1)}}, ORDINARY},
    {"barrier against a retire", {I(1, 2, 1, 1)}, {{U(1, 2), D}, {B}}, ORDINARY},
    {"grace: an advance amid an unmap", {I(1, 2, 1, 1)}, {{U(1, 2), R}, {R, Q(1)}}, ORDINARY},
    {"grace: who frees had not looked", {I(1, 2, 1, 1), I(3, 4, 1, 1)}, {{U(1, 2), U(3, 4)}, {R}, {Q(1)}}, ORDINARY},
    {"grace: a locker of two, an unmap of one", {I(1, 2, 1, 1), I(2, 3, 1, 1)}, {{T(1, 3)}, {U(1, 2), R}}, ORDINARY},
    {"grace: three threads", {I(1, 2, 1, 1), I(3, 4, 1, 1)}, {{U(1, 2), R}, {U(3, 4), R}, {Q(1), Q(3)}}, ORDINARY},
    {"section: two nodes, one commit",
     {I(1, 2, 1, 1), I(2, 3, 1, 2)},
     {{P(1, 3, 2, 2)}, {E, Q(1), Q(2), Q(1), L}},
     ORDINARY},
    {"section: unmapped amid it", {I(1, 2, 1, 1), I(2, 3, 1, 2)}, {{U(1, 2), U(2, 3), R}, {E, Q(1), Q(2), L}}, WARM},
    {"section: a scan over what goes",
     {I(1, 2, 1, 1), I(3, 4, 2, 2), I(5, 6, 3, 1)},
     {{U(3, 4), U(5, 6)}, {E, N(0), F, F, L}},
     WARM},
    {"section: a scan over what is replaced",
     {I(1, 2, 1, 2), I(2, 5, 2, 1)},
     {{M(1, 3, 3, 1), R}, {E, N(0), F, F, L}},
     WARM},
    {"section: a scan from a dead node, after the new one was seen",
     {I(1, 2, 1, 1), I(3, 4, 1, 1)},
     {{M(1, 4, 2, 1)}, {E, N(0), Q(3), F, L}},
     WARM},
    {"synchronize: value unmapped, then written", {I(1, 2, 1, 1)}, {{Z(1, 2)}, {E, Q(1), L}}, WARM | DEEP},
    {"synchronize: two readers", {I(1, 2, 1, 1), I(3, 4, 1, 2)}, {{Z(1, 4)}, {E, Q(3), L}, {E, N(0), F, L}}, WARM},
    {"synchronize: two at once", {I(1, 2, 1, 1), I(3, 4, 1, 1)}, {{Z(1, 2)}, {Z(3, 4)}, {E, Q(1), Q(3), L}}, WARM},
    {"synchronize: newcomers", {I(1, 2, 1, 1)}, {{Z(1, 2)}, {E, Q(1), L}, {R}}, ORDINARY},
    {"by value: insert, map, query",
     {I(2, 4, 1, 0)},
     {{I(0, 2, 2, 0), M(1, 3, 3, 0)}, {M(2, 4, 4, 0), Q(2)}},
     ORDINARY},
    {"by value: alloc and insert", {I(0, 1, 1, 0), I(3, 4, 1, 0)}, {{A(1, 4, 2, 0)}, {I(2, 3, 3, 0)}}, ORDINARY},
    {"exclusion: three on one gap", {{0}}, {{X(1, 2)}, {X(1, 2)}, {X(3, 4)}}, WARM | DEEP},
    {"exclusion: three on one node", {I(1, 3, 1, 1)}, {{X(1, 2)}, {X(2, 3)}, {X(0, 4)}}, WARM},
    {"exclusion: holders and a new node", {I(1, 2, 1, 2)}, {{X(3, 4)}, {I(3, 4, 2, 2)}, {X(1, 2), X(5, 6)}}, WARM},
    {"exclusion: holders and an unmap",
     {I(1, 2, 1, 2), I(2, 3, 1, 1)},
     {{X(1, 3)}, {U(1, 2)}, {T(2, 3), W(0, 1)}},
     WARM},
    {"a try-lock of strangers",
     {I(0, 1, 1, 1), I(2, 3, 1, 2), I(4, 5, 1, 1), I(6, 7, 1, 2)},
     {{T(0, 1), T(1, 2)}, {M(6, 7, 2, 1), T(6, 8)}},
     STRANGERS},
    {"a helper meets a node that it does not know",
     {I(2, 3, 1, 1), I(3, 4, 1, 2)},
     {{U(3, 4)}, {I(5, 6, 2, 2)}, {I(0, 1, 3, 2)}},
     WARM | DEEP},
    {"the hole that moves twice",
     {I(0, 1, 1, 1), I(1, 2, 1, 1)},
     {{A(1, 3, 2, 1)}, {U(0, 1), I(2, 3, 3, 1), G, U(2, 3), I(0, 1, 3, 1), G, U(0, 1), I(2, 3, 3, 1)}},
     WARM},
    {"domain: one drops and frees, one advances", {{0}}, {{Drop(0), Drop(1)}, {Sync}, {Look(0)}}, WARM | DEEP},
    {"domain: one drops, one advances and frees", {{0}}, {{Drop(0)}, {R}, {Look(0)}}, WARM | DEEP},
    {"domain: a late look", {{0}}, {{Drop(0)}, {R, Look(0)}}, WARM | DEEP},
    {"domain: a reader twice", {{0}}, {{Drop(0), R}, {Look(0), Look(0)}}, WARM | DEEP},
    {"domain: a tag in a hurry", {{0}}, {{Drop(0)}, {Sync}, {Look(0), Look(0)}}, WARM | DEEP},
    {"domain: one takes, one advances", {{0}}, {{Take(0)}, {Sync}, {Look(0)}}, WARM | DEEP},
    {"domain: two take", {{0}}, {{Take(0)}, {Take(1)}, {Look(0), Look(1)}}, WARM | DEEP},
    {"domain: one advance, a reader, a drop", {{0}}, {{E, G, L, Drop(0)}, {Sync, R}, {Linger(0)}}, WARM | DEEP},
    {"domain: one advance, a reader, a take", {{0}}, {{E, G, L, Take(0)}, {Sync, R}, {Linger(0)}}, WARM},
    {"barrier: who deferred has left", {{0}}, {{D}, {B}, {E, L}}, ORDINARY},
    {"domain: newcomers", {{0}}, {{Take(0)}, {R}, {Look(0)}}, ORDINARY},
    {"domain: newcomer looks", {{0}}, {{Drop(0), R}, {Look(0)}}, DEEP},
    {"table: two nodes, one commit", {I(1, 2, 1, 1), I(2, 3, 1, 2)}, {{P(1, 3, 2, 2)}, {Q(1), Q(2), Q(1)}}, TABLE},
    {"table: replaced, a reader", {I(1, 3, 1, 1), I(4, 5, 1, 1)}, {{M(4, 5, 2, 1)}, {Q(4), Q(4)}}, TABLE},
    {"table: replaced under its neighbour",
     {I(1, 2, 1, 1), I(4, 5, 1, 2)},
     {{M(4, 5, 2, 1)}, {I(5, 6, 3, 1), Q(5)}},
     TABLE},
    {"table: unmapped and inserted", {I(1, 2, 1, 1), I(4, 5, 1, 1)}, {{U(4, 5), I(4, 5, 2, 1)}, {Q(4), N(4)}}, TABLE},
    {"table: two in one chunk",
     {I(0, 1, 1, 1), I(2, 3, 1, 1)},
     {{I(4, 5, 2, 1), Q(5)}, {I(5, 6, 3, 1), U(5, 6)}},
     TABLE | WARM},
    {"table: insert, replaced at once",
     {I(0, 1, 1, 1), I(3, 4, 1, 1)},
     {{I(1, 2, 2, 1)}, {M(1, 2, 3, 1), Q(1)}},
     TABLE},
    {"table: insert into a slot, removed at once",
     {I(0, 1, 1, 1), I(2, 3, 1, 1)},
     {{I(4, 5, 2, 1)}, {U(4, 5), Q(4), Q(5)}},
     TABLE | WARM},
    {"table: alloc and unmap", {I(0, 1, 1, 1), I(4, 8, 1, 1)}, {{A(2, 8, 2, 1)}, {U(4, 8), Q(4)}}, TABLE | WARM},
    {"table: the middle of a node",
     {I(0, 1, 1, 1), I(4, 8, 1, 1)},
     {{M(5, 6, 2, 1)}, {Q(4), Q(6), Q(5)}},
     TABLE | WARM},
    {"table: a new one amid an unmap", {I(1, 2, 1, 1), I(4, 5, 1, 1)}, {{Tune}, {U(4, 5), Q(4)}}, WARM},
    {"table: another one amid an unmap", {I(1, 2, 1, 1), I(4, 5, 1, 1)}, {{Tune, Q(4)}, {U(4, 5), Q(4)}}, TABLE | WARM},
    {"table: another one, a replace and a reader",
     {I(1, 2, 1, 1), I(4, 5, 1, 1)},
     {{Tune}, {M(4, 5, 2, 1)}, {Q(4), Q(4)}},
     TABLE | WARM},
    {"table: a new one, come and gone",
     {I(1, 2, 1, 1), I(8, 9, 1, 1)},
     {{Tune}, {I(4, 5, 2, 1), U(4, 5)}, {Q(4), N(4)}},
     WARM},
    {"table: grace", {I(1, 2, 1, 1), I(4, 5, 1, 1)}, {{U(4, 5), R}, {Q(4), Q(5)}}, TABLE | WARM},
    {"table: grace of the table", {I(1, 2, 1, 1), I(4, 5, 1, 1)}, {{Tune, R}, {Q(4), Q(1)}}, TABLE | WARM},
    {"table: two who tune", {I(1, 2, 1, 1), I(4, 5, 1, 1)}, {{Tune}, {Tune, Q(4)}}, TABLE | WARM},
    {"domain: a record changes hands", {{0}}, {{E, L}, {Take(0)}, {Look(0)}}, DEEP},
    {"domain: a record changes hands twice", {{0}}, {{Look(1), Look(1)}, {Take(0)}, {Look(0)}}, DEEP},
    {"domain: a drop, a record changes hands", {{0}}, {{E, L}, {Drop(0), R}, {Look(0)}}, DEEP},
    {"crowd: one takes", {{0}}, {{Take(0)}, {Look(0), Look(0)}}, CROWD | DEEP},
    {"crowd: one takes, one advances", {{0}}, {{Take(0)}, {R}, {Look(0)}}, CROWD | DEEP},
    {"crowd: two drop", {{0}}, {{Drop(0), R}, {Drop(1), R}, {Look(0)}}, CROWD},
    {"crowd: unmap, reclaim, a reader", {I(1, 2, 1, 1)}, {{U(1, 2), R}, {Q(1), Q(1)}}, CROWD},
    {"crowd: barrier", {I(1, 2, 1, 1)}, {{U(1, 2), D}, {B, Q(1)}}, CROWD},
    {"ranges: two alone", {{0}}, {{Alone(0, 2)}, {Alone(1, 3)}}, WARM | DEEP},
    {"ranges: the first two who meet", {{0}}, {{Alone(0, 1), Alone(0, 1)}, {Share(0, 1)}}, ORDINARY},
    {"ranges: a table is made amid a release", {{0}}, {{Alone(0, 1)}, {Alone(2, 3)}}, WARM | DEEP},
    {"ranges: alone and shared", {{0}}, {{Alone(1, 2)}, {Share(0, 2)}, {Share(1, 3)}}, WARM},
    {"ranges: a waiter and a release", {Held(0, 2, 0, 2)}, {{Free}, {Alone(0, 2)}}, WARM | DEEP},
    {"ranges: two waiters and a release", {Held(0, 2, 0, 2)}, {{Free}, {Alone(0, 1)}, {Alone(0, 2)}}, WARM | DEEP},
    {"ranges: two waiters for a shared one", {Held(0, 2, 0, 1)}, {{Free}, {Alone(0, 1)}, {Alone(1, 3)}}, WARM},
    {"ranges: shared, cut while it is left", {Held(0, 3, 0, 1)}, {{Free}, {Share(1, 2)}}, WARM | DEEP},
    {"ranges: shared, cut twice, one waits", {Held(0, 3, 0, 1)}, {{Free}, {Share(1, 4)}, {Alone(2, 3)}}, WARM},
    {"ranges: the same range again", {{0}}, {{Alone(1, 2), Alone(1, 2)}, {Alone(1, 2), Share(1, 2)}}, WARM},
    {"ranges: over a piece that is free", {Held(1, 2, 0, 2)}, {{Free, Alone(1, 2)}, {Alone(0, 3)}}, WARM},
    {"ranges: try", {{0}}, {{Try(0, 2), Alone(0, 1)}, {Try(1, 3), Alone(1, 2)}}, WARM},
    {"ranges: a wait that ends by time", {Held(0, 2, 0, 2)}, {{Free}, {Soon(0, 1)}, {Alone(0, 2)}}, WARM | DEEP},
    {"ranges: two waits that end by time", {Held(0, 2, 0, 1)}, {{Free}, {Soon(0, 2)}, {Soon(1, 3), Share(1, 2)}}, WARM},
    {"ranges: downgrade", {{0}}, {{Down(0, 2)}, {Share(1, 2)}, {Alone(0, 1)}}, WARM},
    {"ranges: downgrade of one who is alone", {{0}}, {{Down(0, 2)}, {Share(1, 3)}}, WARM | DEEP},
    {"ranges: downgrade, both kinds wait",
     {Held(0, 1, 0, 2)},
     {{Down(4, 6), Free}, {Share(5, 6)}, {Alone(0, 5)}},
     WARM},
    {"ranges: upgrade", {{0}}, {{Up(0, 2)}, {Up(1, 3)}}, WARM},
    {"ranges: upgrade of one range by two", {Held(4, 5, 0, 2)}, {{Up(0, 2), Free}, {Up(0, 2)}}, WARM},
    {"ranges: upgrade and a waiter", {Held(4, 5, 0, 1)}, {{Up(0, 3), Free}, {Share(1, 2)}, {Alone(2, 5)}}, WARM},
    {"ranges: a callback", {Held(0, 2, 0, 2)}, {{Free}, {Async(0, 1)}}, WARM | DEEP},
    {"ranges: callbacks and a waiter", {Held(0, 2, 0, 2)}, {{Free}, {Async(0, 1), Async(1, 2)}, {Alone(0, 2)}}, WARM},
    {"ranges: two sets", {{0}}, {{Set(0, 4)}, {Set(4, 0)}}, WARM | DEEP},
    {"ranges: two sets and a wide one", {{0}}, {{Set(0, 4)}, {Set(4, 2)}, {Alone(0, 5)}}, WARM},
    {"ranges: destroyed after a release", {Held(0, 2, 0, 2)}, {{Free}, {End(0, 2)}}, WARM | DEEP},
    {"ranges: destroyed after a shared release", {Held(0, 2, 0, 1)}, {{Free}, {End(1, 2)}}, WARM | DEEP},
    {"ranges: destroyed after a removal", {Held(0, 2, 0, 2)}, {{Alone(6, 7), Free}, {End(0, 2)}}, WARM | DEEP},
    {"ranges: removed and taken", {Held(0, 2, 0, 2)}, {{Alone(6, 7), Free, Alone(0, 2)}, {Alone(1, 2)}}, WARM},
    {"ranges: first in the queue", {Held(0, 1, 1, 1)}, {{Alone(0, 2)}, {Turn(1, 1, 2, 1)}}, WARM | DEEP},
    {"ranges: first in the queue, for other things",
     {Held(0, 6, 1, 1)},
     {{Alone(4, 6)}, {Turn(1, 0, 1, 2)}, {Alone(0, 2)}},
     WARM},
    {"ranges: first in the queue, behind another",
     {Held(0, 6, 1, 1)},
     {{Alone(0, 3)}, {Turn(1, 4, 5, 2)}, {Alone(2, 5)}},
     WARM},
    {"ranges: nested, behind a waiter",
     {Held(0, 1, 0, 2), Held(4, 5, 2, 1)},
     {{Share(3, 4), Free}, {Alone(2, 6)}, {Free}},
     WARM},
    {"ranges: nested, who waits for it waits first",
     {Held(2, 3, 0, 2)},
     {{Share(8, 9), Free}, {Alone(0, 5)}, {Alone(4, 9)}},
     WARM},
    {"ranges: joined while it is left", {Held(0, 6, 0, 1)}, {{Free}, {Share(1, 2), Share(3, 4)}}, WARM | DEEP},
    {"ranges: joined while others share it",
     {Held(0, 6, 0, 1)},
     {{Free, Share(0, 2)}, {Share(1, 2), Share(3, 4)}, {Alone(1, 4)}},
     WARM},
    {"ranges: joined amid a release",
     {Held(0, 6, 0, 1), Held(0, 6, 1, 1), Held(1, 2, 2, 1)},
     {{Free}, {Free}, {Free, Share(8, 9)}},
     WARM},
    {"ranges: two callbacks at once", {Held(0, 2, 2, 2)}, {{Async(0, 1)}, {Async(1, 2)}, {Free}}, WARM | DEEP},
    {"ranges: storage", {Held(0, 1, 0, 1), Held(8, 9, 1, 1)}, {{Own(2, 4, 2), Free}, {Share(3, 5), Free}}, WARM | DEEP},
    {"ranges: storage of one who shares",
     {Held(0, 1, 0, 1), Held(8, 9, 1, 1)},
     {{Own(2, 4, 1), Free}, {Share(2, 4), Free}},
     WARM | DEEP},
    {"ranges: storage of two who share",
     {Held(0, 1, 0, 1), Held(8, 9, 1, 1)},
     {{Own(2, 4, 1), Free}, {Own(2, 4, 1), Free}},
     WARM | DEEP},
    {"ranges: storage and a waiter",
     {Held(0, 1, 0, 1), Held(8, 9, 1, 1)},
     {{Own(2, 4, 1), Free}, {Alone(3, 5), Free}, {Share(3, 4)}},
     WARM},
    {"store buffering over two nodes", {I(8, 9, 1, 1)}, {{I(1, 2, 2, 1), Q(5)}, {I(5, 6, 3, 1), Q(1)}}, SC_ONLY},
    {"strangers: map and map",
     {I(1, 2, 1, 2), I(3, 4, 1, 1), I(5, 6, 1, 3), I(7, 8, 1, 1), I(9, 10, 1, 2)},
     {{M(1, 2, 2, 3)}, {M(9, 10, 3, 2), Q(9)}},
     STRANGERS},
    {"strangers: unmap and insert",
     {I(1, 2, 1, 3), I(3, 4, 1, 1), I(5, 6, 1, 2), I(7, 8, 1, 3)},
     {{U(1, 2), R}, {I(9, 10, 3, 3), U(9, 10), R}},
     STRANGERS},
    {"strangers: alloc and swap",
     {I(0, 1, 1, 1), I(3, 4, 1, 2), I(5, 6, 1, 1), I(8, 9, 1, 2)},
     {{A(1, 3, 2, 3)}, {S(8, 9, 3, 1), Q(8)}},
     STRANGERS},
};
enum { SCRIPTS = sizeof scripts / sizeof scripts[0] };

/* ---------------------------------------------------------------- running a script */

struct call {
    const struct op *op;
    long result;                /* 0 or an error; ALLOC: the place */
    unsigned key;               /* QUERY, NEXT, FOLLOW: what was asked for, */
    unsigned start, end, value; /* and what was found; value 0: nothing */
    struct lab_mark began, ended;
    bool refused; /* memory was refused to it */
};

static struct call calls[LAB_THREADS][10];
static unsigned call_count[LAB_THREADS]; /* complete; the one after them may have begun */
static bool begun[LAB_THREADS];
static uint64_t content_at_start;

/*
 * Values are pointers to cells, plain memory that is written before the value is published and read by whoever finds
 * it. Cells stay until the end, so that only the order of publishing is in question.
 */
struct cell {
    uint64_t value;
    struct cell *next;
};
static struct cell *cells[LAB_THREADS];

static void *cell_for(unsigned value) {
    unsigned me = lab_thread();
    struct cell *cell = lab_malloc(sizeof *cell);
    if (!cell) return NULL;
    lab_plain(&cell->value, 8, true);
    cell->value = value;
    cell->next = cells[me];
    cells[me] = cell;
    return cell;
}

static unsigned in_cell(const void *value) {
    const struct cell *cell = value;
    LAB_CHECK(cell, "a node without a value");
    lab_plain(&cell->value, 8, false);
    return (unsigned)cell->value;
}

static struct ivs_node *node_for(const struct op *op, unsigned a, unsigned b) {
    void *cell = cell_for(op->v);
    return cell ? ivs_node_new_height(ivs_map_domain(subject_map), a, b, cell, IVS_SLEEP, op->h) : NULL;
}

static long with_node(const struct op *op, int (*update)(struct ivs_map *map, struct ivs_node *node),
                      int (*by_value)(struct ivs_map *map, uint64_t start, uint64_t end, void *value)) {
    void *cell = op->h ? NULL : cell_for(op->v);
    struct ivs_node *node;
    if (!op->h) return cell ? by_value(subject_map, op->a, op->b, cell) : IVS_ENOMEM;
    node = node_for(op, op->a, op->b);
    if (!node) return IVS_ENOMEM;
    int r = update(subject_map, node);
    if (r) LAB_CHECK(ivs_node_discard(ivs_map_domain(subject_map), node) == 0, "discard after %d", r);
    return r;
}

enum { NO_MEMORY = -1000 }; /* no refusal of the map's */

static long do_alloc(const struct op *op) {
    struct ivs_alloc want = {0, op->b, op->a, 1, 0};
    struct ivs_node *node = op->h ? node_for(op, 0, 1) : NULL;
    void *cell = op->h ? NULL : cell_for(op->v);
    uint64_t start = 99;
    int r;
    if (!node && !cell) return NO_MEMORY;
    if (cell) {
        r = ivs_map_alloc(subject_map, &want, cell, &start);
        return r ? r : (long)start;
    }
    r = ivs_map_alloc_node(subject_map, &want, node, &start);
    if (r) LAB_CHECK(ivs_node_discard(ivs_map_domain(subject_map), node) == 0, "discard after %d", r);
    return r ? r : (long)start;
}

/*
 * Who holds a range owns its keys and the gaps around them: it writes to a plain word for each, so that two holders of
 * one key are a race.
 */
static uint64_t *owned; /* a word for each key */

static void own(const struct ivs_lock *lock) {
    LAB_CHECK(lock->floor <= lock->start && (lock->ceiling == 0 || lock->ceiling >= lock->end), "owned space");
    for (uint64_t key = lock->floor; key < 16 && (lock->ceiling == 0 || key < lock->ceiling); key++)
        lab_plain(&owned[key], 8, true);
}

static void lock_range(const struct op *op, struct ivs_lock *lock) {
    LAB_CHECK(ivs_map_lock(subject_map, op->a, op->b, lock) == 0, "lock");
    own(lock);
}

/* Lock, swap in one node or two, unlock. */
static long do_swap(const struct op *op, bool pair) {
    struct ivs_lock lock;
    struct ivs_node *run[2] = {node_for(op, op->a, pair ? op->a + 1 : op->b),
                               pair ? node_for(op, op->a + 1, op->b) : NULL};
    struct ivs_domain *domain = ivs_map_domain(subject_map);
    int r = 0;
    if (!run[0] || (pair && !run[1])) {
        LAB_CHECK(ivs_node_discard(domain, run[0]) == 0 && ivs_node_discard(domain, run[1]) == 0, "discard");
        return IVS_ENOMEM;
    }
    lock_range(op, &lock);
    LAB_CHECK(ivs_map_swap(&lock, run, pair ? 2 : 1) == 0, "swap");
    LAB_CHECK(ivs_map_unlock(&lock) == 0, "unlock");
    return r;
}

static long do_value(const struct op *op) {
    struct ivs_lock lock;
    struct ivs_node *node;
    void *cell = cell_for(op->v);
    if (!cell) return IVS_ENOMEM;
    lock_range(op, &lock);
    node = ivs_lock_first(&lock);
    LAB_CHECK(node && node->start == op->a && lock.count == 1, "the node to change");
    LAB_CHECK(ivs_node_set_value(&lock, node, cell) == 0, "set value");
    LAB_CHECK(ivs_map_unlock(&lock) == 0, "unlock");
    return 0;
}

static long do_lock(const struct op *op) {
    struct ivs_lock lock;
    int r = op->kind == HOLD      ? ivs_map_lock(subject_map, op->a, op->b, &lock)
            : op->kind == TRYLOCK ? ivs_map_trylock(subject_map, op->a, op->b, &lock)
                                  : ivs_map_timedlock(subject_map, op->a, op->b, 10, &lock);
    if (r) return r;
    own(&lock);
    LAB_CHECK(ivs_map_unlock(&lock) == 0, "unlock");
    return 0;
}

/* Unmaps whole nodes; after a grace period nobody reads what their values lead to. */
static long do_gone(const struct op *op) {
    struct ivs_lock lock;
    struct cell *gone[4];
    unsigned n = 0;
    lock_range(op, &lock);
    for (struct ivs_node *node = ivs_lock_first(&lock); node; node = ivs_lock_next(&lock, node))
        gone[n++] = ivs_node_value(node);
    LAB_CHECK(ivs_map_swap(&lock, NULL, 0) == 0, "swap");
    LAB_CHECK(ivs_map_unlock(&lock) == 0, "unlock");
    LAB_CHECK(ivs_domain_synchronize(ivs_map_domain(subject_map)) == 0, "synchronize");
    while (n--) lab_plain(&gone[n]->value, 8, true);
    return 0;
}

/* ---- readers */

static struct {
    struct ivs_node *found[4], *last; /* `last`: of N or F */
    unsigned count;
    bool open;
} section[LAB_THREADS];

static void read_node(const struct ivs_node *node) {
    lab_plain(&node->start, 16, false);
    (void)in_cell(ivs_node_value(node));
}

static void do_section(bool enter) {
    unsigned me = lab_thread();
    section[me].open = enter;
    section[me].last = NULL;
    if (enter) ivs_map_read_enter(subject_map);
    while (section[me].count) read_node(section[me].found[--section[me].count]);
    if (!enter) ivs_map_read_exit(subject_map);
}

static long do_query(const struct op *op, struct call *call) {
    unsigned me = lab_thread(), *count = &section[me].count;
    struct ivs_node *node, **found = section[me].found, *last = section[me].last;
    struct ivs_entry entry;
    int r;
    call->key = op->a;
    if (section[me].open) {
        if (op->kind == FOLLOW && !last) return 0;
        if (op->kind == FOLLOW) call->key = (unsigned)last->last + 1;
        node = op->kind == QUERY  ? ivs_map_query_rcu(subject_map, call->key)
               : op->kind == NEXT ? ivs_map_query_next_rcu(subject_map, call->key)
                                  : ivs_map_next_rcu(subject_map, last);
        r = node ? 0 : IVS_ENOENT;
        if (node) {
            found[(*count)++] = node;
            if (op->kind != QUERY) section[me].last = node;
            read_node(node);
            entry = (struct ivs_entry){node->start, ivs_node_end(node), ivs_node_value(node)};
        }
    } else {
        r = op->kind == QUERY ? ivs_map_lookup(subject_map, op->a, &entry)
                              : ivs_map_lookup_next(subject_map, op->a, &entry);
    }
    if (r) return r;
    call->start = (unsigned)entry.start;
    call->end = (unsigned)entry.end;
    call->value = in_cell(entry.value);
    return 0;
}

/* ---- the domain alone */

struct thing {
    struct ivs_defer defer; /* first */
    uint64_t value;
};
static uint64_t *board; /* atomic: the things that its two slots lead to */

static void thing_ends(struct ivs_defer *defer) {
    lab_plain(&((struct thing *)defer)->value, 8, true);
    lab_free(defer);
}

static void look(unsigned slot, bool linger) {
    ivs_map_read_enter(subject_map);
    struct thing *thing = (struct thing *)(uintptr_t)lab_load(&board[slot], 8, LAB_ACQUIRE);
    if (linger) lab_give();
    if (thing) lab_plain(&thing->value, 8, false);
    ivs_map_read_exit(subject_map);
}

static void drop(unsigned slot, bool wait) {
    struct thing *thing = (struct thing *)(uintptr_t)lab_rmw(&board[slot], 8, LAB_EXCHANGE, 0, LAB_ACQ_REL);
    struct ivs_domain *domain = ivs_map_domain(subject_map);
    if (!thing) return;
    if (!wait) LAB_CHECK(ivs_domain_defer(domain, &thing->defer, thing_ends) == 0, "defer");
    if (wait) LAB_CHECK(ivs_domain_synchronize(domain) == 0, "synchronize");
    if (wait) thing_ends(&thing->defer);
}

static void board_make(void) {
    board = lab_malloc(2 * sizeof *board);
    for (unsigned i = 0; i < 2; i++) board[i] = (uintptr_t)lab_malloc(sizeof(struct thing));
}

static void board_free(void) {
    for (unsigned i = 0; i < 2; i++) lab_free((void *)(uintptr_t)lab_newest(&board[i], 8));
    lab_free(board);
}

static void warm_up(void) {
    ivs_map_read_enter(subject_map);
    ivs_map_read_exit(subject_map);
}

/* ---- deferred callbacks and the barrier */

static struct defers {
    uint64_t called; /* atomic: ivs_domain_defer has returned */
    uint64_t ran;    /* plain */
    struct ivs_defer defer;
} * defers;

static void defer_runs(struct ivs_defer *defer) {
    (void)defer;
    lab_plain(&defers->ran, 8, true);
    defers->ran++;
}

static long do_defer(void) {
    LAB_CHECK(ivs_domain_defer(ivs_map_domain(subject_map), &defers->defer, defer_runs) == 0, "defer");
    lab_store(&defers->called, 8, 1, LAB_RELEASE);
    return 0;
}

static long do_barrier(void) {
    bool before = lab_load(&defers->called, 8, LAB_ACQUIRE) != 0;
    LAB_CHECK(ivs_domain_barrier(ivs_map_domain(subject_map)) == 0, "barrier");
    if (!before) return 0;
    lab_plain(&defers->ran, 8, false);
    LAB_CHECK(defers->ran == 1, "the barrier came back before a callback had run");
    return 0;
}

/* ---- range locks */

static struct ivs_range_lock *ranges;
static struct ivs_range *handles; /* a thread's: two for an operation, one that it holds, those of callbacks */
enum { HANDLES = 6 };
static bool taken_back[HANDLES * LAB_THREADS]; /* cancelled: it must not be answered */

static void touch(const struct ivs_range *range) {
    bool write = (range->mode & IVS_EXCLUSIVE) != 0;
    for (uint64_t key = range->start; key < 16 && (range->end == 0 || key < range->end); key++)
        lab_plain(&owned[key], 8, write);
}

static struct ivs_range *handle(unsigned thread, unsigned which) {
    struct ivs_range *range = &handles[HANDLES * thread + which];
    range->owner = thread + 1;
    return range;
}

static void let_go(struct ivs_range *range) {
    touch(range);
    LAB_CHECK(ivs_range_unlock(ranges, range) == 0, "release");
}

static void ours(struct ivs_range *range, int result) {
    LAB_CHECK(!taken_back[range - handles], "a request that was cancelled is answered");
    if (result == IVS_ENOMEM) return;
    LAB_CHECK(result == 0, "callback: %d", result);
    let_go(range);
}

static long do_set(const struct op *op, unsigned me) {
    struct ivs_range *set = handle(me, 0);
    (void)handle(me, 1);
    set[0].start = op->a;
    set[0].end = op->a + 1;
    set[1].start = op->b;
    set[1].end = op->b + 1;
    set[0].mode = set[1].mode = IVS_EXCLUSIVE;
    int r = ivs_range_lock_set(ranges, set, 2);
    if (r) return r;
    let_go(&set[0]);
    let_go(&set[1]);
    return 0;
}

static long do_end(const struct op *op, unsigned me) {
    struct ivs_range *range = handle(me, 0);
    int r = ivs_range_lock(ranges, range, op->a, op->b, IVS_EXCLUSIVE);
    if (r) return r;
    let_go(range);
    r = ivs_range_lock_destroy(ranges);
    if (r == IVS_EBUSY) return 0; /* shared holders of other parts */
    LAB_CHECK(r == 0, "destroy: %d", r);
    lab_free(ranges);
    ranges = NULL;
    return 0;
}

static long do_turn(const struct op *op, unsigned me) {
    struct ivs_range_stats stats;
    struct ivs_range *range = handle(me, 0);
    LAB_CHECK(ivs_range_lock_get_stats(ranges, &stats) == 0, "stats");
    if (stats.waiting >= op->h) {
        int r = ivs_range_trylock(ranges, range, op->a, op->b, IVS_SHARED);
        LAB_CHECK(r == IVS_EBUSY || r == IVS_ENOMEM, "a newcomer went in front of one who waits: %d", r);
    }
    let_go(handle(op->v, 2));
    return 0;
}

static void *storages[LAB_THREADS];

static long do_own(const struct op *op, unsigned me) {
    struct ivs_range *range = handle(me, 0);
    range->storage = storages[me];
    range->held_end = handles[HANDLES * me + 2].end;
#if !defined(LAB_HOST)
    subject_no_nodes[me] = true;
#endif
    int r = ivs_range_lock(ranges, range, op->a, op->b, op->h | IVS_NESTED);
#if !defined(LAB_HOST)
    subject_no_nodes[me] = false;
#endif
    if (r == 0) {
        touch(range);
        let_go(range);
    }
    if (range->borrowed) LAB_CHECK(ivs_range_lock_barrier(ranges) == 0, "barrier");
    for (size_t i = 0; i < IVSKIP_RANGE_STORAGE / 8; i++) lab_plain((uint64_t *)storages[me] + i, 8, true);
    range->borrowed = 0;
    range->storage = NULL;
    return r == IVS_ENOMEM ? 0 : r; /* where it must cut */
}

static long do_range(const struct op *op) {
    unsigned me = lab_thread();
    struct ivs_range *range = handle(me, op->kind == ASYNC ? 3 + op->a : 0);
    unsigned nested = me < LAB_THREADS && handles[HANDLES * me + 2].lock ? IVS_NESTED : 0;
    int r;
    if (op->kind != HELD) range->held_end = nested ? handles[HANDLES * me + 2].end : 0;
    switch (op->kind) {
    case HELD: return ivs_range_lock(ranges, handle(op->v, 2), op->a, op->b, op->h);
    case FREE: let_go(handle(me, 2)); return 0;
    case SET: return do_set(op, me);
    case END: return do_end(op, me);
    case TURN: return do_turn(op, me);
    case OWN: return do_own(op, me);
    case SHARE:
    case UP: r = ivs_range_lock(ranges, range, op->a, op->b, IVS_SHARED | nested); break;
    case TRY: r = ivs_range_trylock(ranges, range, op->a, op->b, IVS_EXCLUSIVE | nested); break;
    case SOON: r = ivs_range_timedlock(ranges, range, op->a, op->b, IVS_EXCLUSIVE | nested, 10); break;
    case ASYNC:
        r = ivs_range_lock_async(ranges, range, op->a, op->b, IVS_EXCLUSIVE | nested, ours);
        if (r == IVS_EINPROGRESS) {
            lab_give();
            r = ivs_range_cancel(ranges, range);
            taken_back[range - handles] = r == 0;
            return r == IVS_EBUSY || r == IVS_EPERM ? 0 : r;
        }
        break;
    default: r = ivs_range_lock(ranges, range, op->a, op->b, IVS_EXCLUSIVE | nested);
    }
    if (r == IVS_EBUSY || r == IVS_ETIMEDOUT) return 0;
    if (r) return r;
    touch(range);
    if (op->kind == DOWN) LAB_CHECK(ivs_range_downgrade(ranges, range) == 0, "downgrade");
    if (op->kind == UP) (void)!ivs_range_try_upgrade(ranges, range);
    let_go(range);
    return 0;
}

static void ranges_make(void) {
    ranges = lab_malloc(sizeof *ranges);
    handles = lab_malloc(HANDLES * LAB_THREADS * sizeof *handles);
    if (!ranges || !handles || ivs_range_lock_init(ranges, NULL)) lab_fail("setup");
    memset(handles, 0, HANDLES * LAB_THREADS * sizeof *handles);
    memset(taken_back, 0, sizeof taken_back);
    for (unsigned t = 0; t < LAB_THREADS; t++) storages[t] = lab_malloc(IVSKIP_RANGE_STORAGE);
}

static void ranges_end(void) {
    struct ivs_range_stats stats;
    struct ivs_report report;
    lab_free(handles);
    for (unsigned t = 0; t < LAB_THREADS; t++) lab_free(storages[t]);
    if (!ranges) return;
    uintptr_t root = (uintptr_t)lab_newest(&ranges->root_, sizeof root);
    if (root & 4 && ivs_map_validate((struct ivs_map *)(root & ~(uintptr_t)7), &report))
        lab_fail("pieces: %s, level %u", report.check, report.level);
    LAB_CHECK(ivs_range_lock_get_stats(ranges, &stats) == 0, "stats");
    LAB_CHECK(!stats.held && !stats.waiting, "%u held, %u wait", (unsigned)stats.held, (unsigned)stats.waiting);
    int r = ivs_range_lock_destroy(ranges);
    if (r) lab_fail("destroy of the range lock: %d", r);
    lab_free(ranges);
    ranges = NULL;
}

static long run_op(const struct op *op, struct call *call) {
    struct ivs_domain *domain = ivs_map_domain(subject_map);
    switch (op->kind) {
    case MAP: return with_node(op, ivs_map_map_node, ivs_map_map);
    case INSERT: return with_node(op, ivs_map_insert_node, ivs_map_insert);
    case UNMAP: return ivs_map_unmap(subject_map, op->a, op->b);
    case ALLOC: return do_alloc(op);
    case QUERY:
    case FOLLOW:
    case NEXT: return do_query(op, call);
    case ENTER:
    case LEAVE: do_section(op->kind == ENTER); return 0;
    case SWAP: return do_swap(op, false);
    case PAIR: return do_swap(op, true);
    case VALUE: return do_value(op);
    case HOLD:
    case TRYLOCK:
    case TIMED: return do_lock(op);
    case GONE: return do_gone(op);
    case DEFER: return do_defer();
    case BARRIER: return do_barrier();
    case LOOK:
    case LINGER: look(op->a, op->kind == LINGER); return 0;
    case DROP:
    case TAKE: drop(op->a, op->kind == TAKE); return 0;
    case SYNCHRONIZE: return ivs_domain_synchronize(domain);
    case RECLAIM: (void)ivs_domain_reclaim(domain); return 0;
    case TUNE: return ivs_map_tune(subject_map);
    case GIVE: lab_give(); return 0;
    case ALONE:
    case SHARE:
    case TRY:
    case SOON:
    case DOWN:
    case UP:
    case ASYNC:
    case SET:
    case HELD:
    case FREE:
    case END:
    case TURN:
    case OWN: return do_range(op);
    case NONE: break;
    }
    return 0;
}

/* ---------------------------------------------------------------- the sequential map: four bits a key */

static uint64_t mask(unsigned lo, unsigned hi) {
    return ((hi < 16 ? UINT64_C(1) << (4 * hi) : 0) - 1) & ~((UINT64_C(1) << (4 * lo)) - 1);
}

static uint64_t with(uint64_t content, unsigned lo, unsigned hi, unsigned value) {
    return (content & ~mask(lo, hi)) | (mask(lo, hi) & (value * UINT64_C(0x1111111111111111)));
}

static bool fits(uint64_t content, unsigned size, unsigned hi) {
    for (unsigned at = 0; at + size <= hi; at++)
        if (!(content & mask(at, at + size))) return true;
    return false;
}

/* The first mapped key from `key` on; 16: none. */
static unsigned next_of(uint64_t content, unsigned key) {
    while (key < 16 && !(content >> (4 * key) & 15)) key++;
    return key;
}

/* Is what the call found in the map, all of it, and what it asked for? */
static bool found(const struct call *call, uint64_t content) {
    unsigned key = call->op->kind == QUERY ? call->key : next_of(content, call->key);
    if (!call->value) return key == 16 || !(content >> (4 * key) & 15);
    if (key < call->start || key >= call->end || call->start >= call->end || call->end > 16) return false;
    return ((content ^ call->value * UINT64_C(0x1111111111111111)) & mask(call->start, call->end)) == 0;
}

/* May this call come now, with its answer? Then what is the content after it? */
static bool explains(const struct call *call, uint64_t content, uint64_t *after) {
    const struct op *op = call->op;
    *after = content;
    if (call->refused && (call->result == NO_MEMORY || call->result == IVS_ENOMEM)) return true; /* nothing changed */
    switch (op->kind) {
    case MAP:
    case SWAP:
    case PAIR:
    case VALUE: *after = with(content, op->a, op->b, op->v); return call->result == 0;
    case GONE:
    case UNMAP: *after = with(content, op->a, op->b, 0); return call->result == 0;
    case INSERT:
        if (content & mask(op->a, op->b)) return call->result == IVS_EEXIST;
        *after = with(content, op->a, op->b, op->v);
        return call->result == 0;
    case ALLOC:
        if (call->result == IVS_ENOMEM) return !fits(content, op->a, op->b);
        if (call->result < 0 || (unsigned)call->result + op->a > op->b) return false;
        if (content & mask((unsigned)call->result, (unsigned)call->result + op->a)) return false;
        *after = with(content, (unsigned)call->result, (unsigned)call->result + op->a, op->v);
        return true;
    case QUERY:
    case FOLLOW:
    case NEXT: return found(call, content);
    case TRYLOCK: return call->result == 0 || call->result == IVS_EBUSY; /* see was_held */
    case TIMED: return call->result == 0 || call->result == IVS_ETIMEDOUT;
    case TUNE: return call->result == 0 || call->result == IVS_EBUSY; /* likewise */
    default: return call->result == 0;
    }
}

/* A call that a thread stopped in: it came with some answer, or not at all. */
static bool explained(unsigned *at, uint64_t content, uint64_t final);
static bool explained_pending(unsigned t, unsigned *at, uint64_t content, uint64_t final) {
    static const enum kind changing[] = {MAP, UNMAP, INSERT, ALLOC, SWAP, PAIR, VALUE, GONE};
    struct call call = calls[t][at[t]];
    bool done = false, changes = false;
    for (size_t i = 0; i < sizeof changing / sizeof changing[0]; i++) changes |= call.op->kind == changing[i];
    at[t]++;
    for (call.result = 0; changes && !done && call.result < 16; call.result++) {
        uint64_t after;
        done = explains(&call, content, &after) && explained(at, after, final);
    }
    at[t]--;
    return done;
}

static bool explained(unsigned *at, uint64_t content, uint64_t final) {
    bool all = true;
    for (unsigned t = 0; t < 3; t++) {
        uint64_t after;
        bool first = true;
        if (at[t] == call_count[t] + begun[t]) continue;
        all &= at[t] == call_count[t];
        for (unsigned u = 0; u < 3; u++)
            if (u != t && at[u] < call_count[u] && lab_before(&calls[u][at[u]].ended, &calls[t][at[t]].began))
                first = false;
        if (!first) continue;
        if (at[t] == call_count[t]) {
            if (explained_pending(t, at, content, final)) return true;
            continue;
        }
        if (!explains(&calls[t][at[t]], content, &after)) continue;
        at[t]++;
        if (explained(at, after, final)) return true;
        at[t]--;
    }
    return all && content == final;
}

/* ---- may a lock be refused? */

static const struct script *script_now;

static bool takes_locks(const struct op *op) {
    return (op->kind >= MAP && op->kind <= ALLOC) || (op->kind >= SWAP && op->kind <= GONE) || op->kind == TUNE;
}

/* What an operation may lock or change lies in [*lo, *hi), and the gaps and nodes that meet it. */
static void reach(const struct op *op, unsigned *lo, unsigned *hi) {
    *lo = op->kind == ALLOC ? 0 : op->a;
    *hi = op->b;
}

/* Does a node that nobody touches lie between them? Then they have nothing in common. */
static bool apart(const struct op *a, const struct op *b) {
    unsigned lo[2], hi[2];
    reach(a, &lo[0], &hi[0]);
    reach(b, &lo[1], &hi[1]);
    unsigned low = lo[0] < lo[1] ? 0 : 1;
    for (const struct op *node = script_now->init; node->kind; node++) {
        bool between = hi[low] <= node->a && node->b <= lo[!low];
        for (unsigned t = 0; t < 3 && between; t++)
            for (const struct op *op = script_now->t[t]; op->kind; op++) {
                unsigned from, to;
                reach(op, &from, &to);
                if (takes_locks(op) && from < node->b && to > node->a) between = false;
            }
        if (between) return true;
    }
    return false;
}

/* A refused lock needs somebody who may have held a part of it meanwhile. */
static bool was_held(unsigned t, const struct call *call) {
    for (unsigned u = 0; u < 3; u++)
        for (unsigned i = 0; i < call_count[u] + begun[u]; i++) {
            const struct call *other = &calls[u][i];
            if (u == t || !takes_locks(other->op) || apart(call->op, other->op)) continue;
            if (i < call_count[u] && lab_before(&other->ended, &call->began)) continue;
            if (!lab_before(&call->ended, &other->began)) return true;
        }
    return false;
}

/* ---------------------------------------------------------------- the program of a script */

static uint64_t read_content(void) {
    uint64_t content = 0;
    for (unsigned key = 0; key < 16; key++) {
        struct ivs_entry entry;
        if (ivs_map_lookup(subject_map, key, &entry) == 0) content |= (uint64_t)in_cell(entry.value) << (4 * key);
    }
    return content;
}

static void script_setup(const void *data) {
    const struct script *script = data;
    struct ivs_map_config config = {.own = {.seed = 7}};
    memset(cells, 0, sizeof cells);
    defers = lab_malloc(sizeof *defers);
    if (!defers) lab_fail("setup");
    defers->called = defers->ran = 0;
    subject_map = lab_malloc(sizeof *subject_map);
    if (!subject_map || ivs_map_init(subject_map, &config)) lab_fail("init");
    owned = lab_malloc(16 * sizeof *owned);
    script_now = script;
    content_at_start = 0;
    ranges_make();
    memset(section, 0, sizeof section);
    memset(begun, 0, sizeof begun);
    for (const struct op *op = script->init; op->kind; op++) {
        if (run_op(op, NULL)) lab_fail("setup");
        if (op->kind != HELD) content_at_start = with(content_at_start, op->a, op->b, op->v);
    }
#if !defined(LAB_HOST)
    subject_no_records = script->nature & CROWD;
#endif
    if (script->nature & TABLE && ivs_map_tune(subject_map)) lab_fail("setup");
    memset(call_count, 0, sizeof call_count);
    board_make();
    for (unsigned t = 0; t < 3 && script->t[t][0].kind && script->nature & WARM; t++) lab_prepare(t, warm_up);
}

static void script_body(const void *data, unsigned me) {
    const struct script *script = data;
#if defined(LAB_HOST)
    if (me == 3 || !script->t[me][0].kind) {
        LAB_PORT_THREAD();
        return;
    }
#endif
    for (const struct op *op = script->t[me]; op->kind; op++) {
        struct call *call = &calls[me][call_count[me]];
        *call = (struct call){.op = op};
        unsigned before = lab_refusals();
        begun[me] = true;
        lab_mark_at_step(&call->began);
        call->result = run_op(op, call);
        lab_mark_at_step(NULL);
        call->ended = lab_mark();
        call->refused = lab_refusals() != before;
        begun[me] = false;
        call_count[me]++;
    }
}

static void history(char *text, size_t size) {
#define NAME_(k) #k,
    static const char *const names[] = {KINDS(NAME_)};
    size_t used = 0;
    for (unsigned t = 0; t < 3; t++)
        for (unsigned i = 0; i < call_count[t] + begun[t] && used + 60 < size; i++) {
            const struct call *c = &calls[t][i];
            used +=
                (size_t)snprintf(text + used, size - used, " t%u %s(%u,%u)", t, names[c->op->kind], c->op->a, c->op->b);
            if (i == call_count[t]) used += (size_t)snprintf(text + used, size - used, "...");
            else if (c->value)
                used += (size_t)snprintf(text + used, size - used, "=[%u,%u):%u", c->start, c->end, c->value);
            else used += (size_t)snprintf(text + used, size - used, "=%ld", c->result);
        }
}

static void check_history(void) {
    unsigned at[3] = {0, 0, 0};
    char text[240] = "";
    uint64_t final = read_content();
    if (!explained(at, content_at_start, final)) {
        history(text, sizeof text);
        lab_fail("not linearizable:%s; content %llx", text, (unsigned long long) final);
    }
    for (unsigned t = 0; t < 3; t++)
        for (unsigned i = 0; i < call_count[t]; i++)
            if ((calls[t][i].result == IVS_EBUSY || calls[t][i].result == IVS_ETIMEDOUT) && !was_held(t, &calls[t][i]))
                lab_fail("t%u: a lock is refused (%ld) that nobody held", t, calls[t][i].result);
}

/* One thread stopped for ever: what the others were told must fit all the same. */
static void script_stopped(const void *data) {
    (void)data;
    check_history();
}

static void script_finish(const void *data) {
    struct ivs_report report;
    (void)data;
    if (ivs_map_validate(subject_map, &report)) lab_fail("%s, level %u", report.check, report.level);
    check_history();
#if defined(LAB_HOST) /* all callbacks ran, so nothing may wait for somebody to begin another turn */
    struct ivs_domain_stats stats;
    if (ivs_domain_get_stats(ivs_map_domain(subject_map), &stats) || stats.limbo)
        lab_fail("%u things wait for a turn that nobody begins", (unsigned)stats.limbo);
#endif
    ranges_end();
    int r = ivs_map_destroy(subject_map);
    if (r) lab_fail("destroy: %d", r);
    lab_free(subject_map);
    lab_free(defers);
    lab_free(owned);
    board_free();
    subject_map = NULL;
    for (unsigned t = 0; t < LAB_THREADS; t++)
        for (struct cell *cell = cells[t], *next; cell; cell = next) {
            next = cell->next;
            lab_free(cell);
        }
}

static void script_dump(void) {
    if (!subject_map) return;
    printf("  the map (of the newest values):\n");
    for (const struct ivs_node *n = (const struct ivs_node *)(subject_map->head_.next_ & ~(uintptr_t)7); n;
         n = (const struct ivs_node *)(n->next_ & ~(uintptr_t)7))
        printf("    [%u,%u) value %u height %u flags %u state %u\n", (unsigned)n->start, (unsigned)n->last + 1,
               (unsigned)n->value_, n->height_, (unsigned)(n->next_ & 7), n->state_);
}

static struct lab_program program_of(const struct script *script) {
    struct lab_program p = {.name = script->name,
                            .data = script,
                            .setup = script_setup,
                            .body = script_body,
                            .finish = script_finish,
                            .stopped = script_stopped,
                            .dump = script_dump};
    while (p.threads < 3 && script->t[p.threads][0].kind) p.threads++;
#if defined(LAB_HOST)
    p.threads++; /* the one that runs callbacks */
#endif
    return p;
}

/* ---------------------------------------------------------------- what is run */

static bool reads(const struct op *op) {
    return (op->kind >= QUERY && op->kind <= LEAVE) || op->kind == LOOK || op->kind == LINGER || op->kind == GIVE;
}

static bool waits_for_readers(const struct op *op) {
    return op->kind == GONE || op->kind == TAKE || op->kind == SYNCHRONIZE || op->kind == BARRIER || op->kind == END;
}

/* Must the others finish when this thread stops for ever? Readers always, those who do not wait for readers if it is
 * one, and writers where nobody wants what another holds. */
static bool may_stop(const struct script *script, unsigned thread, unsigned threads) {
    bool others_read = true, others_wait = false, it_reads = true;
    if (thread >= threads || thread >= 3 || script->nature & STRANGERS) return thread < threads;
    for (unsigned t = 0; t < 3; t++)
        for (const struct op *op = script->t[t]; op->kind; op++)
            if (t == thread) it_reads &= reads(op);
            else {
                others_read &= reads(op);
                others_wait |= waits_for_readers(op);
            }
    return others_read || (it_reads && !others_wait);
}

size_t map_programs(void) { return SCRIPTS; }

struct entry map_program(size_t i) {
    const struct script *script = &scripts[i];
    struct entry entry = {
        .program = program_of(script), .sc_only = script->nature & SC_ONLY, .deep = script->nature & DEEP};
    entry.costly = strncmp(script->name, "ranges", 6) == 0;
    for (unsigned t = 0; t < 3; t++) entry.may_stop[t] = may_stop(script, t, entry.program.threads);
    return entry;
}
