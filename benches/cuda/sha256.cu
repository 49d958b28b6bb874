// SHA-256 of many messages, one message for each thread. The table of constants is an argument.
// nvcc -ptx -arch=compute_75 -O3 sha256.cu -o sha256.ptx

typedef unsigned word;

__device__ inline word rotate(word x, int n) { return (x >> n) | (x << (32 - n)); }

__device__ inline void compress(word *state, const word *block, const word *__restrict__ k) {
    word w[64];
    for (int i = 0; i < 16; ++i)
        w[i] = block[i];
    for (int i = 16; i < 64; ++i) {
        word s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
        word s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    word v[8];
    for (int i = 0; i < 8; ++i)
        v[i] = state[i];
    for (int i = 0; i < 64; ++i) {
        word s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        word choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        word t1 = v[7] + s1 + choice + k[i] + w[i];
        word s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        word majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        for (int j = 7; j > 0; --j)
            v[j] = v[j - 1];
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; ++i)
        state[i] += v[i];
}

extern "C" __global__ void sha256_batch(const unsigned char *texts, const int *lengths, int stride,
                                        const word *__restrict__ table, word *digests, int n) {
    int message = blockIdx.x * blockDim.x + threadIdx.x;
    if (message >= n)
        return;
    const unsigned char *text = texts + (size_t)message * stride;
    int length = lengths[message];
    word state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    int blocks = (length + 8) / 64 + 1;
    for (int b = 0; b < blocks; ++b) {
        word words[16];
        for (int i = 0; i < 16; ++i) {
            word value = 0;
            for (int j = 0; j < 4; ++j) {
                int at = b * 64 + i * 4 + j;
                word byte = at < length ? text[at] : at == length ? 0x80 : 0;
                value = value << 8 | byte;
            }
            words[i] = value;
        }
        if (b == blocks - 1)
            words[15] = word(length) * 8;
        compress(state, words, table);
    }
    for (int i = 0; i < 8; ++i)
        digests[8 * message + i] = state[i];
}
