// Scores of local alignments with affine gaps (Smith and Waterman, Gotoh). A block computes the score of one pair, one
// antidiagonal after the other. Each thread computes one row, which belongs to one letter of the query.
// nvcc -ptx -arch=compute_75 -O3 smith_waterman.cu -o smith_waterman.ptx

constexpr int QUERY = 128, MATCH = 3, MISMATCH = -2, OPEN = 5, EXTEND = 1;

extern "C" __global__ void smith_waterman(const unsigned char *queries, const unsigned char *targets, int *scores,
                                          int length) {
    __shared__ int above_h[2][QUERY + 1], above_f[2][QUERY + 1], bests[QUERY];
    int t = threadIdx.x;
    int letter = queries[blockIdx.x * QUERY + t];
    const unsigned char *target = targets + blockIdx.x * length;
    int h = 0, e = 0, diagonal = 0, best = 0;
    for (int i = t; i < QUERY + 1; i += QUERY)
        above_h[0][i] = above_h[1][i] = above_f[0][i] = above_f[1][i] = 0;
    __syncthreads();
    for (int step = 0; step < length + QUERY - 1; ++step) {
        int column = step - t, now = step & 1;
        if (column >= 0 && column < length) {
            int above = above_h[now][t];
            e = max(e - EXTEND, h - OPEN);
            int f = max(above_f[now][t] - EXTEND, above - OPEN);
            int score = diagonal + (letter == target[column] ? MATCH : MISMATCH);
            h = max(max(score, 0), max(e, f));
            diagonal = above;
            best = max(best, h);
            above_h[1 - now][t + 1] = h;
            above_f[1 - now][t + 1] = f;
        }
        __syncthreads();
    }
    bests[t] = best;
    for (int stride = QUERY / 2; stride > 0; stride /= 2) {
        __syncthreads();
        if (t < stride)
            bests[t] = max(bests[t], bests[t + stride]);
    }
    if (t == 0)
        scores[blockIdx.x] = bests[0];
}
