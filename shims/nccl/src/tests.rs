//! Tests of the library through its C functions, with a driver whose streams are threads. In each test, one process has all
//! ranks; if `apart`, the ranks pretend to belong to different processes, so their data passes through shared memory.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use crate::api::*;
use crate::comm::{Comm, Member, get};
use crate::fake::synchronize;

const F32: i32 = 7;
const I32: i32 = 2;
const SUM: i32 = 0;
const AVERAGE: i32 = 4;

/// A communicator: a handle and a stream for each rank.
struct World {
    comms: Vec<usize>,
    streams: Vec<usize>,
}

impl World {
    fn new(ranks: usize, apart: bool) -> World {
        static NEXT: AtomicUsize = AtomicUsize::new(1000);
        let first = NEXT.fetch_add(100, SeqCst);
        let mut key = [0; 16];
        key[..8].copy_from_slice(&first.to_le_bytes());
        key[8..12].copy_from_slice(&std::process::id().to_le_bytes());
        let join = |rank: usize| {
            let member = Member {
                rank,
                ranks,
                device: rank as i32,
                context: rank + 1,
                blocking: true,
            };
            let process = if apart { rank as u64 + 1 } else { 1 };
            Comm::join_as(key, member, process)
                .expect("a rank")
                .publish()
        };
        World {
            comms: (0..ranks).map(join).collect(),
            streams: (first..first + ranks).collect(),
        }
    }

    /// Calls a function for each rank with its handle and its stream, in one group.
    fn group(&self, call: impl Fn(usize, usize, usize) -> i32) {
        assert_eq!(ncclGroupStart(), 0);
        for (rank, (&comm, &stream)) in self.comms.iter().zip(&self.streams).enumerate() {
            assert_eq!(call(rank, comm, stream), 0, "rank {rank}");
        }
        assert_eq!(ncclGroupEnd(), 0);
    }

    fn wait(&self) -> Vec<u32> {
        self.streams
            .iter()
            .map(|&stream| synchronize(stream))
            .collect()
    }

    fn finish(self) {
        assert!(self.wait().iter().all(|&code| code == 0));
        for comm in self.comms {
            assert_eq!(ncclCommDestroy(comm), 0);
            assert_eq!(ncclCommDestroy(comm), 4);
        }
    }
}

fn worlds() -> impl Iterator<Item = World> {
    [(3, false), (3, true), (1, false), (4, true)]
        .into_iter()
        .map(|(ranks, apart)| World::new(ranks, apart))
}

/// The value of a rank at an index: all sums are exact.
fn value(rank: usize, index: usize) -> f32 {
    (rank * 1000 + index % 97) as f32
}

fn buffers(ranks: usize, count: usize) -> Vec<Vec<f32>> {
    let one = |rank| (0..count).map(|index| value(rank, index)).collect();
    (0..ranks).map(one).collect()
}

fn at(buffers: &[Vec<f32>], rank: usize) -> usize {
    buffers[rank].as_ptr() as usize
}

