/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
    ARENA = 1 << 18,    /* memory of one execution; never used twice in it */
    PART = 1 << 15,     /* each thread allocates in its own part, so that addresses do not depend on the schedule */
    STACK = 1 << 16,    /* of a fiber */
    LOCATIONS = 2048,   /* atomic locations of one execution */
    MESSAGES = 16384,   /* stores of one execution */
    STEP_LIMIT = 20000, /* of one execution: no progress */
    CHOICES = 2 * STEP_LIMIT, /* points of choice of one execution */
    GAP = 1 << 12,            /* between time stamps of neighbouring messages */
    MAIN = LAB_THREADS - 1    /* setup and finish run as this thread, whose body may run too */
};

/* ---------------------------------------------------------------- state of one execution */

struct view {
    unsigned count;         /* locations that a message's view speaks of; 0: all */
    uint32_t at[LOCATIONS]; /* time stamp of the newest message known, by location */
};

struct message {
    struct message *older, *newer;
    uint64_t value;
    struct view *view; /* what an acquiring reader learns; NULL: nothing */
    uint32_t stamp;
    uint32_t clock[LAB_THREADS];
    bool glued; /* an RMW read it: nothing may come between it and the next newer one */
};

struct location {
    struct message *newest;
    unsigned size;
};

enum state { READY, YIELDED, ASLEEP, DONE, STOPPED };

struct fiber {
    ucontext_t first;
    jmp_buf at;
    bool begun;
    enum state state;
    uint32_t *word; /* it sleeps there */
    uint64_t deadline;
    struct view view;
    uint32_t clock[LAB_THREADS];
    unsigned priority;     /* PCT */
    struct lab_mark *mark; /* to be set at the next step */
    unsigned char tls[64];
};

/* What happened to a byte: the last plain write, and the last accesses of each kind by each
 * thread, as clock values. */
struct shadow {
    uint32_t generation;
    uint8_t writer;
    uint32_t plain_write, plain_read[LAB_THREADS], atomic_write[LAB_THREADS], atomic_read[LAB_THREADS];
};

/* Points of choice, in the order in which they come in a step. */
enum point { NEXT, STOP, PREEMPT, MEMORY, TURN, READ, POINTS };
static const char point_letters[POINTS + 1] = "nspmtr";

struct choice {
    uint32_t key; /* POINTS * step + point: the same in a replay, which need not know what is shared */
    uint16_t pick, options, gratis; /* picks below `gratis` cost no deviation */
};

static unsigned char arena[ARENA] __attribute__((aligned(4096)));
static struct shadow shadows[ARENA];
static uint8_t blocks[ARENA];           /* 0: no block, 1: allocated, 2: freed */
static uint16_t location_of[ARENA / 4]; /* index + 1 */
static struct location locations[LOCATIONS];
static struct message messages[MESSAGES];
static struct view *views;
static unsigned location_count, message_count, view_count, view_room;
static struct view sc_view;
static struct fiber fibers[LAB_THREADS];
static unsigned char *stacks;
static size_t part_used[LAB_THREADS + 1];
static long blocks_live;
static unsigned running, thread_count;
static bool alone, aborted, in_execution, naming;
static uint64_t steps, clock_now, marks;
static uint32_t generation;
static jmp_buf explorer;
static char failure[256];

/* ---------------------------------------------------------------- state of an exploration */

static const struct lab_program *program;
static struct lab_options options;
static struct lab_result result;
static struct choice choices[CHOICES];
static unsigned choice_count, choice_at;  /* recorded; position in this execution */
static struct choice deviations[CHOICES]; /* to replay */
static unsigned deviation_count, deviation_at;
static bool replaying, misfit;                               /* a deviation did not come, or had no such option */
static uint8_t touched_by[ARENA / 4], written_by[ARENA / 4]; /* threads, all executions */
static bool shared[ARENA / 4], shared_grew;
static uint64_t random_state;
static uint64_t change_at[16];
static unsigned changes;
static bool trace;
static bool stopped_one;
static unsigned refusals[LAB_THREADS]; /* allocations that were made to fail */
static uint32_t *const callback_place =
    (uint32_t *)(void *)(arena + ARENA - 64); /* stands for the queue, as a shared place */

void (*lab_account)(unsigned thread, const void *address, size_t size, bool write);

static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

/* The lab cannot go on: no verdict on the subject. */
#define LIMIT(...) lab_fail("limit of the lab: " __VA_ARGS__)

void lab_fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vsnprintf(failure, sizeof failure, format, list);
    va_end(list);
    if (!in_execution) {
        fprintf(stderr, "lab: outside an execution: %s\n", failure);
        abort();
    }
    aborted = true;
    _longjmp(explorer, 1);
}

unsigned lab_thread(void) { return running; }
unsigned lab_refusals(void) { return refusals[running]; }
uint64_t lab_now(void) { return clock_now; }

/* A line of the trace; its arguments are not looked at without one. */
#define SAY(...) ((void)(trace && !alone && (say(__VA_ARGS__), 0)))
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    va_list list;
    printf("    %4llu  t%u  ", (unsigned long long)steps, running);
    va_start(list, format);
    (void)vprintf(format, list);
    va_end(list);
    printf("\n");
}

