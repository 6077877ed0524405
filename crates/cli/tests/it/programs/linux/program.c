/* A program whose code depends on NUMBER; each is linked at the same address. Its exit code is the number. */
#include "system_calls.h"

static int __attribute__((noinline)) work(int turns) {
    int sum = 0;
    for (volatile int turn = 0; turn < turns; turn++) {
#if NUMBER == 1
        sum += turn;
#else
        sum ^= turn * 3;
        if (sum & 1) sum += 5;
#endif
    }
    return sum;
}

void _start(void) {
    volatile int sum = 0;
    for (int turn = 0; turn < 20; turn++) {
        sum += work(NUMBER * 10);
        if (turn % 8 == 0) call(GETPPID, 0, 0, 0, 0, 0, 0);
    }
    call(EXIT, NUMBER, 0, 0, 0, 0, 0);
}
