// One CPU at EL1 (QEMU: -M virt). Instructions whose address is only in registers, with known values; known data; a return
// with an SPSR written by hand; and code at two virtual addresses of the same memory: 0x40000000 and 0x80000000.
    .arch armv8-a
    .global _start
    .text
_start:
    ldr x0, =vectors
    msr vbar_el1, x0
    ldr x0, =table
    ldr x1, =0x40000701             // 1 GB of normal memory
    str x1, [x0, #8]
    str x1, [x0, #16]
    mov x1, #0xff
    msr mair_el1, x1
    ldr x1, =0x803519               // 39 bits, lower addresses only
    msr tcr_el1, x1
    msr ttbr0_el1, x0
    isb
    mov x1, #0x300000               // floating point
    msr cpacr_el1, x1
    mrs x1, sctlr_el1
    mov x2, #0x1005
    orr x1, x1, x2
    msr sctlr_el1, x1
    isb

    ldr x1, =0x40200000
    mov x2, #0x10
    prfm pldl1keep, [x1, #8]
    prfm pldl1keep, [x1, x2, lsl #3]
    prfum pldl1keep, [x1, #-3]
    mov sp, x1
    prfm pldl1keep, [sp, #16]
    add x1, x1, #0x1000
    dc civac, x1
    ic ivau, x1
    at s1e1r, x1
    ldr x3, =0x40202
    tlbi vae1, x3
    tlbi vmalle1
    mrs x4, dczid_el0
    nop
    ldr x5, =0x40203044
    dc zva, x5

    ldr x1, =0x40204000
    ldr x6, =0x1122334455667788
    str x6, [x1]
    ldr w7, [x1, #4]
    ldrsb x7, [x1, #1]
    strb w6, [x1, #8]
    ldr x7, [x1, #8]
    stp x6, x6, [x1]
    ldr q0, [x1]

    mov x10, #0x3c5
    msr spsr_el1, x10
    adr x10, 1f
    msr elr_el1, x10
    eret
1:
    adr x8, twice
    blr x8
    mov x10, #0x40000000
    add x8, x8, x10
    blr x8
    ldr x0, =0x84000008             // SYSTEM_OFF
    hvc #0
    b .

twice:
    mov x9, #3
2:  svc #1
    ldr x7, [x1]
    sub x9, x9, #1
    cbnz x9, 2b
    ret

    .balign 0x800
vectors:
    .rept 16
    .balign 0x80
    eret
    .endr
    .balign 0x1000
table:
    .fill 512, 8, 0
