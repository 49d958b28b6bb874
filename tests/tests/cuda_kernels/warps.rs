//! Tests kernels with atomics, and kernels in which the lanes of a warp exchange values.

use margay::LaunchConfig;

use crate::{Random, on_machines, read, same};

/// Returns the next generation of Conway's Game of Life on a torus of 32 by 32 cells. A word
/// contains the cells of a row.
fn generation(rows: &[u32]) -> Vec<u32> {
    let alive = |y: usize, x: usize| rows[y % 32] >> (x % 32) & 1;
    let next = |y: usize, x: usize| {
        let around: u32 = (0..9)
            .filter(|&k| k != 4)
            .map(|k| alive(y + 31 + k / 3, x + 31 + k % 3))
            .sum();
        u32::from(around == 3 || (around == 2 && alive(y, x) == 1))
    };
    (0..32)
        .map(|y| (0..32).fold(0, |row, x| row | next(y, x) << x))
        .collect()
}

#[test]
fn game_of_life_by_shuffles() {
    let rows = {
        let mut random = Random(16);
        (0..32)
            .map(|_| random.next() & random.next())
            .collect::<Vec<u32>>()
    };
    let want = (0..4).fold(rows.clone(), |rows, _| generation(&rows));
    on_machines("game_of_life", |gpu| {
        let cells = gpu.upload(&rows);
        gpu.launch("life_warp", LaunchConfig::new(1, 32), (&cells, 4));
        same("rows", &read(&cells), &want);
    });
}

/// Returns a mask whose bit `k` states whether `test(k)` is true, for each `k` below `lanes`.
fn ballot(lanes: usize, test: impl Fn(usize) -> bool) -> i32 {
    (0..lanes).fold(0, |mask, k| mask | (u32::from(test(k)) << k)) as i32
}

#[test]
fn partial_masks() {
    let values: Vec<i32> = Random(22).list(32, 100).iter().map(|&v| v as i32).collect();
    let mut want = Vec::new();
    for lane in 0..32_usize {
        let eight = lane / 8 * 8;
        want.push(*values[eight..eight + 8].iter().max().expect("eight lanes"));
        let (odd, limit) = (lane % 2, if lane % 2 == 1 { 40 } else { 60 });
        want.push(values[if odd == 1 { 31 } else { 0 }]);
        want.push(ballot(32, |k| k % 2 == odd && values[k] > limit));
        let turn =
            |turn: usize| -> i32 { (0..32).filter(|k| turn < k % 4).map(|k| values[k]).sum() };
        want.push((0..lane % 4).map(turn).sum());
        want.push(ballot(32, |k| lane % 4 < k % 4));
    }
    on_machines("warp_vote", |gpu| {
        let (input, out) = (gpu.upload(&values), gpu.output::<i32>(want.len()));
        gpu.launch("warp_partial", LaunchConfig::new(1, 32), (&input, &out));
        same("partial", &read(&out), &want);
    });
}

#[test]
fn lanes_that_have_left() {
    let values: Vec<i32> = Random(23).list(32, 100).iter().map(|&v| v as i32).collect();
    let n = 21;
    let above = ballot(n, |k| values[k] > 30);
    let want = [above, values[2], (1 << n) - 1].repeat(n);
    on_machines("warp_vote", |gpu| {
        let (input, out) = (gpu.upload(&values), gpu.output::<i32>(want.len()));
        gpu.launch(
            "warp_after_return",
            LaunchConfig::new(1, 32),
            (&input, &out, n as i32),
        );
        same("left", &read(&out), &want);
    });
}

#[test]
fn values_that_atomics_give_back() {
    let n = 5 * 48;
    on_machines("atomics", |gpu| {
        let (counter, link) = (gpu.upload(&[0]), gpu.upload(&[-1]));
        let (tickets, links) = (gpu.output::<i32>(n), gpu.output::<i32>(n));
        let args = (&counter, &link, &tickets, &links);
        gpu.launch("returned_values", LaunchConfig::new(5, 48), args);
        let mut tickets = read(&tickets);
        tickets.sort_unstable();
        same("tickets", &tickets, &(0..n as i32).collect::<Vec<_>>());
        // Each exchange returns the value that an earlier exchange stored; the first exchange returns the initial
        // value.
        let mut chain = read(&links);
        chain.extend(read(&link));
        chain.sort_unstable();
        same("chain", &chain, &(-1..n as i32).collect::<Vec<_>>());
    });
}
