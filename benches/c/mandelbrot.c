// The Mandelbrot set; each operation is rounded separately. Buffers: iteration counts. Numbers: width, height, limit.
// The first point is -2 - i in the complex plane, and the distance between neighbouring points is 2 / height.
#pragma STDC FP_CONTRACT OFF

const int phases = 1;

static uint16_t turns_at(float cx, float cy, int limit) {
    float x = 0, y = 0;
    for (int turn = 0; turn < limit; ++turn) {
        float xx = x * x, yy = y * y, xy = x * y;
        if (xx + yy > 4.0f)
            return turn;
        y = xy + xy + cy;
        x = xx - yy + cx;
    }
    return limit;
}

void run(void *const *buffers, const int64_t *numbers, int phase, int part, int parts) {
    uint16_t *turns = buffers[0];
    int64_t width = numbers[0], height = numbers[1], end = begin(height, part + 1, parts);
    float step = 2.0f / (float)height;
    for (int64_t y = begin(height, part, parts); y < end; ++y)
        for (int64_t x = 0; x < width; ++x)
            turns[y * width + x] = turns_at((float)x * step + -2.0f, (float)y * step + -1.0f, numbers[2]);
}
