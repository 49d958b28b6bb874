// The convolution of an image with 5 x 5 weights; values outside of the image are zero. Buffers: in, weights, out.
// Numbers: width, height.
#define REACH 2
#define WIDTH (2 * REACH + 1)

const int phases = 1;

static float edge(const float *in, const float *weights, int64_t width, int64_t height, int64_t x, int64_t y) {
    float sum = 0;
    for (int64_t dy = -REACH; dy <= REACH; ++dy)
        for (int64_t dx = -REACH; dx <= REACH; ++dx)
            if (x + dx >= 0 && x + dx < width && y + dy >= 0 && y + dy < height)
                sum += weights[(dy + REACH) * WIDTH + dx + REACH] * in[(y + dy) * width + x + dx];
    return sum;
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *restrict in = buffers[0], *restrict weights = buffers[1];
    float *restrict out = buffers[2];
    int64_t width = numbers[0], height = numbers[1], end = begin(height, part + 1, parts);
    for (int64_t y = begin(height, part, parts); y < end; ++y) {
        float *restrict to = out + y * width;
        int inside = y >= REACH && y < height - REACH && width > 2 * REACH;
        for (int64_t x = 0; x < (inside ? REACH : width); ++x)
            to[x] = edge(in, weights, width, height, x, y);
        if (!inside)
            continue;
        for (int64_t x = REACH; x < width - REACH; ++x) {
            const float *from = in + (y - REACH) * width + x - REACH;
            float sum = 0;
            for (int dy = 0; dy < WIDTH; ++dy)
                for (int dx = 0; dx < WIDTH; ++dx)
                    sum += weights[dy * WIDTH + dx] * from[dy * width + dx];
            to[x] = sum;
        }
        for (int64_t x = width - REACH; x < width; ++x)
            to[x] = edge(in, weights, width, height, x, y);
    }
}
