# SPDX-License-Identifier: MIT
# The lab. Included by the Makefile.
LAB_CC := $(CLANG) -std=gnu11 -g -Wall -Wextra -Werror -I. -Itests/lab
LAB_TRACED := -O1 -fsanitize-coverage=edge,trace-loads,trace-stores
LAB_DEPENDS := $(HEADERS) $(wildcard tests/lab/*.[ch]) Makefile tests/lab/lab.mk
LAB_OBJECTS := $(addprefix build/lab/,lab.o hooks.o litmus.o programs.o space.o space_model.o run.o main.o)

.PHONY: check-lab check-lab-long check-mutants lab-port fuzz-lab coherence

build/lab/subject.o: tests/lab/subject.c $(LAB_DEPENDS) | need-clang
	@mkdir -p $(@D)
	$(LAB_CC) $(LAB_TRACED) -c $< -o $@
build/lab/%.o: tests/lab/%.c $(LAB_DEPENDS) | need-clang
	@mkdir -p $(@D)
	$(LAB_CC) -O2 -c $< -o $@
build/lab/lab: build/lab/subject.o $(LAB_OBJECTS)
	$(CLANG) -pthread $^ -o $@

# The same with IVSKIP_RCU=HOST on the lab's own port.
build/lab/host/subject.o: tests/lab/subject.c $(LAB_DEPENDS) | need-clang
	@mkdir -p $(@D)
	$(LAB_CC) $(LAB_TRACED) -DLAB_HOST -c $< -o $@
build/lab/host/%.o: tests/lab/%.c $(LAB_DEPENDS) | need-clang
	@mkdir -p $(@D)
	$(LAB_CC) -O2 -DLAB_HOST -c $< -o $@
build/lab/host/lab: build/lab/host/subject.o $(subst build/lab/,build/lab/host/,$(LAB_OBJECTS))
	$(CLANG) -pthread $^ -o $@

# The same on a port of the user's: how, tells lab_port.h.
lab-port: build/lab/lab ## the lab's programs on your port's hooks: LAB_PORT=path/port.h (see tests/lab/lab_port.h), LAB_FLAGS=--long
	@mkdir -p build/lab/port
	@test -n "$(LAB_PORT)" || { echo "lab-port: name the port, LAB_PORT=path/port.h" >&2; exit 2; }
	@set -e; for source in tests/lab/subject.c $(LAB_PORT_SOURCES); do \
	    $(LAB_CC) $(LAB_TRACED) -DLAB_HOST -DLAB_PORT='"$(abspath $(LAB_PORT))"' -c $$source \
	        -o build/lab/port/$$(basename $$source .c).o; done
	@set -e; for room in programs space; do \
	    $(LAB_CC) -O2 -DLAB_HOST -DLAB_PORT='"$(abspath $(LAB_PORT))"' -c tests/lab/$$room.c -o build/lab/port/$$room.o; done
	@$(CLANG) -pthread build/lab/port/{programs,space}.o $(patsubst %,build/lab/port/%.o,subject $(basename $(notdir $(LAB_PORT_SOURCES)))) \
	    $(addprefix build/lab/,lab.o hooks.o litmus.o space_model.o run.o main.o) -o build/lab/port/lab
	@build/lab/port/lab --quiet --no-litmus $(LAB_FLAGS)

LAB_RUNS := "build/lab/lab --short --quiet" "build/lab/host/lab --short --quiet --no-litmus"

check-lab: build/lab/lab build/lab/host/lab ## the lab, about ten minutes: litmus shapes, programs on the map explored to their bound
	tests/sum.sh "build/lab/lab --long" "build/lab/host/lab --long --no-litmus"

check-lab-long: build/lab/lab ## the lab with new random schedules until it is stopped or finds something
	build/lab/lab --endless --quiet

check-mutants: build/lab/lab build/lab/host/lab ## every planted fault of tests/lab/mutants is seen by the lab; MUTANTS="name ..." for some
	@tests/need.sh patch patch
	tests/lab/mutants.sh build/lab $(MUTANTS)
	@$(if $(MUTANTS),,tests/lab/ports.sh)

# The machine with coverage, so that the fuzzer sees which programs and steps it reached.
build/lab/fuzz: $(LAB_DEPENDS) build/lab/subject.o | need-clang
	$(LAB_CC) -O2 -fsanitize=fuzzer -pthread tests/lab/{fuzz,lab,hooks,programs,space,space_model,run}.c build/lab/subject.o -o $@

fuzz-lab: build/lab/fuzz ## schedules of the lab's programs from fuzz bytes, SECONDS=60
	@mkdir -p build/lab/corpus
	build/lab/fuzz -max_total_time=$(or $(SECONDS),60) -max_len=600 -print_final_stats=1 build/lab/corpus 2>&1 | tail -n 12

build/lab/subject-account.o: tests/lab/subject.c $(LAB_DEPENDS) | need-clang
	@mkdir -p $(@D)
	$(LAB_CC) $(LAB_TRACED) -DIVSKIP_RETIRE_BATCH=128 -c $< -o $@
build/lab/coherence: build/lab/subject-account.o build/lab/hooks.o build/lab/coherence.o
	$(CLANG) -pthread $^ -o $@

coherence: build/lab/coherence ## lines that travel between 1 to 384 virtual cores: build/coherence.{md,csv,png,svg}; fails where a target is missed
	@tests/need.sh gnuplot gnuplot-nox
	@status=0; build/lab/coherence --csv build/coherence.csv > build/coherence.md || status=$$?; cat build/coherence.md; \
	gnuplot -e "csv='build/coherence.csv'; out='build/coherence'" tests/lab/coherence.gp; exit $$status
