//! Level 1.

use half::{bf16, f16};
use margay_blas::level1::{self, IndexAt, Input, Pair, Rotg, Rotmg};
use margay_blas::level1_ex::{self, AnyPlace, AnyVector};
use margay_blas::{AnyScalar, Complex, Conjugation, DataType, Element, Plan, Real, Scalar};

use crate::exact::Exact;
use crate::run::{Random, nan, results};

/// Lengths beside the sizes of loops, blocks and tasks.
const LENGTHS: [usize; 11] = [0, 1, 2, 31, 32, 33, 257, 1000, 4096, 4097, 70_001];

/// A vector of n elements with an increment, NaN between the elements.
struct Vector<T> {
    memory: Vec<T>,
    n: usize,
    increment: i64,
}

impl<T: Element> Vector<T> {
    fn random(random: &mut Random, n: usize, increments: &[i64]) -> Vector<T> {
        let increment = random.pick(increments);
        let step = increment.unsigned_abs() as usize;
        let length = if n == 0 { 0 } else { 1 + (n - 1) * step };
        let memory = (0..length)
            .map(|index| {
                if index % step == 0 {
                    random.value()
                } else {
                    nan()
                }
            })
            .collect();
        Vector {
            memory,
            n,
            increment,
        }
    }

    fn place(&self, index: usize) -> usize {
        let step = self.increment.unsigned_abs() as usize;
        if self.increment < 0 {
            (self.n - 1 - index) * step
        } else {
            index * step
        }
    }

    fn at(&self, memory: &[T], index: usize) -> T {
        memory[self.place(index)]
    }

    fn exact(&self, index: usize) -> Exact {
        Exact::of(self.at(&self.memory, index))
    }

    fn input(&self) -> Input<T> {
        Input {
            n: self.n,
            x: self.memory.as_ptr(),
            incx: self.increment,
        }
    }

    fn check_gaps(&self, memory: &[T]) {
        for (index, value) in memory.iter().enumerate() {
            assert!(
                index.is_multiple_of(self.increment.unsigned_abs() as usize)
                    || value.wide().re.is_nan()
            );
        }
    }
}

const ANY: [i64; 6] = [1, 1, 2, 7, -1, -3];
const POSITIVE: [i64; 4] = [1, 1, 2, 5];

fn reductions<T: Element>(random: &mut Random, n: usize) {
    let (x, y) = (
        Vector::<T>::random(random, n, &ANY),
        Vector::<T>::random(random, n, &ANY),
    );
    for conjugation in [Conjugation::Plain, Conjugation::Conjugate] {
        let got = results(&[nan::<T>()], |result| {
            let pair = Pair {
                n,
                x: x.memory.as_ptr().cast_mut(),
                incx: x.increment,
                y: y.memory.as_ptr().cast_mut(),
                incy: y.increment,
            };
            // SAFETY: the vectors live until the plan has run.
            unsafe { level1::dot(pair, conjugation, result) }
        });
        let want: Exact = (0..n)
            .map(|i| x.exact(i).conj_if(conjugation == Conjugation::Conjugate) * y.exact(i))
            .sum();
        want.check(got[0], 12.0, format_args!("dot of {n}"));
    }

    let x = Vector::<T>::random(random, n, &POSITIVE);
    let magnitude = |i: usize| {
        let value = x.at(&x.memory, i).wide();
        value.re.abs() + value.im.abs()
    };
    let asum = results(&[nan::<T::Real>()], |result| {
        // SAFETY: as above.
        unsafe { level1::asum(x.input(), result) }
    });
    (0..n)
        .map(|i| Exact::of(magnitude(i)))
        .sum::<Exact>()
        .check(asum[0], 12.0, format_args!("asum of {n}"));
    let nrm2 = results(&[nan::<T::Real>()], |result| {
        // SAFETY: as above.
        unsafe { level1::nrm2(x.input(), result) }
    });
    let squares: Exact = (0..n).map(|i| x.exact(i) * x.exact(i).conj()).sum();
    let norm = nrm2[0].to_f64();
    let relative = (norm * norm - squares.wide().re).abs() / squares.size.max(1e-300);
    assert!(
        relative < 12.0 * T::Real::EPSILON.to_f64(),
        "nrm2 of {n}: {relative}"
    );

    // In single precision, the magnitude is rounded.
    let rounded = |i: usize| {
        let value = x.at(&x.memory, i);
        (value.re().abs() + value.im().abs()).to_f64()
    };
    let largest = (0..n).rev().fold(None, |best: Option<usize>, i| {
        if best.is_none_or(|best| rounded(i) >= rounded(best)) {
            Some(i)
        } else {
            best
        }
    });
    let smallest = (0..n).rev().fold(None, |best: Option<usize>, i| {
        if best.is_none_or(|best| rounded(i) <= rounded(best)) {
            Some(i)
        } else {
            best
        }
    });
    // SAFETY: as above.
    let found = |smallest| {
        // SAFETY: the vectors have as many elements.
        index(|at| unsafe {
            if smallest {
                level1::iamin(x.input(), at)
            } else {
                level1::iamax(x.input(), at)
            }
        })
    };
    assert_eq!(
        found(false),
        largest.map_or(0, |index| index + 1),
        "iamax of {n}"
    );
    assert_eq!(
        found(true),
        smallest.map_or(0, |index| index + 1),
        "iamin of {n}"
    );
}

