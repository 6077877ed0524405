// AArch64 accesses that fault inside a block, and are repeated when memory is mapped.
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
static char *pages;
static volatile int hits;

static void fault(int signal) {
    hits++;
    mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE);
}

int main(void) {
    pages = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *second = pages + PAGE;
    long sum = 0;
    signal(SIGSEGV, fault);
    for (int turn = 0; turn < 6; turn++) {
        // The first time nothing faults, so that the block is already translated when it does.
        int kind = turn >> 1;
        mprotect(second, PAGE, turn & 1 ? PROT_NONE : PROT_READ | PROT_WRITE);
        if (kind == 0)
            __asm__ volatile("ldr x2, [%1]\n\t add %0, %0, x2\n\t ldr w2, [%2, #8]\n\t add %0, %0, x2\n\t ldrb w2, [%1, #1]\n\t add %0, %0, #1"
                             : "+r"(sum) : "r"(pages), "r"(second) : "x2", "memory");
        else if (kind == 1)
            __asm__ volatile("str %0, [%1], #8\n\t add %0, %0, #1\n\t strh w0, [%2, %0]\n\t add %0, %0, #1\n\t str xzr, [%1]\n\t add %0, %0, #1"
                             : "+r"(sum), "+r"(pages) : "r"(second) : "x2", "memory");
        else
            // The first half of the pair is mapped.
            __asm__ volatile("str x2, [%1]\n\t ldp x2, x3, [%2, #-8]\n\t add %0, %0, #1\n\t str x2, [%1]\n\t add %0, %0, #1"
                             : "+r"(sum) : "r"(pages), "r"(second) : "x2", "x3", "memory");
        if (kind == 1)
            pages -= 8;
    }
    printf("%p %d\n", (void *)fault, hits);
    return 0;
}
