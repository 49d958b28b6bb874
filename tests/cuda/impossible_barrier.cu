// Barriers that can never complete: two warps wait at different barriers, or a lane does not reach a warp's barrier. A
// GPU hangs. Margay ends the launch with cudaErrorLaunchTimeout and reports where each thread waits.
#include "common.h"

extern "C" __global__ void different_barriers(int *out) {
    if (threadIdx.x < 32)
        asm volatile("barrier.sync 1, 64;" ::: "memory");
    else
        asm volatile("barrier.sync 2, 64;" ::: "memory");
    out[threadIdx.x] = 1;
}

extern "C" __global__ void missing_lane(int *out) {
    // Thread 3 never reaches the warp's barrier and has not exited: it waits at the block's barrier.
    if (threadIdx.x != 3)
        __syncwarp(0xffffffffu);
    __syncthreads();
    out[threadIdx.x] = 1;
}

extern "C" __global__ void matching_barriers(int *out) {
    // All threads use the two barriers in the same order.
    asm volatile("barrier.sync 1, 64;" ::: "memory");
    asm volatile("barrier.sync 2, 64;" ::: "memory");
    out[threadIdx.x] = 2;
}

int main() {
    Verdict verdict("impossible_barrier");
    void (*const kernels[])(int *) = {different_barriers, missing_lane};
    for (auto kernel : kernels) {
        int *out = nullptr;
        CUDA_OK(cudaMalloc((void **)&out, 64 * sizeof(int)));
        kernel<<<1, 64>>>(out);
        LAUNCH_OK();
        verdict.status("synchronize", cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
        CUDA_OK(cudaDeviceReset());
        cudaGetLastError(); // a reset does not clear the thread's last error
    }
    Buffer<int> out(64);
    matching_barriers<<<1, 64>>>(out.ptr());
    LAUNCH_OK();
    verdict.equal("after the reset", out.get(), std::vector<int>(64, 2));
    return verdict.finish();
}
