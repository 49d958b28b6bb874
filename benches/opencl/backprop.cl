// A layer of a neural network with 16 hidden units: the sums of the units, the units, and the weights after a step.
#define HIDDEN 16
#define ROWS 16

kernel void layer_forward(global const float *inputs, global const float *weights, global float *sums, int n) {
    local float in[ROWS], products[ROWS][HIDDEN];
    int j = get_local_id(0), row = get_local_id(1), i = get_group_id(0) * ROWS + row;
    if (j == 0)
        in[row] = i < n ? inputs[i] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    products[row][j] = i < n ? weights[i * HIDDEN + j] * in[row] : 0;
    for (int stride = 1; stride < ROWS; stride *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (row % (2 * stride) == 0)
            products[row][j] += products[row + stride][j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (row == 0)
        sums[get_group_id(0) * HIDDEN + j] = products[0][j];
}

kernel void layer_hidden(global const float *sums, global float *hidden, int blocks) {
    local float parts[ROWS][HIDDEN];
    int j = get_local_id(0), row = get_local_id(1);
    float sum = 0;
    for (int block = row; block < blocks; block += ROWS)
        sum += sums[block * HIDDEN + j];
    parts[row][j] = sum;
    for (int stride = ROWS / 2; stride > 0; stride /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (row < stride)
            parts[row][j] += parts[row + stride][j];
    }
    if (row == 0)
        hidden[j] = 1 / (1 + exp(-parts[0][j]));
}

kernel void layer_adjust(global const float *inputs, global const float *weights, global const float *before,
                         global const float *targets, global const float *hidden, global float *to, int n, float rate,
                         float momentum) {
    int j = get_local_id(0), i = get_group_id(0) * ROWS + get_local_id(1);
    if (i >= n)
        return;
    float delta = hidden[j] * (1 - hidden[j]) * (targets[j] - hidden[j]);
    to[i * HIDDEN + j] = weights[i * HIDDEN + j] + rate * delta * inputs[i] + momentum * before[i * HIDDEN + j];
}
