// Sobel's edge detection: the magnitude of the gradient of a grey image. The border of the result is zero.
kernel void sobel(global const uchar *in, global uchar *out, int width, int height) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    int i = y * width + x;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
        out[i] = 0;
        return;
    }
    global const uchar *above = in + i - width, *here = in + i, *below = in + i + width;
    int gx = above[1] - above[-1] + 2 * (here[1] - here[-1]) + below[1] - below[-1];
    int gy = below[-1] + 2 * below[0] + below[1] - above[-1] - 2 * above[0] - above[1];
    float magnitude = sqrt((float)(gx * gx + gy * gy));
    out[i] = (uchar)fmin(magnitude, 255.0f);
}
