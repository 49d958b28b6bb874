// AES-128 in counter mode, with a table of the combined byte substitution and column mixing. Words contain their
// bytes in big-endian order. Buffers: text, cipher text, round keys (44 words), table (256 words), substitutions (256
// bytes), first counter (4 words). Numbers: blocks of 16 bytes.
const int phases = 1;

static inline uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static inline uint32_t mixed(uint32_t a, uint32_t b, uint32_t c, uint32_t d, const uint32_t *restrict table) {
    return table[a >> 24] ^ rotate(table[b >> 16 & 255], 8) ^ rotate(table[c >> 8 & 255], 16) ^
           rotate(table[d & 255], 24);
}

static inline uint32_t last(uint32_t a, uint32_t b, uint32_t c, uint32_t d, const uint8_t *restrict bytes) {
    return (uint32_t)bytes[a >> 24] << 24 | bytes[b >> 16 & 255] << 16 | bytes[c >> 8 & 255] << 8 | bytes[d & 255];
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const uint32_t *restrict text = buffers[0], *restrict keys = buffers[2], *restrict table = buffers[3];
    const uint32_t *restrict counter = buffers[5];
    const uint8_t *restrict bytes = buffers[4];
    uint32_t *restrict out = buffers[1];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t i = begin(numbers[0], part, parts); i < end; ++i) {
        uint32_t a = counter[0] ^ keys[0], b = counter[1] ^ keys[1], c = counter[2] ^ keys[2];
        uint32_t d = (counter[3] + (uint32_t)i) ^ keys[3];
        for (int round = 1; round < 10; ++round) {
            const uint32_t *key = keys + 4 * round;
            uint32_t na = mixed(a, b, c, d, table) ^ key[0], nb = mixed(b, c, d, a, table) ^ key[1];
            uint32_t nc = mixed(c, d, a, b, table) ^ key[2], nd = mixed(d, a, b, c, table) ^ key[3];
            a = na, b = nb, c = nc, d = nd;
        }
        uint32_t stream[4] = {last(a, b, c, d, bytes), last(b, c, d, a, bytes), last(c, d, a, b, bytes),
                              last(d, a, b, c, bytes)};
        for (int word = 0; word < 4; ++word)
            out[4 * i + word] = text[4 * i + word] ^ __builtin_bswap32(stream[word] ^ keys[40 + word]);
    }
}