static const char *name_of(const void *address) {
    static char text[80];
    naming = true; /* it reads the subject's memory as it is */
    subject_name(address, text, sizeof text);
    naming = false;
    return text;
}

/* ---------------------------------------------------------------- choices */

/* The pick of a replay at this point. */
static unsigned replayed(uint32_t key, unsigned n) {
    while (deviation_at < deviation_count && deviations[deviation_at].key < key) {
        misfit = true;
        deviation_at++;
    }
    if (deviation_at == deviation_count || deviations[deviation_at].key != key) return 0;
    misfit |= deviations[deviation_at].pick >= n;
    return deviations[deviation_at++].pick % n;
}

/* One of `n`; 0 is the ordinary one; those from `gratis` on use up a deviation. In PCT `preset`, if it is not `n`. */
static unsigned choose(enum point point, unsigned n, unsigned gratis, unsigned preset) {
    struct choice *c = &choices[choice_at];
    uint32_t key = (uint32_t)steps * POINTS + point;
    unsigned pick = 0;
    if (n <= 1 || alone) return 0;
    if (choice_at == CHOICES) LIMIT("more than %d points of choice", CHOICES);
    result.points++;
    if (replaying) pick = replayed(key, n);
    else if (options.bytes) pick = choice_at < options.byte_count ? options.bytes[choice_at] % n : 0;
    else if (options.pct_depth && preset < n) pick = preset;
    else if (options.pct_depth) pick = gratis == n || random_next() % 16 == 0 ? (unsigned)(random_next() % n) : 0;
    else if (choice_at < choice_count) pick = c->pick;
    if (choice_at < choice_count && (c->options != n || c->key != key))
        LIMIT("not deterministic: %u options, then %u", c->options, n);
    *c = (struct choice){key, (uint16_t)pick, (uint16_t)n, (uint16_t)gratis};
    if (++choice_at > choice_count) choice_count = choice_at;
    return pick;
}

/* The next choice sequence in depth-first order within the bound; false: there is none. */
static bool next_sequence(void) {
    unsigned spent = 0;
    for (unsigned i = 0; i < choice_count; i++) spent += choices[i].pick >= choices[i].gratis;
    for (; choice_count; choice_count--) {
        struct choice *last = &choices[choice_count - 1];
        spent -= last->pick >= last->gratis;
        if (last->pick + 1u == last->options || spent + (last->pick + 1u >= last->gratis) > options.deviations)
            continue;
        last->pick++;
        return true;
    }
    return false;
}

/* ---------------------------------------------------------------- fibers and the scheduler */

static void switch_to(unsigned next) {
    unsigned old = running;
    void *tls;
    size_t bytes = subject_tls(&tls);
    if (next == old) return;
    memcpy(fibers[old].tls, tls, bytes);
    memcpy(tls, fibers[next].tls, bytes);
    running = next;
    if (_setjmp(fibers[old].at)) return;
    if (fibers[next].begun) _longjmp(fibers[next].at, 1);
    fibers[next].begun = true;
    setcontext(&fibers[next].first);
}

static bool enabled(unsigned t) { return fibers[t].state == READY; }

/* Gives yielded threads another turn if nobody else can go on. */
static unsigned list_enabled(unsigned *list) {
    unsigned n = 0;
    for (unsigned t = 0; t < thread_count; t++)
        if (enabled(t)) list[n++] = t;
    if (n) return n;
    for (unsigned t = 0; t < thread_count; t++)
        if (fibers[t].state == YIELDED) {
            fibers[t].state = READY;
            list[n++] = t;
        }
    return n;
}

/* Sleepers may be made to go on too: before anybody wakes them (a sleep may end early), and at their deadlines. */
enum { EARLY = 16, TIMEOUT = 32, LIST = 3 * LAB_THREADS };

static unsigned list_sleepers(unsigned *list, unsigned n, bool early) {
    for (unsigned t = 0; t < thread_count; t++) {
        if (t == running || fibers[t].state != ASLEEP) continue;
        if (early) list[n++] = t | EARLY;
        if (fibers[t].deadline != UINT64_MAX) list[n++] = t | TIMEOUT;
    }
    return n;
}

/* One of the list goes on. PCT: who has the highest priority of the first `awake`, or seldom a sleeper. */
static void pick_thread(enum point point, const unsigned *list, unsigned n, unsigned awake, unsigned gratis) {
    unsigned best = 0;
    for (unsigned i = 1; i < awake && options.pct_depth; i++)
        if (fibers[list[i]].priority > fibers[list[best]].priority) best = i;
    if (options.pct_depth && n > awake && random_next() % 32 == 0)
        best = awake + (unsigned)(random_next() % (n - awake));
    unsigned entry = list[choose(point, n, gratis, best)], t = entry % EARLY;
    if (entry >= EARLY) {
        SAY("t%u wakes %s", t, entry & EARLY ? "early" : "at its deadline");
        if (entry & TIMEOUT && fibers[t].deadline > clock_now) clock_now = fibers[t].deadline;
        fibers[t].state = READY;
    }
    switch_to(t);
}

