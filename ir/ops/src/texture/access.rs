//! The payload of texture and surface ops. It encodes the PTX instruction, and so determines the
//! operands and results of the op.
//!
//! The operands of an op are those of the following list that its instruction needs, in this order:
//! the handle of the texture or surface (`b64`); for textures, the handle of the sampler (`b64`, 0
//! if the texture has its own sampler); the layer (`b32`); the coordinates; the level; the
//! gradients; the offsets; the values to store.
//!
//! Invariant: [`Access::from_payload`] accepts exactly the values that [`Access::payload`] returns for valid
//! accesses.

use smallvec::SmallVec;
use std::fmt;

use crate::mods::AtomOp;
use crate::ops::Opcode;
use crate::types::{OpType, Type};

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the PTX word that its text spells")]
        pub enum $name { #[default] None, $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All variants except `None`, in the order of their declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// Returns the word for the variant in PTX; for `None`, an empty text.
            pub const fn name(self) -> &'static str {
                match self { $name::None => "", $($name::$variant => $text,)* }
            }

            /// Returns the variant with this word in PTX, or `None` if there is none.
            pub fn from_name(text: &str) -> Option<$name> {
                match text { $($text => Some($name::$variant),)* _ => None }
            }

            fn from_bits(bits: u64) -> Option<$name> {
                const VALUES: &[$name] = &[$name::None, $($name::$variant,)*];
                VALUES.get(bits as usize).copied()
            }
        }
    };
}

choice! {
    /// The PTX instruction. `None` does not occur in a valid access.
    Operation { Tex = "tex", Tld4 = "tld4", Txq = "txq", Suld = "suld", Sust = "sust",
        Sured = "sured", Suq = "suq", Istypep = "istypep", }
}
choice! {
    /// The dimensions of the texture or surface, and whether it has layers or cube faces.
    Geometry { D1 = "1d", D2 = "2d", D3 = "3d", A1 = "a1d", A2 = "a2d", Cube = "cube",
        CubeArray = "acube", }
}
choice! {
    /// The way in which the instruction selects the mipmap level; `None` is the base level.
    LevelMode { Base = "base", Level = "level", Grad = "grad", }
}
choice! {
    /// The effect of a surface access whose coordinates are outside the surface: a fault, an access
    /// to the nearest texel, or no access (reads return 0).
    Edge { Trap = "trap", Clamp = "clamp", Zero = "zero", }
}
choice! {
    /// The property of a texture, sampler or surface that `txq`, `suq` or `istypep` returns.
    Query { Width = "width", Height = "height", Depth = "depth",
        ChannelDataType = "channel_data_type", ChannelOrder = "channel_order",
        NormalizedCoords = "normalized_coords",
        ForceUnnormalizedCoords = "force_unnormalized_coords", FilterMode = "filter_mode",
        AddrMode0 = "addr_mode_0", AddrMode1 = "addr_mode_1", AddrMode2 = "addr_mode_2",
        ArraySize = "array_size", NumMipmapLevels = "num_mipmap_levels",
        NumSamples = "num_samples", MemoryLayout = "memory_layout",
        Texref = "texref", Samplerref = "samplerref", Surfref = "surfref", }
}

impl Geometry {
    /// Returns the number of coordinates, without the index of the layer.
    pub const fn dimensions(self) -> usize {
        match self {
            Geometry::D1 | Geometry::A1 => 1,
            Geometry::D2 | Geometry::A2 | Geometry::None => 2,
            Geometry::D3 | Geometry::Cube | Geometry::CubeArray => 3,
        }
    }

    /// Returns whether the first coordinate is the index of a layer.
    pub const fn is_layered(self) -> bool {
        matches!(self, Geometry::A1 | Geometry::A2 | Geometry::CubeArray)
    }

    /// Returns whether the coordinates are a direction that selects a point on a cube.
    pub const fn is_cube(self) -> bool {
        matches!(self, Geometry::Cube | Geometry::CubeArray)
    }
}

/// Maximum number of bits that a surface access loads or stores: the bits of the largest texel.
const MAX_SURFACE_BITS: u32 = 128;

/// The properties of a texture or surface instruction: its modifiers and types.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The instruction.
    pub operation: Operation,
    /// The dimensions of the texture or surface, and whether it has layers or cube faces.
    pub geometry: Geometry,
    /// The way in which the instruction selects the mipmap level.
    pub level: LevelMode,
    /// The binary logarithm of the number of elements that the instruction reads or stores.
    pub count_log2: u8,
    /// The type of an element that the instruction reads or stores.
    pub ty: OpType,
    /// The type of the coordinates: `S32` or `F32`.
    pub coords: OpType,
    /// The index of the component that `tld4` reads from four texels.
    pub component: u8,
    /// The effect of a surface access whose coordinates are outside the surface.
    pub edge: Edge,
    /// `.p`: whether the access converts texels from or to the surface's format; otherwise the access reads or writes
    /// the bytes of the texels.
    pub formatted: bool,
    /// The operation that `sured` performs on the texel.
    pub reduction: AtomOp,
    /// The property that a query (`txq`, `suq` or `istypep`) returns.
    pub query: Query,
    /// Whether the instruction has operands for texel offsets.
    pub offsets: bool,
    /// Whether the instruction has a last result that states whether the texels are resident in memory. In Margay,
    /// texels are always resident.
    pub resident: bool,
}

