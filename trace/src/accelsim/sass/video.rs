//! Video instructions.

use super::Subject;
use super::step::{Steps, chain, one};

/// Returns the lines of a video instruction.
pub(super) fn steps(subject: &Subject<'_>) -> Option<Steps> {
    Some(match subject.words.head {
        "vadd" | "vsub" => chain(&["PRMT", "PRMT", "IADD3"]),
        "vmin" | "vmax" => chain(&["PRMT", "PRMT", "IMNMX"]),
        "vabsdiff" => chain(&["PRMT", "PRMT", "VABSDIFF"]),
        "vset" => chain(&["PRMT", "PRMT", "ISETP", "SEL"]),
        "vmad" => chain(&["PRMT", "PRMT", "IMAD"]),
        "vshl" => chain(&["PRMT", "PRMT", "SHF.L.U32"]),
        "vshr" => chain(&["PRMT", "PRMT", "SHF.R.U32.HI"]),
        "vabsdiff4" => one("VABSDIFF4"),
        // The instructions on two halves or four bytes are sequences of instructions on words.
        "vadd2" | "vsub2" | "vavrg2" | "vadd4" | "vsub4" | "vavrg4" => {
            chain(&["LOP3.LUT", "LOP3.LUT", "IADD3", "LOP3.LUT"])
        }
        "vabsdiff2" | "vmin2" | "vmax2" | "vset2" => {
            chain(&["PRMT", "PRMT", "IMNMX", "PRMT", "PRMT", "IMNMX", "PRMT"])
        }
        "vmin4" | "vmax4" | "vset4" => chain(&[
            "PRMT", "PRMT", "IMNMX", "PRMT", "PRMT", "IMNMX", "PRMT", "PRMT", "IMNMX", "PRMT",
            "PRMT", "IMNMX", "PRMT", "PRMT",
        ]),
        _ => return None,
    })
}
