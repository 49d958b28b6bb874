// Gravity between all pairs of bodies. The inner loop computes the accelerations of 16 bodies at once. Buffers:
// positions, moved, velocities (four floats each). Numbers: n.
#define LANES 16
#define STEP 0.01f

typedef struct {
    float x, y, z, w;
} body;

const int phases = 1;

static void step(const body *restrict all, int64_t n, int64_t first, int lanes, body *restrict moved,
                 body *restrict velocities) {
    float x[LANES] = {0}, y[LANES] = {0}, z[LANES] = {0}, ax[LANES] = {0}, ay[LANES] = {0}, az[LANES] = {0};
    for (int i = 0; i < lanes; ++i)
        x[i] = all[first + i].x, y[i] = all[first + i].y, z[i] = all[first + i].z;
    for (int64_t j = 0; j < n; ++j)
        for (int i = 0; i < LANES; ++i) {
            float dx = all[j].x - x[i], dy = all[j].y - y[i], dz = all[j].z - z[i];
            float inverse = 1 / sqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float pull = all[j].w * inverse * inverse * inverse;
            ax[i] += dx * pull;
            ay[i] += dy * pull;
            az[i] += dz * pull;
        }
    for (int i = 0; i < lanes; ++i) {
        body *v = &velocities[first + i], *to = &moved[first + i];
        v->x += ax[i] * STEP;
        v->y += ay[i] * STEP;
        v->z += az[i] * STEP;
        to->x = x[i] + v->x * STEP;
        to->y = y[i] + v->y * STEP;
        to->z = z[i] + v->z * STEP;
        to->w = all[first + i].w;
    }
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    int64_t n = numbers[0], groups = (n + LANES - 1) / LANES, end = begin(groups, part + 1, parts);
    for (int64_t group = begin(groups, part, parts); group < end; ++group) {
        int64_t first = group * LANES, left = n - first;
        step(buffers[0], n, first, left < LANES ? left : LANES, buffers[1], buffers[2]);
    }
}
