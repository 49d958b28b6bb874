//! Keywords: the words that follow a dot and that begin a declaration or directive, or are a part
//! of one.
//!
//! The name table of a new module begins with the keywords, so that a comparison of a name's index
//! shows whether the name is a keyword. A *reserved* keyword is a keyword that is never a modifier.
//! If a reserved keyword follows an opcode or an operand, a semicolon is missing.

use crate::ast::{COMPONENTS, Name, Names};

macro_rules! keywords {
    (reserved { $($reserved:ident $reserved_word:literal)* } other { $($other:ident $other_word:literal)* }) => {
        /// A word that follows a dot and that begins a declaration or directive, or is a part of
        /// one.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
        pub(super) enum Keyword {
            $($reserved,)*
            $($other,)*
        }

        impl Keyword {
            /// All keywords with their text. The reserved keywords come first.
            const ALL: &'static [(Keyword, &'static str)] = &[
                $((Keyword::$reserved, $reserved_word),)*
                $((Keyword::$other, $other_word),)*
            ];

            const RESERVED: usize = [$($reserved_word),*].len();
        }
    };
}

keywords! {
    reserved {
        Version "version"
        Target "target"
        AddressSize "address_size"
        Entry "entry"
        Func "func"
        Extern "extern"
        Visible "visible"
        Common "common"
        File "file"
        Section "section"
        Loc "loc"
        Pragma "pragma"
        BranchTargets "branchtargets"
        CallTargets "calltargets"
        CallPrototype "callprototype"
        Reg "reg"
        Align "align"
        Attribute "attribute"
        Ptr "ptr"
        MaxNReg "maxnreg"
        MaxNTid "maxntid"
        ReqNTid "reqntid"
        MinNCtaPerSm "minnctapersm"
        MaxNCtaPerSm "maxnctapersm"
        ReqNCtaPerCluster "reqnctapercluster"
        ExplicitCluster "explicitcluster"
        MaxClusterRank "maxclusterrank"
        BlocksAreClusters "blocksareclusters"
        NoReturn "noreturn"
        AbiPreserve "abi_preserve"
        AbiPreserveControl "abi_preserve_control"
    }
    other {
        Weak "weak"
        Alias "alias"
        Global "global"
        Const "const"
        Shared "shared"
        Local "local"
        Param "param"
        Tex "tex"
        V2 "v2"
        V4 "v4"
        Managed "managed"
        Unified "unified"
        B8 "b8"
        B16 "b16"
        B32 "b32"
        B64 "b64"
        U64 "u64"
        S64 "s64"
    }
}

impl Keyword {
    /// Creates a name table that begins with the keywords. The table also contains the names of vector
    /// components, because lowering looks up these names even if the PTX text does not contain
    /// them.
    pub(super) fn names() -> Names {
        let mut names = Names::default();
        for (_, word) in Self::ALL {
            names.intern(word);
        }
        for component in COMPONENTS {
            names.intern(component);
        }
        names
    }

    /// Returns the keyword with this name, which must be from a table that [`Keyword::names`] created.
    pub(super) fn from_name(name: Name) -> Option<Self> {
        Self::ALL.get(name.index()).map(|row| row.0)
    }

    /// Whether `name` is the name of a reserved keyword: a keyword that is never a modifier.
    pub(super) fn is_reserved(name: Name) -> bool {
        name.index() < Self::RESERVED
    }

    /// Whether the keyword is the first word of a function, or of a declaration that is only
    /// permitted at module scope. If such a keyword follows a statement of a body, the closing
    /// brace of the body is missing.
    pub(super) fn starts_function(self) -> bool {
        use Keyword::*;
        matches!(self, Entry | Func | Extern | Visible | Common)
    }

    /// Whether the keyword can be the first word of a declaration or directive at module scope.
    pub(super) fn starts_item(self) -> bool {
        use Keyword::*;
        matches!(
            self,
            Entry
                | Func
                | Alias
                | Extern
                | Visible
                | Common
                | Weak
                | File
                | Section
                | Pragma
                | Align
                | Attribute
        ) || self.is_space()
    }

    /// Whether the keyword is the name of a state space.
    pub(super) fn is_space(self) -> bool {
        use Keyword::*;
        matches!(self, Reg | Global | Const | Shared | Local | Param | Tex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_keywords() {
        let names = Keyword::names();
        for &(keyword, word) in Keyword::ALL {
            let name = names.get(word).expect("interned");
            assert_eq!(Keyword::from_name(name), Some(keyword));
        }
        assert!(Keyword::is_reserved(names.get("reg").expect("interned")));
        assert!(!Keyword::is_reserved(names.get("weak").expect("interned")));
    }
}
