// Tests atomics of every kind and type on global and shared memory, in all three scopes, and loops of compare-and-swap
// for operations that the hardware does not have. The sums do not depend on the order of the operations. The returned
// values are compared as a set.
#include "common.h"

#include <algorithm>

struct Words {
    int add, sub, min, max, exchanged, and_bits, or_bits, xor_bits;
    unsigned inc, dec, umin, umax, cas;
    unsigned long long add64, min64, max64, and64, or64, xor64, cas64;
    long long smin64, smax64;
    float fadd;
    double dadd;
    unsigned product; // computed by a loop of compare-and-swap
    int block_scope, system_scope;
    unsigned short cas16[2];
};

__host__ __device__ inline Words initial() {
    Words w{};
    w.sub = 100000;
    w.min = w.umin = 1 << 30;
    w.max = -(1 << 30);
    w.and_bits = -1;
    w.dec = 5;
    w.min64 = ~0ull;
    w.and64 = ~0ull;
    w.smin64 = 1ll << 60;
    w.smax64 = -(1ll << 60);
    w.product = 1;
    return w;
}

__device__ void update(Words *w, int i) {
    unsigned u = unsigned(i);
    unsigned long long wide = (unsigned long long)u << 33 | u;
    atomicAdd(&w->add, i);
    atomicSub(&w->sub, i);
    atomicMin(&w->min, i * 3 - 200);
    atomicMax(&w->max, i * 3 - 200);
    atomicExch(&w->exchanged, 77);
    atomicAnd(&w->and_bits, ~(1 << (i % 13)));
    atomicOr(&w->or_bits, 1 << (i % 29));
    atomicXor(&w->xor_bits, i * 0x01010101);
    atomicInc(&w->inc, 6u);
    atomicDec(&w->dec, 9u);
    atomicMin(&w->umin, u + 3u);
    atomicMax(&w->umax, u * 2u);
    atomicCAS(&w->cas, 0u, 1234u);
    atomicAdd(&w->add64, wide);
    atomicMin(&w->min64, wide + 1);
    atomicMax(&w->max64, wide);
    atomicAnd(&w->and64, ~(1ull << (i % 50)));
    atomicOr(&w->or64, 1ull << (i % 60));
    atomicXor(&w->xor64, wide);
    atomicCAS(&w->cas64, 0ull, 1ull << 40);
    atomicMin(&w->smin64, -(long long)wide);
    atomicMax(&w->smax64, -(long long)wide);
    atomicAdd(&w->fadd, float(i % 8) * 0.25f);
    atomicAdd(&w->dadd, double(i) * 0.5);
    unsigned seen = *reinterpret_cast<volatile unsigned *>(&w->product), expected;
    do {
        expected = seen;
        seen = atomicCAS(&w->product, expected, expected * (2u * u + 1u));
    } while (seen != expected);
    atomicAdd_block(&w->block_scope, 1);
    atomicAdd_system(&w->system_scope, 2);
    unsigned short old = *reinterpret_cast<volatile unsigned short *>(&w->cas16[i % 2]), before;
    do {
        before = old;
        old = atomicCAS(&w->cas16[i % 2], before, (unsigned short)(before + 3));
    } while (old != before);
}

static Words expected(int n) {
    Words w = initial();
    for (int i = 0; i < n; ++i) {
        unsigned u = unsigned(i);
        unsigned long long wide = (unsigned long long)u << 33 | u;
        w.add += i;
        w.sub -= i;
        w.min = std::min(w.min, i * 3 - 200);
        w.max = std::max(w.max, i * 3 - 200);
        w.and_bits &= ~(1 << (i % 13));
        w.or_bits |= 1 << (i % 29);
        w.xor_bits ^= i * 0x01010101;
        w.inc = w.inc >= 6 ? 0 : w.inc + 1;
        w.dec = w.dec == 0 || w.dec > 9 ? 9 : w.dec - 1;
        w.umin = std::min(w.umin, u + 3);
        w.umax = std::max(w.umax, u * 2);
        w.add64 += wide;
        w.min64 = std::min(w.min64, wide + 1);
        w.max64 = std::max(w.max64, wide);
        w.and64 &= ~(1ull << (i % 50));
        w.or64 |= 1ull << (i % 60);
        w.xor64 ^= wide;
        w.smin64 = std::min(w.smin64, -(long long)wide);
        w.smax64 = std::max(w.smax64, -(long long)wide);
        w.fadd += float(i % 8) * 0.25f;
        w.dadd += double(i) * 0.5;
        w.product *= 2u * u + 1u;
        w.block_scope += 1;
        w.system_scope += 2;
        w.cas16[i % 2] += 3;
    }
    w.exchanged = 77;
    w.cas = 1234;
    w.cas64 = 1ull << 40;
    return w;
}

extern "C" __global__ void atomics_global(Words *w) {
    update(w, blockIdx.x * blockDim.x + threadIdx.x);
}

extern "C" __global__ void atomics_shared(Words *w) {
    __shared__ Words local;
    if (threadIdx.x == 0)
        local = initial();
    __syncthreads();
    update(&local, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0)
        *w = local;
}

// Each thread gets a ticket of its own. The exchanges return every stored value except the last one.
extern "C" __global__ void returned_values(int *counter, int *link, int *tickets, int *links) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tickets[i] = atomicAdd(counter, 1);
    links[i] = atomicExch(link, i);
}

static std::vector<unsigned char> bytes(const Words &w) {
    Words clean;
    std::memset(&clean, 0, sizeof clean); // also clears the padding between the members
    std::memcpy(&clean, &w, sizeof w);
    const unsigned char *data = reinterpret_cast<const unsigned char *>(&clean);
    return std::vector<unsigned char>(data, data + sizeof clean);
}

int main() {
    const int blocks = 5, threads = 48;
    Verdict verdict("atomics");
    Buffer<Words> global(std::vector<Words>(1, initial())), shared(1);
    // Operations with block scope are atomic only within a block, so the first launches have one block.
    atomics_global<<<1, threads>>>(global.ptr());
    LAUNCH_OK();
    verdict.equal("global", bytes(global.get()[0]), bytes(expected(threads)));
    atomics_shared<<<1, threads>>>(shared.ptr());
    LAUNCH_OK();
    verdict.equal("shared", bytes(shared.get()[0]), bytes(expected(threads)));

    global.put({initial()});
    atomics_global<<<blocks, threads>>>(global.ptr());
    LAUNCH_OK();
    Words many = global.get()[0], want = expected(blocks * threads);
    many.block_scope = want.block_scope; // block scope is not atomic between blocks
    verdict.equal("many blocks", bytes(many), bytes(want));

    const int n = blocks * threads;
    Buffer<int> counter(1), link(std::vector<int>(1, -1)), tickets(n), links(n);
    counter.clear();
    returned_values<<<blocks, threads>>>(counter.ptr(), link.ptr(), tickets.ptr(), links.ptr());
    LAUNCH_OK();
    std::vector<int> seen = tickets.get(), chain = links.get(), all(n), ends(n + 1);
    for (int i = 0; i < n; ++i) {
        all[i] = i;
        ends[i + 1] = i;
    }
    ends[0] = -1;
    chain.push_back(link.get()[0]);
    std::sort(seen.begin(), seen.end());
    std::sort(chain.begin(), chain.end());
    verdict.equal("tickets", seen, all);
    verdict.equal("chain", chain, ends);
    return verdict.finish();
}
