// One step of k-means: assigns each point to the nearest of 16 centres, and moves each centre to the mean of its
// points. Buffers: points (four planes), centres, labels, sums of the blocks of the kernel, moved centres. Numbers:
// n.
#define CENTRES 16
#define DIMENSIONS 4
#define GROUP 64

static float sums[MAX_PARTS][CENTRES][DIMENSIONS + 1];

const int phases = 2;

static void nearest(const float *const *points, int64_t first, const float (*centres)[DIMENSIONS], int *labels) {
    float least[GROUP];
    for (int i = 0; i < GROUP; ++i)
        least[i] = INFINITY, labels[i] = 0;
    for (int c = 0; c < CENTRES; ++c)
        for (int i = 0; i < GROUP; ++i) {
            float distance = 0;
            for (int d = 0; d < DIMENSIONS; ++d) {
                float away = points[d][first + i] - centres[c][d];
                distance += away * away;
            }
            labels[i] = distance < least[i] ? c : labels[i];
            least[i] = distance < least[i] ? distance : least[i];
        }
}

// Assigns the points from `first` to `end`. The last group overlaps the group before it, if there are enough points.
static void assign(const float *all, int64_t n, int64_t first, int64_t end, const float (*centres)[DIMENSIONS],
                   int *labels, float (*own)[DIMENSIONS + 1]) {
    const float *points[DIMENSIONS];
    for (int d = 0; d < DIMENSIONS; ++d)
        points[d] = all + d * n;
    for (int64_t i = first; i < end; i += GROUP) {
        int found[GROUP], count = end - i < GROUP ? end - i : GROUP;
        int64_t start = i + GROUP <= n ? i : n - GROUP;
        nearest(points, start, centres, found);
        for (int64_t k = i; k < i + count; ++k) {
            int label = labels[k] = found[k - start];
            for (int d = 0; d < DIMENSIONS; ++d)
                own[label][d] += points[d][k];
            own[label][DIMENSIONS] += 1;
        }
    }
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    float (*moved)[DIMENSIONS] = buffers[4];
    int64_t n = numbers[0];
    if (phase == 0) {
        memset(sums[part], 0, sizeof sums[part]);
        assign(buffers[0], n, begin(n, part, parts), begin(n, part + 1, parts), buffers[1], buffers[2], sums[part]);
        return;
    }
    for (int c = part; c < CENTRES; c += parts)
        for (int d = 0; d < DIMENSIONS; ++d) {
            float sum = 0, count = 0;
            for (int other = 0; other < parts; ++other)
                sum += sums[other][c][d], count += sums[other][c][DIMENSIONS];
            moved[c][d] = sum / count;
        }
}
