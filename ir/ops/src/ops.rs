//! The op table: every operation of the IR, one row each.
//!
//! A row names the opcode, its name in the IR's text form, its effects and its reference meaning (see
//! [`crate::meaning`]). These are generated from the rows or use them: the opcode enum, the printer and parser,
//! the verifier, the constant folder, the interpreter, the JIT's dispatch (to a fast lowering or to a call of
//! the meaning) and the support table. The PTX syntax of each instruction, with its types and modifiers, is in
//! the crate `margay-ptx`, which names the row that each accepted instruction becomes.
//!
//! # Operands
//!
//! Operands and results are in PTX's order, except:
//!
//! | op | operands | results | remarks |
//! |---|---|---|---|
//! | `const` ... `sreg` | | one | payload: bits, slot, symbol and addend, offset in the parameter buffer, function, register |
//! | `pack`, `unpack` | parts; whole | whole; parts | lowest bits first; `ty` is the result's, `src` the operand's type |
//! | `add` ... with `.cc` | as without `.cc` | `d`, then the carry as `pred` | the carry of the adder: 1 if `sub` borrows nothing; `addc`, `subc`, `madc` have the carry as last operand |
//! | `ld` | address | one per vector element | `ty` is the type in memory; wider integers are extended by `ty`'s sign |
//! | `st` | address, elements | | a wider integer operand is truncated |
//! | `atom`, `red` | address, `b`, (`c`) | old content | `red` has no result |
//! | `cp.async` | shared address, global address, bytes written, bytes read | | completes at issue; bytes written but not read are zero |
//! | `bar` | barrier number, thread count (0: all), predicate of `red` | of `red` only | `mode`: sync, arrive or red; `atom_op`: popc, and, or |
//! | `bar.warp.sync`, `elect` | member mask | | |
//! | `shfl` | `a`, `b`, `c`, member mask | `d`, `p` | `flag`: without `.sync`, for lanes that execute it together |
//! | `vote`, `match`, `redux` | `a`, member mask | `d` (`match.all`: and `p`) | `flag` as for `shfl` |
//! | `mma` | member mask, registers of `a`, `b`, `c` | registers of `d` | see [`crate::meaning::matrix`] |
//! | `call` | arguments | as the function's signature | payload: the function |
//! | `call.indirect` | handle, arguments | as the signature | payload: the signature |
//! | `syscall` | see `margay_ir::syscall` | see `margay_ir::syscall` | payload: the system call's number |
//! | `cvta` | address | address | `mode` is `to` for `cvta.to` |
//! | `tex`, `txq`, `suld`, `sust`, `sured` | see [`crate::texture::access`] | likewise | payload: the [`Access`](crate::texture::Access) |
//! | `vadd2` ... `vset4` | `a`, `b` (parts selected, by a `prmt` for each), `c` | `d` | lane mask in `dsel` |
//! | `cvt` | values, highest element first, then random bits or scale factor | `d` | packed to packed: one operand |
//! | `brif` | condition | | two targets: true, false |
//! | `br_table` | index | | default target first |
//! | `invalid.pc` | handle | | ends the launch: the handle names no function that may be called here |
//! | `stack.check` | local address | | ends the launch with a stack overflow if the address is beyond the end of the thread's local memory |
//!
//! Addresses are `b64` (or `b32` for shared and local memory). Generic, global and constant addresses are host
//! addresses. Shared and local addresses are offsets; only their low 32 bits are used.
//!
//! Invariant: an engine handles an opcode without a meaning by its [`Effects`] alone (control flow, memory,
//! synchronisation, structure), never by a default.

mod shapes;

pub use shapes::{Pattern, Shape, Targets};

