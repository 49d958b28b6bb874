//! The Mandelbrot set: a loop whose number of iterations differs from point to point.

use crate::case::{Case, Group, Scale, sources};
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "Mandelbrot set",
    size: "768 x 512 points, up to 256 turns",
    group: Group::Goals,
    sources: sources!("benches/cuda/mandelbrot.ptx", "mandelbrot", c_uneven: true),
    make,
};

const LIMIT: u16 = 256;
const LEFT: f32 = -2.0;
const TOP: f32 = -1.0;

fn make(scale: Scale) -> Work {
    let (width, height) = (scale.pick(768, 75), scale.pick(512, 50));
    let step = 2.0 / height as f32;
    let point = |i: usize| {
        (
            (i % width) as f32 * step + LEFT,
            (i / width) as f32 * step + TOP,
        )
    };
    let want: Vec<u16> = (0..width * height).map(|i| turns_at(point(i))).collect();
    let all_turns: f64 = want.iter().map(|turns| f64::from(*turns)).sum();
    let mut work = Work::on(width * height);
    // A turn has three products, and five sums and differences.
    work.operations = Some(8.0 * all_turns);
    let turns = work.output::<u16>(width * height);
    let grid = (width.div_ceil(32), height.div_ceil(8));
    let (columns, rows, limit) = (width as i32, height as i32, i32::from(LIMIT));
    let arguments = args![turns, columns, rows, LEFT, TOP, step, limit];
    work.launch("mandelbrot", grid, (32, 8), arguments);
    work.numbers([width, height, usize::from(LIMIT)]);
    work.expect(turns, Values::exact(&want));
    work
}

fn turns_at((cx, cy): (f32, f32)) -> u16 {
    let (mut x, mut y) = (0f32, 0f32);
    for turn in 0..LIMIT {
        let (xx, yy, xy) = (x * x, y * y, x * y);
        if xx + yy > 4.0 {
            return turn;
        }
        y = xy + xy + cy;
        x = xx - yy + cx;
    }
    LIMIT
}
