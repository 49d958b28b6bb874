// Tests variables of a module: constants and globals with and without initial values, structs, addresses in initial
// values, copies to and from symbols with offsets, and the addresses and sizes of symbols.
#include "common.h"

struct Settings {
    float scale;
    int offset;
    short pair[2];
};

__constant__ Settings settings = {1.5f, -7, {3, 4}};
__constant__ int weights[8];
__device__ int counters[4] = {10, 20, 30, 40};
__device__ const int primes[6] = {2, 3, 5, 7, 11, 13};
__device__ const int *middle = primes + 2;
__device__ double untouched;
__device__ char text[] = "margay";

extern "C" __global__ void constant_symbols(const int *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = settings.scale * in[i] + settings.offset + settings.pair[i % 2] +
                 weights[i % 8] * middle[i % 4];
    if (i < 4)
        atomicAdd(&counters[i], text[i]);
    if (i == 0)
        untouched += 2.5;
}

int main() {
    const int n = 100;
    std::vector<int> in(n);
    for (int i = 0; i < n; ++i)
        in[i] = i * 2 - 50;
    Verdict verdict("constant_symbols");
    auto run = [&](const char *what, const Settings &s, const int *w) {
        std::vector<float> want(n);
        const int from_five[4] = {5, 7, 11, 13};
        for (int i = 0; i < n; ++i)
            want[i] = s.scale * in[i] + s.offset + s.pair[i % 2] + w[i % 8] * from_five[i % 4];
        Buffer<int> din(in);
        Buffer<float> out(n);
        constant_symbols<<<2, 64>>>(din.ptr(), out.ptr(), n);
        LAUNCH_OK();
        verdict.equal(what, out.get(), want);
    };
    const int none[8] = {};
    run("initial values", Settings{1.5f, -7, {3, 4}}, none);

    // 64 threads of the first block and 36 of the second are active; threads 0 to 3 count.
    int counted[4], counters_want[4];
    for (int i = 0; i < 4; ++i)
        counters_want[i] = (i + 1) * 10 + "margay"[i];
    CUDA_OK(cudaMemcpyFromSymbol(counted, counters, sizeof counted));
    verdict.equal("counters", std::vector<int>(counted, counted + 4),
                  std::vector<int>(counters_want, counters_want + 4));
    double value = 0;
    CUDA_OK(cudaMemcpyFromSymbol(&value, untouched, sizeof value));
    verdict.equal("zero at first", value, 2.5);

    const int table[8] = {1, -2, 3, -4, 5, -6, 7, -8};
    CUDA_OK(cudaMemcpyToSymbol(weights, table, sizeof table));
    int offset = 100;
    CUDA_OK(cudaMemcpyToSymbol(settings, &offset, sizeof offset, offsetof(Settings, offset)));
    run("new values", Settings{1.5f, 100, {3, 4}}, table);

    int *address = nullptr;
    size_t bytes = 0;
    CUDA_OK(cudaGetSymbolAddress((void **)&address, counters));
    CUDA_OK(cudaGetSymbolSize(&bytes, counters));
    verdict.equal("size", bytes, sizeof counted);
    CUDA_OK(cudaMemcpy(address + 1, table, 2 * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpyFromSymbol(counted, counters, 2 * sizeof(int), sizeof(int)));
    verdict.equal("through the address", std::vector<int>(counted, counted + 2),
                  std::vector<int>{1, -2});
    verdict.status("past the end", cudaMemcpyToSymbol(weights, table, sizeof table, 4),
                   cudaErrorInvalidValue);
    return verdict.finish();
}
