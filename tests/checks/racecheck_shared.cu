// racecheck: shared memory, warps and named barriers. The directives are described in tests/src/checks.rs.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__ void
#define T threadIdx.x
#define BAR(text) asm volatile(text ";" ::: "memory")
// Shared memory that all threads may read at once: n numbers 0.
#define SHARED_ZEROS(n) __shared__ int s[n]; for (int k = T; k < n; k += blockDim.x) s[k] = 0; __syncthreads()

//@ class: across warps
//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL read_after_write(int *out) {
    SHARED_ZEROS(64);
    s[T] = T; // BUG1
    out[T] = s[T ^ 32]; // BUG2
}

//@ case: grid 2 block 64
//@ arg buffer 512
//@ expect clean
KERNEL read_after_write_and_barrier(int *out) {
    SHARED_ZEROS(64);
    s[T] = T;
    __syncthreads();
    out[blockIdx.x * 64 + T] = s[T ^ 32];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL write_after_read(int *out) {
    SHARED_ZEROS(64);
    int v = s[T ^ 32]; // BUG1
    s[T] = v + 1; // BUG2
    out[T] = v;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL write_after_read_and_barrier(int *out) {
    SHARED_ZEROS(64);
    int v = s[T ^ 32];
    __syncthreads();
    s[T] = v + 1;
    out[T] = s[T];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 error
KERNEL write_after_write(int *out) {
    SHARED_ZEROS(32);
    s[T % 32] = T; // BUG1
    __syncthreads();
    out[T] = s[T % 32];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL two_writes_of_one_place(int *out) {
    SHARED_ZEROS(32);
    if (T < 32) s[T] = 1; // BUG1
    else        s[T - 32] = 2; // BUG2
    __syncthreads();
    out[T] = s[T % 32];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL two_writes_and_barrier(int *out) {
    SHARED_ZEROS(32);
    if (T < 32) s[T] = 1;
    __syncthreads();
    if (T >= 32) s[T - 32] = 2;
    __syncthreads();
    out[T] = s[T % 32];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL own_places_only(int *out) {
    SHARED_ZEROS(64);
    s[T] = T;
    out[T] = s[T] + 1;
    s[T] = 3;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL all_read_one_place(int *out) {
    SHARED_ZEROS(64);
    if (T == 40) s[0] = 9;
    __syncthreads();
    out[T] = s[0];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL broadcast_without_barrier(int *out) {
    SHARED_ZEROS(1);
    if (T == 40) s[0] = 9; // BUG1
    out[T] = s[0]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL fence_is_no_barrier(int *out) {
    SHARED_ZEROS(64);
    s[T] = T; // BUG1
    __threadfence_block();
    out[T] = s[T ^ 32]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL warp_barrier_across_warps(int *out) {
    SHARED_ZEROS(64);
    s[T] = T; // BUG1
    __syncwarp();
    out[T] = s[T ^ 32]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL counting_barrier(int *out) {
    SHARED_ZEROS(64);
    s[T] = T;
    int n = __syncthreads_count(T > 3);
    out[T] = s[T ^ 32] + n;
}

//@ case: grid 1 block 64 shared 256
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL dynamic_without_barrier(int *out) {
    extern __shared__ int d[];
    d[T] = 0;
    __syncthreads();
    d[T] = T; // BUG1
    out[T] = d[63 - T]; // BUG2
}

//@ case: grid 1 block 64 shared 256
//@ arg buffer 256
//@ expect clean
KERNEL dynamic_with_barrier(int *out) {
    extern __shared__ int d[];
    d[T] = T;
    __syncthreads();
    out[T] = d[63 - T];
}

//@ class: equal values
//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 info
KERNEL all_write_seven(int *out) {
    SHARED_ZEROS(1);
    s[0] = 7; // BUG1
    __syncthreads();
    out[T] = s[0];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 error
KERNEL all_write_warp_number(int *out) {
    SHARED_ZEROS(1);
    s[0] = T / 32; // BUG1
    __syncthreads();
    out[T] = s[0];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 info
KERNEL any_thread_sets_flag(int *out) {
    SHARED_ZEROS(1);
    if (T % 3 == 0) s[0] = 1; // BUG1
    __syncthreads();
    out[T] = s[0];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL one_thread_sets_flag(int *out) {
    SHARED_ZEROS(1);
    if (T == 3) s[0] = 1;
    __syncthreads();
    out[T] = s[0];
}

//@ class: within a warp
//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2 warning
KERNEL lanes_read_after_write(int *out) {
    SHARED_ZEROS(32);
    s[T] = T; // BUG1
    out[T] = s[T ^ 1]; // BUG2
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL lanes_read_after_syncwarp(int *out) {
    SHARED_ZEROS(32);
    s[T] = T;
    __syncwarp();
    out[T] = s[T ^ 1];
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2 warning
KERNEL lanes_write_after_read(int *out) {
    SHARED_ZEROS(32);
    int v = s[T ^ 1]; // BUG1
    s[T] = v + 1; // BUG2
    out[T] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL lanes_write_after_syncwarp(int *out) {
    SHARED_ZEROS(32);
    int v = s[T ^ 1];
    __syncwarp();
    s[T] = v + 1;
    out[T] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 warning
KERNEL lanes_write_one_place(int *out) {
    SHARED_ZEROS(16);
    s[T / 2] = T; // BUG1
    __syncwarp();
    out[T] = s[T / 2];
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2 warning
KERNEL branches_of_a_warp(int *out) {
    SHARED_ZEROS(16);
    if (T < 16) s[T] = T; // BUG1
    else        out[T] = s[T - 16]; // BUG2
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL branches_of_a_warp_in_order(int *out) {
    SHARED_ZEROS(16);
    if (T < 16) s[T] = T;
    __syncwarp();
    if (T >= 16) out[T] = s[T - 16];
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2 warning
KERNEL mask_leaves_out_reader(int *out) {
    SHARED_ZEROS(32);
    s[T] = T; // BUG1
    if (T < 16) __syncwarp(0x0000ffff);
    else        __syncwarp(0xffff0000);
    out[T] = s[T ^ 16]; // BUG2
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL masks_of_halves(int *out) {
    SHARED_ZEROS(32);
    s[T] = T;
    if (T < 16) __syncwarp(0x0000ffff);
    else        __syncwarp(0xffff0000);
    out[T] = s[T ^ 8];
}

// CUDA says that shuffles and votes do not order memory accesses; the model of the checkers says that they do.
//@ case: grid 1 block 32
//@ arg buffer 128
//@ may racecheck race BUG1 BUG2
KERNEL vote_between_lanes(int *out) {
    SHARED_ZEROS(32);
    s[T] = T; // BUG1
    unsigned votes = __ballot_sync(0xffffffff, out[T] == 0);
    out[T] = s[T ^ 1] + votes; // BUG2
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 warning
KERNEL warp_reduction_without_order(int *out) {
    SHARED_ZEROS(64);
    s[T] = T;
    __syncwarp();
    #pragma unroll 1
    for (int d = 16; d > 0; d /= 2)
        s[T] += s[T + d]; // BUG1
    if (T == 0) out[0] = s[0];
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 warning
KERNEL warp_reduction_with_half_the_order(int *out) {
    // In one step, lane T reads the place that lane T + d writes.
    SHARED_ZEROS(64);
    s[T] = T;
    __syncwarp();
    #pragma unroll 1
    for (int d = 16; d > 0; d /= 2) {
        s[T] += s[T + d]; // BUG1
        __syncwarp();
    }
    if (T == 0) out[0] = s[0];
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL warp_reduction(int *out) {
    SHARED_ZEROS(64);
    s[T] = T;
    __syncwarp();
    #pragma unroll 1
    for (int d = 16; d > 0; d /= 2) {
        int v = s[T + d];
        __syncwarp();
        s[T] += v;
        __syncwarp();
    }
    if (T == 0) out[0] = s[0];
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL warp_reduction_of_active_lanes(int *out) {
    SHARED_ZEROS(32);
    s[T] = T;
    __syncwarp();
    #pragma unroll 1
    for (int d = 16; d > 0; d /= 2) {
        if (T < d) s[T] += s[T + d];
        __syncwarp();
    }
    if (T == 0) out[0] = s[0];
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect clean
KERNEL reduction_with_shuffles(int *p) {
    SHARED_ZEROS(2);
    int v = p[T];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    if (T % 32 == 0) s[T / 32] = v;
    __syncthreads();
    if (T == 0) p[0] = s[0] + s[1];
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect racecheck race BUG1 BUG2 error
KERNEL reduction_with_shuffles_without_barrier(int *p) {
    SHARED_ZEROS(2);
    int v = p[T];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    if (T % 32 == 0) s[T / 32] = v; // BUG1
    if (T == 0) p[0] = s[0] + s[1]; // BUG2
}

//@ class: cooperative groups
//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL tile_exchange(int *out) {
    SHARED_ZEROS(32);
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[T] = T;
    tile.sync();
    out[T] = s[T ^ 7];
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2 warning
KERNEL exchange_between_tiles(int *out) {
    SHARED_ZEROS(32);
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[T] = T; // BUG1
    tile.sync();
    out[T] = s[T ^ 8]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL block_group_sync(int *out) {
    SHARED_ZEROS(64);
    auto block = cg::this_thread_block();
    s[T] = T;
    block.sync();
    out[T] = s[T ^ 33];
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL coalesced_group_sync(int *out) {
    SHARED_ZEROS(32);
    if (T % 2) {
        auto group = cg::coalesced_threads();
        s[T] = T;
        group.sync();
        out[T] = s[T ^ 2];
    }
}

//@ class: reduction
//@ case: grid 1 block 128
//@ arg buffer 512 iota
//@ expect racecheck race BUG1 error
KERNEL tree_without_barrier(int *p) {
    SHARED_ZEROS(128);
    s[T] = p[T];
    __syncthreads();
    #pragma unroll 1
    for (int d = 64; d > 0; d /= 2)
        if (T < d) s[T] += s[T + d]; // BUG1
    if (T == 0) p[0] = s[0];
}

//@ case: grid 1 block 128
//@ arg buffer 512 iota
//@ expect clean
KERNEL tree_with_barriers(int *p) {
    SHARED_ZEROS(128);
    s[T] = p[T];
    #pragma unroll 1
    for (int d = 64; d > 0; d /= 2) {
        __syncthreads();
        if (T < d) s[T] += s[T + d];
    }
    if (T == 0) p[0] = s[0];
}

//@ case: grid 1 block 128
//@ arg buffer 512 iota
//@ expect racecheck race BUG1 BUG2 error
KERNEL tree_without_first_barrier(int *p) {
    SHARED_ZEROS(128);
    s[T] = p[T]; // BUG1
    #pragma unroll 1
    for (int d = 64; d > 0; d /= 2) {
        if (T < d) s[T] += s[T + d]; // BUG2
        __syncthreads();
    }
    if (T == 0) p[0] = s[0];
}

//@ case: grid 1 block 128
//@ arg buffer 512 iota
//@ expect racecheck race BUG1 BUG2 error
KERNEL tree_read_by_others(int *p) {
    SHARED_ZEROS(128);
    s[T] = p[T];
    #pragma unroll 1
    for (int d = 64; d > 0; d /= 2) {
        __syncthreads();
        if (T < d) s[T] += s[T + d]; // BUG1
    }
    p[T] = s[0]; // BUG2
}

//@ case: grid 1 block 128
//@ arg buffer 512 iota
//@ expect racecheck race BUG1 warning
KERNEL tree_unrolled_without_syncwarp(int *p) {
    // The old idiom: no barrier once one warp is left.
    SHARED_ZEROS(128);
    s[T] = p[T];
    __syncthreads();
    if (T < 64) s[T] += s[T + 64];
    __syncthreads();
    #pragma unroll 1
    for (int d = 32; d > 0; d /= 2)
        if (T < d) s[T] += s[T + d]; // BUG1
    if (T == 0) p[0] = s[0];
}

//@ class: scan
//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect racecheck race BUG1 error
KERNEL scan_with_one_barrier(int *p) {
    SHARED_ZEROS(64);
    s[T] = p[T];
    #pragma unroll 1
    for (int d = 1; d < 64; d *= 2) {
        __syncthreads();
        if (T >= d) s[T] += s[T - d]; // BUG1
    }
    p[T] = s[T];
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect clean
KERNEL scan_with_two_barriers(int *p) {
    SHARED_ZEROS(64);
    s[T] = p[T];
    #pragma unroll 1
    for (int d = 1; d < 64; d *= 2) {
        __syncthreads();
        int v = T >= d ? s[T - d] : 0;
        __syncthreads();
        s[T] += v;
    }
    p[T] = s[T];
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect clean
KERNEL scan_with_two_buffers(int *p) {
    SHARED_ZEROS(128);
    int from = 0;
    s[T] = p[T];
    #pragma unroll 1
    for (int d = 1; d < 64; d *= 2) {
        __syncthreads();
        s[64 - from + T] = s[from + T] + (T >= d ? s[from + T - d] : 0);
        from = 64 - from;
    }
    p[T] = s[from + T];
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect racecheck race BUG1 error
KERNEL scan_with_two_buffers_without_barrier(int *p) {
    SHARED_ZEROS(128);
    int from = 0;
    s[T] = p[T];
    __syncthreads();
    #pragma unroll 1
    for (int d = 1; d < 64; d *= 2) {
        s[64 - from + T] = s[from + T] + (T >= d ? s[from + T - d] : 0); // BUG1
        from = 64 - from;
    }
    p[T] = s[from + T];
}

//@ class: transposition
//@ case: grid 1 block 16,16
//@ arg buffer 1024 iota
//@ expect racecheck race BUG1 BUG2 error
KERNEL transpose_without_barrier(int *p) {
    __shared__ int s[256];
    s[threadIdx.y * 16 + threadIdx.x] = 0;
    __syncthreads();
    int x = threadIdx.x, y = threadIdx.y;
    s[y * 16 + x] = p[y * 16 + x]; // BUG1
    p[y * 16 + x] = s[x * 16 + y]; // BUG2
}

//@ case: grid 1 block 16,16
//@ arg buffer 1024 iota
//@ expect clean
KERNEL transpose(int *p) {
    __shared__ int s[256];
    int x = threadIdx.x, y = threadIdx.y;
    s[y * 16 + x] = p[y * 16 + x];
    __syncthreads();
    p[y * 16 + x] = s[x * 16 + y];
}

//@ case: grid 1 block 16,16
//@ arg buffer 1024 iota
//@ expect racecheck race BUG1 BUG2 error
KERNEL transpose_in_place(int *p) {
    int x = threadIdx.x, y = threadIdx.y;
    int v = p[x * 16 + y]; // BUG1
    p[y * 16 + x] = v; // BUG2
}

//@ case: grid 1 block 16,16
//@ arg buffer 1024 iota
//@ expect clean
KERNEL transpose_in_place_with_barrier(int *p) {
    int x = threadIdx.x, y = threadIdx.y;
    int v = p[x * 16 + y];
    __syncthreads();
    p[y * 16 + x] = v;
}

//@ class: stencil
//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect racecheck race BUG1 BUG3 error
//@ expect racecheck race BUG2 BUG3 error
KERNEL stencil_without_barrier(int *p) {
    SHARED_ZEROS(66);
    s[T + 1] = p[T]; // BUG1
    if (T < 2) s[T * 65] = 5; // BUG2
    p[T] = s[T] + s[T + 1] + s[T + 2]; // BUG3
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect racecheck race BUG1 BUG2 error
KERNEL stencil_halo_behind_barrier(int *p) {
    SHARED_ZEROS(66);
    s[T + 1] = p[T];
    __syncthreads();
    if (T < 2) s[T * 65] = 5; // BUG1
    p[T] = s[T] + s[T + 1] + s[T + 2]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect clean
KERNEL stencil(int *p) {
    SHARED_ZEROS(66);
    s[T + 1] = p[T];
    if (T < 2) s[T * 65] = 5;
    __syncthreads();
    p[T] = s[T] + s[T + 1] + s[T + 2];
}

//@ class: loops and buffers
//@ case buffer_reused_without_barrier: grid 1 block 64
//@ arg buffer 1024 iota
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2 error
//@ case buffer_reused_with_barrier: grid 1 block 64
//@ arg buffer 1024 iota
//@ arg i32 1
//@ expect clean
KERNEL buffer_reused(int *p, int second) {
    SHARED_ZEROS(64);
    #pragma unroll 1
    for (int i = 0; i < 4; i++) {
        s[T] = p[i * 64 + T]; // BUG1
        __syncthreads();
        p[i * 64 + T] = s[63 - T]; // BUG2
        if (second) __syncthreads();
    }
}

//@ case: grid 1 block 64
//@ arg buffer 1024 iota
//@ expect clean
KERNEL double_buffer(int *p) {
    SHARED_ZEROS(128);
    #pragma unroll 1
    for (int i = 0; i < 4; i++) {
        int *b = s + i % 2 * 64;
        b[T] = p[i * 64 + T];
        __syncthreads();
        p[i * 64 + T] = b[63 - T];
    }
}

//@ case: grid 1 block 64
//@ arg buffer 1024 iota
//@ expect racecheck race BUG1 BUG2 error
KERNEL double_buffer_with_rare_barrier(int *p) {
    SHARED_ZEROS(128);
    #pragma unroll 1
    for (int i = 0; i < 4; i++) {
        int *b = s + i % 2 * 64;
        b[T] = p[i * 64 + T]; // BUG1
        if (i % 2 == 0) __syncthreads();
        p[i * 64 + T] = b[63 - T]; // BUG2
    }
}

//@ case prefetch_right: grid 1 block 64
//@ arg buffer 1024 iota
//@ arg i32 1
//@ expect clean
//@ case prefetch_into_used_buffer: grid 1 block 64
//@ arg buffer 1024 iota
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2 error
KERNEL prefetch(int *p, int other) {
    SHARED_ZEROS(128);
    s[T] = p[T];
    __syncthreads();
    #pragma unroll 1
    for (int i = 0; i < 3; i++) {
        s[(i + 1) % 2 * 64 * other + T] = p[(i + 1) * 64 + T]; // BUG1
        p[i * 64 + T] = s[i % 2 * 64 * other + 63 - T]; // BUG2
        __syncthreads();
    }
}

//@ class: atomics
//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL count_and_read(int *out) {
    SHARED_ZEROS(1);
    atomicAdd(&s[0], 1); // BUG1
    out[T] = s[0]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL count_barrier_read(int *out) {
    SHARED_ZEROS(1);
    atomicAdd(&s[0], 1);
    __syncthreads();
    out[T] = s[0];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL clear_and_count(int *out) {
    SHARED_ZEROS(1);
    if (T == 0) s[0] = 5; // BUG1
    atomicAdd(&s[0], 1); // BUG2
    __syncthreads();
    out[T] = s[0];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL different_atomics(int *out) {
    SHARED_ZEROS(1);
    atomicAdd(&s[0], 1);
    atomicMax(&s[0], (int)T);
    int v = atomicOr(&s[0], 1);
    out[T] = v;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL block_atomics(int *out) {
    SHARED_ZEROS(1);
    out[T] = atomicAdd_block(&s[0], 1);
}

//@ class: histogram
//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect racecheck race BUG1 error
KERNEL histogram_without_atomics(int *p) {
    SHARED_ZEROS(8);
    s[p[T] % 8]++; // BUG1
    __syncthreads();
    if (T < 8) p[T] = s[T];
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect clean
KERNEL histogram(int *p) {
    SHARED_ZEROS(8);
    atomicAdd(&s[p[T] % 8], 1);
    __syncthreads();
    if (T < 8) p[T] = s[T];
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect racecheck race BUG1 BUG2 error
KERNEL histogram_read_early(int *p) {
    SHARED_ZEROS(8);
    atomicAdd(&s[p[T] % 8], 1); // BUG1
    if (T >= 56) p[T] = s[T - 56]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ expect clean
KERNEL histogram_per_thread(int *p) {
    SHARED_ZEROS(512);
    for (int i = 0; i < 8; i++) s[i * 64 + T] = (p[T] % 8) == i;
    __syncthreads();
    int sum = 0;
    if (T < 8) for (int i = 0; i < 64; i++) sum += s[T * 64 + i];
    __syncthreads();
    if (T < 8) p[T] = sum;
}

//@ class: bytes
//@ case: grid 1 block 64
//@ arg buffer 64
//@ expect clean
KERNEL neighbour_bytes(char *out) {
    __shared__ char s[64];
    s[T] = T;
    out[T] = s[T];
}

//@ case: grid 1 block 64
//@ arg buffer 128
//@ expect clean
KERNEL neighbour_halves(short *out) {
    __shared__ short s[64];
    s[T] = T;
    __syncthreads();
    out[T] = s[63 - T];
}

//@ case: grid 1 block 64
//@ arg buffer 64
//@ expect racecheck race BUG1 error
KERNEL bits_of_one_byte(char *out) {
    __shared__ unsigned char s[4];
    if (T < 4) s[T] = 0;
    __syncthreads();
    s[T % 4] |= 1 << T / 8; // BUG1
    __syncthreads();
    out[T] = s[T % 4];
}

//@ case: grid 1 block 64
//@ arg buffer 64
//@ expect racecheck race BUG1 BUG2 error
KERNEL byte_against_word(char *out) {
    __shared__ int s[16];
    if (T < 16) s[T] = 0;
    __syncthreads();
    if (T < 16) s[T] = 1; // BUG1
    if (T >= 32 && T < 48) ((char *)s)[(T - 32) * 4 + 3] = 1; // BUG2
    __syncthreads();
    out[T] = s[T / 4];
}

//@ case: grid 1 block 64
//@ arg buffer 64
//@ expect clean
KERNEL bytes_beside_halves(char *out) {
    __shared__ int s[16];
    if (T < 16) s[T] = 0;
    __syncthreads();
    if (T < 16) ((short *)s)[2 * T] = 1;
    if (T >= 32 && T < 48) ((char *)s)[(T - 32) * 4 + 3] = 1;
    __syncthreads();
    out[T] = s[T / 4];
}

//@ class: named barriers
//@ case: grid 1 block 64
//@ arg buffer 128
//@ expect clean
KERNEL producer_arrives(int *out) {
    SHARED_ZEROS(32);
    if (T < 32) {
        s[T] = T;
        BAR("bar.arrive 1, 64");
    } else {
        BAR("bar.sync 1, 64");
        out[T - 32] = s[63 - T];
    }
}

//@ case: grid 1 block 64
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2 error
KERNEL consumer_arrives(int *out) {
    SHARED_ZEROS(32);
    if (T < 32) {
        s[T] = T; // BUG1
        BAR("bar.sync 1, 64");
    } else {
        BAR("bar.arrive 1, 64");
        out[T - 32] = s[63 - T]; // BUG2
    }
}

//@ case: grid 1 block 64
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2 error
KERNEL producer_arrives_early(int *out) {
    SHARED_ZEROS(32);
    if (T < 32) {
        BAR("bar.arrive 1, 64");
        s[T] = T; // BUG1
    } else {
        BAR("bar.sync 1, 64");
        out[T - 32] = s[63 - T]; // BUG2
    }
}

//@ case queue_with_empty_barrier: grid 1 block 64
//@ arg buffer 512
//@ arg i32 1
//@ expect clean
//@ case queue_without_empty_barrier: grid 1 block 64
//@ arg buffer 512
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2 error
KERNEL queue(int *out, int empty) {
    SHARED_ZEROS(32);
    #pragma unroll 1
    for (int i = 0; i < 4; i++) {
        if (T < 32) s[T] = i; // BUG1
        BAR("bar.sync 1, 64");
        if (T >= 32) out[i * 32 + T - 32] = s[63 - T]; // BUG2
        if (empty) BAR("bar.sync 2, 64");
    }
}

//@ case: grid 1 block 64
//@ arg buffer 512
//@ expect clean
KERNEL queue_with_arrivals(int *out) {
    SHARED_ZEROS(32);
    #pragma unroll 1
    for (int i = 0; i < 4; i++) {
        if (T < 32) {
            if (i > 0) BAR("bar.sync 2, 64");
            s[T] = i;
            BAR("bar.arrive 1, 64");
        } else {
            BAR("bar.sync 1, 64");
            out[i * 32 + T - 32] = s[63 - T];
            if (i < 3) BAR("bar.arrive 2, 64");
        }
    }
}

//@ case: grid 1 block 128
//@ arg buffer 512
//@ expect clean
KERNEL barrier_of_each_half(int *out) {
    SHARED_ZEROS(128);
    s[T] = T;
    if (T < 64) BAR("bar.sync 1, 64");
    else        BAR("bar.sync 2, 64");
    out[T] = s[T ^ 32];
}

//@ case: grid 1 block 128
//@ arg buffer 512
//@ expect racecheck race BUG1 BUG2 error
KERNEL barrier_of_other_half(int *out) {
    SHARED_ZEROS(128);
    s[T] = T; // BUG1
    if (T < 64) BAR("bar.sync 1, 64");
    else        BAR("bar.sync 2, 64");
    out[T] = s[T ^ 64]; // BUG2
}

//@ case: grid 1 block 96
//@ arg buffer 384
//@ expect clean
KERNEL order_through_third_warp(int *out) {
    // Warp 0 hands over to warp 1, which hands over to warp 2.
    SHARED_ZEROS(32);
    if (T < 32) { s[T] = T; BAR("bar.arrive 1, 64"); }
    else if (T < 64) { BAR("bar.sync 1, 64"); out[T] = 1; BAR("bar.arrive 2, 64"); }
    else { BAR("bar.sync 2, 64"); out[T] = s[95 - T]; }
}

//@ class: volatile variables
//@ case: grid 1 block 64
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2 warning
KERNEL volatile_written_again(int *out) {
    __shared__ volatile int s[64];
    s[T] = 1;
    __syncthreads();
    if (T < 32)
        out[T] = s[T + 32]; // BUG1
    else
        s[T] = 2; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 128
//@ expect clean
KERNEL volatile_written_again_behind_a_barrier(int *out) {
    __shared__ volatile int s[64];
    s[T] = 1;
    __syncthreads();
    if (T < 32) out[T] = s[T + 32];
    __syncthreads();
    s[T] = 2;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ arg i32 9
//@ expect racecheck race BUG1 BUG2 warning
//@ may racecheck race BUG1 BUG3 warning
KERNEL volatile_searched(int *out, int n) {
    // The loop searches an array. It does not wait for a flag.
    __shared__ volatile int s[32];
    s[T] = T * 2; // BUG1
    int i = 0;
#pragma unroll 1
    while (s[i] < n) i++; // BUG2
    out[T] = s[i]; // BUG3
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ arg i32 9
//@ expect clean
KERNEL volatile_searched_behind_a_barrier(int *out, int n) {
    __shared__ volatile int s[32];
    s[T] = T * 2;
    __syncthreads();
    int i = 0;
#pragma unroll 1
    while (s[i] < n) i++;
    out[T] = s[i];
}

//@ case: grid 1 block 32
//@ arg buffer 4 zero
//@ arg buffer 4096
//@ arg i32 3
//@ expect racecheck race BUG1 BUG2 warning
KERNEL volatile_index(unsigned *counter, unsigned *out, int n) {
    __shared__ volatile unsigned start;
#pragma unroll 1
    for (int block = 0; block < n; block++) {
        if (T == 0) start = atomicAdd(counter, 32u); // BUG1
        unsigned s = start; // BUG2
        if (s + 32 <= 1024)
#pragma unroll
            for (unsigned j = 0; j < 40; j++) out[((s ^ j) * 32 + T) % 1024] = block + j;
        __syncwarp();
    }
}

//@ case: grid 1 block 32
//@ arg buffer 4 zero
//@ arg buffer 4096
//@ arg i32 3
//@ expect clean
KERNEL volatile_index_behind_a_barrier(unsigned *counter, unsigned *out, int n) {
    __shared__ volatile unsigned start;
#pragma unroll 1
    for (int block = 0; block < n; block++) {
        if (T == 0) start = atomicAdd(counter, 32u);
        __syncwarp();
        unsigned s = start;
        if (s + 32 <= 1024)
#pragma unroll
            for (unsigned j = 0; j < 40; j++) out[((s ^ j) * 32 + T) % 1024] = block + j;
        __syncwarp();
    }
}
