// Tests device properties, kernel attributes and the occupancy calculator: relations that hold on every device,
// launches with the suggested sizes, and launches that must fail.
#include "common.h"

extern "C" __global__ void __launch_bounds__(256) occupancy(int *out, int n) {
    __shared__ int tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i;
    __syncthreads();
    if (i < n)
        out[i] = tile[threadIdx.x] + int(blockDim.x) * 0 + 1;
}

static void ordinary(int *, int) {}

int main() {
    Verdict verdict("occupancy");
    int devices = 0, device = -1, value = 0;
    CUDA_OK(cudaGetDeviceCount(&devices));
    verdict.holds("there is a device", devices >= 1);
    CUDA_OK(cudaSetDevice(0));
    CUDA_OK(cudaGetDevice(&device));
    verdict.equal("current device", device, 0);

    cudaDeviceProp properties;
    CUDA_OK(cudaGetDeviceProperties(&properties, 0));
    verdict.equal("warp size", properties.warpSize, 32);
    verdict.equal("threads per block", properties.maxThreadsPerBlock, 1024);
    verdict.holds("a name", properties.name[0] != 0);
    verdict.holds("memory", properties.totalGlobalMem > (64u << 20));
    CUDA_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    verdict.holds("multiprocessors", value >= 1 && value == properties.multiProcessorCount);
    CUDA_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlock, 0));
    verdict.equal("shared memory", size_t(value), properties.sharedMemPerBlock);
    size_t available = 0, total = 0;
    CUDA_OK(cudaMemGetInfo(&available, &total));
    verdict.holds("free <= total", available <= total && total > 0);

    cudaFuncAttributes attributes;
    CUDA_OK(cudaFuncGetAttributes(&attributes, occupancy));
    verdict.equal("static shared memory", attributes.sharedSizeBytes, sizeof(int) * 256);
    verdict.holds("launch bounds", attributes.maxThreadsPerBlock == 256);

    int blocks = 0, fewer = 0, grid = 0, block = 0;
    CUDA_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, occupancy, 128, 0));
    CUDA_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fewer, occupancy, 128, 40 << 10));
    verdict.holds("blocks", blocks >= 1 && blocks * 128 <= properties.maxThreadsPerMultiProcessor);
    verdict.holds("shared memory takes room", fewer >= 1 && fewer < blocks);
    CUDA_OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, occupancy, 0, 0));
    verdict.holds("suggestion", grid >= 1 && block >= 32 && block <= 256 && block % 32 == 0);

    const int n = 3 * 256 + 5;
    std::vector<int> want(n);
    for (int i = 0; i < n; ++i)
        want[i] = i + 1;
    Buffer<int> out(n);
    occupancy<<<(n + block - 1) / block, block>>>(out.ptr(), n);
    LAUNCH_OK();
    verdict.equal("suggested launch", out.get(), want);

    occupancy<<<1, 512>>>(out.ptr(), n);
    // GPUs return this error. The tests of numba-cuda expect it (test_launch_bounds_scalar).
    verdict.status("past the launch bounds", cudaGetLastError(), cudaErrorInvalidValue);
    occupancy<<<1, 2048>>>(out.ptr(), n);
    verdict.status("2048 threads", cudaGetLastError(), cudaErrorInvalidConfiguration);
    occupancy<<<0, 32>>>(out.ptr(), n);
    verdict.status("no blocks", cudaGetLastError(), cudaErrorInvalidConfiguration);
    occupancy<<<1, dim3(1, 1, 128)>>>(out.ptr(), n);
    verdict.status("too deep", cudaGetLastError(), cudaErrorInvalidConfiguration);
    // The runtime library passes a pointer that it has not registered to the driver as a kernel's handle, and returns
    // the driver's result. With CUDA 12.8 on a GPU this result is 400 (CUTLASS, issue 2478). For a null pointer, the
    // runtime library returns an error itself.
    int *place = out.ptr(), count = n;
    void *arguments[] = {&place, &count};
    auto none = reinterpret_cast<const void *>(ordinary);
    verdict.status("no kernel", cudaLaunchKernel(none, 1, 32, arguments, 0, nullptr), cudaErrorInvalidResourceHandle);
    auto shared = cudaFuncAttributeMaxDynamicSharedMemorySize;
    verdict.status("its attribute", cudaFuncSetAttribute(none, shared, 1024), cudaErrorInvalidResourceHandle);
    verdict.status("null", cudaLaunchKernel(nullptr, 1, 32, arguments, 0, nullptr), cudaErrorInvalidDeviceFunction);
    verdict.status("the last of them", cudaGetLastError(), cudaErrorInvalidDeviceFunction);
    verdict.status("synchronize", cudaDeviceSynchronize(), cudaSuccess);
    return verdict.finish();
}
