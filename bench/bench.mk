# SPDX-License-Identifier: MIT
# Benchmarks. Included by the Makefile.
#
# build/bench/own has the peers that need no more than liburcu; build/bench/peers has the maple tree too. Of Linux'
# source only what the tree needs is unpacked, into build/linux; nothing of it is kept here.
BENCH := build/bench
BENCH_CFLAGS := -std=gnu11 -O2 -g -fno-plt -D_LGPL_SOURCE -I. -Ibench -pthread -Wall -Wextra -Werror
BENCH_DEPENDS := $(wildcard bench/*.h) bench/bench.mk
LINUX := build/linux
LINUX_TAR := /usr/src/linux-source-6.12.tar.xz
LINUX_CFLAGS := -isystem $(LINUX)/generated -isystem $(LINUX)/tools/testing/shared -isystem $(LINUX)/tools/include \
    -isystem $(LINUX)/lib
OWN_PEERS := ivskip ivskip_value ivskip_builtin ivskip_plain rbtree array
ALL_PEERS := ivskip maple maple_bare $(filter-out ivskip,$(OWN_PEERS))

BENCH_PEER_ivskip := -DBENCH_PEER='"peer_ivskip.h"' -DIVSKIP_RCU=URCU_MEMB
BENCH_PEER_ivskip_value := $(BENCH_PEER_ivskip) -DBENCH_BY_VALUE
BENCH_PEER_ivskip_plain := $(BENCH_PEER_ivskip) -DBENCH_PLAIN
BENCH_PEER_ivskip_builtin := -DBENCH_PEER='"peer_ivskip.h"' -DIVSKIP_RCU=BUILTIN
BENCH_PEER_rbtree := -DBENCH_PEER='"peer_table.h"' -D'TABLE(x)=rbtree_\#\#x'
BENCH_PEER_array := -DBENCH_PEER='"peer_table.h"' -D'TABLE(x)=array_\#\#x' -DBENCH_MOST=10000
BENCH_PEER_maple := -DBENCH_PEER='"peer_maple.h"' $(LINUX_CFLAGS)
BENCH_PEER_maple_bare := $(BENCH_PEER_maple) -DBENCH_BARE

.PHONY: bench bench-peers bench-count bench-plots need-bench

need-bench:
	@CC=$(CC) tests/need.sh benchmark/export.h libbenchmark-dev
	@CC=$(CC) tests/need.sh valgrind/callgrind.h valgrind
	@tests/need.sh g++ g++; CC=$(CC) tests/need.sh urcu/urcu-memb.h liburcu-dev; tests/need.sh jq jq

$(LINUX)/.unpacked: | need-bench
	@mkdir -p $(LINUX)/generated/generated
	@[ -e $(LINUX_TAR) ] || tests/need.sh $(LINUX_TAR) linux-source-6.12 2>$(LINUX)/install.log || [ -e $(LINUX_TAR) ] || \
	    { tail -n 3 $(LINUX)/install.log >&2; exit 1; }
	tar xf $(LINUX_TAR) -C $(LINUX) --strip-components=1 --wildcards 'linux-source-*/tools/testing/shared/*' \
	    'linux-source-*/tools/include/*' 'linux-source-*/tools/arch/*/include/*' 'linux-source-*/include/*' \
	    'linux-source-*/lib/maple_tree.c'
	@cp $(LINUX)/tools/testing/shared/autoconf.h $(LINUX)/generated/generated/
	@echo '#define CONFIG_64BIT 1' > $(LINUX)/generated/generated/bit-length.h
	@echo '#define XA_CHUNK_SHIFT 6' > $(LINUX)/generated/generated/map-shift.h
	@touch $@

$(BENCH)/shim.o $(BENCH)/rbtree.o: $(BENCH)/%.o: bench/%.cc $(BENCH_DEPENDS) | need-bench
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -g -Ibench -Wall -Wextra -Werror -c $< -o $@
$(BENCH)/bench.o $(BENCH)/slab.o $(BENCH)/array.o: $(BENCH)/%.o: bench/%.c $(BENCH_DEPENDS) | need-bench
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -c $< -o $@
$(BENCH)/trace.o: bench/trace.c $(VMREPLAY) $(HEADERS) $(BENCH_DEPENDS)
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -c $< -o $@
$(BENCH)/ivskip-%.o: bench/ivskip.c $(HEADERS) $(BENCH_DEPENDS) | need-bench
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -DIVSKIP_RCU=$* -c $< -o $@
$(BENCH)/maple-tree.o: bench/maple.c $(LINUX)/.unpacked
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -w -fno-strict-aliasing -D_LGPL_SOURCE $(LINUX_CFLAGS) -c $< -o $@
$(BENCH)/peer-maple.o $(BENCH)/peer-maple_bare.o: $(LINUX)/.unpacked
$(BENCH)/peer-%.o: bench/work.c $(HEADERS) $(BENCH_DEPENDS) | need-bench
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) $(BENCH_PEER_$*) -DBENCH_SYMBOL=$* -DBENCH_NAME='"$(subst _,-,$*)"' -c $< -o $@
$(BENCH)/main-%.o: bench/main.c $(BENCH_DEPENDS)
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -DBENCH_PEERS='$(foreach peer,$(BENCH_PEERS_$*),PEER($(peer)))' -c $< -o $@

BENCH_PEERS_own := $(OWN_PEERS)
BENCH_PEERS_peers := $(ALL_PEERS)
BENCH_COMMON := $(addprefix $(BENCH)/,shim.o bench.o slab.o trace.o rbtree.o array.o ivskip-URCU_MEMB.o ivskip-BUILTIN.o)
$(BENCH)/own: $(BENCH)/main-own.o $(patsubst %,$(BENCH)/peer-%.o,$(OWN_PEERS)) $(BENCH_COMMON)
	$(CXX) -pthread $^ -o $@ -lbenchmark $(LIBS_URCU_MEMB) -lm