/// The index that a plan writes, in both widths.
fn index(mut plan: impl FnMut(IndexAt) -> Plan) -> usize {
    let (mut narrow, mut wide) = (-1i32, -1i64);
    plan(IndexAt::I32(&mut narrow)).run();
    plan(IndexAt::I64(&mut wide)).run();
    assert_eq!(i64::from(narrow), wide);
    wide as usize
}

#[test]
fn reductions_equal_exact_sums() {
    let mut random = Random::new(10);
    for n in LENGTHS {
        reductions::<f32>(&mut random, n);
        reductions::<f64>(&mut random, n);
        reductions::<Complex<f32>>(&mut random, n);
        reductions::<Complex<f64>>(&mut random, n);
    }
}

fn nrm2_of<T: Element>(values: &[T]) -> f64 {
    let mut result = T::Real::ZERO;
    // SAFETY: the vector lives until the plan has run.
    unsafe {
        level1::nrm2(
            Input {
                n: values.len(),
                x: values.as_ptr(),
                incx: 1,
            },
            &mut result,
        )
    }
    .run();
    result.to_f64()
}

#[test]
fn nrm2_neither_overflows_nor_underflows() {
    let close = |got: f64, want: f64| {
        assert!(
            (got / want - 1.0).abs() < 1e-15,
            "{got:e} instead of {want:e}"
        )
    };
    close(nrm2_of(&[3e200, 4e200]), 5e200);
    close(nrm2_of(&[3e-200, 4e-200]), 5e-200);
    close(nrm2_of(&[1.7e308]), 1.7e308);
    close(nrm2_of(&[5e-324; 4]), 1e-323);
    close(nrm2_of(&[3e200, 1.0, 4e200, 1e-300]), 5e200);
    close(
        nrm2_of(&[Complex::new(3e-310, 0.0), Complex::new(0.0, 4e-310)]),
        5e-310,
    );
    // Blocks with different scales.
    let mut values = vec![0.0; 100_000];
    (values[5], values[50_000], values[99_999]) = (3e-200, 4e-200, 1e-290);
    close(nrm2_of(&values), 5e-200);
    (values[10_000], values[90_000]) = (6e250, 8e250);
    close(nrm2_of(&values), 1e251);
    assert_eq!(nrm2_of(&[3e30f32, 4e30]), f64::from(5e30f32));
    assert_eq!(nrm2_of(&[3e-44f32, 4e-44]), f64::from(5.044674e-44f32));
    assert_eq!(nrm2_of(&[f32::MAX, f32::MAX]), f64::INFINITY);
    assert_eq!(nrm2_of(&[1.0, f64::NEG_INFINITY]), f64::INFINITY);
    assert!(nrm2_of(&[f64::INFINITY, f64::NAN]).is_nan());
    assert!(nrm2_of(&[0.0, f64::NAN]).is_nan());
    assert_eq!(nrm2_of::<f64>(&[0.0; 7]), 0.0);
}

