// Breadth-first search, level by level: one kernel tests all nodes in each level, the other fills queues by atomics.
#include "common.h"

#include <queue>

extern "C" __global__ void bfs_level(int nodes, const int *starts, const int *edges, int *levels,
                                     int level, int *changed) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || levels[node] != level)
        return;
    for (int k = starts[node]; k < starts[node + 1]; ++k)
        if (levels[edges[k]] < 0) {
            levels[edges[k]] = level + 1; // several threads may store the same value
            *changed = 1;
        }
}

extern "C" __global__ void bfs_queue(const int *queue, int waiting, const int *starts,
                                     const int *edges, int *levels, int level, int *next,
                                     int *next_count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= waiting)
        return;
    int node = queue[i];
    for (int k = starts[node]; k < starts[node + 1]; ++k)
        if (atomicCAS(&levels[edges[k]], -1, level + 1) == -1)
            next[atomicAdd(next_count, 1)] = edges[k];
}

int main() {
    const int nodes = 600, source = 17;
    std::vector<int> starts(1, 0), edges, want(nodes, -1);
    Random random(12);
    for (int node = 0; node < nodes; ++node) {
        int count = int(random.below(5));
        for (int k = 0; k < count; ++k)
            edges.push_back(int((node + random.below(60)) % nodes));
        starts.push_back(int(edges.size()));
    }
    std::queue<int> waiting;
    want[source] = 0;
    waiting.push(source);
    while (!waiting.empty()) {
        int node = waiting.front();
        waiting.pop();
        for (int k = starts[node]; k < starts[node + 1]; ++k)
            if (want[edges[k]] < 0) {
                want[edges[k]] = want[node] + 1;
                waiting.push(edges[k]);
            }
    }

    std::vector<int> initial(nodes, -1);
    initial[source] = 0;
    Buffer<int> dstarts(starts), dedges(edges), levels(initial), changed(1);
    for (int level = 0; level < nodes; ++level) {
        changed.clear();
        bfs_level<<<(nodes + 127) / 128, 128>>>(nodes, dstarts.ptr(), dedges.ptr(), levels.ptr(),
                                                level, changed.ptr());
        LAUNCH_OK();
        if (changed.get()[0] != 1)
            break;
    }

    Buffer<int> queued(initial), a(std::vector<int>(nodes, source)), b(nodes), count(1);
    int *from = a.ptr(), *to = b.ptr(), length = 1;
    for (int level = 0; length > 0 && level < nodes; ++level) {
        count.clear();
        bfs_queue<<<(length + 63) / 64, 64>>>(from, length, dstarts.ptr(), dedges.ptr(),
                                              queued.ptr(), level, to, count.ptr());
        LAUNCH_OK();
        length = count.get()[0];
        std::swap(from, to);
    }

    Verdict verdict("bfs");
    verdict.equal("levels", levels.get(), want);
    verdict.equal("queued", queued.get(), want);
    return verdict.finish();
}
