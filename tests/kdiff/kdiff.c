/* SPDX-License-Identifier: MIT */
/*
 * kdiff.c - asks the running kernel a pseudo-random sequence of address-space calls (mmap, munmap, mprotect, mremap,
 * madvise, brk, and bytes touched; good arguments and bad ones) and prints questions, answers and checkpoints of its
 * own map as `vmtrace 1`. The kernel is the oracle: `vmreplay --predict` must give the same answers.
 *
 *     kdiff [-s SEED] [-n EVENTS] [-t THREADS] [-k SUM_EVERY] [-c MAP_EVERY] [-g] > out.vmtrace
 *
 *   -g   also MAP_GROWSDOWN areas and touches below them (one thread only)
 *   -t   THREADS > 1: each thread works in its own part of the window, truly in parallel; after every round there is
 *        a barrier and a checkpoint. The lines of one round are grouped by thread: any interleaving of them that keeps
 *        each thread's own order gives the same map.
 *
 * Everything happens in a window of 1 GiB at a fixed address and in a window above the program break; no libc call
 * that allocates is made. The same seed gives the same questions as long as the kernel gives the same answers. Its
 * map is read with PROCMAP_QUERY (Linux 6.11 or newer); x86-64 only, linked statically.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <ucontext.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;
#define PG   4096ull
#define WIN  0x100000000000ull
#define WSZ  (1ull << 30)
#define BWSZ (64ull << 20)
#define TASK 0x7ffffffff000ull
#define MAXT 16
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static inline long call_kernel(long n, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    register u64 r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long r;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}
/* one byte read or written; a fault makes it return the code the handler chose */
extern char touch_r_ip[], touch_w_ip[], touch_out[];
long touch_r(u64 a);
long touch_w(u64 a);
__asm__(".text\n.globl touch_r,touch_w,touch_r_ip,touch_w_ip,touch_out\n"
        "touch_r: xorl %eax,%eax\ntouch_r_ip: movb (%rdi),%cl\nret\n"
        "touch_w: xorl %eax,%eax\ntouch_w_ip: movb $0,(%rdi)\nret\n"
        "touch_out: ret\n");
static void onfault(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    u64 ip = u->uc_mcontext.gregs[REG_RIP];
    if (ip != (u64)touch_r_ip && ip != (u64)touch_w_ip) {
        call_kernel(SYS_write, 2, (u64) "kdiff: stray fault\n", 19, 0, 0, 0);
        call_kernel(SYS_exit_group, 3, 0, 0, 0, 0, 0);
    }
    u->uc_mcontext.gregs[REG_RAX] = s == SIGBUS ? 3 : i->si_code == SEGV_MAPERR ? 1 : 2;
    u->uc_mcontext.gregs[REG_RIP] = (u64)touch_out;
}

/* ---- output ---- */
struct buf {
    char b[4 << 20];
    u32 n;
};
static struct buf outputs[MAXT];
static void flush(struct buf *o) {
    u32 d = 0;
    while (d < o->n) {
        long r = call_kernel(SYS_write, 1, (u64)o->b + d, o->n - d, 0, 0, 0);
        if (r <= 0) call_kernel(SYS_exit_group, 4, 0, 0, 0, 0, 0);
        d += r;
    }
    o->n = 0;
}
static void put_text(struct buf *o, const char *s) {
    while (*s) o->b[o->n++] = *s++;
}
static void put_hex(struct buf *o, u64 v) {
    char t[17];
    int i = 16;
    t[16] = 0;
    do t[--i] = "0123456789abcdef"[v & 15];
    while (v >>= 4);
    put_text(o, t + i);
}
static void put_decimal(struct buf *o, u64 v) {
    char t[21];
    int i = 20;
    t[20] = 0;
    do t[--i] = '0' + v % 10;
    while (v /= 10);
    put_text(o, t + i);
}
static const struct {
    int e;
    const char *n;
} en[] = {{1, "EPERM"},  {9, "EBADF"},   {11, "EAGAIN"}, {12, "ENOMEM"}, {13, "EACCES"},    {14, "EFAULT"},
          {16, "EBUSY"}, {17, "EEXIST"}, {19, "ENODEV"}, {22, "EINVAL"}, {75, "EOVERFLOW"}, {95, "EOPNOTSUPP"}};
static void put_result(struct buf *o, long r) {
    put_text(o, " = ");
    if ((u64)r <= (u64)-4096) put_hex(o, r);
    else {
        const char *s = 0;
        for (u32 i = 0; i < sizeof en / sizeof *en; i++)
            if (en[i].e == -r) s = en[i].n;
        put_text(o, "!");
        if (s) put_text(o, s);
        else {
            put_text(o, "E");
            put_decimal(o, -r);
        }
    }
    put_text(o, "\n");
}

