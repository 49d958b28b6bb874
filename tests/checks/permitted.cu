// memcheck and initcheck: wrong accesses by instructions whose earlier accesses were permitted. Generated code then
// knows a range of permitted addresses. The directives are described in tests/src/checks.rs.
#define KERNEL extern "C" __global__ void

//@ class: late wrong access
//@ case gather_leaves_array: grid 2 block 64
//@ arg buffer 4096 iota
//@ arg buffer 4096 iota
//@ arg buffer 512
//@ arg i32 1024
//@ expect memcheck out-of-bounds BUG1
//@ case gather_stays_in_array: grid 2 block 64
//@ arg buffer 4096 iota
//@ arg buffer 4096 iota
//@ arg buffer 512
//@ arg i32 1023
//@ expect clean
KERNEL gather(const int *p, const int *index, int *out, int last) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (int i = 0; i < 50; ++i) {
        int at = index[(t * 37 + i * 101) % 1000];
        if (i == 49 && t == 77) at = last;
        sum += p[at]; // BUG1
    }
    out[t] = sum;
}

//@ case gather_before_array: grid 1 block 96
//@ arg buffer 4096 iota
//@ arg buffer 4096 iota
//@ arg buffer 512
//@ arg i32 -1
//@ expect memcheck out-of-bounds BUG1
//@ case gather_at_start_of_array: grid 1 block 96
//@ arg buffer 4096 iota
//@ arg buffer 4096 iota
//@ arg buffer 512
//@ arg i32 0
//@ expect clean
KERNEL gather_some(const int *p, const int *index, int *out, int last) {
    int t = threadIdx.x, sum = 0;
    for (int i = t % 7; i < 50; ++i) {
        int at = index[(t * 37 + i * 101) % 1000];
        if (i == 49 && t == 40) at = last;
        sum += p[at]; // BUG1
    }
    out[t] = sum;
}

//@ case scatter_leaves_array: grid 1 block 64
//@ arg buffer 4096
//@ arg buffer 4096 iota
//@ arg i32 1024
//@ expect memcheck out-of-bounds BUG1
//@ case scatter_stays_in_array: grid 1 block 64
//@ arg buffer 4096
//@ arg buffer 4096 iota
//@ arg i32 1023
//@ expect clean
KERNEL scatter(int *p, const int *index, int last) {
    int t = threadIdx.x;
    for (int i = 0; i < 15; ++i) {
        int at = index[t * 15 + (i * 4) % 15];
        if (i == 14 && t == 63) at = last;
        p[at] = i; // BUG1
    }
}

//@ case gather_becomes_misaligned: grid 1 block 64
//@ arg buffer 4096 iota
//@ arg buffer 4096 iota
//@ arg buffer 256
//@ arg i32 2
//@ expect memcheck misaligned BUG1
//@ case gather_stays_aligned: grid 1 block 64
//@ arg buffer 4096 iota
//@ arg buffer 4096 iota
//@ arg buffer 256
//@ arg i32 4
//@ expect clean
KERNEL gather_bytes(const char *p, const int *index, int *out, int more) {
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 50; ++i) {
        int at = index[(t * 9 + i * 25) % 1000] * 4;
        if (i == 49 && t == 13) at += more;
        sum += *(const int *)(p + at); // BUG1
    }
    out[t] = sum;
}

//@ case some_threads_leave_array: grid 1 block 64
//@ arg buffer 4096
//@ arg i32 17
//@ expect memcheck out-of-bounds BUG1
//@ case some_threads_stay_in_array: grid 1 block 64
//@ arg buffer 4096
//@ arg i32 16
//@ expect clean
KERNEL rows(int *p, int count) {
    int t = threadIdx.x;
    for (int i = 0; i < count; ++i)
        if (t % 5 != 0) p[i * 64 + t] += i; // BUG1
}

//@ case index_of_local_array_too_large: grid 1 block 64
//@ arg buffer 2048 iota
//@ arg buffer 256
//@ arg i32 1000000
//@ expect memcheck out-of-bounds BUG1
//@ case index_of_local_array_in_range: grid 1 block 64
//@ arg buffer 2048 iota
//@ arg buffer 256
//@ arg i32 7
//@ expect clean
KERNEL local_array(const int *p, int *out, int last) {
    int values[8];
    for (int i = 0; i < 8; ++i) values[i] = p[threadIdx.x * 8 + i];
    int sum = 0;
    for (int i = 0; i < 20; ++i) {
        int at = p[(i * 3) & 7] & 7;
        if (i == 19 && threadIdx.x == 21) at = last;
        sum += values[at]; // BUG1
    }
    out[threadIdx.x] = sum;
}

