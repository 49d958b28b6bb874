// racecheck: global memory, blocks, scopes, fences, locks. The directives are described in tests/src/checks.rs.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__ void
#define T threadIdx.x
#define B blockIdx.x
#define INLINE __device__ __forceinline__

INLINE int load_weak(const int *p) { int v; asm volatile("ld.weak.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
INLINE int load_relaxed(const int *p) { int v; asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
INLINE int load_acquire(const int *p) { int v; asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
INLINE int load_acquire_block(const int *p) { int v; asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
INLINE void store_weak(int *p, int v) { asm volatile("st.weak.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
INLINE void store_relaxed(int *p, int v) { asm volatile("st.relaxed.gpu.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
INLINE void store_release(int *p, int v) { asm volatile("st.release.gpu.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
INLINE void store_release_block(int *p, int v) { asm volatile("st.release.cta.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
INLINE int cas_acquire(int *p, int a, int b) { int v; asm volatile("atom.acquire.gpu.cas.b32 %0, [%1], %2, %3;" : "=r"(v) : "l"(p), "r"(a), "r"(b) : "memory"); return v; }
INLINE int cas_acquire_block(int *p, int a, int b) { int v; asm volatile("atom.acquire.cta.cas.b32 %0, [%1], %2, %3;" : "=r"(v) : "l"(p), "r"(a), "r"(b) : "memory"); return v; }
INLINE int exchange_release(int *p, int b) { int v; asm volatile("atom.release.gpu.exch.b32 %0, [%1], %2;" : "=r"(v) : "l"(p), "r"(b) : "memory"); return v; }
INLINE int exchange_release_block(int *p, int b) { int v; asm volatile("atom.release.cta.exch.b32 %0, [%1], %2;" : "=r"(v) : "l"(p), "r"(b) : "memory"); return v; }

//@ class: part of a vector
//@ case used_element_written: grid 1 block 64
//@ arg buffer 64
//@ arg buffer 64
//@ arg i32 3
//@ expect racecheck race BUG1 BUG2 error
//@ case unused_element_written: grid 1 block 64
//@ arg buffer 64
//@ arg buffer 64
//@ arg i32 2
//@ expect clean
KERNEL read_three_of_four(int *p, int *out, int at) {
    // The compiler loads p[0] to p[3].
    int *from = (int *)__builtin_assume_aligned(p, 16);
    if (T == 32) p[at] = 5; // BUG1
    if (T == 0) out[0] = from[0] + from[1] + from[3]; // BUG2
}

//@ class: between blocks
//@ case: grid 2 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 error
KERNEL blocks_write_one_place(int *p) {
    p[T] = B; // BUG1
}

//@ case: grid 2 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 info
KERNEL blocks_write_equal_values(int *p) {
    p[T] = 7; // BUG1
}

//@ case array_all_equal: grid 9 block 64
//@ arg buffer 256
//@ arg i32 9
//@ expect racecheck race BUG1 info
//@ case array_first_differs: grid 9 block 64
//@ arg buffer 256
//@ arg i32 0
//@ expect racecheck race BUG1 error
//@ case array_last_differs: grid 9 block 64
//@ arg buffer 256
//@ arg i32 8
//@ expect racecheck race BUG1 error
KERNEL many_blocks_write_one_array(int *p, int other) {
    p[T] = B == other && T == 37 ? -1 : (int)T; // BUG1
}

//@ case scattered_all_equal: grid 9 block 64
//@ arg buffer 256
//@ arg i32 9
//@ expect racecheck race BUG1 info
//@ case scattered_first_differs: grid 9 block 64
//@ arg buffer 256
//@ arg i32 0
//@ expect racecheck race BUG1 error
//@ case scattered_last_differs: grid 9 block 64
//@ arg buffer 256
//@ arg i32 8
//@ expect racecheck race BUG1 error
KERNEL many_blocks_write_scattered(int *p, int other) {
    p[T * 37 % 64] = B == other && T == 5 ? -1 : 3; // BUG1
}

//@ case: grid 9 block 64
//@ arg buffer 256
//@ arg buffer 2304
//@ expect racecheck race BUG1 BUG2 error
//@ expect racecheck race BUG1 info
KERNEL many_blocks_write_and_read_one_array(int *p, int *out) {
    p[T] = 7; // BUG1
    __syncthreads();
    out[B * 64 + T] = p[63 - T]; // BUG2
}

//@ case: grid 9 block 64
//@ arg buffer 2304
//@ arg buffer 2304
//@ expect clean
KERNEL many_blocks_write_and_read_own_arrays(int *p, int *out) {
    p[B * 64 + T] = 7;
    __syncthreads();
    out[B * 64 + T] = p[B * 64 + 63 - T];
}

//@ case: grid 2 block 32
//@ arg buffer 256
//@ expect clean
KERNEL blocks_write_own_places(int *p) {
    p[B * 32 + T] = B;
}

//@ case: grid 2 block 32
//@ arg buffer 256
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL read_of_other_block(int *p, int *out) {
    p[B * 32 + T] = B; // BUG1
    out[B * 32 + T] = p[(1 - B) * 32 + T]; // BUG2
}

//@ case: grid 2 block 32
//@ arg buffer 256
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL block_barrier_between_blocks(int *p, int *out) {
    p[B * 32 + T] = B; // BUG1
    __syncthreads();
    out[B * 32 + T] = p[63 - B * 32 - T]; // BUG2
}

//@ case: grid 2 block 32
//@ arg buffer 256
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL fence_orders_nothing_alone(int *p, int *out) {
    p[B * 32 + T] = B; // BUG1
    __threadfence();
    out[B * 32 + T] = p[63 - B * 32 - T]; // BUG2
}

//@ case: grid 2 block 32
//@ arg buffer 256
//@ arg buffer 256
//@ expect clean
KERNEL read_of_own_block(int *p, int *out) {
    p[B * 32 + T] = B;
    __syncthreads();
    out[B * 32 + T] = p[B * 32 + 31 - T];
}

//@ case: grid 2 block 32
//@ arg buffer 260 iota
//@ expect racecheck race BUG1 error
KERNEL shift_in_place(int *p) {
    p[B * 32 + T] = p[B * 32 + T + 1]; // BUG1
}

//@ case: grid 2 block 32
//@ arg buffer 260 iota
//@ arg buffer 256
//@ expect clean
KERNEL shift_to_other_buffer(const int *p, int *out) {
    out[B * 32 + T] = p[B * 32 + T + 1];
}

//@ case: grid 4 block 7
//@ arg buffer 28
//@ expect clean
KERNEL bytes_of_blocks(char *p) {
    p[B * 7 + T] = B;
}

//@ case: grid 2 block 1
//@ arg buffer 64
//@ expect racecheck race BUG1 BUG2 error
KERNEL vector_against_word(int *p) {
    if (B == 0) *(int4 *)p = make_int4(1, 2, 3, 4); // BUG1
    else        p[3] = 5; // BUG2
}

//@ case: grid 2 block 1
//@ arg buffer 64
//@ expect clean
KERNEL vector_beside_word(int *p) {
    if (B == 0) *(int4 *)p = make_int4(1, 2, 3, 4);
    else        p[4] = 5;
}

struct Halves { short low, high; };
//@ case: grid 2 block 32
//@ arg buffer 128
//@ expect clean
KERNEL fields_of_one_structure(Halves *p) {
    if (B == 0) p[T].low = 1;
    else        p[T].high = 2;
}

//@ case: grid 2 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2 error
KERNEL field_against_structure(Halves *p) {
    if (B == 0) p[T].low = 1; // BUG1
    else        *(int *)&p[T] = 0x20002; // BUG2
}

//@ case: grid 2 block 32
//@ arg buffer 256
//@ arg buffer 256
//@ expect clean
KERNEL number_places(int *p, int *out) {
    p[B * 32 + T] = B * 32 + T;
}

//@ case read_after_other_launch: grid 2 block 32
//@ arg buffer 256
//@ arg buffer 256
//@ run number_places: grid 2 block 32
//@ expect clean
KERNEL read_backwards(int *p, int *out) {
    out[B * 32 + T] = p[63 - B * 32 - T];
}

//@ case write_after_other_launch: grid 2 block 32
//@ arg buffer 256
//@ arg buffer 256
//@ run read_backwards: grid 2 block 32
//@ set 0 0 256
//@ run read_backwards: grid 1 block 64
//@ expect clean
KERNEL write_again(int *p, int *out) {
    p[63 - B * 32 - T] = 4;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL no_barrier_in_block(int *p, int *out) {
    p[T] = T; // BUG1
    out[T] = p[63 - T]; // BUG2
}

//@ case: grid 1 block 32
//@ arg buffer 256
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 warning
KERNEL no_barrier_in_warp(int *p, int *out) {
    p[T] = T; // BUG1
    out[T] = p[31 - T]; // BUG2
}

//@ case: grid 4 block 32
//@ arg buffer 512
//@ arg buffer 512
//@ expect clean
KERNEL barrier_in_warp(int *p, int *out) {
    p[B * 32 + T] = T;
    __syncwarp();
    out[B * 32 + T] = p[B * 32 + 31 - T];
}

//@ class: atomics
//@ case: grid 4 block 64
//@ arg buffer 4
//@ expect clean
KERNEL count(int *p) {
    atomicAdd(p, 1);
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ expect racecheck race BUG1 error
KERNEL count_without_atomics(int *p) {
    p[0]++; // BUG1
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 16
//@ expect racecheck race BUG1 BUG2 error
KERNEL count_and_read_plainly(int *p, int *out) {
    atomicAdd(p, 1); // BUG1
    out[B] = p[0]; // BUG2
}

// PTX calls volatile accesses strong; CUDA C++ does not call them atomic.
//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 16
//@ may racecheck race BUG1 BUG2 warning
KERNEL count_and_read_volatile(int *p, int *out) {
    atomicAdd(p, 1); // BUG1
    out[B] = *(volatile int *)p; // BUG2
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL clear_while_counting(int *p) {
    if (B == 0) p[0] = 3; // BUG1
    else        atomicAdd(p, 1); // BUG2
}

//@ case atomic_scope_too_narrow: grid 2 block 32
//@ arg buffer 4
//@ expect racecheck race BUG1 error
//@ case atomic_scope_of_one_block: grid 1 block 64
//@ arg buffer 4
//@ expect clean
KERNEL count_in_block(int *p) {
    atomicAdd_block(p, 1); // BUG1
}

//@ case: grid 2 block 32
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL scopes_differ(int *p) {
    if (B == 0) atomicAdd(p, 1); // BUG1
    else        atomicAdd_block(p, 1); // BUG2
}

//@ case: grid 2 block 32
//@ arg buffer 4
//@ expect clean
KERNEL system_scope(int *p) {
    if (B == 0) atomicAdd(p, 1);
    else        atomicAdd_system(p, 1);
}

//@ case: grid 2 block 1
//@ arg buffer 8
//@ expect racecheck race BUG1 BUG2 error
KERNEL atomics_of_different_sizes(unsigned long long *p) {
    if (B == 0) atomicAdd(p, 1ull); // BUG1
    else        atomicAdd((unsigned *)p + 1, 1u); // BUG2
}

//@ case: grid 2 block 1
//@ arg buffer 8
//@ expect racecheck race BUG1 BUG2 error
KERNEL swaps_of_different_sizes(unsigned long long *p) {
    if (B == 0) atomicCAS(p, 0ull, 1ull); // BUG1
    else        atomicExch((unsigned *)p, 1u); // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 8
//@ expect clean
KERNEL atomics_of_different_sizes_with_barrier(unsigned long long *p) {
    atomicAdd(p, 1ull);
    __syncthreads();
    atomicAdd((unsigned *)p + 1, 1u);
}

//@ case: grid 1 block 64
//@ arg buffer 8
//@ expect racecheck race BUG1 BUG2 error
KERNEL atomics_of_different_sizes_in_block(unsigned long long *p) {
    if (T < 32) atomicAdd(p, 1ull); // BUG1
    else        atomicAdd((unsigned *)p, 1u); // BUG2
}

//@ case: grid 2 block 1
//@ arg buffer 8
//@ expect clean
KERNEL atomics_side_by_side(unsigned *p) {
    atomicAdd(p + B, 1u);
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 8
//@ expect racecheck race BUG1 BUG2 warning
KERNEL volatile_against_volatile(volatile int *p, int *out) {
    if (B == 0) *p = 5; // BUG1
    else        out[0] = *p; // BUG2
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 8
//@ expect racecheck race BUG1 BUG2 error
KERNEL volatile_against_plain(int *p, int *out) {
    if (B == 0) *(volatile int *)p = 5; // BUG1
    else        out[0] = *p; // BUG2
}

//@ case: grid 4 block 64
//@ arg buffer 32
//@ arg buffer 1024 iota
//@ expect clean
KERNEL histogram_of_blocks(int *bins, const int *p) {
    __shared__ int s[8];
    if (T < 8) s[T] = 0;
    __syncthreads();
    atomicAdd_block(&s[p[B * 64 + T] % 8], 1);
    __syncthreads();
    if (T < 8) atomicAdd(&bins[T], s[T]);
}

//@ case: grid 4 block 64
//@ arg buffer 32
//@ arg buffer 1024 iota
//@ expect racecheck race BUG1 error
KERNEL histogram_of_blocks_merged_plainly(int *bins, const int *p) {
    __shared__ int s[8];
    if (T < 8) s[T] = 0;
    __syncthreads();
    atomicAdd(&s[p[B * 64 + T] % 8], 1);
    __syncthreads();
    if (T < 8) bins[T] += s[T]; // BUG1
}

//@ class: message passing
//@ case: grid 2 block 32
//@ arg buffer 128
//@ arg buffer 4
//@ arg buffer 128
//@ expect clean
KERNEL pass(int *p, int *flag, int *out) {
    if (B == 0) {
        p[T] = T;
        __syncthreads();
        if (T == 0) { __threadfence(); store_relaxed(flag, 1); }
    } else {
        if (T == 0) { while (!load_relaxed(flag)) {} __threadfence(); }
        __syncthreads();
        out[T] = p[31 - T];
    }
}

//@ case: grid 2 block 32
//@ arg buffer 128
//@ arg buffer 4
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2 error
KERNEL pass_without_fences(int *p, int *flag, int *out) {
    if (B == 0) {
        p[T] = T; // BUG1
        __syncthreads();
        if (T == 0) store_relaxed(flag, 1);
    } else {
        if (T == 0) while (!load_relaxed(flag)) {}
        __syncthreads();
        out[T] = p[31 - T]; // BUG2
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL pass_without_fence_of_writer(int *p, int *flag, int *out) {
    if (B == 0) {
        *p = 5; // BUG1
        store_relaxed(flag, 1);
    } else {
        while (!load_relaxed(flag)) {}
        __threadfence();
        *out = *p; // BUG2
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 warning
KERNEL pass_without_fence_of_reader(int *p, int *flag, int *out) {
    if (B == 0) {
        *p = 5; // BUG1
        __threadfence();
        store_relaxed(flag, 1);
    } else {
        while (!load_relaxed(flag)) {}
        *out = *p; // BUG2
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL pass_with_block_fences(int *p, int *flag, int *out) {
    if (B == 0) {
        *p = 5; // BUG1
        __threadfence_block();
        store_relaxed(flag, 1);
    } else {
        while (!load_relaxed(flag)) {}
        __threadfence_block();
        *out = *p; // BUG2
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL pass_release_acquire(int *p, int *flag, int *out) {
    if (B == 0) {
        *p = 5;
        store_release(flag, 1);
    } else {
        while (!load_acquire(flag)) {}
        *out = *p;
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
//@ expect racecheck race BUG3 BUG4 error
KERNEL pass_release_block(int *p, int *flag, int *out) {
    if (B == 0) {
        *p = 5; // BUG1
        store_release_block(flag, 1); // BUG3
    } else {
        while (!load_acquire(flag)) {} // BUG4
        *out = *p; // BUG2
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
//@ expect racecheck race BUG3 BUG4 error
KERNEL pass_acquire_block(int *p, int *flag, int *out) {
    if (B == 0) {
        *p = 5; // BUG1
        store_release(flag, 1); // BUG3
    } else {
        while (!load_acquire_block(flag)) {} // BUG4
        *out = *p; // BUG2
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL pass_flag_before_data(int *p, int *flag, int *out) {
    if (B == 0) {
        store_release(flag, 1);
        *p = 5; // BUG1
    } else {
        while (!load_acquire(flag)) {}
        *out = *p; // BUG2
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL pass_read_before_flag(int *p, int *flag, int *out) {
    if (B == 0) {
        *p = 5; // BUG1
        store_release(flag, 1);
    } else {
        *out = *p; // BUG2
        while (!load_acquire(flag)) {}
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL pass_by_exchange(int *p, int *flag, int *out) {
    if (B == 0) {
        *p = 5;
        __threadfence();
        atomicExch(flag, 1);
    } else {
        while (!atomicAdd(flag, 0)) {}
        __threadfence();
        *out = *p;
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL pass_by_volatile(int *p, volatile int *flag, int *out) {
    if (B == 0) {
        *p = 5;
        __threadfence();
        *flag = 1;
    } else {
        while (!*flag) {}
        __threadfence();
        *out = *p;
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL pass_by_volatile_without_fences(int *p, volatile int *flag, int *out) {
    if (B == 0) {
        *p = 5; // BUG1
        asm volatile("" ::: "memory");
        *flag = 1;
    } else {
        while (!*flag) {}
        asm volatile("" ::: "memory");
        *out = *p; // BUG2
    }
}

//@ case: grid 2 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG3 BUG4 error
//@ may racecheck race BUG1 BUG2
KERNEL pass_by_plain_flag(int *p, int *flag, int *out) {
    if (B == 0) {
        *p = 5; // BUG1
        __threadfence();
        store_weak(flag, 1); // BUG3
    } else {
        while (!load_weak(flag)) {} // BUG4
        __threadfence();
        *out = *p; // BUG2
    }
}

//@ case: grid 3 block 1
//@ arg buffer 4
//@ arg buffer 8
//@ arg buffer 8
//@ expect clean
KERNEL pass_through_third_block(int *p, int *flags, int *out) {
    if (B == 0) {
        *p = 5;
        store_release(&flags[0], 1);
    } else if (B == 1) {
        while (!load_acquire(&flags[0])) {}
        store_release(&flags[1], 1);
    } else {
        while (!load_acquire(&flags[1])) {}
        *out = *p;
    }
}

//@ case: grid 3 block 1
//@ arg buffer 4
//@ arg buffer 8
//@ arg buffer 8
//@ expect racecheck race BUG1 BUG2 error
KERNEL pass_through_relaxed_block(int *p, int *flags, int *out) {
    if (B == 0) {
        *p = 5; // BUG1
        store_release(&flags[0], 1);
    } else if (B == 1) {
        while (!load_relaxed(&flags[0])) {}
        store_relaxed(&flags[1], 1);
    } else {
        while (!load_acquire(&flags[1])) {}
        *out = *p; // BUG2
    }
}

//@ case: grid 4 block 1
//@ arg buffer 16
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL many_producers(int *p, int *count, int *out) {
    // Each atomicAdd belongs to the release sequences of the earlier ones.
    if (B < 3) {
        p[B] = B;
        __threadfence();
        atomicAdd(count, 1);
    } else {
        while (load_relaxed(count) != 3) {}
        __threadfence();
        *out = p[0] + p[1] + p[2];
    }
}

//@ case: grid 4 block 1
//@ arg buffer 16
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL many_producers_without_fences(int *p, int *count, int *out) {
    if (B < 3) {
        p[B] = B; // BUG1
        atomicAdd(count, 1);
    } else {
        while (load_relaxed(count) != 3) {}
        *out = p[0] + p[1] + p[2]; // BUG2
    }
}

//@ case: grid 3 block 1
//@ arg buffer 12
//@ arg buffer 8
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL consumer_waits_for_too_few(int *p, int *flags, int *out) {
    // The third block waits for the first one only. Its own relaxed flag makes the second block write afterwards.
    if (B == 0) {
        p[0] = 1;
        store_release(&flags[0], 1);
    } else if (B == 1) {
        while (!load_relaxed(&flags[1])) {}
        p[1] = 2; // BUG1
    } else {
        while (!load_acquire(&flags[0])) {}
        store_relaxed(&flags[1], 1);
        *out = p[0] + p[1]; // BUG2
    }
}

//@ case: grid 1 block 64
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL pass_between_warps(int *p, int *flag, int *out) {
    if (T == 0) {
        *p = 5;
        store_release_block(flag, 1);
    } else if (T == 32) {
        while (!load_acquire_block(flag)) {}
        *out = *p;
    }
}

//@ class: grid reduction
//@ case: grid 4 block 1
//@ arg buffer 16
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL last_block_sums(int *partial, int *count, int *out) {
    partial[B] = B;
    __threadfence();
    if (atomicAdd(count, 1) == 3) {
        __threadfence();
        *out = partial[0] + partial[1] + partial[2] + partial[3];
    }
}

//@ case: grid 4 block 1
//@ arg buffer 16
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL last_block_sums_without_fences(int *partial, int *count, int *out) {
    partial[B] = B; // BUG1
    asm volatile("" ::: "memory");
    if (atomicAdd(count, 1) == 3)
        *out = partial[0] + partial[1] + partial[2] + partial[3]; // BUG2
}

// CUDA's programming guide has this program: the partial results are volatile, and no fence follows the atomic.
//@ case: grid 4 block 1
//@ arg buffer 16
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL last_block_sums_volatile(volatile int *partial, int *count, int *out) {
    partial[B] = B;
    __threadfence();
    if (atomicAdd(count, 1) == 3)
        *out = partial[0] + partial[1] + partial[2] + partial[3];
}

// The same program without `volatile`: PTX requires a fence behind the atomic, and most programs have none.
//@ case: grid 4 block 1
//@ arg buffer 16
//@ arg buffer 4
//@ arg buffer 4
//@ may racecheck race BUG1 BUG2
KERNEL last_block_sums_half_fenced(int *partial, int *count, int *out) {
    partial[B] = B; // BUG1
    __threadfence();
    if (atomicAdd(count, 1) == 3)
        *out = partial[0] + partial[1] + partial[2] + partial[3]; // BUG2
}

//@ case: grid 4 block 64
//@ arg buffer 16
//@ arg buffer 4
//@ arg buffer 256
//@ expect clean
KERNEL last_block_of_many_threads(int *partial, int *count, int *out) {
    __shared__ int last;
    if (T == 0) {
        partial[B] = B;
        __threadfence();
        last = atomicAdd(count, 1) == 3;
        __threadfence();
    }
    __syncthreads();
    if (last) out[T] = partial[T % 4];
}

//@ case: grid 4 block 64
//@ arg buffer 1024
//@ arg buffer 4
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2 error
KERNEL last_block_without_barrier(int *partial, int *count, int *out) {
    // Only the data of thread 0 are behind its fence.
    __shared__ int last;
    partial[B * 64 + T] = T; // BUG1
    if (T == 0) {
        __threadfence();
        last = atomicAdd(count, 1) == 3;
        __threadfence();
    }
    __syncthreads();
    if (last) out[T] = partial[(B + 1) % 4 * 64 + T]; // BUG2
}

//@ case: grid 4 block 64
//@ arg buffer 1024
//@ arg buffer 4
//@ arg buffer 256
//@ expect clean
KERNEL last_block_with_barrier(int *partial, int *count, int *out) {
    __shared__ int last;
    partial[B * 64 + T] = T;
    __syncthreads();
    if (T == 0) {
        __threadfence();
        last = atomicAdd(count, 1) == 3;
        __threadfence();
    }
    __syncthreads();
    if (last) out[T] = partial[(B + 1) % 4 * 64 + T];
}

//@ class: locks
//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL spin_lock(int *lock, int *p) {
    while (atomicCAS(lock, 0, 1)) {}
    __threadfence();
    *p += 1;
    __threadfence();
    atomicExch(lock, 0);
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 error
KERNEL spin_lock_without_fences(int *lock, int *p) {
    while (atomicCAS(lock, 0, 1)) {}
    *p += 1; // BUG1
    atomicExch(lock, 0);
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 error
KERNEL spin_lock_with_block_fences(int *lock, int *p) {
    while (atomicCAS(lock, 0, 1)) {}
    __threadfence_block();
    *p += 1; // BUG1
    __threadfence_block();
    atomicExch(lock, 0);
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL spin_lock_acquire_release(int *lock, int *p) {
    while (cas_acquire(lock, 0, 1)) {}
    *p += 1;
    exchange_release(lock, 0);
}

//@ case: grid 1 block 128
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL spin_lock_in_block(int *lock, int *p) {
    if (T % 32) return;
    while (cas_acquire_block(lock, 0, 1)) {}
    *p += 1;
    exchange_release_block(lock, 0);
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG2 error
//@ may racecheck race BUG1
//@ may racecheck race BUG1 BUG3
//@ may racecheck race BUG3
KERNEL spin_lock_of_wrong_scope(int *lock, int *p) {
    while (cas_acquire_block(lock, 0, 1)) {} // BUG1
    *p += 1; // BUG2
    exchange_release_block(lock, 0); // BUG3
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL read_outside_lock(int *lock, int *p) {
    int v = *p; // BUG1
    while (cas_acquire(lock, 0, 1)) {}
    *p = v + 1; // BUG2
    exchange_release(lock, 0);
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 error
KERNEL write_behind_unlock(int *lock, int *p) {
    while (cas_acquire(lock, 0, 1)) {}
    exchange_release(lock, 0);
    *p += 1; // BUG1
}

//@ case: grid 4 block 1
//@ arg buffer 8
//@ arg buffer 4
//@ expect racecheck race BUG1 error
KERNEL two_locks_for_one_place(int *locks, int *p) {
    int *lock = &locks[B % 2];
    while (cas_acquire(lock, 0, 1)) {}
    *p += 1; // BUG1
    exchange_release(lock, 0);
}

//@ case: grid 4 block 1
//@ arg buffer 8
//@ arg buffer 8
//@ expect clean
KERNEL two_locks_for_two_places(int *locks, int *p) {
    int *lock = &locks[B % 2];
    while (cas_acquire(lock, 0, 1)) {}
    p[B % 2] += 1;
    exchange_release(lock, 0);
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL one_block_ignores_lock(int *lock, int *p) {
    if (B == 3) {
        *p = 7; // BUG1
    } else {
        while (cas_acquire(lock, 0, 1)) {}
        *p += 1; // BUG2
        exchange_release(lock, 0);
    }
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect clean
KERNEL ticket_lock(int *next, volatile int *serving, int *p) {
    int ticket = atomicAdd(next, 1);
    while (*serving != ticket) {}
    __threadfence();
    *p += 1;
    __threadfence();
    *serving = ticket + 1;
}

//@ case: grid 4 block 1
//@ arg buffer 4
//@ arg buffer 4
//@ arg buffer 4
//@ expect racecheck race BUG1 error
KERNEL ticket_lock_without_fences(int *next, volatile int *serving, int *p) {
    int ticket = atomicAdd(next, 1);
    while (*serving != ticket) {}
    asm volatile("" ::: "memory");
    *p += 1; // BUG1
    asm volatile("" ::: "memory");
    *serving = ticket + 1;
}

//@ class: grid barrier
//@ case: grid 4 block 32 cooperative
//@ arg buffer 512
//@ arg buffer 512
//@ expect clean
KERNEL grid_sync(int *p, int *out) {
    p[B * 32 + T] = B;
    cg::this_grid().sync();
    out[B * 32 + T] = p[127 - B * 32 - T];
}

//@ case: grid 4 block 32 cooperative
//@ arg buffer 512
//@ arg buffer 512
//@ expect racecheck race BUG1 BUG2 error
KERNEL grid_sync_too_early(int *p, int *out) {
    cg::this_grid().sync();
    p[B * 32 + T] = B; // BUG1
    out[B * 32 + T] = p[127 - B * 32 - T]; // BUG2
}

//@ case: grid 4 block 32 cooperative
//@ arg buffer 512
//@ arg buffer 512
//@ expect racecheck race BUG1 BUG2 error
KERNEL second_grid_sync_forgotten(int *p, int *out) {
    p[B * 32 + T] = B;
    cg::this_grid().sync();
    out[B * 32 + T] = p[127 - B * 32 - T]; // BUG1
    p[B * 32 + T] = 9; // BUG2
}

//@ case: grid 4 block 1
//@ arg buffer 16
//@ arg buffer 16
//@ arg buffer 4
//@ expect clean
KERNEL own_grid_barrier(int *p, int *out, int *count) {
    p[B] = B;
    __threadfence();
    atomicAdd(count, 1);
    while (load_relaxed(count) < 4) {}
    __threadfence();
    out[B] = p[3 - B];
}

//@ case: grid 4 block 1
//@ arg buffer 16
//@ arg buffer 16
//@ arg buffer 4
//@ expect racecheck race BUG1 BUG2 error
KERNEL own_grid_barrier_without_fences(int *p, int *out, int *count) {
    p[B] = B; // BUG1
    atomicAdd(count, 1);
    while (load_relaxed(count) < 4) {}
    out[B] = p[3 - B]; // BUG2
}

//@ class: look-back scan
//@ case: grid 6 block 1
//@ arg buffer 24 iota
//@ arg buffer 24
//@ arg buffer 24
//@ arg buffer 24
//@ expect clean
KERNEL look_back(const int *p, int *sums, int *totals, int *state) {
    int total = p[B];
    sums[B] = total;
    store_release(&state[B], 1);
    for (int i = (int)B - 1, done = 0; i >= 0 && !done; i--) {
        int s;
        while ((s = load_acquire(&state[i])) == 0) {}
        done = s == 2;
        total += done ? totals[i] : sums[i];
    }
    totals[B] = total;
    store_release(&state[B], 2);
}

//@ case: grid 6 block 1
//@ arg buffer 24 iota
//@ arg buffer 24
//@ arg buffer 24
//@ arg buffer 24
//@ expect racecheck race BUG1 BUG2 error
KERNEL look_back_without_release(const int *p, int *unused, int *totals, int *state) {
    int total = p[B];
    if (B > 0) {
        while (load_acquire(&state[B - 1]) == 0) {}
        total += totals[B - 1]; // BUG1
    }
    totals[B] = total; // BUG2
    store_relaxed(&state[B], 1);
}

//@ case: grid 6 block 1
//@ arg buffer 24 iota
//@ arg buffer 24
//@ arg buffer 24
//@ expect clean
KERNEL chained_scan(const int *p, int *totals, int *state) {
    int total = p[B];
    if (B > 0) {
        while (load_acquire(&state[B - 1]) == 0) {}
        total += totals[B - 1];
    }
    totals[B] = total;
    store_release(&state[B], 1);
}

//@ class: streams
//@ case two_streams: grid 1 block 32
//@ arg buffer 128
//@ join
//@ run add_one: grid 1 block 32 stream
//@ expect racecheck race BUG1 error
//@ case three_streams: grid 1 block 32 stream
//@ arg buffer 128
//@ join
//@ run add_one: grid 1 block 32 stream
//@ run add_one: grid 1 block 32 stream
//@ expect racecheck race BUG1 error
//@ case two_streams_other_order: grid 1 block 32 stream
//@ arg buffer 128
//@ join
//@ run add_one: grid 1 block 32
//@ expect racecheck race BUG1 error
//@ case fill_and_kernel: grid 1 block 32 stream
//@ arg buffer 128
//@ join
//@ set 0 0 128
//@ expect racecheck race BUG1 error
//@ case fill_and_kernel_joined: grid 1 block 32 stream
//@ arg buffer 128
//@ set 0 0 128
//@ join
//@ expect clean
//@ case fill_and_kernel_in_one_stream: grid 1 block 32
//@ arg buffer 128
//@ set 0 0 128
//@ expect clean
//@ case kernel_and_fill_of_other_bytes: grid 1 block 32
//@ arg buffer 256
//@ join
//@ run add_one: grid 1 block 32 stream
//@ set 0 128 128
//@ join
//@ expect clean
//@ case two_streams_joined: grid 1 block 32
//@ arg buffer 128
//@ run add_one: grid 1 block 32 stream
//@ join
//@ expect clean
//@ case one_stream: grid 1 block 32
//@ arg buffer 128
//@ run add_one: grid 1 block 32
//@ run add_one: grid 1 block 32
//@ expect clean
KERNEL add_one(int *p) {
    p[T] += 1; // BUG1
}

//@ case copies_of_source_in_use: grid 1 block 32
//@ arg buffer 128
//@ arg buffer 128
//@ join
//@ run store_to_first: grid 1 block 32 stream
//@ copy 0 0 1 0 128
//@ join
//@ expect racecheck race BUG1 error
//@ case copies_of_source_not_in_use: grid 1 block 32
//@ arg buffer 128
//@ arg buffer 128
//@ run store_to_first: grid 1 block 32 stream
//@ join
//@ copy 0 0 1 0 128
//@ expect clean
//@ case copies_of_other_source: grid 1 block 32
//@ arg buffer 128
//@ arg buffer 256 iota
//@ join
//@ run store_to_first: grid 1 block 32 stream
//@ copy 1 0 1 128 128
//@ join
//@ expect clean
KERNEL store_to_first(int *p, int *q) {
    p[T] = T; // BUG1
}

//@ case two_streams_with_atomics: grid 1 block 32
//@ arg buffer 128
//@ join
//@ run add_one_atomically: grid 1 block 32 stream
//@ expect clean
KERNEL add_one_atomically(int *p) {
    atomicAdd(&p[T], 1);
}

//@ case two_streams_read: grid 1 block 32
//@ arg buffer 128 iota
//@ join
//@ run only_read: grid 1 block 32 stream
//@ expect clean
KERNEL only_read(int *p) {
    if (p[T] == -1) p[T] = 2;
}

//@ class: between blocks
//@ case reads_before_a_write: grid 4 block 64
//@ arg buffer 1024
//@ arg buffer 1024
//@ arg i32 3
//@ expect racecheck race BUG1 BUG2 error
//@ case reads_without_a_write: grid 4 block 64
//@ arg buffer 1024
//@ arg buffer 1024
//@ arg i32 9
//@ expect clean
KERNEL one_block_writes_what_others_read(int *p, int *out, int writer) {
    out[B * 64 + T] = p[B * 64 + T]; // BUG1
    // The first warp's reads do not race.
    if (B == writer && T >= 32) p[T] = 5; // BUG2
}

//@ case retry_limit_is_not_reached: grid 2 block 64
//@ arg buffer 8 zero
//@ expect clean
KERNEL polls_with_a_limit(int *flags) {
    // A wait with a limit on its retries ends like one without: the other block runs before the limit is reached.
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        #pragma unroll 1
        for (int i = 0; atomicAdd(flags, 0) == 0; i++)
            if (i == 2000000) __trap();
        atomicExch(flags + 1, 1);
    } else {
        atomicExch(flags, 1);
        #pragma unroll 1
        for (int i = 0; i < 2000000; i++)
            if (atomicCAS(flags + 1, 1, 2) == 1) return;
        __trap();
    }
}

//@ case fences_before_barrier: grid 4 block 64
//@ arg buffer 1024
//@ arg buffer 4 zero
//@ arg i32 1
//@ expect clean
//@ case fence_after_counter_missing: grid 4 block 64
//@ arg buffer 1024
//@ arg buffer 4 zero
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2 error
KERNEL last_block_reads_all(int *data, unsigned *counter, int fences) {
    // All threads execute the fence, and after the barrier one of them increments the counter of blocks.
    __shared__ bool is_last;
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    data[index] = index; // BUG1
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicInc(counter, gridDim.x) == gridDim.x - 1;
    __syncthreads();
    if (is_last) {
        if (fences) __threadfence();
        int sum = 0;
        for (int block = 0; block < gridDim.x; block++) sum += data[block * blockDim.x + threadIdx.x]; // BUG2
        data[index] = sum;
    }
}

//@ case exit_before_counted_barrier: grid 1 block 64
//@ arg buffer 256
//@ arg i32 32
//@ expect racecheck race BUG1 BUG2 error
//@ case all_at_counted_barrier: grid 1 block 64
//@ arg buffer 256
//@ arg i32 64
//@ expect clean
KERNEL writes_before_counted_barrier(int *data, int count) {
    // With a count of 32, the barrier does not wait for the first warp, whether this warp has exited or not.
    if (threadIdx.x < 32) {
        data[threadIdx.x] = threadIdx.x; // BUG1
        if (count == 64) asm volatile("bar.sync 2, %0;" :: "r"(count) : "memory");
        return;
    }
    asm volatile("bar.sync 2, %0;" :: "r"(count) : "memory");
    data[threadIdx.x] = data[63 - threadIdx.x]; // BUG2
}
