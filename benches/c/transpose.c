// A matrix transposed tile by tile. Buffers: in, out. Numbers: width, height of `in`.
#define TILE 32

const int phases = 1;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *restrict in = buffers[0];
    float *restrict out = buffers[1];
    int64_t width = numbers[0], height = numbers[1], columns = (width + TILE - 1) / TILE;
    int64_t end = begin(columns, part + 1, parts);
    for (int64_t column = begin(columns, part, parts); column < end; ++column)
        for (int64_t base = 0; base < height; base += TILE)
            for (int64_t x = column * TILE; x < least(width, (column + 1) * TILE); ++x)
                for (int64_t y = base; y < least(height, base + TILE); ++y)
                    out[x * height + y] = in[y * width + x];
}
