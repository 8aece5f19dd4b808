/* SPDX-License-Identifier: MIT */
/*
 * Part of vmreplay.c: a recorded call, with its arguments as the program passed them, as an operation of ivaddr.h. What
 * a call means is the library's business; here is only which function it is, and what a file's results say.
 */

enum { PROT_BITS = 7, HUGETLB_OR_32BIT = 0x40040, SHM_RDONLY = 0x1000, SHM_REMAP = 0x4000, SHM_EXEC = 0x8000 };

/* What an operation gave: an address (or the break), or an errno value. */
struct answer {
    uint64_t address;
    unsigned error;
};

static struct answer answer_of(int rc, uint64_t address) {
    return (struct answer){rc ? 0 : address, rc < 0 ? (unsigned)-rc : 0};
}

/* Of a touch: an enum touched, in the place of the address. */
static struct answer recorded_answer(const struct event *ev) {
    return (struct answer){ev->call == TOUCH ? ev->result : ev->res, ev->error};
}

static bool same_answer(struct answer a, struct answer b) { return a.error == b.error && a.address == b.address; }

/* The object as the library keeps it, a word: f1 is 1; what the kernel maps by itself counts from the top. */
static uintptr_t object_word(int32_t obj) { return (uintptr_t)(intptr_t)obj; }

/* A new mapping: `rights` and `flags` are those of mmap; `opened` is 0 if the file does not tell. */
static struct iva_map_request new_mapping(const struct trace *t, int32_t obj, uint64_t rights, uint64_t flags,
                                          unsigned opened) {
    const struct object *info = object_info(t, obj);
    struct iva_map_request q = {.rights = rights, .flags = flags, .object = object_word(obj)};
    q.access = opened ? opened | IVA_EXEC : IVA_READ | IVA_WRITE | IVA_EXEC;
    q.extra = obj < 0 ? IVA_SPECIAL : info && info->disk ? IVA_CONGRUENT : 0;
    return q;
}

static struct iva_map_request mmap_request(const struct trace *t, const struct event *ev) {
    struct iva_map_request q = new_mapping(t, ev->obj, ev->x[2], ev->x[3], ev->perm);
    q.address = ev->x[0];
    q.length = ev->x[1];
    q.offset = ev->x[4];
    return q;
}

/* At the recorded place, where the kernel chose or took a hint: it must be free then. */
static void put_at_recorded_place(struct iva_map_request *q, const struct event *ev) {
    q->flags &= ~(uint64_t)HUGETLB_OR_32BIT;
    if (ev->obj == ANON) q->flags |= IVA_MAP_ANONYMOUS; /* a device that gives anonymous memory */
    if (q->flags & IVA_MAP_FIXED) return;
    if ((q->flags & IVA_MAP_TYPE) == IVA_MAP_SHARED_VALIDATE) q->flags ^= IVA_MAP_SHARED_VALIDATE ^ IVA_MAP_SHARED;
    q->flags |= IVA_MAP_FIXED_NOREPLACE;
    q->address = ev->res;
}

static struct answer call_mmap(struct worker *w, const struct event *ev, bool believe) {
    struct iva_map_request q = mmap_request(w->run->trace, ev);
    uint64_t address = 0;
    if (believe) put_at_recorded_place(&q, ev);
    int rc = iva_space_map(space_of(w, ev->space), &q, &address);
    return answer_of(rc, address);
}

/* shmat, and what the kernel maps by itself. */
static struct answer call_other_map(struct worker *w, const struct event *ev) {
    const bool shmat = ev->call == SHMAT;
    const uint64_t flags = ev->x[2];
    const unsigned perm =
        shmat ? READ | SHARED | (flags & SHM_RDONLY ? 0u : WRITE) | (flags & SHM_EXEC ? EXEC : 0u) : ev->perm;
    struct iva_map_request q =
        new_mapping(w->run->trace, ev->obj, perm & PROT_BITS, perm & SHARED ? IVA_MAP_SHARED : IVA_MAP_PRIVATE, 0);
    uint64_t address = 0;
    q.address = shmat ? ev->res : ev->x[0];
    q.length = shmat ? ev->x[0] : ev->x[1];
    q.offset = shmat || ev->obj <= 0 ? 0 : ev->x[2];
    q.flags |= shmat && (flags & SHM_REMAP) ? IVA_MAP_FIXED : IVA_MAP_FIXED_NOREPLACE;
    if (ev->obj == ANON) q.flags |= IVA_MAP_ANONYMOUS;
    int rc = iva_space_map(space_of(w, ev->space), &q, &address);
    return answer_of(rc, shmat ? address : 0);
}

