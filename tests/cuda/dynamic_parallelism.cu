// Tests kernels that launch kernels (CDP2): a quicksort that recurses in two streams, the order of the default stream
// of a block, streams with an event, fire-and-forget launches, tail launches, copies and fills, and the errors that
// device code receives.
#include "common.h"

#include <algorithm>

constexpr int SORTED = 3000, SMALL = 48, STEPS = 6, THREADS = 64;

__device__ void insertion_sort(int *values, int count) {
    for (int i = 1; i < count; ++i) {
        int value = values[i], at = i;
        for (; at > 0 && values[at - 1] > value; --at)
            values[at] = values[at - 1];
        values[at] = value;
    }
}

__global__ void quicksort(int *values, int count, int depth) {
    if (count <= SMALL || depth >= 16) {
        insertion_sort(values, count);
        return;
    }
    int pivot = values[count / 2], low = 0, high = count - 1;
    while (low <= high) {
        while (values[low] < pivot)
            ++low;
        while (values[high] > pivot)
            --high;
        if (low <= high) {
            int kept = values[low];
            values[low++] = values[high];
            values[high--] = kept;
        }
    }
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (high > 0)
        quicksort<<<1, 1, 0, stream>>>(values, high + 1, depth + 1);
    cudaStreamDestroy(stream);
    if (low < count - 1)
        quicksort<<<1, 1>>>(values + low, count - low, depth + 1);
}

// Computes out[i] = out[i] * factor + term + i, so the result depends on the order of the steps.
__global__ void step(unsigned *out, unsigned factor, unsigned term) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = out[i] * factor + term + i;
}

__global__ void in_order(unsigned *out, unsigned steps) {
    if (threadIdx.x != 0)
        return;
    unsigned *mine = out + blockIdx.x * 2 * THREADS;
    cudaMemsetAsync(mine, 0, 2 * THREADS * sizeof(unsigned), 0);
    for (unsigned i = 1; i <= steps; ++i)
        step<<<2, THREADS>>>(mine, 3, i);
}

// The second stream waits for an event that the first stream records.
__global__ void with_events(unsigned *out, unsigned *copy) {
    cudaStream_t first, second;
    cudaEvent_t event;
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaMemsetAsync(out, 0, THREADS * sizeof(unsigned), first);
    for (unsigned i = 1; i <= 20; ++i)
        step<<<1, THREADS, 0, first>>>(out, 5, i);
    cudaEventRecord(event, first);
    cudaStreamWaitEvent(second, event, 0);
    cudaMemcpyAsync(copy, out, THREADS * sizeof(unsigned), cudaMemcpyDeviceToDevice, second);
    cudaMemcpy2DAsync(copy + THREADS, 8 * sizeof(unsigned), out, 16 * sizeof(unsigned), 8 * sizeof(unsigned), 4,
                      cudaMemcpyDeviceToDevice, second);
    step<<<1, THREADS, 0, second>>>(copy, 7, 1);
    cudaEventDestroy(event);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
}

__global__ void slow_sum(unsigned *sum, unsigned turns) {
    unsigned value = 0;
    for (unsigned i = 0; i < turns; ++i)
        value += i ^ (value >> 3);
    atomicAdd(sum, value | 1u);
}

__global__ void snapshot(const unsigned *sum, unsigned *seen, unsigned at) { seen[at] = *sum; }

// A tail launch begins when all other launches of the grid are complete. Tail launches run one after another.
__global__ void tail(unsigned *sum, unsigned *seen) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        snapshot<<<1, 1, 0, cudaStreamTailLaunch>>>(sum, seen, 0);
        step<<<1, 1, 0, cudaStreamTailLaunch>>>(sum, 2, 1);
        snapshot<<<1, 1, 0, cudaStreamTailLaunch>>>(sum, seen, 1);
    }
    if (threadIdx.x == 0)
        slow_sum<<<1, 32, 0, cudaStreamFireAndForget>>>(sum, 20000);
    slow_sum<<<1, 1>>>(sum, 1000);
}

__global__ void empty() {}

// Launches nest up to a depth of 24. The next launch is an error.
__global__ void nest(unsigned *deepest, int *error, unsigned depth) {
    *deepest = depth;
    nest<<<1, 1>>>(deepest, error, depth + 1);
    cudaError_t last = cudaGetLastError();
    if (last != cudaSuccess)
        *error = last;
}

