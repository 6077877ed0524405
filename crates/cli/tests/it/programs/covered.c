/* Statements of all kinds, some of which are never executed: coverage is compared with that of gcov. */
#include <stdio.h>

static int never(int value)
{
    return value + 1;
}

static int classify(int value)
{
    switch (value % 5) {
    case 0:
        return 10;
    case 1:
    case 2:
        value += 3;
        break;
    case 3:
        value = -value;
        break;
    default:
        value *= 2;
    }
    return value;
}

static int factorial(int n)
{
    if (n < 2)
        return 1;
    return n * factorial(n - 1);
}

static int search(const int *list, int length, int wanted)
{
    int index;
    for (index = 0; index < length; index++) {
        if (list[index] == wanted)
            goto found;
        if (list[index] < 0 && wanted > 1000)
            return never(wanted);
    }
    return -1;
found:
    return index;
}

static int countdown(int n)
{
    int steps = 0;
    while (n > 0) {
        n -= 3;
        steps++;
        if (steps > 100)
            break;
    }
    do {
        steps--;
    } while (steps > 5);
    return steps;
}

int main(void)
{
    int list[8] = {3, 1, 4, 1, 5, 9, 2, 6};
    int total = 0;
    for (int i = 0; i < 20; i++)
        total += classify(i);
    for (int i = 0; i < 8; i++) {
        total += search(list, 8, i);
        total += i % 2 ? factorial(i) : i;
    }
    total += countdown(40);
    if (total == 0) {
        printf("nothing\n");
        return 1;
    }
    printf("%d\n", total);
    return 0;
}
