// Tests functions that call themselves and each other. Each thread has its own stack, and the depth of recursion
// differs between lanes.
#include "common.h"

#include <algorithm>

__host__ __device__ int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__host__ __device__ int ackermann(int m, int n) {
    if (m == 0)
        return n + 1;
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

__host__ __device__ bool is_odd(int n);
__host__ __device__ bool is_even(int n) { return n == 0 || is_odd(n - 1); }
__host__ __device__ bool is_odd(int n) { return n != 0 && is_even(n - 1); }

__device__ void quicksort(int *values, int low, int high) {
    if (low >= high)
        return;
    int pivot = values[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (values[i] < pivot)
            ++i;
        while (values[j] > pivot)
            --j;
        if (i <= j) {
            int swap = values[i];
            values[i++] = values[j];
            values[j--] = swap;
        }
    }
    quicksort(values, low, j);
    quicksort(values, i, high);
}

// Counts the ways to place queens. The board is in local memory.
__host__ __device__ int queens(int *columns, int row, int size) {
    if (row == size)
        return 1;
    int ways = 0;
    for (int column = 0; column < size; ++column) {
        bool free = true;
        for (int above = 0; above < row; ++above) {
            int distance = columns[above] - column;
            free = free && distance != 0 && distance != row - above && distance != above - row;
        }
        if (free) {
            columns[row] = column;
            ways += queens(columns, row + 1, size);
        }
    }
    return ways;
}

extern "C" __global__ void recursion(int *out, int *lists, int length) {
    int i = threadIdx.x;
    int board[6];
    out[i * 4] = fibonacci(i % 12);
    out[i * 4 + 1] = ackermann(i % 3, i % 4);
    out[i * 4 + 2] = is_even(i) * 2 + is_odd(i);
    out[i * 4 + 3] = queens(board, 0, 1 + i % 6);
    quicksort(lists + i * length, 0, length - 1);
}

int main() {
    const int threads = 48, length = 40;
    std::vector<int> lists(threads * length), want(threads * 4);
    Random random(20);
    for (int &value : lists)
        value = int(random.below(1000));
    Buffer<int> dlists(lists), out(threads * 4);
    CUDA_OK(cudaDeviceSetLimit(cudaLimitStackSize, 16 << 10));
    recursion<<<1, threads>>>(out.ptr(), dlists.ptr(), length);
    LAUNCH_OK();
    for (int i = 0; i < threads; ++i) {
        int board[6];
        want[i * 4] = fibonacci(i % 12);
        want[i * 4 + 1] = ackermann(i % 3, i % 4);
        want[i * 4 + 2] = is_even(i) * 2 + is_odd(i);
        want[i * 4 + 3] = queens(board, 0, 1 + i % 6);
        std::sort(lists.begin() + i * length, lists.begin() + (i + 1) * length);
    }
    Verdict verdict("recursion");
    verdict.equal("values", out.get(), want);
    verdict.equal("lists", dlists.get(), lists);
    return verdict.finish();
}
