// memcheck: shared, local and constant memory, the device heap, asynchronous copies. The directives are described in
// tests/src/checks.rs.
#define KERNEL extern "C" __global__ void
#define SHARED(pointer) ((unsigned)__cvta_generic_to_shared(pointer))
#define COPY4(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(SHARED(to)), "l"(from) : "memory")
#define COPY16(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(SHARED(to)), "l"(from) : "memory")
#define COPY_PART(to, from, bytes) asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(SHARED(to)), "l"(from), "r"(bytes) : "memory")
#define WAIT() asm volatile("cp.async.wait_all;" ::: "memory")

//@ class: shared bounds
//@ case shared_write_one_past: grid 1 block 64
//@ arg buffer 256
//@ arg i32 1
//@ expect memcheck out-of-bounds BUG1
//@ case shared_write_to_end: grid 1 block 64
//@ arg buffer 256
//@ arg i32 0
//@ expect clean
KERNEL shared_write(int *out, int shift) {
    __shared__ int s[64];
    volatile int *v = s;
    v[threadIdx.x + shift] = threadIdx.x; // BUG1
    out[threadIdx.x] = 1;
}

//@ case shared_read_one_past: grid 2 block 64
//@ arg buffer 256
//@ arg i32 1
//@ expect memcheck out-of-bounds BUG1
//@ case shared_read_to_end: grid 2 block 64
//@ arg buffer 512
//@ arg i32 0
//@ expect clean
KERNEL shared_read(int *out, int shift) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int v = s[threadIdx.x + shift]; // BUG1
    if (blockIdx.x == 0) out[threadIdx.x] = v;
}

//@ case shared_before_start: grid 1 block 32
//@ arg buffer 128
//@ arg i32 1
//@ expect memcheck out-of-bounds BUG1
//@ case shared_from_start: grid 1 block 32
//@ arg buffer 128
//@ arg i32 0
//@ expect clean
KERNEL shared_minus(int *out, int shift) {
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[(int)threadIdx.x - shift]; // BUG1
}

//@ case dynamic_too_small: grid 1 block 64 shared 252
//@ arg buffer 256
//@ expect memcheck out-of-bounds BUG1
//@ case dynamic_fits: grid 1 block 64 shared 256
//@ arg buffer 256
//@ expect clean
//@ case dynamic_forgotten: grid 1 block 64
//@ arg buffer 256
//@ expect memcheck out-of-bounds BUG1
KERNEL dynamic_write(int *out) {
    extern __shared__ int d[];
    ((volatile int *)d)[threadIdx.x] = 1; // BUG1
    out[threadIdx.x] = 1;
}

//@ case static_and_dynamic_past: grid 1 block 32 shared 128
//@ arg buffer 128
//@ arg i32 4
//@ expect memcheck out-of-bounds BUG1
//@ case static_and_dynamic_fit: grid 1 block 32 shared 144
//@ arg buffer 128
//@ arg i32 4
//@ expect clean
KERNEL static_and_dynamic(int *out, int shift) {
    __shared__ int s[32];
    extern __shared__ int d[];
    ((volatile int *)s)[threadIdx.x] = 1;
    ((volatile int *)d)[threadIdx.x + shift] = 1; // BUG1
    out[threadIdx.x] = s[threadIdx.x];
}

//@ case shared_vector_past: grid 1 block 8
//@ arg buffer 128
//@ arg i32 1
//@ expect memcheck out-of-bounds BUG1
//@ case shared_vector_fits: grid 1 block 8
//@ arg buffer 128
//@ arg i32 0
//@ expect clean
KERNEL shared_vector(int4 *out, int shift) {
    __shared__ int4 s[8];
    s[threadIdx.x] = make_int4(1, 2, 3, 4);
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + shift]; // BUG1
}

//@ case shared_atomic_past: grid 1 block 32
//@ arg i32 16
//@ arg buffer 64
//@ expect memcheck out-of-bounds BUG1
//@ case shared_atomic_fits: grid 1 block 32
//@ arg i32 15
//@ arg buffer 64
//@ expect clean
KERNEL shared_atomic(int bin, int *out) {
    __shared__ int s[16];
    if (threadIdx.x < 16) s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&s[threadIdx.x < 16 ? threadIdx.x : bin], 1); // BUG1
    __syncthreads();
    if (threadIdx.x < 16) out[threadIdx.x] = s[threadIdx.x];
}

