// initcheck: memory that nobody has written. The directives are described in tests/src/checks.rs.
#define KERNEL extern "C" __global__ void
#define SHARED(pointer) ((unsigned)__cvta_generic_to_shared(pointer))
#define COPY4(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(SHARED(to)), "l"(from) : "memory")
#define WAIT() asm volatile("cp.async.wait_all;" ::: "memory")

struct Padded { char tag; int value; };
struct Wide { char tag; double value; };

//@ class: part of a vector
//@ case used_element_unwritten: grid 1 block 1
//@ arg buffer 32 uninitialised
//@ arg buffer 64
//@ set 0 0 8
//@ expect initcheck uninitialized BUG1
//@ case unused_element_unwritten: grid 1 block 1
//@ arg buffer 32 uninitialised
//@ arg buffer 64
//@ set 0 0 8
//@ set 0 12 4
//@ expect clean
KERNEL read_three_of_four(const int *p, int *out) {
    // The compiler loads p[0] to p[3].
    const int *from = (const int *)__builtin_assume_aligned(p, 16);
    out[0] = from[0] + from[1] + from[3]; // BUG1
}

//@ case key_written: grid 1 block 2
//@ arg buffer 32 uninitialised
//@ arg buffer 32
//@ arg i32 0
//@ set 0 0 4
//@ set 0 8 4
//@ expect clean
//@ case key_unwritten: grid 1 block 2
//@ arg buffer 32 uninitialised
//@ arg buffer 32
//@ arg i32 0
//@ set 0 4 4
//@ set 0 12 4
//@ expect initcheck uninitialized BUG1
KERNEL read_key_and_padding(const unsigned long long *p, int *out, int limit) {
    // Of the word of 8 bytes, only the low half is used.
    unsigned long long word;
    asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(word) : "l"(p + threadIdx.x)); // BUG1
    int key = (int)word;
    out[threadIdx.x] = key < limit ? key * 3 : key;
}

//@ case both_halves_used: grid 1 block 2
//@ arg buffer 32 uninitialised
//@ arg buffer 32
//@ set 0 0 4
//@ set 0 8 4
//@ expect initcheck uninitialized BUG1
KERNEL read_key_and_upper_half(const unsigned long long *p, int *out) {
    unsigned long long word;
    asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(word) : "l"(p + threadIdx.x)); // BUG1
    out[threadIdx.x] = (int)word + (int)(word >> 40);
}

//@ class: global reads
//@ case read_unwritten: grid 2 block 32
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ expect initcheck uninitialized BUG1
//@ case read_written: grid 2 block 32
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect clean
//@ case read_zeros: grid 2 block 32
//@ arg buffer 256 zero
//@ arg buffer 256
//@ expect clean
//@ case read_head_written: grid 2 block 32
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ write 0 0 252
//@ expect initcheck uninitialized BUG1
//@ case read_all_written_in_parts: grid 2 block 32
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ write 0 0 100
//@ write 0 128 128
//@ write 0 100 28
//@ expect clean
//@ case read_hole: grid 2 block 32
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ write 0 0 128
//@ write 0 132 124
//@ expect initcheck uninitialized BUG1
//@ case read_after_set: grid 2 block 32
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ set 0 0 256
//@ expect clean
//@ case read_after_short_set: grid 2 block 32
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ set 0 4 252
//@ expect initcheck uninitialized BUG1
//@ case read_half_word: grid 2 block 32
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ set 0 0 254
//@ expect initcheck partly-uninitialized BUG1 info
//@ case read_pinned: grid 2 block 32
//@ arg pinned 256
//@ arg buffer 256
//@ expect clean
KERNEL read_words(const int *p, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = p[i]; // BUG1
}

//@ case odd_elements_unwritten: grid 1 block 32
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ run write_even: grid 1 block 32
//@ expect initcheck uninitialized BUG1
KERNEL read_odd(int *p, int *out) {
    out[threadIdx.x] = p[2 * threadIdx.x + 1]; // BUG1
}

//@ case even_elements_written: grid 1 block 32
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ run write_even: grid 1 block 32
//@ expect clean
KERNEL read_even(int *p, int *out) {
    out[threadIdx.x] = p[2 * threadIdx.x];
}

//@ case: grid 1 block 32
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ expect clean
KERNEL write_even(int *p, int *out) {
    p[2 * threadIdx.x] = 1;
}

//@ case byte_unwritten: grid 1 block 64
//@ arg buffer 64 uninitialised
//@ arg buffer 64
//@ write 0 0 33
//@ expect initcheck uninitialized BUG1
//@ case bytes_written: grid 1 block 33
//@ arg buffer 64 uninitialised
//@ arg buffer 64
//@ write 0 0 33
//@ expect clean
KERNEL read_bytes(const char *p, char *out) {
    out[threadIdx.x] = p[threadIdx.x]; // BUG1
}

