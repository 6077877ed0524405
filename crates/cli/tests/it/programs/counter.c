// Counts up in a file that it shares with others, until it is killed: the file shows how far it came.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

__attribute__((noinline)) static void count(volatile unsigned *number) {
    for (;;)
        ++*number;
}

int main(int argc, char **argv) {
    int file = open(argv[1], O_RDWR);
    volatile unsigned *number = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    puts("ready");
    fflush(stdout);
    count(number);
}
