//! The op table: every operation of the IR, with one row for each operation.
//!
//! A row contains the opcode, its name in the IR's text form, its effects, its reference function (see
//! [`crate::meaning`]) and its shape: the types, operands and modifiers of its instructions (see [`Shape`]). The
//! following are derived from the rows: the opcode enum, the printer and parser, the verifier, the constant folder, the
//! interpreter, the JIT's dispatch (to a fast lowering, or to a lowering that calls the reference function) and the
//! support table. The crate `margay-ptx` defines the PTX syntax of each instruction, with its types and modifiers, and
//! names the row to which it lowers each accepted instruction.
//!
//! # Operands
//!
//! The operands and results of an op are in the order of the PTX instruction, except for these ops:
//!
//! | op | operands | results | remarks |
//! |---|---|---|---|
//! | `const` ... `sreg` | | one | the payload contains, depending on the op, the bits, slot, symbol and addend, offset in the parameter buffer, function, or register |
//! | `pack`, `unpack` | parts; whole | whole; parts | lowest bits first; `ty` is the type of the result, `src` the type of the operand |
//! | `add` ... with `.cc` | as without `.cc` | `d`, then the carry as `pred` | the carry of the adder: 1 if `sub` does not borrow; the last operand of `addc`, `subc`, `madc` is the carry |
//! | `ld` | address | one per vector element | `ty` is the type in memory; integers in a wider register are extended according to the sign of `ty` |
//! | `st` | address, elements | | a wider integer operand is truncated |
//! | `atom`, `red` | address, `b`, (`c`) | old content | `red` has no result |
//! | `cp.async` | shared address, global address, bytes written, bytes read | | completes at issue; bytes written but not read are zero |
//! | `bar` | barrier number, thread count (0: all), predicate of `red` | of `red` only: one | `mode`: sync, arrive or red; `atom_op`: popc, and, or |
//! | `bar.warp.sync` | member mask | | |
//! | `elect` | member mask | the index of the elected lane, and whether the lane is the elected one | |
//! | `shfl` | `a`, `b`, `c`, member mask | `d`, `p` | `flag`: `.sync` is not given, so the lanes that execute the op together take part |
//! | `vote`, `match`, `redux` | `a`, member mask | `d` (`match.all`: and `p`) | `flag` of `vote` as for `shfl` |
//! | `mma` | member mask, registers of `a`, `b`, `c` | registers of `d` | see [`crate::meaning::matrix`] |
//! | `call` | arguments | as the function's signature | payload: the function |
//! | `call.indirect` | handle, arguments | as the signature | payload: the signature |
//! | `syscall` | see `margay_ir::syscall` | see `margay_ir::syscall` | payload: the system call's number |
//! | `check.access` | address; then the operands of the access, if a tool needs them | address | `ty`, `vec`, `space`, `order`, `scope`, `atom_op` and `mode` describe the access that follows: `load`, `store`, `update`, `copy` (a load of as many bytes as the second operand states) or `release` (the argument of `free`). The result is the address of the access, or the address of spare memory if a tool suppresses the access. `flag`: the tool examines each lane, even if all lanes access the same address. `nc`: the kernel only stores the value that it loads, without computing with it; for a store or a copy, the access belongs to an asynchronous copy. `noftz`: the innermost loop around the access, which is strong, waits for the value that the access reads. `asel`, `bsel`, `dsel`: the elements of a vector load that the kernel does not use |
//! | `observe.access` | address; for `copy`, the number of bytes | | reports to tools the access that follows. The modifiers are those of `check.access` |
//! | `observe.event` | up to two values that depend on the event | | reports to tools the event that follows; payload: see `margay_ir::observe::ObservedEvent` |
//! | `check.group` | for `sync`, `bulk_sync` and `bulk_read`: the number of groups that may be incomplete; for `begin`: the number of a `margay_ir::observe::Asynchronous`; for `proxy_fence`: the state spaces | | reports to a tool the asynchronous operations: `begin` and `end` enclose the accesses of an operation, `arrive` and `bulk_arrive` end a group, `sync`, `bulk_sync` and `bulk_read` wait for groups, `all` waits for all copies, and `proxy_fence` is a fence between proxies |
//! | `check.fence` | | | reports to a tool the fence that follows, which has the same `order` and `scope` |
//! | `cvta` | address | address | `mode` is `to` for `cvta.to` |
//! | `tex`, `txq`, `suld`, `sust`, `sured` | see [`crate::texture::access`] | see [`crate::texture::access`] | payload: the [`Access`](crate::texture::Access) |
//! | `vadd2` ... `vset4` | `a`, `b` (a `prmt` for each selects its parts), `c` | `d` | lane mask in `dsel` |
//! | `cvt` | values, highest element first, then random bits or scale factor | `d` | one packed value if the source is packed |
//! | `brif` | condition | | two targets: true, false |
//! | `br_table` | index | | default target first |
//! | `invalid.pc` | handle | | ends the launch: the handle is not the handle of a function that the call may reach |
//! | `stack.check` | local address | | ends the launch with a stack overflow if the address is beyond the end of the thread's local memory |
//!
//! Addresses are `b64` (or `b32` for shared and local memory). Generic, global and constant addresses are host
//! addresses. Shared and local addresses are offsets; only their low 32 bits are used.
//!
//! Invariant: each engine has explicit code for every op without a reference function, according to
//! the op's [`Effects`] (control flow, memory, synchronisation, structure). No engine executes such
//! an op by a default case.