static struct answer call_mremap(struct worker *w, const struct event *ev, bool believe) {
    unsigned flags = ev->x[3] > UINT32_MAX ? UINT32_MAX : (unsigned)ev->x[3];
    uint64_t target = ev->x[4], address = 0;
    if (believe && !ev->error && !(flags & IVA_REMAP_FIXED)) {
        if (ev->res == ev->x[0]) {
            flags &= ~(unsigned)IVA_REMAP_MAYMOVE;
        } else {
            flags |= IVA_REMAP_FIXED;
            target = ev->res;
        }
    }
    int rc = iva_space_remap(space_of(w, ev->space), ev->x[0], ev->x[1], ev->x[2], flags, target, &address);
    return answer_of(rc, address);
}

/* An access to one byte. What lies beyond the end of the object is the host's business. */
static struct answer call_touch(struct worker *w, const struct event *ev) {
    struct iva_view view;
    int rc = iva_space_touch(space_of(w, ev->space), ev->x[0], ev->perm, &view);
    unsigned result = rc == IVA_EACCES ? TOUCH_ACCERR : rc ? TOUCH_MAPERR : TOUCH_OK;
    const struct object *info = rc ? NULL : object_info(w->run->trace, (int32_t)(intptr_t)view.object);
    if (info && info->sized && view.offset + ((ev->x[0] & ~(PAGE - 1)) - view.start) >= page_up(info->size))
        result = TOUCH_BUS;
    return (struct answer){result, 0};
}

/* `believe`: at the recorded place, if the call leaves the choice. */
static struct answer make_call(struct worker *w, const struct event *ev, bool believe) {
    struct iva_space *s = space_of(w, ev->space);
    const uint64_t *x = ev->x;
    switch ((enum call)ev->call) {
    case MMAP: return call_mmap(w, ev, believe);
    case MUNMAP:
    case SHMDT:
    case KUNMAP: return answer_of(iva_space_unmap(s, x[0], x[1]), 0);
    case MPROTECT:
    case PKEY_MPROTECT: return answer_of(iva_space_protect(s, x[0], x[1], x[2]), 0);
    case MREMAP: return call_mremap(w, ev, believe);
    case BRK: return answer_of(0, iva_space_brk(s, x[0]));
    case MADVISE: return answer_of(iva_space_advise(s, x[0], x[1], x[2] > UINT32_MAX ? UINT32_MAX : (unsigned)x[2]), 0);
    case MLOCK: return answer_of(iva_space_lock(s, x[0], x[1], 0), 0);
    case MLOCK2: return answer_of(iva_space_lock(s, x[0], x[1], (unsigned)x[2]), 0);
    case MUNLOCK: return answer_of(iva_space_unlock(s, x[0], x[1]), 0);
    case MLOCKALL: return answer_of(iva_space_lock_all(s, (unsigned)x[0]), 0);
    case MUNLOCKALL: return answer_of(iva_space_unlock_all(s), 0);
    case SHMAT:
    case KMAP: return call_other_map(w, ev);
    case TOUCH: return call_touch(w, ev);
    default: return recorded_answer(ev);
    }
}

/* ---- what the file cannot be asked for */

/* Advice whose result depends on more than the map: on pages, or on how the kernel was configured. */
static bool advice_beyond_the_map(uint64_t advice) {
    return advice == 9 || (advice >= 12 && advice <= 15) || (advice >= 18 && advice <= 25) || advice >= 100;
}

/* Errors that come from elsewhere: descriptors, what may be locked, huge pages. `ours`: what the map alone gives. */
static bool beyond_the_map(const struct event *ev, struct answer ours) {
    const unsigned error = ev->error;
    switch ((enum call)ev->call) {
    case MMAP:
        return (ev->x[3] & HUGETLB_OR_32BIT) || (ev->x[3] & 15) > 3 || error == EBADF || error == ENODEV ||
               error == EAGAIN || (ev->obj == ANON && !(ev->x[3] & IVA_MAP_ANONYMOUS));
    case MREMAP: return error == EAGAIN || error == EPERM;
    case MADVISE: return ev->x[2] < 0x1000 && advice_beyond_the_map(ev->x[2]) && error != EINVAL;
    case MLOCK:
    case MLOCK2:
    case MUNLOCK: return error == EPERM || error == EAGAIN || (error && !ours.error);
    case MUNMAP:
    case MPROTECT:
    case PKEY_MPROTECT:
    case BRK:
    case TOUCH: return false;
    default: return true; /* shared memory of System V, mlockall, what the kernel does by itself */
    }
}

/* Has the kernel that was recorded other rules than the library, which has those of 6.17 and newer? */
static bool older_rules(const struct trace *t, const struct event *ev) {
    return ev->call == MREMAP && t->kernel_major &&
           (t->kernel_major < 6 || (t->kernel_major == 6 && t->kernel_minor < 17));
}
