// A merge sort. Each block sorts 512 keys in shared memory; each later pass merges pairs of sorted runs. Each thread
// finds the place of its key with a binary search in the other run.
// nvcc -ptx -arch=compute_75 -O3 merge_sort.cu -o merge_sort.ptx

constexpr int KEYS = 512;

// Returns the number of keys in the sorted array that are less than `key`, or not greater than `key` if `equal`.
__device__ int before(const unsigned *keys, int count, unsigned key, bool equal) {
    int low = 0;
    while (count > 0) {
        int half = count / 2;
        unsigned other = keys[low + half];
        if (other < key || (equal && other == key)) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

// Returns the place, after merging, of the key with index `i`. Runs have `run` keys; the last run may be shorter.
__device__ int merged_place(const unsigned *keys, int i, int run, int n) {
    int own = i / run * run, first = own / (2 * run) * (2 * run);
    bool right = own != first;
    int other = right ? first : first + run, end = min(other + run, n);
    int rank = other < end ? before(keys + other, end - other, keys[i], right) : 0;
    return first + (i - own) + rank;
}

extern "C" __global__ void merge_sort_blocks(const unsigned *in, unsigned *out, int n) {
    __shared__ unsigned two[2][KEYS];
    int start = blockIdx.x * KEYS, count = min(KEYS, n - start);
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        two[0][i] = in[start + i];
    __syncthreads();
    int from = 0;
    for (int run = 1; run < KEYS; run *= 2) {
        for (int i = threadIdx.x; i < count; i += blockDim.x)
            two[1 - from][merged_place(two[from], i, run, count)] = two[from][i];
        from = 1 - from;
        __syncthreads();
    }
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        out[start + i] = two[from][i];
}

extern "C" __global__ void merge_sort_pass(const unsigned *in, unsigned *out, int run, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[merged_place(in, i, run, n)] = in[i];
}
