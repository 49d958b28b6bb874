// SHA-256 of many messages, one message for each work-item.
static uint rotate_right(uint x, int n) { return (x >> n) | (x << (32 - n)); }

static void compress(uint *state, const uint *block, global const uint *k) {
    uint w[64];
    for (int i = 0; i < 16; ++i)
        w[i] = block[i];
    for (int i = 16; i < 64; ++i) {
        uint s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint v[8];
    for (int i = 0; i < 8; ++i)
        v[i] = state[i];
    for (int i = 0; i < 64; ++i) {
        uint s1 = rotate_right(v[4], 6) ^ rotate_right(v[4], 11) ^ rotate_right(v[4], 25);
        uint choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint t1 = v[7] + s1 + choice + k[i] + w[i];
        uint s0 = rotate_right(v[0], 2) ^ rotate_right(v[0], 13) ^ rotate_right(v[0], 22);
        uint majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        for (int j = 7; j > 0; --j)
            v[j] = v[j - 1];
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; ++i)
        state[i] += v[i];
}

kernel void sha256_batch(global const uchar *texts, global const int *lengths, int stride, global const uint *table,
                         global uint *digests, int n) {
    int message = get_global_id(0);
    if (message >= n)
        return;
    global const uchar *text = texts + (size_t)message * stride;
    int length = lengths[message];
    uint state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    int blocks = (length + 8) / 64 + 1;
    for (int b = 0; b < blocks; ++b) {
        uint words[16];
        for (int i = 0; i < 16; ++i) {
            uint word = 0;
            for (int j = 0; j < 4; ++j) {
                int at = b * 64 + i * 4 + j;
                uint byte = at < length ? text[at] : at == length ? 0x80 : 0;
                word = word << 8 | byte;
            }
            words[i] = word;
        }
        if (b == blocks - 1)
            words[15] = (uint)length * 8;
        compress(state, words, table);
    }
    for (int i = 0; i < 8; ++i)
        digests[8 * message + i] = state[i];
}
