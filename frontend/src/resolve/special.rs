//! The table of special registers: their names, types and components, and the PTX version and target that they need
//! (PTX ISA, section 10).

use margay_ops::sreg::SpecialReg;
use margay_ops::types::OpType;
use margay_ptx::{Target, Version};

/// A special register, or a family of numbered registers.
#[derive(PartialEq, Eq, Debug)]
pub struct Special {
    /// The name of the register, with its `%`. For a family, this is the part before the number.
    pub name: &'static str,
    /// Whether the register has the components `.x .y .z .w`.
    pub vector: bool,
    /// The number of registers of a family `%name0`, `%name1` and so on; 0 for a single register.
    pub count: u32,
    /// The type of the register, or of each component.
    pub ty: OpType,
    /// The lowest PTX version that has the register.
    pub version: Version,
    /// The lowest target that has the register.
    pub target: Target,
}

macro_rules! specials {
    ($($name:literal $ty:ident $kind:ident $($count:literal)?, $major:literal.$minor:literal, $sm:literal;)*) => {
        /// Every special register.
        pub static SPECIALS: &[Special] = &[$(Special {
            name: $name,
            vector: specials!(@vector $kind),
            count: 0 $(+ $count)?,
            ty: OpType::$ty,
            version: Version::new($major, $minor),
            target: Target::base($sm),
        },)*];
    };
    (@vector vector) => { true };
    (@vector single) => { false };
    (@vector family) => { false };
}

specials! {
    "%tid" U32 vector, 1 . 0, 0;
    "%ntid" U32 vector, 1 . 0, 0;
    "%ctaid" U32 vector, 1 . 0, 0;
    "%nctaid" U32 vector, 1 . 0, 0;
    "%laneid" U32 single, 1 . 3, 0;
    "%warpid" U32 single, 1 . 3, 0;
    "%nwarpid" U32 single, 2 . 0, 20;
    "%smid" U32 single, 1 . 3, 0;
    "%nsmid" U32 single, 1 . 3, 0;
    "%gridid" U64 single, 1 . 0, 0;
    "%lanemask_eq" U32 single, 2 . 0, 20;
    "%lanemask_le" U32 single, 2 . 0, 20;
    "%lanemask_lt" U32 single, 2 . 0, 20;
    "%lanemask_ge" U32 single, 2 . 0, 20;
    "%lanemask_gt" U32 single, 2 . 0, 20;
    "%clock" U32 single, 1 . 0, 0;
    "%clock_hi" U32 single, 5 . 0, 20;
    "%clock64" U64 single, 2 . 0, 20;
    "%globaltimer" U64 single, 3 . 1, 30;
    "%globaltimer_lo" U32 single, 3 . 1, 30;
    "%globaltimer_hi" U32 single, 3 . 1, 30;
    "%dynamic_smem_size" U32 single, 4 . 1, 20;
    "%total_smem_size" U32 single, 4 . 1, 20;
    "%aggr_smem_size" U32 single, 8 . 1, 90;
    "%current_graph_exec" U64 single, 8 . 0, 50;
    "%is_explicit_cluster" Pred single, 7 . 8, 90;
    "%clusterid" U32 vector, 7 . 8, 90;
    "%nclusterid" U32 vector, 7 . 8, 90;
    "%cluster_ctaid" U32 vector, 7 . 8, 90;
    "%cluster_nctaid" U32 vector, 7 . 8, 90;
    "%cluster_ctarank" U32 single, 7 . 8, 90;
    "%cluster_nctarank" U32 single, 7 . 8, 90;
    "%reserved_smem_offset_begin" B32 single, 7 . 6, 80;
    "%reserved_smem_offset_end" B32 single, 7 . 6, 80;
    "%reserved_smem_offset_cap" B32 single, 7 . 6, 80;
    "%reserved_smem_offset_" B32 family 2, 7 . 6, 80;
    "%envreg" B32 family 32, 2 . 1, 0;
    "%pm" U32 family 8, 1 . 3, 0;
    "%pm0_64" U64 single, 4 . 0, 50;
    "%pm1_64" U64 single, 4 . 0, 50;
    "%pm2_64" U64 single, 4 . 0, 50;
    "%pm3_64" U64 single, 4 . 0, 50;
    "%pm4_64" U64 single, 4 . 0, 50;
    "%pm5_64" U64 single, 4 . 0, 50;
    "%pm6_64" U64 single, 4 . 0, 50;
    "%pm7_64" U64 single, 4 . 0, 50;
}

/// Returns the table's entry for the special register with this name, such as `%tid` or `%envreg7`.
pub fn find(name: &str) -> Option<&'static Special> {
    if !name.starts_with('%') {
        return None;
    }
    let single = SPECIALS.iter().find(|s| s.count == 0 && s.name == name);
    single.or_else(|| {
        SPECIALS.iter().filter(|s| s.count > 0).find(|s| {
            let number = name.strip_prefix(s.name);
            number
                .filter(|digits| digits.len() <= 2 && (*digits == "0" || !digits.starts_with('0')))
                .and_then(|digits| digits.parse::<u32>().ok())
                .is_some_and(|number| number < s.count)
        })
    })
}

/// The source of the value that a read of a special register returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// The value of this special register of the IR.
    Register(SpecialReg),
    /// The constant 0, which is the fourth component of every register with components.
    Zero,
}

/// Returns the source of the value that a read of the special register `name`, or of its component
/// `component`, returns: a special register of the IR, or zero. Returns `None` if there is no such
/// register.
pub fn value(name: &str, component: Option<&str>) -> Option<Value> {
    let special = find(name)?;
    let text = match component {
        Some("w") if special.vector => return Some(Value::Zero),
        // A vector that is read as a scalar gives its first component, as in PTX before 2.0.
        None if special.vector => format!("{name}.x"),
        Some(component) if special.vector => format!("{name}.{component}"),
        Some(_) => return None,
        None => name.to_owned(),
    };
    let register = SpecialReg::from_name(&text).or_else(|| {
        name.starts_with("%envreg")
            .then_some(SpecialReg::EnvregOther)
    })?;
    Some(Value::Register(register))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_register_has_a_value() {
        for special in SPECIALS {
            let name = match special.count {
                0 => special.name.to_owned(),
                _ => format!("{}1", special.name),
            };
            assert!(value(&name, None).is_some(), "{name}");
            assert_eq!(find(&name), Some(special));
        }
        assert_eq!(value("%tid", Some("w")), Some(Value::Zero));
        assert_eq!(value("%laneid", Some("x")), None);
        assert_eq!(find("%envreg32"), None);
        assert_eq!(find("%pm8"), None);
    }
}
