//! The level of detail: selects the mipmap levels that a fetch reads, and the number of probes
//! (samples at different coordinates).

use super::{Filter, Sampler};

/// One mipmap level, or two adjacent mipmap levels whose weighted sum a fetch returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Levels {
    pub(super) first: usize,
    pub(super) second: usize,
    /// The weight of the second level, in 256ths.
    pub(super) weight: u32,
}

impl Levels {
    pub(super) const BASE: Levels = Levels {
        first: 0,
        second: 0,
        weight: 0,
    };
}

/// Returns the mipmap levels that a fetch with the level of detail `detail` reads, if the image has
/// `count` levels.
pub(super) fn levels(detail: f64, sampler: &Sampler, count: usize) -> Levels {
    let (least, greatest) = (f64::from(sampler.min_level), f64::from(sampler.max_level));
    let last = count.saturating_sub(1);
    // `max` and `min` ignore a NaN.
    let detail = (detail + f64::from(sampler.level_bias))
        .max(least)
        .min(greatest);
    let detail = detail.max(0.0).min(last as f64);
    match sampler.mipmap_filter {
        Filter::Point => {
            let nearest = (detail + 0.5).floor() as usize;
            Levels {
                first: nearest.min(last),
                ..Levels::BASE
            }
        }
        Filter::Linear => {
            let first = detail.floor();
            let weight = ((detail - first) * 256.0 + 0.5).floor() as u32;
            let first = (first as usize).min(last);
            Levels {
                first,
                second: (first + 1).min(last),
                weight,
            }
        }
    }
}

/// The probes (samples at different coordinates) of a fetch. They are distributed over the
/// footprint of the fetch: the area of the texture whose texels the fetch combines. Without
/// anisotropic filtering, there is one probe.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Footprint {
    /// The level of detail of each probe.
    pub(super) detail: f64,
    /// The number of probes of the fetch.
    pub(super) probes: u32,
    /// Whether the probes are on a line in the direction of the gradient `dx`; otherwise, the
    /// direction is `dy`.
    pub(super) along_first: bool,
}

/// Returns the footprint of a fetch with the gradients `dx` and `dy`, which are measured in texels.
/// The number of probes is at most `limit`.
pub(super) fn footprint(dx: &[f64], dy: &[f64], limit: u32) -> Footprint {
    let length = |d: &[f64]| d.iter().map(|c| c * c).sum::<f64>().sqrt();
    let (first, second) = (length(dx), length(dy));
    let (longer, shorter) = (first.max(second), first.min(second));
    let limit = f64::from(limit.clamp(1, 16));
    let wanted = (longer / shorter).ceil();
    // `wanted` is NaN if both gradients are 0 or both are infinite.
    let probes = if wanted >= 1.0 {
        wanted.min(limit)
    } else {
        1.0
    };
    Footprint {
        detail: (longer / probes).log2(),
        probes: probes as u32,
        along_first: first >= second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(mipmap_filter: Filter) -> Sampler {
        Sampler {
            mipmap_filter,
            max_level: 10.0,
            ..Sampler::default()
        }
    }

    #[test]
    fn point_takes_the_nearest_level() {
        let first = |detail| levels(detail, &sampler(Filter::Point), 5).first;
        let found: Vec<usize> = [-3.0, 0.49, 0.5, 1.49, 1.5, 3.6, 99.0]
            .into_iter()
            .map(first)
            .collect();
        assert_eq!(found, [0, 0, 1, 1, 2, 4, 4]);
        assert_eq!(first(f64::NAN), 0);
        assert_eq!(first(f64::NEG_INFINITY), 0);
    }

    #[test]
    fn linear_blends_two() {
        let of = |detail| levels(detail, &sampler(Filter::Linear), 4);
        let levels = |first, second, weight| Levels {
            first,
            second,
            weight,
        };
        assert_eq!(of(1.25), levels(1, 2, 64));
        assert_eq!(of(2.999), levels(2, 3, 256));
        assert_eq!(of(7.0), levels(3, 3, 0));
    }

    #[test]
    fn bias_and_clamps_apply() {
        let clamped = Sampler {
            level_bias: 1.0,
            min_level: 0.5,
            max_level: 2.0,
            ..sampler(Filter::Linear)
        };
        assert_eq!(levels(-4.0, &clamped, 4).weight, 128);
        assert_eq!(
            levels(0.5, &clamped, 4),
            Levels {
                first: 1,
                second: 2,
                weight: 128
            }
        );
        assert_eq!(levels(3.0, &clamped, 4).first, 2);
    }

    #[test]
    fn gradients_give_levels_and_probes() {
        let square = footprint(&[4.0, 0.0], &[0.0, 4.0], 16);
        assert_eq!((square.detail, square.probes), (2.0, 1));
        let long = footprint(&[0.0, 2.0], &[8.0, 0.0], 16);
        assert_eq!(
            (long.detail, long.probes, long.along_first),
            (1.0, 4, false)
        );
        let limited = footprint(&[16.0, 0.0], &[0.0, 1.0], 4);
        assert_eq!((limited.detail, limited.probes), (2.0, 4));
        let still = footprint(&[0.0], &[0.0], 16);
        assert_eq!((still.detail, still.probes), (f64::NEG_INFINITY, 1));
        assert_eq!(footprint(&[f64::INFINITY], &[f64::NAN], 16).probes, 1);
    }
}
