// Scores of the global alignments of the beginnings of two sequences (Needleman and Wunsch). A work-group computes a
// tile of 16 x 16 scores in local memory, one antidiagonal after the other.
#define EDGE 16
#define LETTERS 16

kernel void alignment_begin(global int *scores, int n, int penalty) {
    int i = get_global_id(0);
    if (i > n)
        return;
    scores[i] = -penalty * i;
    scores[i * (n + 1)] = -penalty * i;
}

kernel void alignment_tiles(global const uchar *a, global const uchar *b, global const int *letters, global int *scores,
                            int n, int penalty, int diagonal, int first) {
    local int tile[EDGE + 1][EDGE + 1], of_letters[EDGE][EDGE];
    int t = get_local_id(0), width = n + 1, tile_x = first + get_group_id(0);
    int x = tile_x * EDGE, y = (diagonal - tile_x) * EDGE;
    for (int row = 0; row < EDGE; ++row)
        of_letters[row][t] = letters[a[y + row] * LETTERS + b[x + t]];
    tile[0][t + 1] = scores[y * width + x + t + 1];
    tile[t + 1][0] = scores[(y + t + 1) * width + x];
    if (t == 0)
        tile[0][0] = scores[y * width + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 0; step < 2 * EDGE - 1; ++step) {
        int row = step - t;
        if (row >= 0 && row < EDGE) {
            int match = tile[row][t] + of_letters[row][t];
            tile[row + 1][t + 1] = max(match, max(tile[row][t + 1], tile[row + 1][t]) - penalty);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int row = 0; row < EDGE; ++row)
        scores[(y + row + 1) * width + x + t + 1] = tile[row + 1][t + 1];
}