/* The running thread cannot go on: somebody else must, for free. */
static void give_up(void) {
    unsigned list[LIST], awake = list_enabled(list), n;
    steps++;
    if (awake) {
        n = list_sleepers(list, awake, true);
        pick_thread(NEXT, list, n, awake, awake);
        return;
    }
    n = list_sleepers(list, 0, false);
    if (running < thread_count && fibers[running].state == ASLEEP && fibers[running].deadline != UINT64_MAX)
        list[n++] = running | TIMEOUT;
    if (n) {
        pick_thread(NEXT, list, n, 0, n);
        return;
    }
    for (unsigned t = 0; t < thread_count; t++)
        if (fibers[t].state == ASLEEP && !program->may_sleep) lab_fail("thread %u sleeps for ever", t);
    _longjmp(explorer, 1);
}

/* The running thread could go on: at the price of a deviation somebody else does. */
static void maybe_preempt(void) {
    unsigned list[LIST], n = 1;
    for (unsigned i = 0; i < changes; i++)
        if (change_at[i] <= steps) {
            fibers[running].priority = i; /* below all initial ones */
            change_at[i] = UINT64_MAX;
        }
    list[0] = running;
    for (unsigned t = 0; t < thread_count; t++)
        if (t != running && enabled(t)) list[n++] = t;
    pick_thread(PREEMPT, list, list_sleepers(list, n, true), n, 1);
}

static void wake_yielded(void) {
    for (unsigned t = 0; t < thread_count; t++)
        if (t != running && fibers[t].state == YIELDED) fibers[t].state = READY;
}

/* Before each step. `address`: what it touches, NULL: nothing shared. */
static void step(const void *address, bool write) {
    size_t at = (size_t)((const unsigned char *)address - arena) / 4;
    clock_now++;
    if (alone) return;
    if (++steps > STEP_LIMIT) lab_fail("no progress after %d steps", STEP_LIMIT);
    result.steps++;
    wake_yielded();
    if (address) {
        touched_by[at] |= (uint8_t)(1u << running);
        if (write) written_by[at] |= (uint8_t)(1u << running);
        if (!shared[at] && written_by[at] && (touched_by[at] & (touched_by[at] - 1))) shared_grew = true;
    }
    bool matters = address && (shared[at] || replaying);
    if (options.stop_thread == (int)running && !stopped_one && (!address || matters) && choose(STOP, 2, 2, 2)) {
        stopped_one = true;
        SAY("stops for ever");
        fibers[running].state = STOPPED;
        give_up();
    }
    if (matters) maybe_preempt();
    if (fibers[running].mark) *fibers[running].mark = lab_mark();
    fibers[running].mark = NULL;
}

/* The thread waits for others: in turn, so that nobody is passed over for ever; another order costs a deviation. */
void lab_relax(void) {
    unsigned list[LAB_THREADS], turn[LAB_THREADS], n, k = 0;
    step(NULL, false);
    if (alone) return;
    fibers[running].state = YIELDED;
    fibers[running].priority = 0;
    n = list_enabled(list);
    for (unsigned i = 0; i < n; i++)
        if (list[i] > running) turn[k++] = list[i];
    for (unsigned i = 0; i < n; i++)
        if (list[i] <= running) turn[k++] = list[i];
    if (n) pick_thread(TURN, turn, n, n, 1);
    else give_up();
    fibers[running].state = READY;
}

void lab_give(void) {
    unsigned list[LIST], n = 1;
    step(NULL, false);
    list[0] = running;
    for (unsigned t = 0; t < thread_count && !alone; t++)
        if (t != running && enabled(t)) list[n++] = t;
    pick_thread(TURN, list, n, n, n);
}

void lab_park(uint32_t *word, uint32_t ticket, uint64_t deadline) {
    step(word, true);
    if (lab_newest(word, 4) != ticket) return;
    if (alone) lab_fail("sleeps with nobody to wake it");
    SAY("sleeps on %s", name_of(word));
    fibers[running].state = ASLEEP;
    fibers[running].word = word;
    fibers[running].deadline = deadline;
    give_up();
}

void lab_wake(uint32_t *word) {
    step(word, true);
    SAY("wakes %s", name_of(word));
    for (unsigned t = 0; t < thread_count; t++)
        if (fibers[t].state == ASLEEP && fibers[t].word == word) fibers[t].state = READY;
}

/* ---------------------------------------------------------------- happens-before and blocks */

static bool in_arena(const void *address) {
    return (const unsigned char *)address >= arena && (const unsigned char *)address < arena + ARENA;
}

static struct shadow *shadow_of(const void *address) {
    struct shadow *s = &shadows[(const unsigned char *)address - arena];
    if (s->generation != generation) {
        memset(s, 0, sizeof *s);
        s->generation = generation;
    }
    return s;
}

static void race(const char *what, const char *with, unsigned other, const void *address) {
    lab_fail("race: %s by t%u, %s by t%u before it, not ordered, at %s", what, running, with, other, name_of(address));
}

