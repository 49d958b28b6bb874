// A merge sort. Each part sorts its keys; the first part then merges the sorted parts. Buffers: keys, two destinations.
// Numbers: n, index of the buffer for the result.
#define RUN 16

const int phases = 2;

static void insertion_sort(const unsigned *restrict in, unsigned *restrict out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        unsigned key = in[i];
        int64_t to = i;
        for (; to > 0 && out[to - 1] > key; --to)
            out[to] = out[to - 1];
        out[to] = key;
    }
}

static void merge(const unsigned *restrict in, int64_t middle, int64_t n, unsigned *restrict out) {
    int64_t i = 0, j = middle, to = 0;
    while (i < middle && j < n) {
        unsigned a = in[i], b = in[j];
        out[to++] = b < a ? b : a;
        j += b < a;
        i += b >= a;
    }
    memcpy(out + to, in + i, (middle - i) * sizeof *in);
    memcpy(out + to + middle - i, in + j, (n - j) * sizeof *in);
}

static void sort(const unsigned *keys, unsigned *result, unsigned *other, int64_t n) {
    int passes = 0;
    for (int64_t run = RUN; run < n; run *= 2)
        ++passes;
    unsigned *from = passes % 2 ? other : result, *to = passes % 2 ? result : other;
    for (int64_t i = 0; i < n; i += RUN)
        insertion_sort(keys + i, from + i, n - i < RUN ? n - i : RUN);
    for (int64_t run = RUN; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            int64_t left = n - i;
            merge(from + i, left < run ? left : run, left < 2 * run ? left : 2 * run, to + i);
        }
        unsigned *swap = from;
        from = to;
        to = swap;
    }
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    unsigned *result = buffers[numbers[1]], *other = buffers[3 - numbers[1]];
    int64_t n = numbers[0], first = begin(n, part, parts);
    if (phase == 0) {
        sort((const unsigned *)buffers[0] + first, result + first, other + first, begin(n, part + 1, parts) - first);
        return;
    }
    if (part > 0)
        return;
    for (int sorted = 1; sorted < parts; ++sorted) {
        int64_t middle = begin(n, sorted, parts), all = begin(n, sorted + 1, parts);
        merge(result, middle, all, other);
        memcpy(result, other, all * sizeof *other);
    }
}
