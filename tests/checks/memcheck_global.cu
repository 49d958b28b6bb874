// memcheck: global memory. The directives are described in tests/src/checks.rs.
#define KERNEL extern "C" __global__ void

struct Pair { int key; double value; };
struct Triple { float x, y, z; };

//@ class: global bounds
//@ case: grid 1 block 64
//@ arg buffer 256
//@ arg i32 64
//@ expect memcheck out-of-bounds BUG1
KERNEL write_one_past(int *p, int n) {
    int i = threadIdx.x;
    p[i + 1] = n; // BUG1
}

//@ case: grid 1 block 64
//@ arg buffer 260
//@ arg i32 64
//@ expect clean
KERNEL write_exactly_to_end(int *p, int n) {
    int i = threadIdx.x;
    p[i + 1] = n;
}

//@ case used_element_past_end: grid 1 block 1
//@ arg buffer 24 iota
//@ arg buffer 64
//@ expect memcheck out-of-bounds BUG1
//@ case unused_element_past_end: grid 1 block 1
//@ arg buffer 28 iota
//@ arg buffer 64
//@ expect clean
KERNEL read_part_of_vector(const int *p, int *out) {
    // The compiler loads p[4] to p[7].
    const int *from = (const int *)__builtin_assume_aligned(p, 16);
    out[0] = from[4] + from[5] + from[6]; // BUG1
}

//@ case shared_element_past_end: grid 1 block 1 shared 24
//@ arg buffer 64
//@ arg i32 6
//@ expect memcheck out-of-bounds BUG1
//@ case unused_shared_element_past_end: grid 1 block 1 shared 28
//@ arg buffer 64
//@ arg i32 7
//@ expect clean
extern __shared__ __align__(16) int dynamic[];
KERNEL read_part_of_shared_vector(int *out, int count) {
    for (int i = 0; i < count; i++) dynamic[i] = i;
    __syncthreads();
    out[0] = dynamic[4] + dynamic[5] + dynamic[6]; // BUG1
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect memcheck out-of-bounds BUG1
KERNEL read_one_past(const int *p, int *out) {
    int i = threadIdx.x;
    int a = p[i + 1]; // BUG1
    out[i] = a;
}

//@ case read_in_bounds: grid 1 block 63
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect clean
//@ case read_in_bounds_of_one_byte_less: grid 1 block 63
//@ arg buffer 255 iota
//@ arg buffer 256
//@ expect memcheck out-of-bounds BUG1
KERNEL read_neighbour(const int *p, int *out) {
    int i = threadIdx.x;
    int a = p[i + 1]; // BUG1
    out[i] = a;
}

//@ case: grid 2 block 64
//@ arg buffer 256
//@ expect memcheck out-of-bounds BUG1
KERNEL atomic_one_past(int *p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&p[i < 64 ? i : 64], 1); // BUG1
}

//@ case: grid 2 block 64
//@ arg buffer 256
//@ expect clean
KERNEL atomic_in_bounds(int *p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&p[i % 64], 1);
}

//@ case: grid 1 block 1
//@ arg buffer 256
//@ arg buffer 4
//@ expect memcheck out-of-bounds BUG1
KERNEL atomic_result_past_end(unsigned *p, unsigned *out) {
    unsigned old = atomicExch(p + 64, 5u); // BUG1
    *out = old;
}

//@ case: grid 1 block 1
//@ arg buffer 8
//@ arg buffer 8
//@ expect memcheck out-of-bounds BUG1
KERNEL wide_cas_past_end(unsigned long long *p, unsigned long long *out) {
    *out = 0;
    unsigned long long old = atomicCAS(p + 1, 0ull, 1ull); // BUG1
    *out = old;
}

//@ case: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ expect memcheck out-of-bounds BUG1
KERNEL read_before_start(const int *p, int *out) {
    int i = threadIdx.x;
    int left = p[i - 1]; // BUG1
    out[i] = left;
}