//@ case crosses_into_next: grid 1 block 1
//@ arg buffer 64
//@ arg i32 4
//@ expect memcheck out-of-bounds BUG1
//@ case stays_in_first: grid 1 block 1
//@ arg buffer 64
//@ arg i32 0
//@ expect clean
KERNEL six_bytes_and_more(int *out, int at) {
    __shared__ __align__(4) char first[6];
    __shared__ short second[5];
    *(volatile int *)(first + at) = 1; // BUG1
    ((volatile short *)second)[2] = 3;
    out[0] = 1;
}

//@ case overflow_into_next: grid 1 block 1
//@ arg buffer 64
//@ arg i32 16
//@ expect memcheck out-of-bounds BUG1
//@ case underflow_into_previous: grid 1 block 1
//@ arg buffer 64
//@ arg i32 -1
//@ expect memcheck out-of-bounds BUG2
//@ case no_overflow: grid 1 block 1
//@ arg buffer 64
//@ arg i32 15
//@ expect clean
KERNEL two_variables(int *out, int at) {
    __shared__ int first[16];
    __shared__ int second[16];
    if (at >= 0) ((volatile int *)first)[at] = 1; // BUG1
    ((volatile int *)second)[at >= 16 ? 0 : at] = 2; // BUG2
    out[0] = 1;
}

//@ case shared_misaligned: grid 1 block 1
//@ arg buffer 64
//@ arg i32 2
//@ expect memcheck misaligned BUG1
//@ case shared_aligned: grid 1 block 1
//@ arg buffer 64
//@ arg i32 4
//@ expect clean
KERNEL shared_alignment(int *out, int at) {
    __shared__ __align__(8) char s[16];
    *(volatile int *)(s + at) = 1; // BUG1
    out[0] = 1;
}

//@ case generic_past_shared: grid 1 block 2
//@ arg buffer 64
//@ arg i32 100000000
//@ expect memcheck out-of-bounds|wrong-space BUG1
//@ case generic_in_shared: grid 1 block 2
//@ arg buffer 64
//@ arg i32 3
//@ expect clean
KERNEL generic_shared(int *out, int at) {
    __shared__ int s[4];
    int *p = threadIdx.x ? s + at : out;
    *(volatile int *)p = 1; // BUG1
}

//@ class: local bounds
//@ case local_write_past: grid 1 block 4
//@ arg buffer 32
//@ arg i32 8
//@ expect memcheck out-of-bounds BUG1
//@ case local_write_last: grid 1 block 4
//@ arg buffer 32
//@ arg i32 7
//@ expect clean
//@ case local_write_far: grid 1 block 4
//@ arg buffer 32
//@ arg i32 1000
//@ expect memcheck out-of-bounds BUG1
//@ case local_write_before: grid 1 block 4
//@ arg buffer 32
//@ arg i32 -1
//@ expect memcheck out-of-bounds BUG1
KERNEL local_write(int *out, int at) {
    volatile int a[8];
    for (int i = 0; i < 8; i++) a[i] = i;
    a[at] = 5; // BUG1
    out[threadIdx.x] = a[(at + 1) & 7];
}

//@ case local_read_past: grid 1 block 4
//@ arg buffer 64
//@ arg i32 16
//@ expect memcheck out-of-bounds BUG1
//@ case local_read_last: grid 1 block 4
//@ arg buffer 64
//@ arg i32 15
//@ expect clean
KERNEL local_read(int *out, int at) {
    volatile int a[16];
    for (int i = 0; i < 16; i++) a[i] = i;
    out[threadIdx.x] = a[at]; // BUG1
}

//@ class: constant bounds
//@ case constant_past: grid 1 block 4
//@ arg buffer 64
//@ arg i32 13
//@ expect memcheck out-of-bounds BUG1
//@ case constant_last: grid 1 block 4
//@ arg buffer 64
//@ arg i32 12
//@ expect clean
//@ case constant_before: grid 1 block 4
//@ arg buffer 64
//@ arg i32 -1
//@ expect memcheck out-of-bounds BUG1
__constant__ int coefficients[16] = {1, 2, 3};
KERNEL constant_read(int *out, int at) {
    out[threadIdx.x] = coefficients[(int)threadIdx.x + at]; // BUG1
}

