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
PREFIX ?= /usr/local
DESTDIR ?=
FILTER ?=
SAN_SCALE ?= 0.5
TSAN_SCALE ?= 0.2

VERSION := $(shell awk '/define IVSKIP_VERSION_(MAJOR|MINOR|PATCH) /{v = v s $$3; s = "."} END {print v}' ivskip.h)
HEADERS := $(wildcard ivskip.h ivaddr.h)
BASE_FLAGS := -std=gnu11 -I. -Itests -pthread
TEST_WARN := -Wall -Wextra -Werror
TEST_FLAGS := $(BASE_FLAGS) $(TEST_WARN) -DIVSKIP_CONFIG='"tests/config.h"'
STEP_FLAGS := $(TEST_FLAGS) -DIVSKIP_ATOMICS='"tests/step_atomics.h"'

# The step binary stops threads between two atomic accesses; it is built apart, with other atomics.
STEP_ONLY := parked design_cases steps
COMMON := check support model implementation
SUITE := $(filter-out $(STEP_ONLY) $(COMMON) run,$(basename $(notdir $(wildcard tests/*.c))))
STEPS := $(filter $(STEP_ONLY),$(basename $(notdir $(wildcard tests/*.c))))
DEPENDS := $(HEADERS) $(wildcard tests/*.h) Makefile

TRACES_HERE = $(wildcard tests/data/*.vmtrace)
DEMO_TRACE ?= $(firstword $(wildcard tests/data/malloc-threads.vmtrace) $(TRACES_HERE))
MODES := "" "--threads 4" "--parallel"

# zlib is used where a program with it compiles and links.
ZLIB_PROBE = echo 'int main(void){return zlibVersion()[0]==0;}' | $(1) -include zlib.h -x c - -o /dev/null -lz 2>/dev/null
ZLIB = $(shell $(call ZLIB_PROBE,$(1)) && echo -DVMREPLAY_ZLIB -lz)

.PHONY: all help vmreplay demo test test-build check-plain check-asan check-ubsan check-tsan check-warn check-size
.PHONY: check-readme check-traces install format clean need-criterion need-clang FORCE

all: vmreplay ## the example program (default)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' Makefile

# ---------------------------------------------------------------- example

vmreplay: build/vmreplay ## build/vmreplay; reads .gz too where zlib is installed

# $(call build_vmreplay,compiler,flags,output)
define build_vmreplay
	@mkdir -p $(dir $(3))
	$(1) $(BASE_FLAGS) $(2) examples/vmreplay.c -o $(3) $(filter-out -l%,$(call ZLIB,$(1))) $(filter -l%,$(call ZLIB,$(1)))
endef

build/vmreplay: examples/vmreplay.c $(DEPENDS)
	$(call build_vmreplay,$(CC),$(CFLAGS) -Wall -Wextra,$@)

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

# ---------------------------------------------------------------- test binaries

# $(call flavour,directory,compiler variable,flags): objects, the suite and the step binary of the plain runner, and vmreplay
define flavour
$(1)/suite/%.o: tests/%.c $$(DEPENDS)
	@mkdir -p $$(@D)
	$$($(2)) $$(TEST_FLAGS) $(3) -c $$< -o $$@
$(1)/steps/%.o: tests/%.c $$(DEPENDS)
	@mkdir -p $$(@D)
	$$($(2)) $$(STEP_FLAGS) $(3) -c $$< -o $$@
$(1)/test-plain: $$(patsubst %,$(1)/suite/%.o,run $$(COMMON) $$(SUITE))
	$$($(2)) -pthread $(3) $$^ -o $$@
$(1)/test-steps: $$(patsubst %,$(1)/steps/%.o,run $$(COMMON) $$(STEPS))
	$$($(2)) -pthread $(3) $$^ -o $$@
endef

$(eval $(call flavour,build,CC,$$(CFLAGS)))
SAN_CFLAGS := -O1 -g -fno-omit-frame-pointer
$(eval $(call flavour,build/asan,CLANG,$(SAN_CFLAGS) -fsanitize=address))
$(eval $(call flavour,build/ubsan,CLANG,$(SAN_CFLAGS) -fsanitize=undefined -fno-sanitize-recover=all))
$(eval $(call flavour,build/tsan,CLANG,$(SAN_CFLAGS) -fsanitize=thread))

build/%/vmreplay: examples/vmreplay.c $(DEPENDS)
	$(call build_vmreplay,$(CLANG),$(SAN_CFLAGS) $(SAN_FLAG_$*),$@)
SAN_FLAG_asan := -fsanitize=address
SAN_FLAG_ubsan := -fsanitize=undefined -fno-sanitize-recover=all
SAN_FLAG_tsan := -fsanitize=thread

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

# ---------------------------------------------------------------- tests

test: need-criterion build/vmreplay ## all tests (Criterion, and the step tests); installs what is missing
	@$(MAKE) --no-print-directory build/test-criterion build/test-steps
	@tests/sum.sh build/test-criterion build/test-steps

check-plain: build/vmreplay build/test-plain build/test-steps ## all tests in one process each; FILTER=word picks some
	@if [ -n "$(FILTER)" ]; then build/test-plain $(FILTER); else tests/sum.sh build/test-plain build/test-steps; fi

# $(call sanitized,name,environment): suite, step tests and vmreplay on all traces in all modes
define sanitized
	@$(2) VMREPLAY=build/$(1)/vmreplay tests/sum.sh build/$(1)/test-plain build/$(1)/test-steps
	@for trace in $(TRACES_HERE); do for mode in $(MODES); do \
	    echo "build/$(1)/vmreplay $$mode $$trace"; $(2) build/$(1)/vmreplay $$mode $$trace >/dev/null; done; done
	@echo "check-$(1): no report"
endef
SCALED = SCALE=$${SCALE:-$(1)} SLOW=$${SLOW:-4}

check-asan: need-clang build/asan/test-plain build/asan/test-steps build/asan/vmreplay ## all tests under AddressSanitizer
	$(call sanitized,asan,$(call SCALED,$(SAN_SCALE)) ASAN_OPTIONS=detect_leaks=1:halt_on_error=1:detect_stack_use_after_return=1)

check-ubsan: need-clang build/ubsan/test-plain build/ubsan/test-steps build/ubsan/vmreplay ## all tests under UBSan
	$(call sanitized,ubsan,$(call SCALED,$(SAN_SCALE)) UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1)

check-tsan: need-clang build/tsan/test-plain build/tsan/test-steps build/tsan/vmreplay ## all tests under ThreadSanitizer
	$(call sanitized,tsan,$(call SCALED,$(TSAN_SCALE)) TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1)

# ---------------------------------------------------------------- checks of the source

WARN := -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wundef -Werror
CONFIGURATIONS := "" -DIVSKIP_IMPLEMENTATION -DIVSKIP_STATIC "-DIVSKIP_IMPLEMENTATION -DIVSKIP_DEBUG=1" \
    "-DIVSKIP_IMPLEMENTATION -DIVSKIP_MAX_HEIGHT=2 -DIVSKIP_SPIN=0"

check-warn: need-clang ## the header without a warning: gcc and clang, C11, C17, C++17
	@tests/need.sh g++ g++
	@mkdir -p build; n=0; for header in $(HEADERS); do \
	printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' $$header $$header > build/warn.c; cp build/warn.c build/warn.cc; \
	for flags in $(CONFIGURATIONS); do \
	    for compiler in gcc $(CLANG); do for standard in c11 c17; do \
	        $$compiler -std=$$standard $(WARN) $$flags -I. -pthread -O2 -c build/warn.c -o build/warn.o; n=$$((n + 1)); done; done; \
	    for compiler in g++ "$(CLANG) -x c++"; do \
	        $$compiler -std=c++17 $(WARN) $$flags -I. -pthread -O2 -c build/warn.cc -o build/warn.o; n=$$((n + 1)); done; \
	done; done; echo "check-warn: $$n compilations without a warning"

check-size: ## no function is longer than 70 lines
	@awk -v max=70 -f tests/function_size.awk $(HEADERS) $(wildcard examples/*.[ch] tests/*.[ch] bench/*.[ch] fuzz/*.[ch] tests/lab/*.[ch])

check-readme: ## compiles and runs the C example of README.md
	@if [ ! -e README.md ]; then echo "check-readme: there is no README.md yet"; exit 0; fi; \
	mkdir -p build; \
	awk '/^```c *$$/{inside = 1; text = ""; next} /^```/{if (inside && text ~ /int main\(/ && !done) {printf "%s", text; done = 1} inside = 0} inside{text = text $$0 "\n"}' README.md > build/readme.c; \
	[ -s build/readme.c ] || { echo "check-readme: README.md has no C example with a main" >&2; exit 1; }; \
	$(CC) -std=c11 -Wall -Wextra -Werror -I. -pthread build/readme.c -o build/readme; build/readme; \
	echo "check-readme: the example compiles and runs"

check-traces: build/vmreplay ## TRACES=dir: replays every .vmtrace.gz of a directory in the three modes
	@[ -n "$(TRACES)" ] || { echo "check-traces: say TRACES=directory" >&2; exit 1; }
	@found=0; for trace in $(TRACES)/*.gz; do [ -e "$$trace" ] || continue; for mode in $(MODES); do \
	    echo "build/vmreplay $$mode $$trace"; build/vmreplay $$mode "$$trace"; found=$$((found + 1)); done; done; \
	[ $$found -gt 0 ] || { echo "check-traces: no .gz in $(TRACES)" >&2; exit 1; }; echo "check-traces: $$found replays matched"

# ---------------------------------------------------------------- the rest

install: ## headers and ivskip.pc under PREFIX (default /usr/local), DESTDIR in front
	install -d "$(DESTDIR)$(PREFIX)/include" "$(DESTDIR)$(PREFIX)/share/pkgconfig"
	install -m 644 $(HEADERS) "$(DESTDIR)$(PREFIX)/include"
	printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' '' 'Name: ivskip' \
	    'Description: Concurrent interval map in a single header' 'Version: $(VERSION)' 'Cflags: -I$${includedir} -pthread' \
	    'Libs: -pthread' > "$(DESTDIR)$(PREFIX)/share/pkgconfig/ivskip.pc"

format: ## clang-format over everything but the headers' doc blocks
	@tests/need.sh clang-format clang-format
	clang-format -i $(wildcard tests/*.[ch] examples/*.[ch])

clean: ## removes build/
	rm -rf build
