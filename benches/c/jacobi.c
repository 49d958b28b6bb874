// Two sweeps of Jacobi's method for Poisson's equation in three dimensions, and the largest change in the second sweep.
// Buffers: start, source, after one sweep, after two sweeps, changes of the blocks of the kernel, largest change.
// Numbers: nx, ny, nz.
static float changes[MAX_PARTS];

const int phases = 3;

static float sweep(const float *restrict u, const float *restrict source, float *restrict to, int64_t nx,
                   int64_t plane) {
    float most = 0;
    for (int64_t x = 1; x < nx - 1; ++x) {
        float around = u[x - 1] + u[x + 1] + u[x - nx] + u[x + nx] + u[x - plane] + u[x + plane];
        to[x] = (around - source[x]) * (1.0f / 6);
        float change = fabsf(to[x] - u[x]);
        most = change > most ? change : most;
    }
    to[0] = u[0];
    to[nx - 1] = u[nx - 1];
    return most;
}

static float plane(const float *u, const float *source, float *to, const int64_t *numbers, int64_t z) {
    int64_t nx = numbers[0], ny = numbers[1], nz = numbers[2];
    float most = 0;
    for (int64_t y = 0; y < ny; ++y) {
        int64_t row = (z * ny + y) * nx;
        if (y == 0 || z == 0 || y == ny - 1 || z == nz - 1) {
            memcpy(to + row, u + row, nx * sizeof *u);
            continue;
        }
        float change = sweep(u + row, source + row, to + row, nx, nx * ny);
        most = change > most ? change : most;
    }
    return most;
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    int64_t nz = numbers[2], end = begin(nz, part + 1, parts);
    float most = 0;
    if (phase == 2) {
        for (int other = 0; other < parts; ++other)
            most = changes[other] > most ? changes[other] : most;
        if (part == 0)
            *(float *)buffers[5] = most;
        return;
    }
    for (int64_t z = begin(nz, part, parts); z < end; ++z) {
        float change = plane(buffers[phase == 0 ? 0 : 2], buffers[1], buffers[phase == 0 ? 2 : 3], numbers, z);
        most = change > most ? change : most;
    }
    changes[part] = most;
}
