// A loop of 100,000 × 5 instructions, then a function that ends the program: -DEND=1 a store to address 0, 2 an undefined
// instruction, 3 kill(getpid(), SIGABRT), 4 one byte to the standard output and an endless wait, 5 an endless loop.
// It needs no library, so that the number of instructions is known: those before the loop are counted at the end of each part.

    .bss
    .balign 8
buffer:
    .space 8

    .text
    .globl _start

#if defined(__aarch64__)
_start:
    adrp x1, buffer
    add x1, x1, :lo12:buffer
    movz w0, #0x86a0
    movk w0, #1, lsl #16
loop:
    ldr x2, [x1]
    add x2, x2, #1
    str x2, [x1]
    subs w0, w0, #1
    b.ne loop
    bl crash
crash:
    ldr x2, [x1]
    mov x3, #0
    add x2, x2, #1
#if END == 1
    str x2, [x3]
#elif END == 2
    .inst 0
#elif END == 3
    mov x8, #172
    svc #0
    mov x1, #6
    mov x8, #129
    svc #0
#elif END == 4
    mov x0, #1
    mov x2, #1
    mov x8, #64
    svc #0
    mov x0, #0
    mov x1, #0
    mov x2, #0
    mov x8, #73
    svc #0
#else
    b crash
#endif
    add x2, x2, #1
    add x2, x2, #1

#elif defined(__arm__)
    .arm
_start:
    ldr r1, =buffer
    movw r0, #0x86a0
    movt r0, #1
    nop
loop:
    ldr r2, [r1]
    add r2, r2, #1
    str r2, [r1]
    subs r0, r0, #1
    bne loop
    bl crash
crash:
    ldr r2, [r1]
    mov r3, #0
    add r2, r2, #1
#if END == 1
    str r2, [r3]
#elif END == 2
    udf #0
#elif END == 3
    mov r7, #20
    svc #0
    mov r1, #6
    mov r7, #37
    svc #0
#elif END == 4
    mov r0, #1
    mov r2, #1
    mov r7, #4
    svc #0
    mov r0, #0
    mov r1, #0
    mov r2, #0
    mov r7, #29
    svc #0
#else
    b crash
#endif
    add r2, r2, #1
    add r2, r2, #1
    .ltorg

#elif defined(__riscv)
    .option norelax
    .option norvc
_start:
    auipc a1, %pcrel_hi(buffer)
    addi a1, a1, %pcrel_lo(_start)
    lui a0, 24
    addiw a0, a0, 1696
loop:
    ld a2, (a1)
    addi a2, a2, 1
    sd a2, (a1)
    addi a0, a0, -1
    bnez a0, loop
    jal ra, crash
crash:
    ld a2, (a1)
    li a3, 0
    addi a2, a2, 1
#if END == 1
    sd a2, (a3)
#elif END == 2
    unimp
#elif END == 3
    li a7, 172
    ecall
    li a1, 6
    li a7, 129
    ecall
#elif END == 4
    li a0, 1
    li a2, 1
    li a7, 64
    ecall
    li a0, 0
    li a1, 0
    li a2, 0
    li a7, 73
    ecall
#else
    j crash
#endif
    addi a2, a2, 1
    addi a2, a2, 1
#endif