/* ---- random ---- */
struct rng {
    u64 s;
};
static u64 rnd(struct rng *r) {
    u64 z = r->s += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}
static u64 below(struct rng *r, u64 n) { return rnd(r) % n; }

/* ---- objects ---- */
struct obj {
    u64 dev, ino;
};
static struct obj objs[1 << 20];
static int nobj;
static int objlock;
static int mapsfd;
struct pq {
    u64 size, qflags, qaddr, start, end, flags, psize, off, ino;
    u32 maj, min, nlen, blen;
    u64 naddr, baddr;
};
#define PQ_ 0xc0686611ul
static int query(u64 a, u64 fl, struct pq *q) {
    memset(q, 0, sizeof *q);
    q->size = sizeof *q;
    q->qaddr = a;
    q->qflags = fl;
    return (int)call_kernel(SYS_ioctl, mapsfd, PQ_, (u64)q, 0, 0, 0);
}
static int objof(u64 dev, u64 ino) {
    int r = -1;
    for (int i = nobj - 1; i >= 0; i--)
        if (objs[i].dev == dev && objs[i].ino == ino) {
            r = i + 1;
            break;
        }
    return r;
}
static int newobj(u64 dev, u64 ino, u64 size, const char *cls, struct buf *o) {
    while (__atomic_exchange_n(&objlock, 1, __ATOMIC_ACQUIRE)) call_kernel(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    int r = ++nobj;
    objs[r - 1] = (struct obj){dev, ino};
    __atomic_store_n(&objlock, 0, __ATOMIC_RELEASE);
    put_text(o, "o f");
    put_decimal(o, r);
    put_text(o, " ");
    put_text(o, cls);
    put_text(o, " ");
    put_hex(o, size);
    put_text(o, "\n");
    return r;
}

/* ---- checkpoints ---- */
static char maps_text[8 << 20];
static u32 crc_table[256];
static u64 bwlo, bwhi;
static u64 hexv(char **p) {
    u64 v = 0;
    for (;; (*p)++) {
        char c = **p;
        if (c >= '0' && c <= '9') v = v << 4 | (c - '0');
        else if (c >= 'a' && c <= 'f') v = v << 4 | (c - 'a' + 10);
        else return v;
    }
}
struct vma {
    u64 s, e, off;
    char perm[5];
    int obj;
};
static struct vma maps[1 << 17];
static void vline(struct buf *o, struct vma *v) {
    put_hex(o, v->s);
    put_text(o, "-");
    put_hex(o, v->e);
    put_text(o, " ");
    put_text(o, v->perm);
    put_text(o, " ");
    put_hex(o, v->obj ? v->off : 0);
    if (v->obj) {
        put_text(o, " f");
        put_decimal(o, v->obj);
    } else put_text(o, " -");
}
static struct buf line;
/* The text of /proc/self/maps, into maps_text. */
static void read_maps(void) {
    u64 n = 0;
    call_kernel(SYS_lseek, mapsfd, 0, SEEK_SET, 0, 0, 0);
    for (;;) {
        long r = call_kernel(SYS_read, mapsfd, (u64)maps_text + n, sizeof maps_text - 1 - n, 0, 0, 0);
        if (r <= 0) break;
        n += r;
    }
    maps_text[n] = 0;
}
/* One line of it; the place of the next. */
static char *maps_line(char *p, struct vma *v) {
    v->s = hexv(&p), p++;
    v->e = hexv(&p), p++;
    memcpy(v->perm, p, 4);
    v->perm[4] = 0;
    p += 5;
    v->off = hexv(&p), p++;
    u64 maj = hexv(&p);
    p++;
    u64 min = hexv(&p), ino = 0;
    p++;
    while (*p >= '0' && *p <= '9') ino = ino * 10 + (*p++ - '0');
    v->obj = ino || maj || min ? objof(maj << 32 | min, ino) : 0;
    while (*p != '\n') p++;
    return p + 1;
}
/* What the two windows show, by address, into maps: the break may lie below or above the fixed window. */
static int windows(void) {
    int nv = 0;
    read_maps();
    for (char *p = maps_text; *p;) {
        struct vma v;
        p = maps_line(p, &v);
        for (int w = 0; w < 2; w++) {
            u64 lo = w ? bwlo : WIN, hi = w ? bwhi : WIN + WSZ;
            struct vma c = v;
            if (v.s >= hi || v.e <= lo) continue;
            if (c.s < lo) c.off += lo - c.s, c.s = lo;
            if (c.e > hi) c.e = hi;
            maps[nv++] = c;
        }
    }
    for (int i = 1; i < nv; i++)
        for (int k = i; k && maps[k - 1].s > maps[k].s; k--) {
            struct vma t = maps[k];
            maps[k] = maps[k - 1];
            maps[k - 1] = t;
        }
    return nv;
}
static u32 crc_of(u32 c, const struct buf *o) {
    for (u32 i = 0; i < o->n; i++) c = crc_table[(c ^ (unsigned char)o->b[i]) & 255] ^ c >> 8;
    return c;
}
/* A checkpoint: number, pages and CRC of the normal form; with `full` the mappings too. */
static void check(struct buf *o, int full) {
    int nv = windows();
    u32 crc = 0xffffffff, m = 0;
    u64 pages = 0;
    for (int i = 0, k; i < nv; i = k, m++) {
        struct vma c = maps[i];
        for (k = i + 1; k < nv && maps[k].s == c.e && !memcmp(maps[k].perm, c.perm, 4) && maps[k].obj == c.obj &&
                        (!c.obj || maps[k].off == c.off + (c.e - c.s));
             k++)
            c.e = maps[k].e;
        line.n = 0;
        vline(&line, &c);
        put_text(&line, "\n");
        crc = crc_of(crc, &line);
        pages += (c.e - c.s) / PG;
    }
    put_text(o, full ? "map a1 " : "sum a1 ");
    put_decimal(o, m), put_text(o, " ");
    put_decimal(o, nv), put_text(o, " ");
    put_hex(o, pages), put_text(o, " ");
    for (int i = 28; i >= 0; i -= 4) put_text(o, (char[2]){"0123456789abcdef"[~crc >> i & 15], 0});
    put_text(o, "\n");
    for (int i = 0; full && i < nv; i++) {
        put_text(o, "v ");
        vline(o, &maps[i]);
        put_text(o, maps[i].obj ? " file\n" : maps[i].s >= bwlo && maps[i].e <= bwhi ? " heap\n" : " anon\n");
    }
    if (full) put_text(o, ".\n");
}

/* ---- the questions ---- */
static int fd_rw, fd_ro, fd_mem, f_tmp, f_mem;
static u64 tmpsize = 512 * PG, memsize = 64 * PG;
static u64 brk0, brkcur, brkbase;
static int grow, nthreads = 1;
struct asker {
    int no;
    struct rng r;
    struct buf *o;
    u64 lo, hi;
    u64 quota;
    u64 ev;
};
static struct asker askers[MAXT];

static u64 paddr(struct asker *t) /* a page address in the part of the window that is this thread's */
{
    u64 pages = (t->hi - t->lo) / PG, z = below(&t->r, 100), hot = z < 65 ? 192 : z < 95 ? 3000 : pages;
    u64 p = below(&t->r, hot < pages ? hot : pages);
    return t->no & 1 ? t->lo + p * PG : t->hi - PG - p * PG; /* neighbours' hot parts meet */
}
static u64 plen(struct asker *t, u64 a) {
    u64 z = below(&t->r, 100), n = z < 60   ? 1 + below(&t->r, 8)
                                   : z < 90 ? 1 + below(&t->r, 64)
                                   : z < 98 ? 1 + below(&t->r, 600)
                                            : 1 + below(&t->r, 100000);
    if (a + n * PG > t->hi) n = (t->hi - a) / PG;
    return n * PG;
}
static u64 frac(struct asker *t, u64 len) {
    return below(&t->r, 12) == 0 && len > PG ? len - 1 - below(&t->r, PG - 1) : len;
}
static int prot(struct asker *t) {
    static const unsigned char p[] = {3, 3, 3, 3, 1, 1, 1, 0, 0, 5, 5, 7, 2, 4, 6};
    return p[below(&t->r, sizeof p)];
}
static void head(struct asker *t, const char *n) {
    struct buf *o = t->o;
    put_text(o, "t");
    put_decimal(o, t->no);
    put_text(o, " ");
    put_text(o, n);
}
static void arg(struct asker *t, u64 v) {
    put_text(t->o, " ");
    put_hex(t->o, v);
}
static int inwin(struct asker *t, u64 a, u64 l) { return a >= t->lo && a + l <= t->hi; }
static void unmap_outside(struct asker *t, u64 a, u64 l) {
    head(t, "munmap");
    arg(t, a);
    arg(t, l);
    put_result(t->o, call_kernel(SYS_munmap, a, l, 0, 0, 0, 0));
    t->ev++;
}
static u64 badaddr(struct asker *t) {
    switch (below(&t->r, 5)) {
    case 0: return paddr(t) + 1 + below(&t->r, PG - 1);
    case 1: return TASK;
    case 2: return TASK + PG;
    case 3: return 0xffff800000000000ull;
    default: return 0xfffffffffffff000ull;
    }
}

struct mapping {
    u64 a, len, off;
    int prot, flags, fd, obj, kind;
    const char *acc;
};
/* What is mapped: 0 anon private, 1 anon shared, 2 file private, 3 file shared, 4 memfd shared, 5 and 6 the file by a
 * read-only descriptor, shared and private. */
static void choose_object(struct mapping *m, int z) {
    static const signed char below100[] = {55, 65, 75, 83, 91, 96, 100};
    m->kind = 0;
    while (z >= below100[m->kind]) m->kind++;
    m->flags = m->kind == 0 || m->kind == 2 || m->kind == 6 ? MAP_PRIVATE : MAP_SHARED;
    m->fd = -1;
    m->acc = "";
    if (m->kind < 2) {
        m->flags |= MAP_ANONYMOUS;
        return;
    }
    m->fd = m->kind < 4 ? fd_rw : m->kind == 4 ? fd_mem : fd_ro;
    m->obj = m->kind == 4 ? f_mem : f_tmp;
    m->acc = m->kind < 5 ? "/rw" : "/r";
}
static void spoil_mmap(struct asker *t, struct mapping *m) {
    switch (below(&t->r, 60)) {
    case 0: m->len = 0; break;
    case 1:
        m->a = badaddr(t);
        if (!(m->a & (PG - 1))) m->flags |= MAP_FIXED;
        break;
    case 2: m->flags &= ~3; break; /* neither shared nor private */
    case 3: m->off |= 1 + below(&t->r, PG - 1); break;
    case 4:
        m->len = below(&t->r, 2) ? ~0ull - below(&t->r, PG) : TASK;
        m->flags |= MAP_FIXED;
        break;
    case 5:
        if (m->fd >= 0) m->off = 0xfffffffffffff000ull;
        break;
    case 6:
        if (m->fd >= 0) m->fd = 999, m->obj = 0, m->acc = "";
        break;
    case 7:
        if (m->fd >= 0 || m->kind == 1) m->flags |= MAP_GROWSDOWN;
        break;
    case 8: /* unknown flag: ignored but for MAP_SHARED_VALIDATE */
        if (below(&t->r, 2)) m->flags |= 0x8000000;
        break;
    case 9: /* MAP_SHARED_VALIDATE */
        if (m->kind >= 3) m->flags = (m->flags & ~3) | 3 | (below(&t->r, 2) ? 0x8000000 : 0);
        break;
    case 10: /* hint not aligned */
        if (!(m->flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))) m->a += below(&t->r, PG);
        break;
    }
}
/* With several threads a hint must not depend on what lies in a neighbour's part: the end of an odd hint, or the 2 MiB
 * more that the kernel wants to be free for a large piece of a disk file. */
