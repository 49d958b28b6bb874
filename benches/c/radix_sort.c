// A radix sort with digits of eight bits: four passes of two phases. Buffers: keys, first destination, second
// destination; the result is in the second destination. Numbers: n.
#define DIGITS 256

static unsigned counts[MAX_PARTS][DIGITS];

const int phases = 8;

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    int pass = phase / 2, shift = 8 * pass;
    const unsigned *restrict in = buffers[pass == 0 ? 0 : 2 - pass % 2];
    unsigned *restrict out = buffers[1 + pass % 2];
    int64_t first = begin(numbers[0], part, parts), end = begin(numbers[0], part + 1, parts);
    if (phase % 2 == 0) {
        memset(counts[part], 0, sizeof counts[part]);
        for (int64_t i = first; i < end; ++i)
            ++counts[part][in[i] >> shift & (DIGITS - 1)];
        return;
    }
    unsigned next[DIGITS], sum = 0;
    for (int digit = 0; digit < DIGITS; ++digit)
        for (int other = 0; other < parts; ++other) {
            if (other == part)
                next[digit] = sum;
            sum += counts[other][digit];
        }
    for (int64_t i = first; i < end; ++i)
        out[next[in[i] >> shift & (DIGITS - 1)]++] = in[i];
}