bitflags::bitflags! {
    /// What an operation does besides computing its results from its operands.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Effects: u16 {
        /// Reads memory that other threads may write.
        const READS = 1;
        /// Writes memory.
        const WRITES = 1 << 1;
        /// Waits for lanes of the warp: a warp-level synchronisation point.
        const SYNC_WARP = 1 << 2;
        /// Waits for warps of the CTA.
        const SYNC_CTA = 1 << 3;
        /// Waits for CTAs of the cluster.
        const SYNC_CLUSTER = 1 << 4;
        /// Yields: other lanes, CTAs and launches may run here, and the lane may be suspended.
        const YIELDS = 1 << 5;
        /// May end the launch with a fault.
        const MAY_TRAP = 1 << 6;
        /// The result depends on which lanes execute it together.
        const CONVERGENT = 1 << 7;
        /// Ends a block.
        const TERMINATOR = 1 << 8;
        /// The result changes from one execution to the next (clocks). The operation is neither moved nor
        /// merged.
        const TIME = 1 << 9;
        /// Orders memory accesses.
        const FENCE = 1 << 10;
        /// Has a payload instead of modifiers.
        const PAYLOAD = 1 << 11;
    }
}

impl Effects {
    /// Returns whether executions may be dropped, repeated or moved freely.
    pub const fn is_pure(self) -> bool {
        self.bits() & !Effects::PAYLOAD.bits() == 0
    }

    /// Returns whether the operation is a sync point.
    pub const fn is_sync_point(self) -> bool {
        self.intersects(
            Effects::SYNC_WARP
                .union(Effects::SYNC_CTA)
                .union(Effects::SYNC_CLUSTER)
                .union(Effects::YIELDS),
        )
    }
}

