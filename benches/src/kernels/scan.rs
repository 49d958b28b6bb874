//! Exclusive prefix sums: Blelloch's tree in shared memory, over three levels of blocks.

use std::rc::Rc;

use margay::{DeviceBuffer, Kernel, LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;
use crate::data::Random;

pub(super) const CASE: Case = Case {
    name: "scan",
    size: "4 Mi u32",
    make,
};

const PTX: &str = include_str!("../../../tests/cuda/ptx/scan.ptx");
const CHUNK: usize = 1 << 16;
/// Values that a block of the kernel takes, with half as many threads.
const BLOCK: usize = 256;

struct Scan {
    values: Vec<u32>,
    sums: Vec<u32>,
}

fn make(scale: Scale) -> Box<dyn Work> {
    let n = scale.pick(1 << 22, BLOCK * BLOCK + 1000);
    Box::new(Scan {
        values: Random::new(9).fill(n, |r| r.below(1000)),
        sums: vec![0; n],
    })
}

for_this_cpu! {
    fn scan(values: &[u32], sums: &mut [u32], before: u32) {
        let mut sum = before;
        for (out, value) in sums.iter_mut().zip(values) {
            *out = sum;
            sum = sum.wrapping_add(*value);
        }
    }
}

for_this_cpu! {
    fn sum(values: &[u32]) -> u32 {
        values.iter().fold(0, |sum, value| sum.wrapping_add(*value))
    }
}

impl Work for Scan {
    fn serial(&mut self) {
        scan(&self.values, &mut self.sums, 0);
    }

    fn parallel(&mut self) {
        let chunks = self.values.par_chunks(CHUNK);
        let totals: Vec<u32> = chunks.clone().map(sum).collect();
        let mut before = vec![0; totals.len()];
        scan(&totals, &mut before, 0);
        let sums = self.sums.par_chunks_mut(CHUNK).zip(before);
        chunks
            .zip(sums)
            .for_each(|(values, (sums, before))| scan(values, sums, before));
    }

    fn result(&self) -> Values {
        Values::Exact(self.sums.clone())
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let module = runtime.load_ptx(PTX)?;
        let kernels = [
            module.kernel("scan_blelloch")?,
            module.kernel("add_totals")?,
        ];
        let n = self.values.len();
        let mut levels = vec![Rc::new(runtime.upload(&self.values)?)];
        let mut sums = Vec::new();
        let mut len = n;
        while len > 1 {
            sums.push(Rc::new(runtime.alloc::<u32>(len)?));
            len = len.div_ceil(BLOCK);
            levels.push(Rc::new(runtime.alloc::<u32>(len)?));
        }
        let (rt, out) = (runtime.clone(), Rc::clone(&sums[0]));
        Ok(OnDevice::new(
            runtime,
            move || on_levels(&rt, &kernels, &levels, &sums),
            move || Ok(Values::Exact(out.to_vec()?)),
        ))
    }
}

/// Scans each level, whose blocks' totals are the next one, and adds the scanned totals on the way back.
fn on_levels(
    runtime: &Runtime,
    [scan, add]: &[Kernel; 2],
    levels: &[Rc<DeviceBuffer<u32>>],
    sums: &[Rc<DeviceBuffer<u32>>],
) -> margay::Result<()> {
    let config = |len: usize| LaunchConfig::new(len.div_ceil(BLOCK) as u32, BLOCK as u32 / 2);
    for (level, out) in sums.iter().enumerate() {
        let len = out.len();
        let arguments = (&*levels[level], &**out, &*levels[level + 1], len as i32);
        runtime.launch(scan, config(len), arguments)?;
    }
    for pair in sums.windows(2).rev() {
        let len = pair[0].len();
        runtime.launch(add, config(len), (&*pair[0], &*pair[1], len as i32))?;
    }
    Ok(())
}
