// Tridiagonal systems of 256 equations each, solved by elimination (Thomas). Buffers: lower, diagonal and upper
// coefficients, right sides, solutions. Numbers: systems.
#define SIZE 256

const int phases = 1;

static void solve(const float *restrict lower, const float *restrict diagonal, const float *restrict upper,
                  const float *restrict right, float *restrict x) {
    float ratio[SIZE];
    float scale = 1 / diagonal[0];
    ratio[0] = upper[0] * scale;
    x[0] = right[0] * scale;
    for (int i = 1; i < SIZE; ++i) {
        scale = 1 / (diagonal[i] - lower[i] * ratio[i - 1]);
        ratio[i] = upper[i] * scale;
        x[i] = (right[i] - lower[i] * x[i - 1]) * scale;
    }
    for (int i = SIZE - 2; i >= 0; --i)
        x[i] -= ratio[i] * x[i + 1];
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *lower = buffers[0], *diagonal = buffers[1], *upper = buffers[2], *right = buffers[3];
    float *x = buffers[4];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t i = begin(numbers[0], part, parts); i < end; ++i) {
        int64_t at = i * SIZE;
        solve(lower + at, diagonal + at, upper + at, right + at, x + at);
    }
}