static void stay_in_part(struct asker *t, struct mapping *m) {
    if (nthreads == 1 || m->a < t->lo || m->a >= t->hi || (m->flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))) return;
    if (m->len > t->hi - m->a) m->len = (t->hi - m->a) & -PG;
    if (m->fd >= 0 && t->hi - m->a - m->len < 512 * PG) m->flags |= MAP_FIXED_NOREPLACE;
}
static void q_mmap(struct asker *t) {
    struct mapping m = {0};
    m.a = paddr(t);
    m.len = frac(t, plen(t, m.a));
    m.prot = prot(t);
    choose_object(&m, (int)below(&t->r, 100));
    if (m.fd >= 0) m.off = below(&t->r, 3) ? (m.a - t->lo) % (256 * PG) : below(&t->r, 600) * PG;
    else if (below(&t->r, 20) == 0) m.off = below(&t->r, 100) * PG; /* ignored for anonymous memory */
    u64 z = below(&t->r, 100);
    if (z < 66) m.flags |= MAP_FIXED;
    else if (z < 82) m.flags |= MAP_FIXED_NOREPLACE; /* else a hint */
    if (below(&t->r, 25) == 0) m.flags |= MAP_NORESERVE;
    if (grow && m.kind == 0 && below(&t->r, 6) == 0) {
        m.flags |= MAP_GROWSDOWN;
        if (below(&t->r, 2)) m.prot = 3;
    }
    spoil_mmap(t, &m);
    stay_in_part(t, &m);
    long r = call_kernel(SYS_mmap, m.a, m.len, m.prot, m.flags, m.fd, m.off);
    int ok = (u64)r <= (u64)-4096;
    struct pq q;
    if (ok && (m.flags & MAP_ANONYMOUS) && (m.flags & 3) == MAP_SHARED && !query(r, 0, &q))
        m.obj = newobj((u64)q.maj << 32 | q.min, q.ino, (m.len + PG - 1) & -PG, "shm-anon", t->o);
    head(t, "mmap");
    arg(t, m.a);
    arg(t, m.len);
    arg(t, m.prot);
    arg(t, m.flags);
    put_text(t->o, m.obj ? " f" : " -");
    if (m.obj) put_decimal(t->o, m.obj), put_text(t->o, m.acc);
    arg(t, m.off);
    put_result(t->o, r);
    t->ev++;
    if (ok && !inwin(t, r, m.len)) unmap_outside(t, r, m.len);
}
static void q_munmap(struct asker *t) {
    u64 a = paddr(t), l = frac(t, plen(t, a));
    switch (below(&t->r, 40)) {
    case 0: l = 0; break;
    case 1: a = badaddr(t); break;
    case 2: l = below(&t->r, 2) ? TASK : ~0ull - below(&t->r, 2 * PG); break;
    }
    head(t, "munmap");
    arg(t, a);
    arg(t, l);
    put_result(t->o, call_kernel(SYS_munmap, a, l, 0, 0, 0, 0));
    t->ev++;
}
static void q_mprotect(struct asker *t) {
    u64 a = paddr(t), l = frac(t, plen(t, a)), p = prot(t);
    struct pq q;
    if (below(&t->r, 2) && !query(a, 0x10, &q) &&
        inwin(t, q.start, q.end - q.start)) { /* part of a mapping that is there */
        u64 n = (q.end - q.start) / PG;
        a = q.start + below(&t->r, n) * PG;
        l = (1 + below(&t->r, (q.end - a) / PG)) * PG;
    }
    switch (below(&t->r, 50)) {
    case 0: l = 0; break;
    case 1: a = badaddr(t); break;
    case 2: l = ~0ull - below(&t->r, 2 * PG); break;
    case 3: p |= 0x10 << below(&t->r, 8); break;
    case 4:
        if (nthreads == 1) l = 1ull << 45;
        break; /* beyond everything: changes what it can, then ENOMEM */
    case 5:
        p |= 0x01000000;
        if (!grow && nthreads > 1) p &= ~0x01000000ull;
        break; /* PROT_GROWSDOWN */
    case 6: p |= 0x03000000; break;
    }
    head(t, "mprotect");
    arg(t, a);
    arg(t, l);
    arg(t, p);
    put_result(t->o, call_kernel(SYS_mprotect, a, l, p, 0, 0, 0));
    t->ev++;
}
struct remap {
    u64 a, ol, nl, fl, n;
};
/* The old range: mostly of a mapping that is there. */
static void choose_source(struct asker *t, struct remap *m) {
    struct pq q;
    m->a = paddr(t);
    m->ol = plen(t, m->a);
    if (!below(&t->r, 4) || query(m->a, 0x10, &q) || q.start >= t->hi) return;
    u64 s = q.start < t->lo ? t->lo : q.start, e = q.end > t->hi ? t->hi : q.end, k = (e - s) / PG;
    u64 z = below(&t->r, 4);
    m->a = z == 1 || z == 2 ? s + below(&t->r, k) * PG : s;
    if (z == 0 || z == 1) m->ol = e - m->a;                            /* all of it, or its tail */
    else if (z == 2) m->ol = (1 + below(&t->r, (e - m->a) / PG)) * PG; /* a part */
    else m->ol = (1 + below(&t->r, k + 8)) * PG;                       /* may reach into the next */
}
/* New length, flags and target; false: they would leave the window. */
static int choose_target(struct asker *t, struct remap *m, u64 lim) {
    switch (below(&t->r, 4)) {
    case 0: m->nl = m->ol; break;
    case 1: m->nl = (1 + below(&t->r, m->ol / PG)) * PG; break;
    case 2: m->nl = m->ol + (1 + below(&t->r, 16)) * PG; break;
    default: m->nl = plen(t, m->a);
    }
    m->fl = below(&t->r, 10) < 4 ? 0 : 1;
    if (below(&t->r, 2)) {
        m->fl = 3;
        m->n = paddr(t);
        if (below(&t->r, 4) == 0) m->n = m->a + m->ol;
        if (below(&t->r, 12) == 0) m->n = m->a + PG * below(&t->r, 9);
        if (below(&t->r, 2)) m->nl = m->ol;
    }
    if (below(&t->r, 8) == 0) {
        m->fl |= 5;
        m->nl = m->ol;
        if (!m->n && below(&t->r, 2)) m->n = paddr(t);
    }
    if (below(&t->r, 30) == 0) m->ol = 0;
    if (m->a + m->nl > lim) m->nl = lim - m->a;
    if (m->n && m->n + m->nl > lim) {
        if (m->n >= lim) return 0;
        m->nl = m->fl & 4 ? m->ol : lim - m->n;
    }
    return !m->n || (m->n + m->nl <= lim && m->n + m->ol <= lim);
}
static void spoil_mremap(struct asker *t, struct remap *m) {
    switch (below(&t->r, 60)) {
    case 0: m->nl = 0; break;
    case 1: m->a += 1 + below(&t->r, PG - 1); break;
    case 2: m->fl |= 8; break;
    case 3:
        if (m->fl & 2) m->n += 1 + below(&t->r, PG - 1);
        break;
    case 4: m->fl = 2; break; /* FIXED without MAYMOVE */
    case 5: m->nl = ~0ull - below(&t->r, PG * 2); break;
    case 6:
        if (m->fl & 2) m->n = TASK - PG * below(&t->r, 2), m->nl += PG * 4;
        break;
    case 7:
        if (m->fl & 4) m->nl += PG;
        break;
    case 8:
        if (m->ol > PG) m->ol -= below(&t->r, PG);
        if (m->nl > PG) m->nl -= below(&t->r, PG);
        break;
    }
}
static void q_mremap(struct asker *t) {
    struct remap m = {0};
    u64 lim = nthreads > 1 ? t->hi - PG : t->hi;
    choose_source(t, &m);
    if (m.a >= lim && m.a + m.ol > lim) return;
    if (m.a + m.ol > lim) m.ol = lim - m.a;
    if (!choose_target(t, &m, lim)) return;
    spoil_mremap(t, &m);
    long r = call_kernel(SYS_mremap, m.a, m.ol, m.nl, m.fl, m.n, 0);
    struct pq q;
    /* The kernel keeps areas apart that are one in /proc/self/maps' normal form: then say where its area ends. */
    if (r == -EFAULT && !query(m.a, 0, &q) && q.end < m.a + m.ol) {
        put_text(t->o, "# kernel-area-end: ");
        put_hex(t->o, q.end);
        put_text(t->o, "\n");
    }
    head(t, "mremap");
    arg(t, m.a);
    arg(t, m.ol);
    arg(t, m.nl);
    arg(t, m.fl);
    arg(t, m.n);
    put_result(t->o, r);
    t->ev++;
    if ((u64)r <= (u64)-4096 && !inwin(t, r, m.nl)) unmap_outside(t, r, m.nl);
}
static void q_madvise(struct asker *t) {
    static const unsigned char adv[] = {0, 1, 2, 3, 4, 4, 4, 8, 8, 10, 11, 10, 11, 16, 17};
    u64 a = paddr(t), l = frac(t, plen(t, a)), v = adv[below(&t->r, sizeof adv)];
    switch (below(&t->r, 25)) {
    case 0: l = 0; break;
    case 1:
        a = badaddr(t);
        if (!(a & (PG - 1))) l = -a;
        if (!l) l = PG;
        break;
    case 2: l = ~0ull - below(&t->r, PG - 1); break;
    case 3: v = 5 + below(&t->r, 3); break;
    case 4: v = 1000; break;
    }
    head(t, "madvise");
    arg(t, a);
    arg(t, l);
    arg(t, v);
    put_result(t->o, call_kernel(SYS_madvise, a, l, v, 0, 0, 0));
    t->ev++;
}
static void q_brk(struct asker *t) {
    u64 w;
    switch (below(&t->r, 10)) {
    case 0: w = 0; break;
    case 1: w = brk0 - 1 - below(&t->r, 3 * PG); break;
    case 2: w = TASK + PG; break;
    case 3: w = brkcur; break;
    case 4:
    case 5: w = brkbase + below(&t->r, brkcur - brkbase + 1); break;
    default:
        w = brkcur + below(&t->r, 24 * PG);
        if (w > bwhi - (1 << 20)) w = brkbase;
        break;
    }
    long r = call_kernel(SYS_brk, w, 0, 0, 0, 0, 0);
    brkcur = r;
    head(t, "brk");
    arg(t, w);
    put_result(t->o, r);
    t->ev++;
}
static void q_touch(struct asker *t) {
    u64 a = paddr(t) + below(&t->r, PG);
    int w = below(&t->r, 2);
    struct pq q;
    if (grow && below(&t->r, 2)) { /* just below some mapping */
        if (!query(a, 0x10, &q) && q.start > t->lo + 4 * PG && q.start < t->hi)
            a = q.start - 1 - below(&t->r, below(&t->r, 20) ? 4 * PG : 400 * PG);
        if (a < t->lo) a = t->lo;
    }
    long r = w ? touch_w(a) : touch_r(a);
    head(t, "touch");
    arg(t, a);
    put_text(t->o, w ? " w = " : " r = ");
    put_text(t->o, r == 0 ? "ok\n" : r == 1 ? "maperr\n" : r == 2 ? "accerr\n" : "bus\n");
    t->ev++;
}
static void one(struct asker *t) {
    u64 z = below(&t->r, 100);
    if (z < 33) q_mmap(t);
    else if (z < 47) q_munmap(t);
    else if (z < 65) q_mprotect(t);
    else if (z < 81) q_mremap(t);
    else if (z < 87) q_madvise(t);
    else if (z < 90) {
        if (t->no == 1) q_brk(t);
        else q_touch(t);
    } else q_touch(t);
}