#[test]
fn reductions_have_the_values_of_all_ranks() {
    // More than one window of values, and not a multiple of anything.
    const COUNT: usize = 300_001;
    for world in worlds() {
        let ranks = world.comms.len();
        let sum = |index| (0..ranks).map(|rank| value(rank, index)).sum::<f32>();
        let (send, all) = (buffers(ranks, COUNT), vec![vec![0f32; COUNT]; ranks]);
        let one = vec![vec![0f32; COUNT]; ranks];
        let root = ranks - 1;
        world.group(|rank, comm, stream| {
            ncclAllReduce(
                at(&send, rank),
                at(&all, rank),
                COUNT,
                F32,
                SUM,
                comm,
                stream,
            ) + ncclReduce(
                at(&send, rank),
                at(&one, rank),
                COUNT,
                F32,
                AVERAGE,
                root as i32,
                comm,
                stream,
            )
        });
        world.wait();
        for rank in 0..ranks {
            for index in [0, 1, 96, 97, 262_143, 262_144, COUNT - 1] {
                assert_eq!(all[rank][index], sum(index), "{ranks} {rank} {index}");
                let wanted = if rank == root {
                    sum(index) / ranks as f32
                } else {
                    0.0
                };
                assert_eq!(one[rank][index], wanted, "{ranks} {rank} {index}");
            }
        }
        // In place, twice in a row.
        world.group(|rank, comm, stream| {
            ncclAllReduce(
                at(&send, rank),
                at(&send, rank),
                COUNT,
                F32,
                2,
                comm,
                stream,
            )
        });
        world.group(|rank, comm, stream| {
            ncclAllReduce(
                at(&send, rank),
                at(&send, rank),
                COUNT,
                F32,
                SUM,
                comm,
                stream,
            )
        });
        world.wait();
        for values in &send {
            assert_eq!(values[COUNT - 1], value(root, COUNT - 1) * ranks as f32);
        }
        world.finish();
    }
}

#[test]
fn blocks_are_in_the_order_of_the_ranks() {
    const COUNT: usize = 100_003;
    for world in worlds() {
        let ranks = world.comms.len();
        let send = buffers(ranks, COUNT * ranks);
        let (all, part) = (
            vec![vec![0f32; COUNT * ranks]; ranks],
            vec![vec![0f32; COUNT]; ranks],
        );
        let (turned, root) = (vec![vec![0f32; COUNT * ranks]; ranks], ranks / 2);
        let copy = vec![vec![0f32; COUNT]; ranks];
        world.group(|rank, comm, stream| {
            ncclAllGather(at(&send, rank), at(&all, rank), COUNT, F32, comm, stream)
                + ncclReduceScatter(
                    at(&send, rank),
                    at(&part, rank),
                    COUNT,
                    F32,
                    SUM,
                    comm,
                    stream,
                )
                + ncclBroadcast(
                    at(&send, rank),
                    at(&copy, rank),
                    COUNT,
                    F32,
                    root as i32,
                    comm,
                    stream,
                )
                + ncclAlltoAll(at(&send, rank), at(&turned, rank), COUNT, F32, comm, stream)
        });
        world.wait();
        for rank in 0..ranks {
            for index in [0, 1, 87_000, COUNT - 1] {
                for block in 0..ranks {
                    assert_eq!(all[rank][block * COUNT + index], value(block, index));
                    assert_eq!(
                        turned[rank][block * COUNT + index],
                        value(block, rank * COUNT + index)
                    );
                }
                let sum: f32 = (0..ranks).map(|one| value(one, rank * COUNT + index)).sum();
                assert_eq!(part[rank][index], sum, "{ranks} {rank} {index}");
                assert_eq!(copy[rank][index], value(root, index));
            }
        }
        world.finish();
    }
}

#[test]
fn messages_match_in_order_and_groups_do_not_deadlock() {
    const COUNT: usize = 150_000;
    for world in worlds() {
        let ranks = world.comms.len();
        let send = buffers(ranks, COUNT);
        let (first, second) = (vec![vec![0f32; COUNT]; ranks], vec![vec![0f32; 3]; ranks]);
        // Each rank sends two messages to the next rank; the receives are the second half of the group.
        world.group(|rank, comm, stream| {
            let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            ncclSend(at(&send, rank), COUNT, F32, next as i32, comm, stream)
                + ncclSend(at(&send, rank) + 40, 3, F32, next as i32, comm, stream)
                + ncclRecv(at(&first, rank), COUNT, F32, previous as i32, comm, stream)
                + ncclRecv(at(&second, rank), 3, F32, previous as i32, comm, stream)
        });
        world.wait();
        for rank in 0..ranks {
            let previous = (rank + ranks - 1) % ranks;
            assert_eq!(first[rank][COUNT - 1], value(previous, COUNT - 1));
            assert_eq!(
                second[rank],
                [10, 11, 12].map(|index| value(previous, index))
            );
        }
        // Root 0 scatters, then gathers.
        let back = vec![vec![0f32; COUNT]; ranks];
        let count = COUNT / ranks;
        world.group(|rank, comm, stream| {
            ncclScatter(
                at(&send, rank),
                at(&first, rank),
                count,
                F32,
                0,
                comm,
                stream,
            )
        });
        world.group(|rank, comm, stream| {
            ncclGather(
                at(&first, rank),
                at(&back, rank),
                count,
                F32,
                0,
                comm,
                stream,
            )
        });
        world.wait();
        assert_eq!(back[0][..count * ranks], send[0][..count * ranks]);
        world.finish();
    }
}

