// Attention: softmax(q k^T / 8) v for several heads, computed for 64 keys at a time. Buffers: q, k, v, out (rows of 64
// floats). Numbers: heads, length.
#define DEPTH 64
#define KEYS 64

const int phases = 1;

typedef float row[DEPTH];

// Scores of one query and 64 keys, whose elements are in `keys` in transposed order.
static float scores(const float *restrict query, const float (*restrict keys)[KEYS], float *restrict out) {
    float most = -INFINITY;
    memset(out, 0, KEYS * sizeof *out);
    for (int d = 0; d < DEPTH; ++d)
        for (int k = 0; k < KEYS; ++k)
            out[k] += query[d] * keys[d][k];
    for (int k = 0; k < KEYS; ++k) {
        out[k] *= 0.125f;
        most = out[k] > most ? out[k] : most;
    }
    return most;
}

static void head(const row *q, const row *k, const row *v, row *out, int64_t length, int64_t first, int64_t end) {
    float most[end - first], sum[end - first];
    for (int64_t i = 0; i < end - first; ++i)
        most[i] = -INFINITY, sum[i] = 0;
    memset(out[first], 0, (end - first) * sizeof *out);
    for (int64_t tile = 0; tile < length; tile += KEYS) {
        float keys[DEPTH][KEYS], weights[KEYS];
        for (int i = 0; i < KEYS; ++i)
            for (int d = 0; d < DEPTH; ++d)
                keys[d][i] = k[tile + i][d];
        for (int64_t i = first; i < end; ++i) {
            float here = scores(q[i], keys, weights), old = most[i - first];
            here = here > old ? here : old;
            float scale = expf(old - here);
            for (int j = 0; j < KEYS; ++j)
                weights[j] = expf(weights[j] - here);
            float total = sum[i - first] * scale;
            for (int j = 0; j < KEYS; ++j)
                total += weights[j];
            most[i - first] = here;
            sum[i - first] = total;
            float own[DEPTH];
            for (int d = 0; d < DEPTH; ++d)
                own[d] = out[i][d] * scale;
            for (int j = 0; j < KEYS; ++j)
                for (int d = 0; d < DEPTH; ++d)
                    own[d] += weights[j] * v[tile + j][d];
            memcpy(out[i], own, sizeof own);
        }
    }
    for (int64_t i = first; i < end; ++i)
        for (int d = 0; d < DEPTH; ++d)
            out[i][d] /= sum[i - first];
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const row *q = buffers[0], *k = buffers[1], *v = buffers[2];
    row *out = buffers[3];
    int64_t length = numbers[1], first = begin(length, part, parts), end = begin(length, part + 1, parts);
    for (int64_t i = 0; i < numbers[0]; ++i) {
        int64_t at = i * length;
        head(q + at, k + at, v + at, out + at, length, first, end);
    }
}
