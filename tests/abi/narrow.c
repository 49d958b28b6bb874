// Modules with 32-bit addresses: no .address_size (PTX 1.2 to 2.1), and .address_size 32 (PTX 2.3 to 3.1). The test sets
// MARGAY_ADDRESS_SIZE=32; without it, the argument `refused`, the modules must not load.
#include "abi.h"

CUresult cuModuleGetTexRef(void **, CUmodule, const char *);
CUresult cuTexRefSetAddress_v2(size_t *, void *, CUdeviceptr, size_t);
CUresult cuTexRefSetFormat(void *, int format, int components);

// Global memory only, as for the first devices: y[i] = x[i] + y[i], a variable, its address and an atomic.
static const char FIRST[] =
    ".version 1.2\n.target sm_11\n"
    ".global .u32 counter;\n.global .u32 table[4] = {10, 20, 30, 40};\n.const .u32 bias = 1000;\n"
    ".entry k {\n"
    ".param .u32 x; .param .u32 y;\n"
    ".reg .u16 %rh<3>; .reg .u32 %r<12>;\n"
    "cvt.u32.u16 %r1, %tid.x;\n mul.lo.u32 %r2, %r1, 4;\n"
    "ld.param.u32 %r3, [x];\n add.u32 %r3, %r3, %r2;\n ld.global.u32 %r4, [%r3+0];\n"
    "ld.param.u32 %r5, [y];\n add.u32 %r5, %r5, %r2;\n ld.global.u32 %r6, [%r5];\n"
    "add.u32 %r4, %r4, %r6;\n"
    "mov.u32 %r7, table;\n and.b32 %r8, %r2, 12;\n add.u32 %r7, %r7, %r8;\n ld.global.u32 %r8, [%r7];\n"
    "add.u32 %r4, %r4, %r8;\n ld.const.u32 %r9, [bias];\n add.u32 %r4, %r4, %r9;\n"
    "st.global.u32 [%r5], %r4;\n"
    "mov.u32 %r10, counter;\n atom.global.add.u32 %r11, [%r10], 1;\n exit;\n}\n";

// Shared memory through 32-bit addresses in its own space, and a texture with four coordinates.
static const char SHARED[] =
    ".version 1.4\n.target sm_10, map_f64_to_f32\n"
    ".tex .u32 image;\n"
    ".entry k (.param .u32 out) {\n"
    ".reg .u32 %r<14>; .reg .u16 %rh<3>;\n .shared .align 4 .b8 tile[256];\n"
    "cvt.u32.u16 %r1, %tid.x;\n mul.lo.u32 %r2, %r1, 4;\n mov.u32 %r3, tile;\n add.u32 %r4, %r3, %r2;\n"
    "st.shared.u32 [%r4+0], %r1;\n bar.sync 0;\n"
    "sub.u32 %r5, 252, %r2;\n add.u32 %r5, %r3, %r5;\n ld.shared.u32 %r6, [%r5];\n"
    "mov.u32 %r9, 0;\n tex.1d.v4.u32.s32 {%r10,%r11,%r12,%r13},[image,{%r1,%r9,%r9,%r9}];\n"
    "mul.lo.u32 %r10, %r10, 100;\n add.u32 %r6, %r6, %r10;\n"
    "ld.param.u32 %r7, [out];\n add.u32 %r7, %r7, %r2;\n st.global.u32 [%r7+0], %r6;\n exit;\n}\n";

