// Computes y = a * x + y in a grid-stride loop. Device and CPU use a fused multiply-add, so the bits are equal.
#include "common.h"

extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = fmaf(a, x[i], y[i]);
}

int main() {
    const int n = 12345;
    const float a = 2.71828f;
    std::vector<float> x(n), y(n), want(n);
    Random random(2);
    for (int i = 0; i < n; ++i) {
        x[i] = random.unit() - 0.5f;
        y[i] = random.unit() * 100.0f;
        want[i] = std::fmaf(a, x[i], y[i]);
    }
    Buffer<float> dx(x), dy(y);
    saxpy<<<8, 128>>>(n, a, dx.ptr(), dy.ptr());
    LAUNCH_OK();

    Verdict verdict("saxpy");
    verdict.equal("y", dy.get(), want);
    return verdict.finish();
}
