// Layer normalisation of each row, with 16 independent sums, so that the compiler can use vectors. Buffers: in, gain,
// bias, out. Numbers: rows, columns.
#define LANES 16

const int phases = 1;

static inline float total(const float *sums) {
    float sum = 0;
    for (int lane = 0; lane < LANES; ++lane)
        sum += sums[lane];
    return sum;
}

static void row(const float *restrict in, const float *restrict gain, const float *restrict bias, float *restrict out,
                int64_t columns) {
    float sums[LANES] = {0}, squares[LANES] = {0}, rest = 0;
    int64_t whole = columns / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int lane = 0; lane < LANES; ++lane)
            sums[lane] += in[i + lane];
    for (int64_t i = whole; i < columns; ++i)
        rest += in[i];
    float mean = (total(sums) + rest) / columns;
    rest = 0;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int lane = 0; lane < LANES; ++lane)
            squares[lane] += (in[i + lane] - mean) * (in[i + lane] - mean);
    for (int64_t i = whole; i < columns; ++i)
        rest += (in[i] - mean) * (in[i] - mean);
    float scale = 1 / sqrtf((total(squares) + rest) / columns + 1e-5f);
    for (int64_t i = 0; i < columns; ++i)
        out[i] = (in[i] - mean) * scale * gain[i] + bias[i];
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    int64_t columns = numbers[1], end = begin(numbers[0], part + 1, parts);
    for (int64_t y = begin(numbers[0], part, parts); y < end; ++y)
        row((const float *)buffers[0] + y * columns, buffers[1], buffers[2], (float *)buffers[3] + y * columns, columns);
}
