// memcheck: faults that end kernels. The directives are described in tests/src/checks.rs.
#include <cassert>
#define KERNEL extern "C" __global__ void

//@ class: kernel fault
//@ case trap_of_one_thread: grid 2 block 64
//@ arg buffer 512
//@ arg i32 70
//@ fault LaunchFailed
//@ expect memcheck kernel-fault BUG1
//@ case trap_of_no_thread: grid 2 block 64
//@ arg buffer 512
//@ arg i32 128
//@ expect clean
KERNEL trap_of(int *out, int which) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == which) __trap(); // BUG1
    out[i] = i;
}

//@ case trap_behind_barrier: grid 1 block 64
//@ arg buffer 256
//@ arg i32 33
//@ fault LaunchFailed
//@ expect memcheck kernel-fault BUG1
//@ case barrier_without_trap: grid 1 block 64
//@ arg buffer 256
//@ arg i32 64
//@ expect clean
KERNEL trap_after_barrier(int *out, int which) {
    __shared__ int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int other = tile[63 - threadIdx.x];
    if (other == which) __trap(); // BUG1
    out[threadIdx.x] = other;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ fault LaunchFailed
//@ expect memcheck kernel-fault BUG1
KERNEL breakpoint(int *out) {
    out[threadIdx.x] = 1;
    __brkpt(); // BUG1
}

//@ case assertion_fails: grid 1 block 64
//@ arg buffer 256 iota
//@ arg i32 40
//@ fault Assert
//@ expect memcheck kernel-fault BUG1
//@ case assertion_holds: grid 1 block 64
//@ arg buffer 256 iota
//@ arg i32 64
//@ expect clean
KERNEL assertion(int *p, int limit) {
    assert(p[threadIdx.x] < limit); // BUG1
    p[threadIdx.x] += 1;
}

//@ case stack_exhausted: grid 1 block 2
//@ arg buffer 8
//@ arg i32 1000000000
//@ fault Stack
//@ expect memcheck kernel-fault BUG1
//@ case stack_suffices: grid 1 block 2
//@ arg buffer 8
//@ arg i32 5
//@ expect clean
__device__ __noinline__ int depth(volatile int *p, int n) {
    return n < 2 ? p[0] : depth(p, n - 1) * 3 + depth(p, n - 2); // BUG1
}

KERNEL recursion(int *p, int n) {
    p[threadIdx.x] = depth(p + threadIdx.x, n);
}

//@ case trap_after_wrong_access: grid 1 block 32
//@ arg buffer 64
//@ arg i32 0
//@ fault LaunchFailed
//@ expect memcheck out-of-bounds BUG1
//@ expect memcheck kernel-fault BUG2
//@ case wrong_access_without_trap: grid 1 block 32
//@ arg buffer 64
//@ arg i32 1
//@ expect memcheck out-of-bounds BUG1
KERNEL access_and_trap(int *p, int goes_on) {
    p[threadIdx.x + 16] = 1; // BUG1
    if (!goes_on) __trap(); // BUG2
}

// All frames are inside the stack, so each access before the fault is permitted.
//@ case stack_exhausted_by_arrays: grid 1 block 2
//@ arg buffer 8
//@ arg i32 1000000000
//@ fault Stack
//@ expect memcheck kernel-fault BUG1
//@ case stack_suffices_for_arrays: grid 1 block 2
//@ arg buffer 8
//@ arg i32 5
//@ expect clean
__device__ __noinline__ int frames(volatile int *p, int n) {
    volatile int own[8];
    for (int i = 0; i < 8; i++) own[i] = p[0] + i;
    return n < 1 ? own[p[0] & 7] : frames(p, n - 1) + own[n & 7]; // BUG1
}

KERNEL recursion_with_arrays(int *p, int n) {
    p[threadIdx.x] = frames(p + threadIdx.x, n);
}
