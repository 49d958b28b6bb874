// Tests barriers over the whole grid: the barrier of cooperative groups in a cooperative launch, and a barrier that the
// kernel builds from atomics. Each block reads values that a neighbouring block stored in the previous phase.
#include "common.h"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int BLOCKS = 6, THREADS = 64, PHASES = 5;

extern "C" __global__ void grid_barrier_groups(int *a, int *b) {
    cg::grid_group grid = cg::this_grid();
    unsigned i = unsigned(grid.thread_rank()), n = unsigned(grid.size());
    a[i] = i;
    grid.sync();
    for (int phase = 0; phase < PHASES; ++phase) {
        int *from = phase % 2 ? b : a, *to = phase % 2 ? a : b;
        to[i] = from[(i + THREADS) % n] + from[(i + n - 1) % n] + phase;
        grid.sync();
    }
}

__device__ unsigned arrived;
__device__ volatile unsigned generation;

__device__ void barrier_by_hand() {
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned mine = generation;
        __threadfence();
        if (atomicAdd(&arrived, 1u) == gridDim.x - 1) {
            arrived = 0;
            __threadfence();
            generation = mine + 1;
        } else {
            while (generation == mine) {
            }
        }
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void grid_barrier_atomics(int *a, int *b) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    a[i] = i;
    barrier_by_hand();
    for (int phase = 0; phase < PHASES; ++phase) {
        volatile int *from = phase % 2 ? b : a;
        int *to = phase % 2 ? a : b;
        to[i] = from[(i + THREADS) % n] + from[(i + n - 1) % n] + phase;
        barrier_by_hand();
    }
}

int main() {
    const unsigned n = BLOCKS * THREADS;
    std::vector<int> from(n), to(n);
    for (unsigned i = 0; i < n; ++i)
        from[i] = int(i);
    for (int phase = 0; phase < PHASES; ++phase) {
        for (unsigned i = 0; i < n; ++i)
            to[i] = from[(i + THREADS) % n] + from[(i + n - 1) % n] + phase;
        std::swap(from, to);
    }
    Verdict verdict("grid_barrier");

    int device = 0, cooperative = 0, resident = 0;
    cudaDeviceProp properties;
    CUDA_OK(cudaGetDevice(&device));
    CUDA_OK(cudaGetDeviceProperties(&properties, device));
    CUDA_OK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device));
    verdict.equal("cooperative launch", cooperative, 1);
    CUDA_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, grid_barrier_groups, THREADS,
                                                          0));
    int capacity = resident * properties.multiProcessorCount;
    verdict.holds("the grid fits", capacity >= BLOCKS);

    Buffer<int> a(n), b(n), c(n), d(n);
    int *pa = a.ptr(), *pb = b.ptr();
    void *arguments[] = {&pa, &pb};
    CUDA_OK(cudaLaunchCooperativeKernel(grid_barrier_groups, dim3(BLOCKS), dim3(THREADS), arguments,
                                        0, nullptr));
    verdict.equal("groups", PHASES % 2 ? b.get() : a.get(), from);

    verdict.status("too large",
                   cudaLaunchCooperativeKernel(grid_barrier_groups, dim3(capacity + 1),
                                               dim3(THREADS), arguments, 0, nullptr),
                   cudaErrorCooperativeLaunchTooLarge);
    cudaGetLastError();

    grid_barrier_atomics<<<BLOCKS, THREADS>>>(c.ptr(), d.ptr());
    LAUNCH_OK();
    verdict.equal("atomics", PHASES % 2 ? d.get() : c.get(), from);
    return verdict.finish();
}
