/* SPDX-License-Identifier: MIT */
/* Part of vmreplay.c: pictures and the report. */

#define TABLE_ROWS 12
#define COLUMNS    72
#define LANE_ROWS  14

static void human(uint64_t bytes, char out[static 16]) {
    static const char units[] = "KMGT";
    double x = (double)bytes / 1024;
    size_t u = 0;
    for (; x >= 1024 && u < 3; u++) x /= 1024;
    (void)snprintf(out, 16, "%.4g%c", x, units[u]);
}

/* A mapping as a row: its length is told by the bar, one # for each doubling. */
static void print_row(const struct piece *p, char sign) {
    static const char hashes[] = "########################";
    char size[16], text[TEXT_ROOM], object[16], perm[5] = "";
    int bar = 1;
    for (uint64_t pages = (p->hi - p->lo) / PAGE; pages > 1 && bar < 24; pages >>= 1) bar++;
    human(p->hi - p->lo, size);
    *put_perm(perm, p->perm) = 0;
    put_object(object, p->obj);
    (void)snprintf(text, sizeof text, "%llx-%llx", (unsigned long long)p->lo, (unsigned long long)p->hi);
    printf("  %c %-27s %s %-12s %8s |%-24.*s|%s\n", sign, text, perm, object, size, bar, hashes,
           p->flags & GROWS_DOWN ? " grows down" : "");
}

/* The sign says what became of a mapping: '=' is in the other list too, '+' or '-' is not. */
static void print_space(const char *title, const struct pieces *list, const struct pieces *other, char unlike) {
    size_t same = 0, skip;
    printf("%s: %zu intervals\n", title, list->n);
    skip = list->n > TABLE_ROWS ? list->n - TABLE_ROWS : 0;
    for (size_t i = 0, k = 0; i < list->n; i++) {
        const struct piece *p = &list->at[i];
        while (k < other->n && other->at[k].lo < p->lo) k++;
        const bool both =
            k < other->n && other->at[k].lo == p->lo && other->at[k].hi == p->hi && other->at[k].perm == p->perm;
        same += both;
        if (skip && i == TABLE_ROWS / 2) printf("    ... %zu more ...\n", skip);
        if (i < TABLE_ROWS / 2 || i >= TABLE_ROWS / 2 + skip) print_row(p, both ? '=' : unlike);
    }
    printf("    %zu of them in both pictures\n", same);
}

/* The space that is left at the end (or the first), at its birth and now. */
static void show_map(struct replay *r) {
    struct worker w = {.run = r};
    struct pieces before = {0};
    const struct trace *t = r->trace;
    size_t i = 0;
    while (i < t->events.n && t->events.at[i].op != OP_BIRTH && t->events.at[i].op != OP_CHECK) i++;
    if (i < t->events.n) {
        const struct event *ev = &t->events.at[i];
        const struct check *c = &t->checks.at[ev->other];
        normal_form(t, c->count ? t->pieces.at + c->first : NULL, c->count, &before);
        see_areas(&w, ev->space);
        normal_form(t, w.seen.at, w.seen.n, &w.want);
    }
    print_space("before", &before, &w.want, '-');
    print_space("after", &w.want, &before, '+');
    free(before.at);
    end_worker(&w);
}

/* False if the lane had nothing to do then. */
static bool show_lane(const struct parallel *all, const struct lane *lane, uint64_t from, uint64_t column_ns) {
    const struct trace *t = all->run->trace;
    char row[COLUMNS + 1];
    bool any = false;
    memset(row, '.', COLUMNS);
    row[COLUMNS] = 0;
    for (uint32_t k = 0; k < lane->n; k++) {
        const uint32_t i = lane->events[k];
        const uint64_t a = all->begin[i] > from ? (all->begin[i] - from) / column_ns : 0;
        if (all->end[i] < from || a >= COLUMNS) continue;
        const uint64_t b = (all->end[i] - from) / column_ns;
        const struct event *ev = &t->events.at[i];
        any = true;
        for (uint64_t x = a; x < COLUMNS && (x < b || x == a); x++)
            row[x] = ev->call < CALLS                           ? call_forms[ev->call].letter
                     : ev->op == OP_CHECK || ev->op == OP_BIRTH ? 'C'
                                                                : 'o';
    }
    if (any) printf("  t%-6u %s\n", t->lane_names.at[(size_t)(lane - all->lanes)], row);
    return any;
}

/* A piece of the run around the moment when most was under way: a row for each thread. */
static void show_timeline(const struct parallel *all) {
    const uint64_t column_ns = 25000, peak = all->begin[all->peak_event];
    const uint64_t from = peak - column_ns * COLUMNS / 2;
    printf("timeline, %llu us a column; every event lasts 100 us more here, so that the overlap is seen\n",
           (unsigned long long)(column_ns / 1000));
    for (size_t k = 0, rows = 0; k < all->lane_count && rows < LANE_ROWS; k++)
        rows += show_lane(all, &all->lanes[k], from, column_ns);
    printf("  m mmap  u munmap  p mprotect  r mremap  b brk  a madvise  d other  c clone  f fork  x exec  o "
           "exit, growth\n"
           "  t0: C checkpoint, which waits for all before it, as all after it wait for it\n");
    for (uint32_t i = 0, rows = 0; i < all->run->trace->events.n && rows < 4; i++) {
        const struct event *ev = &all->run->trace->events.at[i];
        if (ev->call == NO_CALL || all->begin[i] > peak || all->end[i] <= peak) continue;
        rows++;
        printf("  at its height: t%u %s [%llx, %llx)\n", all->run->trace->lane_names.at[ev->lane],
               call_forms[ev->call].name, (unsigned long long)ev->meets[0].lo, (unsigned long long)ev->meets[0].hi);
    }
}

