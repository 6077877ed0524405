// Recursion, indirect calls, and a large copy.
#include <stdio.h>
#include <string.h>

static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static int square(int n) { return n * n; }
static int negate(int n) { return -n; }
static int (*const table[])(int) = {fib, square, negate};

int main(void) {
    static char from[5000], to[5000];
    long sum = 0;
    for (int i = 0; i < 60; i++)
        sum += table[i % 3](i % 12);
    memset(from, 0, sizeof from);
    memcpy(to, from, sizeof to);
    printf("%ld %d\n", sum, to[sum & 1023]);
    return 0;
}
