// Breadth-first search with a queue, which visits each node once. One part computes the whole result. Buffers: starts,
// edges, levels. Numbers: nodes, source.
#include <stdlib.h>

const int phases = 1;

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const int *restrict starts = buffers[0], *restrict edges = buffers[1];
    int *restrict levels = buffers[2];
    int64_t nodes = numbers[0], read = 0, written = 1;
    if (part > 0)
        return;
    static int *queue;
    static int64_t room;
    if (room < nodes) {
        queue = realloc(queue, nodes * sizeof *queue);
        room = nodes;
    }
    for (int64_t i = 0; i < nodes; ++i)
        levels[i] = -1;
    queue[0] = numbers[1];
    levels[queue[0]] = 0;
    while (read < written) {
        int node = queue[read++];
        for (int k = starts[node]; k < starts[node + 1]; ++k)
            if (levels[edges[k]] < 0) {
                levels[edges[k]] = levels[node] + 1;
                queue[written++] = edges[k];
            }
    }
}
