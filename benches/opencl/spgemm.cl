// The square of a sparse matrix in compressed rows. A group of 32 work-items computes one row with a hash table in
// local memory. OpenCL 1.2 has no atomic additions of floats, so the sums are integers; the values are integers too.
#define SLOTS 128
#define PLACES 64
#define EMPTY (-1)

static void add(local int *keys, local int *sums, int column, int value) {
    uint slot = column * 2654435761u % SLOTS;
    while (true) {
        int found = atomic_cmpxchg(&keys[slot], EMPTY, column);
        if (found == EMPTY || found == column)
            break;
        slot = (slot + 1) % SLOTS;
    }
    atomic_add(&sums[slot], value);
}

kernel void spgemm(global const int *starts, global const int *columns, global const float *values, global int *counts,
                   global int *to_columns, global float *to_values, int rows) {
    local int all_keys[4][SLOTS], all_sums[4][SLOTS];
    int lane = get_local_id(0) % 32, warp = get_local_id(0) / 32, row = get_group_id(0) * 4 + warp;
    local int *keys = all_keys[warp], *sums = all_sums[warp];
    bool used = row < rows;
    for (int slot = lane; slot < SLOTS; slot += 32) {
        keys[slot] = EMPTY;
        sums[slot] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (used)
        for (int k = starts[row]; k < starts[row + 1]; ++k) {
            int inner = columns[k];
            for (int j = starts[inner] + lane; j < starts[inner + 1]; j += 32)
                add(keys, sums, columns[j], (int)(values[k] * values[j]));
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!used)
        return;
    int count = 0;
    for (int slot = 0; slot < SLOTS; ++slot)
        count += keys[slot] != EMPTY;
    for (int first = 0; first < SLOTS; first += 32) {
        int key = keys[first + lane];
        if (key == EMPTY)
            continue;
        int place = 0;
        for (int slot = 0; slot < SLOTS; ++slot)
            place += keys[slot] != EMPTY && keys[slot] < key;
        to_columns[row * PLACES + place] = key;
        to_values[row * PLACES + place] = sums[first + lane];
    }
    for (int place = count + lane; place < PLACES; place += 32) {
        to_columns[row * PLACES + place] = EMPTY;
        to_values[row * PLACES + place] = 0;
    }
    if (lane == 0)
        counts[row] = count;
}
