// A library whose name is one of CUDA's: `checked.c` calls it, and the driver call in it fails.
#include "abi.h"

void library_fails(void) {
    CUdeviceptr memory;
    EXPECT(cuMemAlloc_v2(&memory, (size_t)1 << 60), OUT_OF_MEMORY);
    (void)failures;
}
