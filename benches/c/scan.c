// Exclusive prefix sums. Buffers: values, sums. Numbers: n.
static unsigned totals[MAX_PARTS];

const int phases = 2;

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const unsigned *restrict values = buffers[0];
    unsigned *restrict sums = buffers[1];
    int64_t first = begin(numbers[0], part, parts), end = begin(numbers[0], part + 1, parts);
    unsigned sum = 0;
    if (phase == 0) {
        // The total of the last part is not needed, because no part follows it.
        if (part + 1 < parts)
            for (int64_t i = first; i < end; ++i)
                sum += values[i];
        totals[part] = sum;
        return;
    }
    for (int i = 0; i < part; ++i)
        sum += totals[i];
    for (int64_t i = first; i < end; ++i) {
        unsigned value = values[i];
        sums[i] = sum;
        sum += value;
    }
}
