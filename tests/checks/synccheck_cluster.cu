// synccheck: barriers of clusters. The directives are described in tests/src/checks.rs.
// arch: compute_90
#define KERNEL extern "C" __global__ void
#define BAR(text) asm volatile(text ";" ::: "memory")

//@ class: cluster barrier
//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect clean
KERNEL arrive_and_wait(int *out) {
    BAR("barrier.cluster.arrive.aligned");
    out[blockIdx.x * 32 + threadIdx.x] = 1;
    BAR("barrier.cluster.wait.aligned");
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect synccheck arrives-twice BUG1
KERNEL arrive_twice(int *out) {
    BAR("barrier.cluster.arrive");
    BAR("barrier.cluster.arrive"); // BUG1
    BAR("barrier.cluster.wait");
    out[blockIdx.x * 32 + threadIdx.x] = 1;
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect clean
KERNEL two_phases(int *out) {
    BAR("barrier.cluster.arrive");
    BAR("barrier.cluster.wait");
    out[blockIdx.x * 32 + threadIdx.x] = 1;
    BAR("barrier.cluster.arrive");
    BAR("barrier.cluster.wait");
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect synccheck waits-without-arrival BUG1
KERNEL wait_twice(int *out) {
    BAR("barrier.cluster.arrive");
    BAR("barrier.cluster.wait");
    out[blockIdx.x * 32 + threadIdx.x] = 1;
    BAR("barrier.cluster.wait"); // BUG1
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect clean
KERNEL unaligned_in_branches(int *out) {
    if (threadIdx.x < 16) {
        BAR("barrier.cluster.arrive");
        out[blockIdx.x * 32 + threadIdx.x] = 1;
    } else {
        BAR("barrier.cluster.arrive");
        out[blockIdx.x * 32 + threadIdx.x] = 2;
    }
    BAR("barrier.cluster.wait");
}