static void put_text(void *file, const char *text) { fputs(text, file); }

static bool write_dot(struct replay *r) {
    FILE *f = fopen(r->options->dot, "w");
    int rc =
        f && r->places[0].made ? ivs_map_dump(iva_space_map_of(&r->places[0].space), IVS_DUMP_DOT, put_text, f) : 0;
    if (f && !ferror(f) && fclose(f) == 0 && !rc) return true;
    fprintf(stderr, "vmreplay: cannot write %s: %s\n", r->options->dot, strerror(errno));
    return false;
}

/* ------------------------------------------------------------------------------------------------- report */

static uint64_t sum(const uint64_t *at) {
    uint64_t s = 0;
    for (size_t i = 0; i < CALLS; i++) s += at[i];
    return s;
}

static void report_mix(const struct tally *total) {
    bool done[CALLS] = {false};
    printf("  mix:");
    for (;;) {
        size_t best = CALLS;
        for (size_t i = 0; i < CALLS; i++)
            if (!done[i] && total->count[i] && (best == CALLS || total->count[i] > total->count[best])) best = i;
        if (best == CALLS) break;
        done[best] = true;
        printf(" %s %llu (%llu ns)", call_forms[best].name, (unsigned long long)total->count[best],
               (unsigned long long)(total->ns[best] / total->count[best]));
    }
    printf("\n");
}

static void report_errors(const struct tally *total) {
    if (!sum(total->failed)) return;
    printf("  errors:");
    for (size_t i = 0; i <= ERROR_NAMES; i++)
        if (total->errors[i])
            printf(" %s %llu", i < ERROR_NAMES ? error_names[i].name : "others", (unsigned long long)total->errors[i]);
    printf("\n");
}

static void report_results(const struct tally *s) {
    printf("  results: %llu predicted (of these %llu places that the kernel chose), %llu differ; %llu beyond the map; "
           "%llu where the kernel's area ended earlier; %llu skipped: the kernel has older rules\n",
           (unsigned long long)s->predicted, (unsigned long long)s->placed, (unsigned long long)s->differ,
           (unsigned long long)s->believed, (unsigned long long)s->apart, (unsigned long long)s->skipped);
}

static void report_spaces(struct replay *r) {
    uint64_t areas = 0, waits = 0, restarts = 0;
    for (size_t i = 0; i < r->copies * r->trace->spaces.n; i++) {
        struct iva_space_stats stats;
        if (!r->places[i].made || iva_space_get_stats(&r->places[i].space, &stats)) continue;
        areas += stats.areas;
        waits += stats.map.waits;
        restarts += stats.map.restarts;
    }
    printf("  spaces at the end: %llu areas, %llu waits for a held range, %llu searches begun anew\n",
           (unsigned long long)areas, (unsigned long long)waits, (unsigned long long)restarts);
}

static void report(struct replay *r, const char *mode) {
    const struct tally *s = &r->total;
    const uint64_t events = sum(s->count), ns = sum(s->ns);
    const size_t spaces = r->trace->spaces.n, threads = r->trace->lane_names.n - 1;
    if (r->options->quiet) return;
    printf("%s, %s: %s\n", r->name, mode, s->bad ? "DIFFERS" : "all matched");
    if (r->trace->program[0]) printf("  program: %s\n", r->trace->program);
    printf("  events %llu (%llu failed), threads %zu, spaces %zu, checkpoints matched %llu of %llu (%llu "
           "full), most intervals %llu\n",
           (unsigned long long)events, (unsigned long long)sum(s->failed), threads, spaces,
           (unsigned long long)s->matched, (unsigned long long)s->checks, (unsigned long long)s->full,
           (unsigned long long)s->most);
    if (s->hits + s->below + s->missed)
        printf("  page faults %llu: %llu hit, %llu just below a mapping that grows down, %llu missed\n",
               (unsigned long long)(s->hits + s->below + s->missed), (unsigned long long)s->hits,
               (unsigned long long)s->below, (unsigned long long)s->missed);
    if (r->lookups)
        printf("  readers: %llu look-ups meanwhile, %llu hit, %llu wrong\n", (unsigned long long)r->lookups,
               (unsigned long long)r->lookup_hits, (unsigned long long)r->lookup_wrong);
    printf("  %.3f s in all, of which checkpoints %.3f s; %llu ns an event\n", (double)(now_ns() - r->started_ns) / 1e9,
           (double)s->check_ns / 1e9, (unsigned long long)(events ? ns / events : 0));
    report_mix(s);
    report_errors(s);
    if (r->predict) report_results(s);
    report_spaces(r);
}

static void report_parallel(const struct parallel *all) {
    const struct replay *r = all->run;
    const uint64_t events = sum(r->total.count);
    if (r->options->quiet || !events) return;
    printf("  parallel: %llu of %llu events ran while another was under way, at most %llu at once, %.2f on "
           "average while any ran\n",
           (unsigned long long)all->overlapped, (unsigned long long)events, (unsigned long long)all->most,
           all->average);
    printf("  order: %zu waits for another thread recorded; longest chain %u (checkpoints included)\n",
           all->dependencies.n, all->longest);
}
