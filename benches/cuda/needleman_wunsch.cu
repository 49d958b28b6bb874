// Scores of the global alignments of the beginnings of two sequences (Needleman and Wunsch). A launch computes the
// tiles of one diagonal. A block computes a tile of 16 x 16 scores in shared memory, one antidiagonal after the
// other.
// nvcc -ptx -arch=compute_75 -O3 needleman_wunsch.cu -o needleman_wunsch.ptx

constexpr int EDGE = 16, LETTERS = 16;

extern "C" __global__ void alignment_begin(int *scores, int n, int penalty) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n)
        return;
    scores[i] = -penalty * i;
    scores[i * (n + 1)] = -penalty * i;
}

// Computes the tiles whose coordinates have the sum `diagonal`. The x coordinate of the first tile is `first`.
extern "C" __global__ void alignment_tiles(const unsigned char *a, const unsigned char *b, const int *letters,
                                           int *scores, int n, int penalty, int diagonal, int first) {
    __shared__ int tile[EDGE + 1][EDGE + 1], of_letters[EDGE][EDGE];
    int t = threadIdx.x, width = n + 1, tile_x = first + blockIdx.x;
    int x = tile_x * EDGE, y = (diagonal - tile_x) * EDGE;
    for (int row = 0; row < EDGE; ++row)
        of_letters[row][t] = letters[a[y + row] * LETTERS + b[x + t]];
    tile[0][t + 1] = scores[y * width + x + t + 1];
    tile[t + 1][0] = scores[(y + t + 1) * width + x];
    if (t == 0)
        tile[0][0] = scores[y * width + x];
    __syncthreads();
    for (int step = 0; step < 2 * EDGE - 1; ++step) {
        int row = step - t;
        if (row >= 0 && row < EDGE) {
            int match = tile[row][t] + of_letters[row][t];
            tile[row + 1][t + 1] = max(match, max(tile[row][t + 1], tile[row + 1][t]) - penalty);
        }
        __syncthreads();
    }
    for (int row = 0; row < EDGE; ++row)
        scores[(y + row + 1) * width + x + t + 1] = tile[row + 1][t + 1];
}
