// The square of a sparse matrix in compressed rows, row by row. Each row of the result has 64 places, of which the
// first ones contain the entries in the order of their columns. Buffers: starts, columns, values, numbers of entries
// of the result's rows, columns and values of the result. Numbers: rows.
#include <stdlib.h>

#define PLACES 64

const int phases = 1;

// The sums of one row of the result, by column. `rows[c]` is the row for which `sums[c]` was last used.
typedef struct {
    int64_t room;
    float *sums;
    int *rows;
} accumulator;

static int multiply(const int *starts, const int *columns, const float *values, int row, accumulator *to, int *found) {
    int count = 0;
    for (int k = starts[row]; k < starts[row + 1]; ++k)
        for (int j = starts[columns[k]]; j < starts[columns[k] + 1]; ++j) {
            int column = columns[j];
            if (to->rows[column] != row) {
                to->rows[column] = row;
                to->sums[column] = 0;
                found[count++] = column;
            }
            to->sums[column] += values[k] * values[j];
        }
    return count;
}

static void sort(int *values, int count) {
    for (int i = 1; i < count; ++i) {
        int value = values[i], to = i;
        for (; to > 0 && values[to - 1] > value; --to)
            values[to] = values[to - 1];
        values[to] = value;
    }
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    static accumulator all[MAX_PARTS];
    accumulator *own = &all[part];
    int64_t rows = numbers[0], end = begin(rows, part + 1, parts);
    if (own->room < rows) {
        own->sums = realloc(own->sums, rows * sizeof *own->sums);
        own->rows = realloc(own->rows, rows * sizeof *own->rows);
        own->room = rows;
    }
    memset(own->rows, 0xff, rows * sizeof *own->rows);
    for (int64_t row = begin(rows, part, parts); row < end; ++row) {
        int *counts = buffers[3], *columns = (int *)buffers[4] + row * PLACES;
        float *values = (float *)buffers[5] + row * PLACES;
        int count = counts[row] = multiply(buffers[0], buffers[1], buffers[2], row, own, columns);
        sort(columns, count);
        for (int i = 0; i < count; ++i)
            values[i] = own->sums[columns[i]];
        for (int i = count; i < PLACES; ++i)
            columns[i] = -1, values[i] = 0;
    }
}