// Generic addresses of shared, local and global memory.
#define GENERIC(head)                                                                                        \
    head                                                                                                     \
    ".entry k (.param .u32 out) {\n"                                                                         \
    ".reg .u32 %r<20>; .reg .pred %p<4>;\n .shared .align 4 .b8 tile[256]; .local .align 4 .b8 mine[16];\n"  \
    "mov.u32 %r1, %tid.x;\n shl.b32 %r2, %r1, 2;\n"                                                          \
    "cvta.shared.u32 %r3, tile;\n add.u32 %r4, %r3, %r2;\n st.volatile.u32 [%r4], %r1;\n bar.sync 0;\n"      \
    "xor.b32 %r5, %r2, 252;\n add.u32 %r5, %r3, %r5;\n ld.u32 %r6, [%r5+0];\n"                               \
    "mov.u32 %r7, mine;\n cvta.local.u32 %r7, %r7;\n mul.lo.u32 %r8, %r1, 1000;\n st.u32 [%r7+4], %r8;\n"    \
    "ld.local.u32 %r9, [mine+4];\n add.u32 %r6, %r6, %r9;\n"                                                 \
    "cvta.to.shared.u32 %r10, %r4;\n ld.shared.u32 %r11, [%r10];\n add.u32 %r6, %r6, %r11;\n"                \
    "isspacep.shared %p1, %r4;\n selp.u32 %r12, 1000000, 0, %p1;\n add.u32 %r6, %r6, %r12;\n"                \
    "isspacep.local %p1, %r7;\n selp.u32 %r12, 2000000, 0, %p1;\n add.u32 %r6, %r6, %r12;\n"                 \
    "ld.param.u32 %r13, [out];\n cvta.global.u32 %r13, %r13;\n"                                              \
    "isspacep.global %p1, %r13;\n selp.u32 %r12, 4000000, 0, %p1;\n add.u32 %r6, %r6, %r12;\n"               \
    "isspacep.global %p1, %r4;\n selp.u32 %r12, 8000000, 0, %p1;\n add.u32 %r6, %r6, %r12;\n"                \
    "add.u32 %r13, %r13, %r2;\n st.u32 [%r13], %r6;\n exit;\n}\n"

static const char GENERIC_21[] = GENERIC(".version 2.1\n.target sm_20\n");
static const char GENERIC_23[] = GENERIC(".version 2.3\n.target sm_20\n.address_size 32\n");
static const char GENERIC_31[] = GENERIC(".version 3.1\n.target sm_30\n.address_size 32\n");

// Calls through 32-bit handles of functions.
static const char CALLS[] =
    ".version 3.1\n.target sm_30\n.address_size 32\n"
    ".func (.param .b32 r) twice (.param .b32 x) {\n"
    ".reg .u32 %a;\n ld.param.u32 %a, [x];\n add.u32 %a, %a, %a;\n st.param.b32 [r], %a;\n ret;\n}\n"
    ".func (.param .b32 r) next (.param .b32 x) {\n"
    ".reg .u32 %a;\n ld.param.u32 %a, [x];\n add.u32 %a, %a, 1;\n st.param.b32 [r], %a;\n ret;\n}\n"
    ".global .u32 chosen = next;\n"
    ".entry k (.param .u32 out) {\n"
    ".reg .u32 %r<12>; .reg .pred %p;\n kind: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
    "mov.u32 %r1, %tid.x;\n mov.u32 %r2, twice;\n ld.global.u32 %r3, [chosen];\n"
    "and.b32 %r4, %r1, 1;\n setp.eq.u32 %p, %r4, 0;\n selp.u32 %r5, %r2, %r3, %p;\n"
    "{ .param .b32 a, b;\n st.param.b32 [a], %r1;\n call (b), %r5, (a), kind;\n ld.param.b32 %r6, [b]; }\n"
    "ld.param.u32 %r7, [out];\n shl.b32 %r8, %r1, 2;\n add.u32 %r7, %r7, %r8;\n st.global.u32 [%r7], %r6;\n exit;\n}\n";

static CUfunction load(CUmodule *module, const char *text) {
    CUfunction function;
    REQUIRE(cuModuleLoadData(module, text));
    REQUIRE(cuModuleGetFunction(&function, *module, "k"));
    return function;
}

