/* Inlined calls, a header and a function that is never called: what source lines have to deal with. */
#include "shapes.h"

static int counts[4];

__attribute__((noinline)) int never(int value)
{
    return value * 3;
}

static inline __attribute__((always_inline)) int twice(int value)
{
    int square = area(value, value);
    return square + square;
}

__attribute__((noinline)) int sum(int limit)
{
    int total = 0;
    for (int side = 0; side < limit; side++) {
        if (side & 1)
            total += twice(side);
        else
            total += area(side, 2);
    }
    return total;
}

__attribute__((noinline)) void count(int value)
{
    counts[value & 3]++;
}

__attribute__((noreturn)) static void leave(int code)
{
#ifdef __aarch64__
    register long x0 __asm__("x0") = code;
    register long x8 __asm__("x8") = 93;
    __asm__ volatile("svc #0" : : "r"(x0), "r"(x8));
#else
    register long r0 __asm__("r0") = code;
    register long r7 __asm__("r7") = 1;
    __asm__ volatile("svc #0" : : "r"(r0), "r"(r7));
#endif
    __builtin_unreachable();
}

void _start(void)
{
    int total = sum(5);
    for (int i = 0; i < 3; i++)
        count(total + i);
    if (total == 12345)
        total = never(total);
    leave(total & 127);
}
