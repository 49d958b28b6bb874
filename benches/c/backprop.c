// A layer of a neural network: 16 hidden units, their errors, and the weights after a step. Buffers: inputs, weights
// (16 an input), steps before, targets, sums of the blocks of the kernel, hidden units, new weights. Numbers: inputs.
#define HIDDEN 16
#define RATE 0.3f
#define MOMENTUM 0.25f

static float sums[MAX_PARTS][HIDDEN];

const int phases = 3;

static void forward(const float *restrict in, const float (*restrict weights)[HIDDEN], int64_t n, float *restrict sum) {
    float own[HIDDEN] = {0};
    for (int64_t i = 0; i < n; ++i)
        for (int j = 0; j < HIDDEN; ++j)
            own[j] += in[i] * weights[i][j];
    memcpy(sum, own, sizeof own);
}

static void adjust(const float *restrict in, const float (*restrict weights)[HIDDEN],
                   const float (*restrict old)[HIDDEN], const float *restrict targets,
                   const float *restrict hidden, float (*restrict to)[HIDDEN], int64_t n) {
    float deltas[HIDDEN];
    for (int j = 0; j < HIDDEN; ++j)
        deltas[j] = RATE * hidden[j] * (1 - hidden[j]) * (targets[j] - hidden[j]);
    for (int64_t i = 0; i < n; ++i)
        for (int j = 0; j < HIDDEN; ++j)
            to[i][j] = weights[i][j] + deltas[j] * in[i] + MOMENTUM * old[i][j];
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const float *in = buffers[0], (*weights)[HIDDEN] = buffers[1], (*old)[HIDDEN] = buffers[2];
    float *hidden = buffers[5], (*to)[HIDDEN] = buffers[6];
    int64_t first = begin(numbers[0], part, parts), n = begin(numbers[0], part + 1, parts) - first;
    if (phase == 0)
        forward(in + first, weights + first, n, sums[part]);
    else if (phase == 2)
        adjust(in + first, weights + first, old + first, buffers[3], hidden, to + first, n);
    else if (part == 0)
        for (int j = 0; j < HIDDEN; ++j) {
            float sum = 0;
            for (int other = 0; other < parts; ++other)
                sum += sums[other][j];
            hidden[j] = 1 / (1 + expf(-sum));
        }
}
