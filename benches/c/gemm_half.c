// C = A B for half-precision A and B. Phase 0 allocates memory, phase 1 converts A and B to floats, and phase 2
// multiplies. Phase 2 keeps 4 rows and 64 columns of C in registers during the loop over k. Buffers: a, b, c. Numbers:
// rows, inner, columns.
#include <stdlib.h>

#define ROWS 4
#define VECTORS 4
#define LANES 16
#define COLUMNS (VECTORS * LANES)

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4)));

static float *wide_a, *wide_b;

const int phases = 3;

static void widen(const _Float16 *restrict from, float *restrict to, int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i)
        to[i] = from[i];
}


static void tile(const float *restrict a, const float *restrict b, float *restrict c, int64_t inner, int64_t columns) {
    vector sums[ROWS][VECTORS] = {0};
    for (int64_t k = 0; k < inner; ++k) {
        const vector *row = (const vector *)(b + k * columns);
        for (int r = 0; r < ROWS; ++r)
            for (int v = 0; v < VECTORS; ++v)
                sums[r][v] += a[r * inner + k] * row[v];
    }
    for (int r = 0; r < ROWS; ++r)
        for (int v = 0; v < VECTORS; ++v)
            *((vector *)(c + r * columns) + v) = sums[r][v];
}

static void edge(const float *restrict a, const float *restrict b, float *restrict c, int64_t rows, int64_t width,
                 int64_t inner, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t x = 0; x < width; ++x) {
            float sum = 0;
            for (int64_t k = 0; k < inner; ++k)
                sum = fmaf(a[r * inner + k], b[k * columns + x], sum);
            c[r * columns + x] = sum;
        }
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    int64_t rows = numbers[0], inner = numbers[1], columns = numbers[2];
    if (phase == 0) {
        if (part == 0 && !wide_a) {
            wide_a = malloc(rows * inner * sizeof(float));
            wide_b = malloc(inner * columns * sizeof(float));
        }
        return;
    }
    if (phase == 1) {
        widen(buffers[0], wide_a, begin(rows * inner, part, parts), begin(rows * inner, part + 1, parts));
        widen(buffers[1], wide_b, begin(inner * columns, part, parts), begin(inner * columns, part + 1, parts));
        return;
    }
    const float *restrict a = wide_a, *restrict b = wide_b;
    float *restrict c = buffers[2];
    int64_t strips = (rows + ROWS - 1) / ROWS;
    int64_t first = begin(strips, part, parts), end = begin(strips, part + 1, parts);
    // The outer loop is over columns, so that a panel of B stays in the cache.
    for (int64_t x = 0; x < columns; x += COLUMNS)
        for (int64_t strip = first; strip < end; ++strip) {
            int64_t y = strip * ROWS;
            const float *from = a + y * inner;
            float *to = c + y * columns + x;
            if (y + ROWS <= rows && x + COLUMNS <= columns)
                tile(from, b + x, to, inner, columns);
            else {
                int64_t height = y + ROWS <= rows ? ROWS : rows - y;
                int64_t width = x + COLUMNS <= columns ? COLUMNS : columns - x;
                edge(from, b + x, to, height, width, inner, columns);
            }
        }
}
