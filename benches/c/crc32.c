// CRC-32 of many messages, four bytes at a time. Buffers: texts, lengths, tables (four tables of 256 words), results.
// Numbers: messages, stride.
const int phases = 1;

static uint32_t checksum(const uint8_t *restrict text, int length, const uint32_t (*restrict tables)[256]) {
    uint32_t crc = 0xffffffff;
    int i = 0;
    for (; i + 4 <= length; i += 4) {
        uint32_t word;
        memcpy(&word, text + i, 4);
        crc ^= word;
        crc = tables[3][crc & 255] ^ tables[2][crc >> 8 & 255] ^ tables[1][crc >> 16 & 255] ^ tables[0][crc >> 24];
    }
    for (; i < length; ++i)
        crc = crc >> 8 ^ tables[0][(crc ^ text[i]) & 255];
    return ~crc;
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    const uint8_t *texts = buffers[0];
    const int *lengths = buffers[1];
    uint32_t *results = buffers[3];
    int64_t end = begin(numbers[0], part + 1, parts);
    for (int64_t i = begin(numbers[0], part, parts); i < end; ++i)
        results[i] = checksum(texts + i * numbers[1], lengths[i], buffers[2]);
}
