/* The first process: starts two programs that are linked at the same address, writes code several times, starts a thread, and
 * turns the machine off. */
#include "system_calls.h"

static char stack[4096] __attribute__((aligned(16)));
static volatile int turns;

/* A thread: it has the memory of this process. */
static void thread(void) {
    for (int turn = 0; turn < 50; turn++) turns++;
    call(EXIT, 0, 0, 0, 0, 0, 0);
}

/* `clone` with a stack of its own: the new thread calls the function. */
long start_thread(long flags, void *top, void (*function)(void));
__asm__("start_thread:\n"
        "    mov x9, x2\n"
        "    mov x2, xzr\n"
        "    mov x3, xzr\n"
        "    mov x4, xzr\n"
        "    mov x8, #220\n"
        "    svc #0\n"
        "    cbnz x0, 1f\n"
        "    blr x9\n"
        "1:  ret\n");

/* Writes `mov w0, #value; ret`, and calls it: no system call is between. */
static int call_written(unsigned *code, unsigned value) {
    /* A compiler takes some branches before it writes: the trace has timestamps there. */
    for (volatile int turn = 0; turn < 16; turn++) {
    }
    code[0] = 0x52800000 | value << 5;
    code[1] = 0xd65f03c0;
    __asm__ volatile("dc cvau, %0\n dsb ish\n ic ivau, %0\n dsb ish\n isb" : : "r"(code) : "memory");
    return ((int (*)(void))code)();
}

/* The numbers with a digit each: the sum of exit codes, the value of the written code, the turns of the thread. */
static void print(int sum, int written, int count) {
    char text[] = "sum ? written ? turns ?\n";
    text[4] = '0' + sum;
    text[14] = '0' + written;
    text[22] = '0' + count / 10;
    call(WRITE, 1, (long)text, sizeof text - 1, 0, 0, 0);
}

/* What is recorded starts here. */
void __attribute__((noinline)) begin(void) {
    static const char one[] = "/one", two[] = "/two";
    const char *programs[] = {one, two, one};
    enum { VM = 0x100, FS = 0x200, FILES = 0x400, SIGHAND = 0x800, THREAD = 0x10000, SIGCHLD = 17 };
    for (int number = 0; number < 3; number++) {
        if (call(CLONE, SIGCHLD, 0, 0, 0, 0, 0) == 0) {
            const char *arguments[] = {programs[number], 0};
            call(EXECVE, (long)programs[number], (long)arguments, (long)(arguments + 1), 0, 0, 0);
            call(EXIT, 9, 0, 0, 0, 0, 0);
        }
    }
    /* Read, write and execute; private and anonymous. */
    unsigned *code = (unsigned *)call(MMAP, 0, 4096, 7, 0x22, -1, 0);
    int written = 0, sum = 0, status = 0;
    for (unsigned turn = 1; turn < 6; turn++) written += call_written(code, turn & 3);
    start_thread(VM | FS | FILES | SIGHAND | THREAD, stack + sizeof stack, thread);
    while (call(WAIT4, -1, (long)&status, 0, 0, 0, 0) > 0) sum += status >> 8 & 0xff;
    while (turns < 50) call(SCHED_YIELD, 0, 0, 0, 0, 0, 0);
    print(sum, written, turns);
    call(REBOOT, 0xfee1dead, 672274793, 0x4321fedc, 0, 0, 0);
}

void _start(void) {
    /* The kernel has work of its own to do first, with other threads. */
    long time[] = {2, 0};
    call(NANOSLEEP, (long)time, 0, 0, 0, 0, 0);
    begin();
}
