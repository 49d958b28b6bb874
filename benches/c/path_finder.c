// The cheapest paths through a wall from its first row to each column of its last row. A path moves to one of the
// three nearest columns of the next row. Buffers: wall, two rows of costs. Numbers: rows, columns, index of the
// buffer for the result.
#define GROUP 2048
#define MAX_STEPS 64

const int phases = 4;

static inline int least(int a, int b) { return a < b ? a : b; }

// Computes `to[first..end]` from the costs `from` after the rows before `row`. Also computes the columns around the
// result from which the costs come.
static void columns(const int *restrict wall, const int *restrict from, int *restrict to, int64_t all, int64_t first,
                    int64_t end, int64_t row, int64_t last_row) {
    int two[2][GROUP + 2 * MAX_STEPS + 2];
    int64_t steps = last_row - row, low = first > steps ? first - steps : 0;
    int64_t high = end + steps < all ? end + steps : all, count = high - low;
    int *here = two[0] + 1, *next = two[1] + 1;
    memcpy(here, from + low, count * sizeof *here);
    for (; row < last_row; ++row) {
        here[-1] = here[0];
        here[count] = here[count - 1];
        const int *costs = wall + row * all + low;
        for (int64_t i = 0; i < count; ++i)
            next[i] = costs[i] + least(least(here[i - 1], here[i]), here[i + 1]);
        int *swap = here;
        here = next;
        next = swap;
    }
    memcpy(to + first, here + (first - low), (end - first) * sizeof *here);
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    int64_t rows = numbers[0], all = numbers[1], end = begin(all, part + 1, parts), result = numbers[2];
    int64_t row = 1 + begin(rows - 1, phase, phases), last_row = 1 + begin(rows - 1, phase + 1, phases);
    const int *wall = buffers[0], *from = phase == 0 ? wall : buffers[phase % 2 ? 3 - result : result];
    int *to = buffers[phase % 2 ? result : 3 - result];
    for (int64_t first = begin(all, part, parts); first < end; first += GROUP)
        columns(wall, from, to, all, first, first + GROUP < end ? first + GROUP : end, row, last_row);
}
