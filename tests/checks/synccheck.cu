// synccheck: warps, barriers, and waits that never end. The directives are described in tests/src/checks.rs.
#define KERNEL extern "C" __global__ void
#define LANE (threadIdx.x % 32)
#define BAR(text) asm volatile(text ";" ::: "memory")

//@ class: mask without the lane
//@ case syncwarp_mask_lacks_lanes: grid 1 block 32
//@ arg u32 65535
//@ expect synccheck not-in-mask BUG1
//@ case syncwarp_mask_full: grid 1 block 32
//@ arg u32 4294967295
//@ expect clean
KERNEL syncwarp_mask(unsigned mask) {
    __syncwarp(mask); // BUG1
}

//@ case shuffle_mask_lacks_lane: grid 1 block 32
//@ arg buffer 128
//@ arg u32 2147483647
//@ expect synccheck not-in-mask BUG1
//@ case shuffle_mask_full: grid 1 block 32
//@ arg buffer 128
//@ arg u32 4294967295
//@ expect clean
KERNEL shuffle_mask(int *out, unsigned mask) {
    int v = __shfl_sync(mask, (int)threadIdx.x, 0); // BUG1
    out[threadIdx.x] = v;
}

//@ case ballot_mask_lacks_lane: grid 1 block 64
//@ arg buffer 256
//@ arg u32 4294967294
//@ expect synccheck not-in-mask BUG1
//@ case ballot_mask_full: grid 1 block 64
//@ arg buffer 256
//@ arg u32 4294967295
//@ expect clean
KERNEL ballot_mask(unsigned *out, unsigned mask) {
    unsigned v = __ballot_sync(mask, threadIdx.x & 1); // BUG1
    out[threadIdx.x] = v;
}

//@ case match_mask_lacks_lanes: grid 1 block 32
//@ arg buffer 128
//@ arg u32 255
//@ expect synccheck not-in-mask BUG1
//@ case match_mask_full: grid 1 block 32
//@ arg buffer 128
//@ arg u32 4294967295
//@ expect clean
KERNEL match_mask(unsigned *out, unsigned mask) {
    unsigned v = __match_any_sync(mask, threadIdx.x / 4); // BUG1
    out[threadIdx.x] = v;
}

