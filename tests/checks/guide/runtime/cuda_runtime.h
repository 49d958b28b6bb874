// The functions of CUDA's runtime that the guide's programs call, in terms of the driver API. With this header, a C
// compiler builds the `main` functions of the programs; cli/tests/guide.rs replaces launches by calls of `launch_`.
// The name of the file tells reports that the functions do not belong to the program.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct CUstream_st *cudaStream_t;
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

typedef unsigned long long Pointer_;
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(Pointer_ *, size_t);
int cuMemFree_v2(Pointer_);
int cuMemAllocAsync(Pointer_ *, size_t, cudaStream_t);
int cuMemFreeAsync(Pointer_, cudaStream_t);
int cuMemsetD8_v2(Pointer_, unsigned char, size_t);
int cuMemcpyHtoD_v2(Pointer_, const void *, size_t);
int cuMemcpyDtoH_v2(void *, Pointer_, size_t);
int cuStreamCreate(cudaStream_t *, unsigned);
int cuStreamDestroy_v2(cudaStream_t);
int cuStreamSynchronize(cudaStream_t);
int cuLibraryLoadData(void **, const void *, int *, void **, unsigned, int *, void **, unsigned);
int cuLibraryUnload(void *);
int cuLibraryGetKernel(void **, void *, const char *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cudaStream_t, void **,
                   void **);

// The functions are inlined, so that they have no frames of their own.
#define RUNTIME_ static inline __attribute__((always_inline))

__attribute__((constructor)) static void start_(void) {
    void *context;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        abort();
}

// `KERNELS_` is the PTX file, which `main` loads when it launches a kernel for the first time.
static void *library_;

__attribute__((destructor)) static void end_(void) {
    if (library_)
        cuLibraryUnload(library_);
}

static void *kernel_(const char *name) {
    static char text[1 << 20];
    void *kernel;
    if (!library_) {
        FILE *file = fopen(KERNELS_, "r");
        if (!file || !fread(text, 1, sizeof(text) - 1, file))
            abort();
        fclose(file);
        if (cuLibraryLoadData(&library_, text, NULL, NULL, 0, NULL, NULL, 0))
            abort();
    }
    if (cuLibraryGetKernel(&kernel, library_, name))
        abort();
    return kernel;
}

// Launches a one-dimensional grid. Each element of `values` holds an argument.
RUNTIME_ void launch_(const char *name, unsigned grid, unsigned block, unsigned shared, cudaStream_t stream,
                      unsigned count, uint64_t *values) {
    void *parameters[8];
    for (unsigned i = 0; i < count; ++i)
        parameters[i] = &values[i];
    cuLaunchKernel(kernel_(name), grid, 1, 1, block, 1, 1, shared, stream, parameters, NULL);
}

RUNTIME_ void cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    if (kind == cudaMemcpyHostToDevice)
        cuMemcpyHtoD_v2((Pointer_)(uintptr_t)to, from, bytes);
    else
        cuMemcpyDtoH_v2(to, (Pointer_)(uintptr_t)from, bytes);
}

#define cudaMalloc(pointer, bytes) ((void)cuMemAlloc_v2((Pointer_ *)(pointer), bytes))
#define cudaFree(pointer) ((void)cuMemFree_v2((Pointer_)(uintptr_t)(pointer)))
#define cudaMallocAsync(pointer, bytes, stream) ((void)cuMemAllocAsync((Pointer_ *)(pointer), bytes, stream))
#define cudaFreeAsync(pointer, stream) ((void)cuMemFreeAsync((Pointer_)(uintptr_t)(pointer), stream))
#define cudaMemset(pointer, value, bytes) ((void)cuMemsetD8_v2((Pointer_)(uintptr_t)(pointer), value, bytes))
#define cudaStreamCreate(stream) ((void)cuStreamCreate(stream, 0))
#define cudaStreamDestroy(stream) ((void)cuStreamDestroy_v2(stream))
#define cudaStreamSynchronize(stream) ((void)cuStreamSynchronize(stream))
#define cudaDeviceSynchronize() ((void)cuCtxSynchronize())
