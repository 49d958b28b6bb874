// A bilateral filter with 7 x 7 weights. A neighbour outside the image has the value of the nearest point of the image.
// Buffers: in, out, weights of the distances. Numbers: width, height.
#define RADIUS 3
#define EDGE (2 * RADIUS + 1)
#define STEEPNESS 8.0f
#define GROUP 64

const int phases = 1;

static inline int64_t clamp(int64_t i, int64_t count) { return i < 0 ? 0 : i < count ? i : count - 1; }

// Computes up to 64 points of a row. `rows` contains the image's rows around the points, with copies of the border.
static void points(float (*rows)[GROUP + 2 * RADIUS], const float (*weights)[EDGE], float *restrict out, int count) {
    float sums[GROUP] = {0}, scales[GROUP] = {0};
    for (int dy = 0; dy < EDGE; ++dy)
        for (int dx = 0; dx < EDGE; ++dx)
            for (int i = 0; i < GROUP; ++i) {
                float value = rows[dy][i + dx], away = value - rows[RADIUS][i + RADIUS];
                float weight = weights[dy][dx] * expf(-STEEPNESS * away * away);
                sums[i] += weight * value;
                scales[i] += weight;
            }
    for (int i = 0; i < count; ++i)
        out[i] = sums[i] / scales[i];
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *in = buffers[0];
    float *out = buffers[1], rows[EDGE][GROUP + 2 * RADIUS];
    int64_t width = numbers[0], height = numbers[1], end = begin(height, part + 1, parts);
    for (int64_t y = begin(height, part, parts); y < end; ++y)
        for (int64_t x = 0; x < width; x += GROUP) {
            for (int dy = 0; dy < EDGE; ++dy)
                for (int i = 0; i < GROUP + 2 * RADIUS; ++i)
                    rows[dy][i] = in[clamp(y + dy - RADIUS, height) * width + clamp(x + i - RADIUS, width)];
            points(rows, buffers[2], out + y * width + x, width - x < GROUP ? width - x : GROUP);
        }
}
