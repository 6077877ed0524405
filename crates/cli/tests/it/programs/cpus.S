// Two CPUs at EL1 (QEMU: -M virt -smp 2). The first starts the second by a call of firmware (PSCI); then both count in
// memory that they share, with exclusive loads and stores, and call themselves (SVC). The second to finish ends the
// system; the first waits forever.
    .arch armv8-a
    .global _start
    .text
_start:
    ldr x0, =vectors
    msr vbar_el1, x0
    ldr x0, =0xc4000003             // CPU_ON
    mov x1, #1
    adr x2, second
    mov x3, #0
    hvc #0
    b both
second:
    ldr x0, =vectors
    msr vbar_el1, x0
both:
    mov x10, #1000
    adr x1, count
1:  ldxr x2, [x1]
    add x2, x2, #1
    stxr w3, x2, [x1]
    cbnz w3, 1b
    svc #0
    sub x10, x10, #1
    cbnz x10, 1b
    adr x1, finished
2:  ldxr x2, [x1]
    add x2, x2, #1
    stxr w3, x2, [x1]
    cbnz w3, 2b
    cmp x2, #2
    b.eq 3f
    wfi
    b .
3:  ldr x0, =0x84000008             // SYSTEM_OFF
    hvc #0
    b .

    .balign 0x800
vectors:
    .rept 16
    .balign 0x80
    eret
    .endr
    .balign 8
count:
    .quad 0
finished:
    .quad 0
