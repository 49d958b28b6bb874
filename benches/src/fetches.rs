//! Measures texture fetches on one worker. The samples alternate with samples of loads of the same texels from memory.

use margay::texture::{
    AddressMode, ArrayDescriptor, Filter, ReadMode, Resource, Sampler, TextureObject,
};
use margay::{DeviceBuffer, Kernel, LaunchConfig, Runtime};
use serde::Serialize;

use crate::measure::{self, Action, Time};

const PTX: &str = include_str!("../cuda/fetch.ptx");

/// Number of fetches of each thread. The PTX text contains the same number as a constant.
const TURNS: usize = 16;
const BLOCK: usize = 256;

/// Values of `CU_AD_FORMAT_*`.
const BYTE: u32 = 0x01;
const FLOAT: u32 = 0x20;

/// The measured times for one kind of texture.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fetched {
    pub(crate) what: &'static str,
    /// Number of texels that a run fetches; [`Fetched::time`] is the time of a run.
    pub(crate) fetches: u64,
    pub(crate) time: Time,
    /// The time of the fetches divided by the time of plain loads of the same number of texels, from the same
    /// measurement.
    pub(crate) loads: f64,
}

/// A kind of texture to measure.
struct Kind {
    what: &'static str,
    format: u32,
    channels: u32,
    filter: Filter,
}

const KINDS: [Kind; 4] = [
    Kind {
        what: "f32, nearest",
        format: FLOAT,
        channels: 1,
        filter: Filter::Point,
    },
    Kind {
        what: "f32, linear",
        format: FLOAT,
        channels: 1,
        filter: Filter::Linear,
    },
    Kind {
        what: "4 bytes as fractions, nearest",
        format: BYTE,
        channels: 4,
        filter: Filter::Point,
    },
    Kind {
        what: "4 bytes as fractions, linear",
        format: BYTE,
        channels: 4,
        filter: Filter::Linear,
    },
];

/// The texels in device memory, the kernel that fetches them as a texture, and the kernel that loads them.
struct Bench {
    runtime: Runtime,
    size: [usize; 2],
    fetch: Kernel,
    load: Kernel,
    sums: DeviceBuffer<f32>,
    texels: DeviceBuffer<f32>,
}

/// Returns the first component of the texel at (`x`, `y`) as a byte, which is 0 or 255.
fn texel(x: usize, y: usize) -> u8 {
    if (x * 7 + y * 13) % 5 < 2 { 0 } else { 255 }
}

/// Converts a byte to the value that a fetch returns: 0, or `unit` for 255.
fn value(byte: u8, unit: f32) -> f32 {
    if byte == 0 { 0.0 } else { unit }
}

impl Bench {
    fn new(size: [usize; 2]) -> margay::Result<Bench> {
        let runtime = Runtime::builder().workers(1).build()?;
        let module = runtime.load_ptx(PTX)?;
        let [width, height] = size;
        let texels: Vec<f32> = (0..width * height)
            .map(|i| value(texel(i % width, i / width), 256.0))
            .collect();
        Ok(Bench {
            size,
            fetch: module.kernel("fetch")?,
            load: module.kernel("load")?,
            sums: runtime.alloc(width * height)?,
            texels: runtime.upload(&texels)?,
            runtime,
        })
    }

    fn texture(&self, kind: &Kind) -> margay::Result<TextureObject> {
        let context = self.runtime.context()?;
        let [width, height] = self.size;
        let array = context.create_array(&ArrayDescriptor {
            width: width as u64,
            height: height as u64,
            depth: 0,
            format: kind.format,
            channels: kind.channels,
            flags: 0,
        })?;
        let points = (0..width * height).map(|i| texel(i % width, i / width));
        let bytes: Vec<u8> = match kind.format {
            FLOAT => points
                .flat_map(|byte| value(byte, 256.0).to_le_bytes())
                .collect(),
            _ => points.flat_map(|byte| [byte, 1, 2, 3]).collect(),
        };
        array.write(&bytes)?;
        let sampler = Sampler {
            address: [AddressMode::Clamp; 3],
            filter: kind.filter,
            read: ReadMode::Normalized,
            ..Sampler::default()
        };
        context.create_texture(&Resource::Array(array), sampler, None)
    }

