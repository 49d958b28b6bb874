// The square of a sparse matrix in compressed rows. A warp computes one row: it adds the products in a hash table in
// shared memory, and stores the entries in the order of their columns. Each row of the result has 64 places.
// nvcc -ptx -arch=compute_75 -O3 spgemm.cu -o spgemm.ptx

constexpr int WARPS = 4, SLOTS = 128, PLACES = 64, EMPTY = -1;

__device__ void add(int *keys, float *sums, int column, float value) {
    unsigned slot = column * 2654435761u % SLOTS;
    while (true) {
        int found = atomicCAS(&keys[slot], EMPTY, column);
        if (found == EMPTY || found == column)
            break;
        slot = (slot + 1) % SLOTS;
    }
    atomicAdd(&sums[slot], value);
}

extern "C" __global__ void spgemm(const int *starts, const int *columns, const float *values, int *counts,
                                  int *to_columns, float *to_values, int rows) {
    __shared__ int tables[WARPS][SLOTS];
    __shared__ float sums[WARPS][SLOTS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.x * WARPS + warp;
    if (row >= rows)
        return;
    int *keys = tables[warp];
    for (int slot = lane; slot < SLOTS; slot += 32) {
        keys[slot] = EMPTY;
        sums[warp][slot] = 0;
    }
    __syncwarp();
    for (int k = starts[row]; k < starts[row + 1]; ++k) {
        int inner = columns[k];
        for (int j = starts[inner] + lane; j < starts[inner + 1]; j += 32)
            add(keys, sums[warp], columns[j], values[k] * values[j]);
    }
    __syncwarp();
    int count = 0;
    for (int first = 0; first < SLOTS; first += 32) {
        int key = keys[first + lane];
        count += __popc(__ballot_sync(0xffffffffu, key != EMPTY));
        if (key == EMPTY)
            continue;
        int place = 0;
        for (int slot = 0; slot < SLOTS; ++slot)
            place += keys[slot] != EMPTY && keys[slot] < key;
        to_columns[row * PLACES + place] = key;
        to_values[row * PLACES + place] = sums[warp][first + lane];
    }
    for (int place = count + lane; place < PLACES; place += 32) {
        to_columns[row * PLACES + place] = EMPTY;
        to_values[row * PLACES + place] = 0;
    }
    if (lane == 0)
        counts[row] = count;
}
