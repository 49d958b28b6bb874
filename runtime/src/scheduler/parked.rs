//! The parked units of a run, and the order in which they are resumed.

use std::collections::BTreeMap;

use crate::engine::ParkedUnit;

/// The parked units of a run. Every second call of [`Parked::pop`] returns the unit that has been
/// parked longest, so that every unit is resumed. The other calls alternately return the unit with
/// the lowest index and the unit with the highest index. If each unit waits for the previous unit
/// (a serial chain of CTAs), only the unit with the lowest index can make progress; if each unit
/// waits for the next unit, only the unit with the highest index can. If every call returned the
/// oldest unit, all parked units would be resumed for each step of the chain.
#[derive(Default)]
pub(super) struct Parked {
    /// A map from the index of each unit to the unit and its key in `by_age`.
    units: BTreeMap<u64, (u64, ParkedUnit)>,
    /// The indices of the units. The key is the number of units that were parked earlier.
    by_age: BTreeMap<u64, u64>,
    /// Number of units that have been parked so far.
    count: u64,
    /// Number of calls of [`Parked::pop`], modulo 256.
    turns: u8,
}

impl Parked {
    pub(super) fn push(&mut self, unit: ParkedUnit) {
        let index = unit.unit;
        self.by_age.insert(self.count, index);
        self.units.insert(index, (self.count, unit));
        self.count += 1;
    }

    /// Removes and returns the next unit to resume, or `None` if no unit is parked.
    pub(super) fn pop(&mut self) -> Option<ParkedUnit> {
        self.turns = self.turns.wrapping_add(1);
        let at_end = match self.turns % 4 {
            1 => self.units.pop_first(),
            3 => self.units.pop_last(),
            _ => {
                let (_, index) = self.by_age.pop_first()?;
                return self.units.remove(&index).map(|(_, unit)| unit);
            }
        };
        let (_, (age, unit)) = at_end?;
        self.by_age.remove(&age);
        Some(unit)
    }

    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// Returns the parked units, in the order of their indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ParkedUnit> {
        self.units.values().map(|(_, unit)| unit)
    }

    /// Removes all parked units and returns them.
    pub(super) fn take_all(&mut self) -> Vec<ParkedUnit> {
        self.by_age.clear();
        let units = std::mem::take(&mut self.units);
        units.into_values().map(|(_, unit)| unit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(units: impl Iterator<Item = u64>) -> Parked {
        let mut parked = Parked::default();
        for unit in units {
            parked.push(waiting(unit));
        }
        parked
    }

    fn waiting(unit: u64) -> ParkedUnit {
        ParkedUnit {
            unit,
            state: Box::new(()),
            progressed: false,
        }
    }

    #[test]
    fn every_unit_is_resumed() {
        let mut parked = parked([5, 3, 8, 1, 9].into_iter());
        let mut resumed = Vec::new();
        for _ in 0..2 * parked.len() {
            let unit = parked.pop().expect("parked");
            resumed.push(unit.unit);
            parked.push(unit);
        }
        // Lowest, longest parked, highest, longest parked, and so on.
        assert_eq!(resumed, [1, 5, 9, 3, 1, 8, 9, 5, 1, 3]);
        assert_eq!(parked.len(), 5);
        let left: Vec<u64> = parked.iter().map(|unit| unit.unit).collect();
        assert_eq!(left, [1, 3, 5, 8, 9]);
        assert_eq!(parked.take_all().len(), 5);
        assert!(parked.pop().is_none());
    }

    /// Simulates two workers, each of which resumes one unit at a time. A unit can complete when
    /// the units before it in `order` are complete. Returns how often units are resumed until all
    /// units are complete.
    fn attempts(order: impl Iterator<Item = u64> + Clone) -> usize {
        let mut parked = parked(0..order.clone().count() as u64);
        let mut attempts = 0;
        let mut order = order.peekable();
        while let Some(&next) = order.peek() {
            let pair = [parked.pop(), parked.pop()];
            for unit in pair.into_iter().flatten() {
                attempts += 1;
                if unit.unit == next {
                    order.next();
                } else {
                    parked.push(unit);
                }
            }
        }
        attempts
    }

    #[test]
    fn a_serial_chain_needs_few_attempts_for_each_unit() {
        assert!(attempts(0..1000) <= 4000);
        assert!(attempts((0..1000).rev()) <= 4000);
    }
}
