//! The modifiers of an operation, packed into 64 bits.
//!
//! [`Mods`] contains everything that PTX writes after an opcode except the types: rounding,
//! saturation, comparison, state space, memory order and so on. Most fields are enums whose first
//! variant means that the instruction has no such modifier. For `mma` and `check.access`, some
//! fields have other meanings ([`crate::meaning::matrix`], [`crate::ops`]). Invariant: every bit
//! outside the declared fields is zero, so two equal sets of modifiers have equal bits.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! field_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the PTX modifier that its text spells")]
        pub enum $name { #[default] None, $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All variants except `None`, in the order of their declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The texts of all variants in PTX, without the leading dot. The first text, that of
            /// `None`, is empty.
            pub const NAMES: &'static [&'static str] = &["", $($text,)*];

            /// Returns the text of the variant in PTX, without the leading dot; for `None`, an
            /// empty text.
            pub const fn name(self) -> &'static str {
                match self { $name::None => "", $($name::$variant => $text,)* }
            }

            /// Returns the variant with this text in PTX, without the leading dot.
            pub fn from_name(text: &str) -> Option<$name> {
                match text { $($text => Some($name::$variant),)* _ => None }
            }

            const fn from_bits(bits: u64) -> $name {
                const VALUES: &[$name] = &[$name::None, $($name::$variant,)*];
                if (bits as usize) < VALUES.len() { VALUES[bits as usize] } else { $name::None }
            }
        }
    };
}

