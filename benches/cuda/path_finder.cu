// The cheapest paths through a wall, from row to row. A path moves to one of the three nearest columns of the next
// row. A launch computes several rows in shared memory; a block computes fewer correct columns in each row, so
// neighbouring blocks overlap.
// nvcc -ptx -arch=compute_75 -O3 path_finder.cu -o path_finder.ptx

constexpr int THREADS = 256;

extern "C" __global__ void path_finder(const int *wall, const int *from, int *to, int columns, int row, int steps) {
    __shared__ int costs[2][THREADS];
    int t = threadIdx.x, x = blockIdx.x * (THREADS - 2 * steps) + t - steps;
    bool inside = x >= 0 && x < columns;
    int left = x > 0 ? t - 1 : t, right = x < columns - 1 ? t + 1 : t, now = 0;
    if (inside)
        costs[0][t] = from[x];
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
        if (inside && t > step && t < THREADS - 1 - step) {
            int least = min(costs[now][t], min(costs[now][left], costs[now][right]));
            costs[1 - now][t] = least + wall[(row + step) * columns + x];
        }
        now = 1 - now;
        __syncthreads();
    }
    if (inside && t >= steps && t < THREADS - steps)
        to[x] = costs[now][t];
}