/* Checks an access to one byte against all that came before it, and notes it. */
static void touch(const unsigned char *byte, bool plain, bool write) {
    const uint32_t *known = fibers[running].clock;
    const char *what = plain ? write ? "plain write" : "plain read" : write ? "atomic write" : "atomic read";
    if (blocks[byte - arena] == 2) lab_fail("%s by t%u after the free of %s", what, running, name_of(byte));
    if (blocks[byte - arena] == 0) lab_fail("%s by t%u outside any block, at %s", what, running, name_of(byte));
    if (alone) return; /* before all threads, or after them */
    struct shadow *s = shadow_of(byte);
    if (s->plain_write > known[s->writer]) race(what, "plain write", s->writer, byte);
    for (unsigned t = 0; t < LAB_THREADS; t++) {
        if (write && s->plain_read[t] > known[t]) race(what, "plain read", t, byte);
        if (plain && s->atomic_write[t] > known[t]) race(what, "atomic write", t, byte);
        if (plain && write && s->atomic_read[t] > known[t]) race(what, "atomic read", t, byte);
    }
    if (plain && write) {
        s->writer = (uint8_t)running;
        s->plain_write = known[running];
    } else if (plain) {
        s->plain_read[running] = known[running];
    } else if (write) {
        s->atomic_write[running] = known[running];
    } else {
        s->atomic_read[running] = known[running];
    }
}

void lab_plain(const void *address, size_t size, bool write) {
    const unsigned char *byte = address;
    if (!in_execution || naming || !in_arena(address)) return;
    if (lab_account) lab_account(running, address, size, write);
    for (size_t i = 0; i < (alone ? 1 : size); i++) touch(byte + i, true, write);
    if (write)
        for (size_t i = (size_t)(byte - arena) / 4; i <= (size_t)(byte + size - 1 - arena) / 4; i++) location_of[i] = 0;
}

void *lab_memset(void *to, int byte, size_t bytes) {
    if (bytes) lab_plain(to, bytes, true);
    return memset(to, byte, bytes);
}

void *lab_memcpy(void *to, const void *from, size_t bytes) {
    if (bytes) {
        lab_plain(from, bytes, false);
        lab_plain(to, bytes, true);
    }
    return memcpy(to, from, bytes);
}

void *lab_malloc(size_t bytes) {
    unsigned part = alone ? LAB_THREADS : running;
    size_t size = (bytes + 15) / 16 * 16, room = part == LAB_THREADS ? ARENA - (size_t)LAB_THREADS * PART : PART;
    unsigned char *at = arena + (size_t)part * PART + part_used[part];
    step(NULL, false);
    if (options.fail_memory && choose(MEMORY, 2, 2, 2)) {
        SAY("malloc of %zu bytes fails", bytes);
        refusals[running]++;
        return NULL;
    }
    if (part_used[part] + size + 32 > room) LIMIT("its memory is used up");
    part_used[part] += size + 32;
    memcpy(at, &bytes, sizeof bytes);
    at += 16;
    memset(&blocks[at - arena], 1, bytes);
    blocks_live++;
    return at;
}

void lab_free(void *memory) {
    size_t bytes;
    if (!memory) return;
    step(NULL, false);
    memcpy(&bytes, (unsigned char *)memory - 16, sizeof bytes);
    SAY("frees %s", name_of(memory));
    for (size_t i = 0; i < (alone ? 1 : bytes); i++) touch((unsigned char *)memory + i, true, true);
    memset(&blocks[(unsigned char *)memory - arena], 2, bytes);
    blocks_live--;
}

/* ---------------------------------------------------------------- atomic accesses */

static void join_view(struct view *to, const struct view *from) {
    unsigned n = from->count ? from->count : location_count;
    for (unsigned i = 0; i < n; i++)
        if (from->at[i] > to->at[i]) to->at[i] = from->at[i];
}

static void join_clock(uint32_t *to, const uint32_t *from) {
    for (unsigned t = 0; t < LAB_THREADS; t++)
        if (from[t] > to[t]) to[t] = from[t];
}

static uint64_t memory_at(const void *address, unsigned size) {
    return size == 8 ? *(const uint64_t *)address : *(const uint32_t *)address;
}

static struct message *message_make(void) {
    if (message_count == MESSAGES) LIMIT("more than %d stores", MESSAGES);
    struct message *m = &messages[message_count++];
    memset(m, 0, sizeof *m);
    return m;
}

static struct location *location_at(const void *address, unsigned size) {
    size_t slot = (size_t)((const unsigned char *)address - arena) / 4;
    struct location *l;
    if (!in_arena(address)) lab_fail("an atomic access outside the lab's memory");
    if (location_of[slot]) {
        l = &locations[location_of[slot] - 1];
        if (l->size != size) lab_fail("an atomic word is accessed at two sizes, at %s", name_of(address));
        return l;
    }
    if (location_count == LOCATIONS) LIMIT("more than %d locations", LOCATIONS);
    for (unsigned t = 0; t < LAB_THREADS; t++) fibers[t].view.at[location_count] = 0;
    sc_view.at[location_count] = 0;
    l = &locations[location_count++];
    location_of[slot] = (uint16_t)location_count;
    l->size = size;
    l->newest = message_make();
    l->newest->value = memory_at(address, size);
    l->newest->stamp = GAP;
    return l;
}

uint64_t lab_newest(const void *address, unsigned size) {
    size_t slot = (size_t)((const unsigned char *)address - arena) / 4;
    return location_of[slot] ? locations[location_of[slot] - 1].newest->value : memory_at(address, size);
}

