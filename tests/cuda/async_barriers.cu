// Tests barriers and pipelines of libcu++, which are mbarriers in shared memory: a ring of buffers between producing
// and consuming warps, copies that arrive at a barrier when they are complete, threads that leave a barrier for good
// (arrive_and_drop), and waits by token and by parity.
#include "common.h"

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>

// `init` initialises the barriers of libcu++ in shared memory, so this warning does not apply.
#pragma nv_diag_suppress static_var_with_dynamic_init

namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int THREADS = 128, STAGES = 2, TILE = 64;

// Half of the threads fill the buffers. The other half sum the contents of the buffers.
__global__ void produce_and_consume(const int *from, int *sums, int tiles) {
    __shared__ int buffer[STAGES][TILE];
    __shared__ Barrier ready[STAGES], filled[STAGES];
    if (threadIdx.x < STAGES) {
        init(ready + threadIdx.x, THREADS);
        init(filled + threadIdx.x, THREADS);
    }
    __syncthreads();
    int me = threadIdx.x % TILE;
    if (threadIdx.x < TILE) {
        for (int tile = 0; tile < tiles; ++tile) {
            ready[tile % STAGES].arrive_and_wait();
            buffer[tile % STAGES][me] = from[tile * TILE + me];
            (void)filled[tile % STAGES].arrive();
        }
    } else {
        for (int stage = 0; stage < STAGES; ++stage)
            (void)ready[stage].arrive();
        int sum = 0;
        for (int tile = 0; tile < tiles; ++tile) {
            int stage = tile % STAGES;
            filled[stage].arrive_and_wait();
            sum += buffer[stage][me] * (tile + 1) + buffer[stage][TILE - 1 - me];
            (void)ready[stage].arrive();
        }
        sums[me] = sum;
    }
}

// A pipeline of two stages: the next tile is copied while the block uses the present tile.
__global__ void pipelined(const int *from, int *to, int tiles) {
    extern __shared__ int shared[];
    auto block = cg::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    auto pipeline = cuda::make_pipeline(block, &state);
    int next = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        for (; next < tiles && next < tile + STAGES; ++next) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, shared + (next % STAGES) * THREADS, from + next * THREADS,
                               cuda::aligned_size_t<16>(sizeof(int) * THREADS), pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        int mine = shared[(tile % STAGES) * THREADS + (threadIdx.x * 7) % THREADS];
        to[tile * THREADS + threadIdx.x] = mine * 3 + tile;
        pipeline.consumer_release();
    }
}

// The copy of a tile arrives at a barrier. Then, in each round, one warp leaves the barrier for good.
__global__ void dropping(const int *from, int *to) {
    __shared__ int tile[THREADS];
    __shared__ Barrier barrier;
    if (threadIdx.x == 0)
        init(&barrier, THREADS);
    __syncthreads();
    int warp = threadIdx.x / 32;
    cuda::memcpy_async(tile + threadIdx.x, from + threadIdx.x, cuda::aligned_size_t<4>(4), barrier);
    barrier.arrive_and_wait();
    for (int round = 0; round < 4; ++round) {
        atomicAdd(&tile[(threadIdx.x + round) % THREADS], 1 << (8 * round));
        if (warp == round) {
            barrier.arrive_and_drop();
            break;
        }
        barrier.arrive_and_wait();
        if (threadIdx.x == 32 * 3)
            for (int i = 0; i < THREADS; ++i)
                to[round * THREADS + i] = tile[i];
        barrier.arrive_and_wait();
    }
}

// All threads wait by the parity of the phase. Thread 0 makes both arrivals of each phase.
__global__ void parities(int *to, int phases) {
    __shared__ Barrier barrier;
    __shared__ int value;
    if (threadIdx.x == 0) {
        init(&barrier, 2);
        value = 1;
    }
    __syncthreads();
    int sum = 0;
    for (int phase = 0; phase < phases; ++phase) {
        if (threadIdx.x == 0) {
            value = value * 3 + phase;
            (void)barrier.arrive(2);
        }
        barrier.wait_parity(phase & 1);
        sum += value;
        __syncthreads();
    }
    to[threadIdx.x] = sum;
}

int main() {
    const int tiles = 9;
    Random random(11);
    std::vector<int> from(tiles * THREADS);
    for (int &value : from)
        value = int(random.below(100000));
    Buffer<int> input(from);
    Verdict verdict("async_barriers");

    Buffer<int> sums(TILE);
    produce_and_consume<<<1, THREADS>>>(input.ptr(), sums.ptr(), tiles);
    LAUNCH_OK();
    std::vector<int> want(TILE);
    for (int i = 0; i < TILE; ++i)
        for (int tile = 0; tile < tiles; ++tile)
            want[i] += from[tile * TILE + i] * (tile + 1) + from[tile * TILE + TILE - 1 - i];
    verdict.equal("producers and consumers", sums.get(), want);

    Buffer<int> to(tiles * THREADS);
    pipelined<<<1, THREADS, STAGES * THREADS * sizeof(int)>>>(input.ptr(), to.ptr(), tiles);
    LAUNCH_OK();
    want.assign(tiles * THREADS, 0);
    for (int tile = 0; tile < tiles; ++tile)
        for (int i = 0; i < THREADS; ++i)
            want[tile * THREADS + i] = from[tile * THREADS + i * 7 % THREADS] * 3 + tile;
    verdict.equal("pipeline", to.get(), want);

    Buffer<int> rounds(3 * THREADS);
    dropping<<<1, THREADS>>>(input.ptr(), rounds.ptr());
    LAUNCH_OK();
    std::vector<int> tile(from.begin(), from.begin() + THREADS);
    want.assign(3 * THREADS, 0);
    for (int round = 0; round < 3; ++round)
        for (int i = 0; i < THREADS; ++i) {
            int thread = (i - round + THREADS) % THREADS;
            tile[i] += thread / 32 >= round ? 1 << (8 * round) : 0;
            want[round * THREADS + i] = tile[i];
        }
    verdict.equal("dropping out", rounds.get(), want);

    Buffer<int> sums_of_phases(THREADS);
    parities<<<1, THREADS>>>(sums_of_phases.ptr(), 7);
    LAUNCH_OK();
    int value = 1, sum = 0;
    for (int phase = 0; phase < 7; ++phase)
        sum += value = value * 3 + phase;
    verdict.equal("parities", sums_of_phases.get(), std::vector<int>(THREADS, sum));
    return verdict.finish();
}