field_enum! {
    /// The rounding mode. The result is rounded to the precision of the format (`rn`, `rz`, ...) or
    /// to an integral value (`rni`, `rzi`, ...).
    Rounding { Rn = "rn", Rz = "rz", Rm = "rm", Rp = "rp", Rna = "rna", Rs = "rs",
        Rni = "rni", Rzi = "rzi", Rmi = "rmi", Rpi = "rpi", }
}
field_enum! {
    /// The comparison that `set`, `setp` and `vset` perform.
    CmpOp { Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge", Lo = "lo", Ls = "ls",
        Hi = "hi", Hs = "hs", Equ = "equ", Neu = "neu", Ltu = "ltu", Leu = "leu", Gtu = "gtu",
        Geu = "geu", Num = "num", Nan = "nan", }
}
field_enum! {
    /// The operation that combines the result of a comparison with a predicate operand.
    BoolOp { And = "and", Or = "or", Xor = "xor", }
}
field_enum! {
    /// The part of a product that an op returns: the low half, the high half, or the whole product.
    Half { Lo = "lo", Hi = "hi", Wide = "wide", }
}
field_enum! {
    /// The variant of a division, a root or a transcendental function: approximate (`.approx`), or
    /// approximate for the full range of operands (`.full`).
    Precision { Approx = "approx", Full = "full", }
}
field_enum! {
    /// The state space of an address; `None` means that the address is generic.
    StateSpace { Global = "global", Shared = "shared", SharedCluster = "shared::cluster",
        Local = "local", Const = "const", Param = "param", ParamFunc = "param::func", }
}
field_enum! {
    /// The memory order of an access or fence; `None` means the default of the instruction.
    MemOrder { Weak = "weak", Relaxed = "relaxed", Acquire = "acquire", Release = "release",
        AcqRel = "acq_rel", Sc = "sc", Volatile = "volatile", Mmio = "mmio", }
}
field_enum! {
    /// The scope of a memory order: the threads for which the order is guaranteed.
    Scope { Cta = "cta", Cluster = "cluster", Gpu = "gpu", Sys = "sys", }
}
field_enum! {
    /// The operation that `atom`, `red`, `redux` and barrier reductions perform.
    AtomOp { Add = "add", Inc = "inc", Dec = "dec", Min = "min", Max = "max", And = "and",
        Or = "or", Xor = "xor", Cas = "cas", Exch = "exch", Popc = "popc",
        // Arrivals at an mbarrier (see `meaning::mbarrier`); with `SignalDrop`, the arriving threads take no part in
        // later phases.
        Signal = "signal", SignalDrop = "signal_drop", }
}
field_enum! {
    /// A modifier that only a few opcodes have. A comment before each group of variants names these opcodes.
    Mode {
        // shfl
        Up = "up", Down = "down", Bfly = "bfly", Idx = "idx",
        // vote, match
        All = "all", Any = "any", Uni = "uni", Ballot = "ballot",
        // shf
        Left = "l", Right = "r",
        // prmt
        F4e = "f4e", B4e = "b4e", Rc8 = "rc8", Ecl = "ecl", Ecr = "ecr", Rc16 = "rc16",
        // testp
        Finite = "finite", Infinite = "infinite", Number = "number", NotANumber = "notanumber",
        Normal = "normal", Subnormal = "subnormal",
        // bmsk, szext, shf
        Clamp = "clamp", Wrap = "wrap",
        // bar
        Sync = "sync", Arrive = "arrive", Red = "red",
        // cvta
        To = "to",
        // check.access
        Load = "load", Store = "store", Update = "update", Copy = "copy", Release = "release",
        // check.group
        Begin = "begin", End = "end", BulkArrive = "bulk_arrive", BulkSync = "bulk_sync",
        BulkRead = "bulk_read", ProxyFence = "proxy_fence",
        // video: how the intermediate result is adjusted
        Shr7 = "shr7", Shr15 = "shr15", PlusOne = "po",
        // mma: rows, columns and inner length
        M8n8k4 = "m8n8k4", M8n8k16 = "m8n8k16", M8n8k32 = "m8n8k32", M8n8k128 = "m8n8k128",
        M16n8k4 = "m16n8k4", M16n8k8 = "m16n8k8", M16n8k16 = "m16n8k16", M16n8k32 = "m16n8k32",
        M16n8k64 = "m16n8k64", M16n8k128 = "m16n8k128", M16n8k256 = "m16n8k256",
        M16n16k16 = "m16n16k16", M8n32k16 = "m8n32k16", M32n8k16 = "m32n8k16",
        M16n16k8 = "m16n16k8",
    }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $get:ident, $set:ident: $ty:tt @ $lo:literal, $width:literal;)*) => {
        impl Mods {
            $(fields! { @field $(#[$doc])* $get, $set, $ty, $lo, $width })*

            /// A mask of the bits that belong to any field.
            pub const FIELD_MASK: u64 = 0 $(| (((1u64 << $width) - 1) << $lo))*;

            /// All fields, in the order of their bits.
            pub const FIELDS: &'static [Field] = &[$(Field {
                name: stringify!($get),
                low: $lo,
                width: $width,
                values: fields!(@values $ty),
            },)*];
        }
    };
    (@values bool) => { FieldValues::Flag };
    (@values u8) => { FieldValues::Number };
    (@values $ty:ident) => { FieldValues::Words($ty::NAMES) };
    (@field $(#[$doc:meta])* $get:ident, $set:ident, bool, $lo:literal, $width:literal) => {
        $(#[$doc])*
        pub const fn $get(self) -> bool { (self.0 >> $lo) & 1 != 0 }

        #[doc = concat!("Sets [`Mods::", stringify!($get), "`].")]
        #[must_use]
        pub const fn $set(self, on: bool) -> Mods {
            Mods(self.0 & !(1 << $lo) | (on as u64) << $lo)
        }
    };
    (@field $(#[$doc:meta])* $get:ident, $set:ident, u8, $lo:literal, $width:literal) => {
        $(#[$doc])*
        pub const fn $get(self) -> u8 { ((self.0 >> $lo) & ((1 << $width) - 1)) as u8 }

        #[doc = concat!("Sets [`Mods::", stringify!($get), "`].")]
        #[must_use]
        pub const fn $set(self, value: u8) -> Mods {
            let mask = ((1u64 << $width) - 1) << $lo;
            Mods(self.0 & !mask | ((value as u64) << $lo) & mask)
        }
    };
    (@field $(#[$doc:meta])* $get:ident, $set:ident, $ty:ident, $lo:literal, $width:literal) => {
        $(#[$doc])*
        pub const fn $get(self) -> $ty { $ty::from_bits((self.0 >> $lo) & ((1 << $width) - 1)) }

        #[doc = concat!("Sets [`Mods::", stringify!($get), "`].")]
        #[must_use]
        pub const fn $set(self, value: $ty) -> Mods {
            let mask = ((1u64 << $width) - 1) << $lo;
            Mods(self.0 & !mask | (value as u64) << $lo)
        }
    };
}

/// The kind of values that a field of [`Mods`] can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldValues {
    /// The values 0 and 1: an instruction has the modifier (1) or does not have it (0).
    Flag,
    /// An integer.
    Number,
    /// Indices of words in this list. The first word is empty: the instruction has no such
    /// modifier.
    Words(&'static [&'static str]),
}

/// One field of [`Mods`]: its name, its position and its possible values.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name of the method that returns the value of the field.
    pub name: &'static str,
    low: u32,
    width: u32,
    /// The kind of values that the field can have.
    pub values: FieldValues,
}

impl Field {
    /// Returns a mask of the bits of [`Mods`] that the field occupies.
    pub const fn mask(&self) -> u64 {
        ((1 << self.width) - 1) << self.low
    }

    /// Returns the value of the field in `mods`.
    pub const fn get(&self, mods: Mods) -> u64 {
        (mods.0 & self.mask()) >> self.low
    }

    /// Returns `mods` with the field set to `value`, or `None` if the field cannot have this value.
    pub fn set(&self, mods: Mods, value: u64) -> Option<Mods> {
        let known = match self.values {
            FieldValues::Words(words) => value < words.len() as u64,
            FieldValues::Flag | FieldValues::Number => value < 1 << self.width,
        };
        known.then_some(Mods(mods.0 & !self.mask() | value << self.low))
    }
}

/// The modifiers of one operation, packed into 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Mods(pub u64);

fields! {
    /// Rounding mode.
    rounding, with_rounding: Rounding @ 0, 4;
    /// `.ftz`: subnormal operands and results are replaced by a zero of the same sign.
    ftz, with_ftz: bool @ 4, 1;
    /// `.sat`: the result is limited, for integers to the range of the type, and for floating-point
    /// values to the range from 0 to 1.
    sat, with_sat: bool @ 5, 1;
    /// `.satfinite`: the results of conversions and matrix products are limited to the range of
    /// finite values.
    satfinite, with_satfinite: bool @ 6, 1;
    /// `.relu`: negative results are replaced by zero.
    relu, with_relu: bool @ 7, 1;
    /// `.NaN`: `min` and `max` return the canonical NaN if an input is NaN.
    nan, with_nan: bool @ 8, 1;
    /// `.xorsign.abs` of `min`/`max`.
    xorsign_abs, with_xorsign_abs: bool @ 9, 1;
    /// `.approx` or `.full`.
    precision, with_precision: Precision @ 10, 2;
    /// Comparison operator.
    cmp, with_cmp: CmpOp @ 12, 5;
    /// The operation that combines the result of a comparison with a predicate operand.
    bool_op, with_bool_op: BoolOp @ 17, 2;
    /// The part of a product that an op returns: the low half, the high half, or the whole product.
    half, with_half: Half @ 19, 2;
    /// `.cc`: the operation has the carry-out as its last result.
    carry_out, with_carry_out: bool @ 21, 1;
    /// State space.
    space, with_space: StateSpace @ 22, 4;
    /// Memory order.
    order, with_order: MemOrder @ 26, 4;
    /// The scope of the memory order: the threads for which the order is guaranteed.
    scope, with_scope: Scope @ 30, 3;
    /// The binary logarithm of the number of elements of a vector access.
    vec_log2, with_vec_log2: u8 @ 33, 2;
    /// Read-modify-write operation.
    atom_op, with_atom_op: AtomOp @ 35, 4;
    /// A modifier that only a few opcodes have.
    mode, with_mode: Mode @ 39, 6;
    /// A flag whose meaning depends on the opcode: `.aligned` of a barrier, `.shiftamt` of `bfind`,
    /// `.wrap` of `shf`, `.po` of `vmad`. For `shfl` and `vote`, the flag states that the
    /// instruction does not have `.sync`. For `yield`, which is in a loop, the flag states that
    /// weak loads, surface loads and system calls are the only operations with which the loop may
    /// wait, and that no exit of the loop depends on memory at an address that does not change in
    /// the loop.
    flag, with_flag: bool @ 45, 1;
    /// `.nc` (non-coherent load): the program does not write the memory while the kernel runs.
    nc, with_nc: bool @ 46, 1;
    /// `.noftz` was given.
    noftz, with_noftz: bool @ 47, 1;
    /// The video selector of operand `a`: 0 means no selector, 1 to 4 mean `b0` to `b3`, and 5 and
    /// 6 mean `h0` and `h1`.
    asel, with_asel: u8 @ 48, 3;
    /// The video selector of operand `b`, encoded as in [`Mods::asel`].
    bsel, with_bsel: u8 @ 51, 3;
    /// The video selector of the result, encoded as in [`Mods::asel`]. For a SIMD video op, a mask
    /// of the halves or bytes that the op writes.
    dsel, with_dsel: u8 @ 54, 4;
    /// The terms that `vmad` negates: bit 0 for the product, bit 1 for the addend.
    negate, with_negate: u8 @ 58, 2;
    /// `.abs` (without `.xorsign`) of three-operand `min` and `max`, and of `redux`.
    abs, with_abs: bool @ 60, 1;
    /// `.oob` of `fma`: the result is zero if a factor is the special NaN that marks elements
    /// outside a tensor.
    oob, with_oob: bool @ 61, 1;
    /// Whether operand `b` of a video op is signed. (`src` states this for `a`, and `ty` for the result.)
    bsigned, with_bsigned: bool @ 62, 1;
}

impl Mods {
    /// No modifiers.
    pub const NONE: Mods = Mods(0);

    /// Returns whether a memory access has no memory order: it is `.weak`, or it has no modifier
    /// for the order.
    pub fn is_weak(self) -> bool {
        matches!(self.order(), MemOrder::None | MemOrder::Weak)
    }

    /// Returns whether every bit that is set belongs to a field, and every field has a valid value.
    pub fn is_canonical(self) -> bool {
        let known = |field: &Field| field.set(Mods::NONE, field.get(self)).is_some();
        self.0 & !Mods::FIELD_MASK == 0 && Mods::FIELDS.iter().all(known)
    }

    /// Returns a mask of the elements of a vector load that the kernel does not use. Only
    /// `check.access` has this modifier; its bits are in the fields that contain the selectors in
    /// video ops.
    pub fn unused_elements(self) -> u8 {
        self.dsel() | self.bsel() << 4 | self.asel() << 7
    }

    /// Returns `self` with [`Mods::unused_elements`] set to `elements`.
    pub fn with_unused_elements(self, elements: u8) -> Mods {
        self.with_dsel(elements & 15)
            .with_bsel(elements >> 4 & 7)
            .with_asel(elements >> 7)
    }

    /// Returns the number of elements of a vector access.
    pub const fn vec(self) -> u32 {
        1 << self.vec_log2()
    }
}

impl fmt::Debug for Mods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mods({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_disturb_each_other() {
        let mods = Mods::NONE
            .with_rounding(Rounding::Rpi)
            .with_cmp(CmpOp::Nan)
            .with_space(StateSpace::ParamFunc)
            .with_order(MemOrder::Mmio)
            .with_mode(Mode::PlusOne)
            .with_vec_log2(3)
            .with_flag(true);
        assert_eq!(mods.rounding(), Rounding::Rpi);
        assert_eq!(mods.cmp(), CmpOp::Nan);
        assert_eq!(mods.space(), StateSpace::ParamFunc);
        assert_eq!(mods.order(), MemOrder::Mmio);
        assert_eq!(mods.mode(), Mode::PlusOne);
        assert_eq!(mods.vec(), 8);
        assert!(mods.flag());
        assert_eq!(mods.with_cmp(CmpOp::None).cmp(), CmpOp::None);
        assert_eq!(mods.0 & !Mods::FIELD_MASK, 0);
        assert!(mods.is_canonical());
    }

    #[test]
    fn unused_elements_are_kept() {
        for elements in 0..=u8::MAX {
            let mods = Mods::NONE.with_vec_log2(3).with_unused_elements(elements);
            assert_eq!((mods.unused_elements(), mods.vec()), (elements, 8));
            assert!(mods.is_canonical());
        }
    }

    #[test]
    fn words_that_a_field_lacks_are_not_canonical() {
        // The field `rounding` has four bits and ten words, so 15 is not the index of a word. Bit 63 belongs to no
        // field.
        assert!(!Mods(15).is_canonical());
        assert!(!Mods(1 << 63).is_canonical());
        let field = Mods::FIELDS.iter().find(|f| f.name == "cmp").unwrap();
        assert_eq!(
            field.set(Mods::NONE, 3),
            Some(Mods::NONE.with_cmp(CmpOp::Lt))
        );
        assert_eq!(field.set(Mods::NONE, 31), None);
    }
}
