/* Loading, linking and launching PTX. */
#include "driver.h"

enum {
    INVALID_VALUE = 1,
    INVALID_IMAGE = 200,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    PTX = 1,
    ERROR_LOG = 5,
    ERROR_LOG_SIZE = 6,
};

/* Computes out[i] = in[i] * factor + bias, where bias is a variable of the module. */
static const char scale[] =
    "//\n"
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .global .align 4 .u32 bias = 1000;\n"
    ".visible .entry scale(.param .u64 out, .param .u64 in, .param .u32 factor, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %p;\n"
    "  .reg .b32 %r<10>;\n"
    "  .reg .b64 %d<6>;\n"
    "  ld.param.u64 %d0, [out];\n"
    "  ld.param.u64 %d1, [in];\n"
    "  ld.param.u32 %r0, [factor];\n"
    "  ld.param.u32 %r1, [n];\n"
    "  mov.u32 %r2, %ctaid.x;\n"
    "  mov.u32 %r3, %ntid.x;\n"
    "  mov.u32 %r4, %tid.x;\n"
    "  mad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.u32 %p, %r5, %r1;\n"
    "  @%p bra done;\n"
    "  mul.wide.u32 %d2, %r5, 4;\n"
    "  add.u64 %d3, %d1, %d2;\n"
    "  ld.global.u32 %r6, [%d3];\n"
    "  ld.global.u32 %r7, [bias];\n"
    "  mad.lo.u32 %r8, %r6, %r0, %r7;\n"
    "  add.u64 %d4, %d0, %d2;\n"
    "  st.global.u32 [%d4], %r8;\n"
    "done:\n"
    "  ret;\n"
    "}\n";

#define N 1000

static unsigned in[N], out[N];

static void run(CUmodule module, unsigned bias, int packed) {
    CUfunction function;
    OK(cuModuleGetFunction(&function, module, "scale"));
    CUdeviceptr from, to;
    OK(cuMemAlloc_v2(&from, sizeof in));
    OK(cuMemAlloc_v2(&to, sizeof out));
    OK(cuMemcpyHtoD_v2(from, in, sizeof in));
    OK(cuMemsetD8_v2(to, 0, sizeof out));
    unsigned factor = 3, n = N - 1;
    if (packed) {
        struct {
            CUdeviceptr to, from;
            unsigned factor, n;
        } buffer = {to, from, factor, n};
        size_t size = sizeof buffer;
        void *extra[] = {(void *)1, &buffer, (void *)2, &size, NULL};
        OK(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, 0, NULL, extra));
    } else {
        void *params[] = {&to, &from, &factor, &n};
        OK(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, 0, params, NULL));
    }
    OK(cuMemcpyDtoH_v2(out, to, sizeof out));
    for (unsigned i = 0; i < N; i++)
        CHECK(out[i] == (i == N - 1 ? 0 : in[i] * 3 + bias));
    OK(cuMemFree_v2(from));
    OK(cuMemFree_v2(to));
}

int main(void) {
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    for (unsigned i = 0; i < N; i++)
        in[i] = i * 7 + 1;

    CUmodule module;
    OK(cuModuleLoadData(&module, scale));
    run(module, 1000, 0);
    run(module, 1000, 1);

    CUdeviceptr bias;
    size_t size;
    OK(cuModuleGetGlobal_v2(&bias, &size, module, "bias"));
    CHECK(size == 4);
    unsigned less = 10;
    OK(cuMemcpyHtoD_v2(bias, &less, 4));
    run(module, 10, 0);

    CUfunction function, again;
    OK(cuModuleGetFunction(&function, module, "scale"));
    OK(cuModuleGetFunction(&again, module, "scale"));
    CHECK(function == again);
    size_t offsets[4], sizes[4];
    for (int i = 0; i < 4; i++)
        OK(cuFuncGetParamInfo(function, i, &offsets[i], &sizes[i]));
    EXPECT(INVALID_VALUE, cuFuncGetParamInfo(function, 4, &offsets[0], &sizes[0]));
    CHECK(offsets[0] == 0 && offsets[1] == 8 && offsets[2] == 16 && offsets[3] == 20);
    CHECK(sizes[0] == 8 && sizes[3] == 4);
    int target = 0;
    OK(cuFuncGetAttribute(&target, 5, function));
    CHECK(target == 80);
    EXPECT(NOT_FOUND, cuModuleGetFunction(&function, module, "nothing"));
    EXPECT(NOT_FOUND, cuModuleGetGlobal_v2(&bias, &size, module, "nothing"));
    void *params[] = {&bias, &bias, &less, &less};
    EXPECT(INVALID_VALUE, cuLaunchKernel(again, 0, 1, 1, 1, 1, 1, 0, 0, params, NULL));
    EXPECT(INVALID_VALUE, cuLaunchKernel(again, 1, 1, 1, 2048, 1, 1, 0, 0, params, NULL));
    EXPECT(INVALID_VALUE, cuLaunchKernel(again, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
    OK(cuModuleUnload(module));

    /* The linker's image can be copied, and loads after the link is destroyed. */
    CUlinkState link;
    void *image;
    OK(cuLinkCreate_v2(0, NULL, NULL, &link));
    OK(cuLinkAddData_v2(link, PTX, (void *)scale, sizeof scale, "scale", 0, NULL, NULL));
    OK(cuLinkComplete(link, &image, &size));
    void *copy = malloc(size);
    memcpy(copy, image, size);
    OK(cuLinkDestroy(link));
    OK(cuModuleLoadData(&module, copy));
    free(copy);
    run(module, 1000, 0);
    OK(cuModuleUnload(module));

    /* An error in the PTX is written to the caller's log. */
    char log[512] = "";
    int options[] = {ERROR_LOG, ERROR_LOG_SIZE};
    void *values[] = {log, (void *)sizeof log};
    const char *broken = ".version 7.0\n.target sm_80\n.address_size 64\n.entry k() { nonsense; }";
    EXPECT(INVALID_PTX, cuModuleLoadDataEx(&module, broken, 2, options, values));
    CHECK(strstr(log, "nonsense") != NULL);
    CHECK((size_t)values[1] == strlen(log));
    unsigned char garbage[64] = {1, 2, 3};
    EXPECT(INVALID_IMAGE, cuModuleLoadData(&module, garbage));
    OK(cuCtxDestroy_v2(context));
    puts("fine");
    return 0;
}
