// Tests printf in a kernel: conversions of each kind, widths, strings, the order of a thread's output, and the returned
// number. The manifest lists the lines that must appear.
#include "common.h"

extern "C" __global__ void device_printf(int *results, const char *word) {
    int i = threadIdx.x;
    results[i] = printf("thread %d of block %u: %5.2f|%-6d|%06x|%c|%s|%%\n", i, blockIdx.x,
                        i * 0.25, i * 11, 0xbeef + i, 'a' + i, "text");
    if (i == 0) {
        printf("wide %lld %llu %#llx %+d %e\n", -1234567890123ll, 18446744073709551615ull,
               0x123456789abcdefull, 7, 12345.678);
        printf("word %s star %*d|%.3f\n", word, 6, 42, 3.14159265);
        results[4] = printf("no arguments\n");
        // Prints one string in pieces, which must appear in order.
        for (int k = 0; k < 3; ++k)
            printf("<%d>", k);
        printf("\n");
    }
}

int main() {
    std::vector<char> text = {'d', 'e', 'v', 'i', 'c', 'e', 0};
    Buffer<char> word(text);
    Buffer<int> results(5);
    device_printf<<<1, 4>>>(results.ptr(), word.ptr());
    LAUNCH_OK();
    CUDA_OK(cudaDeviceSynchronize());

    Verdict verdict("device_printf");
    verdict.equal("arguments", results.get(), std::vector<int>{7, 7, 7, 7, 0});
    size_t bytes = 0;
    CUDA_OK(cudaDeviceGetLimit(&bytes, cudaLimitPrintfFifoSize));
    verdict.holds("the buffer has a size", bytes > 0);
    return verdict.finish();
}
