//! Plans how rows become fields: which bytes are loaded into each register, and which permutations of registers then
//! collect the elements of each field.
//!
//! A *row* consists of the elements of one lane, one for each *field*. A plan loads the rows of as many lanes as one
//! register has elements. If rows are close together, each load reads what fills a register. Otherwise each load reads one
//! row; short rows share a register. A tree of permutations of two registers then brings together the elements of each
//! field. Where possible they are those that `vpunpckl` and `vpunpckh` compute.

use smallvec::SmallVec;

/// The maximum number of elements of a register.
pub(super) const MOST: usize = 16;

/// The rows of a piece of a vector.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Rows {
    /// The number of elements of a register.
    pub(super) width: usize,
    /// The number of elements of 128 bits.
    pub(super) quarter: usize,
    /// The number of lanes, at most `width`.
    pub(super) lanes: usize,
    /// The distance between the rows of adjacent lanes, in elements.
    pub(super) stride: i64,
    /// The position of each field in its row, in elements. All are below `width` and different.
    pub(super) fields: SmallVec<[u8; 8]>,
}

/// A load; the result is the register with its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Load {
    /// The register whose other elements the result keeps; they are zero if there is none.
    pub(super) into: Option<usize>,
    /// The address, in elements relative to the row of lane 0.
    pub(super) at: i64,
    /// The elements that are loaded.
    pub(super) mask: u32,
}

/// The elements that a permutation takes: below the width of registers from the first, and above from the second. An
/// element that is `None` may be any.
pub(super) type Picks = [Option<u8>; MOST];

/// A permutation of two registers. Its result is a register with a number above those of loads and earlier steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) sources: [usize; 2],
    pub(super) picks: Picks,
}

/// How rows become fields.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) loads: Vec<Load>,
    pub(super) steps: Vec<Step>,
    /// The register that contains each field.
    pub(super) outputs: SmallVec<[usize; 8]>,
}

impl Plan {
    /// Returns the number of instructions.
    pub(super) fn cost(&self) -> usize {
        self.loads.len() + self.steps.len()
    }
}

/// Returns the best plan.
pub(super) fn plan(rows: &Rows) -> Option<Plan> {
    let shared = [1, 2, 4, 8, 16].into_iter();
    let starts = shared
        .filter(|&count| count <= rows.lanes)
        .filter_map(|count| Planner::with_rows(rows, count))
        .chain(Planner::with_whole_registers(rows));
    let plans = starts.flat_map(|start| [start.clone().in_tree(), start.one_by_one()]);
    plans.min_by_key(Plan::cost)
}

/// An element of a field in a lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Element {
    field: u8,
    lane: u8,
}

type Slots = [Option<Element>; MOST];

/// Fields, as bits.
type Fields = u64;

/// The register that contains some lanes of some fields.
#[derive(Clone, Copy)]
struct Part {
    fields: Fields,
    reg: usize,
}

#[derive(Clone)]
struct Planner<'a> {
    rows: &'a Rows,
    loads: Vec<Load>,
    steps: Vec<Step>,
    /// The contents of each register.
    contents: Vec<Slots>,
    /// The registers that together contain all rows.
    sources: Vec<usize>,
}

