// SHA-256 of many messages. Buffers: texts, lengths, table, digests. Numbers: messages, stride.
const int phases = 1;

static inline uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void compress(uint32_t *restrict state, const uint8_t *restrict block, const uint32_t *restrict table) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
        uint32_t word;
        memcpy(&word, block + 4 * i, 4);
        w[i] = __builtin_bswap32(word);
    }
    for (int i = 16; i < 64; ++i) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; ++i) {
        uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + table[i] + w[i];
        uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

static void digest(const uint8_t *restrict text, int length, const uint32_t *restrict table, uint32_t *restrict out) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    int whole = length / 64, rest = length % 64;
    for (int i = 0; i < whole; ++i)
        compress(state, text + 64 * i, table);
    uint8_t last[64] = {0};
    memcpy(last, text + 64 * whole, rest);
    last[rest] = 0x80;
    if (rest >= 56) {
        compress(state, last, table);
        memset(last, 0, sizeof last);
    }
    uint64_t bits = __builtin_bswap64((uint64_t)length * 8);
    memcpy(last + 56, &bits, 8);
    compress(state, last, table);
    memcpy(out, state, sizeof state);
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const uint8_t *texts = buffers[0];
    const int32_t *lengths = buffers[1];
    uint32_t *digests = buffers[3];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t i = begin(numbers[0], part, parts); i < end; ++i)
        digest(texts + i * numbers[1], lengths[i], buffers[2], digests + 8 * i);
}
