// Kernels that never end by themselves. A time limit, a reset, or Ctrl-C ends them.
//   endless_loop wait poll|count   waits for the kernel; expects cudaErrorLaunchTimeout
//   endless_loop reset poll|count  resets the device while the kernel runs
// The kernel of `poll` waits for a word that no thread stores; the kernel of `count` only computes.
#include "common.h"

#include <chrono>
#include <thread>

extern "C" __global__ void endless_poll(volatile int *flag) {
    while (flag[0] == 0) {
    }
    flag[1] = 1;
}

extern "C" __global__ void endless_count(unsigned *out, unsigned step) {
    unsigned value = threadIdx.x * 2;
    // The value is always even, so it never becomes 1. The compiler does not know this, because it does not know
    // `step`.
    while (value != 1u)
        value = value * 5u + step;
    *out = value;
}

extern "C" __global__ void well_behaved(int *out) { out[threadIdx.x] = threadIdx.x + 1; }

int main(int count, char **arguments) {
    bool reset = count > 1 && std::strcmp(arguments[1], "reset") == 0;
    bool poll = count < 3 || std::strcmp(arguments[2], "poll") == 0;
    Verdict verdict("endless_loop");

    int *words = nullptr;
    CUDA_OK(cudaMalloc((void **)&words, 2 * sizeof(int)));
    CUDA_OK(cudaMemset(words, 0, 2 * sizeof(int)));
    CUDA_OK(cudaDeviceSynchronize());
    if (poll)
        endless_poll<<<2, 64>>>(words);
    else
        endless_count<<<2, 64>>>(reinterpret_cast<unsigned *>(words), 2u);
    LAUNCH_OK();
    std::printf("READY\n");
    std::fflush(stdout);
    if (reset) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        verdict.status("query", cudaStreamQuery(nullptr), cudaErrorNotReady);
    } else {
        verdict.status("synchronize", cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
    }
    CUDA_OK(cudaDeviceReset());
    cudaGetLastError(); // a reset does not clear the thread's last error

    std::vector<int> want(32);
    for (int i = 0; i < 32; ++i)
        want[i] = i + 1;
    Buffer<int> out(32);
    well_behaved<<<1, 32>>>(out.ptr());
    LAUNCH_OK();
    verdict.equal("after the reset", out.get(), want);
    return verdict.finish();
}
