//! Pictures of the profile page: the roofline and the timeline, as SVG.

use std::collections::BTreeMap;
use std::fmt::Write;

use margay_profile::{Profile, Slice, Summary};

use crate::check::xml::escape;
use crate::profile::units::seconds;

/// A GPU in the roofline picture. The figures are those of the data sheets, for single precision without tensor cores.
struct Gpu {
    name: &'static str,
    /// Operations in a second.
    flops: f64,
    /// Bytes of global memory in a second.
    bandwidth: f64,
}

const GPUS: [Gpu; 3] = [
    Gpu {
        name: "H100 SXM",
        flops: 67e12,
        bandwidth: 3350e9,
    },
    Gpu {
        name: "A100 40 GB",
        flops: 19.5e12,
        bandwidth: 1555e9,
    },
    Gpu {
        name: "RTX 3070",
        flops: 20.3e12,
        bandwidth: 448e9,
    },
];

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 40.0;
/// The ranges of the axes, as powers of two and of ten.
const INTENSITY: (f64, f64) = (-7.0, 9.0);
const RATE: (f64, f64) = (9.0, 14.0);

fn x_of(intensity: f64) -> f64 {
    let at = (intensity.log2().clamp(INTENSITY.0, INTENSITY.1) - INTENSITY.0)
        / (INTENSITY.1 - INTENSITY.0);
    LEFT + at * (WIDTH - LEFT - 10.0)
}

fn y_of(rate: f64) -> f64 {
    let at = (rate.log10().clamp(RATE.0, RATE.1) - RATE.0) / (RATE.1 - RATE.0);
    HEIGHT - BOTTOM - at * (HEIGHT - BOTTOM - 10.0)
}

/// Returns the roofline picture: for each kernel, the operations for each byte of global memory, and the rate that these
/// permit at most on some GPUs. Returns an empty text if no kernel has both.
pub(super) fn roofline(profile: &Profile) -> String {
    let points: Vec<(usize, &str, f64)> = profile
        .kernels
        .iter()
        .enumerate()
        .filter_map(|(index, kernel)| {
            let intensity = Summary::of(kernel).intensity()?;
            (intensity > 0.0).then(|| (index, kernel.title(), intensity))
        })
        .collect();
    if points.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<section>\n<h2>Roofline</h2>\n<p class=\"soft\">A kernel whose point is on the slope is \
        limited by global memory, one on the flat part by arithmetic. The rates are upper limits: all accesses go to \
        global memory, none to caches.</p>\n",
    );
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Roofline picture\">"
    );
    axes(&mut out);
    for gpu in &GPUS {
        let ridge = gpu.flops / gpu.bandwidth;
        let start = INTENSITY.0.exp2();
        let (first, corner) = (y_of(start * gpu.bandwidth), y_of(gpu.flops));
        let _ = writeln!(
            out,
            "<polyline class=\"roof\" points=\"{:.1},{first:.1} {:.1},{corner:.1} {:.1},{corner:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            x_of(start),
            x_of(ridge),
            WIDTH - 10.0,
            WIDTH - 12.0,
            if gpu.name == "A100 40 GB" {
                corner + 14.0
            } else {
                corner - 4.0
            },
            gpu.name
        );
    }
    for (index, title, intensity) in points {
        let gpu = &GPUS[1];
        let rate = (intensity * gpu.bandwidth).min(gpu.flops);
        let (x, y) = (x_of(intensity), y_of(rate));
        let title = escape(title);
        let _ = writeln!(
            out,
            "<a href=\"#kernel-{index}\"><circle class=\"kernel-{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\">\
             <title>{title}: {intensity:.2} operations a byte, at most {:.0} Gflop/s on {}</title></circle></a>",
            index % 8,
            rate / 1e9,
            gpu.name
        );
    }
    out.push_str("</svg>\n</section>\n");
    out
}

fn axes(out: &mut String) {
    let (right, low) = (WIDTH - 10.0, HEIGHT - BOTTOM);
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{LEFT},10 V{low} H{right}\"/>\
         <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">operations for each byte of global memory</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 4.0
    );
    let mut power = INTENSITY.0;
    while power <= INTENSITY.1 {
        let value = power.exp2();
        let text = match power < 0.0 {
            true => format!("1/{}", (-power).exp2()),
            false => format!("{value}"),
        };
        let x = x_of(value);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{x:.1},10 V{low}\"/><text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{text}</text>",
            low + 16.0
        );
        power += 2.0;
    }
    let mut power = RATE.0;
    while power <= RATE.1 {
        let y = y_of(10f64.powf(power));
        let text = match power {
            9.0 => "1 Gflop/s",
            10.0 => "10 G",
            11.0 => "100 G",
            12.0 => "1 T",
            13.0 => "10 T",
            _ => "100 T",
        };
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT},{y:.1} H{right}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 6.0,
            y + 4.0
        );
        power += 1.0;
    }
}

/// The maximum number of launches in the picture of the timeline.
const SLICES: usize = 3000;

/// Returns the timeline: a row for each kernel, a bar for each launch. Returns an empty text without launches.
pub(super) fn timeline(profile: &Profile) -> String {
    let slices = &profile.timeline[..profile.timeline.len().min(SLICES)];
    let Some(end) = slices
        .iter()
        .map(|slice| slice.start + slice.seconds)
        .max_by(f64::total_cmp)
    else {
        return String::new();
    };
    let start = slices.iter().map(|slice| slice.start).fold(end, f64::min);
    let span = (end - start).max(1e-9);
    let mut rows: BTreeMap<usize, Vec<&Slice>> = BTreeMap::new();
    for slice in slices {
        let index = profile
            .kernels
            .iter()
            .position(|kernel| kernel.name == slice.kernel);
        rows.entry(index.unwrap_or(profile.kernels.len()))
            .or_default()
            .push(slice);
    }
    let height = 18 * rows.len() + 30;
    let mut out = String::from("<section>\n<h2>Timeline</h2>\n");
    let _ = writeln!(
        out,
        "<p class=\"soft\">The launches on this machine, with the profiler.{}</p>\n\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Timeline\">",
        match profile.timeline.len() > SLICES || profile.dropped_slices != 0 {
            true => " Only the first launches are shown.",
            false => "",
        }
    );
    let left = 200.0;
    let x = |time: f64| left + (time - start) / span * (WIDTH - left - 10.0);
    for (row, (index, slices)) in rows.iter().enumerate() {
        let y = 18 * row + 6;
        let title = profile
            .kernels
            .get(*index)
            .map_or("", |kernel| kernel.title());
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 10,
            escape(&short(title))
        );
        for slice in slices {
            let width = (slice.seconds / span * (WIDTH - left - 10.0)).max(0.5);
            let _ = writeln!(
                out,
                "<rect class=\"kernel-{}\" x=\"{:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"12\">\
                 <title>{}: {} at {}</title></rect>",
                index % 8,
                x(slice.start),
                escape(title),
                seconds(slice.seconds),
                seconds(slice.start)
            );
        }
    }
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{left},{0} H{1}\"/><text x=\"{left}\" y=\"{2}\">{3}</text>\
         <text x=\"{1}\" y=\"{2}\" text-anchor=\"end\">{4}</text>\n</svg>\n</section>",
        height - 20,
        WIDTH - 10.0,
        height - 5,
        seconds(start),
        seconds(end)
    );
    out
}

/// Returns the name of a kernel without its parameters, with at most 28 characters.
fn short(title: &str) -> String {
    let name = match title.find('(') {
        Some(end) if end > 0 => &title[..end],
        _ => title,
    };
    let name = name.strip_prefix("void ").unwrap_or(name);
    match name.chars().count() > 28 {
        true => name.chars().take(27).chain(['\u{2026}']).collect(),
        false => name.to_owned(),
    }
}