    fn config(&self) -> LaunchConfig {
        let [width, height] = self.size.map(|n| n as u32);
        LaunchConfig::new((width.div_ceil(BLOCK as u32), height), BLOCK as u32)
    }

    fn run_fetch(&self, texture: &TextureObject, middle: f32) -> margay::Result<()> {
        let arguments = (texture.handle(), &self.sums, self.size[0] as u32, middle);
        self.runtime.launch(&self.fetch, self.config(), arguments)?;
        self.runtime.synchronize()
    }

    fn run_load(&self) -> margay::Result<()> {
        let width = self.size[0] as u32;
        let arguments = (&self.texels, &self.sums, width, width - 1);
        self.runtime.launch(&self.load, self.config(), arguments)?;
        self.runtime.synchronize()
    }

    /// Returns the expected sum of each thread, which plain loops compute. `kind` is the kind of texture, or `None` for
    /// loads from memory.
    fn expected(&self, kind: Option<&Kind>) -> Vec<f32> {
        let [width, height] = self.size;
        let unit = match kind {
            Some(kind) if kind.format == BYTE => 1.0,
            _ => 256.0,
        };
        let reach = match kind {
            Some(kind) if kind.filter == Filter::Linear => 1,
            _ => 0,
        };
        let at = |x: usize, y: usize| value(texel(x.min(width - 1), y.min(height - 1)), unit);
        let point = |x: usize, y: usize| {
            let four = at(x, y) + at(x + reach, y) + at(x, y + reach) + at(x + reach, y + reach);
            four / 4.0
        };
        let sum = |i: usize| {
            (0..TURNS)
                .map(|turn| point(i % width + turn, i / width))
                .sum()
        };
        (0..width * height).map(sum).collect()
    }

    fn compare(&self, kind: Option<&Kind>) -> Result<(), String> {
        let found = self.sums.to_vec().map_err(|e| e.to_string())?;
        let what = kind.map_or("loads", |kind| kind.what);
        match found == self.expected(kind) {
            true => Ok(()),
            false => Err(format!("{what}: wrong sums")),
        }
    }
}

/// Returns the offset from a texel's corner at which the kernel fetches: the centre of the texel or, with linear
/// filtering, the corner that it shares with three other texels.
fn middle(kind: &Kind) -> f32 {
    match kind.filter {
        Filter::Point => 0.5,
        Filter::Linear => 1.0,
    }
}

/// Measures the fetches from each kind of texture, and the loads. Compares the sums that the
/// kernels compute with the expected sums before the times are measured. If `check` is true, uses
/// little data.
pub(crate) fn measure(check: bool) -> Result<Vec<Fetched>, String> {
    margay::files::tell(format_args!("fetches"));
    let size = if check { [256, 3] } else { [1024, 512] };
    let told = |e: margay::Error| e.to_string();
    let bench = Bench::new(size).map_err(told)?;
    bench.run_load().map_err(told)?;
    bench.compare(None)?;
    let mut rows = Vec::new();
    for kind in &KINDS {
        let texture = bench.texture(kind).map_err(told)?;
        let middle = middle(kind);
        bench.run_fetch(&texture, middle).map_err(told)?;
        bench.compare(Some(kind))?;
        let fetch: Action<'_> = Box::new(|| {
            let done = bench.run_fetch(&texture, middle);
            done.expect("the kernel ran before");
        });
        let load: Action<'_> = Box::new(|| bench.run_load().expect("the kernel ran before"));
        let times = measure::in_turns(&mut [fetch, load]);
        let [time, loads] = <[Time; 2]>::try_from(times).map_err(|_| "two times")?;
        rows.push(Fetched {
            what: kind.what,
            fetches: (size[0] * size[1] * TURNS) as u64,
            loads: time.median / loads.median,
            time,
        });
        texture.destroy().map_err(told)?;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetches_are_compared() {
        let rows = measure(true).expect("runs");
        assert_eq!(rows.len(), KINDS.len());
        assert!(rows.iter().all(|row| row.loads > 0.0));
        let bench = Bench::new([256, 2]).expect("starts");
        bench.run_load().expect("runs");
        assert!(bench.compare(None).is_ok());
        assert!(bench.compare(Some(&KINDS[1])).is_err(), "other sums");
    }
}