impl Access {
    /// Returns the number of elements that the instruction reads or stores.
    pub const fn count(&self) -> usize {
        1 << self.count_log2
    }

    /// Returns the op to which the instruction is lowered, or `None` if `operation` is `None`.
    pub const fn opcode(&self) -> Option<Opcode> {
        Some(match self.operation {
            Operation::Tex | Operation::Tld4 => Opcode::Tex,
            Operation::Txq | Operation::Suq | Operation::Istypep => Opcode::Txq,
            Operation::Suld => Opcode::Suld,
            Operation::Sust => Opcode::Sust,
            Operation::Sured => Opcode::Sured,
            Operation::None => return None,
        })
    }

    /// Returns the payload that encodes this access.
    pub const fn payload(&self) -> u64 {
        self.operation as u64
            | (self.geometry as u64) << 4
            | (self.level as u64) << 8
            | (self.count_log2 as u64) << 10
            | (self.component as u64) << 12
            | (self.edge as u64) << 14
            | (self.formatted as u64) << 16
            | (self.offsets as u64) << 17
            | (self.resident as u64) << 18
            | (self.reduction as u64) << 20
            | (self.query as u64) << 24
            | (self.ty as u64) << 32
            | (self.coords as u64) << 40
    }

    /// Returns the access with this payload; `None` if the payload is invalid.
    pub fn from_payload(payload: u64) -> Option<Access> {
        let field = |low: u32, width: u32| (payload >> low) & ((1 << width) - 1);
        let ty = |low: u32| match field(low, 8) as usize {
            0 => Some(OpType::None),
            n => OpType::ALL.get(n - 1).copied(),
        };
        let reduction = match field(20, 4) as usize {
            0 => AtomOp::None,
            n => *AtomOp::ALL.get(n - 1)?,
        };
        let access = Access {
            operation: Operation::from_bits(field(0, 4))?,
            geometry: Geometry::from_bits(field(4, 4))?,
            level: LevelMode::from_bits(field(8, 2))?,
            count_log2: field(10, 2) as u8,
            component: field(12, 2) as u8,
            edge: Edge::from_bits(field(14, 2))?,
            formatted: field(16, 1) != 0,
            offsets: field(17, 1) != 0,
            resident: field(18, 1) != 0,
            reduction,
            query: Query::from_bits(field(24, 8))?,
            ty: ty(32)?,
            coords: ty(40)?,
        };
        (access.payload() == payload && access.is_known()).then_some(access)
    }

    fn is_known(&self) -> bool {
        let counts = match self.operation {
            Operation::None => return false,
            Operation::Tex | Operation::Tld4 | Operation::Suld | Operation::Sust => 0..=2,
            _ => 0..=0,
        };
        let asks = matches!(
            self.operation,
            Operation::Txq | Operation::Suq | Operation::Istypep
        );
        let moves = matches!(self.operation, Operation::Suld | Operation::Sust);
        let bits = self.ty.bits() << self.count_log2;
        counts.contains(&self.count_log2)
            && (!moves || bits <= MAX_SURFACE_BITS)
            && asks == (self.query != Query::None)
            && asks == (self.geometry == Geometry::None)
            && (self.operation == Operation::Sured) == (self.reduction != AtomOp::None)
            && (asks || matches!(self.coords, OpType::S32 | OpType::F32))
            && (asks || self.ty != OpType::None)
    }

    /// Returns the types of the op's operands.
    pub fn params(&self) -> SmallVec<[Type; 16]> {
        let mut params: SmallVec<[Type; 16]> = SmallVec::from_elem(Type::B64, 1);
        let samples = matches!(self.operation, Operation::Tex | Operation::Tld4);
        if samples || self.operation == Operation::Txq {
            params.push(Type::B64);
        }
        if self.operation == Operation::Txq && self.level == LevelMode::Level {
            params.push(Type::B32);
        }
        if self.geometry == Geometry::None {
            return params;
        }
        if self.geometry.is_layered() {
            params.push(Type::B32);
        }
        let dimensions = self.geometry.dimensions();
        let mut several = |ty: Type, count: usize| params.extend((0..count).map(|_| ty));
        several(self.coords.held(), dimensions);
        match self.level {
            LevelMode::Level => several(self.coords.held(), 1),
            LevelMode::Grad => several(Type::F32, 2 * dimensions),
            _ => {}
        }
        if self.offsets {
            several(Type::B32, dimensions);
        }
        match self.operation {
            Operation::Sust => several(self.ty.held(), self.count()),
            Operation::Sured => several(self.ty.held(), 1),
            _ => {}
        }
        params
    }

