// Scores of local alignments with affine gaps (Smith and Waterman, Gotoh), one pair for each work-group.
#define QUERY 128
#define MATCH 3
#define MISMATCH (-2)
#define OPEN 5
#define EXTEND 1

kernel void smith_waterman(global const uchar *queries, global const uchar *targets, global int *scores, int length) {
    local int above_h[2][QUERY + 1], above_f[2][QUERY + 1], bests[QUERY];
    int t = get_local_id(0), letter = queries[get_group_id(0) * QUERY + t];
    global const uchar *target = targets + get_group_id(0) * length;
    int h = 0, e = 0, diagonal = 0, best = 0;
    for (int i = t; i < QUERY + 1; i += QUERY)
        above_h[0][i] = above_h[1][i] = above_f[0][i] = above_f[1][i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
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
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    bests[t] = best;
    for (int stride = QUERY / 2; stride > 0; stride /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t < stride)
            bests[t] = max(bests[t], bests[t + stride]);
    }
    if (t == 0)
        scores[get_group_id(0)] = bests[0];
}
