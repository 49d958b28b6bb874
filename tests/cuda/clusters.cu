// Tests clusters of blocks: a histogram that is distributed over the shared memories of a cluster's blocks, a ring in
// which each block reads the values of the previous block, and cluster shapes that the kernel or the launch specifies.
#include "common.h"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int THREADS = 128, BINS = 64;

// Each block contains BINS bins of the cluster's histogram, which has cluster.num_blocks() * BINS bins.
__global__ void histogram(const unsigned *values, int count, unsigned *bins) {
    __shared__ unsigned mine[BINS];
    auto cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < BINS; i += THREADS)
        mine[i] = 0;
    cluster.sync();
    int all = BINS * cluster.num_blocks();
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) {
        int bin = values[i] % all;
        unsigned *there = cluster.map_shared_rank(mine, bin / BINS);
        atomicAdd(there + bin % BINS, 1u);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < BINS; i += THREADS)
        atomicAdd(bins + cluster.block_rank() * BINS + i, mine[i]);
}

// In each round, a block reads the values that the previous block of the cluster stored in the round before.
__global__ void __cluster_dims__(2, 2, 1) ring(int *sums, int rounds) {
    __shared__ int cell[2][THREADS];
    auto cluster = cg::this_cluster();
    int me = threadIdx.x, block = blockIdx.y * gridDim.x + blockIdx.x;
    cell[0][me] = block * 1000 + me;
    int blocks = cluster.num_blocks();
    int before = (cluster.block_rank() + blocks - 1) % blocks;
    for (int round = 0; round < rounds; ++round) {
        cluster.sync();
        const int *theirs = cluster.map_shared_rank(&cell[round % 2][0], before);
        cell[1 - round % 2][me] = theirs[(me + 1) % THREADS] * 3 + round;
    }
    auto token = cluster.barrier_arrive();
    int last = cell[rounds % 2][me];
    if (cluster.query_shared_rank(&cell[0][0]) != cluster.block_rank())
        last = -1;
    cluster.barrier_wait(std::move(token));
    sums[block * THREADS + me] = last;
}

// The blocks of a cluster wait for their turn, from the last block to the first. The turn is a word in the shared
// memory of the block with rank 0.
__global__ void hand_over(unsigned *order) {
    __shared__ volatile unsigned turn;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0)
        turn = 0;
    cluster.sync();
    if (threadIdx.x == 0) {
        volatile unsigned *first = (volatile unsigned *)cluster.map_shared_rank((unsigned *)&turn, 0);
        unsigned mine = cluster.num_blocks() - 1 - cluster.block_rank();
        while (*first != mine) {
        }
        order[blockIdx.x] = *first;
        __threadfence();
        *first = mine + 1;
    }
    cluster.sync();
}

template <class... Arguments>
static void launch(dim3 grid, unsigned cluster, void (*kernel)(Arguments...), Arguments... arguments) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(THREADS);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CUDA_OK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

int main() {
    Verdict verdict("clusters");
    const int count = 20000;
    std::vector<unsigned> values(count);
    Random random(11);
    for (auto &value : values)
        value = random.next();
    Buffer<unsigned> from(values);
    for (unsigned size : {1u, 2u, 4u, 8u}) {
        int all = BINS * size;
        Buffer<unsigned> bins(all);
        bins.clear();
        launch(dim3(16), size, histogram, (const unsigned *)from.ptr(), count, bins.ptr());
        std::vector<unsigned> expected(all, 0);
        for (unsigned value : values)
            ++expected[value % all];
        verdict.equal("bins", bins.get(), expected);
    }
    {
        const int rounds = 7, across = 4, down = 2, blocks = across * down;
        Buffer<int> sums(blocks * THREADS);
        ring<<<dim3(across, down), THREADS>>>(sums.ptr(), rounds);
        LAUNCH_OK();
        std::vector<int> now(blocks * THREADS), next(blocks * THREADS);
        for (int i = 0; i < blocks * THREADS; ++i)
            now[i] = i / THREADS * 1000 + i % THREADS;
        for (int round = 0; round < rounds; ++round) {
            for (int y = 0; y < down; ++y)
                for (int x = 0; x < across; ++x)
                    for (int me = 0; me < THREADS; ++me) {
                        // In a cluster of 2 x 2 blocks, ranks increase along x first.
                        int rank = x % 2 + 2 * (y % 2), before = (rank + 3) % 4;
                        int bx = x / 2 * 2 + before % 2, by = y / 2 * 2 + before / 2;
                        next[(y * across + x) * THREADS + me] =
                            now[(by * across + bx) * THREADS + (me + 1) % THREADS] * 3 + round;
                    }
            now.swap(next);
        }
        verdict.equal("ring", sums.get(), now);
    }
    {
        const unsigned size = 8, blocks = 24;
        Buffer<unsigned> order(blocks);
        launch(dim3(blocks), size, hand_over, order.ptr());
        std::vector<unsigned> expected(blocks);
        for (unsigned block = 0; block < blocks; ++block)
            expected[block] = size - 1 - block % size;
        verdict.equal("turns", order.get(), expected);
    }
    return verdict.finish();
}
