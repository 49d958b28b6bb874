// racecheck: asynchronous copies, mbarrier objects, clusters. The directives are described in tests/src/checks.rs.
// arch: compute_90
#define KERNEL extern "C" __global__ void
#define T threadIdx.x
#define INLINE __device__ __forceinline__
typedef unsigned long long Bar;

INLINE unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
INLINE void copy4(int *to, const int *from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared_address(to)), "l"(from) : "memory"); }
INLINE void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
INLINE void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
INLINE void wait_but_one() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

INLINE void init(Bar *b, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(n) : "memory"); }
INLINE Bar arrive(Bar *b) { Bar t; asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(t) : "r"(shared_address(b)) : "memory"); return t; }
INLINE void arrive_with_copies(Bar *b) { asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(shared_address(b)) : "memory"); }
INLINE bool test(Bar *b, Bar t) {
    int done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(shared_address(b)), "l"(t) : "memory");
    return done;
}
INLINE bool passed(Bar *b, int parity) {
    int done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(shared_address(b)), "r"(parity) : "memory");
    return done;
}
INLINE void arrive_expecting(Bar *b, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(shared_address(b)), "r"(bytes) : "memory"); }
INLINE void bulk_load(void *to, const void *from, int bytes, Bar *b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(b)) : "memory");
}
INLINE void bulk_store(void *to, const void *from, int bytes) { asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(to), "r"(shared_address(from)), "r"(bytes) : "memory"); }
INLINE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
INLINE void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
INLINE void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
INLINE void bulk_wait_read_but_one() { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }
INLINE void bulk_add(void *to, const void *from, int bytes) { asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" :: "l"(to), "r"(shared_address(from)), "r"(bytes) : "memory"); }
INLINE void proxy_fence_all() { asm volatile("fence.proxy.async;" ::: "memory"); }
INLINE void proxy_fence_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
INLINE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

INLINE unsigned in_block(const void *p, int rank) { unsigned a; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(shared_address(p)), "r"(rank)); return a; }
INLINE int load_remote(unsigned a) { int v; asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(a) : "memory"); return v; }
INLINE void store_remote(unsigned a, int v) { asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(a), "r"(v) : "memory"); }
INLINE void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
INLINE void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
INLINE void cluster_fence() { asm volatile("fence.acq_rel.cluster;" ::: "memory"); }
INLINE void store_async(unsigned to, int v, unsigned bar) { asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" :: "r"(to), "r"(v), "r"(bar) : "memory"); }
INLINE void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

#define ZEROS(n) __shared__ int s[n]; for (int k = T; k < n; k += blockDim.x) s[k] = 0; __syncthreads()
#define BARRIER(n) __shared__ Bar bar; if (T == 0) init(&bar, n); __syncthreads()

//@ class: asynchronous copies
//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL copy_without_wait(const int *p, int *out) {
    ZEROS(64);
    copy4(&s[T], &p[T]); // BUG1
    out[T] = s[T]; // BUG2
    wait_all();
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect clean
KERNEL copy_with_wait(const int *p, int *out) {
    ZEROS(64);
    copy4(&s[T], &p[T]);
    wait_all();
    out[T] = s[T];
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL copy_of_other_thread_without_barrier(const int *p, int *out) {
    ZEROS(64);
    copy4(&s[T], &p[T]); // BUG1
    wait_all();
    out[T] = s[63 - T]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL copy_with_barrier_without_wait(const int *p, int *out) {
    ZEROS(64);
    copy4(&s[T], &p[T]); // BUG1
    __syncthreads();
    out[T] = s[63 - T]; // BUG2
    wait_all();
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL copy_with_wait_behind_barrier(const int *p, int *out) {
    ZEROS(64);
    copy4(&s[T], &p[T]); // BUG1
    __syncthreads();
    wait_all();
    out[T] = s[63 - T]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect clean
KERNEL copy_with_wait_and_barrier(const int *p, int *out) {
    ZEROS(64);
    copy4(&s[T], &p[T]);
    wait_all();
    __syncthreads();
    out[T] = s[63 - T];
}

//@ case: grid 1 block 32
//@ arg buffer 256 iota
//@ arg buffer 128
//@ expect clean
KERNEL first_of_two_groups(const int *p, int *out) {
    ZEROS(64);
    copy4(&s[T], &p[T]);
    commit();
    copy4(&s[32 + T], &p[32 + T]);
    commit();
    wait_but_one();
    out[T] = s[T];
    wait_all();
}

//@ case: grid 1 block 32
//@ arg buffer 256 iota
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2
KERNEL second_of_two_groups(const int *p, int *out) {
    ZEROS(64);
    copy4(&s[T], &p[T]);
    commit();
    copy4(&s[32 + T], &p[32 + T]); // BUG1
    commit();
    wait_but_one();
    out[T] = s[32 + T]; // BUG2
    wait_all();
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL copy_over_data_in_use(const int *p, int *out) {
    ZEROS(64);
    out[T] = s[63 - T]; // BUG1
    copy4(&s[T], &p[T]); // BUG2
    wait_all();
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect clean
KERNEL copy_over_used_data(const int *p, int *out) {
    ZEROS(64);
    out[T] = s[63 - T];
    __syncthreads();
    copy4(&s[T], &p[T]);
    wait_all();
}

//@ case source_changed_too_early: grid 1 block 32
//@ arg buffer 128 iota
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2
//@ case source_changed_after_wait: grid 1 block 32
//@ arg buffer 128 iota
//@ arg i32 1
//@ expect clean
KERNEL source_changed(int *p, int wait) {
    ZEROS(32);
    copy4(&s[T], &p[T]); // BUG1
    if (wait) wait_all();
    p[T] = 5; // BUG2
    wait_all();
}

//@ case: grid 1 block 32
//@ arg buffer 512 iota
//@ arg buffer 512
//@ expect clean
KERNEL copy_pipeline(const int *p, int *out) {
    ZEROS(64);
    copy4(&s[T], &p[T]);
    commit();
    #pragma unroll 1
    for (int i = 0; i < 4; i++) {
        if (i < 3) copy4(&s[(i + 1) % 2 * 32 + T], &p[(i + 1) * 32 + T]);
        commit();
        wait_but_one();
        __syncthreads();
        out[i * 32 + T] = s[i % 2 * 32 + 31 - T];
        __syncthreads();
    }
}

//@ case: grid 1 block 32
//@ arg buffer 512 iota
//@ arg buffer 512
//@ expect racecheck race BUG1 BUG2
KERNEL copy_pipeline_without_second_barrier(const int *p, int *out) {
    ZEROS(64);
    copy4(&s[T], &p[T]);
    commit();
    #pragma unroll 1
    for (int i = 0; i < 4; i++) {
        if (i < 3) copy4(&s[(i + 1) % 2 * 32 + T], &p[(i + 1) * 32 + T]); // BUG1
        commit();
        wait_but_one();
        __syncthreads();
        out[i * 32 + T] = s[i % 2 * 32 + 31 - T]; // BUG2
    }
}

//@ class: mbarrier
//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL exchange_through_mbarrier(int *out) {
    ZEROS(64);
    BARRIER(64);
    s[T] = T;
    arrive(&bar);
    while (!passed(&bar, 0)) {}
    out[T] = s[63 - T];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect clean
KERNEL exchange_with_token(int *out) {
    ZEROS(64);
    BARRIER(64);
    s[T] = T;
    Bar token = arrive(&bar);
    while (!test(&bar, token)) {}
    out[T] = s[63 - T];
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL mbarrier_without_wait(int *out) {
    ZEROS(64);
    BARRIER(64);
    s[T] = T; // BUG1
    arrive(&bar);
    out[T] = s[63 - T]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL write_behind_arrival(int *out) {
    ZEROS(64);
    BARRIER(64);
    arrive(&bar);
    s[T] = T; // BUG1
    while (!passed(&bar, 0)) {}
    out[T] = s[63 - T]; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL wait_for_wrong_parity(int *out) {
    // The phase before the first one counts as complete.
    ZEROS(64);
    BARRIER(128);
    s[T] = T; // BUG1
    arrive(&bar);
    while (!passed(&bar, 1)) {}
    out[T] = s[63 - T]; // BUG2
    arrive(&bar);
}

//@ case mbarrier_two_phases: grid 1 block 64
//@ arg buffer 256
//@ arg i32 1
//@ expect clean
//@ case mbarrier_second_phase_not_awaited: grid 1 block 64
//@ arg buffer 256
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2
KERNEL mbarrier_phases(int *out, int second) {
    ZEROS(64);
    BARRIER(64);
    s[T] = T;
    arrive(&bar);
    while (!passed(&bar, 0)) {}
    out[T] = s[63 - T]; // BUG1
    arrive(&bar);
    if (second) while (!passed(&bar, 1)) {}
    s[T] = 7; // BUG2
}

//@ case: grid 1 block 64
//@ arg buffer 128
//@ expect clean
KERNEL mbarrier_producer_consumer(int *out) {
    ZEROS(32);
    BARRIER(32);
    if (T < 32) {
        s[T] = T;
        arrive(&bar);
    } else {
        while (!passed(&bar, 0)) {}
        out[T - 32] = s[63 - T];
    }
}

//@ case: grid 1 block 64
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2
KERNEL mbarrier_consumer_does_not_wait(int *out) {
    ZEROS(32);
    BARRIER(32);
    if (T < 32) {
        s[T] = T; // BUG1
        arrive(&bar);
    } else {
        out[T - 32] = s[63 - T]; // BUG2
    }
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect clean
KERNEL copies_arrive(const int *p, int *out) {
    ZEROS(64);
    BARRIER(64);
    copy4(&s[T], &p[T]);
    arrive_with_copies(&bar);
    while (!passed(&bar, 0)) {}
    out[T] = s[63 - T];
}

//@ case: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL copies_do_not_arrive(const int *p, int *out) {
    ZEROS(64);
    BARRIER(64);
    copy4(&s[T], &p[T]); // BUG1
    arrive(&bar);
    while (!passed(&bar, 0)) {}
    out[T] = s[63 - T]; // BUG2
    wait_all();
}

//@ class: bulk copies
//@ case: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ expect clean
KERNEL bulk_load_awaited(const int *p, int *out) {
    __shared__ __align__(128) int s[32];
    __shared__ Bar bar;
    if (T == 0) { init(&bar, 1); proxy_fence(); }
    __syncthreads();
    if (T == 0) {
        arrive_expecting(&bar, 128);
        bulk_load(s, p, 128, &bar);
    }
    while (!passed(&bar, 0)) {}
    out[T] = s[31 - T];
}

//@ case: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2
//@ may initcheck uninitialized BUG2
KERNEL bulk_load_without_wait(const int *p, int *out) {
    __shared__ __align__(128) int s[32];
    __shared__ Bar bar;
    if (T == 0) { init(&bar, 1); proxy_fence(); }
    __syncthreads();
    if (T == 0) {
        arrive_expecting(&bar, 128);
        bulk_load(s, p, 128, &bar); // BUG1
    }
    __syncthreads();
    out[T] = s[31 - T]; // BUG2
    while (!passed(&bar, 0)) {}
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL bulk_store_fenced(int *out) {
    __shared__ __align__(128) int s[32];
    s[T] = T;
    proxy_fence();
    __syncthreads();
    if (T == 0) {
        bulk_store(out, s, 128);
        bulk_commit();
        bulk_wait();
    }
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_store_without_proxy_fence(int *out) {
    __shared__ __align__(128) int s[32];
    s[T] = T; // BUG1
    __syncthreads();
    if (T == 0) {
        bulk_store(out, s, 128); // BUG2
        bulk_commit();
        bulk_wait();
    }
}

//@ case bulk_store_source_reused_early: grid 1 block 32
//@ arg buffer 128
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2
//@ case bulk_store_source_reused: grid 1 block 32
//@ arg buffer 128
//@ arg i32 1
//@ expect clean
KERNEL bulk_store_and_reuse(int *out, int wait) {
    __shared__ __align__(128) int s[32];
    s[T] = T;
    proxy_fence();
    __syncthreads();
    if (T == 0) {
        bulk_store(out, s, 128); // BUG1
        bulk_commit();
        if (wait) bulk_wait_read();
    }
    __syncthreads();
    s[T] = 5; // BUG2
    if (T == 0) bulk_wait();
}

//@ case: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ expect clean
KERNEL bulk_load_awaited_by_one(const int *p, int *out) {
    __shared__ __align__(128) int s[32];
    __shared__ Bar bar;
    if (T == 0) {
        init(&bar, 1);
        proxy_fence();
        arrive_expecting(&bar, 128);
        bulk_load(s, p, 128, &bar);
        while (!passed(&bar, 0)) {}
    }
    __syncthreads();
    out[T] = s[31 - T];
}

//@ case: grid 1 block 64
//@ arg buffer 128 iota
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_load_not_awaited_by_others(const int *p, int *out) {
    __shared__ __align__(128) int s[32];
    __shared__ Bar bar;
    if (T == 0) { init(&bar, 1); proxy_fence(); }
    __syncthreads();
    if (T == 0) {
        arrive_expecting(&bar, 128);
        bulk_load(s, p, 128, &bar); // BUG1
        while (!passed(&bar, 0)) {}
    }
    if (T >= 32) out[T - 32] = s[63 - T]; // BUG2
}

//@ case bulk_load_two_stages: grid 1 block 32
//@ arg buffer 256 iota
//@ arg buffer 256
//@ arg i32 1
//@ expect clean
//@ case bulk_load_second_stage_not_awaited: grid 1 block 32
//@ arg buffer 256 iota
//@ arg buffer 256
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_load_stages(const int *p, int *out, int second) {
    __shared__ __align__(128) int s[64];
    __shared__ Bar bars[2];
    if (T == 0) { init(&bars[0], 1); init(&bars[1], 1); proxy_fence(); }
    __syncthreads();
    if (T == 0) {
        arrive_expecting(&bars[0], 128);
        bulk_load(s, p, 128, &bars[0]);
        arrive_expecting(&bars[1], 128);
        bulk_load(s + 32, p + 32, 128, &bars[1]); // BUG1
    }
    while (!passed(&bars[0], 0)) {}
    out[T] = s[31 - T];
    if (second) while (!passed(&bars[1], 0)) {}
    out[32 + T] = s[63 - T]; // BUG2
}

//@ case bulk_load_over_used_data: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ arg i32 1
//@ expect clean
//@ case bulk_load_over_data_in_use: grid 1 block 64
//@ arg buffer 256 iota
//@ arg buffer 256
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_load_again(const int *p, int *out, int barrier) {
    __shared__ __align__(128) int s[32];
    __shared__ Bar bars[2];
    if (T == 0) { init(&bars[0], 1); init(&bars[1], 1); proxy_fence(); }
    __syncthreads();
    if (T == 0) {
        arrive_expecting(&bars[0], 128);
        bulk_load(s, p, 128, &bars[0]);
    }
    while (!passed(&bars[0], 0)) {}
    if (T >= 32) out[T - 32] = s[63 - T]; // BUG1
    if (barrier) __syncthreads();
    if (T == 0) {
        arrive_expecting(&bars[1], 128);
        bulk_load(s, p + 32, 128, &bars[1]); // BUG2
    }
    while (!passed(&bars[1], 0)) {}
    if (T < 32) out[32 + T] = s[31 - T];
}

//@ case bulk_load_over_fenced_data: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ arg i32 1
//@ expect clean
//@ case bulk_load_over_written_data: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_load_over_data(const int *p, int *out, int fence) {
    __shared__ __align__(128) int s[32];
    __shared__ Bar bar;
    if (T == 0) init(&bar, 1);
    s[T] = 0; // BUG1
    if (fence) proxy_fence();
    __syncthreads();
    if (T == 0) {
        arrive_expecting(&bar, 128);
        bulk_load(s, p, 128, &bar); // BUG2
    }
    while (!passed(&bar, 0)) {}
    out[T] = s[31 - T];
}

//@ case bulk_pipeline: grid 1 block 64
//@ arg buffer 1024 iota
//@ arg buffer 1024
//@ arg i32 1
//@ expect clean
//@ case bulk_pipeline_does_not_wait_for_readers: grid 1 block 64
//@ arg buffer 1024 iota
//@ arg buffer 1024
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_stages(const int *p, int *out, int wait) {
    // Thread 32 loads, and the first warp reads.
    __shared__ __align__(128) int s[2][32];
    __shared__ Bar full[2], empty[2];
    if (T == 0) {
        for (int i = 0; i < 2; i++) { init(&full[i], 1); init(&empty[i], 32); }
        proxy_fence();
    }
    __syncthreads();
    if (T == 32) {
        #pragma unroll 1
        for (int i = 0; i < 8; i++) {
            int stage = i % 2, phase = i / 2 % 2;
            if (wait) while (!passed(&empty[stage], phase ^ 1)) {}
            arrive_expecting(&full[stage], 128);
            bulk_load(s[stage], p + 32 * i, 128, &full[stage]); // BUG1
            if (!wait) while (!passed(&full[stage], phase)) {}
            if (!wait) while (!passed(&empty[stage ^ 1], i < 1 ? 1 : (i - 1) / 2 % 2)) {}
            if (!wait && i < 7) __nanosleep(1);
        }
    } else if (T < 32) {
        #pragma unroll 1
        for (int i = 0; i < 8; i++) {
            int stage = i % 2, phase = i / 2 % 2;
            while (!passed(&full[stage], phase)) {}
            if (!wait) arrive(&empty[stage]);
            out[32 * i + T] = s[stage][31 - T]; // BUG2
            if (wait) arrive(&empty[stage]);
        }
    }
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect clean
KERNEL bulk_store_fenced_by_issuer(int *out) {
    __shared__ __align__(128) int s[32];
    s[T] = T;
    __syncthreads();
    if (T == 0) {
        proxy_fence_all();
        bulk_store(out, s, 128);
        bulk_commit();
        bulk_wait();
    }
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_store_with_fence_of_other_space(int *out) {
    __shared__ __align__(128) int s[32];
    s[T] = T; // BUG1
    proxy_fence_global();
    __syncthreads();
    if (T == 0) {
        bulk_store(out, s, 128); // BUG2
        bulk_commit();
        bulk_wait();
    }
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_store_with_fence_before_write(int *out) {
    __shared__ __align__(128) int s[32];
    proxy_fence();
    s[T] = T; // BUG1
    __syncthreads();
    if (T == 0) {
        bulk_store(out, s, 128); // BUG2
        bulk_commit();
        bulk_wait();
    }
}

//@ case: grid 1 block 64
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2
//@ may initcheck uninitialized BUG2
KERNEL bulk_store_without_barrier(int *out) {
    __shared__ __align__(128) int s[32];
    if (T >= 32) { s[T - 32] = T; proxy_fence(); } // BUG1
    if (T == 0) {
        bulk_store(out, s, 128); // BUG2
        bulk_commit();
        bulk_wait();
    }
}

//@ case bulk_store_result_read: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ arg i32 1
//@ expect clean
//@ case bulk_store_result_read_early: grid 1 block 32
//@ arg buffer 128 iota
//@ arg buffer 128
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_store_and_read_result(int *p, int *out, int complete) {
    __shared__ __align__(128) int s[32];
    s[T] = T;
    proxy_fence();
    __syncthreads();
    if (T == 0) {
        bulk_store(p, s, 128); // BUG1
        bulk_commit();
        if (complete) bulk_wait();
        else          bulk_wait_read();
    }
    __syncthreads();
    out[T] = p[31 - T]; // BUG2
}

//@ case bulk_store_first_source_reused: grid 1 block 32
//@ arg buffer 256
//@ arg i32 0
//@ expect clean
//@ case bulk_store_second_source_reused: grid 1 block 32
//@ arg buffer 256
//@ arg i32 32
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_store_groups(int *out, int part) {
    __shared__ __align__(128) int s[64];
    s[T] = T;
    s[32 + T] = T;
    proxy_fence();
    __syncthreads();
    if (T == 0) {
        bulk_store(out, s, 128);
        bulk_commit();
        bulk_store(out + 32, s + 32, 128); // BUG1
        bulk_commit();
        bulk_wait_read_but_one();
    }
    __syncthreads();
    s[part + T] = 5; // BUG2
    if (T == 0) bulk_wait();
}

//@ case: grid 2 block 32
//@ arg buffer 128
//@ expect clean
KERNEL bulk_reductions(unsigned *out) {
    __shared__ __align__(128) unsigned s[32];
    s[T] = T;
    proxy_fence();
    __syncthreads();
    if (T == 0) {
        bulk_add(out, s, 128);
        bulk_commit();
        bulk_wait();
    }
}

//@ case: grid 1 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 BUG2
KERNEL bulk_reduction_without_proxy_fence(unsigned *out) {
    __shared__ __align__(128) unsigned s[32];
    s[T] = T; // BUG1
    __syncthreads();
    if (T == 0) {
        bulk_add(out, s, 128); // BUG2
        bulk_commit();
        bulk_wait();
    }
}

//@ case: grid 2 block 32
//@ arg buffer 128
//@ expect racecheck race BUG1 error
KERNEL bulk_stores_of_two_blocks(int *out) {
    __shared__ __align__(128) int s[32];
    s[T] = T + blockIdx.x;
    proxy_fence();
    __syncthreads();
    if (T == 0) {
        bulk_store(out, s, 128); // BUG1
        bulk_commit();
        bulk_wait();
    }
}

//@ class: clusters
//@ case store_async_awaited: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ arg i32 1
//@ expect clean
//@ case store_async_not_awaited: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2
KERNEL store_async_to_other_block(int *out, int wait) {
    ZEROS(32);
    __shared__ Bar bar;
    if (T == 0) { init(&bar, 1); arrive_expecting(&bar, 128); }
    cluster_arrive();
    cluster_wait();
    store_async(in_block(&s[T], 1 - blockIdx.x), T, in_block(&bar, 1 - blockIdx.x)); // BUG1
    if (wait) while (!passed(&bar, 0)) {}
    out[blockIdx.x * 32 + T] = s[31 - T]; // BUG2
    cluster_arrive();
    cluster_wait();
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect clean
KERNEL relaxed_arrival_behind_fence(int *out) {
    ZEROS(32);
    s[T] = T;
    cluster_fence();
    cluster_arrive_relaxed();
    cluster_wait();
    out[blockIdx.x * 32 + T] = load_remote(in_block(&s[31 - T], 1 - blockIdx.x));
    cluster_arrive();
    cluster_wait();
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL write_between_arrival_and_wait(int *out) {
    ZEROS(32);
    cluster_arrive();
    s[T] = T; // BUG1
    cluster_wait();
    out[blockIdx.x * 32 + T] = load_remote(in_block(&s[31 - T], 1 - blockIdx.x)); // BUG2
    cluster_arrive();
    cluster_wait();
}

//@ case: grid 2 block 64 cluster 2
//@ arg buffer 512
//@ expect clean
KERNEL work_between_arrival_and_wait(int *out) {
    __shared__ int own[64];
    ZEROS(64);
    s[T] = T;
    cluster_arrive();
    own[T] = T;
    __syncthreads();
    int v = own[63 - T];
    cluster_wait();
    out[blockIdx.x * 64 + T] = v + load_remote(in_block(&s[63 - T], 1 - blockIdx.x));
    cluster_arrive();
    cluster_wait();
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect clean
KERNEL read_of_other_block(int *out) {
    ZEROS(32);
    s[T] = T;
    cluster_arrive();
    cluster_wait();
    out[blockIdx.x * 32 + T] = load_remote(in_block(&s[31 - T], 1 - blockIdx.x));
    cluster_arrive();
    cluster_wait();
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL read_of_other_block_without_cluster_barrier(int *out) {
    ZEROS(32);
    cluster_arrive();
    cluster_wait();
    s[T] = T; // BUG1
    __syncthreads();
    out[blockIdx.x * 32 + T] = load_remote(in_block(&s[31 - T], 1 - blockIdx.x)); // BUG2
    cluster_arrive();
    cluster_wait();
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL relaxed_arrival(int *out) {
    ZEROS(32);
    cluster_arrive();
    cluster_wait();
    s[T] = T; // BUG1
    cluster_arrive_relaxed();
    cluster_wait();
    out[blockIdx.x * 32 + T] = load_remote(in_block(&s[31 - T], 1 - blockIdx.x)); // BUG2
    cluster_arrive();
    cluster_wait();
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect clean
KERNEL write_to_other_block(int *out) {
    ZEROS(32);
    cluster_arrive();
    cluster_wait();
    store_remote(in_block(&s[31 - T], 1 - blockIdx.x), T);
    cluster_arrive();
    cluster_wait();
    out[blockIdx.x * 32 + T] = s[T];
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL both_blocks_write(int *out) {
    ZEROS(32);
    cluster_arrive();
    cluster_wait();
    if (blockIdx.x == 0) s[T] = 1; // BUG1
    else store_remote(in_block(&s[T], 0), 2); // BUG2
    cluster_arrive();
    cluster_wait();
    out[blockIdx.x * 32 + T] = s[T];
}

//@ case: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ expect racecheck race BUG1 BUG2
KERNEL other_block_reads_before_barrier(int *out) {
    ZEROS(32);
    cluster_arrive();
    cluster_wait();
    s[T] = T; // BUG1
    cluster_arrive();
    out[blockIdx.x * 32 + T] = load_remote(in_block(&s[T], 1 - blockIdx.x)); // BUG2
    cluster_wait();
    cluster_arrive();
    cluster_wait();
}

//@ case second_mbarrier_wait_missing: grid 1 block 64
//@ arg buffer 256
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2 error
//@ case both_mbarrier_waits: grid 1 block 64
//@ arg buffer 256
//@ arg i32 1
//@ expect clean
KERNEL exchanges_in_turns(int *out, int waits_twice) {
    // A thread that waits late must not acquire what other threads have written for the next phase.
    __shared__ int values[64];
    __shared__ unsigned long long object;
    unsigned address = (unsigned)__cvta_generic_to_shared(&object);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(address) : "memory");
    __syncthreads();
    int sum = 0, parity = 0;
    auto arrive_and_wait = [&] {
        asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" :: "r"(address) : "memory");
        int done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(address), "r"(parity) : "memory");
        parity ^= 1;
    };
    #pragma unroll 1
    for (int turn = 0; turn < 3; turn++) {
        values[threadIdx.x] = turn + threadIdx.x; // BUG1
        arrive_and_wait();
        sum += values[63 - threadIdx.x]; // BUG2
        if (waits_twice) arrive_and_wait();
    }
    out[threadIdx.x] = sum;
}

//@ case multicast_read_before_wait: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ arg buffer 128
//@ arg i32 0
//@ expect racecheck race BUG1 BUG2
//@ case multicast_read_after_wait: grid 2 block 32 cluster 2
//@ arg buffer 256
//@ arg buffer 128
//@ arg i32 1
//@ expect clean
KERNEL multicast(int *out, const int *in, int waits) {
    // Each block waits at its own mbarrier with operations of the block's scope. The copy of the first block signals both.
    __shared__ __align__(16) int s[32];
    __shared__ Bar bar;
    if (T == 0) {
        init(&bar, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_arrive();
    cluster_wait();
    if (T == 0)
        asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], 128;" :: "r"(shared_address(&bar)) : "memory");
    if (T == 0 && blockIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 128, [%2], %3;" // BUG1
                     :: "r"(shared_address(s)), "l"(in), "r"(shared_address(&bar)), "h"((unsigned short)3) : "memory");
    int done = !waits;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(&bar)) : "memory");
    int value = s[31 - T]; // BUG2
    cluster_arrive();
    cluster_wait();
    out[blockIdx.x * 32 + T] = value;
}
