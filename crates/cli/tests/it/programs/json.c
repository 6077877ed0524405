// A JSON parser: data-dependent recursion, a table of functions, and generated text.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counts {
    long objects, arrays, strings, numbers, words, depth, deepest;
    double sum;
};
typedef const char *parser(const char *at, struct counts *counts);
static parser value;

static const char *skip(const char *at) {
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *string(const char *at, struct counts *counts) {
    counts->strings++;
    for (at++; *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at + 1;
}

static const char *number(const char *at, struct counts *counts) {
    char *end;
    counts->numbers++;
    counts->sum += strtod(at, &end);
    return end;
}

static const char *word(const char *at, struct counts *counts) {
    counts->words++;
    while (islower((unsigned char)*at))
        at++;
    return at;
}

static const char *list(const char *at, struct counts *counts, char end, int has_names) {
    if (++counts->depth > counts->deepest)
        counts->deepest = counts->depth;
    at = skip(at + 1);
    while (*at != end) {
        if (has_names) {
            at = skip(string(at, counts));
            at++;
        }
        at = skip(value(skip(at), counts));
        if (*at == ',')
            at = skip(at + 1);
    }
    counts->depth--;
    return at + 1;
}

static const char *object(const char *at, struct counts *counts) {
    counts->objects++;
    return list(at, counts, '}', 1);
}

static const char *array(const char *at, struct counts *counts) {
    counts->arrays++;
    return list(at, counts, ']', 0);
}

static const char *value(const char *at, struct counts *counts) {
    static parser *const parsers[] = {object, array, string, word, number};
    static const char firsts[] = "{[\"";
    const char *first = strchr(firsts, *at);
    int kind = first ? (int)(first - firsts) : islower((unsigned char)*at) ? 3 : 4;
    return parsers[kind](at, counts);
}

static unsigned seed = 1;
static unsigned random_below(unsigned limit) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % limit;
}

static char *make(char *out, int depth) {
    unsigned kind = depth > 4 ? 4 + random_below(2) : random_below(depth > 0 ? 6 : 4), count = 1 + random_below(5);
    switch (kind) {
    case 0:
        return out + sprintf(out, "%d.%u", (int)random_below(2000) - 1000, random_below(100));
    case 1:
        return out + sprintf(out, "\"a \\\"quoted\\\" word %u\"", random_below(1000));
    case 2:
        return out + sprintf(out, "%s", random_below(2) ? "true" : "null");
    case 3:
        return out + sprintf(out, "%ue%u", random_below(10), random_below(3));
    default:
        *out++ = kind == 4 ? '{' : '[';
        for (unsigned i = 0; i < count; i++) {
            if (kind == 4)
                out += sprintf(out, "%s\"key %u\": ", i ? ", " : "", i);
            else if (i)
                *out++ = ',';
            out = make(out, depth - 1);
        }
        *out++ = kind == 4 ? '}' : ']';
        return out;
    }
}

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 2;
    static char text[1 << 20];
    struct counts counts = {0};
    for (int round = 0; round < rounds; round++) {
        char *end = make(text, 6);
        *end = 0;
        if (value(skip(text), &counts) != end)
            return 1;
    }
    printf("%ld objects, %ld arrays, %ld strings, %ld numbers, %ld words, depth %ld, sum %.2f\n", counts.objects,
           counts.arrays, counts.strings, counts.numbers, counts.words, counts.deepest, counts.sum);
    return 0;
}
