//! Emits strong vector accesses as single accesses of the host CPU.
//!
//! PTX guarantees no order among the elements of a vector (ISA 8.2.2), but GPUs access up to 16 bytes at once. Programs
//! rely on this: for example, they store a value together with a flag which states that the value is valid. An access
//! of up to 8 bytes is one scalar access of the host, and an access of 16 bytes is one access of a vector register. The
//! access of 16 bytes is atomic only on CPUs that guarantee atomic accesses of 16 bytes (x86-64 with AVX, if the
//! address is aligned, as PTX requires). Longer vectors are accessed 16 bytes at a time.

use cranelift_codegen::ir::{self, InstBuilder, types};

use super::lane::{Lane, device};

/// Maximum number of bytes of one access.
const WHOLE: u32 = 16;

impl Lane<'_, '_> {
    /// Emits loads of `count` elements, with as few host accesses as possible.
    pub(crate) fn load_whole(
        &mut self,
        element: ir::Type,
        address: ir::Value,
        count: usize,
    ) -> Vec<ir::Value> {
        let each = (WHOLE / element.bytes()).min(count as u32);
        (0..count as u32 / each)
            .flat_map(|part| {
                let offset = (part * each * element.bytes()) as i32;
                self.load_part(element, (address, offset), each)
            })
            .collect()
    }

    fn load_part(
        &mut self,
        element: ir::Type,
        (address, offset): (ir::Value, i32),
        count: u32,
    ) -> Vec<ir::Value> {
        let Some(word) = small(element, count) else {
            let vector = element.by(count).unwrap_or(types::I8X16);
            let all = self.b.ins().load(vector, device(), address, offset);
            return (0..count as u8)
                .map(|lane| self.b.ins().extractlane(all, lane))
                .collect();
        };
        let at = self.b.ins().iadd_imm_s(address, i64::from(offset));
        let all = self.b.ins().atomic_load(word, device(), at);
        (0..count)
            .map(|i| {
                let bits = i64::from(i * element.bits());
                let moved = self.b.ins().ushr_imm_u(all, bits);
                self.narrowed(moved, element)
            })
            .collect()
    }

    /// Emits stores of elements, with as few host accesses as possible.
    pub(crate) fn store_whole(
        &mut self,
        element: ir::Type,
        address: ir::Value,
        elements: &[ir::Value],
    ) {
        let each = (WHOLE / element.bytes()).min(elements.len() as u32);
        for (part, elements) in elements.chunks(each as usize).enumerate() {
            let offset = part as i32 * (each * element.bytes()) as i32;
            self.store_part(element, (address, offset), elements);
        }
    }

    fn store_part(
        &mut self,
        element: ir::Type,
        (address, offset): (ir::Value, i32),
        elements: &[ir::Value],
    ) {
        let elements: Vec<ir::Value> = elements
            .iter()
            .map(|&bits| self.narrowed(bits, element))
            .collect();
        let count = elements.len() as u32;
        let Some(word) = small(element, count) else {
            let vector = element.by(count).unwrap_or(types::I8X16);
            let mut all = self.b.ins().scalar_to_vector(vector, elements[0]);
            for (lane, &bits) in elements.iter().enumerate().skip(1) {
                all = self.b.ins().insertlane(all, bits, lane as u8);
            }
            self.b.ins().store(device(), all, address, offset);
            return;
        };
        let mut all = self.narrowed(elements[0], word);
        for (i, &bits) in elements.iter().enumerate().skip(1) {
            let bits = self.narrowed(bits, word);
            let moved = self
                .b
                .ins()
                .ishl_imm_u(bits, i as i64 * i64::from(element.bits()));
            all = self.b.ins().bor(all, moved);
        }
        let at = self.b.ins().iadd_imm_s(address, i64::from(offset));
        self.b.ins().atomic_store(device(), all, at);
    }
}

/// Returns the integer type that has the size of `count` elements; `None` if no type of up to 64 bits has this size.
fn small(element: ir::Type, count: u32) -> Option<ir::Type> {
    match element.bits() * count {
        bits @ (8 | 16 | 32 | 64) => ir::Type::int(bits as u16),
        _ => None,
    }
}
