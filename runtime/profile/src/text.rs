//! The texts and positions of a kernel's instructions, which outlive the module.

use margay::observe::{Launch, Position};
use rustc_hash::FxHashMap;

use crate::counts::Counts;
use crate::document::SourceRow;

/// The texts and positions of a kernel's instructions.
#[derive(Default, Debug)]
pub(crate) struct Text {
    functions: FxHashMap<u32, String>,
    instructions: FxHashMap<(u32, u32), (String, SourceRow)>,
    positions: FxHashMap<Position, SourceRow>,
    /// The numbers of runs, accesses and barriers in the counts that were added last. Counts never lose a key.
    added: [usize; 3],
}

impl Text {
    /// Adds what `counts` contains and is not yet known.
    pub(crate) fn add(&mut self, counts: &Counts, launch: &Launch) {
        let sizes = [
            counts.runs.len(),
            counts.accesses.len(),
            counts.barriers.len(),
        ];
        if std::mem::replace(&mut self.added, sizes) == sizes {
            return;
        }
        for run in counts.runs.keys() {
            self.functions
                .entry(run.function)
                .or_insert_with(|| launch.function_name(run.function).unwrap_or("").to_owned());
            for index in run.first..run.first + run.count {
                self.instructions
                    .entry((run.function, index))
                    .or_insert_with(|| match launch.instruction(run.function, index) {
                        Some((opcode, position)) => (opcode.to_owned(), source(launch, position)),
                        None => Default::default(),
                    });
            }
        }
        let accesses = counts.accesses.keys().map(|key| key.position);
        for position in accesses.chain(counts.barriers.keys().copied()) {
            self.positions
                .entry(position)
                .or_insert_with(|| source(launch, position));
        }
    }

    /// Returns the name of a function.
    pub(crate) fn function(&self, function: u32) -> String {
        self.functions.get(&function).cloned().unwrap_or_default()
    }

    /// Returns the opcode and the source of an instruction, which the function and the index in the function identify.
    pub(crate) fn instruction(&self, key: (u32, u32)) -> (String, SourceRow) {
        self.instructions.get(&key).cloned().unwrap_or_default()
    }

    /// Returns the source of the instruction at a position.
    pub(crate) fn source(&self, position: Position) -> SourceRow {
        self.positions.get(&position).cloned().unwrap_or_default()
    }
}

fn source(launch: &Launch, position: Position) -> SourceRow {
    let ptx_line = position.ptx_line();
    match launch.source(position) {
        Some(line) => SourceRow {
            file: Some(line.file),
            line: line.line,
            inlined: line.inlined,
            ptx_line,
        },
        None => SourceRow {
            ptx_line,
            ..SourceRow::default()
        },
    }
}
