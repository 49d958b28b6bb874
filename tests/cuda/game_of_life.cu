// Conway's game of life on a torus. One kernel uses bytes in global memory. The other packs rows of 32 cells into words
// and counts neighbours with shuffles and bit operations.
#include "common.h"

constexpr int EDGE = 64;

extern "C" __global__ void life_bytes(const unsigned char *in, unsigned char *out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int alive = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            if (dx != 0 || dy != 0)
                alive += in[((y + dy + EDGE) % EDGE) * EDGE + (x + dx + EDGE) % EDGE];
    out[y * EDGE + x] = alive == 3 || (alive == 2 && in[y * EDGE + x]);
}

// One warp computes all generations of 32 x 32 cells on a torus in one launch. Each lane computes one row.
extern "C" __global__ void life_warp(unsigned *rows, int generations) {
    unsigned lane = threadIdx.x, row = rows[lane];
    for (int g = 0; g < generations; ++g) {
        unsigned above = __shfl_sync(0xffffffffu, row, (lane + 31) % 32);
        unsigned below = __shfl_sync(0xffffffffu, row, (lane + 1) % 32);
        unsigned next = 0;
        for (int x = 0; x < 32; ++x) {
            // moves columns x-1, x and x+1 to the lowest three bits
            int turn = (x + 31) % 32;
            unsigned around = (__funnelshift_r(above, above, turn) & 7u) << 6 |
                              (__funnelshift_r(row, row, turn) & 5u) << 3 |
                              (__funnelshift_r(below, below, turn) & 7u);
            int alive = __popc(around);
            next |= unsigned(alive == 3 || (alive == 2 && (row >> x & 1u))) << x;
        }
        row = next;
    }
    rows[lane] = row;
}

static std::vector<unsigned char> step(const std::vector<unsigned char> &cells, int edge) {
    std::vector<unsigned char> next(cells.size());
    for (int y = 0; y < edge; ++y)
        for (int x = 0; x < edge; ++x) {
            int alive = 0;
            for (int k = 0; k < 9; ++k)
                if (k != 4)
                    alive += cells[((y + k / 3 - 1 + edge) % edge) * edge +
                                   (x + k % 3 - 1 + edge) % edge];
            next[y * edge + x] = alive == 3 || (alive == 2 && cells[y * edge + x]);
        }
    return next;
}

int main() {
    const int generations = 6;
    Random random(16);
    Verdict verdict("game_of_life");

    std::vector<unsigned char> cells(EDGE * EDGE);
    for (unsigned char &cell : cells)
        cell = random.below(3) == 0;
    Buffer<unsigned char> a(cells), b(cells.size());
    unsigned char *from = a.ptr(), *to = b.ptr();
    for (int g = 0; g < generations; ++g) {
        life_bytes<<<dim3(EDGE / 16, EDGE / 8), dim3(16, 8)>>>(from, to);
        std::swap(from, to);
        cells = step(cells, EDGE);
    }
    LAUNCH_OK();
    verdict.equal("bytes", generations % 2 ? b.get() : a.get(), cells);

    std::vector<unsigned> rows(32), want(32, 0);
    std::vector<unsigned char> small(32 * 32);
    for (unsigned &row : rows)
        row = random.next() & random.next();
    for (int i = 0; i < 32 * 32; ++i)
        small[i] = rows[i / 32] >> (i % 32) & 1u;
    Buffer<unsigned> packed(rows);
    life_warp<<<1, 32>>>(packed.ptr(), generations);
    LAUNCH_OK();
    for (int g = 0; g < generations; ++g)
        small = step(small, 32);
    for (int i = 0; i < 32 * 32; ++i)
        want[i / 32] |= unsigned(small[i]) << (i % 32);
    verdict.equal("warp", packed.get(), want);
    return verdict.finish();
}