mod shapes;

pub use shapes::{Pattern, Shape, Targets};

bitflags::bitflags! {
    /// The effects of an operation, except that it computes its results from its operands.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Effects: u16 {
        /// The operation reads memory or, if it operates on the stack, the thread's stack pointer.
        const READS = 1;
        /// The operation writes memory or, if it operates on the stack, the thread's stack pointer.
        const WRITES = 1 << 1;
        /// The operation is a sync point at which a lane may wait for other lanes of its warp.
        const SYNC_WARP = 1 << 2;
        /// The operation is a sync point at which a lane may wait for other warps of its CTA.
        const SYNC_CTA = 1 << 3;
        /// The operation is a sync point at which a lane may wait for other CTAs of its cluster.
        const SYNC_CLUSTER = 1 << 4;
        /// The operation yields: it may suspend the lane, so that other lanes, CTAs and launches
        /// can run.
        const YIELDS = 1 << 5;
        /// The operation may end the launch with a fault.
        const MAY_TRAP = 1 << 6;
        /// The result depends on which lanes execute the operation together.
        const CONVERGENT = 1 << 7;
        /// The operation ends a basic block.
        const TERMINATOR = 1 << 8;
        /// The result can differ between two executions, as when a clock is read. Passes neither move nor merge the
        /// operation.
        const TIME = 1 << 9;
        /// The operation orders memory accesses.
        const FENCE = 1 << 10;
        /// The operation has a payload instead of modifiers.
        const PAYLOAD = 1 << 11;
    }
}

impl Effects {
    /// Returns whether the operation is pure: passes may remove, repeat and move it.
    pub const fn is_pure(self) -> bool {
        self.bits() & !Effects::PAYLOAD.bits() == 0
    }

    /// Returns whether the operation is a sync point, at which a lane may wait.
    pub const fn is_sync_point(self) -> bool {
        self.intersects(
            Effects::SYNC_WARP
                .union(Effects::SYNC_CTA)
                .union(Effects::SYNC_CLUSTER)
                .union(Effects::YIELDS),
        )
    }
}

