/* Loops, recursion, a sort and calls by pointers. */
typedef unsigned long u64;
static unsigned values[512];

static unsigned next(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static __attribute__((noinline)) void sort(unsigned *from, unsigned *to) {
    if (to - from < 2) return;
    unsigned pivot = from[(to - from) / 2], *low = from, *high = to - 1;
    while (low <= high) {
        while (*low < pivot) low++;
        while (*high > pivot) high--;
        if (low <= high) {
            unsigned other = *low;
            *low++ = *high;
            *high-- = other;
        }
    }
    sort(from, high + 1);
    sort(low, to);
}

static __attribute__((noinline)) unsigned add(unsigned a, unsigned b) { return a + b; }
static __attribute__((noinline)) unsigned mix(unsigned a, unsigned b) { return a * 31 ^ b; }
static __attribute__((noinline)) unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

void _start(void) {
    unsigned (*const operations[2])(unsigned, unsigned) = {add, mix};
    unsigned seed = 1, sum = 0;
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 512; i++) values[i] = next(&seed);
        sort(values, values + 512);
        for (int i = 0; i < 512; i++) sum = operations[values[i] & 1](sum, values[i]);
        sum += fibonacci(12);
    }
    register long number __asm__("x8") = 93, code __asm__("x0") = sum & 0;
    __asm__ volatile("svc 0" : : "r"(number), "r"(code));
    for (;;) {}
}
