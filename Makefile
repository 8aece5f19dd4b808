# SPDX-License-Identifier: MIT
# GNU make. `make help` lists the targets; their text is what follows `##`.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

CC ?= cc
ifeq ($(origin CC),default)
CC := cc
endif
CFLAGS ?= -O2 -g
CLANG ?= clang-19
COMPILERS ?= gcc clang-14 $(CLANG)
RCU ?= BUILTIN
PREFIX ?= /usr/local
DESTDIR ?=
FILTER ?=
SECONDS ?= 60
TARGET ?= $(FUZZ_TARGETS)
SAN_SCALE ?= 0.5
TSAN_SCALE ?= 0.2
RCU_SCALE ?= 0.5

SEEDS ?= 1..100

VERSION := $(shell awk '/define IVSKIP_VERSION_(MAJOR|MINOR|PATCH) /{v = v s $$3; s = "."} END {print v}' ivskip.h)
HEADERS := $(wildcard ivskip.h ivaddr.h)
BASE_FLAGS := -std=gnu11 -I. -Itests -pthread
TEST_WARN := -Wall -Wextra -Werror
TEST_FLAGS := $(BASE_FLAGS) $(TEST_WARN) -DIVSKIP_CONFIG='"tests/config.h"'
STEP_FLAGS := $(TEST_FLAGS) -DIVSKIP_ATOMICS='"tests/step_atomics.h"'