static uint32_t *known(const struct location *l) { return &fibers[running].view.at[l - locations]; }

/* The thread reads a message. */
static void learn(struct location *l, const struct message *m, enum lab_order order) {
    if (m->stamp > *known(l)) *known(l) = m->stamp;
    if (order != LAB_ACQUIRE && order != LAB_ACQ_REL) return;
    if (m->view) join_view(&fibers[running].view, m->view);
    join_clock(fibers[running].clock, m->clock);
}

/* A new message right after `before`; `from`: the message that an RMW read, whose release sequence it continues. */
static void publish(void *address, struct location *l, struct message *before, uint64_t value, enum lab_order order,
                    const struct message *from) {
    struct message *m = message_make(), *after = before->newer;
    struct fiber *me = &fibers[running];
    m->value = value;
    m->stamp = after ? before->stamp + (after->stamp - before->stamp) / 2 : before->stamp + GAP;
    m->older = before;
    m->newer = after;
    before->newer = m;
    if (after) after->older = m;
    else l->newest = m;
    *known(l) = m->stamp;
    bool release = order == LAB_RELEASE || order == LAB_ACQ_REL;
    if (release) memcpy(m->clock, me->clock, sizeof m->clock);
    if (from) join_clock(m->clock, from->clock);
    if (options.weak && (release || (from && from->view))) {
        if (view_count == view_room) LIMIT("more than %u views", view_room);
        m->view = &views[view_count++];
        m->view->count = location_count;
        memset(m->view->at, 0, sizeof(uint32_t) * location_count);
        if (release) join_view(m->view, &me->view);
        if (from && from->view) join_view(m->view, from->view);
        if (m->stamp > m->view->at[l - locations]) m->view->at[l - locations] = m->stamp;
    }
    me->clock[running]++;
    if (l->size == 8) *(uint64_t *)address = l->newest->value;
    else *(uint32_t *)address = (uint32_t)l->newest->value;
}

/* Lists, from the newest, the messages that the thread may read (or come after). */
static unsigned readable(struct location *l, struct message **list, bool skip_glued) {
    unsigned n = 0;
    for (struct message *m = l->newest; m && n < 8; m = m->older) {
        bool room = !m->newer || m->newer->stamp - m->stamp > 1;
        if (!skip_glued || (!m->glued && room)) list[n++] = m;
        if (m->stamp <= *known(l) || !options.weak || alone) break;
    }
    return n;
}

static unsigned choose_message(unsigned n) { return choose(READ, n, 1, n); }

static void account(const void *address, unsigned size, bool write) {
    if (lab_account) lab_account(running, address, size, write);
    for (size_t i = 0; i < (alone ? 1 : size); i++) touch((const unsigned char *)address + i, false, write);
}

static const char *const order_names[] = {"relaxed", "acquire", "release", "acq_rel"};

uint64_t lab_load(const void *address, unsigned size, enum lab_order order) {
    struct message *list[8];
    step(address, false);
    struct location *l = location_at(address, size);
    unsigned pick = choose_message(readable(l, list, false));
    account(address, size, false);
    learn(l, list[pick], order);
    result.stale_reads += pick != 0;
    SAY("load %s %s = %llx%s", order_names[order], name_of(address), (unsigned long long)list[pick]->value,
        pick ? " (stale)" : "");
    return list[pick]->value;
}

void lab_store(void *address, unsigned size, uint64_t value, enum lab_order order) {
    struct message *list[8];
    step(address, true);
    struct location *l = location_at(address, size);
    unsigned pick = choose_message(readable(l, list, true));
    account(address, size, true);
    publish(address, l, list[pick], value, order, NULL);
    SAY("store %s %s = %llx%s", order_names[order], name_of(address), (unsigned long long)value,
        pick ? " (early)" : "");
}

uint64_t lab_rmw(void *address, unsigned size, enum lab_rmw op, uint64_t operand, enum lab_order order) {
    static const char *const names[] = {"exchange", "add", "or", "and"};
    struct message *list[8];
    step(address, true);
    struct location *l = location_at(address, size);
    struct message *m = list[choose_message(readable(l, list, true))];
    uint64_t old = m->value, mask = size == 8 ? UINT64_MAX : UINT32_MAX;
    uint64_t value = op == LAB_EXCHANGE ? operand
                     : op == LAB_ADD    ? old + operand
                     : op == LAB_OR     ? old | operand
                                        : old & operand;
    account(address, size, true);
    learn(l, m, order);
    m->glued = true;
    publish(address, l, m, value & mask, order, m);
    SAY("%s %s %s: %llx -> %llx", names[op], order_names[order], name_of(address), (unsigned long long)old,
        (unsigned long long)(value & mask));
    return old;
}

bool lab_cas(void *address, unsigned size, uint64_t *expected, uint64_t value, enum lab_order order,
             enum lab_order failed) {
    struct message *list[8];
    unsigned n, kept = 0;
    step(address, true);
    struct location *l = location_at(address, size);
    n = readable(l, list, false);
    for (unsigned i = 0; i < n; i++) /* one that has the value must be taken, so it cannot be one that was taken */
        if (list[i]->value != *expected || !list[i]->glued) list[kept++] = list[i];
    struct message *m = list[choose_message(kept)];
    bool done = m->value == *expected;
    account(address, size, done);
    learn(l, m, done ? order : failed);
    if (done) {
        m->glued = true;
        publish(address, l, m, value, order, m);
    }
    SAY("cas %s: %llx -> %llx %s", name_of(address), (unsigned long long)*expected, (unsigned long long)value,
        done ? "done" : "failed");
    if (!done) *expected = m->value;
    return done;
}

