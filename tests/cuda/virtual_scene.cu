// Follows rays through a scene of objects whose virtual functions call each other: a group tests its members, a portal
// moves a ray into another group, a mirror reflects a ray. Host and device create the same objects and follow each ray
// in integer steps. A recursive quicksort then sorts the names of the shapes that a ray met.
#include "common.h"

#include <algorithm>

struct Ray {
    int x, y, dx, dy;
};

struct Met {
    int *what;
    int count;
};

constexpr int MOST = 48, LIMIT = 40, KINDS = 5;

class Shape {
  public:
    __host__ __device__ Shape(int name, int x, int y, int size)
        : name_(name), x_(x), y_(y), size_(size) {}
    __host__ __device__ virtual ~Shape() {}
    // Returns the first step below `limit` in which the ray is in the shape, else `limit`. Adds met shapes to `met`.
    __host__ __device__ virtual int first(Ray ray, int limit, Met &met) const {
        for (int step = 0; step < limit; ++step) {
            if (holds(ray.x + step * ray.dx, ray.y + step * ray.dy)) {
                note(met);
                return step;
            }
        }
        return limit;
    }

    Shape *next = nullptr;
    Shape *inner = nullptr;

  protected:
    __host__ __device__ virtual bool holds(int x, int y) const {
        return x >= x_ && x < x_ + size_ && y >= y_ && y < y_ + size_;
    }
    __host__ __device__ void note(Met &met) const {
        if (met.count < MOST)
            met.what[met.count++] = name_;
    }
    int name_, x_, y_, size_;
};

class Diamond : public Shape {
  public:
    using Shape::Shape;

  protected:
    __host__ __device__ bool holds(int x, int y) const override {
        int across = x < x_ ? x_ - x : x - x_, up = y < y_ ? y_ - y : y - y_;
        return across + up < size_;
    }
};

class Group : public Shape {
  public:
    using Shape::Shape;
    __host__ __device__ int first(Ray ray, int limit, Met &met) const override {
        int best = limit;
        for (const Shape *member = inner; member; member = member->next)
            best = member->first(ray, best, met);
        if (best < limit)
            note(met);
        return best;
    }
};

class Mirror : public Shape {
  public:
    using Shape::Shape;
    __host__ __device__ int first(Ray ray, int limit, Met &met) const override {
        Ray turned = {y_ - ray.y, x_ - ray.x, -ray.dy, -ray.dx};
        int step = inner ? inner->first(turned, limit, met) : limit;
        return step < limit ? step / 2 : limit;
    }
};

class Portal : public Shape {
  public:
    using Shape::Shape;
    __host__ __device__ int first(Ray ray, int limit, Met &met) const override {
        int step = Shape::first(ray, limit, met);
        if (step == limit || !inner)
            return limit;
        Ray onward = {ray.x + step * ray.dx + size_, ray.y - step * ray.dy, ray.dx, ray.dy};
        int more = inner->first(onward, limit - step, met);
        return step + more;
    }
};

// Kind, position, size, next shape of its list, first shape of the list inside it (both have later indices; -1: none).
struct Description {
    int kind, x, y, size, next, inner;
};

__host__ __device__ Shape *make(const Description &d, int name) {
    switch (d.kind) {
    case 0:
        return new Shape(name, d.x, d.y, d.size);
    case 1:
        return new Diamond(name, d.x, d.y, d.size);
    case 2:
        return new Group(name, d.x, d.y, d.size);
    case 3:
        return new Mirror(name, d.x, d.y, d.size);
    default:
        return new Portal(name, d.x, d.y, d.size);
    }
}

__host__ __device__ void link(Shape **shapes, const Description *all, int count) {
    for (int i = 0; i < count; ++i) {
        shapes[i]->next = all[i].next < 0 ? nullptr : shapes[all[i].next];
        shapes[i]->inner = all[i].inner < 0 ? nullptr : shapes[all[i].inner];
    }
}

__device__ void quicksort(int *values, int low, int high) {
    if (low >= high)
        return;
    int pivot = values[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (values[i] < pivot)
            ++i;
        while (values[j] > pivot)
            --j;
        if (i <= j) {
            int swap = values[i];
            values[i++] = values[j];
            values[j--] = swap;
        }
    }
    quicksort(values, low, j);
    quicksort(values, i, high);
}

extern "C" __global__ void build(Shape **shapes, const Description *all, int count) {
    for (int i = 0; i < count; ++i)
        shapes[i] = make(all[i], i);
    link(shapes, all, count);
}

extern "C" __global__ void follow(Shape *const *shapes, const Ray *rays, int *steps, int *counts,
                                  int *what, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    Met met = {what + i * MOST, 0};
    steps[i] = shapes[0]->first(rays[i], LIMIT, met);
    counts[i] = met.count;
    quicksort(met.what, 0, met.count - 1);
}

extern "C" __global__ void destroy(Shape **shapes, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        delete shapes[i];
}

int main() {
    const int count = 60, rays = 500;
    Random random(77);
    // Shape 0 is a group, and its list contains all shapes that are in no other list.
    std::vector<Description> all(count);
    std::vector<int> last(count, -1);
    for (int i = 0; i < count; ++i) {
        int kind = i == 0 ? 2 : int(random.below(KINDS));
        all[i] = {kind, int(random.below(60)) - 30, int(random.below(60)) - 30,
                  1 + int(random.below(6)), -1, -1};
        if (i == 0)
            continue;
        // Adds the shape to the list of an earlier group, mirror or portal.
        int owner = int(random.below(uint32_t(i)));
        if (all[owner].kind < 2)
            owner = 0;
        if (last[owner] < 0)
            all[owner].inner = i;
        else
            all[last[owner]].next = i;
        last[owner] = i;
    }
    std::vector<Ray> start(rays);
    for (Ray &ray : start)
        ray = {int(random.below(60)) - 30, int(random.below(60)) - 30, int(random.below(5)) - 2,
               int(random.below(5)) - 2};

    std::vector<Shape *> host(count);
    for (int i = 0; i < count; ++i)
        host[i] = make(all[i], i);
    link(host.data(), all.data(), count);
    std::vector<int> steps(rays), counts(rays), what(rays * MOST, 0);
    for (int i = 0; i < rays; ++i) {
        Met met = {what.data() + i * MOST, 0};
        steps[i] = host[0]->first(start[i], LIMIT, met);
        counts[i] = met.count;
        std::sort(met.what, met.what + met.count);
    }
    for (Shape *shape : host)
        delete shape;

    CUDA_OK(cudaDeviceSetLimit(cudaLimitStackSize, 8 << 10));
    Buffer<Description> described(all);
    Buffer<Shape *> shapes(count);
    Buffer<Ray> drays(start);
    Buffer<int> dsteps(rays), dcounts(rays), dwhat(rays * MOST);
    dwhat.clear();
    build<<<1, 1>>>(shapes.ptr(), described.ptr(), count);
    LAUNCH_OK();
    follow<<<(rays + 63) / 64, 64>>>(shapes.ptr(), drays.ptr(), dsteps.ptr(), dcounts.ptr(),
                                     dwhat.ptr(), rays);
    LAUNCH_OK();
    destroy<<<1, 32>>>(shapes.ptr(), count);
    LAUNCH_OK();
    Verdict verdict("virtual_scene");
    verdict.equal("steps", dsteps.get(), steps);
    verdict.equal("counts", dcounts.get(), counts);
    verdict.equal("met", dwhat.get(), what);
    int most = *std::max_element(counts.begin(), counts.end());
    verdict.holds("rays meet several shapes", most > 4 && most < MOST);
    return verdict.finish();
}
