// The distances at which rays hit triangles, found with a tree of boxes. Each thread follows one ray, with a stack of
// nodes. Products and sums are rounded separately, so that implementations on CPUs find the same distances.
// nvcc -ptx -arch=compute_75 -O3 -fmad=false bvh.cu -o bvh.ptx

constexpr float MISS = 1e30f;

struct Node {
    float low[3];
    int first; // the first triangle of a leaf, or the first of two neighbouring children
    float high[3];
    int count; // the number of triangles; zero if the node has children
};

struct Triangle {
    float corner[3], edge[3], other[3];
};

struct Ray {
    float origin[3], direction[3];
};

// Returns the distance to the box, or MISS.
__device__ float entry(const Node &box, const Ray &ray, const float *inverse, float nearest) {
    float from = 0, to = nearest;
    for (int axis = 0; axis < 3; ++axis) {
        float a = (box.low[axis] - ray.origin[axis]) * inverse[axis];
        float b = (box.high[axis] - ray.origin[axis]) * inverse[axis];
        from = fmaxf(from, fminf(a, b));
        to = fminf(to, fmaxf(a, b));
    }
    return from <= to ? from : MISS;
}

__device__ float dot(const float *a, const float *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

__device__ void cross(const float *a, const float *b, float *out) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

// Returns the distance to the triangle if it is nearer than `nearest`, otherwise `nearest`.
__device__ float hit(const Triangle &triangle, const Ray &ray, float nearest) {
    float p[3], q[3], away[3];
    cross(ray.direction, triangle.other, p);
    float scale = 1 / dot(triangle.edge, p);
    for (int axis = 0; axis < 3; ++axis)
        away[axis] = ray.origin[axis] - triangle.corner[axis];
    float u = dot(away, p) * scale;
    cross(away, triangle.edge, q);
    float v = dot(ray.direction, q) * scale, t = dot(triangle.other, q) * scale;
    return u >= 0 && v >= 0 && u + v <= 1 && t > 0 && t < nearest ? t : nearest;
}

extern "C" __global__ void bvh_trace(const Node *nodes, const Triangle *triangles, const Ray *rays, float *distances,
                                     int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Ray ray = rays[i];
    float inverse[3];
    for (int axis = 0; axis < 3; ++axis)
        inverse[axis] = 1 / ray.direction[axis];
    int stack[32], depth = 0, at = 0;
    float nearest = MISS;
    while (true) {
        int first = nodes[at].first, count = nodes[at].count;
        if (count > 0) {
            for (int k = 0; k < count; ++k)
                nearest = hit(triangles[first + k], ray, nearest);
        } else {
            int near = first, far = first + 1;
            float a = entry(nodes[near], ray, inverse, nearest), b = entry(nodes[far], ray, inverse, nearest);
            if (b < a) {
                float swap = a;
                a = b, b = swap;
                near = first + 1, far = first;
            }
            if (b < MISS)
                stack[depth++] = far;
            if (a < MISS) {
                at = near;
                continue;
            }
        }
        if (depth == 0)
            break;
        at = stack[--depth];
    }
    distances[i] = nearest;
}
