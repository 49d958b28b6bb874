// Tests CUB: radix sort of an array (several passes, pairs, descending order, part of the bits), reduction, scan,
// run-length encoding and histogram. A kernel of this file tests the sort, scan and reduction within a block.
#include "common.h"

#include <algorithm>
#include <numeric>

#include <cub/cub.cuh>

constexpr int THREADS = 64, ITEMS = 4;

// One block sorts the keys, and stores them with their prefix sums and their sum.
extern "C" __global__ void block_primitives(const int *in, int *sorted, int *running, int *total) {
    using Sort = cub::BlockRadixSort<int, THREADS, ITEMS>;
    using Scan = cub::BlockScan<int, THREADS>;
    using Reduce = cub::BlockReduce<int, THREADS>;
    __shared__ union {
        typename Sort::TempStorage sort;
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
    } storage;
    int base = threadIdx.x * ITEMS, items[ITEMS], sums[ITEMS], sum = 0;
    for (int i = 0; i < ITEMS; ++i)
        items[i] = in[base + i];
    Sort(storage.sort).Sort(items);
    __syncthreads();
    Scan(storage.scan).InclusiveSum(items, sums);
    __syncthreads();
    for (int i = 0; i < ITEMS; ++i) {
        sorted[base + i] = items[i];
        running[base + i] = sums[i];
        sum += items[i];
    }
    sum = Reduce(storage.reduce).Sum(sum);
    if (threadIdx.x == 0)
        *total = sum;
}

// Requests the size of the temporary memory, allocates it, and makes the call.
template <class Call> static void with_storage(Call call) {
    size_t bytes = 0;
    CUDA_OK(call(static_cast<void *>(nullptr), bytes));
    Buffer<unsigned char> storage(bytes ? bytes : 1);
    CUDA_OK(call(static_cast<void *>(storage.ptr()), bytes));
    CUDA_OK(cudaDeviceSynchronize());
}

int main() {
    const int n = 5000;
    std::vector<unsigned> keys(n);
    std::vector<int> values(n);
    Random random(18);
    for (int i = 0; i < n; ++i) {
        keys[i] = random.next();
        values[i] = i;
    }
    Buffer<unsigned> in(keys), out(n);
    Buffer<int> vin(values), vout(n);
    Verdict verdict("cub_sort");

    with_storage([&](void *storage, size_t &bytes) {
        return cub::DeviceRadixSort::SortPairs(storage, bytes, in.ptr(), out.ptr(), vin.ptr(),
                                               vout.ptr(), n);
    });
    std::vector<int> order(values);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
    verdict.equal("pairs", vout.get(), order);

    with_storage([&](void *storage, size_t &bytes) {
        return cub::DeviceRadixSort::SortKeysDescending(storage, bytes, in.ptr(), out.ptr(), n, 8,
                                                        20);
    });
    std::vector<unsigned> part(keys);
    std::stable_sort(part.begin(), part.end(), [](unsigned a, unsigned b) {
        return (a >> 8 & 0xfff) > (b >> 8 & 0xfff);
    });
    verdict.equal("descending bits 8 to 19", out.get(), part);

    Buffer<unsigned> sum(1), scanned(n);
    with_storage([&](void *storage, size_t &bytes) {
        return cub::DeviceReduce::Sum(storage, bytes, in.ptr(), sum.ptr(), n);
    });
    verdict.equal("sum", sum.get()[0], std::accumulate(keys.begin(), keys.end(), 0u));
    with_storage([&](void *storage, size_t &bytes) {
        return cub::DeviceScan::ExclusiveSum(storage, bytes, in.ptr(), scanned.ptr(), n);
    });
    std::vector<unsigned> running(n, 0);
    for (int i = 1; i < n; ++i)
        running[i] = running[i - 1] + keys[i - 1];
    verdict.equal("exclusive sum", scanned.get(), running);

    std::vector<unsigned> levels(n);
    for (int i = 0; i < n; ++i)
        levels[i] = keys[i] % 16;
    std::vector<int> bars(16, 0);
    for (unsigned level : levels)
        ++bars[level];
    Buffer<unsigned> dlevels(levels);
    Buffer<int> dbars(16);
    with_storage([&](void *storage, size_t &bytes) {
        return cub::DeviceHistogram::HistogramEven(storage, bytes, dlevels.ptr(), dbars.ptr(), 17,
                                                   0u, 16u, n);
    });
    verdict.equal("histogram", dbars.get(), bars);

    std::sort(levels.begin(), levels.end());
    dlevels.put(levels);
    Buffer<unsigned> unique(16);
    Buffer<int> lengths(16), runs(1);
    with_storage([&](void *storage, size_t &bytes) {
        return cub::DeviceRunLengthEncode::Encode(storage, bytes, dlevels.ptr(), unique.ptr(),
                                                  lengths.ptr(), runs.ptr(), n);
    });
    verdict.equal("runs", runs.get()[0], 16);
    verdict.equal("run lengths", lengths.get(), bars);

    const int count = THREADS * ITEMS;
    std::vector<int> block(count), sums(count);
    for (int &value : block)
        value = int(random.below(2001)) - 1000;
    Buffer<int> bin(block), bsorted(count), brunning(count), btotal(1);
    block_primitives<<<1, THREADS>>>(bin.ptr(), bsorted.ptr(), brunning.ptr(), btotal.ptr());
    LAUNCH_OK();
    std::sort(block.begin(), block.end());
    std::partial_sum(block.begin(), block.end(), sums.begin());
    verdict.equal("block sort", bsorted.get(), block);
    verdict.equal("block scan", brunning.get(), sums);
    verdict.equal("block sum", btotal.get()[0], sums.back());
    return verdict.finish();
}
