// CRC-32 of many messages, four bytes at a time. Each thread computes the CRC of one message. The tables are in shared
// memory. The stride is a multiple of four.
// nvcc -ptx -arch=compute_75 -O3 crc32.cu -o crc32.ptx

extern "C" __global__ void crc32_batch(const unsigned char *texts, const int *lengths, int stride,
                                       const unsigned *tables, unsigned *results, int n) {
    __shared__ unsigned table[4][256];
    for (int i = threadIdx.x; i < 4 * 256; i += blockDim.x)
        table[i / 256][i % 256] = tables[i];
    __syncthreads();
    int message = blockIdx.x * blockDim.x + threadIdx.x;
    if (message >= n)
        return;
    const unsigned char *text = texts + (size_t)message * stride;
    int length = lengths[message], i = 0;
    unsigned crc = 0xffffffff;
    for (; i + 4 <= length; i += 4) {
        crc ^= *(const unsigned *)(text + i);
        crc = table[3][crc & 255] ^ table[2][crc >> 8 & 255] ^ table[1][crc >> 16 & 255] ^ table[0][crc >> 24];
    }
    for (; i < length; ++i)
        crc = crc >> 8 ^ table[0][(crc ^ text[i]) & 255];
    results[message] = ~crc;
}
