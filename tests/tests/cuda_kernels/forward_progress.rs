//! Tests kernels whose threads wait for other threads: at locks, at barriers over the grid, and in
//! kernels that poll memory.

use margay::{LaunchConfig, StreamKind};

use crate::{on_machines, read, same};

#[test]
fn locks_between_lanes() {
    on_machines("warp_spin_lock", |gpu| {
        let (lock, counter, order) = (gpu.upload(&[0]), gpu.upload(&[0]), gpu.output::<i32>(32));
        gpu.launch(
            "locked_in_loop",
            LaunchConfig::new(1, 32),
            (&lock, &counter, &order),
        );
        same("entries", &read(&counter), &[32]);
        let mut lanes = read(&order);
        lanes.sort_unstable();
        same("each lane once", &lanes, &(0..32).collect::<Vec<_>>());

        let (lock, counter) = (gpu.upload(&[0]), gpu.upload(&[0]));
        gpu.launch(
            "locked_behind_loop",
            LaunchConfig::new(2, 48),
            (&lock, &counter),
        );
        same("behind the loop", &read(&counter), &[2 * 48 * 49 / 2]);

        let (flag, out) = (gpu.upload(&[0]), gpu.output::<i32>(2));
        gpu.launch(
            "lane_waits_for_lane",
            LaunchConfig::new(1, 2),
            (&flag, &out),
        );
        same("lane to lane", &read(&out), &[42, 7]);

        let out = gpu.output::<i32>(1);
        gpu.launch("locked_in_shared", LaunchConfig::new(1, 96), (&out,));
        same("shared lock", &read(&out), &[95 * 96 / 2]);
    });
}

#[test]
fn ticket_lock() {
    let (blocks, rounds) = (20, 5);
    let want = (0..blocks * rounds).fold(0, |sum, ticket| sum * 3 % 1_000_003 + ticket);
    on_machines("ticket_lock", |gpu| {
        let (lock, sum) = (gpu.upload(&[0_u32; 2]), gpu.upload(&[0]));
        let served = gpu.output::<u32>((blocks * rounds) as usize);
        let config = LaunchConfig::new(blocks as u32, 32);
        gpu.launch("ticket_lock", config, (&lock, &sum, &served, rounds));
        same("sum", &read(&sum), &[want]);
        same("served", &read(&served), &(0..100).collect::<Vec<_>>());
    });
}

#[test]
fn barriers_over_the_grid() {
    const THREADS: usize = 64;
    const PHASES: i32 = 5;
    let n = 6 * THREADS;
    let want = (0..PHASES).fold((0..n as i32).collect::<Vec<_>>(), |from, phase| {
        (0..n)
            .map(|i| from[(i + THREADS) % n] + from[(i + n - 1) % n] + phase)
            .collect()
    });
    on_machines("grid_barrier", |gpu| {
        let config = LaunchConfig::new(6, THREADS as u32);
        for (kernel, config) in [
            ("grid_barrier_groups", config.with_cooperative()),
            ("grid_barrier_atomics", config),
        ] {
            let (a, b) = (gpu.output::<i32>(n), gpu.output::<i32>(n));
            gpu.launch(kernel, config, (&a, &b));
            same(kernel, &read(if PHASES % 2 == 1 { &b } else { &a }), &want);
        }
    });
}

#[test]
fn kernels_that_wait_for_kernels() {
    on_machines("poll_kernel", |gpu| {
        let context = gpu.runtime.context().expect("a context");
        let stream = || {
            context
                .create_stream(StreamKind::NonBlocking, 0)
                .expect("a stream")
        };
        let (first, second) = (stream(), stream());
        let kernel = |name| gpu.module.kernel(name).expect("the kernel exists");
        let (flag, out) = (gpu.upload(&[0]), gpu.output::<i32>(40));
        let (ball, played) = (gpu.upload(&[0]), gpu.output::<i32>(2));
        let one = LaunchConfig::new(1, 1);
        let second_word = played.ptr().offset(4);
        gpu.runtime.synchronize().expect("the copies are done");
        let launched = first
            .launch(
                &kernel("wait_for_word"),
                LaunchConfig::new(1, 40),
                (&flag, &out),
            )
            .and_then(|()| second.launch(&kernel("store_word"), one, (&flag,)))
            .and_then(|()| first.launch(&kernel("ping_pong"), one, (&ball, 0, 10, &played)))
            .and_then(|()| second.launch(&kernel("ping_pong"), one, (&ball, 1, 10, second_word)));
        launched.expect("the launches are accepted");
        first.synchronize().expect("the first stream finishes");
        second.synchronize().expect("the second stream finishes");
        same("seen", &read(&out), &(1000..1040).collect::<Vec<_>>());
        same("played", &read(&played), &[10, 10]);
        same("ball", &read(&ball), &[20]);
    });
}