//@ case reduce_mask_lacks_lanes: grid 1 block 32
//@ arg buffer 128
//@ arg u32 4294901760
//@ expect synccheck not-in-mask BUG1
//@ case reduce_mask_full: grid 1 block 32
//@ arg buffer 128
//@ arg u32 4294967295
//@ expect clean
KERNEL reduce_mask(unsigned *out, unsigned mask) {
    unsigned v = __reduce_add_sync(mask, threadIdx.x); // BUG1
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL halves_with_own_masks(int *out) {
    int v;
    if (LANE < 16) v = __shfl_xor_sync(0x0000ffff, (int)threadIdx.x, 1);
    else           v = __shfl_xor_sync(0xffff0000, (int)threadIdx.x * 2, 3);
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect synccheck not-in-mask BUG1
KERNEL halves_with_swapped_mask(int *out) {
    int v = 0;
    if (LANE >= 16) {
        __syncwarp(0x0000ffff); // BUG1
        v = 1;
    }
    out[threadIdx.x] = v;
}

//@ class: masks differ
//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect synccheck masks-differ BUG1
KERNEL masks_overlap(unsigned *out) {
    unsigned mask = LANE < 16 ? 0xffffffff : 0xffff8000;
    unsigned v = __ballot_sync(mask, 1); // BUG1
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL masks_disjoint(unsigned *out) {
    unsigned mask = 0xffu << (LANE & ~7u);
    unsigned v = __ballot_sync(mask, threadIdx.x & 1);
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect synccheck masks-differ BUG1
KERNEL own_mask_too_wide(unsigned *out) {
    // Lanes of a group of eight give a mask with one more lane, of the next group.
    unsigned mask = LANE < 24 ? 0x1ffu << (LANE & ~7u) : 0xff000000u;
    unsigned v = __ballot_sync(mask, threadIdx.x & 1); // BUG1
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect synccheck masks-differ BUG1
KERNEL mask_of_both_halves(unsigned *out) {
    // The upper lanes name themselves only, and the lower lanes name all.
    unsigned mask = LANE < 16 ? 0xffffffffu : 0xffff0000u;
    out[threadIdx.x] = __shfl_sync(mask, threadIdx.x, LANE & 16); // BUG1
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL masks_differ_between_turns(unsigned *out) {
    unsigned v = 0;
    #pragma unroll 1
    for (int i = 0; i < 2; i++) {
        unsigned mask = i == 0 ? 0xffu << (LANE & ~7u) : 0xffffffffu;
        v += __ballot_sync(mask, threadIdx.x & 1);
    }
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL lanes_leave_behind_their_turn(unsigned *out) {
    unsigned v = 0, mask = LANE < 16 ? 0xffffu : 0xffff0000u;
    #pragma unroll 1
    for (int i = 0; i < 2; i++) {
        v += __ballot_sync(mask, threadIdx.x & 1);
        if (LANE >= 16) return;
    }
    out[threadIdx.x] = v;
}

//@ class: shuffle source
//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect synccheck absent-source BUG1
KERNEL shuffle_from_other_branch(int *out) {
    int v = 0;
    if (LANE < 16) v = __shfl_sync(0x0000ffff, (int)threadIdx.x, 20); // BUG1
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL shuffle_from_own_branch(int *out) {
    int v = 0;
    if (LANE < 16) v = __shfl_sync(0x0000ffff, (int)threadIdx.x, 12);
    out[threadIdx.x] = v;
}

//@ case shuffle_from_exited_lane: grid 1 block 32
//@ arg buffer 128
//@ arg i32 31
//@ expect synccheck absent-source BUG1
//@ case shuffle_from_live_lane: grid 1 block 32
//@ arg buffer 128
//@ arg i32 7
//@ expect clean
KERNEL shuffle_after_exit(int *out, int source) {
    if (LANE >= 20) return;
    int v = __shfl_sync(0x000fffff, (int)threadIdx.x, source); // BUG1
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 48
//@ arg buffer 192
//@ expect synccheck absent-source BUG1
KERNEL xor_in_short_warp(int *out) {
    // The second warp has 16 threads.
    int v = __shfl_xor_sync(threadIdx.x < 32 ? 0xffffffff : 0xffff, (int)threadIdx.x, 16); // BUG1
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 48
//@ arg buffer 192
//@ expect clean
KERNEL xor_within_short_warp(int *out) {
    int v = __shfl_xor_sync(threadIdx.x < 32 ? 0xffffffff : 0xffff, (int)threadIdx.x, 8);
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL shuffle_down_at_end(int *out) {
    // Lanes beyond the end of the warp give back the own value.
    out[threadIdx.x] = __shfl_down_sync(0xffffffff, (int)threadIdx.x, 8);
}

//@ case: grid 1 block 24
//@ arg buffer 96
//@ expect synccheck absent-source BUG1
KERNEL shuffle_down_in_short_block(int *out) {
    int v = __shfl_down_sync(0x00ffffff, (int)threadIdx.x, 8); // BUG1
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 24
//@ arg buffer 96
//@ expect clean
KERNEL shuffle_down_with_width(int *out) {
    int v = __shfl_down_sync(0x00ffffff, (int)threadIdx.x, 4, 8);
    out[threadIdx.x] = v;
}

//@ class: shuffle width
//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect synccheck shuffle-width BUG1 warning
KERNEL shuffle_of_width_12(int *out) {
    out[threadIdx.x] = __shfl_sync(0xffffffff, (int)threadIdx.x, 3, 12); // BUG1
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect synccheck shuffle-width BUG1 warning
KERNEL shuffle_of_width_64(int *out) {
    out[threadIdx.x] = __shfl_xor_sync(0xffffffff, (int)threadIdx.x, 1, 64); // BUG1
}

//@ case shuffle_of_width_0: grid 1 block 32
//@ arg buffer 128
//@ arg i32 0
//@ expect synccheck shuffle-width BUG1 warning
//@ case shuffle_of_width_33: grid 1 block 32
//@ arg buffer 128
//@ arg i32 33
//@ expect synccheck shuffle-width BUG1 warning
//@ case shuffle_of_negative_width: grid 1 block 32
//@ arg buffer 128
//@ arg i32 -1
//@ expect synccheck shuffle-width BUG1 warning
//@ case shuffle_of_width_1: grid 1 block 32
//@ arg buffer 128
//@ arg i32 1
//@ expect clean
//@ case shuffle_of_width_2: grid 1 block 32
//@ arg buffer 128
//@ arg i32 2
//@ expect clean
//@ case shuffle_of_width_32: grid 1 block 32
//@ arg buffer 128
//@ arg i32 32
//@ expect clean
KERNEL shuffle_of_variable_width(int *out, int width) {
    int value = __shfl_down_sync(0xffffffff, (int)threadIdx.x, 1, width); // BUG1
    out[threadIdx.x] = value + __shfl_up_sync(0xffffffff, value, 1, 16);
}

//@ case shuffle_of_a_computed_width: grid 1 block 32
//@ arg buffer 128
//@ arg i32 5
//@ expect synccheck shuffle-width BUG1 warning
KERNEL shuffle_of_width_3_and_twice_a_number(int *out, int number) {
    out[threadIdx.x] = __shfl_sync(0xffffffff, (int)threadIdx.x, 3, 3 + 2 * number); // BUG1
}

// CUB reduces in this way: warps without valid elements pass a negative index of the last lane, here -225 and -238.
//@ case shuffle_of_the_last_lane: grid 1 block 512
//@ arg buffer 2048
//@ arg i32 32
//@ expect clean
//@ case shuffle_of_a_last_lane_in_the_middle: grid 1 block 512
//@ arg buffer 2048
//@ arg i32 19
//@ expect clean
KERNEL shuffle_of_valid_elements(int *out, int count) {
    int first = threadIdx.x & ~31, value = threadIdx.x;
    int last = first + 32 > count ? count - first - 1 : 31;
    asm volatile("shfl.sync.down.b32 %0, %0, 1, %1, -1;" : "+r"(value) : "r"(last));
    out[threadIdx.x] = value;
}

//@ class: whole warps
//@ case mma_with_exited_lane: grid 1 block 32
//@ arg buffer 256
//@ arg i32 31
//@ expect synccheck part-of-warp BUG1
//@ case mma_with_whole_warp: grid 1 block 32
//@ arg buffer 256
//@ arg i32 32
//@ expect clean
KERNEL mma_in_warp(int *out, int live) {
    if (threadIdx.x >= live) return;
    int a = threadIdx.x, d0, d1;
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%2}, {%2, %2};" : "=r"(d0), "=r"(d1) : "r"(a)); // BUG1
    out[2 * threadIdx.x] = d0;
    out[2 * threadIdx.x + 1] = d1;
}

//@ class: divergent barrier
//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect synccheck divergent-barrier BUG1
KERNEL barrier_in_both_branches(int *out) {
    if (LANE < 16) {
        out[threadIdx.x] = 1;
        __syncthreads(); // BUG1
        out[threadIdx.x] = 3;
    } else {
        __syncthreads();
        out[threadIdx.x] = 2;
    }
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL barrier_behind_branches(int *out) {
    if (LANE < 16) out[threadIdx.x] = 1;
    else           out[threadIdx.x] = 2;
    __syncthreads();
    out[threadIdx.x] += 1;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ either synccheck divergent-barrier BUG1
//@ either synccheck divergent-barrier BUG2
KERNEL barrier_in_divergent_loop(int *out) {
    // Threads run the loop 1 or 2 times, and then reach the barrier behind it.
    int turns = 1 + (threadIdx.x & 1);
    #pragma unroll 1
    for (int i = 0; i < turns; i++) {
        out[threadIdx.x] += i;
        BAR("bar.sync 0"); // BUG1
    }
    if (turns == 1) BAR("bar.sync 0"); // BUG2
    out[threadIdx.x] = 5;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ arg i32 3
//@ expect clean
KERNEL barrier_in_uniform_loop(int *out, int turns) {
    #pragma unroll 1
    for (int i = 0; i < turns; i++) {
        out[threadIdx.x] += i;
        __syncthreads();
    }
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL unaligned_barrier_in_both_branches(int *out) {
    if (LANE < 16) {
        BAR("barrier.sync 1");
        out[threadIdx.x] = 1;
    } else {
        BAR("barrier.sync 1");
        out[threadIdx.x] = 2;
    }
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect synccheck divergent-barrier BUG1
KERNEL aligned_and_unaligned(int *out) {
    if (LANE < 16) {
        BAR("bar.sync 1"); // BUG1
        out[threadIdx.x] = 1;
    } else {
        BAR("barrier.sync 1");
        out[threadIdx.x] = 2;
    }
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL warps_in_different_branches(int *out) {
    // PTX names barriers by number: whole warps may meet at different instructions.
    if (threadIdx.x < 32) {
        BAR("bar.sync 1, 64");
        out[threadIdx.x] = 1;
    } else {
        BAR("bar.sync 1, 64");
        out[threadIdx.x] = 2;
    }
}

//@ class: early exit
//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect synccheck left-before-barrier BUG1 info
KERNEL exit_before_barrier(int *out) {
    if (threadIdx.x >= 20) return;
    out[threadIdx.x] = 1;
    __syncthreads(); // BUG1
    out[threadIdx.x] = 2;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ arg i32 40
//@ expect synccheck skipped-barrier BUG1
//@ case no_barrier_skipped: grid 1 block 64
//@ arg buffer 256
//@ arg i32 64
//@ expect clean
KERNEL barrier_skipped(int *out, int limit) {
    // The threads above the limit do not return, they go on after the condition.
    if (threadIdx.x < limit) {
        out[threadIdx.x] = 1;
        __syncthreads(); // BUG1
    }
    out[threadIdx.x] += 2;
}

//@ case: grid 1 block 96
//@ arg buffer 384
//@ arg i32 32
//@ expect synccheck skipped-barrier BUG1
//@ case no_barrier_skipped_by_warps: grid 1 block 96
//@ arg buffer 384
//@ arg i32 96
//@ expect clean
KERNEL barrier_skipped_by_warps(int *out, int limit) {
    if (threadIdx.x < limit) {
        out[threadIdx.x] = 1;
        __syncthreads(); // BUG1
    }
    out[threadIdx.x] += 2;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ arg i32 100
//@ expect synccheck skipped-barrier BUG1
//@ case loop_with_whole_blocks: grid 1 block 64
//@ arg buffer 256
//@ arg i32 128
//@ expect clean
KERNEL barrier_in_last_turn(int *out, int n) {
    // In the last turn, some threads have no element.
    #pragma unroll 1
    for (int turn = 0; turn < 2; turn++)
        if (turn * 64 + threadIdx.x < n) {
            out[threadIdx.x] += turn;
            __syncthreads(); // BUG1
        }
    if (threadIdx.x == 0) out[0] = 7;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ arg i32 40
//@ expect synccheck skipped-barrier BUG1
//@ case no_unaligned_barrier_skipped: grid 1 block 64
//@ arg buffer 256
//@ arg i32 64
//@ expect clean
KERNEL unaligned_barrier_skipped(int *out, int limit) {
    if (threadIdx.x < limit) {
        out[threadIdx.x] = 1;
        BAR("barrier.sync 0"); // BUG1
    }
    out[threadIdx.x] += 2;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ arg i32 20
//@ expect synccheck left-before-barrier BUG1 info
KERNEL exit_in_loop(int *out, int limit) {
    // An early exit before a barrier that is also under a uniform condition.
    #pragma unroll 1
    for (int turn = 0; turn < 3; turn++) {
        if (turn == 2 && threadIdx.x >= limit) return;
        out[threadIdx.x] += turn;
        if (limit < 32) __syncthreads(); // BUG1
        out[threadIdx.x] += turn;
    }
    out[threadIdx.x] += 2;
}

//@ case unaligned_barrier_left: grid 1 block 64
//@ arg buffer 256
//@ arg i32 40
//@ expect synccheck left-before-barrier BUG1 info
//@ case no_unaligned_barrier_left: grid 1 block 64
//@ arg buffer 256
//@ arg i32 64
//@ expect clean
//@ case unaligned_barrier_left_by_warp: grid 1 block 64
//@ arg buffer 256
//@ arg i32 32
//@ expect clean
KERNEL exit_before_unaligned_barrier(int *out, int limit) {
    if (threadIdx.x >= limit) return;
    out[threadIdx.x] = 1;
    BAR("barrier.sync 0"); // BUG1
    out[threadIdx.x] = 2;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect synccheck left-before-barrier BUG1 info
KERNEL exit_before_counted_barrier_of_block(int *out) {
    if (threadIdx.x >= 40) return;
    out[threadIdx.x] = 1;
    BAR("barrier.sync 1, 64"); // BUG1
    out[threadIdx.x] = 2;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL exit_before_barrier_of_one_warp(int *out) {
    // The barrier does not wait for all threads of the block.
    if (threadIdx.x >= 20 && threadIdx.x < 32) return;
    out[threadIdx.x] = 1;
    if (threadIdx.x < 32) BAR("barrier.sync 1, 32");
    out[threadIdx.x] = 2;
}

//@ case: grid 1 block 96
//@ arg buffer 384
//@ expect clean
KERNEL whole_warp_exits(int *out) {
    if (threadIdx.x >= 64) return;
    out[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = 2;
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL exit_behind_barrier(int *out) {
    __syncthreads();
    if (threadIdx.x >= 20) return;
    out[threadIdx.x] = 2;
}

//@ case: grid 1 block 50
//@ arg buffer 200
//@ expect clean
KERNEL short_block(int *out) {
    out[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = 2;
}

//@ class: barrier arguments
//@ case barrier_17: grid 1 block 32
//@ arg i32 17
//@ expect synccheck barrier-number BUG1
//@ case barrier_16: grid 1 block 32
//@ arg i32 16
//@ expect synccheck barrier-number BUG1
//@ case barrier_15: grid 1 block 32
//@ arg i32 15
//@ expect clean
KERNEL barrier_number(int number) {
    asm volatile("barrier.sync %0;" :: "r"(number) : "memory"); // BUG1
}

//@ case count_40: grid 1 block 64
//@ arg i32 40
//@ expect synccheck barrier-count BUG1
//@ case count_64: grid 1 block 64
//@ arg i32 64
//@ expect clean
KERNEL barrier_count(int count) {
    asm volatile("barrier.sync 1, %0;" :: "r"(count) : "memory"); // BUG1
}

//@ case arrive_count_96_of_64: grid 1 block 64
//@ arg i32 96
//@ expect synccheck barrier-count BUG1
//@ case arrive_count_64_of_64: grid 1 block 64
//@ arg i32 64
//@ expect clean
KERNEL arrive_count(int count) {
    asm volatile("barrier.arrive 3, %0;" :: "r"(count) : "memory"); // BUG1
}

//@ case: grid 1 block 96
//@ expect synccheck counts-differ BUG1
KERNEL counts_differ() {
    int count = threadIdx.x < 32 ? 64 : 96;
    asm volatile("barrier.sync 1, %0;" :: "r"(count) : "memory"); // BUG1
}

//@ case: grid 1 block 96
//@ expect clean
KERNEL counts_differ_between_barriers() {
    if (threadIdx.x < 64) BAR("bar.sync 1, 64");
    BAR("bar.sync 2, 96");
}

//@ case: grid 1 block 128
//@ arg buffer 512
//@ expect clean
KERNEL named_barrier_per_half(int *out) {
    if (threadIdx.x < 64) BAR("bar.sync 1, 64");
    else                  BAR("bar.sync 2, 64");
    out[threadIdx.x] = 1;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ either synccheck mixed-reduction BUG1
//@ either synccheck mixed-reduction BUG2
KERNEL reduction_meets_barrier(int *out) {
    if (threadIdx.x < 32) {
        BAR("bar.sync 0"); // BUG1
        out[threadIdx.x] = 1;
    } else {
        out[threadIdx.x] = __syncthreads_count(threadIdx.x & 1); // BUG2
    }
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL reduction_of_all(int *out) {
    out[threadIdx.x] = __syncthreads_count(threadIdx.x & 1) + __syncthreads_or(threadIdx.x == 3);
}

//@ class: deadlock
//@ case: grid 1 block 64
//@ fault Deadlock
//@ expect synccheck deadlock BUG1
KERNEL count_is_never_reached() {
    if (threadIdx.x < 32) BAR("bar.sync 1, 64"); // BUG1
}

//@ case: grid 1 block 64
//@ expect clean
KERNEL count_is_reached() {
    if (threadIdx.x < 32) BAR("bar.sync 1, 64");
    else                  BAR("bar.arrive 1, 64");
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ fault Deadlock
//@ either synccheck deadlock BUG1
//@ either synccheck deadlock BUG2
KERNEL barriers_in_opposite_order(int *out) {
    if (threadIdx.x < 32) {
        BAR("bar.sync 1, 64"); // BUG1
        out[threadIdx.x] = 1;
        BAR("bar.sync 2, 64");
    } else {
        BAR("bar.sync 2, 64"); // BUG2
        out[threadIdx.x] = 2;
        BAR("bar.sync 1, 64");
    }
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL barriers_in_equal_order(int *out) {
    if (threadIdx.x < 32) {
        BAR("bar.sync 1, 64");
        out[threadIdx.x] = 1;
        BAR("bar.sync 2, 64");
    } else {
        BAR("bar.sync 1, 64");
        out[threadIdx.x] = 2;
        BAR("bar.sync 2, 64");
    }
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ fault Deadlock
//@ either synccheck deadlock BUG1
//@ either synccheck deadlock BUG2
KERNEL lanes_wait_at_different_operations(int *out) {
    int v;
    if (LANE < 16) {
        __syncwarp(); // BUG1
        v = 1;
    } else {
        v = __shfl_sync(0xffffffff, (int)threadIdx.x, 17); // BUG2
    }
    out[threadIdx.x] = v;
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ fault Deadlock
//@ either synccheck deadlock BUG1
//@ either synccheck deadlock BUG2
KERNEL lane_and_barrier(int *out) {
    // Lane 0 waits for its warp, which waits for lane 0 at the barrier.
    if (threadIdx.x == 0) {
        __syncwarp(); // BUG1
        out[0] = 1;
    }
    BAR("barrier.sync 0"); // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ fault Deadlock
//@ expect synccheck deadlock BUG1
KERNEL producer_forgets_last_arrival(int *out) {
    if (threadIdx.x < 32) {
        for (int i = 0; i < 3; i++) BAR("bar.arrive 1, 64");
    } else {
        #pragma unroll 1
        for (int i = 0; i < 4; i++) {
            BAR("bar.sync 1, 64"); // BUG1
            out[threadIdx.x] = i;
        }
    }
}

//@ case: grid 1 block 96
//@ arg buffer 384
//@ arg i32 32
//@ expect synccheck skipped-barrier BUG1
//@ case no_barrier_skipped_by_equal_warps: grid 1 block 96
//@ arg buffer 384
//@ arg i32 96
//@ expect clean
KERNEL barrier_skipped_by_vote(int *out, int limit) {
    // All lanes of a warp have the same result of the vote, so no warp diverges.
    if (__any_sync(0xffffffffu, threadIdx.x < limit)) {
        out[threadIdx.x] = 1;
        __syncthreads(); // BUG1
    }
    out[threadIdx.x] += 2;
}

//@ case: grid 2 block 64
//@ arg buffer 512
//@ arg buffer 4 zero
//@ arg i32 40
//@ expect synccheck skipped-barrier BUG1
KERNEL barrier_skipped_after_exit_of_block(int *out, const int *first, int limit) {
    // A whole block exits, because of a value that the analysis cannot know to be equal in the block.
    out[blockIdx.x * 64 + threadIdx.x] = 0;
    if (__all_sync(0xffffffffu, blockIdx.x < *first)) return;
    if (threadIdx.x < limit) {
        out[blockIdx.x * 64 + threadIdx.x] = 1;
        __syncthreads(); // BUG1
    }
    out[blockIdx.x * 64 + threadIdx.x] += 2;
}
