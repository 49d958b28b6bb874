//! Appends instructions to functions.

use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::BlockCall;
use margay_ops::meaning::Desc;
use margay_ops::types::{Kind, Type};
use smallvec::SmallVec;

use crate::constants::{Form, folded};
use crate::data::{Access, Data};
use crate::function::Function;
use crate::ops::Op;
use crate::verify::letters;

/// Appends instructions to a block of a function. Where an op has a type, its results have the types that the op table
/// states; [`crate::verify`] finds wrong operands.
#[derive(Debug)]
pub struct Builder<'a> {
    /// The function.
    pub function: &'a mut Function,
    block: Block,
    place: u64,
}

impl<'a> Builder<'a> {
    /// Creates the entry block of a function, with the parameters of its signature, and a builder that appends to it.
    pub fn new(function: &'a mut Function) -> Builder<'a> {
        let block = function.append_block();
        for ty in function.signature.params.clone() {
            function.append_param(block, ty);
        }
        Builder {
            function,
            block,
            place: 0,
        }
    }

    /// Creates a builder that appends to a block of a function, at a place.
    pub fn resume(function: &'a mut Function, block: Block, place: u64) -> Builder<'a> {
        Builder {
            function,
            block,
            place,
        }
    }

    /// Returns the parameters of the current block.
    pub fn params(&self) -> Vec<Value> {
        self.function.blocks[self.block].clone()
    }

    /// Creates a block with parameters.
    pub fn block(&mut self, params: &[Type]) -> Block {
        let block = self.function.append_block();
        for &ty in params {
            self.function.append_param(block, ty);
        }
        block
    }

    /// Appends further instructions to `block`.
    pub fn switch_to(&mut self, block: Block) {
        self.block = block;
    }

    /// Sets the place of further instructions.
    pub fn at(&mut self, place: u64) {
        self.place = place;
    }

    /// Appends an instruction with results of given types, and branch targets.
    pub fn append(
        &mut self,
        head: (Op, Option<Type>, Data),
        args: &[Value],
        results: &[Type],
        targets: &[BlockCall],
    ) -> Inst {
        let inst = self.function.append(self.block, head, args, results);
        if !targets.is_empty() {
            self.function.targets.insert(inst, targets.into());
        }
        if self.place != 0 {
            self.function.places[inst] = self.place;
        }
        inst
    }

    /// Appends an instruction with one result, whose type the op table states. Panics if the op has no such result.
    pub fn value(&mut self, op: Op, ty: Type, data: Data, args: &[Value]) -> Value {
        let result =
            letters::type_of(op.row().results, ty).expect("the op has a result of a known type");
        let inst = self.append((op, Some(ty), data), args, &[result], &[]);
        self.function.results(inst)[0]
    }

    /// Appends a constant.
    pub fn constant(&mut self, ty: Type, bits: u64) -> Value {
        self.value(Op::Const, ty, Data::Number(bits), &[])
    }

    /// Appends the operations that create a value of type `ty` with a constant form.
    pub fn known(&mut self, ty: Type, form: Form) -> Value {
        match form {
            Form::Uniform(bits) => self.constant(ty, bits),
            Form::Bits(bits) => {
                let bits = self.constant(Type::B64, bits);
                self.value(Op::Mask, ty, Data::Nothing, &[bits])
            }
            Form::Affine { base, stride } => {
                let base = self.constant(Type::scalar(ty.kind()), base);
                self.value(Op::Affine, ty, Data::Number(stride), &[base])
            }
        }
    }

    /// Like [`Builder::value`], but appends a constant if the operands determine the result.
    pub fn computed(&mut self, op: Op, ty: Type, data: Data, args: &[Value]) -> Value {
        let result =
            letters::type_of(op.row().results, ty).expect("the op has a result of a known type");
        match folded(self.function, (op, Some(ty), &data), args, &[result]) {
            Some(forms) => self.known(result, forms[0]),
            None => self.value(op, ty, data, args),
        }
    }

    /// Like [`Builder::map_all`], but appends constants if the operands determine the results.
    pub fn computed_map(
        &mut self,
        desc: Desc,
        lanes: u32,
        args: &[Value],
        results: &[Kind],
    ) -> SmallVec<[Value; 2]> {
        let types = types_of(lanes, results);
        let head = (Op::Map, types.first().copied(), &Data::Lane(desc));
        match folded(self.function, head, args, &types) {
            Some(forms) => {
                let known = types.into_iter().zip(forms);
                known.map(|(ty, form)| self.known(ty, form)).collect()
            }
            None => self.map_all(desc, lanes, args, results),
        }
    }

    /// Appends a `map` with one result of type `ty`.
    pub fn map(&mut self, desc: Desc, ty: Type, args: &[Value]) -> Value {
        self.map_all(desc, ty.lanes(), args, &[ty.kind()])[0]
    }

    /// Appends a `map` of `lanes` lanes with results of the kinds `results`. Panics if `lanes` is not a possible number.
    pub fn map_all(
        &mut self,
        desc: Desc,
        lanes: u32,
        args: &[Value],
        results: &[Kind],
    ) -> SmallVec<[Value; 2]> {
        let types = types_of(lanes, results);
        let inst = self.append(
            (Op::Map, types.first().copied(), Data::Lane(desc)),
            args,
            &types,
            &[],
        );
        self.function.results(inst).into()
    }

    /// Appends a `product` whose registers have the type `ty`, and returns its `count` results.
    pub fn product(
        &mut self,
        desc: Desc,
        ty: Type,
        args: &[Value],
        count: usize,
    ) -> SmallVec<[Value; 8]> {
        let types: SmallVec<[Type; 8]> = SmallVec::from_elem(ty, count);
        let head = (Op::Product, Some(ty), Data::Lane(desc));
        let inst = self.append(head, args, &types, &[]);
        self.function.results(inst).into()
    }

    /// Appends a `load` or `gather`.
    pub fn load(&mut self, op: Op, ty: Type, access: Access, args: &[Value]) -> Value {
        self.value(op, ty, Data::Access(access), args)
    }

    /// Appends a `store` or `scatter` of values of type `ty`.
    pub fn store(&mut self, op: Op, ty: Type, access: Access, args: &[Value]) {
        self.append((op, Some(ty), Data::Access(access)), args, &[], &[]);
    }

    /// Appends an `update` with values of type `ty`; with `has_result`, returns the old contents.
    pub fn update(
        &mut self,
        desc: Desc,
        ty: Type,
        args: &[Value],
        has_result: bool,
    ) -> Option<Value> {
        let results = if has_result { &[ty][..] } else { &[] };
        let head = (Op::Update, Some(ty), Data::Lane(desc));
        let inst = self.append(head, args, results, &[]);
        self.function.results(inst).first().copied()
    }

    /// Appends a `jump`.
    pub fn jump(&mut self, to: Block, args: &[Value]) {
        self.append((Op::Jump, None, Data::Nothing), &[], &[], &[call(to, args)]);
    }

    /// Appends a `brif`.
    pub fn branch(&mut self, condition: Value, then: (Block, &[Value]), other: (Block, &[Value])) {
        let targets = [call(then.0, then.1), call(other.0, other.1)];
        self.append((Op::Brif, None, Data::Nothing), &[condition], &[], &targets);
    }

    /// Appends a `ret`.
    pub fn ret(&mut self, values: &[Value]) {
        self.append((Op::Ret, None, Data::Nothing), values, &[], &[]);
    }

    /// Appends a `trap` or, with a condition, a `trap.if`.
    pub fn trap(&mut self, cause: u64, condition: Option<Value>) {
        let op = match condition {
            Some(_) => Op::TrapIf,
            None => Op::Trap,
        };
        self.append(
            (op, None, Data::Number(cause)),
            condition.as_slice(),
            &[],
            &[],
        );
    }
}

fn call(block: Block, args: &[Value]) -> BlockCall {
    BlockCall {
        block,
        args: args.into(),
    }
}

/// Returns the types of `lanes` lanes of these kinds. Panics if `lanes` is not a possible number.
fn types_of(lanes: u32, kinds: &[Kind]) -> SmallVec<[Type; 2]> {
    let vector = |&kind: &Kind| Type::vector(kind, lanes).expect("a power of two");
    kinds.iter().map(vector).collect()
}
