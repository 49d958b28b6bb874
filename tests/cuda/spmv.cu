// Multiplies a sparse matrix (compressed rows) with a vector: with a thread for each row, and with a warp for each row
// and shuffles. Values are small integers in f64, so sums have the same bits in every order of addition.
#include "common.h"

extern "C" __global__ void spmv_scalar(int rows, const int *starts, const int *columns,
                                       const double *values, const double *x, double *y) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    double sum = 0;
    for (int k = starts[row]; k < starts[row + 1]; ++k)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}

extern "C" __global__ void spmv_warp(int rows, const int *starts, const int *columns,
                                     const double *__restrict__ values,
                                     const double *__restrict__ x, double *y) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    double sum = 0;
    for (int k = starts[row] + lane; k < starts[row + 1]; k += 32)
        sum += values[k] * x[columns[k]];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0)
        y[row] = sum;
}

int main() {
    const int rows = 301, columns = 200;
    std::vector<int> starts(1, 0), indices;
    std::vector<double> values, x(columns), want(rows);
    Random random(11);
    for (double &value : x)
        value = double(random.below(19)) - 9.0;
    for (int row = 0; row < rows; ++row) {
        int filled = row % 50 == 0 ? 120 : int(random.below(9));
        double sum = 0;
        for (int k = 0; k < filled; ++k) {
            indices.push_back(int(random.below(columns)));
            values.push_back(double(random.below(19)) - 9.0);
            sum += values.back() * x[indices.back()];
        }
        starts.push_back(int(indices.size()));
        want[row] = sum;
    }
    Buffer<int> dstarts(starts), dindices(indices);
    Buffer<double> dvalues(values), dx(x), scalar(rows), warp(rows);
    spmv_scalar<<<(rows + 127) / 128, 128>>>(rows, dstarts.ptr(), dindices.ptr(), dvalues.ptr(),
                                             dx.ptr(), scalar.ptr());
    spmv_warp<<<(rows * 32 + 127) / 128, 128>>>(rows, dstarts.ptr(), dindices.ptr(), dvalues.ptr(),
                                                dx.ptr(), warp.ptr());
    LAUNCH_OK();

    Verdict verdict("spmv");
    verdict.equal("scalar", scalar.get(), want);
    verdict.equal("warp", warp.get(), want);
    return verdict.finish();
}
