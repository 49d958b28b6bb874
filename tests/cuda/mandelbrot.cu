// Computes the Mandelbrot set: threads have different numbers of loop iterations. Products and sums are rounded
// separately, so the CPU counts the same numbers of iterations.
#include "common.h"

constexpr int LIMIT = 100;

extern "C" __global__ void mandelbrot(unsigned char *turns, int width, int height) {
    int px = blockIdx.x * blockDim.x + threadIdx.x;
    int py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height)
        return;
    float cx = __fmaf_rn(float(px), 3.0f / 128.0f, -2.0f);
    float cy = __fmaf_rn(float(py), 2.0f / 64.0f, -1.0f);
    float x = 0, y = 0;
    int turn = 0;
    while (turn < LIMIT) {
        float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
        if (__fadd_rn(xx, yy) > 4.0f)
            break;
        float xy = __fmul_rn(x, y);
        y = __fadd_rn(__fadd_rn(xy, xy), cy);
        x = __fadd_rn(__fsub_rn(xx, yy), cx);
        ++turn;
    }
    turns[py * width + px] = (unsigned char)turn;
}

int main() {
    const int width = 100, height = 60;
    std::vector<unsigned char> want(width * height);
    for (int py = 0; py < height; ++py)
        for (int px = 0; px < width; ++px) {
            float cx = std::fmaf(float(px), 3.0f / 128.0f, -2.0f);
            float cy = std::fmaf(float(py), 2.0f / 64.0f, -1.0f);
            volatile float x = 0, y = 0; // volatile prevents fusion on the host
            int turn = 0;
            while (turn < LIMIT) {
                volatile float xx = x * x, yy = y * y, xy = x * y;
                volatile float norm = xx + yy;
                if (norm > 4.0f)
                    break;
                volatile float twice = xy + xy, difference = xx - yy;
                y = twice + cy;
                x = difference + cx;
                ++turn;
            }
            want[py * width + px] = (unsigned char)turn;
        }
    Buffer<unsigned char> turns(want.size());
    mandelbrot<<<dim3((width + 31) / 32, (height + 7) / 8), dim3(32, 8)>>>(turns.ptr(), width,
                                                                          height);
    LAUNCH_OK();

    Verdict verdict("mandelbrot");
    verdict.equal("turns", turns.get(), want);
    return verdict.finish();
}
