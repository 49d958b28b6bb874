// Computes SHA-256 of many messages, one in each thread: rotations, a table in constant memory, byte order. One message
// is a test vector of the standard.
#include "common.h"

// Returns the first 32 bits of the fractional part of a prime's cube root. Bisection with integers computes
// floor(cbrt(prime) * 2^32).
static uint32_t cube_root_fraction(uint32_t prime) {
    __extension__ typedef unsigned __int128 wide;
    uint64_t low = 0, high = 1ull << 36;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        // middle^3 <= prime * 2^96, with both sides divided by middle, because middle^3 may not fit
        wide square = wide(middle) * middle;
        wide limit = (wide(prime) << 96);
        bool below = square <= limit / middle;
        (below ? low : high) = middle;
    }
    return uint32_t(low);
}

__constant__ uint32_t table[64];

__host__ __device__ inline uint32_t rotate(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

__host__ __device__ inline void compress(uint32_t *state, const uint32_t *block,
                                         const uint32_t *k) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i)
        w[i] = block[i];
    for (int i = 16; i < 64; ++i) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v[8];
    for (int i = 0; i < 8; ++i)
        v[i] = state[i];
    for (int i = 0; i < 64; ++i) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + k[i] + w[i];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        for (int j = 7; j > 0; --j)
            v[j] = v[j - 1];
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; ++i)
        state[i] += v[i];
}

// `text` has `length` bytes, at most `stride`.
__host__ __device__ inline void sha256(const unsigned char *text, int length, const uint32_t *k,
                                       uint32_t *digest) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    int blocks = (length + 8) / 64 + 1;
    for (int b = 0; b < blocks; ++b) {
        uint32_t words[16];
        for (int i = 0; i < 16; ++i) {
            uint32_t word = 0;
            for (int j = 0; j < 4; ++j) {
                int at = b * 64 + i * 4 + j;
                uint32_t byte = at < length ? text[at] : at == length ? 0x80 : 0;
                word = word << 8 | byte;
            }
            words[i] = word;
        }
        if (b == blocks - 1)
            words[15] = uint32_t(length) * 8;
        compress(state, words, k);
    }
    for (int i = 0; i < 8; ++i)
        digest[i] = state[i];
}

extern "C" __global__ void sha256_batch(const unsigned char *texts, const int *lengths, int stride,
                                        uint32_t *digests, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sha256(texts + size_t(i) * stride, lengths[i], table, digests + 8 * i);
}

int main() {
    const int n = 100, stride = 150;
    uint32_t k[64];
    int filled = 0;
    for (uint32_t p = 2; filled < 64; ++p) {
        bool prime = true;
        for (uint32_t d = 2; d * d <= p; ++d)
            prime = prime && p % d != 0;
        if (prime)
            k[filled++] = cube_root_fraction(p);
    }
    std::vector<unsigned char> texts(n * stride, 0);
    std::vector<int> lengths(n);
    std::vector<uint32_t> want(8 * n);
    Random random(15);
    for (int i = 0; i < n; ++i) {
        lengths[i] = i == 0 ? 3 : int(random.below(stride + 1));
        for (int j = 0; j < lengths[i]; ++j)
            texts[i * stride + j] = i == 0 ? "abc"[j] : (unsigned char)random.next();
        sha256(&texts[i * stride], lengths[i], k, &want[8 * i]);
    }
    CUDA_OK(cudaMemcpyToSymbol(table, k, sizeof k));
    Buffer<unsigned char> dtexts(texts);
    Buffer<int> dlengths(lengths);
    Buffer<uint32_t> digests(8 * n);
    sha256_batch<<<(n + 63) / 64, 64>>>(dtexts.ptr(), dlengths.ptr(), stride, digests.ptr(), n);
    LAUNCH_OK();

    std::vector<uint32_t> got = digests.get();
    Verdict verdict("sha256");
    verdict.equal("digests", got, want);
    // FIPS 180-2, appendix B.1.
    verdict.equal("abc", std::vector<uint32_t>(got.begin(), got.begin() + 8),
                  std::vector<uint32_t>{0xba7816bf, 0x8f01cfea, 0x414140de, 0x5dae2223, 0xb00361a3,
                                        0x96177a9c, 0xb410ff61, 0xf20015ad});
    return verdict.finish();
}
