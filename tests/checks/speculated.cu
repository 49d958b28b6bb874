// Loads that nvcc executes speculatively, loops that do not poll, and the first read of a compare-and-swap loop. The
// directives are described in tests/src/checks.rs.
#define KERNEL extern "C" __global__ void
#define T threadIdx.x

//@ class: speculated loads
//@ case: grid 2 block 128
//@ arg buffer 4096 iota
//@ arg buffer 64
//@ expect clean
KERNEL flag_of_one_thread(const int *a, int *out) {
    __shared__ bool found;
    for (int i = blockIdx.x; i < 4; i += gridDim.x) {
        if (T == 0) found = false;
        __syncthreads();
        if (a[i * 128 + T] == 131) found = true;
        __syncthreads();
        if (T == 0) {
            if (found) out[i] = 1;
        }
    }
}

//@ case: grid 1 block 128
//@ arg buffer 4096 iota
//@ arg buffer 64
//@ expect racecheck race BUG1 BUG2 error
KERNEL flag_of_all_threads(const int *a, int *out) {
    __shared__ bool found;
    for (int i = 0; i < 2; i++) {
        if (T == 0) found = false; // BUG1
        __syncthreads();
        if (a[i * 128 + T] == 131) found = true;
        __syncthreads();
        if (T >= 64 && found) out[i] = 1; // BUG2
    }
}

//@ case: grid 2 block 128
//@ arg buffer 4096 ones
//@ arg buffer 64
//@ expect clean
KERNEL written_and_read_by_one_thread(const int *a, int *out) {
    __shared__ int sum;
    if (T == 64) sum = a[0];
    if (T == 64 && sum != 0) out[blockIdx.x] = 1;
}

//@ case: grid 1 block 128
//@ arg buffer 4096 ones
//@ arg buffer 64
//@ expect racecheck race BUG1 BUG2 error
//@ expect initcheck uninitialized BUG2
KERNEL written_and_read_by_two_threads(const int *a, int *out) {
    __shared__ int sum;
    if (T == 64) sum = a[0]; // BUG1
    if (T == 32 && sum != 0) out[blockIdx.x] = 1; // BUG2
}

//@ case: grid 2 block 128
//@ arg buffer 4096
//@ expect clean
KERNEL selected_by_one_thread(int *out) {
    __shared__ int a;
    if (T == 0) a = 1;
    int v = T == 0 ? a : 5;
    out[T + blockIdx.x * blockDim.x] = v;
    if (T == 0) a = 7;
}

//@ case: grid 1 block 128
//@ arg buffer 4096
//@ expect racecheck race BUG1 BUG2 error
//@ expect racecheck race BUG2 BUG3 error
//@ expect initcheck uninitialized BUG2
KERNEL selected_by_one_warp(int *out) {
    __shared__ int a;
    if (T == 32) a = 1; // BUG1
    int v = T < 32 ? a : 5; // BUG2
    out[T + blockIdx.x * blockDim.x] = v;
    if (T == 32) a = 7; // BUG3
}

__device__ int mode;
//@ case: grid 2 block 128
//@ arg buffer 64
//@ expect clean
KERNEL variable_of_one_thread(int *out) {
    if (T == 0 && blockIdx.x == 0) mode = 3;
    if (T == 0 && blockIdx.x == 0 && mode > 0) out[0] = 1;
}

__device__ int other_mode;
//@ case: grid 2 block 128
//@ arg buffer 64
//@ expect racecheck race BUG1 BUG2 error
KERNEL variable_of_two_blocks(int *out) {
    if (T == 0 && blockIdx.x == 0) other_mode = 3; // BUG1
    if (T == 0 && other_mode > 0) out[blockIdx.x] = 1; // BUG2
}

//@ class: polling
//@ case: grid 4 block 64
//@ arg buffer 64
//@ expect racecheck race BUG1 warning
KERNEL volatile_counter_in_a_loop(volatile int *total) {
    for (int i = 0; i < 8; i++) *total = *total + 1; // BUG1
}

//@ case: grid 2 block 32
//@ arg buffer 64
//@ expect clean
KERNEL volatile_flag_in_a_loop(volatile int *flag) {
    if (T != 0) return;
    if (blockIdx.x == 0) {
        *flag = 1;
    } else {
        while (*flag == 0) {}
    }
}

//@ class: compare-and-swap loops
//@ case: grid 4 block 64
//@ arg buffer 64
//@ expect clean
KERNEL sum_by_swaps(double *sum) {
    unsigned long long *at = (unsigned long long *)sum, old = *at, expected;
    do {
        expected = old;
        old = atomicCAS(at, expected, __double_as_longlong(1.0 + __longlong_as_double(expected)));
    } while (expected != old);
}

//@ case: grid 4 block 64
//@ arg buffer 64
//@ expect clean
KERNEL maximum_by_swaps(int *most) {
    int expected;
    do {
        expected = *most;
        if (expected >= (int)T) break;
    } while (atomicCAS(most, expected, (int)T) != expected);
}