    /// Returns the types of the op's results.
    pub fn results(&self) -> SmallVec<[Type; 5]> {
        let mut results: SmallVec<[Type; 5]> = SmallVec::new();
        match self.operation {
            Operation::Tex | Operation::Tld4 | Operation::Suld => {
                results.extend((0..self.count()).map(|_| self.ty.held()));
                if self.resident {
                    results.push(Type::PRED);
                }
            }
            Operation::Txq | Operation::Suq => results.push(Type::B32),
            Operation::Istypep => results.push(Type::PRED),
            _ => {}
        }
        results
    }

    /// Parses the text that the `Display` implementation of [`Access`] writes.
    pub fn from_words(text: &str) -> Option<Access> {
        let mut words = text.split('.');
        let mut access = Access {
            operation: Operation::from_name(words.next()?)?,
            ..Access::default()
        };
        for word in words {
            access.set(word)?;
        }
        access.is_known().then_some(access)
    }

    fn set(&mut self, word: &str) -> Option<()> {
        if let Some(geometry) = Geometry::from_name(word) {
            self.geometry = geometry;
        } else if let Some(level) = LevelMode::from_name(word) {
            self.level = level;
        } else if let Some(query) = Query::from_name(word) {
            self.query = query;
        } else if let Some(edge) = Edge::from_name(word) {
            self.edge = edge;
        } else if let Some(reduction) = AtomOp::from_name(word) {
            self.reduction = reduction;
        } else if let Some(ty) = OpType::from_name(word) {
            match self.ty {
                OpType::None => self.ty = ty,
                _ => self.coords = ty,
            }
        } else {
            match word {
                "v2" => self.count_log2 = 1,
                "v4" => self.count_log2 = 2,
                "red" => self.component = 0,
                "green" => self.component = 1,
                "blue" => self.component = 2,
                "alpha" => self.component = 3,
                "formatted" => self.formatted = true,
                "offsets" => self.offsets = true,
                "resident" => self.resident = true,
                _ => return None,
            }
        }
        Some(())
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let component = ["", "green", "blue", "alpha"][usize::from(self.component & 3)];
        let given = |on: bool, word: &'static str| if on { word } else { "" };
        write!(f, "{}", self.operation.name())?;
        for word in [
            self.geometry.name(),
            self.level.name(),
            self.query.name(),
            self.reduction.name(),
            component,
            given(self.formatted, "formatted"),
            ["", "v2", "v4", "v8"][usize::from(self.count_log2 & 3)],
            self.edge.name(),
            self.ty.name(),
            self.coords.name(),
            given(self.offsets, "offsets"),
            given(self.resident, "resident"),
        ] {
            if !word.is_empty() {
                write!(f, ".{word}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level() -> Access {
        Access {
            operation: Operation::Tex,
            geometry: Geometry::A2,
            level: LevelMode::Level,
            count_log2: 2,
            ty: OpType::U32,
            coords: OpType::F32,
            offsets: true,
            resident: true,
            ..Access::default()
        }
    }

    #[test]
    fn payload_and_words_keep_everything() {
        let store = Access {
            operation: Operation::Sust,
            geometry: Geometry::D3,
            count_log2: 1,
            ty: OpType::B16,
            coords: OpType::S32,
            edge: Edge::Zero,
            ..Access::default()
        };
        let question = Access {
            operation: Operation::Txq,
            level: LevelMode::Level,
            query: Query::Width,
            ..Access::default()
        };
        for access in [level(), store, question] {
            assert_eq!(Access::from_payload(access.payload()), Some(access));
            assert_eq!(Access::from_words(&access.to_string()), Some(access));
        }
        assert_eq!(
            level().to_string(),
            "tex.a2d.level.v4.u32.f32.offsets.resident"
        );
    }

    #[test]
    fn other_payloads_are_none() {
        assert_eq!(Access::from_payload(0), None);
        assert_eq!(Access::from_payload(level().payload() | 1 << 63), None);
        assert_eq!(Access::from_payload(level().payload() | 0xff << 40), None);
        assert_eq!(Access::from_words("tex.2d"), None);
        for words in ["suld.2d.v2.b64.s32", "sust.2d.v4.b32.s32"] {
            assert!(Access::from_words(words).is_some(), "{words}");
        }
        for words in ["suld.2d.v4.b64.s32", "sust.2d.v2.b128.s32"] {
            assert_eq!(Access::from_words(words), None, "{words}");
        }
    }

    #[test]
    fn operands_follow_the_geometry() {
        // The operands are texture, sampler, layer, x, y, level and two offsets.
        assert_eq!(level().params().len(), 8);
        assert_eq!(level().results().len(), 5);
    }
}