#[test]
fn extremes_follow_their_rules() {
    let of = |values: &[f32], incx: i64| {
        let input = Input {
            n: values.len(),
            x: values.as_ptr(),
            incx,
        };
        // SAFETY: the vector lives until the plans have run.
        unsafe {
            (
                index(|at| level1::iamax(input, at)),
                index(|at| level1::iamin(input, at)),
            )
        }
    };
    let nan = f32::NAN;
    assert_eq!(of(&[1.0, -3.0, 3.0, 0.5, -0.5], 1), (2, 4));
    assert_eq!(of(&[2.0, nan, 1.0, 5.0], 1), (4, 3));
    assert_eq!(of(&[nan, 1.0, 5.0], 1), (1, 1));
    assert_eq!(of(&[nan, nan], 1), (1, 1));
    assert_eq!(of(&[f32::INFINITY, 1.0, f32::NEG_INFINITY], 1), (1, 2));
    assert_eq!(of(&[f32::INFINITY, f32::INFINITY], 1), (1, 1));
    assert_eq!(of(&[0.0, -0.0], 1), (1, 1));
    assert_eq!(of(&[1.0, 2.0], 0), (0, 0));
    assert_eq!(of(&[1.0, 2.0], -1), (0, 0));
    assert_eq!(of(&[], 1), (0, 0));
    let mut many = vec![1.0f32; 100_000];
    (many[77_777], many[88_888], many[3]) = (-2.0, 2.0, nan);
    (many[66_666], many[99_999]) = (0.25, -0.25);
    assert_eq!(of(&many, 1), (77_778, 66_667));
    // The magnitude of complex numbers is |re| + |im|.
    let complex = [
        Complex::new(3.0, 3.0),
        Complex::new(5.0, 0.0),
        Complex::new(0.0, -6.5),
    ];
    let input = Input {
        n: 3,
        x: complex.as_ptr(),
        incx: 1,
    };
    // SAFETY: as above.
    assert_eq!(index(|at| unsafe { level1::iamax(input, at) }), 3);
    // SAFETY: as above.
    assert_eq!(index(|at| unsafe { level1::iamin(input, at) }), 2);
}

fn elementwise<T: Element>(random: &mut Random, n: usize) {
    let (x, y) = (
        Vector::<T>::random(random, n, &ANY),
        Vector::<T>::random(random, n, &ANY),
    );
    let alpha = random.value::<T>();
    let (c, s) = (random.value::<T>().re(), random.value::<T>());
    let (exact_c, exact_s) = (Exact::of(c), Exact::of(s));
    let exact_alpha = Exact::of(alpha);
    let split = x.memory.len();
    let both: Vec<T> = x.memory.iter().chain(&y.memory).copied().collect();
    // Runs a routine on copies of both vectors, and compares each element with two formulas.
    let check = |name: &str,
                 plan: &dyn Fn(Pair<T>) -> Plan,
                 new_x: &dyn Fn(Exact, Exact) -> Exact,
                 new_y: &dyn Fn(Exact, Exact) -> Exact| {
        let got = results(&both, |memory| {
            plan(Pair {
                n,
                x: memory,
                incx: x.increment,
                y: memory.wrapping_add(split),
                incy: y.increment,
            })
        });
        let (got_x, got_y) = got.split_at(split);
        for i in 0..n {
            let (old_x, old_y) = (x.exact(i), y.exact(i));
            new_x(old_x, old_y).check(x.at(got_x, i), 4.0, format_args!("{name}: x of {n}"));
            new_y(old_x, old_y).check(y.at(got_y, i), 4.0, format_args!("{name}: y of {n}"));
        }
        x.check_gaps(got_x);
        y.check_gaps(got_y);
    };
    let keep = |x: Exact, _: Exact| x;
    let other = |_: Exact, y: Exact| y;
    // SAFETY: the vectors live until the plans have run.
    unsafe {
        check(
            "axpy",
            &|pair| level1::axpy(Scalar::At(&alpha), pair),
            &keep,
            &|x, y| exact_alpha * x + y,
        );
        check("copy", &|pair| level1::copy(pair), &keep, &|x, _| x);
        check("swap", &|pair| level1::swap(pair), &other, &|x, _| x);
        check(
            "rot",
            &|pair| level1::rot(pair, Scalar::Value(c), Scalar::At(&s)),
            &|x, y| exact_c * x + exact_s * y,
            &|x, y| exact_c * y - exact_s.conj() * x,
        );
        let real_s = s.re();
        let exact_real_s = Exact::of(real_s);
        check(
            "rot_real",
            &|pair| level1::rot_real(pair, Scalar::Value(c), Scalar::Value(real_s)),
            &|x, y| exact_c * x + exact_real_s * y,
            &|x, y| exact_c * y - exact_real_s * x,
        );
    }
    let x = Vector::<T>::random(random, n, &POSITIVE);
    // SAFETY: as above.
    let got = results(&x.memory, |memory| unsafe {
        level1::scal(Scalar::Value(alpha), n, memory, x.increment)
    });
    // SAFETY: as above.
    let got_real = results(&x.memory, |memory| unsafe {
        level1::scal_real(Scalar::Value(c), n, memory, x.increment)
    });
    for i in 0..n {
        (exact_alpha * x.exact(i)).check(x.at(&got, i), 2.0, "scal");
        (exact_c * x.exact(i)).check(x.at(&got_real, i), 2.0, "scal_real");
    }
    x.check_gaps(&got);
}

