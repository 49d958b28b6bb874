// Attention: softmax(q k^T / 8) v for several heads, one row of the result for each work-item.
#define DEPTH 64
#define TILE 32
#define THREADS 64

kernel void attention(global const float *q, global const float *k, global const float *v, global float *out,
                      int length) {
    local float keys[TILE][DEPTH], values[TILE][DEPTH];
    int t = get_local_id(0), head = get_group_id(1) * length * DEPTH, row = get_global_id(0);
    global const float *own = q + head + row * DEPTH;
    float query[DEPTH], sum[DEPTH], weights[TILE], most = -INFINITY, total = 0;
    for (int d = 0; d < DEPTH; ++d) {
        query[d] = own[d];
        sum[d] = 0;
    }
    for (int tile = 0; tile < length; tile += TILE) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = t; i < TILE * DEPTH; i += THREADS) {
            keys[i / DEPTH][i % DEPTH] = k[head + tile * DEPTH + i];
            values[i / DEPTH][i % DEPTH] = v[head + tile * DEPTH + i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float old = most;
        for (int j = 0; j < TILE; ++j) {
            float score = 0;
            for (int d = 0; d < DEPTH; ++d)
                score += query[d] * keys[j][d];
            weights[j] = score * 0.125f;
            most = fmax(most, weights[j]);
        }
        float scale = exp(old - most);
        total *= scale;
        for (int d = 0; d < DEPTH; ++d)
            sum[d] *= scale;
        for (int j = 0; j < TILE; ++j) {
            float weight = exp(weights[j] - most);
            total += weight;
            for (int d = 0; d < DEPTH; ++d)
                sum[d] += weight * values[j][d];
        }
    }
    for (int d = 0; d < DEPTH; ++d)
        out[head + row * DEPTH + d] = sum[d] / total;
}
