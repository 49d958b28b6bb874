// A program for tests that run all tools together: a kernel with shared memory, a barrier, branches that split warps,
// and atomic operations. It compares the results with those of the host and prints them.
#include "abi.h"

#define BLOCKS 4
#define THREADS 64
#define COUNT (BLOCKS * THREADS)

static const char PTX[] =
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry mix(.param .u64 in, .param .u64 out)\n"
    "{\n"
    "    .reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .pred %p;\n"
    "    .shared .align 4 .b8 tile[256];\n"
    "    ld.param.u64 %rd1, [in];\n"
    "    ld.param.u64 %rd2, [out];\n"
    "    mov.u32 %r1, %tid.x;\n"
    "    mov.u32 %r2, %ctaid.x;\n"
    "    mad.lo.u32 %r3, %r2, 64, %r1;\n"
    "    mul.wide.u32 %rd3, %r3, 4;\n"
    "    add.u64 %rd4, %rd1, %rd3;\n"
    "    ld.global.u32 %r4, [%rd4];\n"
    "    shl.b32 %r5, %r1, 2;\n"
    "    mov.u32 %r6, tile;\n"
    "    add.u32 %r7, %r6, %r5;\n"
    "    st.shared.u32 [%r7], %r4;\n"
    "    bar.sync 0;\n"
    "    sub.u32 %r8, %r6, %r5;\n"
    "    ld.shared.u32 %r9, [%r8+252];\n"
    "    and.b32 %r10, %r1, 1;\n"
    "    setp.eq.u32 %p, %r10, 0;\n"
    "    @%p bra EVEN;\n"
    "    mad.lo.u32 %r9, %r9, 2, 1;\n"
    "    bra JOIN;\n"
    "EVEN:\n"
    "    add.u32 %r9, %r9, 5;\n"
    "JOIN:\n"
    "    atom.global.add.u32 %r11, [%rd2], %r9;\n"
    "    add.u64 %rd5, %rd2, %rd3;\n"
    "    st.global.u32 [%rd5+4], %r9;\n"
    "    ret;\n"
    "}\n";

int main(void) {
    REQUIRE(cuInit(0));
    CUdevice device;
    REQUIRE(cuDeviceGet(&device, 0));
    CUcontext context;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuCtxSetCurrent(context));
    CUmodule module;
    REQUIRE(cuModuleLoadData(&module, PTX));
    CUfunction function;
    REQUIRE(cuModuleGetFunction(&function, module, "mix"));
    unsigned in[COUNT], out[COUNT + 1] = {0}, sum = 0;
    for (int i = 0; i < COUNT; i++) in[i] = 7 * i;
    CUdeviceptr from, to;
    REQUIRE(cuMemAlloc_v2(&from, sizeof in));
    REQUIRE(cuMemAlloc_v2(&to, sizeof out));
    REQUIRE(cuMemcpyHtoD_v2(from, in, sizeof in));
    REQUIRE(cuMemcpyHtoD_v2(to, out, sizeof out));
    void *arguments[] = {&from, &to};
    for (int i = 0; i < 2; i++) {
        REQUIRE(cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
    }
    REQUIRE(cuMemcpyDtoH_v2(out, to, sizeof out));
    for (int i = 0; i < COUNT; i++) {
        unsigned opposite = in[i / THREADS * THREADS + THREADS - 1 - i % THREADS];
        unsigned expected = i % 2 ? 2 * opposite + 1 : opposite + 5;
        sum += 2 * expected;
        if (out[i + 1] != expected) return 1;
        printf("%u\n", out[i + 1]);
    }
    printf("sum %u\n", out[0]);
    REQUIRE(cuMemFree_v2(from));
    REQUIRE(cuMemFree_v2(to));
    REQUIRE(cuModuleUnload(module));
    return out[0] == sum ? 0 : 1;
}