# The step binary stops threads between two atomic accesses; it is built apart, with other atomics. conform.c is for ports (kernel.mk).
STEP_ONLY := parked design_cases steps addr_parked
COMMON := check support model implementation rcu_threads
SUITE := $(filter-out $(STEP_ONLY) $(COMMON) run conform,$(basename $(notdir $(wildcard tests/*.c))))
STEPS := $(filter $(STEP_ONLY),$(basename $(notdir $(wildcard tests/*.c))))
DEPENDS := $(HEADERS) $(wildcard tests/*.h) Makefile
VMREPLAY := $(wildcard examples/vmreplay*.[ch] examples/vmtrace.h)

# RCU=... picks the flavour for vmreplay, check-plain, check-traces and the sanitizers; what is built goes to DIR.
URCUS := URCU_MEMB URCU_QSBR URCU_BP
RCUS := BUILTIN $(URCUS)
ifeq ($(filter $(RCU),$(RCUS)),)
$(error RCU=$(RCU) is none of $(RCUS))
endif
DIR := build$(addprefix /,$(filter-out BUILTIN,$(RCU)))
LIBS_URCU_MEMB := -lurcu-memb -lurcu-common
LIBS_URCU_QSBR := -lurcu-qsbr -lurcu-common
LIBS_URCU_BP := -lurcu-bp -lurcu-common
# The step tests run with the built-in RCU, and plainly with memb for liburcu's side: the same steps as with bp, and each run waits for liburcu's
# callbacks, tens of ms. With qsbr they would wait for themselves: a stopped step is amid a call, where a thread may not be offline.
BINARIES = $(1)/test-plain $(if $(filter build/URCU_MEMB,$(1))$(filter BUILTIN,$(RCU)),$(1)/test-steps)

TRACES_HERE = $(wildcard tests/data/*.vmtrace)
DEMO_TRACE ?= $(firstword $(wildcard tests/data/malloc-threads.vmtrace) $(TRACES_HERE))
# Not all of a directory of traces can be predicted: the kernel keeps areas apart that are one here, and most traces do not tell where.
BELIEVING := "" "--threads 4" "--parallel"
MODES := $(BELIEVING) "--predict"

# zlib is used where a program with it compiles and links.
ZLIB_PROBE = echo 'int main(void){return zlibVersion()[0]==0;}' | $(1) -include zlib.h -x c - -o /dev/null -lz 2>/dev/null
ZLIB = $(shell $(call ZLIB_PROBE,$(1)) && echo -DVMREPLAY_ZLIB -lz)

FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/map.c fuzz/vmtrace.c)))
SOURCE_CHECKS := check-size check-readme check-examples check-warn check-include check-freestanding check-names check-order check-docs \
    check-text-size check-checks

.PHONY: all help vmreplay demo test check-plain check-rcu check-asan check-ubsan check-tsan check-tsan-rcu check-source
.PHONY: $(SOURCE_CHECKS) fuzz check-fuzz-corpus check-fuzz-faults check-traces install format clean
.PHONY: demo-rangelock stress check-park check-kdiff
.PHONY: need-criterion need-clang need-compilers need-urcu

all: vmreplay ## the example program (default)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-26s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---------------------------------------------------------------- example

vmreplay: need-urcu $(DIR)/vmreplay ## build/vmreplay; reads .gz too where zlib is installed; RCU=URCU_MEMB, _QSBR or _BP: liburcu's

# $(call build_vmreplay,compiler,flags,output,libraries)
define build_vmreplay
	@mkdir -p $(dir $(3))
	$(1) $(BASE_FLAGS) $(2) -Wall -Wextra examples/vmreplay.c -o $(3) $(filter-out -l%,$(call ZLIB,$(1))) \
	    $(filter -l%,$(call ZLIB,$(1))) $(4)
endef

DEMO_TRACE := tests/data/malloc-threads.vmtrace

demo: ## replays a recorded trace in parallel and shows it; needs a C compiler only
	@mkdir -p build
	$(CC) $(BASE_FLAGS) $(CFLAGS) examples/vmreplay.c -o build/vmreplay-demo
	@for trace in $(filter-out $(DEMO_TRACE),$(TRACES_HERE)); do \
	    build/vmreplay-demo --parallel --quiet $$trace; echo "build/vmreplay-demo --parallel $$trace: matched"; \
	done
	@echo "build/vmreplay-demo --parallel --show $(DEMO_TRACE)"
	@build/vmreplay-demo --parallel --show $(DEMO_TRACE)
	@echo "demo: the map matched every checkpoint of every trace in tests/data"

demo-rangelock: ## range locks against a mutex, a rwlock and the kernel's OFD locks on one file, as a table; UPDATES=50000
	@mkdir -p build
	@$(CC) $(BASE_FLAGS) $(CFLAGS) -Wall -Wextra examples/rangelock_file.c -o build/rangelock_file
	@build/rangelock_file --updates $(or $(UPDATES),50000); echo
	@build/rangelock_file --updates $(or $(UPDATES),50000) --disjoint; echo
	@$(CC) $(BASE_FLAGS) $(CFLAGS) -Wall -Wextra examples/rangelock_slots.c -o build/rangelock_slots
	@build/rangelock_slots

# ---------------------------------------------------------------- test binaries

# $(call flavour,directory,compiler variable,flags,libraries): the suite and the step binary of the plain runner, and vmreplay
define flavour
$(1)/suite/%.o: tests/%.c $$(DEPENDS)
	@mkdir -p $$(@D)
	$$($(2)) $$(TEST_FLAGS) $(3) -c $$< -o $$@
$(1)/steps/%.o: tests/%.c $$(DEPENDS)
	@mkdir -p $$(@D)
	$$($(2)) $$(STEP_FLAGS) $(3) -c $$< -o $$@
$(1)/test-plain: $$(patsubst %,$(1)/suite/%.o,run $$(COMMON) $$(SUITE))
	$$($(2)) -pthread $(3) $$^ -o $$@ $(4)
$(1)/test-steps: $$(patsubst %,$(1)/steps/%.o,run $$(COMMON) $$(STEPS))
	$$($(2)) -pthread $(3) $$^ -o $$@ $(4)
$(1)/vmreplay: $$(VMREPLAY) $$(DEPENDS)
	$$(call build_vmreplay,$$($(2)),$(3),$$@,$(4))
endef

# $(call flavours,directory,flags,libraries): plain and with each sanitizer
SAN_CFLAGS := -O1 -g -fno-omit-frame-pointer
define flavours
$(call flavour,$(1),CC,$$(CFLAGS) $(2),$(3))
$(call flavour,$(1)/asan,CLANG,$(SAN_CFLAGS) -fsanitize=address $(2),$(3))
$(call flavour,$(1)/ubsan,CLANG,$(SAN_CFLAGS) -fsanitize=undefined -fno-sanitize-recover=all $(2),$(3))
$(call flavour,$(1)/tsan,CLANG,$(SAN_CFLAGS) -fsanitize=thread $(2),$(3))
endef
$(eval $(call flavours,build,,))
$(eval $(call flavour,build/park,CC,$$(CFLAGS) -DIVS_NO_FUTEX_,))
$(foreach rcu,$(URCUS),$(eval $(call flavours,build/$(rcu),-DIVSKIP_RCU=$(rcu),$(LIBS_$(rcu)))))

build/criterion/%.o: tests/%.c $(DEPENDS)
	@mkdir -p $(@D)
	$(CC) $(TEST_FLAGS) $(CFLAGS) -DWITH_CRITERION -c $< -o $@
build/test-criterion: $(patsubst %,build/criterion/%.o,$(COMMON) $(SUITE))
	$(CC) -pthread $(CFLAGS) $^ -o $@ -lcriterion

need-criterion:
	@CC=$(CC) tests/need.sh criterion/criterion.h libcriterion-dev
need-clang:
	@tests/need.sh $(CLANG) $(CLANG) llvm-19
	@tests/need.sh lib:$(CLANG) libclang-rt-19-dev
need-compilers:
	@for compiler in $(COMPILERS); do tests/need.sh $$compiler $$compiler; done; tests/need.sh g++ g++
need-urcu:
	@[ "$(RCU)" = BUILTIN ] || CC=$(CC) tests/need.sh urcu/urcu-memb.h liburcu-dev

# ---------------------------------------------------------------- tests

test: need-criterion build/vmreplay build/kdiff/kdiff build/lab/lab build/lab/host/lab ## all tests (Criterion, the step tests, the lab, the fuzz seeds); installs what is missing
	@$(MAKE) --no-print-directory build/test-criterion build/test-steps $(REPLAYS)
	@tests/sum.sh build/test-criterion build/test-steps $(LAB_RUNS) "$(call KDIFF,1..20)" $(foreach target,$(FUZZ_TARGETS),"$(call REPLAY,$(target))")

check-plain: need-urcu $(DIR)/vmreplay $(call BINARIES,$(DIR)) ## all tests in one process each; FILTER=word picks some; RCU=...
	@export VMREPLAY=$(DIR)/vmreplay; \
	if [ -n "$(FILTER)" ]; then $(DIR)/test-plain $(FILTER); else tests/sum.sh $(call BINARIES,$(DIR)); fi

KDIFF = tests/kdiff/run.sh $(1) build/vmreplay build/kdiff/kdiff
build/kdiff/kdiff: tests/kdiff/kdiff.c Makefile
	@mkdir -p $(@D)
	@if [ "$$(uname -sm)" = "Linux x86_64" ]; then $(CC) -O2 -Wall -Wextra -Werror -static $< -o $@; else touch $@; fi

check-kdiff: build/vmreplay build/kdiff/kdiff ## random calls, bad ones too, answered by the running kernel and by ivaddr.h: same results, same maps; SEEDS=1..100
	@$(call KDIFF,$(SEEDS))

# $(call replay_all,vmreplay,environment): all traces of the repository in all modes
define replay_all
	@for trace in $(TRACES_HERE); do for mode in $(MODES); do \
	    echo "$(1) $$mode $$trace"; $(2) $(1) $$mode $$trace >/dev/null; done; done
endef
# $(call sanitized,name,environment): suite, step tests and vmreplay on all traces in all modes
define sanitized
	@$(2) VMREPLAY=$(DIR)/$(1)/vmreplay tests/sum.sh $(call BINARIES,$(DIR)/$(1))
	$(call replay_all,$(DIR)/$(1)/vmreplay,$(2))
	@echo "check-$(1), $(RCU): no report"
endef
SANITIZED = need-clang need-urcu $(call BINARIES,$(DIR)/$(1)) $(DIR)/$(1)/vmreplay
SCALED = SCALE=$${SCALE:-$(1)} SLOW=$${SLOW:-4}

stress: build/test-plain ## random requests on a range lock, SECONDS=60, SEED=...: wrong overlap, lost wakes, memory
	STRESS_SECONDS=$(SECONDS) SLOW=$$(($(SECONDS) / 60 + 4)) build/test-plain range_stress/random

check-rcu: ## all tests, and vmreplay in its three modes, under the built-in RCU and liburcu's memb, qsbr and bp
	@for rcu in $(RCUS); do echo "--- $$rcu"; \
	    $(call SCALED,$(RCU_SCALE)) $(MAKE) --no-print-directory RCU=$$rcu check-plain replay-here; done
	@echo "check-rcu: passed under $(RCUS)"

.PHONY: replay-here
replay-here: need-urcu $(DIR)/vmreplay
	$(call replay_all,$(DIR)/vmreplay,)

check-park: build/park/test-plain ## all tests with what sleeps where there is no futex: conditions
	$(call SCALED,$(RCU_SCALE)) build/park/test-plain

check-asan: $(call SANITIZED,asan) ## all tests under AddressSanitizer; RCU=...
	$(call sanitized,asan,$(call SCALED,$(SAN_SCALE)) ASAN_OPTIONS=detect_leaks=1:halt_on_error=1:detect_stack_use_after_return=1)

check-ubsan: $(call SANITIZED,ubsan) ## all tests under UBSan; RCU=...
	$(call sanitized,ubsan,$(call SCALED,$(SAN_SCALE)) UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1)

# With liburcu: its frames are suppressed, and in a forked child it starts a thread, which ThreadSanitizer allows on demand only.
TSAN_EXTRA = $(if $(filter $(URCUS),$(RCU)),:suppressions=$(CURDIR)/tests/tsan-urcu.supp:die_after_fork=0)
check-tsan: $(call SANITIZED,tsan) ## all tests under ThreadSanitizer; RCU=...
	$(call sanitized,tsan,$(call SCALED,$(TSAN_SCALE)) TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1$(TSAN_EXTRA))

check-tsan-rcu: ## check-tsan under each of the four
	@for rcu in $(RCUS); do echo "--- $$rcu"; $(MAKE) --no-print-directory RCU=$$rcu check-tsan; done
	@echo "check-tsan-rcu: no report under $(RCUS)"

# ---------------------------------------------------------------- checks of the source

CHECK_ENV := COMPILERS="$(COMPILERS)" CLANG=$(CLANG)

check-source: $(SOURCE_CHECKS) ## all checks of the source below

check-warn: need-compilers ## the header without a warning: COMPILERS (gcc, clang-14, clang-19), C11, C17, gnu2x, C++11, C++20, every RCU
	@CC=$(CC) tests/need.sh urcu/urcu-memb.h liburcu-dev
	@$(CHECK_ENV) tests/checks/warn.sh $(HEADERS)

check-include: need-compilers ## alone, twice, in any order, C and C++, several copies in one program, options that do not match
	@$(CHECK_ENV) tests/checks/include.sh

check-freestanding: need-compilers need-clang ## with kernel flags it needs the hooks of a port, memcpy and memset only; x86-64, aarch64, riscv64
	@$(CHECK_ENV) tests/checks/freestanding.sh

check-names: ## every symbol, macro and type that the header defines has our prefix
	@tests/checks/names.sh

check-order: ## every ordered atomic access cites its pair, every pair has both ends
	@for header in $(HEADERS); do awk -f tests/checks/order.awk $$header; done

check-docs: ## every public function has a doc block with all its fields
	@for header in $(HEADERS); do awk -f tests/checks/docs.awk $$header; done

check-text-size: need-compilers ## object text of a minimal port, at most 12 KiB
	@$(CHECK_ENV) tests/checks/size.sh

check-checks: ## the checks above fail on headers that break what they check
	@tests/checks/selftest.sh

check-size: ## no function is longer than 70 lines
	@awk -v max=70 -f tests/function_size.awk $(HEADERS) $(wildcard examples/*.[ch] tests/*.[ch] bench/*.[ch] fuzz/*.[ch] tests/lab/*.[ch] tests/kdiff/*.[ch])

check-readme: ## compiles and runs every C example of README.md that has a main
	@mkdir -p build; rm -f build/readme-*.c; \
	awk '/^```c *$$/{inside = 1; text = ""; next} /^```/{if (inside && text ~ /int main\(/) {printf "%s", text > ("build/readme-" ++n ".c")} inside = 0} inside{text = text $$0 "\n"}' README.md; \
	[ -s build/readme-1.c ] || { echo "check-readme: README.md has no C example with a main" >&2; exit 1; }; \
	for example in build/readme-*.c; do \
	    $(CC) -std=c11 -Wall -Wextra -Werror -I. -pthread $$example -o build/readme; build/readme; \
	    echo "check-readme: $$example compiles and runs"; \
	done

check-examples: ## compiles and runs examples/vma.c (by its output), rangelock_slots.c and rangelock_file.c
	@mkdir -p build
	@$(CC) -std=c11 -Wall -Wextra -Werror -I. -pthread examples/vma.c -o build/vma
	@build/vma > build/vma.out; [ "$$(grep -c '^fault' build/vma.out)" = 8 ] && grep -qx 'fault at 0x15000: r-- data+0x1000' build/vma.out && \
	    tail -n 2 build/vma.out | grep -c 'is closed' | grep -qx 2 || { cat build/vma.out; echo "check-examples: not what vma.c should print" >&2; exit 1; }
	@$(CC) -std=gnu11 -Wall -Wextra -Werror -O2 -I. -pthread examples/rangelock_slots.c -o build/rangelock_slots
	@build/rangelock_slots 20000
	@$(CC) -std=gnu11 -Wall -Wextra -Werror -O2 -I. -pthread examples/rangelock_file.c -o build/rangelock_file
	@build/rangelock_file --updates 5000 > build/rangelock_file.out || { cat build/rangelock_file.out; exit 1; }
	@echo "check-examples: vma.c prints what it should, rangelock_slots.c and rangelock_file.c find every byte right"

# ---------------------------------------------------------------- fuzzing

# What a target begins with; vmtrace reads the traces of the tests.
SEEDS_map := fuzz/corpus/map
SEEDS_vmtrace := tests/data/bad tests/data/differs fuzz/corpus/vmtrace
FAULT_SEEDS_vmtrace := tests/data/bad
REPLAYS := $(patsubst %,build/fuzz/replay-%,$(FUZZ_TARGETS))
REPLAY = build/fuzz/replay-$(1) $(SEEDS_$(1))
FUZZ_FLAGS = $(if $(FUZZ_SOURCES_$(1)),$(TEST_FLAGS),$(BASE_FLAGS) $(TEST_WARN) -Wno-unused-function)
FUZZ_SOURCES_map := $(patsubst %,tests/%.c,$(COMMON))
FUZZ_ENV = SECONDS_EACH=$(SECONDS) CLANG=$(CLANG) SOURCES='$(FUZZ_SOURCES_$(1))' SEEDS='$(SEEDS_$(1))' FAULT_SEEDS='$(FAULT_SEEDS_$(1))'

build/fuzz/replay-%: fuzz/%.c fuzz/replay.c $(VMREPLAY) tests/*.c $(DEPENDS)
	@mkdir -p $(@D)
	$(CC) $(call FUZZ_FLAGS,$*) $(CFLAGS) $< fuzz/replay.c $(FUZZ_SOURCES_$*) -o $@

fuzz: need-clang ## TARGET=map or vmtrace (default: both), SECONDS=60 each: libFuzzer, with executions per second
	@$(foreach target,$(TARGET),$(call FUZZ_ENV,$(target)) fuzz/run.sh $(target);)

check-fuzz-corpus: $(REPLAYS) ## replays the seeds of all fuzz targets, without libFuzzer
	@tests/sum.sh $(foreach target,$(FUZZ_TARGETS),"$(call REPLAY,$(target))")

check-fuzz-faults: need-clang ## planted faults, fuzz/faults/*.patch: each is found within SECONDS
	@tests/need.sh patch patch
	@$(foreach target,$(TARGET),$(call FUZZ_ENV,$(target)) fuzz/faults.sh $(target);)

# ---------------------------------------------------------------- the rest

check-traces: need-urcu $(DIR)/vmreplay ## TRACES=dir: replays every .vmtrace.gz of a directory in the three modes; RCU=...
	@[ -n "$(TRACES)" ] || { echo "check-traces: say TRACES=directory" >&2; exit 1; }
	@found=0; for trace in $(TRACES)/*.gz; do [ -e "$$trace" ] || continue; for mode in $(BELIEVING); do \
	    echo "$(DIR)/vmreplay $$mode $$trace"; $(DIR)/vmreplay $$mode "$$trace"; found=$$((found + 1)); done; done; \
	[ $$found -gt 0 ] || { echo "check-traces: no .gz in $(TRACES)" >&2; exit 1; }; echo "check-traces: $$found replays matched"

install: ## headers and ivskip.pc under PREFIX (default /usr/local), DESTDIR in front
	install -d "$(DESTDIR)$(PREFIX)/include" "$(DESTDIR)$(PREFIX)/share/pkgconfig"
	install -m 644 $(HEADERS) "$(DESTDIR)$(PREFIX)/include"
	printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' '' 'Name: ivskip' \
	    'Description: Concurrent interval map in a single header' 'Version: $(VERSION)' 'Cflags: -I$${includedir} -pthread' \
	    'Libs: -pthread' > "$(DESTDIR)$(PREFIX)/share/pkgconfig/ivskip.pc"

format: ## clang-format over everything but the headers' doc blocks
	@tests/need.sh clang-format clang-format
	clang-format -i $(wildcard tests/*.[ch] tests/lab/*.[ch] tests/kdiff/*.[ch] bench/*.[ch] bench/*.cc examples/*.[ch] fuzz/*.[ch])

# The kernel example and the tests of its host, where they are.
-include examples/kernel/kernel.mk
include tests/lab/lab.mk
include bench/bench.mk

clean: ## removes build/
	rm -rf build
