// A kernel waits for a word that a kernel in another stream stores, which is launched later. Then two kernels increment
// a number in turns.
#include "common.h"

extern "C" __global__ void wait_for_word(volatile int *flag, int *out) {
    while (*flag == 0) {
    }
    __threadfence();
    out[threadIdx.x] = *flag + threadIdx.x;
}

extern "C" __global__ void store_word(volatile int *flag) {
    __threadfence();
    *flag = 1000;
}

// Increments the number each time it has the given parity.
extern "C" __global__ void ping_pong(volatile int *ball, int parity, int turns, int *played) {
    int count = 0;
    for (int turn = 0; turn < turns; ++turn) {
        while (*ball % 2 != parity) {
        }
        *ball = *ball + 1;
        __threadfence();
        ++count;
    }
    *played = count;
}

int main() {
    const int turns = 10;
    Buffer<int> flag(1), out(40), ball(1), played(2);
    flag.clear();
    ball.clear();
    cudaStream_t first, second;
    CUDA_OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CUDA_OK(cudaDeviceSynchronize());

    wait_for_word<<<1, 40, 0, first>>>(flag.ptr(), out.ptr());
    store_word<<<1, 1, 0, second>>>(flag.ptr());
    ping_pong<<<1, 1, 0, first>>>(ball.ptr(), 0, turns, played.ptr());
    ping_pong<<<1, 1, 0, second>>>(ball.ptr(), 1, turns, played.ptr() + 1);
    LAUNCH_OK();
    CUDA_OK(cudaStreamSynchronize(first));
    CUDA_OK(cudaStreamSynchronize(second));

    std::vector<int> want(40);
    for (int i = 0; i < 40; ++i)
        want[i] = 1000 + i;
    Verdict verdict("poll_kernel");
    verdict.equal("seen", out.get(), want);
    verdict.equal("played", played.get(), std::vector<int>{turns, turns});
    verdict.equal("ball", ball.get()[0], 2 * turns);
    CUDA_OK(cudaStreamDestroy(first));
    CUDA_OK(cudaStreamDestroy(second));
    return verdict.finish();
}
