//! Connects each op of the op table with its reference function.

use super::Meaning;
use crate::for_each_op;
use crate::ops::Opcode;

macro_rules! meaning {
    (none) => {
        Meaning::None
    };
    (pure $path:path) => {
        Meaning::Pure({
            use crate::meaning::*;
            $path
        })
    };
    (rmw $path:path) => {
        Meaning::Rmw({
            use crate::meaning::*;
            $path
        })
    };
    (warp $path:path) => {
        Meaning::Warp({
            use crate::meaning::*;
            $path
        })
    };
}

macro_rules! define_meanings {
    ($($name:ident $text:literal ($($effects:tt)*) ($($meaning:tt)*) [$($shape:tt)*];)*) => {
        static MEANINGS: &[(Opcode, Meaning)] = &[$((Opcode::$name, meaning!($($meaning)*)),)*];
    };
}

for_each_op!(define_meanings);

impl Opcode {
    /// Returns the reference function of the op.
    pub fn meaning(self) -> Meaning {
        MEANINGS[self as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_opcodes() {
        for &opcode in Opcode::ALL {
            assert_eq!(MEANINGS[opcode as usize].0, opcode);
        }
    }
}
