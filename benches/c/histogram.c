// Counts each byte value. Successive bytes use four tables in turn, so that the increments of equal successive bytes do
// not depend on each other. Buffers: bytes, bins. Numbers: n.
static unsigned partial[MAX_PARTS][256];

const int phases = 2;

static void count(const uint8_t *restrict bytes, int64_t n, unsigned *restrict bins) {
    unsigned tables[4][256];
    memset(tables, 0, sizeof tables);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        ++tables[0][bytes[i]];
        ++tables[1][bytes[i + 1]];
        ++tables[2][bytes[i + 2]];
        ++tables[3][bytes[i + 3]];
    }
    for (; i < n; ++i)
        ++tables[0][bytes[i]];
    for (int bin = 0; bin < 256; ++bin)
        bins[bin] = tables[0][bin] + tables[1][bin] + tables[2][bin] + tables[3][bin];
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    if (phase == 0) {
        int64_t first = begin(numbers[0], part, parts), end = begin(numbers[0], part + 1, parts);
        count((const uint8_t *)buffers[0] + first, end - first, partial[part]);
    } else if (part == 0) {
        unsigned *restrict bins = buffers[1];
        for (int bin = 0; bin < 256; ++bin) {
            bins[bin] = 0;
            for (int i = 0; i < parts; ++i)
                bins[bin] += partial[i][bin];
        }
    }
}
