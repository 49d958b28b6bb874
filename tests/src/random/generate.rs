//! Generates a kernel from a seed.
//!
//! Two invariants make the results independent of the order of execution. Barriers and code for
//! CTA-uniform values occur only where all threads of a CTA are converged. Between two barriers, no
//! two threads access the same memory cell, except inputs, which no thread changes, and
//! accumulators, which threads change with atomic operations whose order has no effect on the
//! results.

use margay::Dim3;

use super::functions;
use super::layout::{Layout, MOST_THREADS};
use super::memory::{self, Memory};
use super::numbers::Random;
use super::program::{Condition, Counting, Kernel, Leaf, Level, Statement};
use super::templates::{self, Operands, register, source};
use super::warps;

/// Shapes of blocks. In many of them, the last warp has fewer than 32 threads.
const BLOCKS: [(u32, u32, u32); 28] = [
    (32, 1, 1),
    (64, 1, 1),
    (128, 1, 1),
    (96, 1, 1),
    (256, 1, 1),
    (1, 1, 1),
    (7, 1, 1),
    (8, 1, 1),
    (16, 1, 1),
    (31, 1, 1),
    (33, 1, 1),
    (48, 1, 1),
    (61, 1, 1),
    (100, 1, 1),
    (129, 1, 1),
    (8, 4, 1),
    (16, 4, 1),
    (32, 2, 1),
    (16, 16, 1),
    (5, 7, 1),
    (20, 3, 1),
    (2, 16, 1),
    (1, 33, 1),
    (4, 4, 4),
    (3, 5, 2),
    (8, 2, 4),
    (1, 1, 40),
    (17, 1, 3),
];

/// Generates the kernel that `seed` determines.
pub fn kernel(seed: u64) -> Kernel {
    chosen(seed, Random::new(seed))
}

/// Generates a kernel from the choices that `random` makes. `seed` is a part of the kernel's name
/// and an argument of its launch.
pub fn chosen(seed: u64, mut random: Random) -> Kernel {
    let &(x, y, z) = random.pick(&BLOCKS);
    let threads = x * y * z;
    let most = (MOST_THREADS / threads).min(12);
    let ctas = if random.chance(30) {
        1 + random.below(most)
    } else {
        1 + random.below(3)
    };
    let grid = match random.below(4) {
        0 if ctas.is_multiple_of(2) => Dim3::new(2, ctas / 2, 1),
        1 => Dim3::new(1, ctas, 1),
        _ => Dim3::new(ctas, 1, 1),
    };
    let mut kernel = Kernel {
        seed,
        grid,
        block: Dim3::new(x, y, z),
        body: Vec::new(),
    };
    let style = random.below(6);
    let mut generator = Generator {
        meets: style != 0,
        memory: style != 1,
        exits: random.chance(30),
        budget: 4 + random.below(28),
        counters: Vec::new(),
        layout: Layout::new(kernel.all_threads()),
        frame: kernel.clone(),
        random,
    };
    kernel.body = generator.list(StatementContext {
        level: Level::Cta,
        depth: 0,
        looped: None,
    });
    kernel
}

/// The properties of a position in the kernel at which a statement is generated.
#[derive(Clone, Copy)]
struct StatementContext {
    level: Level,
    depth: usize,
    /// The threads that are converged in the innermost loop; `None` outside loops.
    looped: Option<Level>,
}

impl StatementContext {
    fn inside(self, level: Level) -> StatementContext {
        StatementContext {
            level: self.level.min(level),
            depth: self.depth + 1,
            ..self
        }
    }
}

struct Generator {
    random: Random,
    /// Whether the kernel has collectives and barriers.
    meets: bool,
    /// Whether the kernel has loads and stores.
    memory: bool,
    /// Whether threads may exit before the end of the kernel.
    exits: bool,
    budget: u32,
    counters: Vec<String>,
    layout: Layout,
    /// The kernel with an empty body: its seed, and the sizes of its grid and blocks.
    frame: Kernel,
}

const MOST_DEPTH: usize = 4;

impl Generator {
    fn list(&mut self, place: StatementContext) -> Vec<Statement> {
        let most = if place.depth == 0 { 14 } else { 5 };
        let count = 1 + self.random.below(most);
        let mut list = Vec::new();
        for _ in 0..count {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            let statement = self.statement(place);
            list.push(statement);
        }
        list
    }