void lab_fence_sc(void) {
    step(NULL, false);
    join_view(&fibers[running].view, &sc_view);
    join_view(&sc_view, &fibers[running].view);
}

void lab_mark_at_step(struct lab_mark *mark) {
    if (mark) *mark = lab_mark();
    fibers[running].mark = mark;
}

struct lab_mark lab_mark(void) {
    struct lab_mark mark;
    mark.step = ++marks;
    mark.thread = running;
    memcpy(mark.clock, fibers[running].clock, sizeof mark.clock);
    fibers[running].clock[running]++;
    return mark;
}

bool lab_before(const struct lab_mark *end, const struct lab_mark *begin) {
    if (end->thread == begin->thread || options.weak) return end->clock[end->thread] <= begin->clock[end->thread];
    return end->step < begin->step;
}

/* ---------------------------------------------------------------- RCU of a host */

enum { CALLBACKS = 64 };

static struct callback {
    struct lab_rcu_head *head;
    void (*fn)(struct lab_rcu_head *head);
    bool waits[LAB_THREADS];
    uint64_t section[LAB_THREADS]; /* for the end of these */
} callbacks[CALLBACKS];
static unsigned callback_first, callback_end; /* queued: [first, end); each execution begins at 0 */
static unsigned nesting[LAB_THREADS];
static uint64_t sections[LAB_THREADS]; /* number of the thread's present section */

/* What is known to whom: what was done before callbacks were queued, to sections that begin later; what was done
 * in sections that ended, and in callbacks, to callbacks and to whoever waits for them. No more: an end is not
 * ordered before a later begin. */
static struct knowledge {
    struct view view;
    uint32_t clock[LAB_THREADS];
} rcu_queued, rcu_ended;

static void rcu_tell(struct knowledge *to) {
    join_view(&to->view, &fibers[running].view);
    join_clock(to->clock, fibers[running].clock);
    fibers[running].clock[running]++;
}

static void rcu_learn(const struct knowledge *from) {
    join_view(&fibers[running].view, &from->view);
    join_clock(fibers[running].clock, from->clock);
}

void lab_rcu_enter(void) {
    step(&callback_place[0], false);
    if (nesting[running]++) return;
    sections[running]++;
    rcu_learn(&rcu_queued);
}

void lab_rcu_exit(void) {
    step(NULL, false);
    if (--nesting[running] == 0) rcu_tell(&rcu_ended);
}

bool lab_rcu_held(void) { return nesting[running] != 0; }

/* What a grace period that begins now waits for. */
static struct callback open_sections(void) {
    struct callback c = {0};
    for (unsigned t = 0; t < LAB_THREADS; t++) {
        c.waits[t] = nesting[t] != 0;
        c.section[t] = sections[t];
    }
    return c;
}

void lab_rcu_call(struct lab_rcu_head *head, void (*fn)(struct lab_rcu_head *head)) {
    step(&callback_place[0], true);
    if (callback_end == CALLBACKS) LIMIT("more than %d callbacks", CALLBACKS);
    struct callback *c = &callbacks[callback_end++];
    *c = open_sections();
    c->head = head;
    c->fn = fn;
    rcu_tell(&rcu_queued);
    join_view(&rcu_ended.view, &rcu_queued.view); /* a callback also knows what was done before it was queued */
    join_clock(rcu_ended.clock, rcu_queued.clock);
}

static bool callback_is_due(const struct callback *c) {
    for (unsigned t = 0; t < LAB_THREADS; t++)
        if (c->waits[t] && nesting[t] && sections[t] == c->section[t]) return false;
    return true;
}

static bool run_due_callback(void) {
    if (callback_first == callback_end || !callback_is_due(&callbacks[callback_first])) return false;
    struct callback c = callbacks[callback_first];
    rcu_learn(&rcu_ended);
    c.fn(c.head);
    callback_first++; /* only now: a barrier waits for its end */
    rcu_tell(&rcu_ended);
    return true;
}

void lab_rcu_barrier(void) {
    unsigned end = callback_end;
    step(&callback_place[0], true);
    while (alone && callback_first < end) (void)run_due_callback();
    while (callback_first < end) lab_relax();
    rcu_learn(&rcu_ended);
}

void lab_rcu_synchronize(void) {
    step(&callback_place[0], true);
    struct callback c = open_sections(); /* in one step with the telling: nobody may begin in between */
    rcu_tell(&rcu_queued);
    while (!callback_is_due(&c)) lab_relax();
    rcu_learn(&rcu_ended);
}

bool lab_others_done(void) {
    for (unsigned t = 0; t < thread_count; t++)
        if (t != running && fibers[t].state != DONE && fibers[t].state != STOPPED) return false;
    return true;
}

