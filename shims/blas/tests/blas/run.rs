//! Random operands, and plans that run in several orders.

use std::sync::atomic::{AtomicU32, Ordering};

use margay_blas::{Complex, Diagonal, Element, Operation, Plan, Scalar, Side, Stage, Triangle};

pub(crate) const OPERATIONS: [Operation; 4] = [
    Operation::None,
    Operation::Transpose,
    Operation::Adjoint,
    Operation::Conjugate,
];
pub(crate) const TRIANGLES: [Triangle; 2] = [Triangle::Lower, Triangle::Upper];
pub(crate) const SIDES: [Side; 2] = [Side::Left, Side::Right];
pub(crate) const DIAGONALS: [Diagonal; 2] = [Diagonal::Stored, Diagonal::Unit];

/// A generator of random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.bits() >> 32) as usize % limit
    }

    pub(crate) fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// A number from -1 to 1.
    pub(crate) fn real(&mut self) -> f64 {
        (self.bits() >> 12) as f64 / (1u64 << 51) as f64 - 1.0
    }

    pub(crate) fn value<T: Element>(&mut self) -> T {
        T::from_wide(Complex::new(self.real(), self.real()))
    }

    pub(crate) fn values<T: Element>(&mut self, count: usize) -> Vec<T> {
        (0..count).map(|_| self.value()).collect()
    }

    /// A factor: 0, 1 or any number.
    pub(crate) fn factor<T: Element>(&mut self) -> T {
        match self.below(4) {
            0 => T::ZERO,
            1 => T::ONE,
            _ => self.value(),
        }
    }

    /// A dimension: small numbers, those beside the sizes of tiles, and some large ones.
    pub(crate) fn size(&mut self) -> usize {
        match self.below(6) {
            0 => self.below(3),
            1 | 2 => self.below(20),
            3 => [12, 16, 32, 33, 47, 48, 64, 65][self.below(8)],
            _ => self.below(90),
        }
    }

    /// A column-major matrix with NaN between its columns, and its leading dimension.
    pub(crate) fn matrix<T: Element>(&mut self, rows: usize, columns: usize) -> (Vec<T>, usize) {
        let ld = rows.max(1) + self.below(4);
        let values = (0..ld * columns)
            .map(|index| {
                if index % ld < rows {
                    self.value()
                } else {
                    nan()
                }
            })
            .collect();
        (values, ld)
    }
}

pub(crate) fn nan<T: Element>() -> T {
    T::from_wide(Complex::new(f64::NAN, f64::NAN))
}

/// The bits of a value, so that NaN equals NaN.
pub(crate) fn bits<T: Element>(value: T) -> [u64; 2] {
    let Complex { re, im } = value.wide();
    [re, im].map(|part| if part.is_nan() { 1 } else { part.to_bits() })
}

/// Runs the tasks of a stage from last to first.
fn run_reversed(stage: &Stage) {
    for task in (0..stage.tasks).rev() {
        (stage.run)(task);
    }
}

/// Runs the tasks of a stage on three threads.
fn run_threads(stage: &Stage) {
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let task = next.fetch_add(1, Ordering::Relaxed);
                    if task >= stage.tasks {
                        break;
                    }
                    (stage.run)(task);
                }
            });
        }
    });
}

/// The results of a plan that writes to a buffer: the plan runs in order, and then again backwards and on several threads, for copies of the buffer.
/// All runs must write the same bits. The first plan runs twice.
#[track_caller]
pub(crate) fn results<T: Element>(initial: &[T], plan: impl Fn(*mut T) -> Plan) -> Vec<T> {
    let mut first = initial.to_vec();
    let in_order = plan(first.as_mut_ptr());
    in_order.run();
    let mut again = initial.to_vec();
    let backwards = plan(again.as_mut_ptr());
    let several = backwards.stages.iter().any(|stage| stage.tasks > 1);
    if several {
        backwards.stages.iter().for_each(run_reversed);
        same(&first, &again, "backwards");
        again.copy_from_slice(initial);
        backwards.stages.iter().for_each(run_threads);
        same(&first, &again, "on threads");
    }
    // The plan reads its operands anew.
    let result = first.clone();
    first.copy_from_slice(initial);
    in_order.run();
    same(&result, &first, "again");
    result
}

#[track_caller]
fn same<T: Element>(a: &[T], b: &[T], what: &str) {
    for (index, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(
            bits(*a),
            bits(*b),
            "element {index} differs {what}: {a:?}, {b:?}"
        );
    }
}

/// Checks that elements between the columns of a matrix are still NaN.
#[track_caller]
pub(crate) fn check_gaps<T: Element>(matrix: &[T], rows: usize, ld: usize) {
    for (index, value) in matrix.iter().enumerate() {
        if index % ld >= rows {
            assert!(
                value.wide().re.is_nan(),
                "element {index} between columns was written"
            );
        }
    }
}

/// A scalar, by value or by address.
pub(crate) fn scalar<T>(random: &mut Random, value: &T) -> Scalar<T>
where
    T: Copy,
{
    if random.below(2) == 0 {
        Scalar::Value(*value)
    } else {
        Scalar::At(value)
    }
}
