// The Mandelbrot set; each operation is rounded separately.
#pragma OPENCL FP_CONTRACT OFF

kernel void mandelbrot(global ushort *turns, int width, int height, float left, float top, float size, int limit) {
    int px = get_global_id(0), py = get_global_id(1);
    if (px >= width || py >= height)
        return;
    float cx = (float)px * size + left, cy = (float)py * size + top;
    float x = 0, y = 0;
    int turn = 0;
    while (turn < limit) {
        float xx = x * x, yy = y * y;
        if (xx + yy > 4.0f)
            break;
        float xy = x * y;
        y = xy + xy + cy;
        x = xx - yy + cx;
        ++turn;
    }
    turns[py * width + px] = (ushort)turn;
}
