//! Lowers 32-bit addresses, which modules without `.address_size 64` can contain.
//!
//! A 32-bit address of global or constant memory is the host address itself, because device memory is below 4 GiB in a
//! process that runs such modules. The windows of shared and local memory are above 4 GiB, so
//! 32-bit generic addresses from [`SHARED`] and [`LOCAL`] on represent addresses in these windows.
//! The addresses of device memory are [`GLOBAL`] or higher. Before each access, a 32-bit generic
//! address is converted to a 64-bit address.

use margay_ir::entity::Value;
use margay_ops::meaning::Desc;
use margay_ops::mods::{CmpOp, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::function::FunctionLowering;

/// The 32-bit generic address of the first byte of shared memory.
const SHARED: u64 = 0x0100_0000;
/// The 32-bit generic address of the first byte of local memory.
const LOCAL: u64 = 0x0200_0000;
/// The lowest 32-bit generic address that refers to device memory.
const GLOBAL: u64 = 0x0300_0000;

impl FunctionLowering<'_, '_> {
    /// Whether an address has 32 bits.
    pub(super) fn is_narrow(&self, address: Value) -> bool {
        self.b.function.dfg.ty(address).lane_bits() == 32
    }

    /// Emits the conversion of a 32-bit global or generic address to the 64-bit address that a load,
    /// store or call needs. Returns any other address unchanged. The handle of a function counts as
    /// an address of global memory.
    pub(super) fn wide_address(&mut self, address: Value, space: StateSpace) -> Value {
        match space {
            _ if !self.is_narrow(address) => address,
            StateSpace::None => self.wide_generic(address),
            StateSpace::Global => self.wide(address),
            _ => address,
        }
    }

    fn wide(&mut self, address: Value) -> Value {
        let address = self.plain(address);
        self.convert(address, OpType::U32, OpType::U64)
    }

    /// Emits the conversion of a 32-bit generic address to a 64-bit generic address.
    fn wide_generic(&mut self, address: Value) -> Value {
        let address = self.wide(address);
        let shared = self.in_window(address, SHARED, StateSpace::Shared);
        let local = self.in_window(address, LOCAL, StateSpace::Local);
        let window = self.choose(address, LOCAL, shared, local);
        self.choose(address, GLOBAL, window, address)
    }

    /// Emits the conversion of a 32-bit generic address, from `start` on, to the 64-bit generic
    /// address in the window of `space`.
    fn in_window(&mut self, address: Value, start: u64, space: StateSpace) -> Value {
        let offset = self.offset_by(address, (start as i64).wrapping_neg());
        let desc = Desc {
            opcode: Opcode::Cvta,
            ty: OpType::U64,
            src: OpType::None,
            mods: Mods::NONE.with_space(space),
        };
        self.b.op(desc, &[offset], Type::B64)
    }

    /// Emits a `selp`, which returns `below` if `address` is less than `limit`, and `other`
    /// otherwise.
    fn choose(&mut self, address: Value, limit: u64, below: Value, other: Value) -> Value {
        let limit = self.b.constant(Type::B64, limit);
        let is_below = self.compare(CmpOp::Lo, OpType::U64, address, limit);
        let desc = Desc {
            opcode: Opcode::Selp,
            ty: OpType::B64,
            src: OpType::None,
            mods: Mods::NONE,
        };
        self.b.op(desc, &[below, other, is_below], Type::B64)
    }

    /// Lowers a `cvta` to a 32-bit address. If `to_space` is false, `address` is an address in
    /// `space`, and the result is generic. If `to_space` is true, `address` is generic, and the
    /// result is an address in `space`.
    pub(super) fn narrow_cvta(
        &mut self,
        address: Value,
        space: StateSpace,
        to_space: bool,
    ) -> Value {
        let address = match self.b.function.dfg.ty(address).lane_bits() {
            64 => self.convert(address, OpType::U64, OpType::U32),
            _ => self.plain(address),
        };
        let start = match space {
            StateSpace::Shared => SHARED,
            StateSpace::Local => LOCAL,
            _ => 0,
        };
        let distance = start as i64;
        self.offset_by(address, if to_space { -distance } else { distance })
    }
}

#[cfg(test)]
mod tests {
    use crate::SourceFile;
    use crate::resolve::{Resolution, resolve};

    fn resolution(head: &str, body: &str) -> Resolution {
        let text = format!(
            "{head}\n.global .u32 g;\n.entry k(.param .u32 p) {{ .shared .u32 s; .reg .u32 %r<3>; .reg .u64 %d;\n{body}\n}}"
        );
        let parsed = crate::parse(SourceFile::new("a", text));
        assert!(!parsed.has_errors(), "{:?}", parsed.diagnostics);
        resolve(&parsed)
    }

    #[test]
    fn the_module_decides_whether_addresses_are_narrow() {
        let narrow = [
            "ld.global.u32 %r1, [%r2+4];",
            "st.u32 [%r2], %r1;",
            "atom.global.add.u32 %r1, [%r2], 1;",
            "mov.u32 %r1, g;",
            "cvta.shared.u32 %r1, s;",
            "cvta.to.global.u32 %r1, %r2;",
        ];
        let wide = ".version 3.1\n.target sm_20\n.address_size 64";
        for body in narrow {
            assert!(resolution(wide, body).has_errors(), "{body}");
            for head in [
                ".version 2.1\n.target sm_20",
                ".version 3.1\n.target sm_20\n.address_size 32",
            ] {
                let resolution = resolution(head, body);
                assert!(!resolution.has_errors(), "{:?}", resolution.diagnostics);
                assert!(resolution.is_narrow(), "{body}");
            }
        }
        let no_size = ".version 3.1\n.target sm_20";
        assert!(
            !resolution(
                no_size,
                "ld.global.u32 %r1, [%d]; ld.shared.u32 %r1, [%r2];"
            )
            .is_narrow()
        );
        assert!(resolution(".version 3.1\n.target sm_20\n.address_size 32", "ret;").is_narrow());
    }
}
