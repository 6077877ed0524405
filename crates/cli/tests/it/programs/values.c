/* Writes many kinds of registers, and exits with 42. Without a library, so that each run is the same. */

typedef unsigned long word;

#define KEEP __attribute__((noinline))

static volatile word cells[16];
static volatile double floats[4] = {1.5, -2.25, 1e10, 0.125};
static volatile unsigned char bytes[40];

static KEEP word mix(word a, word b) {
    return (a << 3 ^ b >> 2) + (a & b) * 3 - (a | 5);
}

static KEEP word divide(word a, word b) {
    return b ? a / b + a % b : 7;
}

static KEEP double curve(double x, double y) {
    return x * y + x / (y + 3.0) - (double)(int)(x - y);
}

static KEEP int compare(double x, double y) {
    return x < y ? -1 : x > y;
}

static KEEP word select(word n, word (*first)(word, word), word (*second)(word, word)) {
    return n & 1 ? first(n, n + 1) : second(n, 3);
}

static KEEP void copy(volatile unsigned char *to, volatile const unsigned char *from, int count) {
    for (int i = 0; i < count; i++)
        to[i] = from[i] + i;
}

static KEEP word sum(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

static KEEP void leave(void) {
#if defined(__aarch64__)
    register word code __asm__("x0") = 42, call __asm__("x8") = 93;
    __asm__ volatile("svc #0" ::"r"(code), "r"(call));
#elif defined(__arm__)
    register word code __asm__("r0") = 42, call __asm__("r7") = 1;
    __asm__ volatile("svc #0" ::"r"(code), "r"(call));
#else
    register word code __asm__("a0") = 42, call __asm__("a7") = 93;
    __asm__ volatile("ecall" ::"r"(code), "r"(call));
#endif
}

#if defined(__aarch64__)
/* Instructions that compilers rarely use. */
static KEEP void rare(word *place) {
    __asm__ volatile(
        "ldxr x9, [%0]\n stxr w10, x9, [%0]\n ldadd x9, x11, [%0]\n swp x9, x11, [%0]\n cas x9, x11, [%0]\n"
        "ldp x12, x13, [%0], #16\n ldr x14, [%0, #-16]!\n ld2 {v4.2d, v5.2d}, [%0]\n ld1r {v6.4s}, [%0]\n"
        "ldp q7, q8, [%0]\n umov x15, v4.d[1]\n ins v6.d[0], x15\n fcmp d0, d1\n ccmp x9, x10, #4, ne\n"
        "adds x9, x9, #1\n ands x9, x9, #0xff\n adcs x9, x9, x10\n mrs x16, tpidr_el0\n msr nzcv, x9\n paciasp\n autiasp\n"
        "csetm x9, eq\n extr x9, x9, x10, #4\n scvtf d9, x12\n fcvtzs x12, d9\n fmov v9.d[1], x9\n sub sp, sp, #32\n"
        "str x9, [sp, #-16]!\n add sp, sp, #48\n"
        : "+r"(place)::"x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "v4", "v5", "v6", "v7", "v8", "v9",
        "cc", "memory");
}
#else
static KEEP void rare(word *place) {
    __sync_fetch_and_add(place, 3);
    __sync_bool_compare_and_swap(place, 3, 4);
}
#endif

void begin(void) {
    for (word n = 0; n < 40; n++) {
        cells[n % 16] = select(n, mix, divide);
        floats[n % 4] = curve(floats[n % 4], floats[(n + 1) % 4] + n);
        cells[(n + 1) % 16] += compare(floats[0], floats[n % 4]);
        copy(bytes, bytes + 8, 8 + n % 8);
    }
    cells[0] = sum(1, 2, 3, 4, 5, 6, 7, 8, 9, cells[1]);
    word places[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    rare(places);
    leave();
}

#if defined(__arm__)
/* Needed by division. */
int raise(int signal) {
    return signal;
}

__asm__(".global _start\n.thumb_func\n.thumb\n_start: bl begin\n");
#elif defined(__aarch64__)
__asm__(".global _start\n_start: bl begin\n");
#else
__asm__(".global _start\n_start: .option push\n.option norelax\nla gp, __global_pointer$\n.option pop\ncall begin\n");
#endif
