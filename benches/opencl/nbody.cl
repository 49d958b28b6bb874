// Gravity between all pairs of bodies, with tiles of positions in local memory.
#define THREADS 64

kernel void nbody_step(global const float4 *positions, global float4 *moved, global float4 *velocities, int n, float dt) {
    local float4 tile[THREADS];
    int t = get_local_id(0), i = get_group_id(0) * THREADS + t;
    float4 me = i < n ? positions[i] : (float4)(0);
    float ax = 0, ay = 0, az = 0;
    for (int base = 0; base < n; base += THREADS) {
        int j = base + t;
        tile[t] = j < n ? positions[j] : (float4)(0);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 4
        for (int k = 0; k < THREADS; ++k) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            float inverse = rsqrt(dx * dx + dy * dy + dz * dz + 0.01f);
            float pull = tile[k].w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i >= n)
        return;
    float4 v = velocities[i];
    v.x += ax * dt;
    v.y += ay * dt;
    v.z += az * dt;
    velocities[i] = v;
    moved[i] = (float4)(me.x + v.x * dt, me.y + v.y * dt, me.z + v.z * dt, me.w);
}