impl<'a> Planner<'a> {
    fn new(rows: &'a Rows) -> Planner<'a> {
        Planner {
            rows,
            loads: Vec::new(),
            steps: Vec::new(),
            contents: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// Loads each row by itself, and `count` rows into one register, if they have space.
    fn with_rows(rows: &'a Rows, count: usize) -> Option<Planner<'a>> {
        let shifts = shifts(rows, count)?;
        let mut made = Planner::new(rows);
        for first in (0..rows.lanes).step_by(count) {
            let mut whole: Slots = [None; MOST];
            let mut into = None;
            for (lane, &shift) in (first..).zip(&shifts) {
                let mut mask = 0;
                for (field, &position) in (0..).zip(&rows.fields) {
                    let slot = usize::from(position) + shift;
                    mask |= 1 << slot;
                    let lane = lane as u8;
                    whole[slot] = Some(Element { field, lane });
                }
                let at = rows.stride * lane as i64 - shift as i64;
                made.loads.push(Load { into, at, mask });
                into = Some(made.contents.len());
                made.contents.push(whole);
            }
            made.sources.extend(into);
        }
        Some(made)
    }

    /// Loads all elements from the first row to the last one, if rows do not overlap.
    fn with_whole_registers(rows: &'a Rows) -> Option<Planner<'a>> {
        let span = rows
            .fields
            .iter()
            .max()
            .map_or(0, |&last| i64::from(last) + 1);
        let stride = rows.stride.abs();
        let total = stride
            .checked_mul(rows.lanes as i64 - 1)?
            .checked_add(span)?;
        let width = rows.width as i64;
        if stride < span || total > width * rows.lanes as i64 {
            return None;
        }
        let low = rows.stride.min(0) * (rows.lanes as i64 - 1);
        let mut made = Planner::new(rows);
        for number in 0..(total + width - 1) / width {
            let at = low + number * width;
            let mut whole: Slots = [None; MOST];
            let mut mask = 0;
            for lane in 0..rows.lanes {
                for (field, &position) in (0..).zip(&rows.fields) {
                    let slot = rows.stride * lane as i64 + i64::from(position) - at;
                    if (0..width).contains(&slot) {
                        mask |= 1 << slot;
                        let lane = lane as u8;
                        whole[slot as usize] = Some(Element { field, lane });
                    }
                }
            }
            if mask != 0 {
                made.sources.push(made.contents.len());
                let into = None;
                made.loads.push(Load { into, at, mask });
                made.contents.push(whole);
            }
        }
        Some(made)
    }

    fn into_plan(self, outputs: SmallVec<[usize; 8]>) -> Plan {
        Plan {
            loads: self.loads,
            steps: self.steps,
            outputs,
        }
    }

    fn step(&mut self, sources: [usize; 2], picks: Picks) -> usize {
        let is_kept =
            |(slot, pick): (usize, &Option<u8>)| pick.is_none_or(|pick| usize::from(pick) == slot);
        if picks.iter().enumerate().all(is_kept) {
            return sources[0];
        }
        let mut whole: Slots = [None; MOST];
        for (slot, pick) in whole.iter_mut().zip(picks) {
            *slot = pick.and_then(|pick| self.picked(sources, pick.into()));
        }
        self.steps.push(Step { sources, picks });
        self.contents.push(whole);
        self.contents.len() - 1
    }

    /// Returns the element that a permutation picks.
    fn picked(&self, sources: [usize; 2], pick: usize) -> Option<Element> {
        let width = self.rows.width;
        self.contents[sources[pick / width]][pick % width]
    }

    /// Returns where the elements of some fields are in two registers.
    fn places(&self, sources: [usize; 2], fields: Fields) -> SmallVec<[(Element, u8); 32]> {
        let count = if sources[0] == sources[1] { 1 } else { 2 };
        let all = 0..count * self.rows.width;
        let found = all.filter_map(|pick| {
            let element = self.picked(sources, pick)?;
            (fields >> element.field & 1 == 1).then_some((element, pick as u8))
        });
        found.collect()
    }

    /// Brings the lanes of a field into their order, as far as two registers contain them.
    fn ordered(&mut self, sources: [usize; 2], field: usize) -> usize {
        let mut picks: Picks = [None; MOST];
        for (element, pick) in self.places(sources, 1 << field) {
            picks[usize::from(element.lane)] = Some(pick);
        }
        self.step(sources, picks)
    }

    /// Collects each field from all registers that contain some of it.
    fn one_by_one(mut self) -> Plan {
        let outputs = (0..self.rows.fields.len()).map(|field| {
            let sources = self.sources.clone();
            let contains = |reg: &usize| !self.places([*reg; 2], 1 << field).is_empty();
            let found: SmallVec<[usize; MOST]> = sources.into_iter().filter(contains).collect();
            match found[..] {
                [only] => self.ordered([only; 2], field),
                _ => {
                    let rest = found[1..].iter();
                    rest.fold(found[0], |all, &next| self.ordered([all, next], field))
                }
            }
        });
        let outputs = outputs.collect();
        self.into_plan(outputs)
    }

    /// Joins pairs of registers until two are left for each field.
    fn in_tree(mut self) -> Plan {
        let fields: Fields = (1 << self.rows.fields.len()) - 1;
        let leaf = |&reg: &usize| vec![Part { fields, reg }];
        let mut nodes: Vec<Vec<Part>> = self.sources.iter().map(leaf).collect();
        while nodes.len() > 2 {
            let pairs = nodes.chunks(2).map(|pair| match pair {
                [low, high] => self.joined(low, high),
                _ => pair[0].clone(),
            });
            nodes = pairs.collect();
        }
        let outputs = (0..self.rows.fields.len()).map(|field| {
            let part = |node: &Vec<Part>| {
                let mut parts = node.iter();
                let part = parts.find(|part| part.fields >> field & 1 == 1);
                part.expect("each field is in each node").reg
            };
            let (first, last) = (part(&nodes[0]), part(&nodes[nodes.len() - 1]));
            self.ordered([first, last], field)
        });
        let outputs = outputs.collect();
        self.into_plan(outputs)
    }

    fn joined(&mut self, low: &[Part], high: &[Part]) -> Vec<Part> {
        let mut parts = Vec::new();
        for (a, b) in low.iter().flat_map(|a| high.iter().map(move |b| (a, b))) {
            if a.fields & b.fields != 0 {
                self.join([a.reg, b.reg], a.fields & b.fields, &mut parts);
            }
        }
        parts
    }

    /// Appends registers that contain all elements of some fields of two registers.
    fn join(&mut self, sources: [usize; 2], fields: Fields, parts: &mut Vec<Part>) {
        let mut places = self.places(sources, fields);
        let least = places.len().div_ceil(self.rows.width).max(1);
        if let Some(halves) = self.halves(&places, fields)
            && halves.iter().filter(|&&half| half != 0).count() <= least
        {
            for (number, fields) in halves.into_iter().enumerate().filter(|&(_, f)| f != 0) {
                let reg = self.step(sources, self.unpacked(sources, number, fields));
                parts.push(Part { fields, reg });
            }
            return;
        }
        if least == 1 {
            places.sort();
            let mut picks: Picks = [None; MOST];
            for (to, (_, pick)) in picks.iter_mut().zip(places) {
                *to = Some(pick);
            }
            let reg = self.step(sources, picks);
            return parts.push(Part { fields, reg });
        }
        let mut low: Fields = 0;
        while low.count_ones() < fields.count_ones() / 2 {
            let rest = fields & !low;
            low |= rest & rest.wrapping_neg();
        }
        self.join(sources, low, parts);
        self.join(sources, fields & !low, parts);
    }

    /// Returns the fields that `vpunpckl` takes, and those that `vpunpckh` takes, if they take whole fields.
    fn halves(&self, places: &[(Element, u8)], fields: Fields) -> Option<[Fields; 2]> {
        let mut halves = [0, 0];
        for &(element, pick) in places {
            let quarter = self.rows.quarter;
            halves[usize::from(pick) % quarter / (quarter / 2)] |= 1 << element.field;
        }
        (halves[0] & halves[1] == 0 && halves[0] | halves[1] == fields).then_some(halves)
    }

    /// Returns what `vpunpckl` or, if `half` is 1, `vpunpckh` takes of some fields.
    fn unpacked(&self, sources: [usize; 2], half: usize, fields: Fields) -> Picks {
        let mut picks = unpack(self.rows.width, self.rows.quarter, half);
        for pick in &mut picks {
            let element = pick.and_then(|pick| self.picked(sources, pick.into()));
            if element.is_none_or(|element| fields >> element.field & 1 == 0) {
                *pick = None;
            }
        }
        picks
    }
}

/// Returns the elements that `vpunpckl` or, if `half` is 1, `vpunpckh` takes.
pub(super) fn unpack(width: usize, quarter: usize, half: usize) -> Picks {
    std::array::from_fn(|slot| {
        let within = slot % quarter;
        let element = slot - within + within / 2 + half * quarter / 2;
        (slot < width).then_some((element + within % 2 * width) as u8)
    })
}

/// Returns by how many elements each of `count` rows in one register is moved up.
fn shifts(rows: &Rows, count: usize) -> Option<SmallVec<[usize; MOST]>> {
    let row: u32 = rows.fields.iter().map(|&position| 1 << position).sum();
    let fits = |taken: u32, shift: usize| {
        let moved = u64::from(row) << shift;
        moved < 1 << rows.width && moved & u64::from(taken) == 0
    };
    let mut taken = 0;
    let mut shifts = SmallVec::new();
    for number in 0..count {
        let even = number * rows.width / count;
        let all = [even].into_iter().chain(0..rows.width);
        let shift = all.into_iter().find(|&shift| fits(taken, shift))?;
        taken |= row << shift;
        shifts.push(shift);
    }
    Some(shifts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a plan on memory in which each element contains its position, and returns the fields.
    fn run(rows: &Rows, plan: &Plan) -> Vec<Vec<i64>> {
        let mut regs: Vec<[i64; MOST]> = Vec::new();
        for load in &plan.loads {
            let mut reg = load.into.map_or([i64::MIN; MOST], |into| regs[into]);
            for slot in (0..rows.width).filter(|slot| load.mask >> slot & 1 == 1) {
                reg[slot] = load.at + slot as i64;
            }
            regs.push(reg);
        }
        for step in &plan.steps {
            let pick = |pick: Option<u8>| {
                let pick = usize::from(pick.unwrap_or(0));
                regs[step.sources[pick / rows.width]][pick % rows.width]
            };
            regs.push(step.picks.map(pick));
        }
        let lanes = |&reg: &usize| regs[reg][..rows.lanes].to_vec();
        plan.outputs.iter().map(lanes).collect()
    }

    fn check(rows: &Rows) {
        let starts = [1, 2, 4, 8, 16]
            .into_iter()
            .filter(|&count| count <= rows.lanes);
        let starts = starts
            .filter_map(|count| Planner::with_rows(rows, count))
            .chain(Planner::with_whole_registers(rows));
        for start in starts {
            for plan in [start.clone().in_tree(), start.one_by_one()] {
                let expected = rows.fields.iter().map(|&field| {
                    let lanes = 0..rows.lanes as i64;
                    lanes
                        .map(|lane| rows.stride * lane + i64::from(field))
                        .collect()
                });
                let expected: Vec<Vec<i64>> = expected.collect();
                assert_eq!(run(rows, &plan), expected, "{rows:?} {plan:?}");
                let of_rows = |load: &Load| {
                    (0..rows.width as i64)
                        .filter(|slot| load.mask >> slot & 1 == 1)
                        .all(|slot| {
                            expected
                                .iter()
                                .any(|lanes| lanes.contains(&(load.at + slot)))
                        })
                };
                assert!(plan.loads.iter().all(of_rows), "{rows:?} {plan:?}");
            }
        }
    }

    #[test]
    fn plans_collect_the_elements_of_each_field() {
        let mut state = 1u64;
        let mut below = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % limit
        };
        for _ in 0..2000 {
            let width = [4, 8, 16][below(3) as usize];
            let quarter = if width == 4 {
                2
            } else {
                [2, 4][below(2) as usize]
            };
            let mut fields: Vec<u8> = (0..width as u8).collect();
            for last in (1..fields.len()).rev() {
                fields.swap(last, below(last as u64 + 1) as usize);
            }
            fields.truncate(1 + below(width as u64) as usize);
            check(&Rows {
                width,
                quarter,
                lanes: (width >> below(3)).max(2),
                stride: below(41) as i64 - 20,
                fields: fields.into(),
            });
        }
    }

    #[test]
    fn plans_have_few_instructions() {
        let cost = |width, stride, fields: &[u8]| {
            let rows = Rows {
                width,
                quarter: width / 4,
                lanes: width,
                stride,
                fields: fields.into(),
            };
            let plan = plan(&rows).expect("there is a plan");
            (plan.loads.len(), plan.steps.len())
        };
        // `float3`, `float4`, `double3`.
        assert_eq!(cost(16, 3, &[0, 1, 2]), (3, 6));
        assert_eq!(cost(16, 4, &[0, 1, 2, 3]), (4, 8));
        assert_eq!(cost(8, 3, &[0, 1, 2]), (3, 6));
        // A row and a column of 3 x 3 matrices of complex numbers.
        assert_eq!(cost(8, 9, &[0, 1, 2]), (8, 7));
        assert_eq!(cost(8, 9, &[0, 3, 6]), (8, 7));
        // Eight of nine elements.
        assert_eq!(cost(8, 9, &[0, 1, 2, 3, 4, 5, 6, 7]), (8, 24));
    }
}
