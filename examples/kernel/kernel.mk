# SPDX-License-Identifier: MIT
# Part of the Makefile: the freestanding kernel, and the conformance self-test everywhere else.

# A compiler for x86-64: the host's own, or clang.
ifeq ($(shell uname -m),x86_64)
KERNEL_CC ?= $(CC)
else
KERNEL_CC ?= $(CLANG) --target=x86_64-unknown-none-elf -fuse-ld=lld
endif
KERNEL_FLAGS := -std=gnu11 -O2 -g -ffreestanding -fno-stack-protector -fno-pic -fno-asynchronous-unwind-tables \
    -mno-red-zone -mgeneral-regs-only -fcf-protection=none -I. -Itests -DIVSKIP_CONFIG='"ivskip_port.h"' \
    -Wall -Wextra -Werror
KERNEL_LINK := -nostdlib -static -Wl,--build-id=none,-z,noexecstack
KERNEL_SOURCES := boot.S cpu.c ivskip.c main.c memory.c port.c serial.c
KERNEL_SECONDS ?= 60
KERNEL_CPUS ?= 4
KERNEL_FAULTS := $(patsubst tests/kernel_faults/%.patch,%,$(wildcard tests/kernel_faults/*.patch))
FAULT_SECONDS ?= 15

# All that the map may ask of a kernel: two functions that compilers call by themselves, and the hooks.
KERNEL_MAY_NEED := memcpy|memset|clock_now|panic|port_[a-z_]+

.PHONY: demo-kernel check-demo-kernel-faults check-conform need-kernel need-patch need-conform FORCE

# $(call build_kernel,directory of sources,output)
define build_kernel
	@mkdir -p $(dir $(2))
	$(KERNEL_CC) $(KERNEL_FLAGS) -I$(1) $(KERNEL_LINK) -Wl,-T,$(1)/kernel.ld $(addprefix $(1)/,$(KERNEL_SOURCES)) \
	    tests/conform.c -o $(2)
endef

need-kernel:
	@tests/need.sh qemu-system-x86_64 qemu-system-x86
need-patch:
	@tests/need.sh patch patch

demo-kernel: need-kernel ## boots a freestanding kernel on 4 processors (qemu), which tests its port of the map
	$(call build_kernel,examples/kernel,build/kernel/ivskip.elf)
	$(KERNEL_CC) $(KERNEL_FLAGS) -Iexamples/kernel -c examples/kernel/ivskip.c -o build/kernel/ivskip.o
	@extra=$$(nm -u build/kernel/ivskip.o | awk '{print $$2}' | grep -vxE '$(KERNEL_MAY_NEED)' || true); \
	[ -z "$$extra" ] || { echo "demo-kernel: the map needs more than the hooks:" $$extra >&2; exit 1; }
	examples/kernel/run.sh build/kernel/ivskip.elf $(KERNEL_SECONDS) $(KERNEL_CPUS)

FOUND := $(addprefix build/kernel-faults/,$(addsuffix /found,$(KERNEL_FAULTS)))
check-demo-kernel-faults: demo-kernel need-patch $(FOUND) ## demo-kernel fails for each fault planted in the kernel's hooks
	@echo "check-demo-kernel-faults: all $(words $(KERNEL_FAULTS)) planted faults were found"

build/kernel-faults/%/found: tests/kernel_faults/%.patch need-patch need-kernel FORCE
	@rm -rf $(@D); mkdir -p $(@D)/examples; cp -r examples/kernel $(@D)/examples/
	@patch --quiet --strip=1 --fuzz=0 --directory=$(@D) < $<
	@$(KERNEL_CC) $(KERNEL_FLAGS) -w -I$(@D)/examples/kernel $(KERNEL_LINK) -Wl,-T,$(@D)/examples/kernel/kernel.ld \
	    $(addprefix $(@D)/examples/kernel/,$(KERNEL_SOURCES)) tests/conform.c -o $(@D)/ivskip.elf
	@begin=$$SECONDS; if examples/kernel/run.sh $(@D)/ivskip.elf $(FAULT_SECONDS) $(KERNEL_CPUS) > $(@D)/out; then \
	    echo "NOT FOUND $*" >&2; exit 1; fi; \
	grep -q '^ivskip kernel: ' $(@D)/out || { echo "$*: the kernel did not boot" >&2; exit 1; }; \
	echo "found $*, $$((SECONDS - begin)) s: $$(grep -aE 'FAIL|PANIC|not done' $(@D)/out | head -n 1 | tr -d '\r')"

# ---------------------------------------------------------------- userspace

CONFORM_FLAGS := -std=gnu11 -I. -Itests -pthread -O2 -g -Wall -Wextra -Werror
CONFORM_SOURCES := tests/conform.c tests/conform/main.c
CONFORM_HOST := -DIVSKIP_CONFIG='"tests/conform/host_port.h"' tests/conform/host_port.c
CONFORM_ARCHS := aarch64 riscv64

need-conform:
	@tests/need.sh urcu/urcu-memb.h liburcu-dev
	@tests/need.sh qemu-aarch64-static qemu-user-static
	@tests/need.sh aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
	@tests/need.sh riscv64-linux-gnu-gcc gcc-riscv64-linux-gnu libc6-dev-riscv64-cross

# $(call conform,name,compiler,flags,runner)
define conform
	@mkdir -p build/conform
	@$(2) $(CONFORM_FLAGS) $(CONFORM_SOURCES) $(3) -o build/conform/$(1)
	@timeout 120 $(4) build/conform/$(1) > build/conform/$(1).log || \
	    { cat build/conform/$(1).log; echo "check-conform: $(1) failed"; exit 1; }
	@printf '%-16s %s\n' '$(1)' "$$(tail -n 1 build/conform/$(1).log)"

endef

check-conform: need-conform ## the self-test with every RCU, and by qemu-user on aarch64 and riscv64
	$(call conform,builtin,$(CC),,)
	$(call conform,host,$(CC),$(CONFORM_HOST),)
	$(call conform,urcu-memb,$(CC),-DIVSKIP_RCU=URCU_MEMB -lurcu-memb -lurcu-common,)
	$(call conform,urcu-qsbr,$(CC),-DIVSKIP_RCU=URCU_QSBR -lurcu-qsbr -lurcu-common,)
	$(call conform,urcu-bp,$(CC),-DIVSKIP_RCU=URCU_BP -lurcu-bp -lurcu-common,)
	$(foreach arch,$(CONFORM_ARCHS),$(call conform,$(arch)-builtin,$(arch)-linux-gnu-gcc,-static,qemu-$(arch)-static))
	$(foreach arch,$(CONFORM_ARCHS),$(call conform,$(arch)-host,$(arch)-linux-gnu-gcc,$(CONFORM_HOST) -static,\
	    qemu-$(arch)-static))
