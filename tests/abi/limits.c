// Tests all limits of a context that cuda.h of CUDA 13 defines.
#include "abi.h"

CUresult cuCtxGetLimit(size_t *value, int limit);
CUresult cuCtxSetLimit(int limit, size_t value);

enum { UNSUPPORTED_LIMIT = 215 };

int main(void) {
    start();
    size_t value;
    for (int limit = 0; limit <= 10; ++limit) EXPECT(cuCtxGetLimit(&value, limit), SUCCESS);
    EXPECT(cuCtxGetLimit(&value, 11), UNSUPPORTED_LIMIT);
    // The program can query, but not set, the limit of shared memory (7) and whether the context is for graphics (8).
    EXPECT(cuCtxSetLimit(7, 1), UNSUPPORTED_LIMIT);
    EXPECT(cuCtxSetLimit(8, 1), UNSUPPORTED_LIMIT);
    EXPECT(cuCtxGetLimit(&value, 7), SUCCESS);
    CHECK(value >= 48 << 10);
    value = 1;
    EXPECT(cuCtxGetLimit(&value, 8), SUCCESS);
    CHECK(value == 0);
    EXPECT(cuCtxSetLimit(9, 0), SUCCESS);
    EXPECT(cuCtxGetLimit(&value, 9), SUCCESS);
    CHECK(value == 0);
    EXPECT(cuCtxSetLimit(9, 7), SUCCESS);
    EXPECT(cuCtxGetLimit(&value, 9), SUCCESS);
    CHECK(value == 1);
    EXPECT(cuCtxSetLimit(10, 4096), SUCCESS);
    EXPECT(cuCtxGetLimit(&value, 10), SUCCESS);
    CHECK(value == 4096);
    return finish();
}
