//! Tests calls in device code: recursion and function pointers.

use margay::LaunchConfig;

use crate::{Random, on_machines, read, same};

fn fibonacci(n: i32) -> i32 {
    if n < 2 {
        n
    } else {
        fibonacci(n - 1) + fibonacci(n - 2)
    }
}

#[test]
fn recursion() {
    // Expected values from the literature: Ackermann's function for m = 0, 1, 2, and the number of ways to place 1 to 6
    // queens.
    let ackermann = |m: i32, n: i32| [n + 1, n + 2, 2 * n + 3][m as usize];
    const QUEENS: [i32; 6] = [1, 0, 0, 2, 10, 4];
    let (threads, length) = (48_i32, 40_usize);
    let want: Vec<i32> = (0..threads)
        .flat_map(|i| {
            let parity = if i % 2 == 0 { 2 } else { 1 };
            let queens = QUEENS[i as usize % 6];
            [fibonacci(i % 12), ackermann(i % 3, i % 4), parity, queens]
        })
        .collect();
    let lists: Vec<i32> = Random(20)
        .list(threads as usize * length, 1000)
        .iter()
        .map(|&v| v as i32)
        .collect();
    let mut sorted = lists.clone();
    sorted
        .chunks_mut(length)
        .for_each(|list| list.sort_unstable());
    on_machines("recursion", |gpu| {
        let (out, lists) = (gpu.output::<i32>(want.len()), gpu.upload(&lists));
        let config = LaunchConfig::new(1, threads as u32);
        gpu.launch("recursion", config, (&out, &lists, length as i32));
        same("values", &read(&out), &want);
        same("lists", &read(&lists), &sorted);
    });
}

#[test]
fn calls_through_a_table() {
    let n = 200_usize;
    let mut random = Random(19);
    let mut signed = || -> Vec<i32> {
        let list = random.list(n, 2000);
        list.iter().map(|&v| v as i32 - 1000).collect()
    };
    let (a, b) = (signed(), signed());
    let operations: [fn(i32, i32) -> i32; 4] =
        [|a, b| a + b, |a, b| a - b, |a, b| a * b, |a, b| a ^ b];
    let want: Vec<i32> = (0..n).map(|i| operations[i % 4](a[i], b[i])).collect();
    on_machines("function_pointers", |gpu| {
        let (a, b, out) = (gpu.upload(&a), gpu.upload(&b), gpu.output::<i32>(n));
        gpu.launch(
            "call_table",
            LaunchConfig::new(2, 128),
            (&a, &b, &out, n as i32),
        );
        same("out", &read(&out), &want);
    });
}
