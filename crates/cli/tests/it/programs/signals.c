// A signal that the program raises, a fault, and a signal from outside.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile int hits;
static sigjmp_buf before;
static void hit(int signal) { hits++; }
static void fault(int signal) {
    hits += 100;
    siglongjmp(before, 1);
}

int main(void) {
    signal(SIGUSR1, hit);
    signal(SIGALRM, hit);
    signal(SIGSEGV, fault);
    raise(SIGUSR1);
    if (!sigsetjmp(before, 1))
        *(volatile int *)8 = 3;
    ualarm(1000, 0);
    while (hits < 102)
        ;
    printf("%d\n", hits);
    return 0;
}
