// Adds two vectors; the last block is only partly used.
#include "common.h"

extern "C" __global__ void vector_add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

int main() {
    const int n = 10007;
    std::vector<float> a(n), b(n), want(n);
    Random random(1);
    for (int i = 0; i < n; ++i) {
        a[i] = random.unit();
        b[i] = float(i) * 0.25f;
        want[i] = a[i] + b[i];
    }
    Buffer<float> da(a), db(b), dc(n);
    vector_add<<<(n + 255) / 256, 256>>>(da.ptr(), db.ptr(), dc.ptr(), n);
    LAUNCH_OK();

    Verdict verdict("vector_add");
    verdict.equal("c", dc.get(), want);
    return verdict.finish();
}
