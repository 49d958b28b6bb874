// CRC-32 of many messages, four bytes at a time, one message for each work-item.
kernel void crc32_batch(global const uchar *texts, global const int *lengths, int stride, global const uint *tables,
                        global uint *results, int n) {
    local uint table[4][256];
    for (int i = get_local_id(0); i < 4 * 256; i += get_local_size(0))
        table[i / 256][i % 256] = tables[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    int message = get_global_id(0);
    if (message >= n)
        return;
    global const uchar *text = texts + (size_t)message * stride;
    int length = lengths[message], i = 0;
    uint crc = 0xffffffff;
    for (; i + 4 <= length; i += 4) {
        crc ^= *(global const uint *)(text + i);
        crc = table[3][crc & 255] ^ table[2][crc >> 8 & 255] ^ table[1][crc >> 16 & 255] ^ table[0][crc >> 24];
    }
    for (; i < length; ++i)
        crc = crc >> 8 ^ table[0][(crc ^ text[i]) & 255];
    results[message] = ~crc;
}