/// Calls the macro `$m` with every row: `Variant "text" (effects) (meaning);`.
#[macro_export]
macro_rules! for_each_op {
    ($m:ident) => {
        $m! {
            // Structure.
            Const "const" (PAYLOAD) (none);
            LocalAddr "local.addr" (PAYLOAD) (none);
            SymbolAddr "symbol.addr" (PAYLOAD) (none);
            ParamAddr "param.addr" (PAYLOAD) (none);
            FuncAddr "func.addr" (PAYLOAD) (none);
            SReg "sreg" (PAYLOAD) (none);
            Clock "clock" (PAYLOAD | TIME) (none);
            Bitcast "bitcast" () (pure data::bitcast);
            Pack "pack" () (pure data::pack);
            Unpack "unpack" () (pure data::unpack);
            // Control flow.
            Jump "jump" (TERMINATOR) (none);
            Brif "brif" (TERMINATOR) (none);
            BrTable "br_table" (TERMINATOR) (none);
            Ret "ret" (TERMINATOR) (none);
            Exit "exit" (TERMINATOR) (none);
            Trap "trap" (TERMINATOR | MAY_TRAP) (none);
            Unreachable "unreachable" (TERMINATOR | MAY_TRAP) (none);
            // `pass::calls` inserts these two when it merges the bodies of called functions into the kernel.
            InvalidPc "invalid.pc" (TERMINATOR | MAY_TRAP) (none);
            StackCheck "stack.check" (MAY_TRAP) (none);
            Call "call" (PAYLOAD | READS | WRITES | MAY_TRAP | CONVERGENT) (none);
            CallIndirect "call.indirect" (PAYLOAD | READS | WRITES | MAY_TRAP | CONVERGENT) (none);
            Syscall "syscall" (PAYLOAD | READS | WRITES | MAY_TRAP) (none);
            // Integer and floating-point arithmetic share a row where PTX uses one opcode name for both.
            Add "add" () (pure arith::add);
            Sub "sub" () (pure arith::sub);
            Mul "mul" () (pure arith::mul);
            Mad "mad" () (pure arith::mad);
            Fma "fma" () (pure float::fma);
            Addc "addc" () (pure carry::addc);
            Subc "subc" () (pure carry::subc);
            Madc "madc" () (pure carry::madc);
            Mul24 "mul24" () (pure int::mul24);
            Mad24 "mad24" () (pure int::mad24);
            Sad "sad" () (pure int::sad);
            Div "div" () (pure arith::div);
            Rem "rem" () (pure int::rem);
            Abs "abs" () (pure arith::abs);
            Neg "neg" () (pure arith::neg);
            Min "min" () (pure arith::min);
            Max "max" () (pure arith::max);
            Popc "popc" () (pure bits::popc);
            Clz "clz" () (pure bits::clz);
            Bfind "bfind" () (pure bits::bfind);
            Fns "fns" () (pure bits::fns);
            Brev "brev" () (pure bits::brev);
            Bfe "bfe" () (pure bits::bfe);
            Bfi "bfi" () (pure bits::bfi);
            Szext "szext" () (pure bits::szext);
            Bmsk "bmsk" () (pure bits::bmsk);
            Dp4a "dp4a" () (pure int::dp4a);
            Dp2a "dp2a" () (pure int::dp2a);
            Rcp "rcp" () (pure arith::rcp);
            Sqrt "sqrt" () (pure arith::sqrt);
            Rsqrt "rsqrt" () (pure approx::rsqrt);
            Sin "sin" () (pure approx::sin);
            Cos "cos" () (pure approx::cos);
            Lg2 "lg2" () (pure approx::lg2);
            Ex2 "ex2" () (pure approx::ex2);
            Tanh "tanh" () (pure approx::tanh);
            Copysign "copysign" () (pure float::copysign);
            Testp "testp" () (pure compare::testp);
            // Comparison and selection.
            Set "set" () (pure compare::set);
            Setp "setp" () (pure compare::setp);
            Selp "selp" () (pure compare::selp);
            Slct "slct" () (pure compare::slct);
            // Logic and shifts.
            And "and" () (pure bits::and);
            Or "or" () (pure bits::or);
            Xor "xor" () (pure bits::xor);
            Not "not" () (pure bits::not);
            Cnot "cnot" () (pure bits::cnot);
            Lop3 "lop3" () (pure bits::lop3);
            Shl "shl" () (pure bits::shl);
            Shr "shr" () (pure bits::shr);
            Shf "shf" () (pure bits::shf);
            Prmt "prmt" () (pure bits::prmt);
            // Conversion.
            Cvt "cvt" () (pure cvt::cvt);
            CvtPack "cvt.pack" () (pure cvt::cvt_pack);
            // Video.
            Vadd "vadd" () (pure video::vadd);
            Vsub "vsub" () (pure video::vsub);
            Vabsdiff "vabsdiff" () (pure video::vabsdiff);
            Vmin "vmin" () (pure video::vmin);
            Vmax "vmax" () (pure video::vmax);
            Vshl "vshl" () (pure video::vshl);
            Vshr "vshr" () (pure video::vshr);
            Vmad "vmad" () (pure video::vmad);
            Vset "vset" () (pure video::vset);
            Vadd2 "vadd2" () (pure video::vadd2);
            Vsub2 "vsub2" () (pure video::vsub2);
            Vavrg2 "vavrg2" () (pure video::vavrg2);
            Vabsdiff2 "vabsdiff2" () (pure video::vabsdiff2);
            Vmin2 "vmin2" () (pure video::vmin2);
            Vmax2 "vmax2" () (pure video::vmax2);
            Vset2 "vset2" () (pure video::vset2);
            Vadd4 "vadd4" () (pure video::vadd4);
            Vsub4 "vsub4" () (pure video::vsub4);
            Vavrg4 "vavrg4" () (pure video::vavrg4);
            Vabsdiff4 "vabsdiff4" () (pure video::vabsdiff4);
            Vmin4 "vmin4" () (pure video::vmin4);
            Vmax4 "vmax4" () (pure video::vmax4);
            Vset4 "vset4" () (pure video::vset4);
            // Addresses.
            Cvta "cvta" () (none);
            Isspacep "isspacep" () (none);
            // Memory.
            Ld "ld" (READS | MAY_TRAP) (none);
            St "st" (WRITES | MAY_TRAP) (none);
            Atom "atom" (READS | WRITES | MAY_TRAP) (rmw atomic::update);
            Red "red" (READS | WRITES | MAY_TRAP) (rmw atomic::update);
            Fence "fence" (FENCE) (none);
            CpAsync "cp.async" (READS | WRITES | MAY_TRAP) (none);
            Alloca "alloca" (READS | WRITES | MAY_TRAP) (none);
            StackSave "stacksave" (READS) (none);
            StackRestore "stackrestore" (WRITES) (none);
            // Textures and surfaces.
            Tex "tex" (PAYLOAD | READS | MAY_TRAP) (none);
            Txq "txq" (PAYLOAD | READS | MAY_TRAP) (none);
            Suld "suld" (PAYLOAD | READS | MAY_TRAP) (none);
            Sust "sust" (PAYLOAD | WRITES | MAY_TRAP) (none);
            Sured "sured" (PAYLOAD | READS | WRITES | MAY_TRAP) (none);
            // Synchronisation.
            Bar "bar" (SYNC_CTA | FENCE | CONVERGENT) (none);
            BarWarp "bar.warp.sync" (SYNC_WARP | FENCE | CONVERGENT) (none);
            ClusterBar "barrier.cluster" (SYNC_CLUSTER | FENCE | CONVERGENT) (none);
            Shfl "shfl" (SYNC_WARP | CONVERGENT) (warp warp::shfl);
            Vote "vote" (SYNC_WARP | CONVERGENT) (warp warp::vote);
            Match "match" (SYNC_WARP | CONVERGENT) (warp warp::match_sync);
            Redux "redux" (SYNC_WARP | CONVERGENT) (warp warp::redux);
            Elect "elect" (SYNC_WARP | CONVERGENT) (warp warp::elect);
            Mma "mma" (SYNC_WARP | CONVERGENT) (warp matrix::mma);
            ActiveMask "activemask" (SYNC_WARP | CONVERGENT | TIME) (warp warp::activemask);
            // Makes the lanes of a warp that arrive here continue together; waits for no other lane. The pass
            // `points` inserts it before volatile accesses and between accesses to shared memory inside a warp.
            Converge "converge" (SYNC_WARP | FENCE | CONVERGENT) (none);
            // The header of a loop that waits: the lane may be suspended here.
            Yield "yield" (YIELDS | FENCE) (none);
            Nanosleep "nanosleep" (YIELDS | TIME) (none);
            Brkpt "brkpt" (MAY_TRAP) (none);
        }
    };
}

