// Breadth-first search, level by level, over all nodes. The level of an unreached node is -1.
// nvcc -ptx -arch=compute_75 -O3 bfs.cu -o bfs.ptx

extern "C" __global__ void bfs_begin(int *levels, int nodes, int source) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node < nodes)
        levels[node] = node == source ? 0 : -1;
}

extern "C" __global__ void bfs_level(const int *starts, const int *edges, int *levels, int nodes, int level) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || levels[node] != level)
        return;
    for (int k = starts[node]; k < starts[node + 1]; ++k)
        if (levels[edges[k]] < 0)
            levels[edges[k]] = level + 1; // several threads may store the same value
}
