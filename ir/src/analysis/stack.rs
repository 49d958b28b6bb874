//! Computes how many bytes of stack the direct and indirect callees of a function need.

use rustc_hash::FxHashMap;

use crate::entity::FuncId;

/// The stack that the direct and indirect callees of a function need.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StackNeed {
    /// The number of bytes of stack that the callees need. It is the largest total frame size of a
    /// path through the call graph. Only paths that contain no function twice are considered, and
    /// the frame of the first function does not count. If the call graph has cycles, the analysis
    /// may miss paths.
    pub bytes: u32,
    /// Whether any function in the call graph may call itself, directly or through other functions.
    /// If so, the number of nested calls, and therefore the necessary size of the stack, is
    /// unknown.
    pub recursive: bool,
}

/// A function whose callees are being visited.
struct Visit {
    id: FuncId,
    frame: u32,
    callees: Vec<FuncId>,
    next: usize,
    /// The largest number of bytes of stack that a callee visited so far needs.
    deepest: u32,
}

/// What the search has found about a function so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// A call of the function is on the path that is being visited.
    OnPath,
    /// The function's frame and the frames of its callees need this number of bytes.
    Known(u32),
}

/// Computes the stack that the direct and indirect callees of `root` need. `describe` returns the
/// size in bytes of a function's frame, and the functions that the function calls.
pub fn stack_need(
    root: FuncId,
    mut describe: impl FnMut(FuncId) -> (u32, Vec<FuncId>),
) -> StackNeed {
    let mut known: FxHashMap<FuncId, State> = FxHashMap::default();
    let mut recursive = false;
    let mut enter = |id: FuncId, known: &mut FxHashMap<FuncId, State>| {
        known.insert(id, State::OnPath);
        let (frame, callees) = describe(id);
        Visit {
            id,
            frame,
            callees,
            next: 0,
            deepest: 0,
        }
    };
    let mut path = vec![enter(root, &mut known)];
    loop {
        let Some(visit) = path.last_mut() else {
            return StackNeed {
                bytes: 0,
                recursive,
            };
        };
        if let Some(&callee) = visit.callees.get(visit.next) {
            visit.next += 1;
            match known.get(&callee) {
                Some(State::OnPath) => recursive = true,
                Some(State::Known(bytes)) => visit.deepest = visit.deepest.max(*bytes),
                None => path.push(enter(callee, &mut known)),
            }
            continue;
        }
        let (id, deepest) = (visit.id, visit.deepest);
        let bytes = deepest.saturating_add(visit.frame);
        known.insert(id, State::Known(bytes));
        path.pop();
        match path.last_mut() {
            Some(caller) => caller.deepest = caller.deepest.max(bytes),
            None => {
                return StackNeed {
                    bytes: deepest,
                    recursive,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the stack that the callees of function 0 need. Function `i` has a frame of
    /// `functions[i].0` bytes and calls the functions with the numbers `functions[i].1`.
    fn need(functions: &[(u32, &[u32])]) -> StackNeed {
        stack_need(FuncId(0), |id| {
            let (frame, callees) = functions[id.0 as usize];
            (
                frame,
                callees.iter().map(|&callee| FuncId(callee)).collect(),
            )
        })
    }

    fn known(bytes: u32) -> StackNeed {
        StackNeed {
            bytes,
            recursive: false,
        }
    }

    #[test]
    fn the_deepest_path_counts() {
        assert_eq!(need(&[(100, &[])]), known(0));
        assert_eq!(
            need(&[(100, &[1, 2]), (16, &[3]), (32, &[]), (48, &[])]),
            known(64)
        );
        // Function 3 is called on two paths.
        assert_eq!(
            need(&[(0, &[1, 2]), (16, &[3]), (32, &[3]), (48, &[])]),
            known(80)
        );
    }

    #[test]
    fn cycles_count_once() {
        let recursive = |bytes| StackNeed {
            bytes,
            recursive: true,
        };
        assert_eq!(need(&[(0, &[1]), (16, &[1])]), recursive(16));
        assert_eq!(
            need(&[(0, &[1]), (16, &[2]), (32, &[1, 3]), (64, &[])]),
            recursive(112)
        );
    }

    #[test]
    fn long_chains_and_large_frames_overflow_nothing() {
        let chain: Vec<(u32, Vec<FuncId>)> = (1..=100_000)
            .map(|next| (1 << 20, vec![FuncId(next % 100_000)]))
            .collect();
        let need = stack_need(FuncId(0), |id| chain[id.0 as usize].clone());
        assert_eq!((need.bytes, need.recursive), (u32::MAX, true));
    }
}