#[test]
fn elementwise_routines() {
    let mut random = Random::new(11);
    for n in [0, 1, 2, 33, 1000, 20_001] {
        elementwise::<f32>(&mut random, n);
        elementwise::<f64>(&mut random, n);
        elementwise::<Complex<f32>>(&mut random, n);
        elementwise::<Complex<f64>>(&mut random, n);
    }
}

#[test]
fn increments_of_zero_and_factors_of_zero() {
    let (mut x, mut y) = ([2.0f64, 3.0], [10.0f64]);
    let pair = Pair {
        n: 3,
        x: x.as_mut_ptr(),
        incx: 0,
        y: y.as_mut_ptr(),
        incy: 0,
    };
    // SAFETY: the vectors live until the plans have run.
    unsafe {
        level1::axpy(Scalar::Value(1.0), pair).run();
        assert_eq!(y, [16.0]);
        let mut nans = [f64::NAN; 2];
        level1::axpy(
            Scalar::Value(0.0),
            Pair {
                n: 2,
                x: nans.as_mut_ptr(),
                incx: 1,
                y: x.as_mut_ptr(),
                incy: 1,
            },
        )
        .run();
        assert_eq!(x, [2.0, 3.0]);
        level1::scal(Scalar::Value(0.0), 2, nans.as_mut_ptr(), 1).run();
        assert!(nans.iter().all(|value| value.is_nan()));
        level1::scal(Scalar::Value(0.0), 2, x.as_mut_ptr(), 0).run();
        level1::scal(Scalar::Value(0.0), 2, x.as_mut_ptr(), -1).run();
        assert_eq!(x, [2.0, 3.0]);
    }
}

/// [r, z, c, s] of a rotation.
fn rotg<T: Element>(a: T, b: T) -> (T, T, T::Real, T) {
    let (mut a, mut b, mut c, mut s) = (a, b, T::Real::ZERO, T::ZERO);
    // SAFETY: the operands live until the plan has run.
    unsafe {
        level1::rotg(Rotg {
            a: &mut a,
            b: &mut b,
            c: &mut c,
            s: &mut s,
        })
    }
    .run();
    (a, b, c, s)
}