void lab_rcu_thread(void) {
    for (;;) {
        step(&callback_place[0], true);
        if (run_due_callback()) continue;
        if ((callback_first == callback_end || stopped_one) && lab_others_done())
            return; /* a section may last for ever */
        lab_relax();
    }
}

/* ---------------------------------------------------------------- one execution */

void lab_prepare(unsigned t, void (*fn)(void)) {
    unsigned char kept[sizeof fibers[t].tls];
    void *tls;
    size_t bytes = subject_tls(&tls);
    memcpy(kept, tls, bytes);
    memcpy(tls, fibers[t].tls, bytes);
    fn();
    memcpy(fibers[t].tls, tls, bytes);
    memcpy(tls, kept, bytes);
}

static void fiber_main(int t) {
    program->body(program->data, (unsigned)t);
    subject_thread_exit();
    SAY("ends");
    fibers[t].state = DONE;
    give_up();
}

static void reset(void) {
    if (!stacks) {
        view_room = 4096;
        stacks = malloc((size_t)LAB_THREADS * STACK);
        views = malloc(view_room * sizeof *views);
        if (!stacks || !views) abort();
    }
    generation++;
    for (unsigned part = 0; part <= LAB_THREADS; part++) {
        memset(&location_of[part * (size_t)PART / 4], 0, (part_used[part] / 4 + 1) * sizeof *location_of);
        memset(&blocks[part * (size_t)PART], 0, part_used[part]);
        part_used[part] = 0;
    }
    location_count = message_count = view_count = 0;
    blocks_live = 0;
    choice_at = deviation_at = 0;
    if (replaying || options.bytes || options.pct_depth) choice_count = 0;
    misfit = false;
    callback_first = callback_end = 0;
    memset(nesting, 0, sizeof nesting);
    memset(&rcu_queued, 0, sizeof rcu_queued);
    memset(&rcu_ended, 0, sizeof rcu_ended);
    steps = clock_now = marks = 0;
    memset(refusals, 0, sizeof refusals);
    aborted = stopped_one = shared_grew = false;
    failure[0] = 0;
    running = MAIN;
    thread_count = program->threads;
    for (unsigned t = 0; t < LAB_THREADS; t++) {
        struct fiber *f = &fibers[t];
        memset(f->clock, 0, sizeof f->clock);
        memset(f->tls, 0, sizeof f->tls);
        f->clock[t] = 1;
        f->begun = false;
        f->state = READY;
        f->priority = 0;
        f->mark = NULL;
    }
}

static void start_fibers(void) {
    void *tls;
    size_t bytes = subject_tls(&tls);
    for (unsigned t = 0; t < thread_count; t++) {
        struct fiber *f = &fibers[t];
        if (t != MAIN) {
            join_view(&f->view, &fibers[MAIN].view);
            join_clock(f->clock, fibers[MAIN].clock);
        }
        (void)getcontext(&f->first);
        f->first.uc_stack.ss_sp = stacks + (size_t)t * STACK;
        f->first.uc_stack.ss_size = STACK;
        f->first.uc_link = NULL;
        makecontext(&f->first, (void (*)(void))fiber_main, 1, (int)t);
        if (options.pct_depth) f->priority = 16 + (unsigned)(random_next() % 1000) * LAB_THREADS + t;
    }
    fibers[MAIN].clock[MAIN]++;
    memset(tls, 0, bytes);
}

/* Runs to the end or to the first failure; true: it failed. */
static bool execute(void) {
    void *tls;
    size_t bytes = subject_tls(&tls);
    unsigned first[LAB_THREADS];
    reset();
    in_execution = true;
    result.schedules++;
    if (_setjmp(explorer) == 0) {
        alone = true;
        memset(tls, 0, bytes);
        program->setup(program->data);
        subject_thread_exit();
        start_fibers();
        alone = false;
        running = list_enabled(first) ? first[choose(NEXT, thread_count, thread_count, thread_count)] : 0;
        memcpy(tls, fibers[running].tls, bytes);
        fibers[running].begun = true;
        setcontext(&fibers[running].first);
    }
    if (!aborted && _setjmp(explorer) == 0) { /* all threads are done, asleep on purpose, or stopped */
        alone = true;
        running = MAIN;
        memset(tls, 0, bytes);
        for (unsigned t = 0; t < thread_count; t++)
            if (fibers[t].state != STOPPED) {
                join_view(&fibers[MAIN].view, &fibers[t].view);
                join_clock(fibers[MAIN].clock, fibers[t].clock);
            }
        if (stopped_one && program->stopped) program->stopped(program->data);
        if (!stopped_one) {
            program->finish(program->data);
            subject_thread_exit();
            if (blocks_live && !program->may_sleep) lab_fail("%ld blocks of memory are left", blocks_live);
        }
    }
    in_execution = false;
    return aborted;
}

/* ---------------------------------------------------------------- exploration */

/* What two threads used becomes a point of choice; true: there is something new, and the search must begin anew. */
static bool learn_shared(void) {
    bool grew = false;
    if (!shared_grew) return false;
    for (size_t i = 0; i < ARENA / 4; i++) {
        bool now = written_by[i] && (touched_by[i] & (touched_by[i] - 1));
        grew |= now && !shared[i];
        shared[i] |= now;
    }
    return grew;
}

