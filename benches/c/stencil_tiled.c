// Heat flow. A neighbour outside the grid has the value of the nearest point of the grid. Buffers: in, out. Numbers:
// width, height.
const int phases = 1;

static inline float point(float here, float left, float right, float above, float below) {
    return 0.5f * here + 0.125f * (left + right + above + below);
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *restrict in = buffers[0];
    float *restrict out = buffers[1];
    int64_t width = numbers[0], height = numbers[1], last = width - 1;
    int64_t end = begin(height, part + 1, parts);
    for (int64_t y = begin(height, part, parts); y < end; ++y) {
        const float *here = in + y * width;
        const float *above = y > 0 ? here - width : here;
        const float *below = y + 1 < height ? here + width : here;
        float *restrict to = out + y * width;
        to[0] = point(here[0], here[0], here[last > 0], above[0], below[0]);
        for (int64_t x = 1; x < last; ++x)
            to[x] = point(here[x], here[x - 1], here[x + 1], above[x], below[x]);
        to[last] = point(here[last], here[last - (last > 0)], here[last], above[last], below[last]);
    }
}
