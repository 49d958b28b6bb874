//! Tests of large variables. Variables that contain only zeros use no physical memory, and
//! variables larger than the device's memory cause out-of-memory errors.

use margay::{Error, Runtime};

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Returns the resident set size of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("a list");
    let pages = status.split_ascii_whitespace().nth(1).expect("a number");
    pages.parse::<u64>().expect("a number") * 4096
}

fn load(declarations: &str) -> Result<u64, Error> {
    let text = format!("{HEAD}{declarations}\n.visible .entry k() {{ ret; }}\n");
    let rt = Runtime::new()?;
    let before = resident();
    let module = rt.load_ptx(&text)?;
    let after = resident();
    drop(module);
    Ok(after.saturating_sub(before))
}

#[test]
fn zeroed_arrays_cost_no_memory() {
    for declarations in [
        ".global .b32 g[100000000];",
        ".visible .global .align 16 .b8 g[1000000001];",
        ".global .b32 g[250000000] = {1, 2, 3};",
        ".global .attribute(.managed) .b64 g[100000000];",
        ".global .align 4096 .b8 a[300000000];\n.global .b8 b[300000000];",
    ] {
        let cost = load(declarations).expect(declarations);
        assert!(cost < 64 << 20, "{declarations}: {cost} bytes");
    }
}

#[test]
fn more_than_the_device_has_is_out_of_memory() {
    for declarations in [
        ".global .b8 g[70368744177664];",
        ".global .b64 g[9223372036854775807];",
        ".global .b8 g[9223372036854775807];\n.global .b8 h[9223372036854775807];",
        ".global .v4 .b32 g[4611686018427387904];",
        ".extern .global .b64 g[9223372036854775807];\n.visible .global .b64 g[9223372036854775807];",
    ] {
        let error = load(declarations).expect_err(declarations);
        assert!(
            matches!(error, Error::OutOfMemory { .. }),
            "{declarations}: {error:?}"
        );
    }
}
