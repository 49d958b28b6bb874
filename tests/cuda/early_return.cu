// Threads that have returned do not delay a barrier that the other threads reach. In a block of 64 threads (two warps),
// the threads from number n on return at once. The program tests several n.
#include "common.h"

extern "C" __global__ void early_return(const int *in, int *out, int n) {
    __shared__ int values[64];
    int t = threadIdx.x;
    if (t >= n)
        return;
    values[t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    int mirrored = values[n - 1 - t];
    __syncthreads();
    values[t] = mirrored + 1;
    __syncthreads();
    out[blockIdx.x * 64 + t] = values[(t + 1) % n] * 10;
}

// The remaining threads loop around a barrier. In each iteration one more thread returns.
extern "C" __global__ void leave_one_by_one(int *out) {
    __shared__ int arrived;
    int t = threadIdx.x;
    if (t == 0)
        arrived = 0;
    __syncthreads();
    for (int turn = 0; turn < 64; ++turn) {
        if (turn == 63 - t) {
            out[t] = arrived;
            return;
        }
        __syncthreads();
        if (t == 0)
            ++arrived;
        __syncthreads();
    }
}

int main() {
    const int blocks = 3;
    std::vector<int> in(blocks * 64);
    for (size_t i = 0; i < in.size(); ++i)
        in[i] = int(i * i % 1009);
    Buffer<int> din(in);
    Verdict verdict("early_return");
    int sentinel;
    std::memset(&sentinel, SENTINEL_BYTE, sizeof sentinel);

    for (int n : {1, 20, 32, 33, 50, 63, 64}) {
        std::vector<int> want(blocks * 64, sentinel);
        for (int block = 0; block < blocks; ++block)
            for (int t = 0; t < n; ++t)
                want[block * 64 + t] = (in[block * 64 + n - 1 - (t + 1) % n] + 1) * 10;
        Buffer<int> out(blocks * 64);
        early_return<<<blocks, 64>>>(din.ptr(), out.ptr(), n);
        LAUNCH_OK();
        verdict.equal("values", out.get(), want);
    }

    std::vector<int> turns(64);
    for (int t = 0; t < 64; ++t)
        turns[t] = 63 - t;
    Buffer<int> left(64);
    leave_one_by_one<<<1, 64>>>(left.ptr());
    LAUNCH_OK();
    verdict.equal("turns", left.get(), turns);
    return verdict.finish();
}
