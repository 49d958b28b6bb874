// Heat flow; the border does not change. The step is repeated several times. Buffers: in, out. Numbers: width, height,
// times.
const int phases = 1;

__attribute__((noinline)) static void step(const float *restrict in, float *restrict out, int64_t width, int64_t first,
                                           int64_t end) {
    for (int64_t y = first; y < end; ++y)
        for (int64_t x = 1; x < width - 1; ++x) {
            const float *here = in + y * width + x;
            out[y * width + x] = 0.5f * here[0] + 0.125f * (here[-1] + here[1] + here[-width] + here[width]);
        }
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    int64_t inner = numbers[1] - 2;
    for (int64_t time = 0; time < numbers[2]; ++time)
        step(buffers[0], buffers[1], numbers[0], 1 + begin(inner, part, parts), 1 + begin(inner, part + 1, parts));
}
