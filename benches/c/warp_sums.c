// Sums of 32 values, repeated several times. Buffers: values, sums. Numbers: n, times.
#define EACH 32

const int phases = 1;

__attribute__((noinline)) static void add(const unsigned *restrict values, unsigned *restrict sums, int64_t blocks) {
    for (int64_t block = 0; block < blocks; ++block) {
        unsigned sum = 0;
        for (int i = 0; i < EACH; ++i)
            sum += values[block * EACH + i];
        sums[block] = sum;
    }
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const unsigned *values = buffers[0];
    unsigned *sums = buffers[1];
    int64_t blocks = numbers[0] / EACH, rest = numbers[0] % EACH;
    int64_t first = begin(blocks, part, parts), end = begin(blocks, part + 1, parts);
    for (int64_t time = 0; time < numbers[1]; ++time)
        add(values + first * EACH, sums + first, end - first);
    if (part == 0 && rest > 0) {
        sums[blocks] = 0;
        for (int64_t i = 0; i < rest; ++i)
            sums[blocks] += values[blocks * EACH + i];
    }
}
