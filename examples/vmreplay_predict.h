/* SPDX-License-Identifier: MIT */
/*
 * Part of vmreplay.c: --predict. Every call is made as the program made it, and the answers are compared. Where they
 * differ the kernel is right, and the space is set back to what the kernel's answer leaves.
 */

static void put_answer(FILE *f, const struct event *ev, struct answer a) {
    static const char *const touched[] = {"ok", "maperr", "accerr", "bus"};
    if (ev->call == TOUCH) fputs(touched[a.address & 3], f);
    else if (a.error) fprintf(f, "!%s", error_name(a.error));
    else fprintf(f, "%llx", (unsigned long long)a.address);
}

/* FILE:LINE: tN CALL ARGUMENTS: predicted, recorded */
static void say_answers(struct worker *w, const struct event *ev, struct answer ours) {
    const struct trace *t = w->run->trace;
    if (w->tally.differ > 20) return;
    pthread_mutex_lock(&w->run->mutex);
    fprintf(stderr, "%s:%u: t%u %s", w->run->name, ev->line, t->lane_names.at[ev->lane], call_forms[ev->call].name);
    size_t n = 0;
    for (const char *form = call_forms[ev->call].args; *form; form++) {
        if (*form == 'x') fprintf(stderr, " %llx", (unsigned long long)ev->x[n++]);
        if (*form == 'o' && ev->obj > 0) fprintf(stderr, " f%d", (int)ev->obj);
        if (*form == 'o' && ev->obj <= 0) fputs(" -", stderr);
        if (*form == 'm') fprintf(stderr, " %c", ev->perm == READ ? 'r' : ev->perm == WRITE ? 'w' : 'x');
    }
    fputs(": predicted ", stderr);
    put_answer(stderr, ev, ours);
    fputs(", recorded ", stderr);
    put_answer(stderr, ev, recorded_answer(ev));
    fputs("\n", stderr);
    pthread_mutex_unlock(&w->run->mutex);
}

/* The space becomes what it was when `was` was taken. */
static void set_back(struct worker *w, const struct event *ev, const struct views *was) {
    struct iva_space *s = space_of(w, ev->space);
    int rc = iva_space_unmap(s, 0, TASK_SIZE);
    for (size_t i = 0; i < was->n && !rc; i++) {
        const struct iva_view *v = &was->at[i];
        struct iva_map_request q = {.address = v->start, .length = v->end - v->start, .object = v->object};
        uint64_t address;
        q.rights = v->flags & IVA_RIGHTS;
        q.access = IVA_READ | IVA_WRITE | IVA_EXEC;
        q.extra = v->flags & IVA_EXTRA;
        q.offset = v->object ? v->offset : 0;
        q.flags = IVA_MAP_FIXED | (v->flags & IVA_SHARED ? IVA_MAP_SHARED : IVA_MAP_PRIVATE);
        if (!v->object) q.flags |= IVA_MAP_ANONYMOUS;
        if (v->flags & IVA_GROWSDOWN) q.flags |= IVA_MAP_GROWSDOWN;
        if (v->flags & IVA_LOCKED) q.flags |= IVA_MAP_LOCKED;
        rc = iva_space_map(s, &q, &address);
    }
    if (rc) complain(w, ev, "the space cannot be set back");
}

/* The kernel keeps areas apart that are one here, e.g. where pages came at different times: then it says EFAULT where we
 * move or enlarge. No fault of ours if the trace tells that its area ended amid the range. */
static bool kept_apart(const struct event *ev, struct answer ours) {
    return ev->call == MREMAP && ev->error == EFAULT && (!ours.error || ev->kernel_end);
}

static bool kernel_chose(const struct event *ev) {
    if (ev->error) return false;
    if (ev->call == MMAP) return !ev->x[0] && !(ev->x[3] & (IVA_MAP_FIXED | IVA_MAP_FIXED_NOREPLACE));
    return ev->call == MREMAP && !(ev->x[3] & IVA_REMAP_FIXED) && ev->res != ev->x[0];
}

static void believe_unpredicted(struct worker *w, struct event *ev, uint64_t *count) {
    ++*count;
    believe_call(w, ev);
}

static void predict_call(struct worker *w, struct event *ev) {
    struct place *p = place_of(w->run, w->copy, ev->space);
    const struct answer kernels = recorded_answer(ev);
    struct views was = {0};
    if (older_rules(w->run->trace, ev)) {
        believe_unpredicted(w, ev, &w->tally.skipped);
        return;
    }
    if (beyond_the_map(ev, kernels)) {
        believe_unpredicted(w, ev, &w->tally.believed);
        return;
    }
    if (ev->call == MREMAP && ev->error == EFAULT) areas_of(&p->space, &was);
    p->proposal = ev->error ? 0 : ev->res;
    const struct answer ours = make_call(w, ev, false);
    if (same_answer(ours, kernels)) {
        w->tally.predicted++;
        w->tally.placed += kernel_chose(ev);
    } else if (beyond_the_map(ev, ours)) {
        w->tally.believed++;
    } else {
        const bool excused = kept_apart(ev, ours) && ev->kernel_end;
        w->tally.apart += excused;
        w->tally.differ += !excused;
        w->tally.bad += !excused;
        if (!excused) say_answers(w, ev, ours);
        if (kept_apart(ev, ours) && !ours.error) set_back(w, ev, &was);
    }
    free(was.at);
}