//@ case: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ expect clean
KERNEL guarded_left_neighbour(const int *p, int *out) {
    int i = threadIdx.x;
    int left = i > 0 ? p[i - 1] : 0;
    out[i] = left;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect memcheck out-of-bounds BUG1
KERNEL write_before_start(int *p) {
    p[(int)threadIdx.x - 4] = 7; // BUG1
}

//@ case: grid 1 block 1
//@ arg buffer 16
//@ expect memcheck out-of-bounds BUG1
KERNEL byte_before_start(char *p) {
    p[-1] = 7; // BUG1
}

//@ case: grid 1 block 1
//@ arg buffer 15
//@ expect memcheck out-of-bounds BUG1
KERNEL byte_past_odd_size(char *p) {
    p[14] = 1;
    p[15] = 7; // BUG1
}

//@ case: grid 1 block 15
//@ arg buffer 15
//@ expect clean
KERNEL bytes_of_odd_size(char *p) {
    p[threadIdx.x] = 7;
}

//@ case: grid 1 block 32
//@ arg buffer 504 iota
//@ arg buffer 512
//@ expect memcheck out-of-bounds BUG1
KERNEL vector_read_past_end(const float4 *p, float4 *out) {
    int i = threadIdx.x;
    out[i] = p[i]; // BUG1
}

//@ case: grid 1 block 32
//@ arg buffer 512 iota
//@ arg buffer 512
//@ expect clean
KERNEL vector_read_to_end(const float4 *p, float4 *out) {
    int i = threadIdx.x;
    float4 v = p[i];
    out[i] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 252
//@ expect memcheck out-of-bounds BUG1
KERNEL vector_write_past_end(int2 *p) {
    p[threadIdx.x] = make_int2(1, 2); // BUG1
}

//@ case: grid 1 block 32
//@ arg buffer 1024
//@ arg i32 9
//@ expect memcheck out-of-bounds BUG1
KERNEL strided_too_far(int *p, int stride) {
    p[threadIdx.x * stride] = 1; // BUG1
}

//@ case: grid 1 block 32
//@ arg buffer 1120
//@ arg i32 9
//@ expect clean
KERNEL strided_to_end(int *p, int stride) {
    p[threadIdx.x * stride] = 1;
}

//@ case: grid 1 block 16
//@ arg buffer 256
//@ arg i32 1
//@ expect memcheck out-of-bounds BUG1
KERNEL field_past_end(Pair *p, int shift) {
    p[threadIdx.x].key = 1;
    p[threadIdx.x + shift].value = 2; // BUG1
}

//@ case: grid 1 block 16
//@ arg buffer 256
//@ arg i32 0
//@ expect clean
KERNEL fields_in_bounds(Pair *p, int shift) {
    p[threadIdx.x].key = 1;
    p[threadIdx.x + shift].value = 2;
}

//@ case last_field_cut: grid 1 block 16
//@ arg buffer 188
//@ expect memcheck out-of-bounds BUG1
//@ case last_field_whole: grid 1 block 16
//@ arg buffer 192
//@ expect clean
KERNEL three_fields(Triple *p) {
    p[threadIdx.x].x = 1;
    p[threadIdx.x].y = 2;
    p[threadIdx.x].z = 3; // BUG1
}

//@ case: grid 1 block 8
//@ arg buffer 128
//@ arg i32 3
//@ expect memcheck out-of-bounds BUG1
KERNEL negative_index(int *p, int shift) {
    int i = (int)threadIdx.x - shift;
    p[i] = 1; // BUG1
}

//@ case: grid 1 block 4
//@ arg buffer 1024
//@ expect memcheck out-of-bounds|wrong-space BUG1
KERNEL unsigned_wrap(int *p) {
    unsigned i = threadIdx.x - 1u;
    p[i] = 1; // BUG1
}

//@ case: grid 1 block 4
//@ arg buffer 1024
//@ arg u64 1099511627776
//@ expect memcheck out-of-bounds|wrong-space BUG1
KERNEL far_index(int *p, unsigned long long stride) {
    p[threadIdx.x * stride] = 1; // BUG1
}

//@ case: grid 1 block 4
//@ arg buffer 1024
//@ arg u64 4611686018427387905
//@ expect clean
KERNEL index_wraps_into_buffer(int *p, unsigned long long stride) {
    // The address of element i * (2^62 + 1) is that of element i, modulo 2^64.
    p[threadIdx.x * stride] = 1;
}

//@ case exact_grid: grid 4 block 64
//@ arg buffer 1024
//@ arg i32 256
//@ expect clean
//@ case wrong_bound: grid 5 block 64
//@ arg buffer 1024
//@ arg i32 257
//@ expect memcheck out-of-bounds BUG1
//@ case guarded_grid: grid 5 block 64
//@ arg buffer 1024
//@ arg i32 256
//@ expect clean
KERNEL guarded_write(int *p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = i; // BUG1
}

//@ case rows_fit: grid 1 block 8,8
//@ arg buffer 256
//@ arg i32 8
//@ expect clean
//@ case pitch_too_large: grid 1 block 8,8
//@ arg buffer 256
//@ arg i32 9
//@ expect memcheck out-of-bounds BUG1
KERNEL two_dimensions(int *p, int pitch) {
    p[threadIdx.y * pitch + threadIdx.x] = 1; // BUG1
}

//@ case: grid 1 block 1
//@ arg buffer 64 iota
//@ arg buffer 4
//@ expect memcheck out-of-bounds BUG1
KERNEL loop_off_by_one(const int *p, int *out) {
    int sum = 0;
    #pragma unroll 1
    for (int i = 0; i <= 16; i++)
        sum += p[i]; // BUG1
    *out = sum;
}

//@ case: grid 1 block 1
//@ arg buffer 64 iota
//@ arg buffer 4
//@ expect clean
KERNEL loop_to_end(const int *p, int *out) {
    int sum = 0;
    #pragma unroll 1
    for (int i = 0; i < 16; i++)
        sum += p[i];
    *out = sum;
}

//@ case call_past_end: grid 1 block 33
//@ arg buffer 128
//@ expect memcheck out-of-bounds BUG1
//@ case call_to_end: grid 1 block 32
//@ arg buffer 128
//@ expect clean
__device__ void store_far(int *p, int i);
KERNEL store_in_function(int *p) {
    store_far(p, threadIdx.x);
}
__device__ __noinline__ void store_far(int *p, int i) {
    p[i] = i; // BUG1
}

//@ class: global variable
//@ case variable_past_end: grid 1 block 33
//@ expect memcheck out-of-bounds BUG1
//@ case variable_to_end: grid 1 block 32
//@ expect clean
__device__ int table[32];
KERNEL write_variable() {
    table[threadIdx.x] = 1; // BUG1
}

//@ class: null pointer
//@ case: grid 1 block 32
//@ arg null
//@ expect memcheck null-pointer BUG1
KERNEL null_write(int *p) {
    p[threadIdx.x] = 1; // BUG1
}

//@ case null_read_bug: grid 1 block 32
//@ arg null
//@ arg buffer 128
//@ expect memcheck null-pointer BUG1
//@ case null_read_clean: grid 1 block 32
//@ arg buffer 128
//@ arg buffer 128
//@ expect clean
KERNEL null_read(const int *p, int *out) {
    int v = p[threadIdx.x]; // BUG1
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 32
//@ arg null
//@ arg buffer 128
//@ expect clean
KERNEL null_guarded(const int *p, int *out) {
    out[threadIdx.x] = p ? p[threadIdx.x] : 3;
}

//@ case: grid 1 block 1
//@ arg null
//@ expect memcheck null-pointer BUG1
KERNEL null_atomic(int *p) {
    atomicMax(p + 2, 1); // BUG1
}

//@ class: misaligned
//@ case misaligned_2_bug: grid 1 block 1
//@ arg buffer 64 iota
//@ arg i32 1
//@ expect memcheck misaligned BUG1
//@ case misaligned_2_clean: grid 1 block 1
//@ arg buffer 64 iota
//@ arg i32 2
//@ expect clean
KERNEL misaligned_2(char *p, int shift) {
    *(short *)(p + shift) = 1; // BUG1
}

//@ case misaligned_4_bug: grid 1 block 1
//@ arg buffer 64 iota
//@ arg i32 2
//@ arg buffer 4
//@ expect memcheck misaligned BUG1
//@ case misaligned_4_clean: grid 1 block 1
//@ arg buffer 64 iota
//@ arg i32 4
//@ arg buffer 4
//@ expect clean
KERNEL misaligned_4(const char *p, int shift, int *out) {
    int v = *(const int *)(p + shift); // BUG1
    *out = v;
}

//@ case misaligned_8_bug: grid 1 block 1
//@ arg buffer 64
//@ arg i32 4
//@ expect memcheck misaligned BUG1
//@ case misaligned_8_clean: grid 1 block 1
//@ arg buffer 64
//@ arg i32 8
//@ expect clean
KERNEL misaligned_8(char *p, int shift) {
    *(double *)(p + shift) = 1; // BUG1
}

//@ case misaligned_16_bug: grid 1 block 1
//@ arg buffer 64
//@ arg i32 8
//@ expect memcheck misaligned BUG1
//@ case misaligned_16_clean: grid 1 block 1
//@ arg buffer 64
//@ arg i32 48
//@ expect clean
KERNEL misaligned_16(char *p, int shift) {
    *(int4 *)(p + shift) = make_int4(1, 2, 3, 4); // BUG1
}

//@ case misaligned_atomic_bug: grid 1 block 1
//@ arg buffer 64
//@ arg i32 1
//@ expect memcheck misaligned BUG1
//@ case misaligned_atomic_clean: grid 1 block 1
//@ arg buffer 64
//@ arg i32 60
//@ expect clean
KERNEL misaligned_atomic(char *p, int shift) {
    atomicAdd((int *)(p + shift), 1); // BUG1
}

//@ class: use after free
//@ case write_freed_bug: grid 1 block 32
//@ arg buffer 128 freed
//@ expect memcheck use-after-free BUG1
//@ case write_freed_clean: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL write_freed(int *p) {
    p[threadIdx.x] = 1; // BUG1
}

//@ case read_freed_bug: grid 1 block 32
//@ arg buffer 128 iota freed
//@ arg buffer 128
//@ expect memcheck use-after-free BUG1
//@ case read_freed_clean: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ expect clean
KERNEL read_freed(const int *p, int *out) {
    int v = p[threadIdx.x]; // BUG1
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128 freed
//@ arg buffer 128
//@ expect clean
KERNEL freed_but_unused(int *p, int *out) {
    if (out[threadIdx.x]) p[threadIdx.x] = 1;
}

//@ case: grid 1 block 32
//@ arg buffer 128 freed
//@ expect memcheck use-after-free BUG1
KERNEL atomic_freed(int *p) {
    atomicAdd(p, 1); // BUG1
}

//@ class: wrong space
//@ case: grid 1 block 32
//@ arg host 128
//@ expect memcheck wrong-space BUG1
KERNEL write_host(int *p) {
    p[threadIdx.x] = 1; // BUG1
}

//@ case: grid 1 block 32
//@ arg host 128
//@ arg buffer 128
//@ expect memcheck wrong-space BUG1
KERNEL read_host(const int *p, int *out) {
    int v = p[threadIdx.x]; // BUG1
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 1
//@ arg host 128
//@ expect memcheck wrong-space BUG1
KERNEL atomic_host(int *p) {
    atomicOr(p, 1); // BUG1
}

//@ case: grid 1 block 32
//@ arg host 128
//@ arg buffer 128
//@ expect clean
KERNEL host_pointer_stored_only(int *p, int **out) {
    if (threadIdx.x == 0) out[0] = p;
}

//@ case write_pinned: grid 1 block 32
//@ arg pinned 128
//@ expect clean
//@ case write_pinned_past_end: grid 1 block 32
//@ arg pinned 124
//@ expect memcheck out-of-bounds|wrong-space BUG1
//@ case write_managed: grid 1 block 32
//@ arg managed 128
//@ expect clean
//@ case write_managed_past_end: grid 1 block 32
//@ arg managed 124
//@ expect memcheck out-of-bounds BUG1
KERNEL write_any_memory(int *p) {
    p[threadIdx.x] = 1; // BUG1
}

//@ case read_stack_of_host: grid 1 block 1
//@ arg u64 140737488347136
//@ arg buffer 4
//@ expect memcheck wrong-space|out-of-bounds BUG1
KERNEL read_wild_pointer(const int *p, int *out) {
    out[0] = p[0]; // BUG1
}

//@ case shared_pointer_as_global: grid 1 block 32
//@ arg buffer 128
//@ arg i32 1
//@ expect memcheck wrong-space|out-of-bounds|null-pointer BUG1
//@ case global_pointer_as_global: grid 1 block 32
//@ arg buffer 128
//@ arg i32 0
//@ expect clean
KERNEL shared_as_global(int *p, int shared) {
    // The offset in shared memory is no global address.
    __shared__ int s[32];
    s[threadIdx.x] = 1;
    unsigned long long at = shared ? __cvta_generic_to_shared(s) : (unsigned long long)p;
    asm volatile("st.global.u32 [%0], %1;" :: "l"(at + 4 * threadIdx.x), "r"(s[threadIdx.x]) : "memory"); // BUG1
}

//@ class: global variable
//@ case other_variable_past_end: grid 1 block 32
//@ arg i32 100
//@ expect memcheck out-of-bounds BUG1
//@ case other_variable_before_start: grid 1 block 32
//@ arg i32 -1
//@ expect memcheck out-of-bounds BUG1
//@ case other_variable_to_end: grid 1 block 32
//@ arg i32 32
//@ expect clean
__device__ char letters[64];
KERNEL write_letters(int shift) {
    letters[(int)threadIdx.x + shift] = 'x'; // BUG1
}

//@ class: null pointer
//@ case: grid 1 block 1
//@ arg null
//@ arg buffer 4
//@ expect memcheck null-pointer BUG1
KERNEL null_field(const Pair *p, double *out) {
    *(float *)out = p->value; // BUG1
}

//@ case: grid 1 block 1
//@ arg null
//@ arg buffer 8
//@ expect clean
KERNEL address_of_null_field(const Pair *p, const double **out) {
    *out = &p->value;
}

//@ class: global bounds
//@ case two_buffers_wrong_size: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 128
//@ arg i32 64
//@ expect memcheck out-of-bounds BUG1
//@ case two_buffers_right_size: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ arg i32 64
//@ expect clean
KERNEL copy_elements(const int *p, int *out, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = p[threadIdx.x]; // BUG1
}

//@ case byte_count_for_elements: grid 1 block 1
//@ arg buffer 16 iota
//@ arg i32 16
//@ arg buffer 4
//@ expect memcheck out-of-bounds BUG1
//@ case element_count: grid 1 block 1
//@ arg buffer 16 iota
//@ arg i32 4
//@ arg buffer 4
//@ expect clean
KERNEL sum_elements(const int *p, int n, int *out) {
    int sum = 0;
    #pragma unroll 1
    for (int i = 0; i < n; i++) sum += p[i]; // BUG1
    *out = sum;
}

//@ case indirect_index_bad: grid 1 block 8
//@ arg buffer 32 iota
//@ arg buffer 28
//@ expect memcheck out-of-bounds BUG1
//@ case indirect_index_good: grid 1 block 8
//@ arg buffer 32 iota
//@ arg buffer 32
//@ expect clean
KERNEL scatter(const int *index, int *out) {
    out[index[threadIdx.x]] = 1; // BUG1
}
