// One CPU at EL1 (QEMU: -M virt) whose vectors are outside memory: its first exception is followed by endless others.
    .global _start
    .text
_start:
    mov x0, #1
    lsl x0, x0, #40
    msr vbar_el1, x0
    isb
    svc #0
