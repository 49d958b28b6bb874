//! From random bits to numbers of a distribution.

use std::f32::consts::TAU as TAU32;
use std::f64::consts::PI;

/// 2^-32.
const STEP: f32 = 1.0 / 4_294_967_296.0;
/// 2^-32.
const STEP32: f64 = 1.0 / 4_294_967_296.0;
/// 2^-53.
const STEP53: f64 = 1.0 / 9_007_199_254_740_992.0;

/// A uniform number from 32 bits.
pub(crate) fn uniform(bits: u32) -> f32 {
    bits as f32 * STEP + STEP / 2.0
}

/// A uniform number from 32 bits.
pub(crate) fn uniform_double(bits: u32) -> f64 {
    f64::from(bits) * STEP32 + STEP32
}

/// A uniform number from 32 bits, in the middle of its interval, rounded once.
pub(crate) fn uniform_centre_single(bits: u32) -> f32 {
    uniform_centre(bits) as f32
}

/// A uniform number from 32 bits, in the middle of its interval.
pub(crate) fn uniform_centre(bits: u32) -> f64 {
    f64::from(bits) * STEP32 + STEP32 / 2.0
}

/// A uniform number from the upper 53 of 64 bits.
pub(crate) fn uniform_long(bits: u64) -> f64 {
    (bits >> 11) as f64 * STEP53 + STEP53 / 2.0
}

/// A uniform number from 53 of the bits of two words.
pub(crate) fn uniform_two(x: u32, y: u32) -> f64 {
    (u64::from(x) ^ (u64::from(y) << 21)) as f64 * STEP53 + STEP53 / 2.0
}

/// Two normal numbers from a radius in (0, 1] and an angle.
pub(crate) fn polar(radius: f32, angle: f32) -> [f32; 2] {
    let s = (-2.0 * radius.ln()).sqrt();
    let (sine, cosine) = angle.sin_cos();
    [sine * s, cosine * s]
}

/// Two normal numbers from two words by the method of Box and Muller.
pub(crate) fn normal_two(x: u32, y: u32) -> [f32; 2] {
    const TURN: f32 = STEP * TAU32;
    polar(uniform(x), y as f32 * TURN + TURN / 2.0)
}

/// Two normal numbers from a radius in (0, 1] and an angle in half turns.
pub(crate) fn polar_double(radius: f64, half_turns: f64) -> [f64; 2] {
    let s = (-2.0 * radius.ln()).sqrt();
    let (sine, cosine) = (half_turns * PI).sin_cos();
    [sine * s, cosine * s]
}

/// Two normal numbers from four words by the method of Box and Muller.
pub(crate) fn normal_four(x: [u32; 2], y: [u32; 2]) -> [f64; 2] {
    let angle = (u64::from(y[0]) ^ (u64::from(y[1]) << 21)) as f64 * (2.0 * STEP53) + STEP53;
    polar_double(uniform_two(x[0], x[1]), angle)
}

/// A normal number from 32 bits, by the inverse of the distribution function.
pub(crate) fn inverse(bits: u32) -> f32 {
    let mirrored = bits > 0x8000_0000;
    let bits = if mirrored { !bits } else { bits };
    let p = bits as f32 * STEP + STEP / 2.0;
    let z = quantile(f64::from(p)) as f32;
    if mirrored { -z } else { z }
}

/// The same with results of double precision.
pub(crate) fn inverse_double(bits: u32) -> f64 {
    let mirrored = bits > 0x8000_0000;
    let bits = if mirrored { !bits } else { bits };
    let z = quantile(f64::from(bits) * STEP32 + STEP32 / 2.0);
    if mirrored { -z } else { z }
}

/// The same with the upper 53 of 64 bits.
pub(crate) fn inverse_long(bits: u64) -> f64 {
    const HALF: u64 = 1 << 52;
    let bits = bits >> 11;
    let mirrored = bits > HALF;
    let bits = if mirrored { 2 * HALF - 1 - bits } else { bits };
    let z = quantile(bits as f64 * STEP53 + STEP53 / 2.0);
    if mirrored { -z } else { z }
}

/// Evaluates a polynomial; the coefficient of the highest power comes first.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// The quantile function of the standard normal distribution (algorithm AS 241 of the journal Applied Statistics, relative
/// error about 1e-16).
pub(crate) fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * polynomial(r, &CENTRE[0]) / polynomial(r, &CENTRE[1]);
    }
    let r = (-(if q < 0.0 { p } else { 1.0 - p }).ln()).sqrt();
    let z = if r <= 5.0 {
        polynomial(r - 1.6, &MIDDLE[0]) / polynomial(r - 1.6, &MIDDLE[1])
    } else {
        polynomial(r - 5.0, &TAIL[0]) / polynomial(r - 5.0, &TAIL[1])
    };
    if q < 0.0 { -z } else { z }
}

/// Numerator and denominator around 0.
const CENTRE: [[f64; 8]; 2] = [
    [
        2.509_080_928_730_122_7e3,
        3.343_057_558_358_813e4,
        6.726_577_092_700_87e4,
        4.592_195_393_154_987e4,
        1.373_169_376_550_946e4,
        1.971_590_950_306_551_3e3,
        1.331_416_678_917_843_8e2,
        3.387_132_872_796_366_5,
    ],
    [
        5.226_495_278_852_854e3,
        2.872_908_573_572_194_3e4,
        3.930_789_580_009_271e4,
        2.121_379_430_158_659_7e4,
        5.394_196_021_424_751e3,
        6.871_870_074_920_579e2,
        4.231_333_070_160_091e1,
        1.0,
    ],
];
/// Between 0 and the tail.
const MIDDLE: [[f64; 8]; 2] = [
    [
        7.745_450_142_783_414e-4,
        2.272_384_498_926_918_4e-2,
        2.417_807_251_774_506e-1,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_546,
        1.423_437_110_749_683_5,
    ],
    [
        1.050_750_071_644_416_9e-9,
        5.475_938_084_995_345e-4,
        1.519_866_656_361_645_7e-2,
        1.481_039_764_274_800_8e-1,
        6.897_673_349_851e-1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
];
/// In the tail.
const TAIL: [[f64; 8]; 2] = [
    [
        2.010_334_399_292_288_1e-7,
        2.711_555_568_743_487_6e-5,
        1.242_660_947_388_078_4e-3,
        2.653_218_952_657_612_4e-2,
        2.965_605_718_285_048_7e-1,
        1.784_826_539_917_291_3,
        5.463_784_911_164_114,
        6.657_904_643_501_103,
    ],
    [
        2.044_263_103_389_939_8e-15,
        1.421_511_758_316_446e-7,
        1.846_318_317_510_054_8e-5,
        7.868_691_311_456_133e-4,
        1.487_536_129_085_061_5e-2,
        1.369_298_809_227_358e-1,
        5.998_322_065_558_88e-1,
        1.0,
    ],
];
