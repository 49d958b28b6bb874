// A kernel that reads 1 MiB past its buffer ends with cudaErrorIllegalAddress. This error is sticky until a reset, and
// then the process continues. A store through a null pointer has the same effect.
#include "common.h"

extern "C" __global__ void read_past(const int *in, int *out, size_t offset) {
    int i = threadIdx.x;
    out[i] = in[i + (i == 5 ? offset : 0)];
}

extern "C" __global__ void store_null(int *out) { out[threadIdx.x] = 1; }

// Checks a launch without a fault in a fresh context.
static void works(Verdict &verdict, const char *what) {
    std::vector<int> values(32);
    for (int i = 0; i < 32; ++i)
        values[i] = i * i;
    Buffer<int> in(values), out(32);
    read_past<<<1, 32>>>(in.ptr(), out.ptr(), 0);
    LAUNCH_OK();
    verdict.equal(what, out.get(), values);
}

int main() {
    Verdict verdict("illegal_address");
    works(verdict, "before");

    int *in = nullptr, *out = nullptr, word = 0;
    CUDA_OK(cudaMalloc((void **)&in, 4096));
    CUDA_OK(cudaMalloc((void **)&out, 4096));
    read_past<<<1, 32>>>(in, out, (1 << 20) / sizeof(int));
    verdict.status("launch", cudaGetLastError(), cudaSuccess);
    verdict.status("synchronize", cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    verdict.status("copy", cudaMemcpy(&word, out, sizeof word, cudaMemcpyDeviceToHost),
                   cudaErrorIllegalAddress);
    read_past<<<1, 32>>>(in, out, 0);
    verdict.status("next launch", cudaGetLastError(), cudaErrorIllegalAddress);
    CUDA_OK(cudaDeviceReset());
    works(verdict, "after the reset");

    store_null<<<1, 32>>>(nullptr);
    verdict.status("null", cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    verdict.status("last", cudaGetLastError(), cudaErrorIllegalAddress);
    CUDA_OK(cudaDeviceReset());
    works(verdict, "after null");
    return verdict.finish();
}
