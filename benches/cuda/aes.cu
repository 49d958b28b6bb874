// AES-128 in counter mode. Each thread encrypts one counter. The table of the combined byte substitution and column
// mixing is in shared memory. Words contain their bytes in big-endian order.
// nvcc -ptx -arch=compute_75 -O3 aes.cu -o aes.ptx

__device__ unsigned rotate(unsigned x, int n) { return x >> n | x << (32 - n); }

__device__ unsigned mixed(unsigned a, unsigned b, unsigned c, unsigned d, const unsigned *table) {
    return table[a >> 24] ^ rotate(table[b >> 16 & 255], 8) ^ rotate(table[c >> 8 & 255], 16) ^
           rotate(table[d & 255], 24);
}

__device__ unsigned last(unsigned a, unsigned b, unsigned c, unsigned d, const unsigned char *bytes) {
    return bytes[a >> 24] << 24 | bytes[b >> 16 & 255] << 16 | bytes[c >> 8 & 255] << 8 | bytes[d & 255];
}

__device__ unsigned swapped(unsigned x) { return __byte_perm(x, 0, 0x0123); }

extern "C" __global__ void aes_ctr(const uint4 *text, uint4 *out, const unsigned *keys, const unsigned *tables,
                                   const unsigned char *substitutions, uint4 counter, int n) {
    __shared__ unsigned table[256], key[44];
    __shared__ unsigned char bytes[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        table[i] = tables[i];
        bytes[i] = substitutions[i];
    }
    if (threadIdx.x < 44)
        key[threadIdx.x] = keys[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned a = counter.x ^ key[0], b = counter.y ^ key[1], c = counter.z ^ key[2], d = (counter.w + i) ^ key[3];
    for (int round = 1; round < 10; ++round) {
        unsigned na = mixed(a, b, c, d, table) ^ key[4 * round], nb = mixed(b, c, d, a, table) ^ key[4 * round + 1];
        unsigned nc = mixed(c, d, a, b, table) ^ key[4 * round + 2], nd = mixed(d, a, b, c, table) ^ key[4 * round + 3];
        a = na, b = nb, c = nc, d = nd;
    }
    uint4 block = text[i];
    block.x ^= swapped(last(a, b, c, d, bytes) ^ key[40]);
    block.y ^= swapped(last(b, c, d, a, bytes) ^ key[41]);
    block.z ^= swapped(last(c, d, a, b, bytes) ^ key[42]);
    block.w ^= swapped(last(d, a, b, c, bytes) ^ key[43]);
    out[i] = block;
}
