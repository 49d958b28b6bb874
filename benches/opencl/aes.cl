// AES-128 in counter mode, one counter for each work-item. Words contain their bytes in big-endian order.
static uint rotate_right(uint x, int n) { return x >> n | x << (32 - n); }

static uint mixed(uint a, uint b, uint c, uint d, local const uint *table) {
    return table[a >> 24] ^ rotate_right(table[b >> 16 & 255], 8) ^ rotate_right(table[c >> 8 & 255], 16) ^
           rotate_right(table[d & 255], 24);
}

static uint last(uint a, uint b, uint c, uint d, local const uchar *bytes) {
    return (uint)bytes[a >> 24] << 24 | bytes[b >> 16 & 255] << 16 | bytes[c >> 8 & 255] << 8 | bytes[d & 255];
}

static uint swapped(uint x) { return as_uint(as_uchar4(x).wzyx); }

kernel void aes_ctr(global const uint4 *text, global uint4 *out, global const uint *keys, global const uint *tables,
                    global const uchar *substitutions, uint4 counter, int n) {
    local uint table[256], key[44];
    local uchar bytes[256];
    int t = get_local_id(0);
    for (int i = t; i < 256; i += get_local_size(0)) {
        table[i] = tables[i];
        bytes[i] = substitutions[i];
    }
    if (t < 44)
        key[t] = keys[t];
    barrier(CLK_LOCAL_MEM_FENCE);
    int i = get_global_id(0);
    if (i >= n)
        return;
    uint a = counter.x ^ key[0], b = counter.y ^ key[1], c = counter.z ^ key[2], d = (counter.w + i) ^ key[3];
    for (int round = 1; round < 10; ++round) {
        uint na = mixed(a, b, c, d, table) ^ key[4 * round], nb = mixed(b, c, d, a, table) ^ key[4 * round + 1];
        uint nc = mixed(c, d, a, b, table) ^ key[4 * round + 2], nd = mixed(d, a, b, c, table) ^ key[4 * round + 3];
        a = na, b = nb, c = nc, d = nd;
    }
    uint4 block = text[i];
    block.x ^= swapped(last(a, b, c, d, bytes) ^ key[40]);
    block.y ^= swapped(last(b, c, d, a, bytes) ^ key[41]);
    block.z ^= swapped(last(c, d, a, b, bytes) ^ key[42]);
    block.w ^= swapped(last(d, a, b, c, bytes) ^ key[43]);
    out[i] = block;
}