//@ case constant_structure_past: grid 1 block 1
//@ arg buffer 64
//@ arg i32 3
//@ expect memcheck out-of-bounds BUG1
//@ case constant_structure_last: grid 1 block 1
//@ arg buffer 64
//@ arg i32 2
//@ expect clean
//@ case constant_structure_first: grid 1 block 1
//@ arg buffer 64
//@ arg i32 0
//@ expect clean
__constant__ struct { double weight; long long tag; } entries[3] = {{1, 2}, {3, 4}, {5, 6}};
KERNEL constant_structure(long long *out, int at) {
    out[0] = entries[at].tag; // BUG1
}

//@ case constant_write: grid 1 block 4
//@ arg buffer 64
//@ arg i32 1
//@ expect memcheck wrong-space BUG1
//@ case constant_write_elsewhere: grid 1 block 4
//@ arg buffer 64
//@ arg i32 0
//@ expect clean
KERNEL constant_write(int *out, int wrong) {
    int *to = wrong ? const_cast<int *>(coefficients) : out;
    to[threadIdx.x] = out[threadIdx.x] + coefficients[threadIdx.x]; // BUG1
}

//@ class: device heap
//@ case heap_overflow: grid 1 block 2
//@ arg buffer 64
//@ arg i32 4
//@ expect memcheck out-of-bounds BUG1
//@ case heap_to_end: grid 1 block 2
//@ arg buffer 64
//@ arg i32 3
//@ expect clean
KERNEL heap_write(int **slots, int at) {
    int *p = (int *)malloc(16);
    slots[threadIdx.x] = p;
    ((volatile int *)p)[at] = 1; // BUG1
    free(slots[threadIdx.x]);
}

//@ case heap_read_before: grid 1 block 2
//@ arg buffer 64
//@ arg i32 -1
//@ arg buffer 64
//@ expect memcheck out-of-bounds BUG1
//@ case heap_read_inside: grid 1 block 2
//@ arg buffer 64
//@ arg i32 1
//@ arg buffer 64
//@ expect clean
KERNEL heap_read(int **slots, int at, int *out) {
    int *p = (int *)malloc(8);
    slots[threadIdx.x] = p;
    p[0] = p[1] = 1;
    out[threadIdx.x] = ((volatile int *)p)[at]; // BUG1
    free(slots[threadIdx.x]);
}

//@ case heap_use_after_free: grid 1 block 2
//@ arg buffer 64
//@ arg i32 1
//@ expect memcheck use-after-free BUG1
//@ case heap_use_before_free: grid 1 block 2
//@ arg buffer 64
//@ arg i32 0
//@ expect clean
KERNEL heap_use(int **slots, int early) {
    volatile int *p = (int *)malloc(16);
    slots[threadIdx.x] = (int *)p;
    if (early) free(slots[threadIdx.x]);
    p[1] = 1; // BUG1
    if (!early) free(slots[threadIdx.x]);
}

//@ case heap_double_free: grid 1 block 1
//@ arg buffer 64
//@ arg i32 1
//@ fault any
//@ expect memcheck double-free BUG1
//@ case heap_single_free: grid 1 block 1
//@ arg buffer 64
//@ arg i32 0
//@ expect clean
KERNEL heap_free_again(int **slots, int again) {
    int *p = (int *)malloc(16);
    slots[0] = p;
    free(slots[0]);
    if (again) free(*(int *volatile *)slots); // BUG1
}

//@ case heap_free_inside: grid 1 block 1
//@ arg buffer 64
//@ arg i32 2
//@ fault any
//@ expect memcheck invalid-free BUG1
//@ case heap_free_start: grid 1 block 1
//@ arg buffer 64
//@ arg i32 0
//@ expect clean
KERNEL heap_free_at(int **slots, int at) {
    int *p = (int *)malloc(16);
    slots[0] = p;
    free(*(int *volatile *)slots + at); // BUG1
}

//@ case: grid 1 block 1
//@ arg buffer 64
//@ fault any
//@ expect memcheck invalid-free BUG1
KERNEL heap_free_of_buffer(int *p) {
    free(p); // BUG1
}

//@ case: grid 1 block 4
//@ arg buffer 64
//@ expect clean
KERNEL heap_free_null(int *out) {
    int *p = 0;
    if (out[threadIdx.x]) p = (int *)malloc(4);
    free(p);
}

