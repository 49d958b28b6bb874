// A kernel in one stream waits for a word that a copy in another stream writes, and then for a word that a memset
// writes.
#include "common.h"

extern "C" __global__ void poll_copy(volatile int *flags, int *out) {
    while (flags[0] == 0) {
    }
    out[0] = flags[0] + 1;
    while (flags[1] == 0)
        __nanosleep(1000);
    out[1] = flags[1];
}

int main() {
    int *word = nullptr;
    CUDA_OK(cudaMallocHost((void **)&word, sizeof(int)));
    *word = 99;
    Buffer<int> flags(2), out(2);
    flags.clear();
    cudaStream_t waiting, copying;
    CUDA_OK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&copying, cudaStreamNonBlocking));
    CUDA_OK(cudaDeviceSynchronize());

    poll_copy<<<1, 1, 0, waiting>>>(flags.ptr(), out.ptr());
    LAUNCH_OK();
    CUDA_OK(cudaMemcpyAsync(flags.ptr(), word, sizeof(int), cudaMemcpyHostToDevice, copying));
    CUDA_OK(cudaMemsetAsync(flags.ptr() + 1, 1, sizeof(int), copying));
    CUDA_OK(cudaStreamSynchronize(copying));
    CUDA_OK(cudaStreamSynchronize(waiting));

    Verdict verdict("poll_copy");
    verdict.equal("seen", out.get(), std::vector<int>{100, 0x01010101});
    CUDA_OK(cudaStreamDestroy(waiting));
    CUDA_OK(cudaStreamDestroy(copying));
    CUDA_OK(cudaFreeHost(word));
    return verdict.finish();
}
