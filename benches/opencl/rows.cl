// Softmax and layer normalisation. A work-group computes each row, and computes sums and maxima with trees in local
// memory.
#define THREADS 256

static float sum_of_group(float value, local float *part) {
    int t = get_local_id(0);
    part[t] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int active = THREADS / 2; active > 0; active /= 2) {
        if (t < active)
            part[t] += part[t + active];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    value = part[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}

static float maximum_of_group(float value, local float *part) {
    int t = get_local_id(0);
    part[t] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int active = THREADS / 2; active > 0; active /= 2) {
        if (t < active)
            part[t] = fmax(part[t], part[t + active]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    value = part[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}

kernel void softmax(global const float *in, global float *out, int columns) {
    local float part[THREADS];
    global const float *row = in + get_group_id(0) * columns;
    global float *to = out + get_group_id(0) * columns;
    float most = -INFINITY;
    for (int i = get_local_id(0); i < columns; i += THREADS)
        most = fmax(most, row[i]);
    most = maximum_of_group(most, part);
    float sum = 0;
    for (int i = get_local_id(0); i < columns; i += THREADS)
        sum += exp(row[i] - most);
    float scale = 1.0f / sum_of_group(sum, part);
    for (int i = get_local_id(0); i < columns; i += THREADS)
        to[i] = exp(row[i] - most) * scale;
}

kernel void layer_norm(global const float *in, global const float *gain, global const float *bias, global float *out,
                       int columns) {
    local float part[THREADS];
    global const float *row = in + get_group_id(0) * columns;
    global float *to = out + get_group_id(0) * columns;
    float sum = 0;
    for (int i = get_local_id(0); i < columns; i += THREADS)
        sum += row[i];
    float mean = sum_of_group(sum, part) / columns;
    float squares = 0;
    for (int i = get_local_id(0); i < columns; i += THREADS)
        squares += (row[i] - mean) * (row[i] - mean);
    float scale = rsqrt(sum_of_group(squares, part) / columns + 1e-5f);
    for (int i = get_local_id(0); i < columns; i += THREADS)
        to[i] = (row[i] - mean) * scale * gain[i] + bias[i];
}
