// Tests shared memory whose size the launch specifies: several arrays in it beside a static array, more than 48 KiB
// after an opt-in, and a launch that requests too much.
#include "common.h"

extern __shared__ unsigned char dynamic[];

// The dynamic shared memory contains an array of doubles, then one of ints, then one of bytes.
extern "C" __global__ void carve(const int *in, double *out, int n) {
    __shared__ int fixed[32];
    double *doubles = reinterpret_cast<double *>(dynamic);
    int *ints = reinterpret_cast<int *>(doubles + n);
    unsigned char *bytes = reinterpret_cast<unsigned char *>(ints + n);
    int t = threadIdx.x;
    if (t < 32)
        fixed[t] = t * 1000;
    if (t < n) {
        ints[t] = in[t];
        doubles[t] = in[t] * 0.5;
        bytes[t] = (unsigned char)(in[t]);
    }
    __syncthreads();
    if (t < n)
        out[t] = doubles[n - 1 - t] + ints[(t + 1) % n] + bytes[(t + 2) % n] + fixed[t % 32];
}

// Writes and reads the first and the last word of the dynamic shared memory, and reads its size.
extern "C" __global__ void touch_ends(int *out, int words) {
    int *all = reinterpret_cast<int *>(dynamic);
    unsigned given;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(given));
    if (threadIdx.x == 0) {
        all[0] = 11;
        all[words - 1] = 22;
    }
    __syncthreads();
    if (threadIdx.x == 1) {
        out[0] = all[0];
        out[1] = all[words - 1];
        out[2] = int(given);
    }
}

int main() {
    const int n = 77;
    std::vector<int> in(n);
    std::vector<double> want(n);
    for (int i = 0; i < n; ++i)
        in[i] = i * 5 - 100;
    for (int i = 0; i < n; ++i)
        want[i] = in[n - 1 - i] * 0.5 + in[(i + 1) % n] + (unsigned char)(in[(i + 2) % n]) +
                  i % 32 * 1000;
    Verdict verdict("dynamic_shared");
    Buffer<int> din(in);
    Buffer<double> out(n);
    carve<<<1, 96, n * (sizeof(double) + sizeof(int) + 1)>>>(din.ptr(), out.ptr(), n);
    LAUNCH_OK();
    verdict.equal("carved", out.get(), want);

    Buffer<int> ends(3);
    const int small = 16 << 10, large = 64 << 10;
    touch_ends<<<2, 32, small>>>(ends.ptr(), small / 4);
    LAUNCH_OK();
    verdict.equal("16 KiB", ends.get(), std::vector<int>{11, 22, small});

    touch_ends<<<1, 32, large>>>(ends.ptr(), large / 4);
    verdict.status("64 KiB without asking", cudaGetLastError(), cudaErrorInvalidValue);
    CUDA_OK(cudaFuncSetAttribute(touch_ends, cudaFuncAttributeMaxDynamicSharedMemorySize, large));
    touch_ends<<<1, 32, large>>>(ends.ptr(), large / 4);
    LAUNCH_OK();
    verdict.equal("64 KiB", ends.get(), std::vector<int>{11, 22, large});
    return verdict.finish();
}