#[test]
fn splits_order_ranks_by_key() {
    for apart in [false, true] {
        let world = World::new(4, apart);
        let mut parts = [0usize; 4];
        for round in 0..3 {
            assert_eq!(ncclGroupStart(), 0);
            for (rank, part) in parts.iter_mut().enumerate() {
                let color = if rank == 3 { -1 } else { (rank % 2) as i32 };
                let null = std::ptr::null();
                assert_eq!(
                    ncclCommSplit(world.comms[rank], color, -(rank as i32), part, null),
                    0
                );
            }
            assert_eq!(ncclGroupEnd(), 0, "round {round}");
        }
        assert_eq!(parts[3], 0);
        let numbers = |comm: usize| {
            get(comm)
                .map(|comm| (comm.rank, comm.ranks))
                .expect("a rank")
        };
        assert_eq!(
            [0, 1, 2].map(|rank| numbers(parts[rank])),
            [(1, 2), (0, 1), (0, 2)]
        );
        let data = buffers(4, 2);
        assert_eq!(ncclGroupStart(), 0);
        for rank in [0, 2] {
            let (buffer, stream) = (at(&data, rank), world.streams[rank]);
            assert_eq!(
                ncclAllReduce(buffer, buffer, 2, F32, SUM, parts[rank], stream),
                0
            );
        }
        assert_eq!(ncclGroupEnd(), 0);
        world.wait();
        assert_eq!(data[2], [2000.0, 2002.0]);

        let excluded = [1];
        let mut small = [0usize; 4];
        assert_eq!(ncclGroupStart(), 0);
        for rank in [0, 2, 3] {
            let (list, null) = (excluded.as_ptr(), std::ptr::null());
            assert_eq!(
                ncclCommShrink(world.comms[rank], list, 1, &raw mut small[rank], null, 0),
                0
            );
        }
        assert_eq!(ncclGroupEnd(), 0);
        assert_eq!(
            [0, 2, 3].map(|rank| numbers(small[rank])),
            [(0, 3), (1, 3), (2, 3)]
        );
        world.finish();
    }
}