//@ case: grid 4 block 64
//@ arg buffer 64
//@ arg buffer 64
//@ expect racecheck race BUG1 BUG2 error
KERNEL read_beside_swaps(int *most, int *out) {
    int old = most[1], expected;
    do {
        expected = old;
        old = atomicCAS(most + 1, expected, expected + 1); // BUG1
    } while (expected != old);
    if (T == 0) out[blockIdx.x] = most[1]; // BUG2
}

//@ case: grid 4 block 64
//@ arg buffer 64
//@ expect racecheck race BUG1 BUG2 error
//@ expect racecheck race BUG1 BUG3 error
//@ may racecheck race BUG1 error
KERNEL written_beside_swaps(int *most) {
    int expected = *most, old; // BUG2
    if (T == 63) *most = blockIdx.x; // BUG1
    while ((old = atomicCAS(most, expected, expected + 1)) != expected) expected = old; // BUG3
}

//@ case: grid 4 block 64
//@ arg buffer 64
//@ arg buffer 64
//@ expect racecheck race BUG1 info
KERNEL maximum_by_swaps_after_a_volatile_read(int *most, int *out) {
    int old = *(volatile int *)most, expected;
    do {
        expected = old;
        old = atomicCAS(most, expected, expected < (int)T ? (int)T : expected);
    } while (expected != old);
    out[0] = 1; // BUG1
}

// The load is unconditional in the PTX text, so memcheck must examine it in all threads.
//@ case: grid 1 block 128
//@ arg buffer 256 iota
//@ arg buffer 4
//@ expect memcheck out-of-bounds BUG1
KERNEL condition_is_outside(const int *p, int *out) {
    int value;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(p + T)); // BUG1
    asm volatile("{ .reg .pred a, b; setp.ne.u32 a, %1, 0; setp.eq.and.u32 b, %2, 5, a; @b st.global.u32 [%0], %1; }"
                 :: "l"(out), "r"(value), "r"(T) : "memory");
}

// The barriers of the warp order the store after the swaps and before the additions, so the word is not a lock.
//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL counter_between_warp_barriers(unsigned *out) {
    __shared__ unsigned counter;
    if (T == 0) counter = 0;
    __syncwarp();
    unsigned old = *(volatile unsigned *)&counter, expected;
    do {
        expected = old;
        old = atomicCAS(&counter, expected, expected + 1);
    } while (expected != old);
    __syncwarp();
    if (T == 0) counter = 0;
    __syncwarp();
    atomicAdd(&counter, T);
    __syncwarp();
    out[T] = counter;
}

// All threads load an element, and only the threads below 64 store it. Triton translates an update in place of a tensor
// with fewer elements than threads in this way. The loads are inline PTX so that nvcc does not move them.
__device__ float load(const float *p) {
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(p));
    return value;
}

__device__ void store_if(float *p, float value, bool condition) {
    asm volatile("{ .reg .pred q; setp.ne.u32 q, %2, 0; @q st.global.f32 [%0], %1; }"
                 :: "l"(p), "f"(value), "r"((unsigned)condition));
}

//@ class: loads for a guarded store
//@ case: grid 1 block 128
//@ arg buffer 256
//@ expect clean
KERNEL update_by_half_of_the_threads(float *p) {
    int i = T & 63;
    store_if(p + i, load(p + i) + 1, T < 64);
}

//@ case: grid 1 block 128
//@ arg buffer 256
//@ arg buffer 256
//@ expect clean
KERNEL two_updates_by_half_of_the_threads(float *p, float *q) {
    int i = T & 63;
    float a = load(p + i), b = load(q + i);
    store_if(p + i, a + 1, T < 64);
    store_if(q + i, b + 1, T < 64);
}

//@ case: grid 1 block 128
//@ arg buffer 4
//@ expect clean
KERNEL update_by_one_thread(float *p) {
    float value = load(p);
    if (T == 0) store_if(p, value + 1, true);
}

//@ case: grid 1 block 128
//@ arg buffer 512 uninitialised
//@ expect clean
KERNEL unneeded_value_is_not_initialised(float *p) {
    float value = load(p + T);
    store_if(p + T, value, blockIdx.x == 1);
}

//@ case: grid 1 block 128
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
//@ expect racecheck race BUG2 BUG2 error
KERNEL update_by_all_threads(float *p) {
    int i = T & 63;
    float value = load(p + i); // BUG1
    store_if(p + i, value + 1, T < 100); // BUG2
}

//@ case: grid 1 block 128
//@ arg buffer 256
//@ arg buffer 4
//@ expect memcheck out-of-bounds BUG1
KERNEL unneeded_value_is_outside(float *p, float *out) {
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(p + T)); // BUG1
    if (T < 64) store_if(out, value, T == 5);
}