//@ case: grid 1 block 32
//@ arg buffer 256
//@ expect clean
KERNEL heap_handed_over(int **slots) {
    // Each thread frees the memory of its neighbour.
    int *p = (int *)malloc(32);
    p[7] = threadIdx.x;
    slots[threadIdx.x] = p;
    __syncthreads();
    free(*(int *volatile *)(slots + (threadIdx.x ^ 1)));
}

//@ case: grid 1 block 32
//@ arg buffer 256
//@ fault any
//@ expect memcheck double-free BUG1
KERNEL heap_handed_to_two(int **slots) {
    // Lanes 0 and 1 both free the memory of lane 0.
    if (threadIdx.x == 0) slots[0] = (int *)malloc(32);
    __syncthreads();
    if (threadIdx.x < 2) free(*(int *volatile *)slots); // BUG1
}

//@ class: asynchronous copy
//@ case copy_source_past: grid 1 block 32
//@ arg buffer 128 iota
//@ arg i32 1
//@ arg buffer 128
//@ expect memcheck out-of-bounds BUG1
//@ case copy_source_fits: grid 1 block 32
//@ arg buffer 132 iota
//@ arg i32 1
//@ arg buffer 128
//@ expect clean
KERNEL copy_source(const int *p, int shift, int *out) {
    __shared__ int s[32];
    COPY4(&s[threadIdx.x], p + threadIdx.x + shift); // BUG1
    WAIT();
    out[threadIdx.x] = s[threadIdx.x];
}

//@ case copy_target_past: grid 1 block 32
//@ arg buffer 128 iota
//@ arg i32 1
//@ arg buffer 128
//@ expect memcheck out-of-bounds BUG1
//@ case copy_target_fits: grid 1 block 32
//@ arg buffer 128 iota
//@ arg i32 0
//@ arg buffer 128
//@ expect clean
KERNEL copy_target(const int *p, int shift, int *out) {
    __shared__ int s[32];
    COPY4(&s[threadIdx.x + shift], p + threadIdx.x); // BUG1
    WAIT();
    __syncthreads();
    if (threadIdx.x) out[threadIdx.x] = s[threadIdx.x];
}

//@ case copy_misaligned: grid 1 block 4
//@ arg buffer 128 iota
//@ arg i32 1
//@ arg buffer 128
//@ expect memcheck misaligned BUG1
//@ case copy_aligned: grid 1 block 4
//@ arg buffer 128 iota
//@ arg i32 4
//@ arg buffer 128
//@ expect clean
KERNEL copy_sixteen(const int *p, int shift, int4 *out) {
    __shared__ int4 s[4];
    COPY16(&s[threadIdx.x], p + 4 * threadIdx.x + shift); // BUG1
    WAIT();
    out[threadIdx.x] = s[threadIdx.x];
}

//@ case copy_from_null: grid 1 block 1
//@ arg null
//@ arg i32 4
//@ arg buffer 128
//@ expect memcheck null-pointer BUG1
//@ case copy_nothing_from_null: grid 1 block 1
//@ arg null
//@ arg i32 0
//@ arg buffer 128
//@ expect clean
//@ case copy_part_at_end: grid 1 block 1
//@ arg buffer 2 iota
//@ arg i32 2
//@ arg buffer 128
//@ expect clean
//@ case copy_part_past_end: grid 1 block 1
//@ arg buffer 2 iota
//@ arg i32 3
//@ arg buffer 128
//@ expect memcheck out-of-bounds BUG1
KERNEL copy_part(const int *p, int bytes, int *out) {
    // The bytes that the copy does not read are zeros in shared memory.
    __shared__ int s[1];
    COPY_PART(s, p, bytes); // BUG1
    WAIT();
    out[0] = s[0];
}

// 36 bytes of local memory, which is no multiple of any power of two above 4.
//@ case odd_local_read_past: grid 1 block 4
//@ arg buffer 16
//@ arg buffer 4 zero
//@ arg i32 9
//@ expect memcheck out-of-bounds BUG1
//@ case odd_local_read_last: grid 1 block 4
//@ arg buffer 16
//@ arg buffer 4 zero
//@ arg i32 8
//@ expect clean
KERNEL odd_local_read(int *out, const int *shift, int at) {
    int array[9];
    #pragma unroll
    for (int i = 0; i < 9; i++) array[(i + *shift) % 9] = i;
    out[threadIdx.x] = array[at]; // BUG1
}
