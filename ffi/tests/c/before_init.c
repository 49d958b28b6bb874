/* Before cuInit nearly all calls fail, and the library is not initialised in a forked child. */
#include "driver.h"

#include <sys/wait.h>
#include <unistd.h>

enum { NOT_INITIALIZED = 3 };

int main(void) {
    int number = 0;
    CUcontext context;
    CUdeviceptr memory;
    const char *name;
    EXPECT(NOT_INITIALIZED, cuDeviceGetCount(&number));
    EXPECT(NOT_INITIALIZED, cuDeviceGet(&number, 0));
    EXPECT(NOT_INITIALIZED, cuCtxGetCurrent(&context));
    EXPECT(NOT_INITIALIZED, cuMemAlloc_v2(&memory, 16));
    EXPECT(NOT_INITIALIZED, cuStreamSynchronize(0));
    EXPECT(NOT_INITIALIZED, cuDeviceGetCount(NULL));
    OK(cuDriverGetVersion(&number));
    CHECK(number == 13050);
    OK(cuGetErrorName(3, &name));
    CHECK(strcmp(name, "CUDA_ERROR_NOT_INITIALIZED") == 0);

    OK(cuInit(0));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&number));
    CHECK(number == 1);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&memory, 1 << 20));

    pid_t child = fork();
    if (child == 0) {
        EXPECT(NOT_INITIALIZED, cuInit(0));
        EXPECT(NOT_INITIALIZED, cuMemAlloc_v2(&memory, 16));
        EXPECT(NOT_INITIALIZED, cuCtxSynchronize());
        OK(cuGetErrorName(3, &name));
        exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(cuMemFree_v2(memory));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    puts("fine");
    return 0;
}
