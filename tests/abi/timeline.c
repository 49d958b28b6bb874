// A program for the tests of events: one kernel launched three times, three kernels in two streams that an event orders,
// a captured graph of two kernels and a copy, copies in both directions, and a call that fails.
#include "abi.h"

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, void **graph);
CUresult cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
CUresult cuGraphLaunch(void *exec, CUstream stream);
CUresult cuGraphExecDestroy(void *exec);
CUresult cuGraphDestroy(void *graph);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);

static const char PTX[] =
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry increment(\n"
    "    .param .u64 values\n"
    ")\n"
    "{\n"
    "    .reg .b32 %r<4>;\n"
    "    .reg .b64 %rd<4>;\n"
    "    ld.param.u64 %rd1, [values];\n"
    "    mov.u32 %r1, %tid.x;\n"
    "    mul.wide.u32 %rd2, %r1, 4;\n"
    "    add.u64 %rd1, %rd1, %rd2;\n"
    "    ld.global.u32 %r2, [%rd1];\n"
    "    add.u32 %r2, %r2, 1;\n"
    "    st.global.u32 [%rd1], %r2;\n"
    "    ret;\n"
    "}\n";

static CUfunction increment;
static CUdeviceptr values;

static void launch(CUstream stream) {
    void *parameters[] = {&values};
    REQUIRE(cuLaunchKernel(increment, 1, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
}

int main(void) {
    REQUIRE(cuInit(0));
    CUdevice device;
    REQUIRE(cuDeviceGet(&device, 0));
    CUcontext context;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuCtxSetCurrent(context));
    CUmodule module;
    REQUIRE(cuModuleLoadData(&module, PTX));
    REQUIRE(cuModuleGetFunction(&increment, module, "increment"));
    REQUIRE(cuMemAlloc_v2(&values, 512));
    unsigned host[128] = {0};
    REQUIRE(cuMemcpyHtoD_v2(values, host, sizeof host));

    CUstream a, b;
    REQUIRE(cuStreamCreate(&a, 1));
    REQUIRE(cuStreamCreate(&b, 1));
    for (int i = 0; i < 3; i++) launch(a);
    CUevent event;
    REQUIRE(cuEventCreate(&event, 0));
    REQUIRE(cuEventRecord(event, a));
    REQUIRE(cuStreamWaitEvent(b, event, 0));
    launch(b);
    REQUIRE(cuStreamSynchronize(b));

    void *graph, *exec;
    REQUIRE(cuStreamBeginCapture_v2(a, 0));
    launch(a);
    REQUIRE(cuMemcpyDtoDAsync_v2(values + 256, values, 256, a));
    launch(a);
    REQUIRE(cuStreamEndCapture(a, &graph));
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0));
    REQUIRE(cuGraphLaunch(exec, a));
    REQUIRE(cuStreamSynchronize(a));
    REQUIRE(cuGraphExecDestroy(exec));
    REQUIRE(cuGraphDestroy(graph));

    // The size is larger than the memory.
    CUdeviceptr none;
    if (cuMemAlloc_v2(&none, (size_t)1 << 60) != OUT_OF_MEMORY) return 2;
    REQUIRE(cuMemcpyDtoH_v2(host, values, sizeof host));
    REQUIRE(cuStreamDestroy_v2(a));
    REQUIRE(cuStreamDestroy_v2(b));
    REQUIRE(cuEventDestroy_v2(event));
    REQUIRE(cuMemFree_v2(values));
    REQUIRE(cuModuleUnload(module));
    printf("%u %u\n", host[0], host[64]);
    return 0;
}
