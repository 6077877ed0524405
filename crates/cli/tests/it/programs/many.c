/* Many threads at the same time. */
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 100 };

static pthread_barrier_t all;
static unsigned sums[THREADS];

static void *add(void *place)
{
    unsigned *sum = place;
    pthread_barrier_wait(&all);
    for (unsigned at = 0; at < 1000; at++)
        *(volatile unsigned *)sum += at;
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    unsigned sum = 0;
    pthread_barrier_init(&all, NULL, THREADS);
    for (int at = 0; at < THREADS; at++)
        pthread_create(&threads[at], NULL, add, &sums[at]);
    for (int at = 0; at < THREADS; at++) {
        pthread_join(threads[at], NULL);
        sum += sums[at];
    }
    printf("%u\n", sum);
    return 0;
}
