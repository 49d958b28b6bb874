// c = a + b, repeated several times. Buffers: a, b, c. Numbers: n, times.
const int phases = 1;

__attribute__((noinline)) static void add(const float *restrict a, const float *restrict b, float *restrict c, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
        c[i] = a[i] + b[i];
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *a = buffers[0], *b = buffers[1];
    float *c = buffers[2];
    int64_t first = begin(numbers[0], part, parts), end = begin(numbers[0], part + 1, parts);
    for (int64_t time = 0; time < numbers[1]; ++time)
        add(a + first, b + first, c + first, end - first);
}