/* The deviations of the last execution as text, "17p1,43r2": at step 17 preempted by the first of the others, at step
 * 43 read the value before the value before the newest (r1: the one before the newest). */
static bool describe(char *text, size_t size) {
    size_t at = 0;
    text[0] = 0;
    for (unsigned i = 0; i < choice_count; i++) {
        if (!choices[i].pick) continue;
        if (at + 16 > size) return false;
        at += (size_t)snprintf(text + at, size - at, "%s%u%c%u", at ? "," : "", choices[i].key / POINTS,
                               point_letters[choices[i].key % POINTS], choices[i].pick);
    }
    return true;
}

static bool parse(const char *text) {
    deviation_count = 0;
    while (*text) {
        char *end;
        unsigned long step_number = strtoul(text, &end, 10), pick;
        const char *letter = *end ? strchr(point_letters, *end) : NULL;
        if (*text < '0' || *text > '9' || !letter || end[1] < '0' || end[1] > '9') return false;
        pick = strtoul(end + 1, &end, 10);
        if ((*end && (*end != ',' || !end[1])) || step_number > STEP_LIMIT || !pick || pick > 255) return false;
        uint32_t key = (uint32_t)step_number * POINTS + (uint32_t)(letter - point_letters);
        if (deviation_count && key <= deviations[deviation_count - 1].key) return false;
        if (deviation_count == CHOICES) return false;
        deviations[deviation_count++] = (struct choice){.key = key, .pick = (uint16_t)pick};
        text = *end ? end + 1 : end;
    }
    return true;
}

/* Leaves out every deviation without which it still fails, and names what is left. */
static void shrink(void) {
    static struct choice kept[CHOICES];
    replaying = true;
    deviation_count = 0;
    for (unsigned i = 0; i < choice_count; i++)
        if (choices[i].pick) deviations[deviation_count++] = choices[i];
    if (!execute()) {
        char found[sizeof failure];
        memcpy(found, result.reason, sizeof found);
        (void)snprintf(result.reason, sizeof result.reason, "limit of the lab: does not fail again: %.180s", found);
        (void)describe(result.schedule, sizeof result.schedule);
        return;
    }
    for (unsigned chunk = deviation_count / 2 + 1; chunk; chunk /= 2)
        for (unsigned at = 0; at < deviation_count;) {
            unsigned n = deviation_count, cut = chunk < n - at ? chunk : n - at;
            memcpy(kept, deviations, n * sizeof *kept);
            deviation_count -= cut;
            memmove(&deviations[at], &deviations[at + cut], (n - at - cut) * sizeof *kept);
            if (execute()) continue;
            memcpy(deviations, kept, n * sizeof *kept);
            deviation_count = n;
            at += cut;
        }
    (void)execute();
    memcpy(result.reason, failure, sizeof result.reason);
    if (!describe(result.schedule, sizeof result.schedule))
        (void)snprintf(result.schedule, sizeof result.schedule, "(too long to print)");
    replaying = false;
}

static void prepare(const struct lab_program *p, const struct lab_options *o) {
    program = p;
    options = *o;
    memset(&result, 0, sizeof result);
    memset(touched_by, 0, sizeof touched_by);
    memset(written_by, 0, sizeof written_by);
    memset(shared, 0, sizeof shared);
    choice_count = changes = 0;
    trace = replaying = false;
    random_state = o->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static bool search(void) {
    unsigned long limit = options.schedules ? options.schedules : ~0ul;
    while (result.schedules < limit) {
        if (options.pct_depth) {
            uint64_t length = steps > 16 ? steps : 200;
            changes = options.pct_depth - 1 < 16 ? options.pct_depth - 1 : 16;
            for (unsigned i = 0; i < changes; i++) change_at[i] = random_next() % length;
        }
        if (execute()) return true;
        bool grew = learn_shared();
        if (options.pct_depth) continue;
        if (grew) choice_count = 0;
        else if (!next_sequence()) {
            result.complete = true;
            return false;
        }
    }
    return false;
}

/* An execution from bytes. Which places are shared is learned by running it until that is all known. */
static bool execute_bytes(void) {
    bool failed;
    do failed = execute();
    while (!failed && learn_shared());
    return failed;
}

struct lab_result lab_explore(const struct lab_program *p, const struct lab_options *o) {
    prepare(p, o);
    result.failed = o->bytes ? execute_bytes() : search();
    result.deviations = o->pct_depth || o->bytes ? 0 : o->deviations;
    if (result.failed) {
        memcpy(result.reason, failure, sizeof result.reason);
        shrink();
    }
    return result;
}

struct lab_result lab_replay(const struct lab_program *p, const struct lab_options *o, const char *schedule, bool say) {
    prepare(p, o);
    options.pct_depth = 0;
    options.bytes = NULL;
    replaying = true;
    if (!parse(schedule)) {
        result.misfit = true;
        (void)snprintf(result.reason, sizeof result.reason, "not a schedule: %.200s", schedule);
        return result;
    }
    trace = say;
    result.failed = execute();
    trace = false;
    memcpy(result.reason, failure, sizeof result.reason);
    result.misfit = misfit || deviation_at != deviation_count;
    if (say && p->dump) p->dump();
    replaying = false;
    return result;
}