#[test]
fn one_thread_joins_as_all_ranks() {
    let mut comms = [0usize; 3];
    let devices = [2, 0, 5];
    assert_eq!(ncclCommInitAll(comms.as_mut_ptr(), 3, devices.as_ptr()), 0);
    let (mut device, mut count, mut rank) = (0, 0, 0);
    assert_eq!(ncclCommCuDevice(comms[2], &raw mut device), 0);
    assert_eq!(ncclCommCount(comms[2], &raw mut count), 0);
    assert_eq!(ncclCommUserRank(comms[2], &raw mut rank), 0);
    assert_eq!([device, count, rank], [5, 3, 2]);
    let mut properties = [u32::MAX; 64];
    (properties[0], properties[1]) = (200, 0);
    assert_eq!(
        ncclCommQueryProperties(comms[2], properties.as_mut_ptr() as usize),
        0
    );
    assert_eq!(properties[4..9], [2, 3, 5, 5, 0]);
    assert_eq!(properties[49..51], [0, u32::MAX]);
    properties[0] = 20;
    assert_eq!(
        ncclCommQueryProperties(comms[2], properties.as_mut_ptr() as usize),
        4
    );
    assert_eq!(ncclCommInitAll(comms.as_mut_ptr(), 2, [1, 1].as_ptr()), 5);
    assert_eq!(ncclCommInitAll(comms.as_mut_ptr(), 9, std::ptr::null()), 4);

    let mut id = [0; 128];
    assert_eq!(ncclGetUniqueId(&raw mut id), 0);
    // SAFETY: the types have the same layout.
    let id = unsafe { std::mem::transmute::<[u8; 128], UniqueId>(id) };
    assert_eq!(ncclGroupStart(), 0);
    for (rank, comm) in comms.iter_mut().enumerate() {
        assert_eq!(ncclCommInitRank(comm, 3, id, rank as i32), 0);
    }
    assert_eq!(ncclGroupEnd(), 0);
    // A rank of a communicator that is complete does not find it, and waits for ranks of its own.
    let mut config = [0u32; 32];
    config[2] = 0xcafe_beef;
    let mut late = 0;
    assert_eq!(
        ncclCommInitRankConfig(&raw mut late, 3, id, 1, config.as_ptr().cast()),
        0
    );
    let mut error = 0;
    assert_eq!(ncclCommGetAsyncError(late, &raw mut error), 0);
    assert_eq!(error, 7);
    assert_eq!(ncclCommGetAsyncError(comms[0], &raw mut error), 0);
    assert_eq!(error, 0);
    let mut twice = 0;
    assert_eq!(
        ncclCommInitRankConfig(&raw mut twice, 3, id, 1, config.as_ptr().cast()),
        5
    );
    assert_eq!(
        ncclCommInitRankConfig(&raw mut twice, 4, id, 2, config.as_ptr().cast()),
        5
    );
    assert_eq!(ncclAllReduce(4096, 4096, 1, F32, SUM, late, 1), 4);
    config[2] = 0;
    assert_eq!(
        ncclCommInitRankConfig(&raw mut twice, 3, id, 2, config.as_ptr().cast()),
        4
    );
    assert_eq!(ncclCommAbort(late), 0);
    // The file of the incomplete communicator would stay, so the other ranks join.
    for rank in [0, 2] {
        config[2] = 0xcafe_beef;
        assert_eq!(
            ncclCommInitRankConfig(&raw mut late, 3, id, rank, config.as_ptr().cast()),
            0
        );
    }
}

#[test]
fn created_operations_scale_the_values_of_their_rank() {
    for apart in [false, true] {
        let world = World::new(2, apart);
        let data = [vec![3i32, -4], vec![10, 20]];
        let (scalars, mut ops) = ([2i32, 5], [0i32; 2]);
        for rank in 0..2 {
            let (op, scalar) = (&raw mut ops[rank], &raw const scalars[rank] as usize);
            // One scalar is read now, the other when the operation runs.
            assert_eq!(
                ncclRedOpCreatePreMulSum(op, scalar, I32, 1 - rank as i32, world.comms[rank]),
                0
            );
        }
        let at = |rank: usize| data[rank].as_ptr() as usize;
        assert_eq!(
            ncclAllReduce(at(0), at(0), 2, F32, ops[0], world.comms[0], 1),
            4
        );
        world.group(|rank, comm, stream| {
            ncclAllReduce(at(rank), at(rank), 2, I32, ops[rank], comm, stream)
        });
        world.wait();
        assert_eq!(data, [[56, 92], [56, 92]]);
        assert_eq!(ncclRedOpDestroy(ops[0], world.comms[0]), 0);
        assert_eq!(ncclRedOpDestroy(ops[0], world.comms[0]), 4);
        assert_eq!(
            ncclAllReduce(at(0), at(0), 2, I32, ops[0], world.comms[0], 1),
            4
        );
        world.finish();
    }
}