    fn statement(&mut self, place: StatementContext) -> Statement {
        let compound = place.depth < MOST_DEPTH;
        match self.random.below(100) {
            0..=13 if compound => self.branch(place),
            14..=23 if compound => self.turns(place),
            24..=26 if compound => self.switch(place),
            27..=29 if self.exits => Statement::Exit(self.condition(place)),
            30..=33 if place.looped.is_some() => self.leave(place),
            34..=48 if self.meets => Statement::Leaf(self.meeting(place)),
            49..=66 if self.memory => Statement::Leaf(self.memory()),
            67..=69 if place.level == Level::Cta => Statement::Leaf(self.uniform()),
            _ => Statement::Leaf(self.instruction()),
        }
    }

    fn instruction(&mut self) -> Leaf {
        let operands = Operands {
            counters: &self.counters,
        };
        let mut text = templates::any(&mut self.random, &operands);
        let alone = text.matches(';').count() == 1;
        if alone && !text.starts_with("call") && self.random.chance(12) {
            let not = *self.random.pick(&["", "!"]);
            text = format!("@{not}{} {text}", register('p', &mut self.random));
        }
        leaf(text)
    }

    /// Generates instructions that compute with values that are equal for all threads of a CTA.
    fn uniform(&mut self) -> Leaf {
        let random = &mut self.random;
        let to = register('w', random);
        let from = [
            "%w0", "%w1", "%n", "%ctaid.x", "%ctaid.y", "%nx", "3", "17", "0x10001",
        ];
        let (a, b) = (*random.pick(&from), *random.pick(&from));
        let operation = *random.pick(&["add.u32", "mul.lo.u32", "xor.b32", "sub.u32", "min.s32"]);
        // Special registers cannot be operands of these instructions, so they are copied first.
        leaf(format!(
            "mov.u32 %t0, {a}; mov.u32 %t1, {b}; {operation} {to}, %t0, %t1;"
        ))
    }

    fn memory(&mut self) -> Leaf {
        let operands = Operands {
            counters: &self.counters,
        };
        let memory = Memory {
            layout: &self.layout,
            all_threads: self.frame.all_threads(),
        };
        let random = &mut self.random;
        let mut text = match random.below(10) {
            0..=3 => memory::load(random, &operands),
            4..=5 => memory.own(random, &operands),
            6 => memory.reduce(random, &operands),
            7 => memory::constant_load(random, &operands),
            8 if random.chance(50) => functions::waiting(random, &operands),
            _ => memory::window(random, &operands),
        };
        if self.random.chance(12)
            && let Some(at) = text.trim_end_matches(';').rfind(';')
        {
            // All threads compute the address, and only some access memory.
            let guard = format!("; @{} ", register('p', &mut self.random));
            text.replace_range(at..=at, &guard);
        }
        leaf(text)
    }

    fn meeting(&mut self, place: StatementContext) -> Leaf {
        let operands = Operands {
            counters: &self.counters,
        };
        let full =
            !self.exits && place.level >= Level::Warp && self.frame.threads().is_multiple_of(32);
        let random = &mut self.random;
        match place.level {
            Level::Cta if random.chance(6) => functions::rallying(random, &operands),
            _ if random.chance(10) => functions::meeting(random, &operands),
            Level::Cta if random.chance(50) => warps::exchange(random, &operands, &self.frame),
            Level::Cta | Level::Warp if random.chance(20) => {
                warps::warp_exchange(random, &operands)
            }
            _ => warps::collective(random, &operands, full),
        }
    }

    /// Generates instructions that write a predicate to `<C>`.
    fn condition(&mut self, place: StatementContext) -> Condition {
        self.condition_at_least(place, Level::Lane)
    }

