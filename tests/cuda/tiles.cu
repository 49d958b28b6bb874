// Tests tiles of cooperative groups: shuffles, votes and reductions among 4, 8, 16 and 32 neighbouring lanes. The masks
// are computed from lane numbers or from thread numbers. Half of the tiles take a branch with shuffles.
#include "common.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

constexpr int THREADS = 96, BLOCKS = 5, RESULTS = 8;

template <int N> __global__ void tiles(const int *from, int *to) {
    auto tile = cg::tiled_partition<N>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = from[i], *mine = to + i * RESULTS;
    mine[0] = tile.shfl(value, 1);
    mine[1] = tile.shfl_down(value, 1);
    mine[2] = tile.shfl_up(value, 3);
    mine[3] = tile.shfl_xor(value, N / 2);
    mine[4] = int(tile.ballot(value & 1));
    mine[5] = tile.any(value % 7 == 0) * 2 + tile.all(value % 7 != 1);
    mine[6] = cg::reduce(tile, value, cg::plus<int>());
    int sum = value;
    if (tile.meta_group_rank() % 2 == 0)
        for (int step = N / 2; step > 0; step /= 2)
            sum += tile.shfl_down(sum, step);
    mine[7] = tile.shfl(sum, (i + value) & (N - 1));
    tile.sync();
}

// Tests masks that are computed from the thread's number.
__global__ void by_thread(const int *from, int *to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, value = from[i];
    unsigned mask = 0xffu << (threadIdx.x & 24);
    for (int step = 4; step > 0; step /= 2)
        value += __shfl_xor_sync(mask, value, step, 8);
    unsigned ballot = __ballot_sync(mask, from[i] & 2);
    to[i] = value * 3 + __popc(ballot) + __any_sync(mask, from[i] == 5) - __all_sync(mask, from[i] & 1);
    __syncwarp(mask);
}

template <int N> void check(Verdict &verdict, const std::vector<int> &from, const Buffer<int> &input) {
    Buffer<int> to(from.size() * RESULTS);
    tiles<N><<<BLOCKS, THREADS>>>(input.ptr(), to.ptr());
    LAUNCH_OK();
    std::vector<int> want(from.size() * RESULTS), sums(from);
    for (size_t first = 0; first < from.size(); first += N) {
        const int *tile = &from[first];
        int total = 0, ballot = 0, any = 0, all = 1;
        for (int lane = 0; lane < N; ++lane) {
            total += tile[lane];
            ballot |= int(unsigned(tile[lane] & 1) << lane);
            any |= tile[lane] % 7 == 0;
            all &= tile[lane] % 7 != 1;
        }
        int *sum = &sums[first];
        if (first % THREADS / N % 2 == 0)
            for (int step = N / 2; step > 0; step /= 2) {
                std::vector<int> before(sum, sum + N);
                for (int lane = 0; lane < N; ++lane)
                    sum[lane] = before[lane] + before[lane + step < N ? lane + step : lane];
            }
        for (int lane = 0; lane < N; ++lane) {
            int *mine = &want[(first + lane) * RESULTS];
            mine[0] = tile[1];
            mine[1] = tile[lane + 1 < N ? lane + 1 : lane];
            mine[2] = tile[lane >= 3 ? lane - 3 : lane];
            mine[3] = tile[lane ^ (N / 2)];
            mine[4] = ballot;
            mine[5] = any * 2 + all;
            mine[6] = total;
            mine[7] = sum[(int(first) + lane + tile[lane]) & (N - 1)];
        }
    }
    char what[32];
    std::snprintf(what, sizeof what, "tiles of %d", N);
    verdict.equal(what, to.get(), want);
}

int main() {
    Random random(17);
    std::vector<int> from(THREADS * BLOCKS), want(from.size());
    for (int &value : from)
        value = int(random.below(30));
    Buffer<int> input(from), to(from.size());
    Verdict verdict("tiles");
    // Three rounds run the kernels long enough to get vector code, too.
    for (int round = 0; round < 3; ++round) {
        check<4>(verdict, from, input);
        check<8>(verdict, from, input);
        check<16>(verdict, from, input);
        check<32>(verdict, from, input);
    }
    by_thread<<<BLOCKS, THREADS>>>(input.ptr(), to.ptr());
    LAUNCH_OK();
    for (size_t i = 0; i < from.size(); ++i) {
        int total = 0, count = 0, any = 0, all = 1;
        for (size_t j = i / 8 * 8; j < i / 8 * 8 + 8; ++j) {
            total += from[j];
            count += from[j] >> 1 & 1;
            any |= from[j] == 5;
            all &= from[j] & 1;
        }
        want[i] = total * 3 + count + any - all;
    }
    verdict.equal("masks by thread", to.get(), want);
    return verdict.finish();
}
