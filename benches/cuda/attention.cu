// Attention: softmax(q k^T / 8) v for several heads, without storing the scores in memory. Each thread computes one
// row of the result. The block reads keys and values in tiles into shared memory.
// nvcc -ptx -arch=compute_75 -O3 attention.cu -o attention.ptx

constexpr int DEPTH = 64, TILE = 32, THREADS = 64;

extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *out, int length) {
    __shared__ float keys[TILE][DEPTH], values[TILE][DEPTH];
    int head = blockIdx.y * length * DEPTH, row = blockIdx.x * THREADS + threadIdx.x;
    const float *own = q + head + row * DEPTH;
    float query[DEPTH], sum[DEPTH], weights[TILE], most = -INFINITY, total = 0;
    for (int d = 0; d < DEPTH; ++d) {
        query[d] = own[d];
        sum[d] = 0;
    }
    for (int tile = 0; tile < length; tile += TILE) {
        __syncthreads(); // all threads have read the previous tile
        for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
            keys[i / DEPTH][i % DEPTH] = k[head + tile * DEPTH + i];
            values[i / DEPTH][i % DEPTH] = v[head + tile * DEPTH + i];
        }
        __syncthreads();
        float old = most;
        for (int j = 0; j < TILE; ++j) {
            float score = 0;
            for (int d = 0; d < DEPTH; ++d)
                score += query[d] * keys[j][d];
            weights[j] = score * 0.125f;
            most = fmaxf(most, weights[j]);
        }
        float scale = expf(old - most);
        total *= scale;
        for (int d = 0; d < DEPTH; ++d)
            sum[d] *= scale;
        for (int j = 0; j < TILE; ++j) {
            float weight = expf(weights[j] - most);
            total += weight;
            for (int d = 0; d < DEPTH; ++d)
                sum[d] += weight * values[j][d];
        }
    }
    for (int d = 0; d < DEPTH; ++d)
        out[head + row * DEPTH + d] = sum[d] / total;
}
