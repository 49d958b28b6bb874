// A program for the tests of `margay profile`: launches a kernel of 2 blocks of 64 threads as often as its first argument
// states. With the argument "fork", a child process does the same; with "none", the program does not use CUDA.
#include "abi.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char PTX[] =
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry columns(.param .u64 out)\n"
    "{\n"
    "    .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p;\n"
    "    ld.param.u64 %rd1, [out];\n"
    "    mov.u32 %r1, %tid.x;\n"
    "    mul.wide.u32 %rd2, %r1, 128;\n"
    "    add.u64 %rd1, %rd1, %rd2;\n"
    "    and.b32 %r2, %r1, 1;\n"
    "    setp.eq.u32 %p, %r2, 0;\n"
    "    @%p bra END;\n"
    "    st.global.u32 [%rd1], %r1;\n"
    "END:\n"
    "    ret;\n"
    "}\n";

int main(int argc, char **argv) {
    int launches = argc > 1 ? atoi(argv[1]) : 1;
    const char *how = argc > 2 ? argv[2] : "";
    if (!strcmp(how, "fork")) {
        pid_t child = fork();
        if (child != 0) waitpid(child, NULL, 0);
    }
    if (!strcmp(how, "none")) return 7;
    REQUIRE(cuInit(0));
    CUdevice device;
    REQUIRE(cuDeviceGet(&device, 0));
    CUcontext context;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuCtxSetCurrent(context));
    CUmodule module;
    REQUIRE(cuModuleLoadData(&module, PTX));
    CUfunction function;
    REQUIRE(cuModuleGetFunction(&function, module, "columns"));
    CUdeviceptr out;
    REQUIRE(cuMemAlloc_v2(&out, 64 * 128));
    void *arguments[] = {&out};
    for (int i = 0; i < launches; i++) REQUIRE(cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL));
    int value = 0;
    REQUIRE(cuMemcpyDtoH_v2(&value, out + 128, 4));
    printf("%d\n", value);
    REQUIRE(cuMemFree_v2(out));
    return 3;
}
