// y = a x + y. Buffers: x, y. Numbers: n.
const int phases = 1;

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *restrict x = buffers[0];
    float *restrict y = buffers[1];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t i = begin(numbers[0], part, parts); i < end; ++i)
        y[i] = fmaf(0.75f, x[i], y[i]);
}
