// Textbook kernels whose memory transactions, conflicts, divergence and operations can be computed by hand.
#define KERNEL extern "C" __global__ void
constexpr int TILE = 32, ROWS = 8;

KERNEL transpose_naive(float *out, const float *in, int n) {
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        out[x * n + (y + j)] = in[(y + j) * n + x];
}

template <int WIDTH>
__device__ void transpose(float *out, const float *in, int n) {
    __shared__ float tile[TILE][WIDTH];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
KERNEL transpose_tiled(float *out, const float *in, int n) { transpose<TILE>(out, in, n); }
KERNEL transpose_padded(float *out, const float *in, int n) { transpose<TILE + 1>(out, in, n); }

// Interleaved addressing with a condition that splits warps.
KERNEL reduce1(float *out, const float *in) {
    extern __shared__ float s[];
    unsigned t = threadIdx.x;
    s[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned d = 1; d < blockDim.x; d *= 2) {
        if (t % (2 * d) == 0) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

// Interleaved addressing without splits, but with bank conflicts.
KERNEL reduce2(float *out, const float *in) {
    extern __shared__ float s[];
    unsigned t = threadIdx.x;
    s[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned d = 1; d < blockDim.x; d *= 2) {
        unsigned i = 2 * d * t;
        if (i < blockDim.x) s[i] += s[i + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

// Sequential addressing.
KERNEL reduce3(float *out, const float *in) {
    extern __shared__ float s[];
    unsigned t = threadIdx.x;
    s[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned d = blockDim.x / 2; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

// The first addition while loading.
KERNEL reduce4(float *out, const float *in) {
    extern __shared__ float s[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    s[t] = in[i] + in[i + blockDim.x];
    __syncthreads();
    for (unsigned d = blockDim.x / 2; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

__device__ void last_warp(volatile float *s, unsigned t) {
    s[t] += s[t + 32];
    s[t] += s[t + 16];
    s[t] += s[t + 8];
    s[t] += s[t + 4];
    s[t] += s[t + 2];
    s[t] += s[t + 1];
}

// The last warp unrolled.
KERNEL reduce5(float *out, const float *in) {
    extern __shared__ float s[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    s[t] = in[i] + in[i + blockDim.x];
    __syncthreads();
    for (unsigned d = blockDim.x / 2; d > 32; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t < 32) last_warp(s, t);
    if (t == 0) out[blockIdx.x] = s[0];
}

// Everything unrolled.
template <unsigned BLOCK>
__device__ void unrolled(float *out, float *s, unsigned t) {
    __syncthreads();
    if (BLOCK >= 256) { if (t < 128) s[t] += s[t + 128]; __syncthreads(); }
    if (BLOCK >= 128) { if (t < 64) s[t] += s[t + 64]; __syncthreads(); }
    if (t < 32) last_warp(s, t);
    if (t == 0) out[blockIdx.x] = s[0];
}
KERNEL reduce6(float *out, const float *in) {
    extern __shared__ float s[];
    unsigned t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = in[i] + in[i + 128];
    unrolled<128>(out, s, t);
}

// Several elements for each thread.
KERNEL reduce7(float *out, const float *in, unsigned n) {
    extern __shared__ float s[];
    unsigned t = threadIdx.x, i = blockIdx.x * 256 + t;
    float sum = 0;
    #pragma unroll 1
    for (; i < n; i += 256 * gridDim.x)
        sum += in[i] + in[i + 128];
    s[t] = sum;
    unrolled<128>(out, s, t);
}

KERNEL matmul_naive(float *c, const float *a, const float *b, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

KERNEL matmul_tiled(float *c, const float *a, const float *b, int n) {
    __shared__ float s[16][16], t[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    #pragma unroll 1
    for (int m = 0; m < n; m += 16) {
        s[y][x] = a[row * n + m + x];
        t[y][x] = b[(m + y) * n + column];
        __syncthreads();
        #pragma unroll 1
        for (int k = 0; k < 16; k++)
            sum += s[y][k] * t[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
