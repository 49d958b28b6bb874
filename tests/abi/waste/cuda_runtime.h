// Functions of CUDA's runtime in terms of the driver API, for waste.c. They have frames of their own, and the name of
// this file tells reports that they do not belong to the program.
#pragma once

#include "../abi.h"

#define RUNTIME_ __attribute__((noinline)) static

enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };

RUNTIME_ int cudaMalloc(char **pointer, size_t bytes) {
    return cuMemAlloc_v2((CUdeviceptr *)pointer, bytes);
}

RUNTIME_ int cudaFree(void *pointer) {
    return cuMemFree_v2((uintptr_t)pointer);
}

RUNTIME_ int cudaMemset(void *pointer, int value, size_t bytes) {
    return cuMemsetD8_v2((uintptr_t)pointer, value, bytes);
}

RUNTIME_ int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    if (kind == cudaMemcpyHostToDevice)
        return cuMemcpyHtoD_v2((uintptr_t)to, from, bytes);
    if (kind == cudaMemcpyDeviceToHost)
        return cuMemcpyDtoH_v2(to, (uintptr_t)from, bytes);
    return cuMemcpyDtoD_v2((uintptr_t)to, (uintptr_t)from, bytes);
}

RUNTIME_ int cudaDeviceReset(void) {
    return cuDevicePrimaryCtxReset_v2(0);
}
