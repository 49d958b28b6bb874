// Tests malloc, free, new and delete in kernels. Threads of a block share memory that one thread allocated, and memory
// stays allocated from one launch to the next.
#include "common.h"

extern "C" __global__ void malloc_in_thread(int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int count = 1 + i % 7;
    int *list = static_cast<int *>(malloc(count * sizeof(int)));
    if (list == nullptr)
        return;
    for (int k = 0; k < count; ++k)
        list[k] = i + k;
    int sum = 0;
    for (int k = 0; k < count; ++k)
        sum += list[k];
    bool aligned = reinterpret_cast<size_t>(list) % 16 == 0;
    free(list);
    out[i] = aligned ? sum : -1;
}

extern "C" __global__ void malloc_for_block(int *out) {
    __shared__ int *data;
    if (threadIdx.x == 0)
        data = new int[blockDim.x];
    __syncthreads();
    if (data == nullptr)
        return;
    data[threadIdx.x] = threadIdx.x * 2;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = data[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
        delete[] data;
}

struct Node {
    int value;
    Node *next;
};

__device__ Node *lists[8];

extern "C" __global__ void build_lists(int length) {
    Node *head = nullptr;
    for (int i = 0; i < length; ++i)
        head = new Node{int(threadIdx.x) * 100 + i, head};
    lists[threadIdx.x] = head;
}

extern "C" __global__ void sum_lists(int *out) {
    int sum = 0;
    for (Node *node = lists[threadIdx.x]; node != nullptr;) {
        sum += node->value;
        Node *next = node->next;
        delete node;
        node = next;
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void malloc_too_much(int *out) {
    void *huge = malloc(size_t(1) << 40);
    out[0] = huge == nullptr;
    free(nullptr);
}

int main() {
    Verdict verdict("device_malloc");
    CUDA_OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 4 << 20));

    Buffer<int> threads(4 * 48), blocks(3 * 64), sums(8), refused(1);
    malloc_in_thread<<<4, 48>>>(threads.ptr());
    LAUNCH_OK();
    std::vector<int> want(4 * 48);
    for (int i = 0; i < 4 * 48; ++i) {
        int count = 1 + i % 7;
        want[i] = count * i + count * (count - 1) / 2;
    }
    verdict.equal("thread", threads.get(), want);

    malloc_for_block<<<3, 64>>>(blocks.ptr());
    LAUNCH_OK();
    want.assign(3 * 64, 0);
    for (int i = 0; i < 3 * 64; ++i)
        want[i] = (63 - i % 64) * 2;
    verdict.equal("block", blocks.get(), want);

    build_lists<<<1, 8>>>(20);
    sum_lists<<<1, 8>>>(sums.ptr());
    LAUNCH_OK();
    want.assign(8, 0);
    for (int i = 0; i < 8; ++i)
        want[i] = i * 100 * 20 + 190;
    verdict.equal("lists", sums.get(), want);

    malloc_too_much<<<1, 1>>>(refused.ptr());
    LAUNCH_OK();
    verdict.equal("refused", refused.get()[0], 1);
    return verdict.finish();
}
