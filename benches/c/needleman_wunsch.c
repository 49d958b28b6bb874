// Scores of the global alignments of the beginnings of two sequences (Needleman and Wunsch). Each part computes a
// band of rows. A phase computes one block of columns of each band; a band is one block behind the band above.
// Buffers: two sequences, scores of letters (16 x 16), scores. Numbers: length n of the sequences; there are (n + 1)
// x (n + 1) scores.
#define BLOCKS 16
#define BANDS 16
#define PENALTY 10

const int phases = BLOCKS + BANDS - 1;

static inline int larger(int a, int b) { return a > b ? a : b; }

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const uint8_t *restrict a = buffers[0], *restrict b = buffers[1];
    const int *restrict letters = buffers[2];
    int bands = parts < BANDS ? parts : BANDS, block = phase - part;
    if (part >= bands || block < 0 || block >= BLOCKS)
        return;
    int64_t n = numbers[0], width = n + 1, end = begin(width, part + 1, bands);
    int64_t first = begin(width, block, BLOCKS), last = begin(width, block + 1, BLOCKS);
    for (int64_t y = begin(width, part, bands); y < end; ++y) {
        int *restrict row = (int *)buffers[3] + y * width;
        if (y == 0) {
            for (int64_t x = first; x < last; ++x)
                row[x] = -PENALTY * (int)x;
            continue;
        }
        if (block == 0)
            row[0] = -PENALTY * (int)y;
        int64_t x = first > 0 ? first : 1;
        const int *above = row - width, *of_letter = letters + 16 * a[y - 1];
        for (int left = row[x - 1]; x < last; ++x)
            row[x] = left = larger(above[x - 1] + of_letter[b[x - 1]], larger(above[x], left) - PENALTY);
    }
}
