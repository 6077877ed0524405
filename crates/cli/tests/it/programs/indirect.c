// An interpreter: its instructions are functions in a table, its calls are recursion, and its words are compared by a
// callback of the library.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

struct machine {
    long stack[256];
    int top;
    const unsigned char *code;
    jmp_buf *end;
};
typedef int operation(struct machine *machine, int at);
static operation run;

static int push(struct machine *m, int at) {
    m->stack[m->top++] = m->code[at];
    return at + 1;
}
static int add(struct machine *m, int at) {
    m->top--;
    m->stack[m->top - 1] += m->stack[m->top];
    return at;
}
static int subtract(struct machine *m, int at) {
    m->top--;
    m->stack[m->top - 1] -= m->stack[m->top];
    return at;
}
static int copy(struct machine *m, int at) {
    m->stack[m->top] = m->stack[m->top - 1 - m->code[at]];
    m->top++;
    return at + 1;
}
static int swap(struct machine *m, int at) {
    long top = m->stack[m->top - 1];
    m->stack[m->top - 1] = m->stack[m->top - 2];
    m->stack[m->top - 2] = top;
    return at;
}
static int jump_below_two(struct machine *m, int at) {
    return m->stack[m->top - 1] < 2 ? m->code[at] : at + 1;
}
static int call(struct machine *m, int at) {
    run(m, m->code[at]);
    return at + 1;
}
static int back(struct machine *m, int at) { return -1; }
static int stop(struct machine *m, int at) {
    longjmp(*m->end, 1);
}

enum { PUSH, ADD, SUBTRACT, COPY, SWAP, JUMP_BELOW_TWO, CALL, BACK, STOP };
static operation *const table[] = {push, add, subtract, copy, swap, jump_below_two, call, back, stop};

static int run(struct machine *m, int at) {
    while (at >= 0)
        at = table[m->code[at]](m, at + 1);
    return at;
}

static int less(const void *a, const void *b) { return *(const long *)a < *(const long *)b ? -1 : 1; }

int main(int count, char **words) {
    int n = count > 1 ? atoi(words[1]) : 8;
    // The function at 3 replaces the n on top by the n-th Fibonacci number.
    static const unsigned char code[] = {
        CALL, 3, STOP,
        JUMP_BELOW_TWO, 20, COPY, 0, PUSH, 1, SUBTRACT, CALL, 3, SWAP, PUSH, 2, SUBTRACT, CALL, 3, ADD, BACK,
        BACK,
    };
    jmp_buf end;
    struct machine machine = {.code = code, .end = &end};
    machine.stack[machine.top++] = n;
    if (!setjmp(end))
        run(&machine, 0);
    long sorted[64];
    for (int i = 0; i < 64; i++)
        sorted[i] = (i * 37 + machine.stack[0]) % 64;
    qsort(sorted, 64, sizeof *sorted, less);
    printf("%ld, %ld to %ld\n", machine.stack[0], sorted[0], sorted[63]);
    return 0;
}
