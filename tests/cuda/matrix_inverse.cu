// Computes the inverse and the determinant of a matrix in f64 by Gauss-Jordan elimination with pivots, in one launch of
// one block.
#include "common.h"

constexpr int N = 24;

// `work` contains the matrix and, to its right, the identity matrix: N rows of 2 * N columns. Each thread has a column.
extern "C" __global__ void matrix_inverse(const double *in, double *out, double *determinant) {
    __shared__ double work[N][2 * N];
    __shared__ double factor[N];
    __shared__ int pivot;
    int column = threadIdx.x;
    double product = 1.0;
    for (int row = 0; row < N; ++row)
        work[row][column] = column < N ? in[row * N + column] : column - N == row ? 1.0 : 0.0;
    __syncthreads();
    for (int step = 0; step < N; ++step) {
        if (column == 0) {
            pivot = step;
            for (int row = step + 1; row < N; ++row)
                if (fabs(work[row][step]) > fabs(work[pivot][step]))
                    pivot = row;
        }
        __syncthreads();
        if (pivot != step) {
            double swap = work[step][column];
            work[step][column] = work[pivot][column];
            work[pivot][column] = swap;
            product = -product;
        }
        __syncthreads();
        double head = work[step][step];
        product *= head;
        if (column < N)
            factor[column] = work[column][step];
        __syncthreads();
        double scaled = work[step][column] / head;
        work[step][column] = scaled;
        for (int row = 0; row < N; ++row)
            if (row != step)
                work[row][column] -= factor[row] * scaled;
        __syncthreads();
    }
    if (column >= N)
        for (int row = 0; row < N; ++row)
            out[row * N + column - N] = work[row][column];
    if (column == 0)
        *determinant = product;
}

int main() {
    std::vector<double> in(N * N), identity(N * N), product(N * N, 0.0);
    Random random(13);
    for (double &value : in)
        value = double(random.unit()) * 2.0 - 1.0;
    for (int i = 0; i < N; ++i) {
        identity[i * N + i] = 1.0;
        in[i * N + i] = i % 3 == 0 ? 0.0 : in[i * N + i]; // makes pivots necessary
    }
    Buffer<double> din(in), dout(N * N), ddet(1);
    matrix_inverse<<<1, 2 * N>>>(din.ptr(), dout.ptr(), ddet.ptr());
    LAUNCH_OK();
    std::vector<double> inverse = dout.get();
    for (int r = 0; r < N; ++r)
        for (int c = 0; c < N; ++c)
            for (int k = 0; k < N; ++k)
                product[r * N + c] += in[r * N + k] * inverse[k * N + c];

    // Computes the determinant on the CPU by elimination in long double.
    std::vector<long double> a(in.begin(), in.end());
    long double det = 1.0L;
    for (int step = 0; step < N; ++step) {
        int best = step;
        for (int row = step + 1; row < N; ++row)
            if (std::fabs(a[row * N + step]) > std::fabs(a[best * N + step]))
                best = row;
        if (best != step) {
            for (int c = 0; c < N; ++c)
                std::swap(a[step * N + c], a[best * N + c]);
            det = -det;
        }
        det *= a[step * N + step];
        for (int row = step + 1; row < N; ++row) {
            long double f = a[row * N + step] / a[step * N + step];
            for (int c = step; c < N; ++c)
                a[row * N + c] -= f * a[step * N + c];
        }
    }

    Verdict verdict("matrix_inverse");
    verdict.close("inverse", inverse, inverse, 0.0); // adds the device's bits to the hash
    verdict.close("matrix * inverse", product, identity, 1e-9);
    verdict.close("determinant", ddet.get(), std::vector<double>{double(det)}, 1e-9);
    return verdict.finish();
}
