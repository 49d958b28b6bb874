// Maxwell's equations in two dimensions (FDTD, TM mode): half a time step for each kernel.
kernel void fdtd_magnetic(global const float *ez, global float *hx, global float *hy, int width, int height) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width - 1 || y >= height - 1)
        return;
    int i = y * width + x;
    hx[i] -= 0.5f * (ez[i + width] - ez[i]);
    hy[i] += 0.5f * (ez[i + 1] - ez[i]);
}

kernel void fdtd_electric(global float *ez, global const float *hx, global const float *hy, int width, int height) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1)
        return;
    int i = y * width + x;
    ez[i] += 0.5f * (hy[i] - hy[i - 1] - hx[i] + hx[i - width]);
}
