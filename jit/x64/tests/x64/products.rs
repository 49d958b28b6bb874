//! Matrix products of a warp.

use margay_ir::parse::{cursor::Cursor, desc};
use margay_ops::meaning::Desc;
use margay_ops::meaning::matrix::{Part, Product};
use margay_ops::types::{Kind, Type};
use margay_vir::builder::Builder;
use margay_vir::function::Function;
use margay_vir::meaning::Lanes;

use crate::native::{Memory, check_for, targets};
use crate::operations::Random;

/// A product of each type of elements, with both layouts of registers, and with and without rounding.
const PRODUCTS: [&str; 16] = [
    "mma.f32.f16{mode:m16n8k16}",
    "mma.f16.f16{mode:m16n8k8}",
    "mma.f32.f16{mode:m8n8k4}",
    "mma.f32.bf16{mode:m16n8k8}",
    "mma.f32.tf32{mode:m16n8k4}",
    "mma.f32.e4m3{mode:m16n8k32}",
    "mma.f64.f64{mode:m8n8k4}",
    "mma.f64.f64{rz mode:m16n8k8}",
    "mma.s32.s8{mode:m16n8k32}",
    "mma.s32.u8{satfinite mode:m8n8k16}",
    "mma.s32.u4{mode:m16n8k64}",
    "mma.s32.b1{op:xor mode:m16n8k256}",
    "mma.f32.f16{mode:m16n16k16 noftz}",
    "mma.f32.bf16{mode:m8n32k16 noftz}",
    "mma.f32.tf32{mode:m16n16k8 noftz}",
    "mma.s32.s8{mode:m32n8k16 noftz}",
];

/// Returns a function that multiplies the matrices in its arguments and returns the product.
fn multiply(desc: Desc) -> Function {
    let product = Product::of(&desc).expect("a product");
    let kind = match product.register_bits(Part::A) {
        64 => Kind::B64,
        _ => Kind::B32,
    };
    let register = Type::vector(kind, 32).expect("a power of two");
    let (operands, results) = product.arity();
    let mut function = Function::default();
    function.signature.params = vec![register; operands - 1];
    function.signature.returns = vec![register; results];
    let mut b = Builder::new(&mut function);
    let args = b.params();
    let made = b.product(desc, register, &args, results);
    b.ret(&made);
    function
}

#[test]
fn products_are_those_of_the_reference_function() {
    let mut random = Random(11);
    for text in PRODUCTS {
        let desc = desc(&mut Cursor::new(text)).expect(text);
        let function = multiply(desc);
        let inputs: Vec<Vec<Lanes>> = (0..4).map(|_| random.operands(&function)).collect();
        for target in targets() {
            check_for(&target, &function, &inputs, &mut Memory::new(vec![0; 64]));
        }
    }
}
