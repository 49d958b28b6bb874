// Pairs of kernels: one with a flaw that a rule names, and one without it.
#define KERNEL extern "C" __global__ void
struct Point { float x, y, z, w; };

KERNEL structures(float *out, const Point *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i].x * 2.0f;
}
KERNEL arrays(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * 2.0f;
}

KERNEL shifted(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i + 1];
}

KERNEL odd_and_even(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i];
    if (i & 1) {
        #pragma unroll 1
        for (int k = 0; k < 20; k++) v = v * v + 1.0f;
    } else {
        #pragma unroll 1
        for (int k = 0; k < 20; k++) v = v - v * 0.5f;
    }
    out[i] = v;
}
KERNEL halves(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i];
    if ((i / 32) & 1) {
        #pragma unroll 1
        for (int k = 0; k < 20; k++) v = v * v + 1.0f;
    } else {
        #pragma unroll 1
        for (int k = 0; k < 20; k++) v = v - v * 0.5f;
    }
    out[i] = v;
}

KERNEL count_all(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] >= 0) atomicAdd(out, 1);
}
KERNEL count_warps(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = __popc(__ballot_sync(~0u, i < n && in[i] >= 0));
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

KERNEL doubles(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = sin(in[i] * 0.5) * 3.0 + 0.25;
}
KERNEL floats(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __sinf(in[i] * 0.5f) * 3.0f + 0.25f;
}

KERNEL divisions(int *out, const int *in, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
    #pragma unroll 1
    for (int k = 0; k < 16; k++) sum += (i + k) / width + (i + k) % width;
    out[i] = sum + in[i];
}
KERNEL shifts(int *out, const int *in, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
    #pragma unroll 1
    for (int k = 0; k < 16; k++) sum += ((i + k) >> 4) + ((i + k) & 15);
    out[i] = sum + in[i];
}

KERNEL one_warp_works(float *out, const float *in, int n) {
    __shared__ float s[256];
    int t = threadIdx.x;
    float v = in[t];
    if (t < 32) {
        #pragma unroll 1
        for (int k = 0; k < 100; k++) v = v * v + 1.0f;
    }
    s[t] = v;
    __syncthreads();
    out[t] = s[255 - t];
}
KERNEL all_warps_work(float *out, const float *in, int n) {
    __shared__ float s[256];
    int t = threadIdx.x;
    float v = in[t];
    #pragma unroll 1
    for (int k = 0; k < 12; k++) v = v * v + 1.0f;
    s[t] = v;
    __syncthreads();
    out[t] = s[255 - t];
}

KERNEL bytes(unsigned char *out, const unsigned char *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 255 - in[i];
}
KERNEL words(uchar4 *out, const uchar4 *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 v = in[i];
    out[i] = make_uchar4(255 - v.x, 255 - v.y, 255 - v.z, 255 - v.w);
}

KERNEL one_block_works(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i];
    int count = blockIdx.x == 0 ? 200 : 2;
    #pragma unroll 1
    for (int k = 0; k < count; k++) v = v * v + 1.0f;
    out[i] = v;
}

KERNEL dynamic_index(float *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v[16];
    #pragma unroll 1
    for (int k = 0; k < 16; k++) v[(k + in[0]) & 15] = k;
    out[i] = v[in[i] & 15];
}
