// Says how many ways there are up a few stairs. No library: it is small enough to be read from its first instruction to
// its last, and has what makes traces interesting: recursion, an indirect call, and calls of the system.

static long call(long number, long a, long b, long c) {
    register long x8 asm("x8") = number;
    register long x0 asm("x0") = a;
    register long x1 asm("x1") = b;
    register long x2 asm("x2") = c;
    asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

// One stair or two at a time.
__attribute__((noinline)) static int ways(int stairs) {
    return stairs < 2 ? 1 : ways(stairs - 1) + ways(stairs - 2);
}

// One at a time.
__attribute__((noinline)) static int way(int stairs) {
    return stairs >= 0;
}

static int (*const volatile climbers[])(int) = {ways, way};

__attribute__((noinline)) static void say(int number) {
    char text[] = "hello, 0 ways\n";
    text[7] += number;
    call(64, 1, (long)text, sizeof text - 1); // write
}

void _start(void) {
    for (int climber = 0; climber < 2; climber++)
        say(climbers[climber](4));
    call(93, 0, 0, 0); // exit
}