#[test]
fn rotations_are_constructed() {
    assert_eq!(rotg(0.0, 0.0), (0.0, 0.0, 1.0, 0.0));
    assert_eq!(rotg(3.0, 4.0), (5.0, 1.0 / 0.6, 0.6, 0.8));
    assert_eq!(rotg(-4.0, 3.0), (-5.0, -0.6, 0.8, -0.6));
    assert_eq!(rotg(0.0, -2.0), (-2.0, 1.0, 0.0, 1.0));
    assert_eq!(rotg(2.0, 0.0), (2.0, 0.0, 1.0, 0.0));
    assert!((rotg(3e200, 4e200).0 / 5e200 - 1.0).abs() < 1e-15);
    assert!((rotg(3e-310, 4e-310).0 / 5e-310 - 1.0).abs() < 1e-13);
    assert_eq!(rotg(3e30f32, 4e30).0, 5e30);
    let (i, zero) = (Complex::new(0.0, 1.0), Complex::new(0.0, 0.0));
    assert_eq!(rotg(zero, i), (i, i, 0.0, Complex::new(1.0, 0.0)));
    assert_eq!(
        rotg(Complex::new(0.0, 3.0), Complex::new(4.0, 0.0)),
        (
            Complex::new(0.0, 5.0),
            Complex::new(4.0, 0.0),
            0.6,
            Complex::new(0.0, 0.8)
        )
    );
    let (r, _, c, s) = rotg(Complex::new(1e-320, 0.0), Complex::new(2.0, 1.0));
    assert!(
        c < 1e-310 && (s.re.hypot(s.im) - 1.0).abs() < 1e-15 && (r.re - 5f64.sqrt()).abs() < 1e-15
    );
    let mut random = Random::new(12);
    for _ in 0..50 {
        let (a, b) = (
            random.value::<Complex<f64>>(),
            random.value::<Complex<f64>>(),
        );
        let (r, _, c, s) = rotg(a, b);
        // c a + s b = r; -conj(s) a + c b = 0; c^2 + |s|^2 = 1.
        let exact = |value| Exact::of::<Complex<f64>>(value);
        let c_exact = Exact::of(c);
        (c_exact * exact(a) + exact(s) * exact(b)).check(r, 8.0, "r");
        (c_exact * exact(b) - exact(s).conj() * exact(a)).check(zero, 8.0, "zero");
        (c_exact * c_exact + exact(s) * exact(s).conj()).check(1.0, 8.0, "one");
    }
}

/// d1, d2, x1 and the parameters after the construction.
fn rotmg<T: Real>(d1: T, d2: T, x1: T, y1: T) -> ([T; 3], [T; 5]) {
    let (mut d1, mut d2, mut x1) = (d1, d2, x1);
    let mut param = [T::from_f64(9.0); 5];
    // SAFETY: the operands live until the plan has run.
    unsafe {
        level1::rotmg(Rotmg {
            d1: &mut d1,
            d2: &mut d2,
            x1: &mut x1,
            y1: &y1,
            param: param.as_mut_ptr(),
        })
    }
    .run();
    ([d1, d2, x1], param)
}

