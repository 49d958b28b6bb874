// Tests memory of graphs: captured stream-ordered allocations, allocation nodes, lifetimes and counters.
#include "common.h"

extern "C" __global__ void squares(unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = unsigned(i) * unsigned(i);
}

extern "C" __global__ void accumulate(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; ++i)
        sum += in[i];
    *out += sum;
}

static unsigned sum_of_squares(int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; ++i)
        sum += unsigned(i) * unsigned(i);
    return sum;
}

static unsigned long long counted(cudaGraphMemAttributeType attribute) {
    unsigned long long value = 0;
    CUDA_OK(cudaDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

int main() {
    Verdict verdict("graph_memory");
    const int n = 3000;
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreate(&stream));
    Buffer<unsigned> result(1);
    result.clear();

    // A temporary buffer in a captured stream.
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    unsigned *temporary = nullptr;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CUDA_OK(cudaMallocAsync((void **)&temporary, n * sizeof(unsigned), stream));
    squares<<<(n + 255) / 256, 256, 0, stream>>>(temporary, n);
    accumulate<<<1, 1, 0, stream>>>(result.ptr(), temporary, n);
    CUDA_OK(cudaFreeAsync(temporary, stream));
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 4; ++i)
        CUDA_OK(cudaGraphLaunch(exec, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    verdict.equal("four launches", result.get()[0], 4 * sum_of_squares(n));
    verdict.holds("its memory stays", counted(cudaGraphMemAttrUsedMemCurrent) >= n * sizeof(unsigned));
    verdict.holds("something was", counted(cudaGraphMemAttrUsedMemHigh) >= n * sizeof(unsigned));
    CUDA_OK(cudaDeviceGraphMemTrim(0));
    verdict.equal("nothing is reserved", counted(cudaGraphMemAttrReservedMemCurrent), 0ull);
    cudaGraph_t copy;
    verdict.status("such a graph is not copied", cudaGraphClone(&copy, graph), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaGraphDestroy(graph));

    // A graph allocates memory that the program uses and frees.
    CUDA_OK(cudaGraphCreate(&graph, 0));
    cudaMemAllocNodeParams alloc = {};
    alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    alloc.poolProps.location.type = cudaMemLocationTypeDevice;
    alloc.poolProps.location.id = 0;
    alloc.bytesize = n * sizeof(unsigned);
    cudaGraphNode_t alloc_node, kernel_node;
    CUDA_OK(cudaGraphAddMemAllocNode(&alloc_node, graph, nullptr, 0, &alloc));
    unsigned *given = static_cast<unsigned *>(alloc.dptr);
    int count = n;
    void *arguments[] = {&given, &count};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)squares;
    kernel.gridDim = dim3((n + 255) / 256);
    kernel.blockDim = dim3(256);
    kernel.kernelParams = arguments;
    CUDA_OK(cudaGraphAddKernelNode(&kernel_node, graph, &alloc_node, 1, &kernel));
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) {
        CUDA_OK(cudaGraphLaunch(exec, stream));
        verdict.status("twice", cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);
        (void)cudaGetLastError();
        result.clear();
        CUDA_OK(cudaDeviceSynchronize());
        accumulate<<<1, 1, 0, stream>>>(result.ptr(), given, n);
        CUDA_OK(cudaFreeAsync(given, stream));
        CUDA_OK(cudaStreamSynchronize(stream));
        verdict.equal("taken over", result.get()[0], sum_of_squares(n));
    }
    CUDA_OK(cudaGraphExecDestroy(exec));

    // Each launch of this graph frees the memory that the previous launch allocated.
    CUDA_OK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    for (int i = 0; i < 3; ++i)
        CUDA_OK(cudaGraphLaunch(exec, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    std::vector<unsigned> values(n), want(n);
    CUDA_OK(cudaMemcpy(values.data(), given, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i)
        want[i] = unsigned(i) * unsigned(i);
    verdict.equal("the last launch", values, want);
    CUDA_OK(cudaFree(given));
    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaGraphDestroy(graph));
    return verdict.finish();
}
