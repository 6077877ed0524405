#include <stdio.h>
#include <stdlib.h>

/* The compiler does not know which way these branches go. */
static unsigned state = 1;

static unsigned next_random(void) {
    state = state * 1103515245u + 12345u;
    return state >> 16;
}

static unsigned rare(unsigned value) {
    unsigned sum = 0;
    for (unsigned digit = value; digit != 0; digit /= 10)
        sum += digit % 10 * 7 + sum / 3;
    return sum;
}

__attribute__((noinline)) unsigned classify(unsigned value) {
    if (value % 64 == 0)
        return rare(value);
    if (value % 61 == 1)
        return rare(value + 3) ^ value;
    switch (value % 16) {
    case 0:
        return rare(value * 3);
    case 1:
        return value / 5;
    case 2:
        if (value & 0x4000)
            return value * 9 + 1;
        return value - 7;
    default:
        if (value % 59 == 2)
            return rare(value * 5);
        return value + 1;
    }
}

__attribute__((noinline)) unsigned walk(unsigned steps) {
    unsigned sum = 0;
    for (unsigned step = 0; step < steps; step++) {
        unsigned value = next_random();
        if (value % 128 == 5)
            sum += rare(value);
        else
            sum += classify(value);
        if (sum % 997 == 0)
            sum = rare(sum);
    }
    return sum;
}

int main(int count, char **arguments) {
    unsigned steps = count > 1 ? (unsigned)atoi(arguments[1]) : 20000;
    printf("%u\n", walk(steps));
    return 0;
}
