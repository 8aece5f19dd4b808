// SPDX-License-Identifier: MIT
// The red-black tree of the C++ library as an interval map; its nodes come from the slab of the harness.
#define TABLE(x) rbtree_##x
#include "table.h"

#include <map>

namespace {
template <class T> struct slab {
    using value_type = T;
    slab() = default;
    template <class U> slab(const slab<U> &) {}
    T *allocate(size_t n) { return static_cast<T *>(bench_alloc(n * sizeof(T))); }
    void deallocate(T *memory, size_t n) { bench_free(memory, n * sizeof(T)); }
    bool operator==(const slab &) const { return true; }
    bool operator!=(const slab &) const { return false; }
};
struct node;
using tree = std::map<uint64_t, node, std::less<uint64_t>, slab<std::pair<const uint64_t, node>>>;
struct node : table_entry {
    tree::iterator self; // so that an entry leads to the next one
};

void insert(tree &map, tree::iterator before, const table_entry &entry) {
    auto made = map.emplace_hint(before, entry.start, node{entry, {}});
    made->second.self = made;
}

template <class Map> auto behind(Map &map, uint64_t key) {
    auto at = map.upper_bound(key);
    if (at != map.begin() && std::prev(at)->second.end > key) --at;
    return at;
}
} // namespace

struct table {
    tree map;
};

table *rbtree_new() { return new table; }
void rbtree_free(table *t) { delete t; }

const table_entry *rbtree_behind(const table *t, uint64_t key) {
    auto at = behind(t->map, key);
    return at == t->map.end() ? nullptr : &at->second;
}

const table_entry *rbtree_next(const table *t, const table_entry *entry) {
    auto at = std::next(tree::const_iterator(static_cast<const node *>(entry)->self));
    return at == t->map.end() ? nullptr : &at->second;
}

void rbtree_put(table *t, uint64_t start, uint64_t end, bench_record *record) {
    auto at = behind(t->map, start);
    if (at != t->map.end() && at->second.start < start) {
        table_entry whole = at->second;
        at->second.end = start;
        ++at;
        if (whole.end > end) insert(t->map, at, {end, whole.end, whole.record});
    }
    while (at != t->map.end() && at->second.start < end) {
        table_entry old = at->second;
        at = t->map.erase(at);
        if (old.end > end) insert(t->map, at, {end, old.end, old.record});
    }
    if (record) insert(t->map, t->map.lower_bound(start), {start, end, record});
}