//@ case counter_leaves_array: grid 1 block 64
//@ arg buffer 128
//@ arg i32 32
//@ expect memcheck out-of-bounds BUG1
//@ case counter_stays_in_array: grid 1 block 64
//@ arg buffer 128
//@ arg i32 31
//@ expect clean
KERNEL counters(int *p, int last) {
    for (int i = 0; i < 20; ++i) {
        int at = (threadIdx.x * 7 + i) & 31;
        if (i == 19 && threadIdx.x == 3) at = last;
        atomicAdd(p + at, 1); // BUG1
    }
}

//@ case index_of_shared_array_too_large: grid 2 block 64
//@ arg buffer 512 iota
//@ arg i32 64
//@ expect memcheck out-of-bounds BUG1
//@ case index_of_shared_array_in_range: grid 2 block 64
//@ arg buffer 512 iota
//@ arg i32 63
//@ expect clean
KERNEL shared_array(int *p, int last) {
    __shared__ int values[64], others[64];
    int t = threadIdx.x, g = blockIdx.x * 64 + t, sum = 0;
    values[t] = p[g];
    others[t] = t;
    __syncthreads();
    for (int i = 0; i < 20; ++i) {
        int at = (t * 13 + i * 7) & 63;
        if (i == 19 && g == 100) at = last;
        sum += values[at]; // BUG1
        sum ^= others[63 - at % 64];
    }
    p[g] = sum;
}

//@ class: late read of unwritten memory
//@ case gather_reads_unwritten_word: grid 1 block 64
//@ arg buffer 4096 uninitialised
//@ arg buffer 4096 iota
//@ arg buffer 256
//@ arg i32 1000
//@ set 0 0 4000
//@ expect initcheck uninitialized BUG1
//@ case gather_reads_written_words: grid 1 block 64
//@ arg buffer 4096 uninitialised
//@ arg buffer 4096 iota
//@ arg buffer 256
//@ arg i32 999
//@ set 0 0 4000
//@ expect clean
KERNEL gather_written(const int *p, const int *index, int *out, int last) {
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 50; ++i) {
        int at = index[(t * 37 + i * 101) % 1000];
        if (i == 49 && t == 50) at = last;
        sum += p[at]; // BUG1
    }
    out[t] = sum;
}

//@ case one_thread_reads_unwritten_byte: grid 1 block 1
//@ arg buffer 64 uninitialised
//@ arg buffer 4
//@ arg i32 41
//@ set 0 0 41
//@ expect initcheck uninitialized BUG1
//@ case one_thread_reads_written_bytes: grid 1 block 1
//@ arg buffer 64 uninitialised
//@ arg buffer 4
//@ arg i32 40
//@ set 0 0 41
//@ expect clean
KERNEL bytes_of_one(const unsigned char *p, int *out, int last) {
    int sum = 0;
    for (int i = 0; i <= last; ++i) sum += p[(i * 5) % (last + 1)]; // BUG1
    out[0] = sum;
}

//@ case half_of_the_threads_write: grid 1 block 64
//@ arg buffer 1024 uninitialised
//@ arg buffer 1024
//@ arg i32 0
//@ expect initcheck uninitialized BUG1
//@ case both_halves_of_the_threads_write: grid 1 block 64
//@ arg buffer 1024 uninitialised
//@ arg buffer 1024
//@ arg i32 1
//@ expect clean
KERNEL halves(int *p, int *out, int both) {
    int t = threadIdx.x;
    for (int i = 0; i < 4; ++i)
        if (t & 1) p[i * 64 + t] = i;
    if (both)
        for (int i = 0; i < 4; ++i)
            if (!(t & 1)) p[i * 64 + t] = i;
    __syncthreads();
    for (int i = 0; i < 4; ++i) out[i * 64 + t] = p[i * 64 + (t ^ 1)]; // BUG1
}
