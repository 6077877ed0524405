/* Forks while it is recorded; the child loops the given number of million times. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned numbers[64];

static unsigned add(unsigned count)
{
    unsigned sum = 0;
    for (unsigned at = 0; at < count; at++) {
        numbers[at % 64] += at;
        sum += numbers[at % 64];
    }
    return sum;
}

int main(int count, char **words)
{
    unsigned much = count > 1 ? 1000000 * (unsigned)(words[1][0] - 0x30) : 0;
    unsigned before = add(100);
    if (fork() == 0)
        _exit(add(much) == 1);
    wait(NULL);
    printf("%u\n", before + add(100));
    return 0;
}
