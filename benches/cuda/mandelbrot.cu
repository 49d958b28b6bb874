// The Mandelbrot set of any part of the plane: the number of loop iterations differs from thread to thread. Products
// and sums are rounded separately, so that implementations on CPUs compute the same iteration counts.
// nvcc -ptx -arch=compute_75 -O3 mandelbrot.cu -o mandelbrot.ptx

extern "C" __global__ void mandelbrot(unsigned short *turns, int width, int height, float left, float top,
                                      float step, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x;
    int py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height)
        return;
    float cx = __fadd_rn(__fmul_rn(float(px), step), left);
    float cy = __fadd_rn(__fmul_rn(float(py), step), top);
    float x = 0, y = 0;
    int turn = 0;
    while (turn < limit) {
        float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
        if (__fadd_rn(xx, yy) > 4.0f)
            break;
        float xy = __fmul_rn(x, y);
        y = __fadd_rn(__fadd_rn(xy, xy), cy);
        x = __fadd_rn(__fsub_rn(xx, yy), cx);
        ++turn;
    }
    turns[py * width + px] = (unsigned short)turn;
}
