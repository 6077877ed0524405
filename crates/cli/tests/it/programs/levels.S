// A bare-metal system (QEMU: -M virt,secure=on,virtualization=on): goes from EL3 down to EL0, and from
// there to the levels above by calls, aborts, breakpoints, undefined instructions and interrupts of a timer. Ends by a
// call of the host (semihosting).
    .arch armv8-a
    .global _start

    .macro vector target
    .balign 0x80
    b \target
    .endm

    // Sixteen entries: synchronous, IRQ, FIQ, SError; from SP_EL0, from SP_ELx, from A64 below, from A32 below.
    .macro vectors name, handler, interrupt
    .balign 0x800
\name:
    .rept 4
    vector \handler
    vector \interrupt
    vector unexpected
    vector unexpected
    .endr
    .endm

    .text
_start:
    ldr x0, =stack3
    mov sp, x0
    ldr x0, =vectors3
    msr vbar_el3, x0
    ldr x0, =vectors2
    msr vbar_el2, x0
    ldr x0, =vectors1
    msr vbar_el1, x0
    // Non-secure, HVC and SMC allowed, EL2 in AArch64.
    mov x0, #0x501
    msr scr_el3, x0
    mov x0, #(1 << 31)
    msr hcr_el2, x0
    msr cptr_el3, xzr
    msr cnthctl_el2, xzr
    bl interrupt_controller
    isb
    mov x1, #0x3c9                  // EL2h
    adr x2, at_el2
    msr sp_el0, xzr
    msr elr_el3, x2
    msr spsr_el3, x1
    eret

at_el2:
    ldr x0, =stack2
    mov sp, x0
    mov x0, #3
    msr cnthctl_el2, x0
    smc #7
    mov x1, #0x3c5                  // EL1h
    adr x2, at_el1
    msr elr_el2, x2
    msr spsr_el2, x1
    eret

at_el1:
    ldr x0, =stack1
    mov sp, x0
    ldr x0, =stack0
    msr sp_el0, x0
    hvc #3
    smc #4
    brk #9
    .word 0                         // UDF
    // A load from an unmapped address: the handler continues after it.
    mov x0, #0x5000000000
    mov x2, #1
    add x2, x2, #1
    ldr x1, [x0]
    add x2, x2, #1
    // With the stack pointer of EL0, and an exception from there.
    msr spsel, #0
    svc #2
    str x2, [sp, #-16]!
    ldr x2, [sp], #16
    msr spsel, #1
    // A timer that fires soon, awaited by WFI.
    bl timer
    wfi
    msr daifclr, #2
    nop
    msr daifset, #2
    // A timer that fires in a loop.
    adr x3, count
    str xzr, [x3]
    bl timer
    msr daifclr, #2
1:  ldr x4, [x3]
    cbz x4, 1b
    msr daifset, #2
    mov x1, #0                      // EL0
    adr x2, at_el0
    msr elr_el1, x2
    msr spsr_el1, x1
    mov x5, #1
    eret

at_el0:
    mov x0, #10
    mov x8, #0
2:  svc #1
    sub x0, x0, #1
    cbnz x0, 2b
    brk #1
    .word 0
    mov x0, #0x5000000000
    str x1, [x0]
    stp x0, x1, [sp, #-16]!
    ldp x0, x1, [sp], #16
    // Interrupts at EL0: the handler counts.
    mov x3, x6
    svc #5                          // starts the timer
3:  ldr x4, [x3]
    cbz x4, 3b
    svc #6                          // ends
    b .

// The generic interrupt controller of the machine, with the timer of EL1 (PPI 30).
interrupt_controller:
    mov x0, #0x08000000
    mov w1, #3
    str w1, [x0]
    mov w1, #(1 << 30)
    str w1, [x0, #0x80]             // group 1
    str w1, [x0, #0x100]            // enable
    ldp w2, w3, [x0]                // two registers of a device at once
    add x0, x0, #0x10000
    mov w1, #0xff
    str w1, [x0, #4]
    mov w1, #3
    str w1, [x0]
    ret

timer:
    mov x0, #2000
    msr cntp_tval_el0, x0
    mov x0, #1
    msr cntp_ctl_el0, x0
    isb
    ret

// An interrupt: the timer is stopped, and counted.
interrupted:
    stp x0, x1, [sp, #-16]!
    mov x0, #0x08010000
    ldr w1, [x0, #0xc]
    msr cntp_ctl_el0, xzr
    isb
    str w1, [x0, #0x10]
    adr x0, count
    ldr x1, [x0]
    add x1, x1, #1
    str x1, [x0]
    ldp x0, x1, [sp], #16
    eret

// Calls return to the next instruction; every other exception skips its instruction.
called1:
    stp x0, x1, [sp, #-16]!
    mrs x0, esr_el1
    lsr x1, x0, #26
    cmp x1, #0x15
    b.ne 4f
    and x1, x0, #0xffff
    cmp x1, #6
    b.eq finish
    cmp x1, #5
    b.ne 5f
    adr x6, count
    adr x3, count
    str xzr, [x3]
    stp x29, x30, [sp, #-16]!
    bl timer
    ldp x29, x30, [sp], #16
5:  ldp x0, x1, [sp], #16
    eret
4:  mrs x0, elr_el1
    add x0, x0, #4
    msr elr_el1, x0
    ldp x0, x1, [sp], #16
    eret

called2:
    eret

called3:
    stp x0, x1, [sp, #-16]!
    ldp x0, x1, [sp], #16
    eret

unexpected:
finish:
    mov x0, #0x18
    ldr x1, =exit
    hlt #0xf000
    b .

    .balign 16
exit:
    .quad 0x20026, 0
count:
    .quad 0

    vectors vectors1, called1, interrupted
    vectors vectors2, called2, unexpected
    vectors vectors3, called3, unexpected

    .bss
    .balign 16
    .skip 1024
stack0:
    .skip 1024
stack1:
    .skip 1024
stack2:
    .skip 1024
stack3:
