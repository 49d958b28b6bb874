//! Maxwell's equations in two dimensions (FDTD): updates of two fields in place, which read neighbouring points.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "FDTD, two dimensions",
    size: "1024 x 1024 points, four steps",
    group: Group::Second,
    sources: sources!("benches/cuda/fdtd.ptx", "fdtd"),
    make,
};

const STEPS: usize = 4;

/// Creates the data, the launches and the expected results of the kernels. The values are small integers and the
/// factors are powers of two, so all sums of the first run are exact.
fn make(scale: Scale) -> Work {
    let (width, height) = (scale.pick(1024, 45), scale.pick(1024, 37));
    let n = width * height;
    let mut random = Random::new(32);
    let fields: [Vec<f32>; 3] =
        std::array::from_fn(|_| random.fill(n, |r| r.below(33) as f32 - 16.0));
    let mut want = fields.clone();
    (0..STEPS).for_each(|_| step(&mut want, width, height));
    let mut work = Work::on(STEPS * n);
    let [ez, hx, hy] = fields.map(|field| work.input(&field));
    let grid = (width.div_ceil(32), height.div_ceil(8));
    for _ in 0..STEPS {
        for kernel in ["fdtd_magnetic", "fdtd_electric"] {
            let arguments = args![ez, hx, hy, width as i32, height as i32];
            work.launch(kernel, grid, (32, 8), arguments);
        }
    }
    work.numbers([width, height]);
    work.operations = Some(11.0 * (STEPS * n) as f64);
    for (buffer, want) in [ez, hx, hy].into_iter().zip(&want) {
        work.expect(buffer, Values::exact(want));
    }
    work
}

fn step([ez, hx, hy]: &mut [Vec<f32>; 3], width: usize, height: usize) {
    for y in 0..height - 1 {
        for i in y * width..(y + 1) * width - 1 {
            hx[i] -= 0.5 * (ez[i + width] - ez[i]);
            hy[i] += 0.5 * (ez[i + 1] - ez[i]);
        }
    }
    for y in 1..height - 1 {
        for i in y * width + 1..(y + 1) * width - 1 {
            ez[i] += 0.5 * (hy[i] - hy[i - 1] - hx[i] + hx[i - width]);
        }
    }
}
