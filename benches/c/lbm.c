// Two time steps of a lattice Boltzmann method (D2Q9) on a periodic grid: each step moves the densities and then
// relaxes them. Buffers: densities, densities after one step, densities after two steps (nine planes each). Numbers:
// width, height.
#define OMEGA 1.2f

const int phases = 2;

// Computes the point `to`. The other arguments are indices: columns to the left and to the right, and rows.
static inline void point(const float *restrict f, float *restrict g, int64_t n, int64_t x, int64_t left, int64_t right,
                         int64_t here, int64_t above, int64_t below) {
    float f0 = f[here + x], f1 = f[n + here + left], f2 = f[2 * n + above + x];
    float f3 = f[3 * n + here + right], f4 = f[4 * n + below + x], f5 = f[5 * n + above + left];
    float f6 = f[6 * n + above + right], f7 = f[7 * n + below + right], f8 = f[8 * n + below + left];
    float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
    float ux = (f1 + f5 + f8 - f3 - f6 - f7) / rho, uy = (f2 + f5 + f6 - f4 - f7 - f8) / rho;
    float base = 1 - 1.5f * (ux * ux + uy * uy), a = ux + uy, b = uy - ux;
    float straight = OMEGA * rho / 9, diagonal = OMEGA * rho / 36, keep = 1 - OMEGA;
    g[here + x] = keep * f0 + 4 * straight * base;
    g[n + here + x] = keep * f1 + straight * (base + 3 * ux + 4.5f * ux * ux);
    g[2 * n + here + x] = keep * f2 + straight * (base + 3 * uy + 4.5f * uy * uy);
    g[3 * n + here + x] = keep * f3 + straight * (base - 3 * ux + 4.5f * ux * ux);
    g[4 * n + here + x] = keep * f4 + straight * (base - 3 * uy + 4.5f * uy * uy);
    g[5 * n + here + x] = keep * f5 + diagonal * (base + 3 * a + 4.5f * a * a);
    g[6 * n + here + x] = keep * f6 + diagonal * (base + 3 * b + 4.5f * b * b);
    g[7 * n + here + x] = keep * f7 + diagonal * (base - 3 * a + 4.5f * a * a);
    g[8 * n + here + x] = keep * f8 + diagonal * (base - 3 * b + 4.5f * b * b);
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *restrict f = buffers[phase];
    float *restrict g = buffers[phase + 1];
    int64_t width = numbers[0], height = numbers[1], n = width * height, end = begin(height, part + 1, parts);
    for (int64_t y = begin(height, part, parts); y < end; ++y) {
        int64_t here = y * width, above = (y > 0 ? y - 1 : height - 1) * width;
        int64_t below = (y + 1 < height ? y + 1 : 0) * width, last = width - 1;
        point(f, g, n, 0, last, 1, here, above, below);
        for (int64_t x = 1; x < last; ++x)
            point(f, g, n, x, x - 1, x + 1, here, above, below);
        point(f, g, n, last, last - 1, 0, here, above, below);
    }
}
