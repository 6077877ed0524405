// One CPU at EL1 (QEMU: -M virt) that counts forever.
    .global _start
    .text
_start:
    adr x1, count
1:  ldr x0, [x1]
    add x0, x0, #1
    str x0, [x1]
    b 1b
    .balign 8
count:
    .quad 0
