/* A function that is inlined into others, from another file. */
static inline __attribute__((always_inline)) int area(int width, int height)
{
    int result = 0;
    while (height-- > 0)
        result += width;
    return result;
}
