/* SPDX-License-Identifier: MIT */
/* Part of vmreplay.c: checkpoints. A space as text in the trace's normal form, its CRC-32, what to say if it differs. */

#define TEXT_ROOM 128 /* longest line of the normal form is below this */

static uint32_t crc_of(uint32_t crc, const char *text, size_t n) {
#ifdef VMREPLAY_ZLIB
    return (uint32_t)crc32(crc, (const unsigned char *)text, (unsigned)n);
#else
    static const uint32_t half_bytes[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                            0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                            0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)text[i];
        crc = crc >> 4 ^ half_bytes[crc & 15];
        crc = crc >> 4 ^ half_bytes[crc & 15];
    }
    return ~crc;
#endif
}

static char *put_hex(char *s, uint64_t x) {
    int shift = 60;
    while (shift && !(x >> shift)) shift -= 4;
    for (; shift >= 0; shift -= 4) *s++ = "0123456789abcdef"[x >> shift & 15];
    return s;
}

static char *put_perm(char *s, unsigned perm) {
    *s++ = perm & READ ? 'r' : '-';
    *s++ = perm & WRITE ? 'w' : '-';
    *s++ = perm & EXEC ? 'x' : '-';
    *s++ = perm & SHARED ? 's' : 'p';
    return s;
}

static char *put_object(char *s, int32_t obj) {
    static const char *const names[] = {"-", "@vdso", "@vvar", "@vvar_vclock"};
    return s + (obj > 0 ? snprintf(s, 16, "f%d", (int)obj) : snprintf(s, 16, "%s", names[-obj]));
}

/* START-END PERMS OFF OBJ, without the line's end. */
static size_t piece_text(const struct piece *p, char out[static TEXT_ROOM]) {
    char *s = put_hex(out, p->lo);
    *s++ = '-';
    s = put_hex(s, p->hi);
    *s++ = ' ';
    s = put_perm(s, p->perm);
    *s++ = ' ';
    s = put_hex(s, p->off);
    *s++ = ' ';
    s = put_object(s, p->obj);
    *s = 0;
    return (size_t)(s - out);
}

/* FORMAT, "Checkpoints": what the windows show, equal neighbours joined. */
static void normal_form(const struct trace *t, const struct piece *at, size_t n, struct pieces *out) {
    out->n = 0;
    need(RESERVE(*out, n + t->window_count + 1));
    if (!t->window_count)
        for (size_t i = 0; i < n; i++) append(out, at[i]);
    for (size_t k = 0; k < t->window_count; k++)
        for (size_t i = 0; i < n; i++) append(out, clipped(at[i], t->windows[k].lo, t->windows[k].hi));
}

/* Index of the first line that differs; the common length if none does. */
static size_t first_difference(const struct pieces *a, const struct pieces *b) {
    size_t i = 0;
    for (; i < a->n && i < b->n; i++) {
        const struct piece *x = &a->at[i], *y = &b->at[i];
        if (x->lo != y->lo || x->hi != y->hi || x->perm != y->perm || x->obj != y->obj) break;
        if (x->obj > 0 && x->off != y->off) break;
    }
    return i;
}

/* The v lines of a full checkpoint, in normal form. */
static const struct pieces *v_lines(struct worker *w, const struct check *c) {
    normal_form(w->run->trace, c->count ? w->run->trace->pieces.at + c->first : NULL, c->count, &w->seen);
    return &w->seen;
}

static void say_difference(struct worker *w, const struct event *ev, const struct pieces *got, uint64_t pages,
                           uint32_t crc) {
    const struct trace *t = w->run->trace;
    const struct check *c = &t->checks.at[ev->other];
    char line[TEXT_ROOM];
    pthread_mutex_lock(&w->run->mutex);
    fprintf(stderr, "%s:%u: checkpoint of a%u differs (copy %u): expected %u intervals, %llx pages, CRC %08x; ",
            w->run->name, ev->line, t->spaces.at[ev->space].name, w->copy, c->merged, (unsigned long long)c->pages,
            c->crc);
    fprintf(stderr, "got %zu, %llx, %08x\n", got->n, (unsigned long long)pages, crc);
    if (c->full) {
        const struct pieces *expected = v_lines(w, c);
        const size_t i = first_difference(expected, got);
        if (i < expected->n) piece_text(&expected->at[i], line);
        fprintf(stderr, "    first difference: expected %s", i < expected->n ? line : "no more");
        if (i < got->n) piece_text(&got->at[i], line);
        fprintf(stderr, "; got %s\n", i < got->n ? line : "no more");
    }
    pthread_mutex_unlock(&w->run->mutex);
}

static bool equal_v_lines(struct worker *w, const struct check *c, const struct pieces *got) {
    if (!c->full) return true;
    const struct pieces *expected = v_lines(w, c);
    return expected->n == got->n && first_difference(expected, got) == got->n;
}

static void check_space(struct worker *w, const struct event *ev) {
    const struct check *c = &w->run->trace->checks.at[ev->other];
    const uint64_t begin = now_ns();
    char text[4096];
    size_t n = 0;
    uint64_t keys = 0;
    uint32_t crc = 0;
    see_areas(w, ev->space);
    if (w->seen.n > w->tally.most) w->tally.most = w->seen.n;
    normal_form(w->run->trace, w->seen.at, w->seen.n, &w->want);
    for (size_t i = 0; i < w->want.n; i++) {
        keys += w->want.at[i].hi - w->want.at[i].lo;
        n += piece_text(&w->want.at[i], text + n);
        text[n++] = '\n';
        if (n < sizeof text - TEXT_ROOM && i + 1 < w->want.n) continue;
        crc = crc_of(crc, text, n);
        n = 0;
    }
    const bool good = w->want.n == c->merged && crc == c->crc && keys / PAGE == c->pages && !(keys % PAGE) &&
                      equal_v_lines(w, c, &w->want);
    if (ev->op == OP_CHECK) {
        w->tally.checks++;
        w->tally.matched += good;
        w->tally.full += c->full;
    }
    w->tally.bad += !good;
    if (!good && w->tally.bad <= 10) say_difference(w, ev, &w->want, keys / PAGE, crc);
    w->tally.check_ns += now_ns() - begin;
}
