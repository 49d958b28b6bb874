// The temperature of a chip after four time steps. A neighbour outside the chip has the temperature of the nearest
// point. Buffers: temperatures, power, two grids of temperatures; the result is in the second grid. Numbers: width,
// height.
const int phases = 4;

static inline float point(float here, float left, float right, float above, float below, float power) {
    return here + 0.5f * power + 0.1f * (left + right - 2 * here) + 0.125f * (above + below - 2 * here) +
           0.01f * (80 - here);
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *restrict in = buffers[phase == 0 ? 0 : 3 - phase % 2], *restrict power = buffers[1];
    float *restrict out = buffers[2 + phase % 2];
    int64_t width = numbers[0], height = numbers[1], last = width - 1, end = begin(height, part + 1, parts);
    for (int64_t y = begin(height, part, parts); y < end; ++y) {
        const float *here = in + y * width, *watts = power + y * width;
        const float *above = y > 0 ? here - width : here;
        const float *below = y + 1 < height ? here + width : here;
        float *restrict to = out + y * width;
        to[0] = point(here[0], here[0], here[1], above[0], below[0], watts[0]);
        for (int64_t x = 1; x < last; ++x)
            to[x] = point(here[x], here[x - 1], here[x + 1], above[x], below[x], watts[x]);
        to[last] = point(here[last], here[last - 1], here[last], above[last], below[last], watts[last]);
    }
}
