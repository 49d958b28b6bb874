// Four time steps of Maxwell's equations in two dimensions (FDTD, TM mode). Each step updates the magnetic field and
// then the electric field, in place. Buffers: ez, hx, hy. Numbers: width, height.
const int phases = 8;

static void magnetic(const float *restrict ez, float *restrict hx, float *restrict hy, int64_t width) {
    for (int64_t x = 0; x < width - 1; ++x) {
        hx[x] -= 0.5f * (ez[x + width] - ez[x]);
        hy[x] += 0.5f * (ez[x + 1] - ez[x]);
    }
}

static void electric(float *restrict ez, const float *restrict hx, const float *restrict hy, int64_t width) {
    for (int64_t x = 1; x < width - 1; ++x)
        ez[x] += 0.5f * (hy[x] - hy[x - 1] - hx[x] + hx[x - width]);
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    float *ez = buffers[0], *hx = buffers[1], *hy = buffers[2];
    int64_t width = numbers[0], last = numbers[1] - 1, end = begin(last, part + 1, parts);
    for (int64_t y = begin(last, part, parts); y < end; ++y) {
        int64_t row = y * width;
        if (phase % 2 == 0)
            magnetic(ez + row, hx + row, hy + row, width);
        else if (y > 0)
            electric(ez + row, hx + row, hy + row, width);
    }
}
