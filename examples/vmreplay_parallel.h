/* SPDX-License-Identifier: MIT */
/* Part of vmreplay.c: --parallel. A thread for each thread of the trace; what meets keeps its order. */

/* An event must wait until `lane` has done `done` of its events. */
struct dependency {
    uint32_t lane, done;
};

/* A thread of the trace. */
struct lane {
    struct parallel *all;
    uint32_t *events; /* in file order */
    uint32_t n;
    pthread_mutex_t mutex; /* of `done` */
    pthread_cond_t more;
    uint32_t done;
    pthread_t thread;
    struct lane *next_gone;
};

struct parallel {
    struct replay *run;
    struct lane *lanes;
    size_t lane_count;
    uint32_t *lane_events;    /* all lanes' lists, one after the other */
    uint32_t *place;          /* by event: its number in its lane, from 1 */
    size_t *first_dependency; /* by event; one more than events */
    ARRAY(struct dependency) dependencies;
    uint64_t *begin, *end; /* by event: when it ran */
    uint32_t *depth;       /* by event: longest chain that ends with it */
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t gone_one;
    struct lane *gone; /* to be joined */
    size_t live;
    uint64_t overlapped, most; /* found afterwards */
    double average;
    size_t peak_event;
    uint32_t longest;
};

#define LOOKS       2000
#define WINDOW_MOST 4096 /* events since the last barrier of a space; then one counts as a barrier */

static bool is_event(const struct event *ev) { return ev->op != OP_FAULT; }

/* Barriers meet everything of their space. */
static bool is_barrier(const struct event *ev) {
    return ev->op == OP_CHECK || ev->op == OP_BIRTH || ev->op == OP_FORK || ev->op == OP_END || ev->op == OP_BARRIER;
}

static bool conflict(const struct event *a, const struct event *b) {
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = 0; k < 2; k++)
            if (a->meets[i].lo < b->meets[k].hi && b->meets[k].lo < a->meets[i].hi) return true;
    return false;
}

/* What happened in a space since its last barrier, that included. */
struct recent {
    uint32_t *at;
    size_t n, room;
};

/* `mark[lane] == i + 1`: event i waits for this lane already, and for a later event of it. */
static void depend_on_recent(struct parallel *all, const struct recent *recent, uint32_t i, uint32_t *mark,
                             bool whole) {
    const struct event *events = all->run->trace->events.at;
    for (size_t k = recent->n; k-- > 0;) {
        const uint32_t j = recent->at[k], lane = events[j].lane;
        if (mark[lane] == i + 1 || !(whole || conflict(&events[i], &events[j]))) continue;
        mark[lane] = i + 1;
        if (all->depth[i] <= all->depth[j]) all->depth[i] = all->depth[j] + 1;
        if (lane == events[i].lane) continue; /* its own order is kept anyway */
        need(RESERVE(all->dependencies, all->dependencies.n + 1));
        all->dependencies.at[all->dependencies.n++] = (struct dependency){lane, all->place[j]};
    }
}

static void remember(struct recent *recent, uint32_t i, bool barrier) {
    if (barrier) recent->n = 0;
    need(RESERVE(*recent, recent->n + 1));
    recent->at[recent->n++] = i;
}

/* Which earlier events of other threads each event waits for. */
static void find_dependencies(struct parallel *all) {
    const struct trace *t = all->run->trace;
    const size_t spaces = t->spaces.n;
    struct recent *recent = calloc(spaces + 1, sizeof *recent);
    uint32_t *mark = calloc(all->lane_count, sizeof *mark), *last = calloc(all->lane_count, sizeof *last);
    need(recent && mark && last);
    for (uint32_t i = 0; i < t->events.n; i++) {
        const struct event *ev = &t->events.at[i];
        const bool everywhere = ev->op == OP_BARRIER;
        all->first_dependency[i] = all->dependencies.n;
        if (!is_event(ev)) continue;
        all->depth[i] = last[ev->lane] + 1;
        const size_t first = everywhere ? 0 : ev->space;
        const size_t end = everywhere ? spaces : ev->space == NONE || !has_effect(ev) ? first : first + 1;
        for (size_t s = first; s < end; s++) {
            const bool barrier = is_barrier(ev) || recent[s].n >= WINDOW_MOST;
            depend_on_recent(all, &recent[s], i, mark, barrier);
            remember(&recent[s], i, barrier);
        }
        if (ev->op == OP_FORK) remember(&recent[ev->other], i, true);
        last[ev->lane] = all->depth[i];
        if (all->depth[i] > all->longest) all->longest = all->depth[i];
    }
    all->first_dependency[t->events.n] = all->dependencies.n;
    for (size_t s = 0; s < spaces; s++) free(recent[s].at);
    free(recent);
    free(mark);
    free(last);
}

