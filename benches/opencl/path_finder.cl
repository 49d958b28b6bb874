// The cheapest paths through a wall, from row to row. A launch computes several rows in local memory; a work-group
// computes fewer correct columns in each row, so neighbouring groups overlap.
#define THREADS 256

kernel void path_finder(global const int *wall, global const int *from, global int *to, int columns, int row,
                        int steps) {
    local int costs[2][THREADS];
    int t = get_local_id(0), x = (int)get_group_id(0) * (THREADS - 2 * steps) + t - steps;
    bool inside = x >= 0 && x < columns;
    int left = x > 0 ? t - 1 : t, right = x < columns - 1 ? t + 1 : t, now = 0;
    if (inside)
        costs[0][t] = from[x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 0; step < steps; ++step) {
        if (inside && t > step && t < THREADS - 1 - step) {
            int least = min(costs[now][t], min(costs[now][left], costs[now][right]));
            costs[1 - now][t] = least + wall[(row + step) * columns + x];
        }
        now = 1 - now;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (inside && t >= steps && t < THREADS - steps)
        to[x] = costs[now][t];
}
