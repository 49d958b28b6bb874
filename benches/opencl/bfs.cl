// Breadth-first search, level by level, over all nodes. The level of an unreached node is -1.
kernel void bfs_begin(global int *levels, int nodes, int source) {
    int node = get_global_id(0);
    if (node < nodes)
        levels[node] = node == source ? 0 : -1;
}

kernel void bfs_level(global const int *starts, global const int *edges, global int *levels, int nodes, int level) {
    int node = get_global_id(0);
    if (node >= nodes || levels[node] != level)
        return;
    for (int k = starts[node]; k < starts[node + 1]; ++k)
        if (levels[edges[k]] < 0)
            levels[edges[k]] = level + 1;
}
