// Quicksort.
#include <stdio.h>
#include <stdlib.h>

static void sort(int *a, int n) {
    if (n < 2)
        return;
    int pivot = a[n / 2], i = 0, j = n - 1;
    for (;;) {
        while (a[i] < pivot)
            i++;
        while (a[j] > pivot)
            j--;
        if (i >= j)
            break;
        int t = a[i];
        a[i++] = a[j];
        a[j--] = t;
    }
    sort(a, i);
    sort(a + i, n - i);
}

int main(int count, char **words) {
    int n = count > 1 ? atoi(words[1]) : 200;
    int *a = malloc(n * sizeof *a);
    unsigned seed = 1;
    for (int i = 0; i < n; i++) {
        seed = seed * 1103515245 + 12345;
        a[i] = seed >> 8;
    }
    sort(a, n);
    for (int i = 1; i < n; i++)
        if (a[i - 1] > a[i])
            return 1;
    printf("sorted %d\n", n);
    return 7;
}