/* Each lane's events in file order. */
static void fill_lanes(struct parallel *all) {
    const struct trace *t = all->run->trace;
    uint32_t at = 0;
    for (size_t i = 0; i < t->events.n; i++)
        if (is_event(&t->events.at[i])) all->place[i] = ++all->lanes[t->events.at[i].lane].n;
    for (size_t k = 0; k < all->lane_count; k++) {
        struct lane *lane = &all->lanes[k];
        lane->all = all;
        lane->events = all->lane_events + at;
        at += lane->n;
        pthread_mutex_init(&lane->mutex, NULL);
        pthread_cond_init(&lane->more, NULL);
    }
    for (uint32_t i = 0; i < t->events.n; i++)
        if (is_event(&t->events.at[i])) all->lanes[t->events.at[i].lane].events[all->place[i] - 1] = i;
}

static void wait_for(struct parallel *all, const struct dependency *d) {
    struct lane *lane = &all->lanes[d->lane];
    for (int look = 0; look < LOOKS; look++) /* an event is shorter than a sleep */
        if (__atomic_load_n(&lane->done, __ATOMIC_ACQUIRE) >= d->done) return;
    pthread_mutex_lock(&lane->mutex);
    while (lane->done < d->done) SLEEP(pthread_cond_wait(&lane->more, &lane->mutex));
    pthread_mutex_unlock(&lane->mutex);
}

static void *lane_main(void *arg);

/* Threads that are gone are joined here, so that never more exist than the program had. */
static void start_lane(struct parallel *all, struct lane *lane) {
    pthread_mutex_lock(&all->mutex);
    struct lane *gone = all->gone;
    all->gone = NULL;
    all->live++;
    pthread_mutex_unlock(&all->mutex);
    for (; gone; gone = gone->next_gone) SLEEP(pthread_join(gone->thread, NULL));
    start_thread(&lane->thread, lane_main, lane);
}

static void run_lane(struct lane *lane) {
    struct parallel *all = lane->all;
    struct worker w = {.run = all->run};
    static const struct timespec in_show = {0, 100000};
    for (uint32_t k = 0; k < lane->n; k++) {
        const uint32_t i = lane->events[k];
        const struct event *ev = &all->run->trace->events.at[i];
        for (size_t d = all->first_dependency[i]; d < all->first_dependency[i + 1]; d++)
            wait_for(all, &all->dependencies.at[d]);
        run_event(&w, i, &all->begin[i], &all->end[i]);
        THREAD_IDLE();
        if (all->run->options->show) { /* a call of the kernel has work to do; so that one sees it */
            SLEEP(nanosleep(&in_show, NULL));
            all->end[i] = now_ns();
        }
        __atomic_store_n(&all->run->position[0], i, __ATOMIC_RELAXED);
        if (lane == all->lanes) say_progress(all->run, i, all->end[i]);
        if (ev->starts != NONE) start_lane(all, &all->lanes[ev->starts]);
        pthread_mutex_lock(&lane->mutex);
        __atomic_store_n(&lane->done, k + 1, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&lane->more);
        pthread_mutex_unlock(&lane->mutex);
    }
    end_worker(&w);
}

static void *lane_main(void *arg) {
    struct lane *lane = arg;
    struct parallel *all = lane->all;
    THREAD_BEGIN();
    run_lane(lane);
    THREAD_END();
    pthread_mutex_lock(&all->mutex);
    lane->next_gone = all->gone;
    all->gone = lane;
    all->live--;
    pthread_cond_signal(&all->gone_one);
    pthread_mutex_unlock(&all->mutex);
    return NULL;
}

