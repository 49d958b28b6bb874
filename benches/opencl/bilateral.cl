// A bilateral filter with 7 x 7 weights. A neighbour outside the image has the value of the nearest point of the image.
#define RADIUS 3
#define EDGE (2 * RADIUS + 1)

kernel void bilateral(global const float *in, global float *out, global const float *weights, int width, int height,
                      float steepness) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    float here = in[y * width + x], sum = 0, scale = 0;
    for (int dy = -RADIUS; dy <= RADIUS; ++dy)
        for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
            int nx = clamp(x + dx, 0, width - 1), ny = clamp(y + dy, 0, height - 1);
            float value = in[ny * width + nx], away = value - here;
            float weight = weights[(dy + RADIUS) * EDGE + dx + RADIUS] * exp(-steepness * away * away);
            sum += weight * value;
            scale += weight;
        }
    out[y * width + x] = sum / scale;
}