/* ---- threads without libc ---- */
static volatile int go, left;
static char stacks[MAXT][65536] __attribute__((aligned(64)));
static u64 perround = 200;
static __attribute__((noreturn)) int worker(void *p) {
    struct asker *t = p;
    int seen = 0;
    for (;;) {
        while (__atomic_load_n(&go, __ATOMIC_ACQUIRE) == seen) call_kernel(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
        seen = __atomic_load_n(&go, __ATOMIC_ACQUIRE);
        if (seen < 0) {
            __atomic_sub_fetch(&left, 1, __ATOMIC_ACQ_REL);
            call_kernel(SYS_exit, 0, 0, 0, 0, 0, 0);
        }
        u64 e = t->ev + perround;
        while (t->ev < e) one(t);
        __atomic_sub_fetch(&left, 1, __ATOMIC_ACQ_REL);
    }
}

static void make_crc_table(void) {
    for (u32 i = 0; i < 256; i++) {
        u32 x = i;
        for (int k = 0; k < 8; k++) x = x & 1 ? 0xedb88320u ^ x >> 1 : x >> 1;
        crc_table[i] = x;
    }
}
static void set_up_process(void) {
    struct sigaction sa;
    struct rlimit rl;
    memset(&sa, 0, sizeof sa);
    sa.sa_sigaction = onfault;
    sa.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &sa, 0);
    sigaction(SIGBUS, &sa, 0);
    getrlimit(RLIMIT_STACK, &rl);
    rl.rlim_cur = 8 << 20;
    setrlimit(RLIMIT_STACK, &rl);
}
static int open_files(void) {
    char lk[64];
    mapsfd = open("/proc/self/maps", O_RDONLY);
    fd_rw = open(P_tmpdir, O_TMPFILE | O_RDWR, 0600);
    if (fd_rw < 0) fd_rw = memfd_create("t", 0);
    snprintf(lk, sizeof lk, "/proc/self/fd/%d", fd_rw);
    fd_ro = open(lk, O_RDONLY);
    fd_mem = memfd_create("m", 0);
    return mapsfd >= 0 && fd_rw >= 0 && fd_ro >= 0 && fd_mem >= 0 && !ftruncate(fd_rw, tmpsize) &&
           !ftruncate(fd_mem, memsize);
}
static int window_is_free(void) {
    void *w =
        mmap((void *)WIN, WSZ, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return w == (void *)WIN && !munmap(w, WSZ);
}
/* The break: its floor is start_brk; never go below what libc's start-up took. */
static void find_break(void) {
    char sb[2048];
    int sf = open("/proc/self/stat", O_RDONLY);
    long sr = read(sf, sb, sizeof sb - 1);
    close(sf);
    sb[sr > 0 ? sr : 0] = 0;
    char *sp = strrchr(sb, ')') + 2;
    for (int i = 3; i < 47; i++) {
        while (*sp != ' ') sp++;
        sp++;
    }
    while (*sp >= '0' && *sp <= '9') brk0 = brk0 * 10 + (*sp++ - '0');
    brkcur = brkbase = call_kernel(SYS_brk, 0, 0, 0, 0, 0, 0);
    bwlo = (brkbase + PG - 1) & -PG;
    bwhi = bwlo + BWSZ;
}
static void put_header(struct buf *o, u64 seed, u64 n) {
    struct utsname u;
    uname(&u);
    char *dash = strchr(u.release, '-');
    if (dash) *dash = 0;
    put_text(o, "# vmtrace 1\n# program: kdiff seed "), put_decimal(o, seed);
    put_text(o, grow ? " grow" : "");
    put_text(o, " threads "), put_decimal(o, nthreads);
    put_text(o, "\n# kernel: Linux "), put_text(o, u.release);
    put_text(o, " x86_64\n# page-size: 1000\n# task-size: 7ffffffff000\n# recorder: kdiff (one caller a range)\n");
    put_text(o, "# events-asked: "), put_decimal(o, n);
    put_text(o, "\n# threads: "), put_decimal(o, nthreads);
    put_text(o, "\n# address-spaces: 1\nwindow "), put_hex(o, WIN);
    put_text(o, " "), put_hex(o, WIN + WSZ);
    put_text(o, "\nwindow "), put_hex(o, bwlo);
    put_text(o, " "), put_hex(o, bwhi);
    put_text(o, "\nas a1 "), put_hex(o, brk0);
    put_text(o, " "), put_hex(o, brkcur);
    for (int i = 0; i < nthreads; i++) put_text(o, " t"), put_decimal(o, i + 1);
    put_text(o, "\nlimit 800000\n");
}
static int file_object(int fd, u64 size, const char *cls, struct buf *o) {
    struct pq q;
    void *x = mmap(0, PG, PROT_READ, MAP_SHARED, fd, 0);
    if (x == MAP_FAILED || query((u64)x, 0, &q)) exit(5); /* no PROCMAP_QUERY: before Linux 6.11 */
    munmap(x, PG);
    return newobj((u64)q.maj << 32 | q.min, q.ino, size, cls, o);
}
static int finish(struct buf *o) {
    check(o, 1);
    put_text(o, "end a1\n");
    flush(o);
    return 0;
}
static int ask_alone(struct buf *o, u64 n, u64 every, u64 full) {
    struct asker *t = &askers[0];
    u64 lastk = 0, lastf = 0;
    while (t->ev < n) {
        one(t);
        if (t->ev / full != lastf) {
            lastf = t->ev / full;
            lastk = t->ev / every;
            check(o, 1);
        } else if (t->ev / every != lastk) {
            lastk = t->ev / every;
            check(o, 0);
        }
        if (o->n > 1 << 20) flush(o);
    }
    return finish(o);
}
static void wait_for_all(void) {
    while (__atomic_load_n(&left, __ATOMIC_ACQUIRE)) call_kernel(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}
static void tell_all(int what) {
    __atomic_store_n(&left, nthreads, __ATOMIC_RELEASE);
    __atomic_store_n(&go, what, __ATOMIC_RELEASE);
}
static int ask_together(struct buf *o, u64 n, u64 full) {
    for (int i = 0; i < nthreads; i++)
        if (clone(worker, stacks[i] + sizeof stacks[i],
                  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, &askers[i]) < 0)
            return 3;
    flush(o);
    u64 rounds = n / (perround * nthreads);
    if (!rounds) rounds = 1;
    for (u64 k = 1; k <= rounds; k++) {
        tell_all((int)k);
        wait_for_all();
        for (int i = 0; i < nthreads; i++) flush(&outputs[i]);
        put_text(o, "t0 barrier\n");
        check(o, full && k % (full / (perround * nthreads) + 1) == 0);
        flush(o);
    }
    finish(o);
    tell_all(-1);
    wait_for_all();
    return 0;
}

int main(int c, char **v) {
    u64 seed = 1, n = 10000, every = 1, full = 500;
    int g;
    while ((g = getopt(c, v, "s:n:t:k:c:g")) != -1) switch (g) {
        case 's': seed = strtoull(optarg, 0, 0); break;
        case 'n': n = strtoull(optarg, 0, 0); break;
        case 't': nthreads = atoi(optarg); break;
        case 'k': every = strtoull(optarg, 0, 0); break;
        case 'c': full = strtoull(optarg, 0, 0); break;
        case 'g': grow = 1; break;
        default: return 2;
        }
    if (nthreads < 1 || nthreads > MAXT || !every || !full) return 2;
    if (nthreads > 1) grow = 0;
    make_crc_table();
    set_up_process();
    if (!open_files() || !window_is_free()) return 3;
    find_break();
    struct buf *o = &outputs[0];
    put_header(o, seed, n);
    f_tmp = file_object(fd_rw, tmpsize, "data", o);
    f_mem = file_object(fd_mem, memsize, "memfd", o);
    check(o, 1);
    for (int i = 0; i < nthreads; i++) {
        askers[i].no = i + 1;
        askers[i].r.s = seed * 1000003 + i;
        askers[i].o = &outputs[i];
        askers[i].lo = WIN + WSZ / nthreads / PG * PG * i;
        askers[i].hi = i == nthreads - 1 ? WIN + WSZ : WIN + WSZ / nthreads / PG * PG * (i + 1);
    }
    return nthreads == 1 ? ask_alone(o, n, every, full) : ask_together(o, n, full);
}
