// A kernel on one stream waits for a word that a host function on another stream stores.
#include "common.h"

extern "C" __global__ void poll_callback(volatile int *flag, int *out) {
    while (*flag == 0) {
    }
    *out = *flag + 1;
}

int main() {
    volatile int *flag = nullptr;
    int *device_flag = nullptr;
    CUDA_OK(cudaHostAlloc((void **)&flag, sizeof(int), cudaHostAllocMapped));
    *flag = 0;
    CUDA_OK(cudaHostGetDevicePointer((void **)&device_flag, (void *)flag, 0));
    Buffer<int> out(2);
    cudaStream_t waiting, calling;
    CUDA_OK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&calling, cudaStreamNonBlocking));
    CUDA_OK(cudaDeviceSynchronize());

    poll_callback<<<1, 1, 0, waiting>>>(device_flag, out.ptr());
    LAUNCH_OK();
    CUDA_OK(cudaLaunchHostFunc(
        calling, [](void *word) { *static_cast<volatile int *>(word) = 6; }, (void *)flag));
    CUDA_OK(cudaStreamSynchronize(waiting));
    CUDA_OK(cudaStreamSynchronize(calling));

    // The older function, cudaStreamAddCallback: the callback runs after earlier work and before later work of the
    // stream.
    *flag = 0;
    CUDA_OK(cudaStreamAddCallback(
        calling,
        [](cudaStream_t, cudaError_t status, void *word) {
            *static_cast<volatile int *>(word) = status == cudaSuccess ? 8 : -1;
        },
        (void *)flag, 0));
    poll_callback<<<1, 1, 0, calling>>>(device_flag, out.ptr() + 1);
    LAUNCH_OK();
    CUDA_OK(cudaStreamSynchronize(calling));

    Verdict verdict("poll_callback");
    verdict.equal("seen", out.get(), std::vector<int>{7, 9});
    CUDA_OK(cudaStreamDestroy(waiting));
    CUDA_OK(cudaStreamDestroy(calling));
    CUDA_OK(cudaFreeHost((void *)flag));
    return verdict.finish();
}
