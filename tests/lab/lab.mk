# SPDX-License-Identifier: MIT
# The lab. Included by the Makefile.
LAB_CC := $(CLANG) -std=gnu11 -g -Wall -Wextra -Werror -I. -Itests/lab
LAB_TRACED := -O1 -fsanitize-coverage=edge,trace-loads,trace-stores
LAB_DEPENDS := $(HEADERS) $(wildcard tests/lab/*.[ch]) Makefile tests/lab/lab.mk
LAB_OBJECTS := $(addprefix build/lab/,lab.o hooks.o litmus.o programs.o main.o)

.PHONY: check-lab check-lab-long check-mutants coherence

build/lab/subject.o: tests/lab/subject.c $(LAB_DEPENDS) | need-clang
	@mkdir -p $(@D)
	$(LAB_CC) $(LAB_TRACED) -c $< -o $@
build/lab/%.o: tests/lab/%.c $(LAB_DEPENDS) | need-clang
	@mkdir -p $(@D)
	$(LAB_CC) -O2 -c $< -o $@
build/lab/lab: build/lab/subject.o $(LAB_OBJECTS)
	$(CLANG) -pthread $^ -o $@

check-lab: build/lab/lab ## the lab, about ten minutes: litmus shapes, programs on the map explored to their bound
	build/lab/lab --long

check-lab-long: build/lab/lab ## the lab with new random schedules until it is stopped or finds something
	build/lab/lab --endless --quiet

check-mutants: build/lab/lab ## every planted fault of tests/lab/mutants is seen by the lab; MUTANTS="name ..." for some
	tests/lab/mutants.sh build/lab $(MUTANTS)
