# SPDX-License-Identifier: MIT
# From the loader (PVH: 32-bit protected mode, flat, no stack) and from the start-up interrupt (real mode) into C.

#define STACK_SHIFT 15 /* 32 KiB for each processor, as kernel.h says */
#define TRAMPOLINE 0x8000

.section .note.pvh, "a", @note
    .long 4, 4, 18 /* XEN_ELFNOTE_PHYS32_ENTRY */
    .asciz "Xen"
    .long boot32

.section .text.boot, "ax"
.code32
.globl boot32
boot32:
    cli
    movl $stacks + (1 << STACK_SHIFT), %esp
    # page tables: 4 GiB one to one, in pages of 2 MiB
    movl $directory_pointers + 3, pages
    movl $directories + 3, %eax
    movl $directory_pointers, %edi
    movl $4, %ecx
1:  movl %eax, (%edi)
    addl $4096, %eax
    addl $8, %edi
    loop 1b
    movl $directories, %edi
    movl $0x83, %eax
    movl $2048, %ecx
2:  movl %eax, (%edi)
    movl $0, 4(%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 2b
    call long_mode
    lgdt gdt_pointer
    ljmp $8, $boot64

long_mode:
    movl %cr4, %eax
    orl $0x20, %eax /* PAE */
    movl %eax, %cr4
    movl $pages, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x100, %eax /* LME */
    wrmsr
    movl %cr0, %eax
    orl $0x80010001, %eax /* paging, write protection, protected mode */
    movl %eax, %cr0
    ret

.code64
.macro load_segments
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
.endm

boot64:
    load_segments
    movq $stacks + (1 << STACK_SHIFT), %rsp
    call kernel_main
1:  hlt
    jmp 1b

other64: # takes the next number, and the stack of that number
    load_segments
    movl $1, %edi
    lock xaddl %edi, next_cpu
    cmpl $8, %edi
    jae 1f
    leal 1(%edi), %eax
    shll $STACK_SHIFT, %eax
    leaq stacks(%rax), %rsp
    movl $0, start_lock # only now, for the old stack was the trampoline's
    call cpu_main
1:  cli
    hlt
    jmp 1b

# Copied to TRAMPOLINE, where the others start.
.code16
.globl trampoline, trampoline_end
trampoline:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl (trampoline_gdt - trampoline + TRAMPOLINE)
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $24, $(trampoline32 - trampoline + TRAMPOLINE)
.code32
trampoline32:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
1:  movl $1, %eax # one at a time: they share this stack
    xchgl %eax, start_lock
    testl %eax, %eax
    jnz 1b
    movl $TRAMPOLINE - 16, %esp
    movl $long_mode, %ebx
    call *%ebx
    ljmp $8, $other64
.balign 8
trampoline_gdt:
    .word 31
    .long gdt
trampoline_end:

.text
.code64
# One entry of 16 bytes for each exception; those with an error code are 8, 10 to 14, 17, 21, 29 and 30.
.set ERROR_CODES, 0x60227d00
.balign 16
.globl exception_entries
exception_entries:
.set vector, 0
.rept 32
    .balign 16
    .if (ERROR_CODES >> vector) & 1
    movq 8(%rsp), %rsi
    .else
    movq (%rsp), %rsi
    .endif
    movl $vector, %edi
    jmp exception_common
    .set vector, vector + 1
.endr
exception_common:
    andq $-16, %rsp
    call exception

.globl tick_entry, spurious_entry
tick_entry:
    .irp reg, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11
    pushq %\reg
    .endr
    cld
    call tick
    .irp reg, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
    popq %\reg
    .endr
spurious_entry:
    iretq

.data
.balign 8
gdt:
    .quad 0
    .quad 0x00209a0000000000 # 8: 64-bit code
    .quad 0x00cf92000000ffff # 16: data
    .quad 0x00cf9a000000ffff # 24: 32-bit code
gdt_pointer:
    .word 31
    .long gdt
    .long 0
next_cpu:
    .long 1
start_lock:
    .long 0

.bss
.balign 4096
pages:
    .skip 4096
directory_pointers:
    .skip 4096
directories:
    .skip 4096 * 4
stacks:
    .skip 8 << STACK_SHIFT