#[test]
fn modified_rotations() {
    assert_eq!(
        rotmg(-1.0, 1.0, 1.0, 1.0),
        ([0.0; 3], [-1.0, 0.0, 0.0, 0.0, 0.0])
    );
    assert_eq!(
        rotmg(1.0, 1.0, 2.0, 0.0),
        ([1.0, 1.0, 2.0], [-2.0, 9.0, 9.0, 9.0, 9.0])
    );
    assert_eq!(
        rotmg(1.0, 1.0, 2.0, 1.0),
        ([0.8, 0.8, 2.5], [0.0, 9.0, -0.5, 0.5, 9.0])
    );
    assert_eq!(
        rotmg(1.0, 1.0, 1.0, 2.0),
        ([0.8, 0.8, 2.5], [1.0, 0.5, 9.0, 9.0, 0.5])
    );
    assert_eq!(
        rotmg(1.0, -1.0, 1.0, 2.0),
        ([0.0; 3], [-1.0, 0.0, 0.0, 0.0, 0.0])
    );
    let mut random = Random::new(13);
    for exponent in -20..20 {
        let factor = 8f64.powi(exponent);
        let (d1, d2, x, y) = (
            random.real().abs() * factor,
            random.real().abs() / factor,
            random.real(),
            random.real(),
        );
        let ([new_d1, new_d2, new_x], param) = rotmg(d1, d2, x, y);
        assert!(
            (6e-8..1.7e7).contains(&new_d1) && (6e-8..1.7e7).contains(&new_d2.abs()),
            "{new_d1} {new_d2}"
        );
        // The rotation maps (x, y) to (new_x, 0), and keeps d1 x^2 + d2 y^2.
        let (mut xs, mut ys) = ([x], [y]);
        let pair = Pair {
            n: 1,
            x: xs.as_mut_ptr(),
            incx: 1,
            y: ys.as_mut_ptr(),
            incy: 1,
        };
        // SAFETY: the vectors live until the plan has run.
        unsafe { level1::rotm(pair, param.as_ptr()) }.run();
        assert!((xs[0] / new_x - 1.0).abs() < 1e-12);
        assert!(ys[0].abs() < 1e-12 * (param.iter().fold(0.0f64, |a, b| a.max(b.abs()))));
        let (before, after) = (d1 * x * x + d2 * y * y, new_d1 * new_x * new_x);
        assert!((after / before - 1.0).abs() < 1e-12, "{before} {after}");
    }
    // Each flag.
    for (param, want) in [
        ([-2.0, 9.0, 9.0, 9.0, 9.0], (1.0, 10.0)),
        ([-1.0, 2.0, 3.0, 4.0, 5.0], (42.0, 53.0)),
        ([0.0, 9.0, 3.0, 4.0, 9.0], (41.0, 13.0)),
        ([1.0, 2.0, 9.0, 9.0, 5.0], (12.0, 49.0)),
    ] {
        let (mut x, mut y) = ([1.0f32], [10.0f32]);
        let pair = Pair {
            n: 1,
            x: x.as_mut_ptr(),
            incx: 1,
            y: y.as_mut_ptr(),
            incy: 1,
        };
        // SAFETY: the vectors live until the plan has run.
        unsafe { level1::rotm(pair, param.as_ptr()) }.run();
        assert_eq!((x[0], y[0]), want);
    }
}

fn vector<T>(values: &mut [T], kind: DataType) -> AnyVector {
    AnyVector {
        data: values.as_mut_ptr().cast(),
        kind,
        increment: 1,
    }
}

fn place<T>(value: &mut T, kind: DataType) -> AnyPlace {
    AnyPlace {
        data: (&raw mut *value).cast(),
        kind,
    }
}

