// Stores that fail inside a block, and then a computation that does not.
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf before;
static void fault(int signal) { siglongjmp(before, 1); }

static volatile unsigned cells[64];

int main(void) {
    signal(SIGSEGV, fault);
    for (volatile int turn = 0; turn < 3; turn++)
        if (!sigsetjmp(before, 1)) {
            cells[0] += turn;
            *(volatile unsigned *)8 = turn;
            cells[1] += turn;
            cells[2] += turn;
        }
    for (unsigned i = 0; i < 2000; i++)
        cells[i % 64] += i;
    return 0;
}
