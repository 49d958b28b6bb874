// Scores of local alignments with affine gaps (Smith and Waterman, Gotoh). Buffers: queries, targets, scores. Numbers:
// pairs, length of a target.
#define QUERY 128
#define MATCH 3
#define MISMATCH (-2)
#define OPEN 5
#define EXTEND 1

const int phases = 1;

static inline int larger(int a, int b) { return a > b ? a : b; }

static int align(const uint8_t *restrict query, const uint8_t *restrict target, int64_t length) {
    int h[QUERY] = {0}, e[QUERY] = {0}, best = 0;
    for (int64_t j = 0; j < length; ++j) {
        int diagonal = 0, above = 0, f = 0;
        for (int i = 0; i < QUERY; ++i) {
            e[i] = larger(e[i] - EXTEND, h[i] - OPEN);
            f = larger(f - EXTEND, above - OPEN);
            int score = diagonal + (query[i] == target[j] ? MATCH : MISMATCH);
            score = larger(larger(score, 0), larger(e[i], f));
            diagonal = h[i];
            above = h[i] = score;
            best = larger(best, score);
        }
    }
    return best;
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const uint8_t *queries = buffers[0], *targets = buffers[1];
    int *scores = buffers[2];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t pair = begin(numbers[0], part, parts); pair < end; ++pair)
        scores[pair] = align(queries + pair * QUERY, targets + pair * numbers[1], numbers[1]);
}