macro_rules! effects {
    () => { Effects::empty() };
    ($($flag:ident)|+) => { Effects::empty()$(.union(Effects::$flag))+ };
}

macro_rules! define_ops {
    ($($name:ident $text:literal ($($effects:tt)*) ($($meaning:tt)*);)*) => {
        /// An operation: a row of the op table.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(missing_docs, reason = "the table's row says what each is")]
        pub enum Opcode { $($name,)* }

        impl Opcode {
            /// Every opcode, in table order.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];
        }

        static ROWS: &[OpRow] = &[$(OpRow {
            opcode: Opcode::$name,
            name: $text,
            effects: effects!($($effects)*),
        },)*];
    };
}

/// One row of the op table without the meaning, which [`Opcode::meaning`] returns.
#[derive(Debug)]
pub struct OpRow {
    /// The opcode.
    pub opcode: Opcode,
    /// The opcode's name in the IR's text form.
    pub name: &'static str,
    /// What the operation does besides computing its results.
    pub effects: Effects,
}

for_each_op!(define_ops);

impl Opcode {
    /// Returns the opcode's row.
    pub fn row(self) -> &'static OpRow {
        &ROWS[self as usize]
    }

    /// Returns the opcode's name in the IR's text form.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns what the operation does besides computing its results.
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
