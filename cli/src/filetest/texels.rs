//! Parses the textures and surfaces of file tests; [the harness](super) describes the notation.
//!
//! Enumerations use the values of the driver API, so [`Texels`] describes a texture or surface both for the runtime and
//! for any driver.

use super::directive::Buffer;
use super::value::{Type, list};

/// Kind of memory that stores texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TexelMemory {
    /// In a CUDA array.
    Array,
    /// In a mipmapped array with this number of levels.
    Mipmapped(u32),
    /// In linear device memory.
    Buffer,
    /// In rows of device memory; the field is the distance in bytes from one row to the next (the
    /// pitch).
    Rows(u64),
}

/// The object through which a kernel accesses texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A texture.
    Texture,
    /// A surface.
    Surface,
}

/// Texels and the properties of their texture or surface.
#[derive(Clone, Debug)]
pub struct Texels {
    /// Whether the object is a texture or a surface.
    pub kind: Kind,
    /// The module's variable to which the texels are bound; `None` if the object is passed as an argument.
    pub variable: Option<String>,
    /// The memory that stores the texels.
    pub place: TexelMemory,
    /// Format of a texel's components, a value of `CUarray_format`.
    pub format: u32,
    /// Number of components.
    pub channels: u32,
    /// Size of a texel in bytes.
    pub texel: u64,
    /// Width, height and depth (or layers).
    pub size: [u64; 3],
    /// Flags of the array, values of `CUDA_ARRAY3D_*`.
    pub array_flags: u32,
    /// Address mode of each dimension, a value of `CUaddress_mode`.
    pub address: [u32; 3],
    /// Filter modes between texels and between levels, values of `CUfilter_mode`.
    pub filters: [u32; 2],
    /// Flags of the texture, values of `CU_TRSF_*`.
    pub flags: u32,
    /// Maximum anisotropy.
    pub anisotropy: u32,
    /// Level bias, minimum level and maximum level.
    pub levels: [f32; 3],
    /// Border colour.
    pub border: [f32; 4],
    /// Contents of all levels, level after level, and the expected contents after the launch.
    pub buffer: Buffer,
}

/// Name, `CUarray_format` and size in bytes of a component. For normalised integers of 8 and 16 bits, the
/// `CUarray_format` is the format of a texel with one component. `unorm10` texels have four components in 4 bytes.
const FORMATS: [(&str, u32, u64); 13] = [
    ("u8", 0x01, 1),
    ("u16", 0x02, 2),
    ("u32", 0x03, 4),
    ("s8", 0x08, 1),
    ("s16", 0x09, 2),
    ("s32", 0x0a, 4),
    ("f16", 0x10, 2),
    ("f32", 0x20, 4),
    ("unorm8", 0xc0, 1),
    ("unorm16", 0xc3, 2),
    ("snorm8", 0xc6, 1),
    ("snorm16", 0xc9, 2),
    ("unorm10", 0x50, 1),
];

/// Maximum number of levels. An array of the largest size that CUDA permits has fewer.
const MAX_LEVELS: u32 = 32;

const LAYERED: u32 = 1;
const SURFACE: u32 = 2;
const CUBE: u32 = 4;
const GATHER: u32 = 8;

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number"))
}

fn numbers<T: std::str::FromStr + Copy, const N: usize>(
    text: &str,
    rest: T,
) -> Result<[T; N], String> {
    let mut all = [rest; N];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > N {
        return Err(format!("at most {N} numbers"));
    }
    for (place, part) in all.iter_mut().zip(parts) {
        *place = number(part)?;
    }
    Ok(all)
}

