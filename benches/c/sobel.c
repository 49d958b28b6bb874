// Sobel's edge detection: the magnitude of the gradient of a grey image. The border of the result is zero. Buffers: in,
// out. Numbers: width, height.
const int phases = 1;

static void row(const uint8_t *restrict above, const uint8_t *restrict here, const uint8_t *restrict below,
                uint8_t *restrict out, int64_t width) {
    out[0] = out[width - 1] = 0;
    for (int64_t x = 1; x < width - 1; ++x) {
        int gx = above[x + 1] - above[x - 1] + 2 * (here[x + 1] - here[x - 1]) + below[x + 1] - below[x - 1];
        int gy = below[x - 1] + 2 * below[x] + below[x + 1] - above[x - 1] - 2 * above[x] - above[x + 1];
        float magnitude = sqrtf((float)(gx * gx + gy * gy));
        out[x] = magnitude > 255 ? 255 : (uint8_t)magnitude;
    }
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const uint8_t *in = buffers[0];
    uint8_t *out = buffers[1];
    int64_t width = numbers[0], height = numbers[1], end = begin(height, part + 1, parts);
    for (int64_t y = begin(height, part, parts); y < end; ++y) {
        const uint8_t *here = in + y * width;
        if (y == 0 || y == height - 1)
            memset(out + y * width, 0, width);
        else
            row(here - width, here, here + width, out + y * width, width);
    }
}
