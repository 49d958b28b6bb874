// Gravity among all pairs of bodies, through tiles of positions in shared memory.
#include "common.h"

constexpr int THREADS = 64;

extern "C" __global__ void nbody_step(const float4 *positions, float4 *moved, float4 *velocities,
                                      int n, float dt) {
    __shared__ float4 tile[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    float4 me = i < n ? positions[i] : make_float4(0, 0, 0, 0);
    float ax = 0, ay = 0, az = 0;
    for (int base = 0; base < n; base += THREADS) {
        int j = base + threadIdx.x;
        tile[threadIdx.x] = j < n ? positions[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < THREADS; ++k) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float pull = tile[k].w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        __syncthreads();
    }
    if (i >= n)
        return;
    float4 v = velocities[i];
    v.x += ax * dt;
    v.y += ay * dt;
    v.z += az * dt;
    velocities[i] = v;
    moved[i] = make_float4(me.x + v.x * dt, me.y + v.y * dt, me.z + v.z * dt, me.w);
}

int main() {
    const int n = 150, steps = 2;
    const float dt = 0.01f;
    std::vector<float4> start(n), still(n, make_float4(0, 0, 0, 0));
    Random random(9);
    for (float4 &body : start)
        body = make_float4(random.unit(), random.unit(), random.unit(), random.unit() + 0.5f);
    Buffer<float4> a(start), b(n), velocities(still);
    float4 *from = a.ptr(), *to = b.ptr();
    for (int step = 0; step < steps; ++step) {
        nbody_step<<<(n + THREADS - 1) / THREADS, THREADS>>>(from, to, velocities.ptr(), n, dt);
        std::swap(from, to);
    }
    LAUNCH_OK();

    std::vector<double> p(3 * n), v(3 * n, 0.0);
    for (int i = 0; i < n; ++i) {
        p[3 * i] = start[i].x;
        p[3 * i + 1] = start[i].y;
        p[3 * i + 2] = start[i].z;
    }
    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) {
                double d[3], square = 0.01;
                for (int axis = 0; axis < 3; ++axis) {
                    d[axis] = p[3 * j + axis] - p[3 * i + axis];
                    square += d[axis] * d[axis];
                }
                double pull = start[j].w / (square * std::sqrt(square));
                for (int axis = 0; axis < 3; ++axis)
                    v[3 * i + axis] += d[axis] * pull * dt;
            }
        for (int k = 0; k < 3 * n; ++k)
            p[k] += v[k] * dt;
    }
    std::vector<float> got, want;
    for (const float4 &body : steps % 2 ? b.get() : a.get()) {
        got.push_back(body.x);
        got.push_back(body.y);
        got.push_back(body.z);
    }
    for (const float4 &velocity : velocities.get()) {
        got.push_back(velocity.x);
        got.push_back(velocity.y);
        got.push_back(velocity.z);
    }
    for (double value : p)
        want.push_back(float(value));
    for (double value : v)
        want.push_back(float(value));

    Verdict verdict("nbody");
    verdict.close("bodies", got, want, 1e-4);
    return verdict.finish();
}
