//! The syntax tree of a generated kernel, and its launch.
//!
//! Invariant: if any statement is removed, or any compound statement is replaced by its content,
//! the kernel is still valid. For this reason, registers are initialised before the first
//! statement. Properties that depend on a statement's position (member masks, whether a barrier may
//! count threads, the target of `break`) are determined when the text is written. Because of this
//! invariant, statements of a failing kernel can be removed until the kernel is short.

use margay::Dim3;

/// The threads that the generator can prove to be converged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The generator cannot prove that any threads are converged.
    Lane,
    /// All threads of a warp are converged.
    Warp,
    /// All threads of a CTA are converged.
    Cta,
}

/// Text of instructions that are removed only together. `<M>` stands for the mask of the active
/// lanes, and `<L>` stands for a number that makes labels unique. `<COUNT>` stands for the thread
/// count of a barrier, if a count is permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    /// The instructions.
    pub text: String,
    /// The threads that synchronise in these instructions; `None` if no threads synchronise.
    pub meets: Option<Level>,
}

/// A condition: PTX instructions that write a predicate to the register `<C>`, or a number to the
/// register `<N>`. `<C>` and `<N>` are placeholders for the names of registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The instructions.
    pub leaf: Leaf,
    /// The threads for which the generator can prove that the condition is equal.
    pub level: Level,
}

/// How the counter of a loop changes, and when the loop tests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// The loop counts up and tests the counter before each iteration.
    Up,
    /// The loop counts up by three and tests the counter before each iteration.
    UpByThree,
    /// The loop counts down and tests the counter before each iteration.
    Down,
    /// The loop counts up and tests the counter after each iteration.
    Tested,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Straight-line code.
    Leaf(Leaf),
    /// An `if` statement: the condition, the statements if it is true, and the statements if it is
    /// false.
    If(Condition, Vec<Statement>, Vec<Statement>),
    /// A loop. The instructions in `limit` write the limit of the loop's counter to the register `<N>`.
    Loop {
        /// How the counter of the loop changes, and when the loop tests it.
        counting: Counting,
        /// Instructions that compute the number at which the counter ends or, if the loop counts down, begins.
        limit: Condition,
        /// The body of the loop.
        body: Vec<Statement>,
    },
    /// A switch. The instructions in `selector` write the number of the arm to the register `<N>`.
    Switch {
        /// Instructions that compute the number of the arm.
        selector: Condition,
        /// The arms of the switch.
        arms: Vec<Vec<Statement>>,
    },
    /// Ends the threads for which the condition is true.
    Exit(Condition),
    /// Leaves the innermost loop if the condition is true.
    Break(Condition),
    /// Continues with the next iteration of the innermost loop if the condition is true.
    Continue(Condition),
}

impl Statement {
    /// Returns the lists of statements that this statement contains: its branches, arms or body.
    pub fn bodies(&self) -> Vec<&Vec<Statement>> {
        match self {
            Statement::If(_, then, other) => vec![then, other],
            Statement::Loop { body, .. } => vec![body],
            Statement::Switch { arms, .. } => arms.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns mutable references to the lists of statements that this statement contains
    /// ([`Statement::bodies`]).
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Statement>> {
        match self {
            Statement::If(_, then, other) => vec![then, other],
            Statement::Loop { body, .. } => vec![body],
            Statement::Switch { arms, .. } => arms.iter_mut().collect(),
            _ => Vec::new(),
        }
    }

    fn own_leaf(&self) -> &Leaf {
        match self {
            Statement::Leaf(leaf) => leaf,
            Statement::If(condition, ..)
            | Statement::Exit(condition)
            | Statement::Break(condition)
            | Statement::Continue(condition) => &condition.leaf,
            Statement::Loop { limit, .. } => &limit.leaf,
            Statement::Switch { selector, .. } => &selector.leaf,
        }
    }

    /// Returns whether threads synchronise in the statement.
    pub fn meets(&self) -> bool {
        self.own_leaf().meets.is_some() || self.bodies().into_iter().any(|body| meets(body))
    }

    /// Returns whether threads may exit in the statement.
    pub fn exits(&self) -> bool {
        matches!(self, Statement::Exit(_))
            || self.bodies().into_iter().flatten().any(Statement::exits)
    }

    /// Returns the number of statements: this statement and all statements nested in it.
    pub fn count(&self) -> usize {
        let inner = self.bodies().into_iter().flatten().map(Statement::count);
        1 + inner.sum::<usize>()
    }
}

/// Returns whether threads synchronise in a list of statements.
pub fn meets(body: &[Statement]) -> bool {
    body.iter().any(Statement::meets)
}

/// A generated kernel, and the configuration with which it is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The seed of the kernel, which is also a part of its name.
    pub seed: u64,
    /// Number of blocks of the grid in each dimension.
    pub grid: Dim3,
    /// Number of threads of a block in each dimension.
    pub block: Dim3,
    /// The statements of the kernel.
    pub body: Vec<Statement>,
}

impl Kernel {
    /// Returns the kernel's name in the module.
    pub fn name(&self) -> String {
        format!("k{:016x}", self.seed)
    }

    /// Returns the number of threads in a block.
    pub fn threads(&self) -> u32 {
        self.block.count() as u32
    }

    /// Returns the number of threads of the launch.
    pub fn all_threads(&self) -> u32 {
        self.threads() * self.grid.count() as u32
    }

    /// Returns whether every warp has 32 threads and no thread exits before the end of the kernel.
    pub fn full_warps(&self) -> bool {
        self.threads().is_multiple_of(32) && !self.body.iter().any(Statement::exits)
    }

    /// Returns the number of statements of the kernel, including nested statements.
    pub fn len(&self) -> usize {
        self.body.iter().map(Statement::count).sum()
    }

    /// Returns whether the kernel has no statements.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }
}