    fn condition_at_least(&mut self, place: StatementContext, least: Level) -> Condition {
        let operands = Operands {
            counters: &self.counters,
        };
        let random = &mut self.random;
        let r = source('r', random, &operands);
        let constant = random.below(70);
        let compare = *random.pick(&["eq", "ne", "lt", "le", "gt", "ge"]);
        let kind = match least {
            Level::Cta => random.below(2),
            Level::Warp => random.below(3),
            Level::Lane => random.below(12),
        };
        let (text, level) = match kind {
            0 => (
                format!(
                    "setp.{compare}.s32 <C>, {}, {constant};",
                    register('w', random)
                ),
                Level::Cta,
            ),
            1 => (
                format!(
                    "mov.u32 %t0, %ctaid.x; and.b32 %t0, %t0, 1; setp.eq.u32 <C>, %t0, {};",
                    constant & 1
                ),
                Level::Cta,
            ),
            2 => (
                format!(
                    "shr.u32 %t0, %lin, 5; and.b32 %t0, %t0, 1; setp.eq.u32 <C>, %t0, {};",
                    constant & 1
                ),
                Level::Warp,
            ),
            3 if self.meets => {
                let mode = *random.pick(&["any", "all"]);
                let leaf = Leaf {
                    text: format!("vote.sync.{mode}.pred <C>, {}, <M>;", register('p', random)),
                    meets: Some(Level::Warp),
                };
                // The condition is equal for all active lanes, unless they have diverged before.
                let level = if place.level == Level::Lane {
                    Level::Lane
                } else {
                    Level::Warp
                };
                return Condition { leaf, level };
            }
            3 | 4 => (
                format!("mov.pred <C>, {};", register('p', random)),
                Level::Lane,
            ),
            5 | 6 => {
                let most = self.frame.threads() + 2;
                (
                    format!("setp.{compare}.u32 <C>, %lin, {};", random.below(most)),
                    Level::Lane,
                )
            }
            7 => {
                let most = self.frame.all_threads() + 1;
                (
                    format!("setp.lt.u32 <C>, %gid, {};", random.below(most)),
                    Level::Lane,
                )
            }
            8 => (
                format!(
                    "and.b32 %t0, %lane, {}; setp.{compare}.u32 <C>, %t0, {};",
                    1 + random.below(31),
                    constant & 15
                ),
                Level::Lane,
            ),
            9 => (
                format!(
                    "setp.{compare}.f32 <C>, {}, {};",
                    register('f', random),
                    source('F', random, &operands)
                ),
                Level::Lane,
            ),
            _ => (
                format!("setp.{compare}.s32 <C>, {r}, {constant};"),
                Level::Lane,
            ),
        };
        Condition {
            leaf: leaf(text),
            level,
        }
    }

    fn branch(&mut self, place: StatementContext) -> Statement {
        let condition = self.condition(place);
        let inside = place.inside(condition.level);
        let then = self.list(inside);
        let other = if self.random.chance(50) {
            self.list(inside)
        } else {
            Vec::new()
        };
        Statement::If(condition, then, other)
    }

    /// Generates instructions that write a number below `most` to `<N>`.
    fn number(&mut self, most: u32) -> Condition {
        let operands = Operands {
            counters: &self.counters,
        };
        let random = &mut self.random;
        let (text, level) = match random.below(8) {
            0 | 1 => (format!("mov.u32 <N>, {};", random.below(most)), Level::Cta),
            2 => (
                format!("rem.u32 <N>, {}, {most};", register('w', random)),
                Level::Cta,
            ),
            3 => (
                format!("shr.u32 <N>, %lin, 5; rem.u32 <N>, <N>, {most};"),
                Level::Warp,
            ),
            4 => (format!("rem.u32 <N>, %lane, {most};"), Level::Lane),
            _ => (
                format!("rem.u32 <N>, {}, {most};", source('r', random, &operands)),
                Level::Lane,
            ),
        };
        Condition {
            leaf: leaf(text),
            level,
        }
    }

    fn turns(&mut self, place: StatementContext) -> Statement {
        let counting = *self.random.pick(&[
            Counting::Up,
            Counting::Up,
            Counting::UpByThree,
            Counting::Down,
            Counting::Tested,
        ]);
        // Deeper loops have fewer iterations, so that kernels end soon.
        let most = [9, 5, 3, 2][self.counters.len().min(3)];
        let limit = self.number(most);
        let inside = place.inside(limit.level);
        self.counters.push(format!("%i{}", place.depth));
        let body = self.list(StatementContext {
            looped: Some(inside.level),
            ..inside
        });
        self.counters.pop();
        Statement::Loop {
            counting,
            limit,
            body,
        }
    }

    fn switch(&mut self, place: StatementContext) -> Statement {
        let arms = 2 + self.random.below(3);
        let selector = self.number(arms);
        let inside = place.inside(selector.level);
        let arms = (0..arms).map(|_| self.list(inside)).collect();
        Statement::Switch { selector, arms }
    }

    /// Generates a `break` or `continue` of the innermost loop. If the generator can prove that the
    /// threads of the loop are converged, they remain converged: all of them execute the statement,
    /// or none.
    fn leave(&mut self, place: StatementContext) -> Statement {
        let level = place.looped.unwrap_or(Level::Lane);
        if place.level < level {
            return Statement::Leaf(self.instruction());
        }
        let condition = self.condition_at_least(place, level);
        if self.random.chance(60) {
            Statement::Break(condition)
        } else {
            Statement::Continue(condition)
        }
    }
}

fn leaf(text: String) -> Leaf {
    Leaf { text, meets: None }
}