/// Calls the macro `$m` with all rows of the op table. A row has the form
/// `Variant "text" (effects) (meaning) [shape];`.
#[macro_export]
macro_rules! for_each_op {
    ($m:ident) => {
        $m! {
            // Structure.
            Const "const" (PAYLOAD) (none) [shape(HELD, "", "t")];
            LocalAddr "local.addr" (PAYLOAD) (none) [shape(&[U64], "", "t")];
            SymbolAddr "symbol.addr" (PAYLOAD) (none) [shape(&[U64], "", "t")];
            ParamAddr "param.addr" (PAYLOAD) (none) [shape(&[U64], "", "t")];
            FuncAddr "func.addr" (PAYLOAD) (none) [shape(&[U64], "", "t")];
            SReg "sreg" (PAYLOAD) (none) [shape(&[U32, U64, Pred], "", "t")];
            Clock "clock" (PAYLOAD | TIME) (none) [shape(&[U32, U64, Pred], "", "t")];
            Bitcast "bitcast" () (pure data::bitcast) [shape(HELD, "s", "t").from(HELD)];
            Pack "pack" () (pure data::pack) [shape(BITS, "", "t").from(BITS).operands(Parts)];
            Unpack "unpack" () (pure data::unpack) [shape(BITS, "s", "").from(BITS).results(Parts)];
            // Control flow.
            Jump "jump" (TERMINATOR) (none) [NOTHING.targets(Exactly(1))];
            Brif "brif" (TERMINATOR) (none) [shape(NONE, "p", "").targets(Exactly(2))];
            BrTable "br_table" (TERMINATOR) (none) [shape(NONE, "b", "").targets(AtLeastOne)];
            Ret "ret" (TERMINATOR) (none) [NOTHING.operands(Signature)];
            Exit "exit" (TERMINATOR) (none) [NOTHING];
            Trap "trap" (TERMINATOR | MAY_TRAP) (none) [NOTHING];
            Unreachable "unreachable" (TERMINATOR | MAY_TRAP) (none) [NOTHING];
            // The pass `calls` inserts the next two ops when it merges the bodies of called functions into the kernel.
            InvalidPc "invalid.pc" (TERMINATOR | MAY_TRAP) (none) [shape(NONE, "q", "")];
            StackCheck "stack.check" (MAY_TRAP) (none) [shape(NONE, "a", "")];
            // `pass::instrument` inserts this op in front of the accesses that a checking run examines.
            CheckAccess "check.access" (MAY_TRAP) (none)
                [shape(MEMORY, "", "a").operands(Examined).mods(&["space", "order", "scope", "vec_log2", "atom_op", "mode", "flag", "nc", "noftz", "asel", "bsel", "dsel"])];
            // `pass::instrument` inserts this op in front of the accesses that a tool observes.
            ObserveAccess "observe.access" (MAY_TRAP) (none)
                [shape(MEMORY, "", "").operands(Examined).mods(&["space", "order", "scope", "vec_log2", "atom_op", "mode", "nc"])];
            // `pass::instrument` and the front end insert this op in front of other events that a tool observes.
            ObserveEvent "observe.event" (PAYLOAD | MAY_TRAP) (none) [shape(NONE, "b?b?", "")];
            CheckFence "check.fence" (MAY_TRAP | FENCE) (none) [NOTHING.mods(&["order", "scope"])];
            // The front end creates this op for asynchronous copies, for groups of asynchronous copies, and for fences
            // between proxies. `pass::instrument` removes the op if no tool needs it.
            CheckGroup "check.group" (MAY_TRAP) (none) [shape(NONE, "b?", "").mods(&["mode"])];
            Call "call" (PAYLOAD | READS | WRITES | MAY_TRAP | CONVERGENT) (none) [BY_SIGNATURE];
            CallIndirect "call.indirect" (PAYLOAD | READS | WRITES | MAY_TRAP | CONVERGENT) (none) [BY_SIGNATURE];
            Syscall "syscall" (PAYLOAD | READS | WRITES | MAY_TRAP) (none) [BY_SIGNATURE];
            // Integer and floating-point arithmetic share a row if PTX uses the same opcode name for both.
            Add "add" () (pure arith::add) [shape(ARITHMETIC, "mt", "tc").maybe_from(HALVES).mods(SUM_MODS)];
            Sub "sub" () (pure arith::sub) [shape(ARITHMETIC, "mt", "tc").maybe_from(HALVES).mods(SUM_MODS)];
            Mul "mul" () (pure arith::mul) [shape(ARITHMETIC, "tt", "w").mods(&["rounding", "ftz", "sat", "half"])];
            Mad "mad" () (pure arith::mad) [shape(INT, "ttw", "wc").mods(&["half", "sat", "carry_out"])];
            Fma "fma" () (pure float::fma)
                [shape(FUSED, "mmt", "t").maybe_from(HALVES).mods(&["rounding", "ftz", "sat", "relu", "oob"])];
            Addc "addc" () (pure carry::addc) [shape(INT, "ttp", "tc").mods(&["carry_out"])];
            Subc "subc" () (pure carry::subc) [shape(INT, "ttp", "tc").mods(&["carry_out"])];
            Madc "madc" () (pure carry::madc) [shape(INT, "tttp", "tc").mods(&["half", "carry_out"])];
            Mul24 "mul24" () (pure int::mul24) [shape(I32, "tt", "t").mods(&["half"])];
            Mad24 "mad24" () (pure int::mad24) [shape(I32, "ttt", "t").mods(&["half", "sat"])];
            Sad "sad" () (pure int::sad) [shape(INT, "ttt", "t")];
            Div "div" () (pure arith::div) [shape(DIVIDED, "tt", "t").mods(FLOAT_MODS)];
            Rem "rem" () (pure int::rem) [shape(INT, "tt", "t")];
            Abs "abs" () (pure arith::abs) [shape(ARITHMETIC, "t", "t").mods(&["ftz"])];
            Neg "neg" () (pure arith::neg) [shape(ARITHMETIC, "t", "t").mods(&["ftz"])];
            Min "min" () (pure arith::min) [shape(ARITHMETIC, "ttt?", "t").mods(MIN_MAX_MODS)];
            Max "max" () (pure arith::max) [shape(ARITHMETIC, "ttt?", "t").mods(MIN_MAX_MODS)];
            Popc "popc" () (pure bits::popc) [shape(B32_64, "t", "b")];
            Clz "clz" () (pure bits::clz) [shape(B32_64, "t", "b")];
            Bfind "bfind" () (pure bits::bfind) [shape(I32_64, "t", "b").mods(&["flag"])];
            Fns "fns" () (pure bits::fns) [shape(&[B32], "bbb", "b")];
            Brev "brev" () (pure bits::brev) [shape(B32_64, "t", "t")];
            Bfe "bfe" () (pure bits::bfe) [shape(I32_64, "tbb", "t")];
            Bfi "bfi" () (pure bits::bfi) [shape(B32_64, "ttbb", "t")];
            Szext "szext" () (pure bits::szext) [shape(I32, "tb", "t").mods(&["mode"])];
            Bmsk "bmsk" () (pure bits::bmsk) [shape(&[B32], "tt", "t").mods(&["mode"])];
            Dp4a "dp4a" () (pure int::dp4a) [shape(I32, "bbb", "b").from(I32).mods(&["half"])];
            Dp2a "dp2a" () (pure int::dp2a) [shape(I32, "bbb", "b").from(I32).mods(&["half"])];
            Rcp "rcp" () (pure arith::rcp) [FUNCTION];
            Sqrt "sqrt" () (pure arith::sqrt) [FUNCTION];
            Rsqrt "rsqrt" () (pure approx::rsqrt) [FUNCTION];
            Sin "sin" () (pure approx::sin) [FUNCTION];
            Cos "cos" () (pure approx::cos) [FUNCTION];
            Lg2 "lg2" () (pure approx::lg2) [FUNCTION];
            Ex2 "ex2" () (pure approx::ex2) [FUNCTION];
            Tanh "tanh" () (pure approx::tanh) [FUNCTION];
            Copysign "copysign" () (pure float::copysign) [shape(SINGLE, "tt", "t")];
            Testp "testp" () (pure compare::testp) [shape(SINGLE, "t", "p").mods(&["mode"])];
            // Comparison and selection.
            Set "set" () (pure compare::set) [shape(SET, "ssp?", "t").from(COMPARED).mods(&["cmp", "bool_op", "ftz"])];
            Setp "setp" () (pure compare::setp) [shape(COMPARED, "ttp?", "pp?").mods(&["cmp", "bool_op", "ftz"])];
            Selp "selp" () (pure compare::selp) [shape(SCALAR, "xxp", "x")];
            Slct "slct" () (pure compare::slct) [shape(SCALAR, "tts", "t").from(&[S32, F32]).mods(&["ftz"])];
            // Logic and shifts.
            And "and" () (pure bits::and) [shape(LOGIC, "tt", "t")];
            Or "or" () (pure bits::or) [shape(LOGIC, "tt", "t")];
            Xor "xor" () (pure bits::xor) [shape(LOGIC, "tt", "t")];
            Not "not" () (pure bits::not) [shape(LOGIC, "t", "t")];
            Cnot "cnot" () (pure bits::cnot) [shape(LOGIC, "t", "t")];
            Lop3 "lop3" () (pure bits::lop3) [shape(&[B32], "tttbp?", "tp?").mods(&["bool_op"])];
            Shl "shl" () (pure bits::shl) [shape(SHIFTED, "tb", "t")];
            Shr "shr" () (pure bits::shr) [shape(SHIFTED, "tb", "t")];
            Shf "shf" () (pure bits::shf) [shape(&[B32], "ttb", "t").mods(&["mode", "flag"])];
            Prmt "prmt" () (pure bits::prmt) [shape(&[B32], "ttb", "t").mods(&["mode"])];
            // Conversion.
            Cvt "cvt" () (pure cvt::cvt)
                [shape(CONVERTED, "", "t").from(CONVERTED).operands(Converted).mods(&["rounding", "ftz", "sat", "satfinite", "relu"])];
            CvtPack "cvt.pack" () (pure cvt::cvt_pack) [shape(PACKED, "ssb?", "b").from(&[S32]).mods(&["sat"])];
            // Video.
            Vadd "vadd" () (pure video::vadd) [VIDEO];
            Vsub "vsub" () (pure video::vsub) [VIDEO];
            Vabsdiff "vabsdiff" () (pure video::vabsdiff) [VIDEO];
            Vmin "vmin" () (pure video::vmin) [VIDEO];
            Vmax "vmax" () (pure video::vmax) [VIDEO];
            Vshl "vshl" () (pure video::vshl) [VIDEO];
            Vshr "vshr" () (pure video::vshr) [VIDEO];
            Vmad "vmad" () (pure video::vmad) [VIDEO];
            Vset "vset" () (pure video::vset) [VIDEO];
            Vadd2 "vadd2" () (pure video::vadd2) [PACKED_VIDEO];
            Vsub2 "vsub2" () (pure video::vsub2) [PACKED_VIDEO];
            Vavrg2 "vavrg2" () (pure video::vavrg2) [PACKED_VIDEO];
            Vabsdiff2 "vabsdiff2" () (pure video::vabsdiff2) [PACKED_VIDEO];
            Vmin2 "vmin2" () (pure video::vmin2) [PACKED_VIDEO];
            Vmax2 "vmax2" () (pure video::vmax2) [PACKED_VIDEO];
            Vset2 "vset2" () (pure video::vset2) [PACKED_VIDEO];
            Vadd4 "vadd4" () (pure video::vadd4) [PACKED_VIDEO];
            Vsub4 "vsub4" () (pure video::vsub4) [PACKED_VIDEO];
            Vavrg4 "vavrg4" () (pure video::vavrg4) [PACKED_VIDEO];
            Vabsdiff4 "vabsdiff4" () (pure video::vabsdiff4) [PACKED_VIDEO];
            Vmin4 "vmin4" () (pure video::vmin4) [PACKED_VIDEO];
            Vmax4 "vmax4" () (pure video::vmax4) [PACKED_VIDEO];
            Vset4 "vset4" () (pure video::vset4) [PACKED_VIDEO];
            // Addresses.
            Cvta "cvta" () (none) [shape(ADDRESS, "a", "t").mods(&["space", "mode"])];
            Isspacep "isspacep" () (none) [shape(NONE, "a", "p").mods(&["space"])];
            // Memory.
            Ld "ld" (READS | MAY_TRAP) (none) [shape(MEMORY, "a", "T*").mods(MEMORY_MODS)];
            St "st" (WRITES | MAY_TRAP) (none) [shape(MEMORY, "aT*", "").mods(MEMORY_MODS)];
            Atom "atom" (READS | WRITES | MAY_TRAP) (rmw atomic::update)
                [shape(UPDATED, "at*t?", "t*").mods(ATOMIC_MODS)];
            Red "red" (READS | WRITES | MAY_TRAP) (rmw atomic::update) [shape(UPDATED, "at*t?", "").mods(ATOMIC_MODS)];
            Fence "fence" (FENCE) (none) [NOTHING.mods(&["order", "scope", "space"])];
            CpAsync "cp.async" (READS | WRITES | MAY_TRAP) (none) [shape(NONE, "aabb", "").mods(&["space"])];
            Alloca "alloca" (READS | WRITES | MAY_TRAP) (none) [shape(ADDRESS, "t", "t")];
            StackSave "stacksave" (READS) (none) [shape(ADDRESS, "", "t")];
            StackRestore "stackrestore" (WRITES) (none) [shape(ADDRESS, "t", "")];
            // Textures and surfaces.
            Tex "tex" (PAYLOAD | READS | MAY_TRAP) (none) [BY_SIGNATURE];
            Txq "txq" (PAYLOAD | READS | MAY_TRAP) (none) [BY_SIGNATURE];
            Suld "suld" (PAYLOAD | READS | MAY_TRAP) (none) [BY_SIGNATURE];
            Sust "sust" (PAYLOAD | WRITES | MAY_TRAP) (none) [BY_SIGNATURE];
            Sured "sured" (PAYLOAD | READS | WRITES | MAY_TRAP) (none) [BY_SIGNATURE];
            // Synchronisation.
            Bar "bar" (SYNC_CTA | FENCE | CONVERGENT) (none)
                [shape(&[U32, Pred], "bbp?", "t?").maybe_typed().mods(&["mode", "atom_op", "flag"])];
            BarWarp "bar.warp.sync" (SYNC_WARP | FENCE | CONVERGENT) (none) [shape(NONE, "b", "")];
            ClusterBar "barrier.cluster" (SYNC_CLUSTER | FENCE | CONVERGENT) (none)
                [NOTHING.mods(&["mode", "order", "flag"])];
            Shfl "shfl" (SYNC_WARP | CONVERGENT) (warp warp::shfl)
                [shape(&[B32], "tbbb", "tp").mods(&["mode", "flag"])];
            Vote "vote" (SYNC_WARP | CONVERGENT) (warp warp::vote)
                [shape(&[Pred, B32], "pb", "t").mods(&["mode", "flag"])];
            Match "match" (SYNC_WARP | CONVERGENT) (warp warp::match_sync) [shape(B32_64, "tb", "bp?").mods(&["mode"])];
            Redux "redux" (SYNC_WARP | CONVERGENT) (warp warp::redux)
                [shape(&[U32, S32, B32, F32], "tb", "t").mods(&["atom_op", "abs", "nan"])];
            Elect "elect" (SYNC_WARP | CONVERGENT) (warp warp::elect) [shape(NONE, "b", "bp")];
            Mma "mma" (SYNC_WARP | CONVERGENT) (warp matrix::mma)
                [shape(&[F16, F32, F64, S32], "", "").from(FACTORS).operands(Product).results(Product).mods(PRODUCT_MODS)];
            ActiveMask "activemask" (SYNC_WARP | CONVERGENT | TIME) (warp warp::activemask) [shape(&[B32], "", "b")];
            // Makes the lanes of a warp that wait at this op continue together. A lane does not wait for lanes that
            // have not arrived. The pass `sync-points` inserts this op before volatile accesses, between accesses of
            // different lanes of a warp to the same shared memory and, for targets below sm_70, before every access to
            // shared memory.
            Converge "converge" (SYNC_WARP | FENCE | CONVERGENT) (none) [NOTHING];
            // Marks the header of a loop that may wait for memory. A lane may be suspended at this op.
            Yield "yield" (YIELDS | FENCE) (none) [NOTHING.mods(&["flag"])];
            Nanosleep "nanosleep" (YIELDS | TIME) (none) [shape(&[U32], "b", "")];
            Brkpt "brkpt" (MAY_TRAP) (none) [NOTHING];
        }
    };
}

