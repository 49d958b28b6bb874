// The sum of integers. Buffers: values, a buffer that this source does not use, sum. Numbers: n.
static unsigned totals[MAX_PARTS];

const int phases = 2;

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    if (phase == 0) {
        const unsigned *restrict values = buffers[0];
        int64_t end = begin(numbers[0], part + 1, parts);
        unsigned sum = 0;
        for (int64_t i = begin(numbers[0], part, parts); i < end; ++i)
            sum += values[i];
        totals[part] = sum;
    } else if (part == 0) {
        unsigned sum = 0;
        for (int i = 0; i < parts; ++i)
            sum += totals[i];
        *(unsigned *)buffers[2] = sum;
    }
}
