// Declarations of the driver API and macros for checks, for the programs of this folder.
//
// The declarations are our own and cover the functions that the programs call, so no CUDA header is needed. If a
// function of the library has another signature than its declaration, the calls fail. A program prints "PASS" and exits
// with 0, or prints the failed checks and exits with 1. `tests/tests/abi.rs` builds and runs all programs. Each program
// can also be linked with another libcuda.so.1, such as that of a GPU's driver.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUlib_st *CUlibrary;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUlinkState_st *CUlinkState;
typedef unsigned long long CUdeviceptr;
typedef struct {
    char bytes[16];
} CUuuid;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_PTX = 218,
    FILE_NOT_FOUND = 301,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_TIMEOUT = 702,
    INVALID_PC = 718,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
};

// Initialisation, version, errors
CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuGetErrorString(CUresult error, const char **text);
CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags);
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);
// Devices
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetName(char *name, int length, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device);
// Contexts
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent_v2(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuCtxSynchronize(void);
CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version);
// Memory
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr pointer);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer);
CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void *pointer);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags);
CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer);
// Modules, libraries, kernels
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values);
CUresult cuModuleLoad(CUmodule *module, const char *file);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name);
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jit, void **jit_values, unsigned jit_count,
                           int *options, void **values, unsigned count);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function);
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size);
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params,
                        void **extra);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared);
// Linker
CUresult cuLinkCreate_v2(unsigned count, int *options, void **values, CUlinkState *state);
CUresult cuLinkAddData_v2(CUlinkState state, int kind, void *data, size_t bytes, const char *name, unsigned count,
                          int *options, void **values);
CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes);
CUresult cuLinkDestroy(CUlinkState state);
// Streams and events
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);

static int failures;

static const char *result_name(CUresult result) {
    const char *name = NULL;
    return cuGetErrorName(result, &name) == SUCCESS && name ? name : "an unknown result";
}

// Checks that the call returns the result `want`.
#define EXPECT(call, want)                                                                                   \
    do {                                                                                                     \
        CUresult got_ = (call);                                                                              \
        if (got_ != (want)) {                                                                                \
            printf("%s:%d: %s: got %d (%s), expected %d\n", __FILE__, __LINE__, #call, got_,                 \
                   result_name(got_), (int)(want));                                                          \
            ++failures;                                                                                      \
        }                                                                                                    \
    } while (0)

// Checks that the call fails. The API does not specify the error code.
#define EXPECT_ERROR(call)                                                                                   \
    do {                                                                                                     \
        if ((call) == SUCCESS) {                                                                             \
            printf("%s:%d: %s: succeeded\n", __FILE__, __LINE__, #call);                                     \
            ++failures;                                                                                      \
        }                                                                                                    \
    } while (0)

// Ends the program if the call fails, because later calls depend on this call.
#define REQUIRE(call)                                                                                        \
    do {                                                                                                     \
        CUresult got_ = (call);                                                                              \
        if (got_ != SUCCESS) {                                                                               \
            printf("%s:%d: %s: %d (%s)\n", __FILE__, __LINE__, #call, got_, result_name(got_));              \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                             \
            ++failures;                                                                                      \
        }                                                                                                    \
    } while (0)

static inline int finish(void) {
    printf(failures ? "FAIL\n" : "PASS\n");
    return failures ? 1 : 0;
}

// Makes the primary context of device 0 current and returns it.
static inline CUcontext start(void) {
    CUdevice device;
    CUcontext context;
    REQUIRE(cuInit(0));
    REQUIRE(cuDeviceGet(&device, 0));
    REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuCtxSetCurrent(context));
    return context;
}

// Kernels in hand-written PTX. scale: v[i] = v[i] * f for i < n. poke: writes 7 to the address p. spin: waits until
// *flag is not 0.
static const char KERNELS[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .global .align 4 .u32 counter = 5;\n"
    ".visible .entry scale(.param .u64 v, .param .f32 f, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<3>; .reg .b64 %rd<4>;\n"
    "    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "    mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "    ld.param.u32 %r5, [n];\n"
    "    setp.ge.u32 %p, %r4, %r5;\n"
    "    @%p bra done;\n"
    "    ld.param.u64 %rd1, [v]; cvta.to.global.u64 %rd1, %rd1;\n"
    "    mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;\n"
    "    ld.param.f32 %f1, [f]; ld.global.f32 %f2, [%rd3];\n"
    "    mul.f32 %f2, %f2, %f1; st.global.f32 [%rd3], %f2;\n"
    "done:\n"
    "    ret;\n"
    "}\n"
    ".visible .entry poke(.param .u64 p)\n"
    "{\n"
    "    .reg .b64 %rd;\n"
    "    ld.param.u64 %rd, [p]; st.global.u32 [%rd], 7;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry spin(.param .u64 flag)\n"
    "{\n"
    "    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;\n"
    "    ld.param.u64 %rd, [flag];\n"
    "again:\n"
    "    ld.volatile.global.u32 %r, [%rd];\n"
    "    setp.eq.u32 %p, %r, 0;\n"
    "    @%p bra again;\n"
    "    ret;\n"
    "}\n";