#[test]
fn half_precision_vectors_compute_in_single_precision() {
    use DataType::{R16BF, R16F, R32F};
    let mut x: Vec<f16> = [1.0, 2.0, -3.0, 1024.0].map(f16::from_f32).to_vec();
    let mut y: Vec<f16> = [0.5, 0.25, 2.0, 0.001].map(f16::from_f32).to_vec();
    let mut result = f16::NAN;
    // SAFETY: the vectors live until the plans have run.
    unsafe {
        level1_ex::dot(
            4,
            vector(&mut x, R16F),
            vector(&mut y, R16F),
            Conjugation::Plain,
            place(&mut result, R16F),
            R32F,
        )
        .unwrap()
        .run();
        assert_eq!(
            result,
            f16::from_f32(-5.0 + 1024.0 * f16::from_f32(0.001).to_f32())
        );
        level1_ex::nrm2(4, vector(&mut x, R16F), place(&mut result, R16F), R32F)
            .unwrap()
            .run();
        assert_eq!(result, f16::from_f32((14.0f32 + 1024.0 * 1024.0).sqrt()));
        level1_ex::asum(4, vector(&mut x, R16F), place(&mut result, R16F), R32F)
            .unwrap()
            .run();
        assert_eq!(result, f16::from_f32(1030.0));
        let alpha = AnyScalar::Value(Complex::new(2.0, 0.0));
        level1_ex::axpy(
            4,
            alpha,
            R32F,
            vector(&mut x, R16F),
            vector(&mut y, R16F),
            R32F,
        )
        .unwrap()
        .run();
        assert_eq!(y, [2.5, 4.25, -4.0, 2048.0].map(f16::from_f32));
        level1_ex::scal(4, alpha, R32F, vector(&mut y, R16F), R32F)
            .unwrap()
            .run();
        assert_eq!(y, [5.0, 8.5, -8.0, 4096.0].map(f16::from_f32));
        assert_eq!(
            index(|at| level1_ex::iamax(4, vector(&mut x, R16F), at).unwrap()),
            4
        );
        assert_eq!(
            index(|at| level1_ex::iamin(4, vector(&mut x, R16F), at).unwrap()),
            1
        );
        level1_ex::swap(4, vector(&mut x, R16F), vector(&mut y, R16F))
            .unwrap()
            .run();
        assert_eq!(x[3], f16::from_f32(4096.0));
        level1_ex::copy(4, vector(&mut x, R16F), vector(&mut y, R16F))
            .unwrap()
            .run();
        assert_eq!(x, y);
        let (mut a, mut b, mut c, mut s) = (
            bf16::from_f32(3.0),
            bf16::from_f32(4.0),
            bf16::ZERO,
            bf16::ZERO,
        );
        level1_ex::rotg(
            place(&mut a, R16BF),
            place(&mut b, R16BF),
            place(&mut c, R16BF),
            place(&mut s, R16BF),
            R32F,
        )
        .unwrap()
        .run();
        assert_eq!([a, c, s], [5.0, 0.6, 0.8].map(bf16::from_f32));
        let (mut x, mut y) = (vec![bf16::from_f32(1.0)], vec![bf16::from_f32(2.0)]);
        let half = AnyScalar::Value(Complex::new(0.5, 0.0));
        level1_ex::rot(
            1,
            vector(&mut x, R16BF),
            vector(&mut y, R16BF),
            half,
            alpha,
            R16BF,
            R32F,
        )
        .unwrap()
        .run();
        assert_eq!((x[0].to_f32(), y[0].to_f32()), (4.5, -1.0));
        let mut param = [0.0, 9.0, 3.0, 4.0, 9.0].map(bf16::from_f32);
        level1_ex::rotm(
            1,
            vector(&mut x, R16BF),
            vector(&mut y, R16BF),
            place(&mut param, R16BF),
            R32F,
        )
        .unwrap()
        .run();
        assert_eq!((x[0].to_f32(), y[0].to_f32()), (0.5, 12.5));
        let [mut d1, mut d2, mut x1, mut y1] = [1.0, 1.0, 2.0, 1.0].map(bf16::from_f32);
        let places = [&mut d1, &mut d2, &mut x1, &mut y1].map(|value| place(value, R16BF));
        level1_ex::rotmg(
            places[0],
            places[1],
            places[2],
            places[3],
            place(&mut param, R16BF),
            R32F,
        )
        .unwrap()
        .run();
        assert_eq!(param.map(bf16::to_f32), [0.0, 9.0, -0.5, 0.5, 9.0]);
        assert_eq!(x1.to_f32(), 2.5);
    }
}

#[test]
fn undocumented_types_are_refused() {
    use DataType::{C32F, R8I, R16BF, R16F, R32F, R64F};
    let mut x = [0.0f64; 4];
    let mut result = 0.0;
    // SAFETY: no plan runs.
    unsafe {
        assert!(
            level1_ex::dot(
                1,
                vector(&mut x, R16F),
                vector(&mut x, R16BF),
                Conjugation::Plain,
                place(&mut result, R16F),
                R32F
            )
            .is_none()
        );
        assert!(
            level1_ex::dot(
                1,
                vector(&mut x, R16F),
                vector(&mut x, R16F),
                Conjugation::Plain,
                place(&mut result, R16F),
                R16F
            )
            .is_none()
        );
        assert!(level1_ex::nrm2(1, vector(&mut x, C32F), place(&mut result, C32F), C32F).is_none());
        assert!(
            level1_ex::axpy(
                1,
                AnyScalar::Value(Complex::new(1.0, 0.0)),
                R64F,
                vector(&mut x, R32F),
                vector(&mut x, R32F),
                R32F
            )
            .is_none()
        );
        assert!(level1_ex::iamax(1, vector(&mut x, R8I), IndexAt::I32(&mut 0)).is_none());
        assert!(level1_ex::copy(1, vector(&mut x, R32F), vector(&mut x, R64F)).is_none());
        assert!(
            level1_ex::rotm(
                1,
                vector(&mut x, C32F),
                vector(&mut x, C32F),
                place(&mut result, C32F),
                C32F
            )
            .is_none()
        );
    }
}
