// z = a x + y, repeated several times. Buffers: x, y, z. Numbers: n, times.
const int phases = 1;

__attribute__((noinline)) static void saxpy(const float *restrict x, const float *restrict y, float *restrict z, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
        z[i] = fmaf(0.75f, x[i], y[i]);
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *x = buffers[0], *y = buffers[1];
    float *z = buffers[2];
    int64_t first = begin(numbers[0], part, parts), end = begin(numbers[0], part + 1, parts);
    for (int64_t time = 0; time < numbers[1]; ++time)
        saxpy(x + first, y + first, z + first, end - first);
}
