// A sparse matrix in compressed rows times a vector. A work-item computes each row.
kernel void spmv_scalar(int rows, global const int *starts, global const int *columns, global const double *values,
                        global const double *x, global double *y) {
    int row = get_global_id(0);
    if (row >= rows)
        return;
    double sum = 0;
    for (int k = starts[row]; k < starts[row + 1]; ++k)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}