#[test]
fn wrong_arguments_are_errors_and_void_a_group() {
    let world = World::new(2, false);
    let (comm, stream) = (world.comms[0], world.streams[0]);
    let data = [0f32; 8];
    let at = data.as_ptr() as usize;
    assert_eq!(ncclAllReduce(at, at, 8, 12, SUM, comm, stream), 4);
    assert_eq!(ncclAllReduce(at, at, 8, -1, SUM, comm, stream), 4);
    assert_eq!(ncclAllReduce(at, at, 8, F32, 5, comm, stream), 4);
    assert_eq!(
        ncclAllReduce(at, at, usize::MAX / 2, F32, SUM, comm, stream),
        4
    );
    assert_eq!(ncclAllReduce(0, at, 8, F32, SUM, comm, stream), 4);
    assert_eq!(ncclAllReduce(64, at, 8, F32, SUM, comm, stream), 4);
    assert_eq!(ncclAllReduce(at, at, 8, F32, SUM, 12345, stream), 4);
    assert_eq!(ncclReduce(at, at, 8, F32, SUM, 2, comm, stream), 4);
    assert_eq!(ncclSend(at, 8, F32, -1, comm, stream), 4);
    assert_eq!(ncclSend(at, usize::MAX, F32, 1, comm, stream), 4);
    assert_eq!(ncclCommCount(comm, std::ptr::null_mut()), 4);
    let mut part = 0;
    assert_eq!(
        ncclCommSplit(comm, -2, 0, &raw mut part, std::ptr::null()),
        4
    );
    assert_eq!(ncclGroupEnd(), 5);
    assert_eq!(ncclGroupStart(), 0);
    assert_eq!(ncclSend(at, 8, F32, 1, comm, stream), 0);
    assert_eq!(ncclSend(at, 8, F32, 7, comm, stream), 4);
    assert_eq!(ncclGroupEnd(), 4);
    // SAFETY: the text is valid until the next error.
    let text = unsafe { std::ffi::CStr::from_ptr(ncclGetLastError(std::ptr::null_mut())) };
    assert_eq!(text, c"there is no rank 7 among 2");
    assert_eq!(ncclCommGrow(), 5);
    // Nothing has been sent, so the stream is free.
    world.finish();
}

#[test]
fn ranks_that_disagree_fail() {
    for apart in [false, true] {
        let world = World::new(2, apart);
        let data = buffers(2, 8);
        world.group(|rank, comm, stream| {
            let buffer = at(&data, rank);
            ncclAllReduce(buffer, buffer, 8 - rank, F32, SUM, comm, stream)
        });
        assert_eq!(world.wait(), [719, 719]);
        let mut error = 0;
        assert_eq!(ncclCommGetAsyncError(world.comms[1], &raw mut error), 0);
        assert_eq!(error, 3);
        let world = World::new(2, apart);
        world.group(|rank, comm, stream| match rank {
            0 => ncclSend(at(&data, 0), 8, F32, 1, comm, stream),
            _ => ncclRecv(at(&data, 1), 7, F32, 0, comm, stream),
        });
        let codes = world.wait();
        assert_eq!(codes[1], 719, "{codes:?}");
    }
}

#[test]
fn an_aborted_rank_does_not_wait() {
    for apart in [false, true] {
        let world = World::new(2, apart);
        let data = buffers(2, 8);
        let (comm, stream, buffer) = (world.comms[0], world.streams[0], at(&data, 0));
        assert_eq!(ncclRecv(buffer, 8, F32, 1, comm, stream), 0);
        assert_eq!(ncclAllReduce(buffer, buffer, 8, F32, SUM, comm, stream), 0);
        let kept = Arc::downgrade(&get(comm).expect("a rank"));
        assert_eq!(ncclCommAbort(comm), 0);
        assert_eq!(synchronize(stream), 0);
        assert_eq!(data[0], buffers(1, 8)[0]);
        // Nothing refers to the communicator for long.
        let start = std::time::Instant::now();
        while kept.strong_count() > 0 && start.elapsed().as_secs() < 10 {
            std::thread::yield_now();
        }
        assert_eq!(kept.strong_count(), 0);
    }
}