/* Lanes that no other thread of the trace starts are there from the beginning; lane 0 is this thread. */
static void run_lanes(struct parallel *all) {
    const struct trace *t = all->run->trace;
    bool *started = calloc(all->lane_count, sizeof *started);
    need(started != NULL);
    for (size_t i = 0; i < t->events.n; i++)
        if (t->events.at[i].starts != NONE) started[t->events.at[i].starts] = true;
    for (size_t k = 1; k < all->lane_count; k++)
        if (!started[k]) start_lane(all, &all->lanes[k]);
    free(started);
    run_lane(&all->lanes[0]);
    pthread_mutex_lock(&all->mutex);
    while (all->live) SLEEP(pthread_cond_wait(&all->gone_one, &all->mutex));
    pthread_mutex_unlock(&all->mutex);
    for (struct lane *gone = all->gone; gone; gone = gone->next_gone) SLEEP(pthread_join(gone->thread, NULL));
}

struct moment {
    uint64_t ns;
    uint32_t event;
    bool end;
};

static int by_time(const void *x, const void *y) {
    const struct moment *a = x, *b = y;
    if (a->ns != b->ns) return a->ns < b->ns ? -1 : 1;
    return (int)b->end - (int)a->end; /* what ends when another begins did not overlap it */
}

/* Which events ran while another of another thread was under way; checkpoints and growth are not events. */
static void measure_overlap(struct parallel *all) {
    const struct trace *t = all->run->trace;
    struct moment *m = calloc(2 * t->events.n + 1, sizeof *m);
    bool *met = calloc(t->events.n + 1, sizeof *met);
    size_t n = 0, flying = 0;
    uint64_t busy = 0, work = 0;
    need(m && met);
    for (uint32_t i = 0; i < t->events.n; i++) {
        if (t->events.at[i].call == NO_CALL) continue;
        m[n++] = (struct moment){all->begin[i], i, false};
        m[n++] = (struct moment){all->end[i], i, true};
        work += all->end[i] - all->begin[i];
    }
    qsort(m, n, sizeof *m, by_time);
    for (size_t k = 0, alone = 0; k < n; k++) {
        if (k && flying) busy += m[k].ns - m[k - 1].ns;
        if (m[k].end) {
            flying--;
            if (flying == 1) alone = NONE;
            continue;
        }
        if (flying == 1 && alone != NONE) met[alone] = true;
        if (flying) met[m[k].event] = true;
        alone = flying ? NONE : m[k].event;
        if (++flying > all->most) {
            all->most = flying;
            all->peak_event = m[k].event;
        }
    }
    for (size_t i = 0; i < t->events.n; i++) all->overlapped += met[i];
    all->average = busy ? (double)work / (double)busy : 0;
    free(m);
    free(met);
}

static void replay_parallel(struct replay *r, struct parallel *all) {
    const struct trace *t = r->trace;
    const size_t n = t->events.n;
    memset(all, 0, sizeof *all);
    all->run = r;
    all->lane_count = t->lane_names.n;
    all->lanes = calloc(all->lane_count, sizeof *all->lanes);
    all->lane_events = calloc(n + 1, sizeof *all->lane_events);
    all->place = calloc(n + 1, sizeof *all->place);
    all->depth = calloc(n + 1, sizeof *all->depth);
    all->first_dependency = calloc(n + 1, sizeof *all->first_dependency);
    all->begin = calloc(n + 1, sizeof *all->begin);
    all->end = calloc(n + 1, sizeof *all->end);
    need(all->lanes && all->lane_events && all->place && all->depth && all->first_dependency && all->begin && all->end);
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->gone_one, NULL);
    fill_lanes(all);
    find_dependencies(all);
    struct reader *readers = start_readers(r);
    r->started_ns = r->said_ns = now_ns();
    run_lanes(all);
    stop_readers(r, readers);
    measure_overlap(all);
}

static void end_parallel(struct parallel *all) {
    for (size_t k = 0; k < all->lane_count; k++) {
        pthread_mutex_destroy(&all->lanes[k].mutex);
        pthread_cond_destroy(&all->lanes[k].more);
    }
    if (all->run) {
        pthread_mutex_destroy(&all->mutex);
        pthread_cond_destroy(&all->gone_one);
    }
    free(all->lanes);
    free(all->lane_events);
    free(all->place);
    free(all->depth);
    free(all->first_dependency);
    free(all->dependencies.at);
    free(all->begin);
    free(all->end);
}