// The parameters are the lower halves of the addresses.
static void launch(CUfunction function, void **parameters) {
    REQUIRE(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
    REQUIRE(cuCtxSynchronize());
}

static void first(void) {
    unsigned x[64], y[64], count = 0;
    CUdeviceptr a, b, counter;
    CUmodule module;
    CUfunction function = load(&module, FIRST);
    for (unsigned i = 0; i < 64; ++i)
        x[i] = i, y[i] = 100 * i;
    REQUIRE(cuMemAlloc_v2(&a, sizeof x));
    REQUIRE(cuMemAlloc_v2(&b, sizeof y));
    CHECK(a >> 32 == 0 && b >> 32 == 0);
    REQUIRE(cuMemcpyHtoD_v2(a, x, sizeof x));
    REQUIRE(cuMemcpyHtoD_v2(b, y, sizeof y));
    launch(function, (void *[]){&a, &b});
    REQUIRE(cuMemcpyDtoH_v2(y, b, sizeof y));
    for (unsigned i = 0; i < 64; ++i)
        CHECK(y[i] == 101 * i + 10 * (i % 4 + 1) + 1000);
    size_t bytes;
    REQUIRE(cuModuleGetGlobal_v2(&counter, &bytes, module, "counter"));
    CHECK(counter >> 32 == 0);
    REQUIRE(cuMemcpyDtoH_v2(&count, counter, 4));
    CHECK(count == 64);
    // An access above the device memory of the process.
    CUdeviceptr wild = 0x10;
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, (void *[]){&wild, &b}, NULL), SUCCESS);
    EXPECT(cuCtxSynchronize(), ILLEGAL_ADDRESS);
}

static void shared(void) {
    unsigned texels[64], result[64];
    CUdeviceptr out, memory;
    CUmodule module;
    void *image;
    CUfunction function = load(&module, SHARED);
    for (unsigned i = 0; i < 64; ++i)
        texels[i] = 7 * i;
    REQUIRE(cuMemAlloc_v2(&out, sizeof result));
    REQUIRE(cuMemAlloc_v2(&memory, sizeof texels));
    REQUIRE(cuMemcpyHtoD_v2(memory, texels, sizeof texels));
    REQUIRE(cuModuleGetTexRef(&image, module, "image"));
    REQUIRE(cuTexRefSetFormat(image, 3, 1));
    REQUIRE(cuTexRefSetAddress_v2(NULL, image, memory, sizeof texels));
    launch(function, (void *[]){&out});
    REQUIRE(cuMemcpyDtoH_v2(result, out, sizeof result));
    for (unsigned i = 0; i < 64; ++i)
        CHECK(result[i] == 63 - i + 700 * i);
    REQUIRE(cuMemFree_v2(out));
    REQUIRE(cuMemFree_v2(memory));
}

static void generic(const char *text) {
    unsigned result[64];
    CUdeviceptr out;
    CUmodule module;
    CUfunction function = load(&module, text);
    REQUIRE(cuMemAlloc_v2(&out, sizeof result));
    launch(function, (void *[]){&out});
    REQUIRE(cuMemcpyDtoH_v2(result, out, sizeof result));
    for (unsigned i = 0; i < 64; ++i)
        CHECK(result[i] == 63 - i + 1000 * i + i + 7000000);
    REQUIRE(cuMemFree_v2(out));
}

static void calls(void) {
    unsigned result[64];
    CUdeviceptr out;
    CUmodule module;
    CUfunction function = load(&module, CALLS);
    REQUIRE(cuMemAlloc_v2(&out, sizeof result));
    launch(function, (void *[]){&out});
    REQUIRE(cuMemcpyDtoH_v2(result, out, sizeof result));
    for (unsigned i = 0; i < 64; ++i)
        CHECK(result[i] == (i % 2 ? i + 1 : 2 * i));
    REQUIRE(cuMemFree_v2(out));
}

int main(int count, char **arguments) {
    start();
    if (count > 1 && !strcmp(arguments[1], "refused")) {
        CUmodule module;
        const char *texts[] = {FIRST, SHARED, GENERIC_21, GENERIC_23, GENERIC_31};
        for (int i = 0; i < 5; ++i)
            EXPECT(cuModuleLoadData(&module, texts[i]), INVALID_PTX);
        return finish();
    }
    size_t available, total;
    REQUIRE(cuMemGetInfo_v2(&available, &total));
    CHECK(total <= 0x80000000u);
    shared();
    generic(GENERIC_21);
    generic(GENERIC_23);
    generic(GENERIC_31);
    calls();
    first();
    return finish();
}
