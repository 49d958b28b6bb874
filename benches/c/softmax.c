// Softmax of each row. Buffers: in, out. Numbers: rows, columns.
const int phases = 1;

static void row(const float *restrict in, float *restrict out, int64_t columns) {
    float most = in[0], sum = 0;
    for (int64_t i = 1; i < columns; ++i)
        most = in[i] > most ? in[i] : most;
    for (int64_t i = 0; i < columns; ++i)
        sum += out[i] = expf(in[i] - most);
    float scale = 1 / sum;
    for (int64_t i = 0; i < columns; ++i)
        out[i] *= scale;
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    int64_t columns = numbers[1], end = begin(numbers[0], part + 1, parts);
    for (int64_t y = begin(numbers[0], part, parts); y < end; ++y)
        row((const float *)buffers[0] + y * columns, (float *)buffers[1] + y * columns, columns);
}