__global__ void told(int *out) {
    int n = 0;
    empty<<<1, 2000>>>();
    out[n++] = cudaPeekAtLastError();
    out[n++] = cudaGetLastError();
    out[n++] = cudaGetLastError();
    empty<<<0, 1>>>();
    out[n++] = cudaGetLastError();
    cudaStream_t stream;
    out[n++] = cudaStreamCreateWithFlags(&stream, cudaStreamDefault);
    out[n++] = cudaStreamDestroy((cudaStream_t)0x12345678);
    out[n++] = cudaMemcpyAsync(out, out, 4, cudaMemcpyHostToDevice, 0);
    void *memory = nullptr;
    out[n++] = cudaMalloc(&memory, 1000);
    out[n++] = memory != nullptr;
    out[n++] = cudaFree(memory);
    out[n++] = cudaMalloc(&memory, size_t(1) << 40);
    int value = -1;
    out[n++] = cudaGetDeviceCount(&value);
    out[n++] = value >= 1;
    out[n++] = cudaGetDevice(&value);
    out[n++] = value;
    out[n++] = cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0);
    out[n++] = value;
    out[n++] = cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 77);
    cudaFuncAttributes attributes;
    out[n++] = cudaFuncGetAttributes(&attributes, (const void *)empty);
    out[n++] = attributes.maxThreadsPerBlock;
    out[n++] = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, (const void *)empty, 1024, 0);
    out[n++] = value;
    const char *name = cudaGetErrorName(cudaErrorInvalidValue);
    out[n++] = name[0] == 'c' && name[9] == 'I';
    out[n] = -1;
}

static unsigned after_steps(unsigned start, unsigned steps, unsigned factor, unsigned i) {
    for (unsigned step = 1; step <= steps; ++step)
        start = start * factor + step + i;
    return start;
}

int main() {
    Verdict verdict("dynamic_parallelism");

    std::vector<int> values(SORTED);
    Random random(5);
    for (int &value : values)
        value = int(random.below(4001)) - 2000;
    Buffer<int> sorted(values);
    quicksort<<<1, 1>>>(sorted.ptr(), SORTED, 0);
    LAUNCH_OK();
    std::sort(values.begin(), values.end());
    verdict.equal("quicksort", sorted.get(), values);

    Buffer<unsigned> ordered(2 * THREADS * 4);
    in_order<<<4, 32>>>(ordered.ptr(), STEPS);
    LAUNCH_OK();
    std::vector<unsigned> steps(ordered.size());
    for (unsigned i = 0; i < steps.size(); ++i)
        steps[i] = after_steps(0, STEPS, 3, i % (2 * THREADS));
    verdict.equal("stream of a block", ordered.get(), steps);

    Buffer<unsigned> out(THREADS), copy(2 * THREADS);
    with_events<<<1, 1>>>(out.ptr(), copy.ptr());
    LAUNCH_OK();
    std::vector<unsigned> stepped(THREADS), rows(32);
    for (unsigned i = 0; i < THREADS; ++i)
        stepped[i] = after_steps(0, 20, 5, i) * 7 + 1 + i;
    for (unsigned i = 0; i < 32; ++i)
        rows[i] = after_steps(0, 20, 5, i / 8 * 16 + i % 8);
    std::vector<unsigned> copied = copy.get();
    copied.resize(THREADS + 32);
    verdict.equal("streams and events", std::vector<unsigned>(copied.begin(), copied.begin() + THREADS), stepped);
    verdict.equal("rows", std::vector<unsigned>(copied.begin() + THREADS, copied.end()), rows);

    Buffer<unsigned> sum(std::vector<unsigned>(1, 0)), seen(2);
    tail<<<8, 32>>>(sum.ptr(), seen.ptr());
    LAUNCH_OK();
    unsigned slow = 0, fast = 0;
    for (unsigned i = 0; i < 20000; ++i)
        slow += i ^ (slow >> 3);
    for (unsigned i = 0; i < 1000; ++i)
        fast += i ^ (fast >> 3);
    unsigned total = 8 * 32 * (slow | 1u) + 8 * 32 * (fast | 1u);
    verdict.equal("tail launches", seen.get(), {total, total * 2 + 1});

    Buffer<unsigned> deepest(1);
    Buffer<int> error(1);
    nest<<<1, 1>>>(deepest.ptr(), error.ptr(), 0);
    LAUNCH_OK();
    verdict.equal("depth", deepest.get(), {24});
    verdict.equal("error of the deepest", error.get(), {int(cudaErrorLaunchMaxDepthExceeded)});

    Buffer<int> codes(64);
    told<<<1, 1>>>(codes.ptr());
    LAUNCH_OK();
    cudaFuncAttributes attributes;
    int resident = 0;
    CUDA_OK(cudaFuncGetAttributes(&attributes, empty));
    CUDA_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, empty, 1024, 0));
    const std::vector<int> wanted = {
        cudaErrorInvalidConfiguration,
        cudaErrorInvalidConfiguration,
        cudaSuccess,
        cudaErrorInvalidConfiguration,
        cudaErrorInvalidValue,
        cudaErrorInvalidResourceHandle,
        cudaErrorInvalidMemcpyDirection,
        cudaSuccess,
        1,
        cudaSuccess,
        cudaErrorMemoryAllocation,
        cudaSuccess,
        1,
        cudaSuccess,
        0,
        cudaSuccess,
        32,
        cudaErrorInvalidDevice,
        cudaSuccess,
        attributes.maxThreadsPerBlock,
        cudaSuccess,
        resident,
        1,
        -1,
    };
    std::vector<int> answers = codes.get();
    answers.resize(wanted.size());
    verdict.equal("answers", answers, wanted);
    return verdict.finish();
}
