// Tests every exchange within a warp: shuffles in all modes and widths, votes, matches and reductions, with full and
// partial masks, in branches, and after lanes have returned.
#include "common.h"

constexpr unsigned FULL = 0xffffffffu;
constexpr int RESULTS = 24;

extern "C" __global__ void warp_exchange(const int *in, int *out) {
    int t = threadIdx.x, lane = t % 32;
    int value = in[t];
    int *mine = out + t * RESULTS;
    mine[0] = __shfl_sync(FULL, value, (lane * 7 + 3) % 32);
    mine[1] = __shfl_up_sync(FULL, value, 3);
    mine[2] = __shfl_down_sync(FULL, value, 5);
    mine[3] = __shfl_xor_sync(FULL, value, 9);
    mine[4] = __shfl_sync(FULL, value, lane + 1, 8);
    mine[5] = __shfl_up_sync(FULL, value, 2, 16);
    mine[6] = __shfl_down_sync(FULL, value, 1, 4);
    mine[7] = __shfl_xor_sync(FULL, value, 3, 8);
    mine[8] = __any_sync(FULL, value > 90);
    mine[9] = __all_sync(FULL, value >= 0);
    mine[10] = int(__ballot_sync(FULL, value % 3 == 0));
    mine[11] = int(__match_any_sync(FULL, value % 5));
    int same = 0;
    mine[12] = int(__match_all_sync(FULL, value / 1000, &same));
    mine[13] = same;
    mine[14] = int(__reduce_add_sync(FULL, unsigned(value)));
    mine[15] = __reduce_min_sync(FULL, value - 50);
    mine[16] = __reduce_max_sync(FULL, value - 50);
    mine[17] = int(__reduce_and_sync(FULL, unsigned(value) | 0x100u));
    mine[18] = int(__reduce_or_sync(FULL, unsigned(value)));
    mine[19] = int(__reduce_xor_sync(FULL, unsigned(value)));
    double wide = __shfl_xor_sync(FULL, double(value) * 0.5, 1);
    mine[20] = int(wide * 2.0);
    long long pair = __shfl_down_sync(FULL, (long long)value << 32 | lane, 16);
    mine[21] = int(pair >> 32) + int(pair & 31);
    mine[22] = int(__match_any_sync(FULL, (unsigned long long)(value % 4) << 40));
    mine[23] = __all_sync(FULL, lane < 32 && t >= 0);
}

// Groups of lanes with different masks execute one instruction; then they execute different branches.
extern "C" __global__ void warp_partial(const int *in, int *out) {
    int lane = threadIdx.x, value = in[lane];
    unsigned eight = 0xffu << (lane / 8 * 8);
    int *mine = out + lane * 5;
    mine[0] = __reduce_max_sync(eight, value);
    unsigned half = lane % 2 ? 0xaaaaaaaau : 0x55555555u;
    if (lane % 2) {
        mine[1] = __shfl_sync(half, value, 31);
        mine[2] = int(__ballot_sync(half, value > 40));
    } else {
        mine[1] = __shfl_sync(half, value, 0);
        mine[2] = int(__ballot_sync(half, value > 60));
    }
    __syncwarp();
    // The number of iterations differs between lanes, so each iteration has another set of members.
    int turns = lane % 4, sum = 0;
    unsigned members = FULL;
    for (int turn = 0;; ++turn) {
        members = __ballot_sync(members, turn < turns);
        if (turn >= turns)
            break;
        sum += __reduce_add_sync(members, unsigned(value));
    }
    mine[3] = sum;
    mine[4] = int(members);
}

// Lanes that have returned do not delay the other lanes and count as absent.
extern "C" __global__ void warp_after_return(const int *in, int *out, int n) {
    int lane = threadIdx.x;
    if (lane >= n)
        return;
    unsigned alive = __activemask();
    int value = in[lane];
    out[lane * 3] = int(__ballot_sync(alive, value > 30));
    out[lane * 3 + 1] = __shfl_sync(alive, value, 2);
    out[lane * 3 + 2] = int(alive);
}

