//! The properties of opaque references: variables of the types `.texref`, `.samplerref` and
//! `.surfref`, with which a module declares textures, samplers and surfaces.

use std::fmt;

use super::{AddressMode, Filter, Sampler};

/// The kind of object to which an opaque reference refers: a texture, a sampler or a surface.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ReferenceKind {
    /// `.texref`.
    #[default]
    Texture,
    /// `.samplerref`.
    Sampler,
    /// `.surfref`.
    Surface,
}

/// The properties that the declaration of an opaque reference specifies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Reference {
    /// The kind of the variable: `.texref`, `.samplerref` or `.surfref`.
    pub kind: ReferenceKind,
    /// `addr_mode_0` to `addr_mode_2`.
    pub address: [AddressMode; 3],
    /// `filter_mode`.
    pub filter: Filter,
    /// `normalized_coords`.
    pub normalized: bool,
    /// `force_unnormalized_coords`.
    pub force_unnormalized: bool,
}

const KINDS: [(ReferenceKind, &str); 3] = [
    (ReferenceKind::Texture, "texref"),
    (ReferenceKind::Sampler, "samplerref"),
    (ReferenceKind::Surface, "surfref"),
];

const MODES: [(AddressMode, &str); 4] = [
    (AddressMode::Wrap, "wrap"),
    (AddressMode::Mirror, "mirror"),
    (AddressMode::Clamp, "clamp_to_edge"),
    (AddressMode::Border, "clamp_to_border"),
];

const FILTERS: [(Filter, &str); 2] = [(Filter::Point, "nearest"), (Filter::Linear, "linear")];

fn word<T: Copy + PartialEq>(table: &[(T, &'static str)], value: T) -> &'static str {
    let found = table.iter().find(|(known, _)| *known == value);
    found.map_or("", |(_, word)| word)
}

fn value<T: Copy>(table: &[(T, &'static str)], word: &str) -> Option<T> {
    let found = table.iter().find(|(_, known)| *known == word);
    found.map(|(value, _)| *value)
}

impl Reference {
    /// Returns the properties of an opaque reference whose declaration specifies none.
    pub fn new(kind: ReferenceKind) -> Reference {
        Reference {
            kind,
            ..Reference::default()
        }
    }

    /// Sets the property `key` to the value that the word `text` names, such as `addr_mode_0 =
    /// wrap`. Keys and words that are not known change nothing, because they do not affect
    /// sampling.
    pub fn set_word(&mut self, key: &str, text: &str) {
        // `clamp_ogl` clamps to the border colour. Because a declaration does not specify this colour, `clamp_ogl` has
        // the effect of `clamp_to_edge`.
        let text = if text == "clamp_ogl" {
            "clamp_to_edge"
        } else {
            text
        };
        let dimension = key.strip_prefix("addr_mode_").and_then(|n| n.parse().ok());
        if let Some(dimension) = dimension
            && let Some(place) = self.address.get_mut::<usize>(dimension)
            && let Some(mode) = value(&MODES, text)
        {
            *place = mode;
        }
        if key == "filter_mode"
            && let Some(filter) = value(&FILTERS, text)
        {
            self.filter = filter;
        }
    }

    /// Sets the property `key`, such as `normalized_coords`, to a number. Keys that are not known
    /// change nothing.
    pub fn set_number(&mut self, key: &str, number: u64) {
        match key {
            "normalized_coords" => self.normalized = number != 0,
            "force_unnormalized_coords" => self.force_unnormalized = number != 0,
            _ => {}
        }
    }

    /// Returns the sampler that the properties describe.
    pub fn sampler(&self) -> Sampler {
        Sampler {
            address: self.address,
            filter: self.filter,
            normalized: self.normalized,
            force_unnormalized: self.force_unnormalized,
            ..Sampler::default()
        }
    }

    /// Parses the text that the `Display` implementation of [`Reference`] writes.
    pub fn from_words(text: &str) -> Option<Reference> {
        let mut words = text.split('.');
        let mut reference = Reference::new(value(&KINDS, words.next()?)?);
        for mode in &mut reference.address {
            *mode = value(&MODES, words.next()?)?;
        }
        reference.filter = value(&FILTERS, words.next()?)?;
        for word in words {
            match word {
                "normalized" => reference.normalized = true,
                "unnormalized" => reference.force_unnormalized = true,
                _ => return None,
            }
        }
        Some(reference)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", word(&KINDS, self.kind))?;
        for mode in self.address {
            write!(f, ".{}", word(&MODES, mode))?;
        }
        write!(f, ".{}", word(&FILTERS, self.filter))?;
        if self.normalized {
            write!(f, ".normalized")?;
        }
        if self.force_unnormalized {
            write!(f, ".unnormalized")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_everything() {
        let mut reference = Reference::new(ReferenceKind::Sampler);
        reference.set_word("addr_mode_0", "wrap");
        reference.set_word("addr_mode_2", "clamp_to_border");
        reference.set_word("addr_mode_7", "wrap");
        reference.set_word("filter_mode", "linear");
        reference.set_number("force_unnormalized_coords", 1);
        let text = reference.to_string();
        assert_eq!(
            text,
            "samplerref.wrap.clamp_to_edge.clamp_to_border.linear.unnormalized"
        );
        assert_eq!(Reference::from_words(&text), Some(reference));
        assert_eq!(Reference::from_words("texref.wrap"), None);
    }
}
