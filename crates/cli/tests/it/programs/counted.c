// Counts its own calls: functions report to the hooks of -finstrument-functions.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

#define MAX 32
#define PLAIN __attribute__((no_instrument_function))

static struct {
    void *function;
    unsigned long calls;
} table[MAX];
static int used;

PLAIN void __cyg_profile_func_enter(void *function, void *site) {
    int i = 0;
    (void)site;
    while (i < used && table[i].function != function)
        i++;
    if (i == used && used < MAX)
        table[used++].function = function;
    if (i < MAX)
        table[i].calls++;
}

PLAIN void __cyg_profile_func_exit(void *function, void *site) {
    (void)function;
    (void)site;
}

static jmp_buf away;
static volatile int signals;

static void on_signal(int number) { signals += number; }
static int leaf(int n) { return n * 3; }
static int odd(int n);
static int even(int n) { return n == 0 ? 1 : odd(n - 1); }
static int odd(int n) { return n == 0 ? 0 : even(n - 1); }
static int fib(int n) { return n < 2 ? leaf(n) : fib(n - 1) + fib(n - 2); }

static void jump(int n) {
    if (n == 0)
        longjmp(away, 1);
    jump(n - 1);
}

static int tries(int n) {
    if (setjmp(away) == 0)
        jump(n);
    return n;
}

static int (*const functions[])(int) = {leaf, even, fib, tries};

int main(void) {
    volatile long sum = 0;
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 48; i++)
        sum += functions[i % 4](i % 11);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    for (int i = 0; i < used; i++)
        printf("%p %lu\n", table[i].function, table[i].calls);
    return 0;
}