impl Texels {
    /// Parses `[NAME] FORMAT SIZE WORDS = TYPE VALUES`. NAME is present if the texels are bound to a variable.
    ///
    /// # Errors
    ///
    /// Returns a description of the mistake in the text.
    pub fn read(kind: Kind, bound: bool, text: &str) -> Result<Texels, String> {
        let (head, contents) = text.split_once('=').ok_or("needs ... = TYPE VALUES")?;
        // Words may contain an `=` without spaces around it.
        let (head, contents) = match text.split_once(" = ") {
            Some(parts) => parts,
            None => (head, contents),
        };
        let mut words = head.split_whitespace();
        let variable = match bound {
            true => Some(words.next().ok_or("needs a name")?.to_owned()),
            false => None,
        };
        let format = words.next().ok_or("needs a format")?;
        let (name, count) = format.split_once('x').unwrap_or((format, "1"));
        let channels: u32 = number(count)?;
        let found = FORMATS.iter().find(|(known, ..)| *known == name);
        let &(_, first, bytes) = found.ok_or_else(|| format!("`{name}` is not a format"))?;
        let several = channels.checked_ilog2().unwrap_or(0);
        let size = words.next().ok_or("needs a size")?;
        let mut texels = Texels {
            kind,
            variable,
            place: TexelMemory::Array,
            format: if first >= 0xc0 {
                first + several
            } else {
                first
            },
            channels,
            texel: bytes * u64::from(channels),
            size: numbers(size, 0)?,
            array_flags: if kind == Kind::Surface { SURFACE } else { 0 },
            address: [1; 3],
            filters: [0; 2],
            flags: 0,
            anisotropy: 1,
            levels: [0.0, 0.0, 100.0],
            border: [0.0; 4],
            buffer: contents_of(contents)?,
        };
        for word in words {
            texels.word(word)?;
        }
        if texels.buffer.bytes.len() as u64 != texels.bytes() {
            return Err(format!(
                "{} bytes for texels of {}",
                texels.buffer.bytes.len(),
                texels.bytes()
            ));
        }
        Ok(texels)
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "layered" => self.array_flags |= LAYERED,
            "cube" => self.array_flags |= CUBE,
            "gather" => self.array_flags |= GATHER,
            "integer" => self.flags |= 0x01,
            "normalized" => self.flags |= 0x02,
            "srgb" => self.flags |= 0x10,
            "seamless" => self.flags |= 0x40,
            "linear" => self.filters[0] = 1,
            "trilinear" => self.filters[1] = 1,
            "buffer" => self.place = TexelMemory::Buffer,
            "pitch" => self.place = TexelMemory::Rows(number(value)?),
            "levels" => match number(value)? {
                count @ 1..=MAX_LEVELS => self.place = TexelMemory::Mipmapped(count),
                count => return Err(format!("{count} levels; 1 to {MAX_LEVELS} are possible")),
            },
            "bias" => self.levels[0] = number(value)?,
            "clamp" => {
                let [least, greatest] = numbers(value, 100.0)?;
                self.levels = [self.levels[0], least, greatest];
            }
            "anisotropy" => self.anisotropy = number(value)?,
            "border" => self.border = numbers(value, 0.0)?,
            "address" => {
                let words: Vec<&str> = value.split(',').collect();
                for (index, mode) in self.address.iter_mut().enumerate() {
                    let word = words.get(index).or(words.last()).copied().unwrap_or("");
                    let modes = ["wrap", "clamp", "mirror", "border"];
                    let found = modes.iter().position(|known| *known == word);
                    *mode = found.ok_or_else(|| format!("`{word}` is not an address mode"))? as u32;
                }
            }
            _ => return Err(format!("unknown word `{word}`")),
        }
        Ok(())
    }

    /// Returns the number of levels.
    pub fn level_count(&self) -> u32 {
        match self.place {
            TexelMemory::Mipmapped(count) => count,
            _ => 1,
        }
    }

    /// Returns width, height and depth (or layers) of a level, each at least 1.
    pub fn level_size(&self, level: u32) -> [u64; 3] {
        let part = |size: u64| (size >> level).max(1);
        let [width, height, depth] = self.size;
        let layers = self.array_flags & (LAYERED | CUBE) != 0;
        let depth = if layers { depth } else { part(depth) };
        [part(width), part(height), depth]
    }

    /// Returns the number of bytes of a level.
    pub fn level_bytes(&self, level: u32) -> u64 {
        let size = self.level_size(level);
        size.into_iter().fold(self.texel, u64::saturating_mul)
    }

    /// Returns the number of bytes of all texels.
    fn bytes(&self) -> u64 {
        match self.place {
            TexelMemory::Rows(pitch) => pitch.saturating_mul(self.size[1]),
            _ => (0..self.level_count())
                .map(|level| self.level_bytes(level))
                .fold(0, u64::saturating_add),
        }
    }
}

fn contents_of(text: &str) -> Result<Buffer, String> {
    let text = text.trim();
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let ty = Type::named(name).ok_or_else(|| format!("`{name}` is not a type"))?;
    let mut bytes = Vec::new();
    for word in list(rest)? {
        bytes.extend(ty.to_bytes(ty.parse(&word)?));
    }
    Ok(Buffer {
        ty,
        bytes,
        expected: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_describe_texels() {
        let text = "unorm8x4 4,2 linear normalized address=wrap,border border=1,0.5 = u8 0*32";
        let texels = Texels::read(Kind::Texture, false, text).expect("a texture");
        assert_eq!((texels.format, texels.channels, texels.texel), (0xc2, 4, 4));
        assert_eq!(texels.address, [0, 3, 3]);
        assert_eq!(texels.border, [1.0, 0.5, 0.0, 0.0]);
        assert_eq!((texels.filters, texels.flags), ([1, 0], 2));
        let text = "t f32 4,4 levels=3 = f32 0*21";
        let texels = Texels::read(Kind::Texture, true, text).expect("a reference");
        assert_eq!(texels.variable.as_deref(), Some("t"));
        assert_eq!(texels.level_bytes(1), 16);
        assert!(Texels::read(Kind::Texture, false, "f32 4 = f32 0*5").is_err());
        assert!(Texels::read(Kind::Texture, false, "f32 4 sharp = f32 0*4").is_err());
        let read = |text| Texels::read(Kind::Texture, false, text).map(|_| ());
        let said = |text: &str| Err(text.to_owned());
        assert_eq!(
            read("f32 1,1 levels=65 = f32 0*65"),
            said("65 levels; 1 to 32 are possible")
        );
        assert_eq!(
            read("f32 4294967296,4294967296 = f32 0*4"),
            said("16 bytes for texels of 18446744073709551615")
        );
    }
}
