// The limits of a context: all of cuda.h 13.
#include "abi.h"

CUresult cuCtxGetLimit(size_t *value, int limit);
CUresult cuCtxSetLimit(int limit, size_t value);

enum { UNSUPPORTED_LIMIT = 215 };

int main(void) {
    start();
    size_t value;
    for (int limit = 0; limit <= 10; ++limit) EXPECT(cuCtxGetLimit(&value, limit), SUCCESS);
    EXPECT(cuCtxGetLimit(&value, 11), UNSUPPORTED_LIMIT);
    // Shared memory, and whether the context was made for graphics, can only be asked.
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
