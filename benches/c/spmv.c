// A sparse matrix in compressed rows times a vector. Buffers: starts, columns, values, x, y. Numbers: rows.
const int phases = 1;

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const int *restrict starts = buffers[0], *restrict columns = buffers[1];
    const double *restrict values = buffers[2], *restrict x = buffers[3];
    double *restrict y = buffers[4];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t row = begin(numbers[0], part, parts); row < end; ++row) {
        double sum = 0;
        for (int k = starts[row]; k < starts[row + 1]; ++k)
            sum += values[k] * x[columns[k]];
        y[row] = sum;
    }
}