//@ case vector_unwritten: grid 1 block 8
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ write 0 0 112
//@ expect initcheck uninitialized BUG1
//@ case vector_partly_written: grid 1 block 8
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ write 0 0 124
//@ expect initcheck partly-uninitialized BUG1 info
//@ case vector_written: grid 1 block 8
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ write 0 0 128
//@ expect clean
KERNEL read_vectors(const int4 *p, int4 *out) {
    out[threadIdx.x] = p[threadIdx.x]; // BUG1
}

//@ case: grid 1 block 32
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ expect clean
KERNEL guard_skips_unwritten(const int *p, int *out) {
    if (out[threadIdx.x] != 0) out[threadIdx.x] = p[threadIdx.x];
}

//@ case: grid 1 block 32
//@ arg buffer 128 uninitialised
//@ expect initcheck uninitialized BUG1
KERNEL increment_unwritten(int *p) {
    p[threadIdx.x] += 1; // BUG1
}

//@ case: grid 1 block 32
//@ arg buffer 128 uninitialised
//@ expect clean
KERNEL write_then_increment(int *p) {
    volatile int *v = p;
    v[threadIdx.x] = 3;
    v[threadIdx.x] += 1;
}

//@ case: grid 1 block 32
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ expect initcheck uninitialized BUG1
KERNEL value_stored_on_is_written(int *p, int *out) {
    // The copy of the unwritten value counts as written: there is one report, at the first read.
    volatile int *v = out;
    v[threadIdx.x] = p[threadIdx.x]; // BUG1
    v[threadIdx.x] = v[threadIdx.x] + 1;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
__device__ int zeroed[32];
KERNEL read_module_variable(int *out) {
    out[threadIdx.x] = zeroed[threadIdx.x];
}

//@ case: grid 2 block 32
//@ arg buffer 128 uninitialised
//@ arg buffer 256
//@ expect clean
KERNEL barrier_between_write_and_read(int *p, int *out) {
    if (blockIdx.x == 1) return;
    p[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = p[31 - threadIdx.x];
}

//@ case: grid 1 block 32
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ expect initcheck uninitialized BUG1
KERNEL half_is_written_in_kernel(int *p, int *out) {
    if (threadIdx.x < 16) p[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = p[31 - threadIdx.x]; // BUG1
}

//@ class: structures
//@ case: grid 1 block 16
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ expect clean
KERNEL write_fields(Padded *p, Padded *out) {
    p[threadIdx.x].tag = 1;
    p[threadIdx.x].value = 2;
}

//@ case fields_written: grid 1 block 16
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ run write_fields: grid 1 block 16
//@ expect clean
//@ case fields_unwritten: grid 1 block 16
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ run write_fields: grid 1 block 15
//@ expect initcheck uninitialized BUG1
KERNEL read_field(Padded *p, Padded *out) {
    out[threadIdx.x].value = p[threadIdx.x].value; // BUG1
}

//@ case padding_is_unwritten: grid 1 block 16
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ run write_fields: grid 1 block 16
//@ expect initcheck partly-uninitialized BUG1 info
KERNEL read_structure_as_word(unsigned long long *p, unsigned long long *out) {
    out[threadIdx.x] = p[threadIdx.x]; // BUG1
}

//@ case: grid 1 block 16
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ expect clean
KERNEL write_only_tag(Padded *p, Padded *out) {
    p[threadIdx.x].tag = 1;
}

//@ case field_forgotten: grid 1 block 16
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ run write_only_tag: grid 1 block 16
//@ expect initcheck uninitialized BUG1
KERNEL read_value(Padded *p, Padded *out) {
    out[threadIdx.x].value = p[threadIdx.x].value; // BUG1
}

//@ case structures_by_field: grid 1 block 16
//@ arg buffer 256 uninitialised
//@ arg buffer 256
//@ expect clean
KERNEL write_wide(Wide *p, Wide *out) {
    p[threadIdx.x].tag = 1;
    p[threadIdx.x].value = 2;
    out[threadIdx.x].tag = p[threadIdx.x].tag;
    out[threadIdx.x].value = p[threadIdx.x].value;
}

//@ class: copies
//@ case copy_of_unwritten: grid 1 block 32
//@ arg buffer 128 uninitialised
//@ arg buffer 128 iota
//@ arg buffer 128
//@ copy 0 0 1 0 128
//@ expect initcheck uninitialized BUG1
//@ case copy_of_written: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ copy 0 0 1 0 128
//@ expect clean
//@ case copy_of_part: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ copy 0 4 1 4 124
//@ expect initcheck uninitialized BUG1
//@ case copy_unwritten_part: grid 1 block 32
//@ arg buffer 128 uninitialised
//@ arg buffer 128 iota
//@ arg buffer 128
//@ write 0 0 64
//@ copy 0 0 1 64 64
//@ expect clean
//@ case copy_wrong_part: grid 1 block 32
//@ arg buffer 128 uninitialised
//@ arg buffer 128 iota
//@ arg buffer 128
//@ write 0 0 64
//@ copy 0 4 1 64 64
//@ expect initcheck uninitialized BUG1
KERNEL read_second(const int *a, const int *p, int *out) {
    out[threadIdx.x] = p[threadIdx.x]; // BUG1
}

//@ case host_reads_unwritten: grid 1 block 32
//@ arg buffer 256 uninitialised
//@ read 0 0 256
//@ expect initcheck uninitialized-copy
//@ case host_reads_written_half: grid 1 block 32
//@ arg buffer 256 uninitialised
//@ read 0 0 128
//@ expect clean
//@ case host_reads_one_byte_more: grid 1 block 32
//@ arg buffer 256 uninitialised
//@ read 0 0 129
//@ expect initcheck partly-uninitialized info
//@ case host_reads_some_more: grid 1 block 32
//@ arg buffer 256 uninitialised
//@ read 0 0 160
//@ expect initcheck uninitialized-copy
//@ case host_reads_all_written: grid 1 block 64
//@ arg buffer 256 uninitialised
//@ read 0 0 256
//@ expect clean
//@ case host_reads_other_half: grid 1 block 32
//@ arg buffer 256 uninitialised
//@ read 0 128 128
//@ expect initcheck uninitialized-copy
//@ case fill_managed: grid 1 block 32
//@ arg managed 256
//@ expect clean
KERNEL fill_by_kernel(int *p) {
    p[threadIdx.x] = 1;
}

//@ class: atomics
//@ case add_to_unwritten: grid 1 block 32
//@ arg buffer 128 uninitialised
//@ expect initcheck uninitialized BUG1
//@ case add_to_zeros: grid 1 block 32
//@ arg buffer 128 zero
//@ expect clean
KERNEL add_to_words(int *p) {
    atomicAdd(p + threadIdx.x, 1); // BUG1
}

//@ case max_of_unwritten: grid 1 block 32
//@ arg buffer 4 uninitialised
//@ arg buffer 128
//@ expect initcheck uninitialized BUG1
//@ case max_of_set: grid 1 block 32
//@ arg buffer 4 uninitialised
//@ arg buffer 128
//@ set 0 0 4
//@ expect clean
KERNEL max_of_word(int *p, int *out) {
    out[threadIdx.x] = atomicMax(p, (int)threadIdx.x); // BUG1
}

//@ case cas_on_unwritten: grid 1 block 1
//@ arg buffer 8 uninitialised
//@ arg buffer 8
//@ expect initcheck uninitialized BUG1
//@ case cas_on_written: grid 1 block 1
//@ arg buffer 8 ones
//@ arg buffer 8
//@ expect clean
KERNEL cas_on_word(unsigned long long *p, unsigned long long *out) {
    *out = atomicCAS(p, 0ull, 1ull); // BUG1
}

//@ case: grid 1 block 1
//@ arg buffer 4 uninitialised
//@ arg buffer 4
//@ expect clean
KERNEL atomic_after_store(int *p, int *out) {
    *p = 3;
    atomicAdd(p, 2);
    *out = *(volatile int *)p;
}

//@ case: grid 1 block 1
//@ arg buffer 4 uninitialised
//@ arg buffer 4
//@ expect clean
KERNEL exchange_as_store(int *p, int *out) {
    atomicExch(p, 0); // the old value is not used
    *out = atomicAdd(p, 1);
}

//@ case exchange_with_unwritten: grid 1 block 1
//@ arg buffer 4 uninitialised
//@ arg buffer 4
//@ expect initcheck uninitialized BUG1
//@ case exchange_with_written: grid 1 block 1
//@ arg buffer 4 zero
//@ arg buffer 4
//@ expect clean
KERNEL exchange_for_value(int *p, int *out) {
    *out = atomicExch(p, 1); // BUG1
}

//@ class: shared reads
//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect initcheck uninitialized BUG1
KERNEL shared_unwritten(int *out) {
    __shared__ int s[32];
    out[threadIdx.x] = ((volatile int *)s)[threadIdx.x]; // BUG1
}

//@ case: grid 3 block 32
//@ arg buffer 384
//@ expect clean
KERNEL shared_written(int *out) {
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] = s[31 - threadIdx.x];
}

//@ case shared_halo_unwritten: grid 1 block 32
//@ arg buffer 128
//@ arg i32 0
//@ expect initcheck uninitialized BUG1
//@ case shared_halo_written: grid 1 block 32
//@ arg buffer 128
//@ arg i32 1
//@ expect clean
KERNEL shared_halo(int *out, int halo) {
    __shared__ int s[33];
    s[threadIdx.x] = threadIdx.x;
    if (halo && threadIdx.x == 0) s[32] = 7;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + 1]; // BUG1
}

//@ case: grid 2 block 32
//@ arg buffer 256
//@ expect initcheck uninitialized BUG1
KERNEL shared_written_by_one_block(int *out) {
    __shared__ int s[32];
    volatile int *v = s;
    if (blockIdx.x == 0) v[threadIdx.x] = 1;
    out[blockIdx.x * 32 + threadIdx.x] = v[threadIdx.x]; // BUG1
}

//@ case dynamic_unwritten: grid 1 block 32 shared 128
//@ arg buffer 128
//@ arg i32 31
//@ expect initcheck uninitialized BUG1
//@ case dynamic_written: grid 1 block 32 shared 128
//@ arg buffer 128
//@ arg i32 32
//@ expect clean
KERNEL dynamic_shared(int *out, int n) {
    extern __shared__ int d[];
    if (threadIdx.x < n) d[threadIdx.x] = 2;
    __syncthreads();
    out[threadIdx.x] = d[threadIdx.x ^ 1]; // BUG1
}

//@ case: grid 1 block 32
//@ arg buffer 64
//@ expect initcheck uninitialized BUG1
KERNEL shared_counters_not_cleared(int *out) {
    __shared__ int counters[16];
    atomicAdd(&counters[threadIdx.x % 16], 1); // BUG1
    __syncthreads();
    if (threadIdx.x < 16) out[threadIdx.x] = counters[threadIdx.x];
}

//@ case: grid 1 block 32
//@ arg buffer 64
//@ expect clean
KERNEL shared_counters_cleared(int *out) {
    __shared__ int counters[16];
    if (threadIdx.x < 16) counters[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&counters[threadIdx.x % 16], 1);
    __syncthreads();
    if (threadIdx.x < 16) out[threadIdx.x] = counters[threadIdx.x];
}

//@ class: asynchronous copies
//@ case async_copy_of_unwritten: grid 1 block 32
//@ arg buffer 128 uninitialised
//@ arg buffer 128
//@ either initcheck uninitialized BUG1
//@ either initcheck uninitialized BUG2
//@ case async_copy_of_written: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ expect clean
KERNEL async_copy(const int *p, int *out) {
    __shared__ int s[32];
    COPY4(&s[threadIdx.x], p + threadIdx.x); // BUG1
    WAIT();
    out[threadIdx.x] = s[threadIdx.x]; // BUG2
}

//@ class: device heap
//@ case heap_unwritten: grid 1 block 2
//@ arg buffer 64
//@ arg buffer 64
//@ arg i32 1
//@ expect initcheck uninitialized BUG1
//@ case heap_written: grid 1 block 2
//@ arg buffer 64
//@ arg buffer 64
//@ arg i32 0
//@ expect clean
KERNEL heap_memory(int **slots, int *out, int at) {
    volatile int *p = (int *)malloc(8);
    slots[threadIdx.x] = (int *)p;
    p[0] = 1;
    out[threadIdx.x] = p[at]; // BUG1
    free(slots[threadIdx.x]);
}

//@ case: grid 1 block 1
//@ arg buffer 64
//@ arg buffer 64
//@ expect initcheck uninitialized BUG1
KERNEL heap_reused(int **slots, int *out) {
    // Memory that `malloc` returns again has no defined contents.
    for (int i = 0; i < 2; i++) {
        volatile int *p = (int *)malloc(64);
        slots[0] = (int *)p;
        if (i == 0) p[3] = 1;
        out[i] = p[3]; // BUG1
        free(*(int *volatile *)slots);
    }
}

//@ class: shared memory
//@ case last_block_does_not_write: grid 256 block 64
//@ arg buffer 65536
//@ arg i32 255
//@ expect initcheck uninitialized BUG1
//@ case all_blocks_write: grid 256 block 64
//@ arg buffer 65536
//@ arg i32 256
//@ expect clean
KERNEL some_blocks_write(int *out, int count) {
    __shared__ int s[64];
    if (blockIdx.x < count) s[threadIdx.x] = threadIdx.x;
    asm volatile("" ::: "memory");
    out[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x]; // BUG1
}

//@ class: reserved memory
//@ case: grid 2 block 64
//@ arg buffer 512
//@ expect clean
KERNEL clear_bits_of_reserved_memory(int *out) {
    __shared__ int own[64];
    unsigned at;
    asm("mov.u32 %0, %%reserved_smem_offset_1;" : "=r"(at));
    own[threadIdx.x] = threadIdx.x;
    asm volatile("red.and.release.cta.shared.b32 [%0], %1;" ::"r"(at), "r"(~(1u << threadIdx.x / 32)) : "memory");
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = own[63 - threadIdx.x];
}
