// Tests memory that host and device share: managed allocations, managed variables, a list whose pointers both sides
// follow, and pinned host memory that a kernel uses in place. Also tests pointer attributes.
#include "common.h"

struct Node {
    int value;
    Node *next;
};

__managed__ int total = 5;

extern "C" __global__ void walk_list(Node *head) {
    for (Node *node = head; node != nullptr; node = node->next) {
        total += node->value;
        node->value *= 2;
    }
}

extern "C" __global__ void square_in_place(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] *= values[i];
}

int main() {
    Verdict verdict("managed_memory");
    Node *head = nullptr;
    int sum = 5;
    std::vector<int> doubled;
    for (int i = 0; i < 20; ++i) {
        Node *node = nullptr;
        CUDA_OK(cudaMallocManaged(&node, sizeof(Node)));
        node->value = i * i + 1;
        node->next = head;
        head = node;
        sum += i * i + 1;
        doubled.insert(doubled.begin(), 2 * (i * i + 1));
    }
    walk_list<<<1, 1>>>(head);
    LAUNCH_OK();
    CUDA_OK(cudaDeviceSynchronize());
    std::vector<int> values;
    for (Node *node = head; node != nullptr; node = node->next)
        values.push_back(node->value);
    verdict.equal("list", values, doubled);
    verdict.equal("managed variable", int(total), sum);
    total = -1;
    walk_list<<<1, 1>>>(nullptr);
    CUDA_OK(cudaDeviceSynchronize());
    verdict.equal("stored by the host", int(total), -1);

    cudaPointerAttributes attributes;
    CUDA_OK(cudaPointerGetAttributes(&attributes, head));
    verdict.holds("managed pointer", attributes.type == cudaMemoryTypeManaged);
    while (head != nullptr) {
        Node *next = head->next;
        CUDA_OK(cudaFree(head));
        head = next;
    }

    const int n = 300;
    int *pinned = nullptr, *from_device = nullptr;
    CUDA_OK(cudaHostAlloc((void **)&pinned, n * sizeof(int), cudaHostAllocMapped));
    for (int i = 0; i < n; ++i)
        pinned[i] = i - 100;
    CUDA_OK(cudaHostGetDevicePointer((void **)&from_device, pinned, 0));
    square_in_place<<<3, 128>>>(from_device, n);
    LAUNCH_OK();
    CUDA_OK(cudaDeviceSynchronize());
    std::vector<int> squares(n);
    for (int i = 0; i < n; ++i)
        squares[i] = (i - 100) * (i - 100);
    verdict.equal("pinned", std::vector<int>(pinned, pinned + n), squares);
    CUDA_OK(cudaPointerGetAttributes(&attributes, pinned));
    verdict.holds("host pointer", attributes.type == cudaMemoryTypeHost);
    CUDA_OK(cudaFreeHost(pinned));

    std::vector<int> registered(n, 3);
    CUDA_OK(cudaHostRegister(registered.data(), n * sizeof(int), cudaHostRegisterMapped));
    CUDA_OK(cudaHostGetDevicePointer((void **)&from_device, registered.data(), 0));
    square_in_place<<<3, 128>>>(from_device, n);
    LAUNCH_OK();
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaHostUnregister(registered.data()));
    verdict.equal("registered", registered, std::vector<int>(n, 9));

    Buffer<int> device(1);
    CUDA_OK(cudaPointerGetAttributes(&attributes, device.ptr()));
    verdict.holds("device pointer", attributes.type == cudaMemoryTypeDevice);
    return verdict.finish();
}
