// Tests assert in a kernel: a launch in which the condition holds, and a launch in which it fails. The failing launch
// ends with cudaErrorAssert, and a reset removes this error.
#include "common.h"

#include <cassert>

extern "C" __global__ void device_assert(int *out, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(i < limit);
    out[i] = i * 3;
}

int main() {
    Verdict verdict("device_assert");
    std::vector<int> want(64);
    for (int i = 0; i < 64; ++i)
        want[i] = i * 3;

    int *out = nullptr;
    std::vector<int> got(64);
    CUDA_OK(cudaMalloc((void **)&out, 64 * sizeof(int)));
    device_assert<<<2, 32>>>(out, 64);
    LAUNCH_OK();
    CUDA_OK(cudaMemcpy(got.data(), out, 64 * sizeof(int), cudaMemcpyDeviceToHost));
    verdict.equal("holds", got, want);

    device_assert<<<2, 32>>>(out, 40);
    LAUNCH_OK();
    verdict.status("synchronize", cudaDeviceSynchronize(), cudaErrorAssert);
    verdict.status("copy", cudaMemcpy(got.data(), out, sizeof(int), cudaMemcpyDeviceToHost),
                   cudaErrorAssert);
    verdict.status("malloc", cudaMalloc((void **)&out, 16), cudaErrorAssert);

    // The runtime library would keep the thread's last error after the reset, so this call clears it.
    verdict.status("last", cudaGetLastError(), cudaErrorAssert);
    CUDA_OK(cudaDeviceReset());
    Buffer<int> again(64);
    device_assert<<<2, 32>>>(again.ptr(), 64);
    LAUNCH_OK();
    verdict.equal("after the reset", again.get(), want);
    return verdict.finish();
}