int main() {
    const int threads = 64;
    std::vector<int> in(threads);
    Random random(22);
    for (int &value : in)
        value = int(random.below(100));
    Buffer<int> din(in), out(threads * RESULTS);
    warp_exchange<<<1, threads>>>(din.ptr(), out.ptr());
    LAUNCH_OK();
    std::vector<int> want(threads * RESULTS);
    for (int t = 0; t < threads; ++t) {
        const int *warp = &in[t / 32 * 32];
        int lane = t % 32, value = warp[lane], *mine = &want[t * RESULTS];
        // The lane from which a shuffle reads: a lane of the same segment, or the lane itself.
        auto idx = [&](int source, int width) { return warp[(lane / width * width) | (source % width)]; };
        auto up = [&](int d, int width) { return warp[lane % width >= d ? lane - d : lane]; };
        auto down = [&](int d, int width) { return warp[lane % width + d < width ? lane + d : lane]; };
        mine[0] = idx((lane * 7 + 3) % 32, 32);
        mine[1] = up(3, 32);
        mine[2] = down(5, 32);
        mine[3] = warp[lane ^ 9];
        mine[4] = idx(lane + 1, 8);
        mine[5] = up(2, 16);
        mine[6] = down(1, 4);
        mine[7] = warp[lane ^ 3];
        mine[9] = mine[23] = 1;
        mine[12] = -1;
        mine[13] = 1;
        mine[15] = 1000;
        mine[16] = -1000;
        mine[17] = -1;
        for (int other = 0; other < 32; ++other) {
            int v = warp[other];
            mine[8] |= v > 90;
            mine[10] |= int(unsigned(v % 3 == 0) << other);
            mine[11] |= int(unsigned(v % 5 == value % 5) << other);
            mine[14] += v;
            mine[15] = v - 50 < mine[15] ? v - 50 : mine[15];
            mine[16] = v - 50 > mine[16] ? v - 50 : mine[16];
            mine[17] &= v | 0x100;
            mine[18] |= v;
            mine[19] ^= v;
            mine[22] |= int(unsigned(v % 4 == value % 4) << other);
        }
        mine[20] = warp[lane ^ 1];
        mine[21] = (lane < 16 ? warp[lane + 16] + lane + 16 : value + lane);
    }
    Verdict verdict("warp_vote");
    verdict.equal("exchange", out.get(), want);

    Buffer<int> partial(32 * 5);
    warp_partial<<<1, 32>>>(din.ptr(), partial.ptr());
    LAUNCH_OK();
    want.assign(32 * 5, 0);
    for (int lane = 0; lane < 32; ++lane) {
        int *mine = &want[lane * 5];
        for (int k = 0; k < 8; ++k)
            mine[0] = std::max(mine[0], in[lane / 8 * 8 + k]);
        mine[1] = lane % 2 ? in[31] : in[0];
        for (int k = lane % 2; k < 32; k += 2)
            mine[2] |= int(unsigned(in[k] > (lane % 2 ? 40 : 60)) << k);
        for (int turn = 0; turn < lane % 4; ++turn)
            for (int k = 0; k < 32; ++k)
                mine[3] += turn < k % 4 ? in[k] : 0;
        for (int k = 0; k < 32; ++k)
            mine[4] |= int(unsigned(lane % 4 < k % 4) << k);
    }
    verdict.equal("partial", partial.get(), want);

    const int n = 21;
    Buffer<int> left(n * 3);
    warp_after_return<<<1, 32>>>(din.ptr(), left.ptr(), n);
    LAUNCH_OK();
    want.assign(n * 3, 0);
    for (int lane = 0; lane < n; ++lane) {
        for (int k = 0; k < n; ++k)
            want[lane * 3] |= int(unsigned(in[k] > 30) << k);
        want[lane * 3 + 1] = in[2];
        want[lane * 3 + 2] = (1 << n) - 1;
    }
    verdict.equal("after return", left.get(), want);
    return verdict.finish();
}