macro_rules! effects {
    () => { Effects::empty() };
    ($($flag:ident)|+) => { Effects::empty()$(.union(Effects::$flag))+ };
}

macro_rules! define_ops {
    ($($name:ident $text:literal ($($effects:tt)*) ($($meaning:tt)*) [$($shape:tt)*];)*) => {
        /// An operation: a row of the op table.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(missing_docs, reason = "the table's row says what each is")]
        pub enum Opcode { $($name,)* }

        impl Opcode {
            /// Every opcode, in the order of the op table.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];
        }

        static ROWS: &[OpRow] = &[$(OpRow {
            opcode: Opcode::$name,
            name: $text,
            effects: effects!($($effects)*),
        },)*];
    };
}

/// One row of the op table, without the reference function and the shape. [`Opcode::meaning`] and [`Opcode::shape`]
/// return these.
#[derive(Debug)]
pub struct OpRow {
    /// The opcode.
    pub opcode: Opcode,
    /// The opcode's name in the IR's text form.
    pub name: &'static str,
    /// The effects of the operation besides computing its results.
    pub effects: Effects,
}

for_each_op!(define_ops);

impl Opcode {
    /// Returns the opcode's row of the op table.
    pub fn row(self) -> &'static OpRow {
        &ROWS[self as usize]
    }

    /// Returns the opcode's name in the IR's text form.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the effects of the operation besides computing its results.
    pub fn effects(self) -> Effects {
        self.row().effects
    }

    /// Returns the opcode with this name in the IR's text form.
    pub fn from_name(name: &str) -> Option<Opcode> {
        ROWS.iter()
            .find(|row| row.name == name)
            .map(|row| row.opcode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for &opcode in Opcode::ALL {
            assert_eq!(Opcode::from_name(opcode.name()), Some(opcode));
            assert_eq!(opcode.row().opcode, opcode);
        }
    }
}