$(BENCH)/peers: $(BENCH)/main-peers.o $(BENCH)/maple-tree.o $(patsubst %,$(BENCH)/peer-%.o,$(ALL_PEERS)) $(BENCH_COMMON)
	$(CXX) -pthread $^ -o $@ -lbenchmark $(LIBS_URCU_MEMB) -lm

# $(call bench_run,program,filter,file,seconds)
define bench_run
	$(1) --benchmark_filter='$(2)' --benchmark_min_time=$(4) --benchmark_out=$(3) --benchmark_out_format=json
endef
BENCH_ONLY ?=
BENCH_SOME := ^([^/]*/(1000|65000)/shuffled|trace[^/]*/100/in-order)/(ivskip|ivskip-builtin|rbtree|array)/
BENCH_PLOTTED := ^((find-field-uniform|unmap-map|bytes)/[^/]*|(mixed-50-50|regions)/10000)/shuffled/

# With the maple tree if Linux' source can be had.
BENCH_PROGRAM = $(BENCH)/$$(cat $(BENCH)/program)
.PHONY: maple-or-not
maple-or-not:
	@mkdir -p $(BENCH)
	@program=peers; $(MAKE) --no-print-directory $(LINUX)/.unpacked || { program=own; \
	    echo "maple tree: skipped, linux-source-6.12 is not there and could not be installed" >&2; }; \
	$(MAKE) --no-print-directory $(BENCH)/$$program; echo $$program > $(BENCH)/program

bench: $(BENCH)/own ## the map, a red-black tree, an array: about a minute, a table; BENCH_ONLY=regex on WORK/N/ORDER/PEER
	@$(call bench_run,$(BENCH)/own,$(or $(BENCH_ONLY),$(BENCH_SOME)),$(BENCH)/bench.json,0.01)

bench-peers: maple-or-not ## ours beside its peers: RUNS=5 interleaved runs, each target pass or FAIL; BENCH_ONLY=regex
	@BENCH_ONLY='$(BENCH_ONLY)' bench/peers.sh $(BENCH_PROGRAM) $(BENCH)/results

bench-count: maple-or-not ## instructions an operation, ours and the maple tree's, by callgrind; BENCH_ONLY=regex
	@BENCH_ONLY='$(BENCH_ONLY)' bench/count.sh $(BENCH_PROGRAM) $(BENCH)/count

bench-plots: maple-or-not ## build/bench/plots/*.png and *.svg: latency by intervals, throughput by threads, bytes
	@tests/need.sh gnuplot gnuplot-nox
	@mkdir -p $(BENCH)/plots
	@$(call bench_run,$(BENCH_PROGRAM),$(BENCH_PLOTTED),$(BENCH)/plots/plots.json,0.1)
	@bench/flatten.sh $(BENCH)/plots/plots.json > $(BENCH)/plots/plots.tsv
	@gnuplot -e "tsv='$(BENCH)/plots/plots.tsv'; out='$(BENCH)/plots'" bench/plots.gp
	@ls $(BENCH)/plots/*.png $(BENCH)/plots/*.svg

# Range locks: a table, then what is wanted of them.
.PHONY: bench-range
$(BENCH)/range: bench/range.c $(HEADERS) $(BENCH)/shim.o $(BENCH_DEPENDS)
	$(CC) $(BENCH_CFLAGS) -c $< -o $@.o
	$(CXX) -pthread $@.o $(BENCH)/shim.o -o $@ -lbenchmark

bench-range: $(BENCH)/range ## range locks, a mutex, a rwlock, a mutex with a tree, OFD locks; each target pass or FAIL; BENCH_ONLY=regex
	@$(call bench_run,$(BENCH)/range,$(or $(BENCH_ONLY),.),$(BENCH)/range.json,0.1)
	@[ -n "$(BENCH_ONLY)" ] || jq -r '.benchmarks[] | [.name, .real_time] | @tsv' $(BENCH)/range.json | awk -f bench/range.awk

# Address spaces.
.PHONY: bench-space
$(BENCH)/space-maple.o: $(LINUX)/.unpacked
$(BENCH)/space-maple.o: bench/space_maple.c $(BENCH_DEPENDS)
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) $(LINUX_CFLAGS) -c $< -o $@
$(BENCH)/space-ivaddr-%.o: bench/space_ivaddr.c $(HEADERS) $(BENCH_DEPENDS) | need-bench
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -DIVSKIP_RCU=$* -c $< -o $@
$(BENCH)/space.o: bench/space.c $(BENCH_DEPENDS) | need-bench
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -c $< -o $@
$(BENCH)/space: $(addprefix $(BENCH)/,space.o space-maple.o space-ivaddr-URCU_MEMB.o space-ivaddr-BUILTIN.o maple-tree.o shim.o \
    bench.o slab.o)
	$(CXX) -pthread $^ -o $@ -lbenchmark $(LIBS_URCU_MEMB) -lm

bench-space: $(BENCH)/space ## ivaddr.h beside the same semantics on the maple tree, each target pass or FAIL; RUNS=3; BENCH_ONLY=regex
	@rm -f $(BENCH)/space.tsv
	@for run in $$(seq $(or $(RUNS),3)); do \
	    $(call bench_run,$(BENCH)/space,$(or $(BENCH_ONLY),.),$(BENCH)/space.json,0.2); \
	    jq -r '.benchmarks[] | [.name, .real_time] | @tsv' $(BENCH)/space.json >> $(BENCH)/space.tsv; done
	@[ -n "$(BENCH_ONLY)" ] || awk -f bench/space.awk $(BENCH)/space.tsv
