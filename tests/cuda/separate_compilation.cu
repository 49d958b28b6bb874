// A program of two sources (-rdc=true), whose PTX is linked when the program loads it. Functions, a function pointer, a
// table of function pointers, global and constant variables and shared memory are in the other source.
#include "common.h"

extern __device__ int counter;
extern __constant__ float scale[4];
extern __device__ int twice(int x);
extern __device__ int factorial(int n);
typedef int (*Function)(int);
extern __device__ Function chosen;
extern __device__ Function table[3];
extern __device__ int sum_in_shared(int value);
extern __global__ void other_kernel(int *out, int term);

// Both sources define a static function with this name.
static __device__ int helper(int x) { return x + 1; }
extern __device__ int other_helper(int x);

__global__ void use(int *out, float *scaled) {
    int i = threadIdx.x;
    int value = twice(i) + chosen(i) + factorial(i % 6) + table[i % 3](i) + helper(i) * 100 + other_helper(i);
    out[i] = value;
    out[64 + i] = sum_in_shared(i);
    scaled[i] = scale[i % 4] * float(i);
    atomicAdd(&counter, i);
}

int main() {
    Buffer<int> out(128), other(64);
    Buffer<float> scaled(64);
    use<<<1, 64>>>(out.ptr(), scaled.ptr());
    LAUNCH_OK();
    other_kernel<<<2, 32>>>(other.ptr(), 9);
    LAUNCH_OK();
    const int factorials[] = {1, 1, 2, 6, 24, 120};
    std::vector<int> want(128), want_other(64);
    std::vector<float> want_scaled(64);
    for (int i = 0; i < 64; ++i) {
        int by_table = i % 3 == 0 ? 2 * i : i % 3 == 1 ? i * i : -i;
        want[i] = 2 * i + i * i + factorials[i % 6] + by_table + (i + 1) * 100 + (i - 1);
        want[64 + i] = 63 * 32;
        want_scaled[i] = (0.5f + float(i % 4)) * float(i);
        want_other[i] = 7 + 2016 + i * 9;
    }
    Verdict verdict("separate_compilation");
    verdict.equal("calls", out.get(), want);
    verdict.equal("constants", scaled.get(), want_scaled);
    verdict.equal("kernel of the other source", other.get(), want_other);
    return verdict.finish();
}
