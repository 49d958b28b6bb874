/* Order in and between streams, events and host functions. */
#include "driver.h"
#include <unistd.h>

static int order[8];
static int steps;

static void step(void *number) { order[steps++] = (int)(size_t)number; }

static void told(CUstream stream, CUresult status, void *wanted) {
    order[steps++] = status == 0 && stream == *(CUstream *)wanted ? 100 : -1;
}

static volatile int finished;

static void later(void *counter) {
    usleep(100000);
    ++*(volatile int *)counter;
}

int main(void) {
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    CUstream a, b;
    OK(cuStreamCreate(&a, 1));
    OK(cuStreamCreate(&b, 1));
    CUevent start, end;
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuEventQuery(start));

    OK(cuEventRecord(start, a));
    OK(cuLaunchHostFunc(a, step, (void *)1));
    OK(cuLaunchHostFunc(a, step, (void *)2));
    OK(cuEventRecord(end, a));
    OK(cuStreamWaitEvent(b, end, 0));
    OK(cuLaunchHostFunc(b, step, (void *)3));
    OK(cuStreamAddCallback(b, told, &b, 0));
    OK(cuStreamSynchronize(b));
    CHECK(steps == 4);
    CHECK(order[0] == 1 && order[1] == 2 && order[2] == 3 && order[3] == 100);
    OK(cuStreamQuery(a));
    float milliseconds = -1;
    OK(cuEventElapsedTime(&milliseconds, start, end));
    CHECK(milliseconds >= 0 && milliseconds < 60000);

    /* Copies between pinned and device memory run in stream order with the fill between them. */
    unsigned *pinned;
    CUdeviceptr memory;
    OK(cuMemHostAlloc((void **)&pinned, 8, 0));
    OK(cuMemAlloc_v2(&memory, 8));
    pinned[0] = 5;
    OK(cuMemcpyHtoDAsync_v2(memory, pinned, 4, a));
    OK(cuMemsetD32Async(memory + 4, 6, 1, a));
    OK(cuMemcpyDtoHAsync_v2(pinned, memory + 4, 4, a));
    OK(cuMemcpyDtoHAsync_v2(pinned + 1, memory, 4, a));
    OK(cuStreamSynchronize(a));
    CHECK(pinned[0] == 6 && pinned[1] == 5);

    /* With SYNC_MEMOPS, fills and copies of device memory wait for the work before them. */
    CUdeviceptr other;
    unsigned on = 1, off = 0;
    OK(cuMemAlloc_v2(&other, 8));
    OK(cuPointerSetAttribute(&on, 6, memory));
    OK(cuLaunchHostFunc(0, later, (void *)&finished));
    OK(cuMemsetD8_v2(memory, 1, 8));
    CHECK(finished == 1);
    OK(cuLaunchHostFunc(0, later, (void *)&finished));
    OK(cuMemcpyDtoD_v2(other, memory, 8));
    CHECK(finished == 2);
    OK(cuPointerSetAttribute(&off, 6, memory));
    OK(cuLaunchHostFunc(0, later, (void *)&finished));
    OK(cuMemsetD8_v2(memory, 1, 8));
    CHECK(finished == 2);
    OK(cuCtxSynchronize());
    CHECK(finished == 3);

    OK(cuEventDestroy_v2(start));
    OK(cuEventDestroy_v2(end));
    OK(cuStreamDestroy_v2(a));
    OK(cuStreamDestroy_v2(b));
    OK(cuCtxDestroy_v2(context));
    puts("fine");
    return 0;
}
