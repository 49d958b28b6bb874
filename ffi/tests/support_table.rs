//! The driver's support table as a file that other programs read (`docs/support-driver.csv`).
//!
//! It is written from the library's own table: `BLESS=1 cargo test -p margay-ffi`.

use std::fmt::Write;
use std::path::Path;

fn table() -> String {
    let mut text = String::from("family,export,symbol,since,stream,served,parameters\n");
    for (family, rows) in cuda::api::families() {
        for row in rows {
            let served = if row.served { "yes" } else { "no" };
            let parameters = row.parameters.split_whitespace().collect::<Vec<_>>();
            writeln!(
                text,
                "\"{family}\",{},{},{},{},{served},\"{}\"",
                row.export,
                row.symbol(),
                row.since,
                row.stream_suffix,
                parameters.join(" "),
            )
            .expect("strings take everything");
        }
    }
    text
}

#[test]
fn the_file_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/support-driver.csv");
    let table = table();
    if std::env::var_os("BLESS").is_some() {
        let folder = path.parent().expect("docs");
        std::fs::create_dir_all(folder).expect("docs is a folder");
        std::fs::write(&path, &table).expect("docs/support-driver.csv is written");
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(file == table, "docs/support-driver.csv is stale: BLESS=1");
}
