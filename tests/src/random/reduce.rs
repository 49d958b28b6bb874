//! Reduces failing kernels.

use margay::Dim3;

use super::program::{Kernel, Statement};

/// Makes a failing kernel shorter, in several steps, and returns the result. The first step removes
/// CTAs. Each other step removes a statement or replaces a compound statement by its content. A
/// step is kept if the kernel still fails. The function returns when the kernel would not fail
/// after the removal or replacement of any further statement.
pub fn reduce(kernel: &Kernel, mut fails: impl FnMut(&Kernel) -> bool) -> Kernel {
    let mut best = kernel.clone();
    for ctas in [1, 2] {
        let fewer = Kernel {
            grid: Dim3::new(ctas, 1, 1),
            ..best.clone()
        };
        if u64::from(ctas) < best.grid.count() && fails(&fewer) {
            best = fewer;
            break;
        }
    }
    let mut changed = true;
    while changed {
        changed = false;
        // Begins with the last statement, because results of later statements have the fewest uses.
        let mut at = best.len();
        while at > 0 {
            at -= 1;
            for step in [Step::Drop, Step::Open] {
                let mut smaller = best.clone();
                let mut counter = at;
                if apply(&mut smaller.body, &mut counter, step) && fails(&smaller) {
                    best = smaller;
                    changed = true;
                    break;
                }
            }
        }
    }
    best
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Remove a statement.
    Drop,
    /// Replace a compound statement by its content.
    Open,
}

/// Applies the step to the statement with the number `at`. The statements are numbered in preorder:
/// a statement precedes the statements that it contains. Returns false if the step cannot be
/// applied to this statement.
fn apply(list: &mut Vec<Statement>, at: &mut usize, step: Step) -> bool {
    for index in 0..list.len() {
        if *at == 0 {
            let inner: Vec<Statement> = list[index]
                .bodies()
                .into_iter()
                .flatten()
                .cloned()
                .collect();
            if step == Step::Open && inner.is_empty() {
                return false;
            }
            let inner = if step == Step::Open {
                inner
            } else {
                Vec::new()
            };
            list.splice(index..=index, inner);
            return true;
        }
        *at -= 1;
        for body in list[index].bodies_mut() {
            let before = *at;
            let length: usize = body.iter().map(Statement::count).sum();
            if before < length {
                return apply(body, at, step);
            }
            *at -= length;
        }
    }
    false
}
